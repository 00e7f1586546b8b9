"""R4: bytes of prompts on the Mooncake sample: tables submissions and prefix_pages of a closed bundle.

A distinct prompt token is one of a distinct prefix page or of a tail. Scaled rows are run as recorded; rows at full
length are only submitted, since their size on disk needs no scheduling.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from pathlib import Path

import pyarrow.compute as pc

from tsviz.engine.workloads.model import Workload, expand
from tsviz.trace.entries import Arrival, Spec, SubmitEntry
from tsviz.trace.reader import Bundle
from tsviz.trace.recorder import Recorder
from tsviz.trace.tokens import FULL, IDENTITY

from .measure import Line
from .r2_size import table_bytes
from .recorded import writing
from .runs import mooncake, run_recorded, scratch
from .steady import PAGE_TOKENS, steady_options

_ROWS = 300
_FULL_LENGTH_ROWS = 600


def figures() -> Iterator[Line]:
    """Yield bytes a distinct prompt token (full) and bytes a prompt page (identity)."""
    scaled, whole = mooncake(_ROWS), mooncake(_FULL_LENGTH_ROWS, scale=1)
    if scaled is None or whole is None:
        yield Line("R4", "mooncake: the sample is not at hand", float("nan"), "")
        return
    for tokens in (FULL, IDENTITY):
        with scratch() as directory:
            run_recorded(*scaled, directory / "bundle", tokens, compacted=True)
            yield _line(directory / "bundle", f"{_ROWS} requests, lengths / 8", tokens)
        with scratch() as directory:
            _submit_only(whole[1], directory / "bundle", tokens)
            yield _line(directory / "bundle", f"{_FULL_LENGTH_ROWS} requests, submitted only", tokens)


def _submit_only(workload: Workload, path: Path, tokens: str) -> None:
    recorders: list[Recorder] = []
    module, writer = writing(path, tokens, opened=recorders.append)
    module.Scheduler(steady_options(1, 64).build(module))
    for request in workload.requests:
        spec = Spec(request.request_id, array("i", expand(request.prompt).tobytes()), request.max_new_tokens)
        arrival = Arrival(request.arrival_ns, request.after, request.think_ns)
        recorders[0].append(SubmitEntry(request.arrival_ns or 0, 0, [spec], {spec.request: arrival}, None))
    writer.close()


def _line(path: Path, case: str, tokens: str) -> Line:
    part = Bundle(path).parts[0]
    sizes = table_bytes(path)
    submissions = part.table("submissions")
    prompt_tokens = pc.sum(submissions["prompt_tokens"]).as_py()
    if tokens == IDENTITY:
        pages = len(pc.list_flatten(submissions["pages"]))
        note = f"{sizes['submissions']} bytes, {pages} pages of {prompt_tokens} prompt tokens"
        return Line("R4", f"{case}, {tokens}", sizes["submissions"] / pages, "bytes a prompt page", 8.0, note=note)
    distinct = part.rows("prefix_pages") * PAGE_TOKENS + len(pc.list_flatten(submissions["tail"]))
    total = sizes["submissions"] + sizes["prefix_pages"]
    note = f"{total} bytes, {distinct} distinct of {prompt_tokens} prompt tokens"
    return Line("R4", f"{case}, {tokens}", total / distinct, "bytes a distinct token", 4.0, note=note)
