"""Importer for the Mooncake traces (FAST'25): one JSON object a line, prompts as chained ids of 512-token blocks.

An equal id means an equal block and everything before it equal, so an id has one predecessor and one place in any
prompt; this is checked. The last id usually stands for a partial block (ceil). With `scale` a block keeps its identity
and gets shorter: block i holds positions i*512//scale up to (i+1)*512//scale, so lengths still add up to
input_length // scale for a scale that does not divide 512, and equal ids still give equal tokens at equal places.
"""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from tsviz.engine.workloads.errors import Place, WorkloadError
from tsviz.engine.workloads.files import TextFile, parse_object, single_file, time_ns, whole_number
from tsviz.engine.workloads.intake import Intake, meta_of
from tsviz.engine.workloads.model import Span, Workload
from tsviz.engine.workloads.options import WorkloadOptions
from tsviz.engine.workloads.sources import NUMBER_BITS, Use, source

BLOCK_TOKENS = 512
"""Tokens of a block of these traces, before scaling."""

_MS_NS = 1_000_000
_SOURCE = "Mooncake traces, github.com/kvcache-ai/Mooncake (FAST'25), Apache-2.0"
_INVENTED = "the tokens of each block (from its id) and of each output (unlike any other)"


def load_mooncake(path: Path, options: WorkloadOptions) -> Workload:
    """Return the requests of a Mooncake trace: a file, or a folder with exactly one `*.jsonl`.

    Raises `WorkloadError` for rows that contradict themselves, one another or the format.
    """
    if options.scale > BLOCK_TOKENS:
        raise WorkloadError("workload options", "option", "scale", f"at most {BLOCK_TOKENS}", options.scale)
    file = single_file(path, "*.jsonl")
    intake = Intake(options)
    _take_rows(file, intake)
    meta = meta_of("mooncake", options, source_line=_SOURCE, invented=_INVENTED)
    return intake.workload({**meta, "file": file.name, "file_sha256": file.sha256})


def _take_rows(file: TextFile, intake: Intake) -> None:
    chain = _Chain(intake.options.scale)
    last_ns = 0
    for row, line in enumerate(islice(file.lines(), intake.options.rows), 1):
        place = Place(str(file.path), f"line {row}")
        values = parse_object(line, place)
        at_ns = time_ns(_field(values, "timestamp", place), place, "timestamp", _MS_NS)
        if at_ns < last_ns:
            raise place.error(
                "timestamp", f"at least {last_ns / _MS_NS:g} ms as in the row before", values["timestamp"]
            )
        last_ns = at_ns
        prompt_tokens = whole_number(_field(values, "input_length", place), place, "input_length")
        output_tokens = whole_number(_field(values, "output_length", place), place, "output_length")
        ids = _field(values, "hash_ids", place)
        spans = chain.spans(ids, prompt_tokens, place)
        if intake.wanted(at_ns, prompt_tokens, output_tokens):
            intake.add(place, row, at_ns, spans, output_tokens)


def _field(values: dict[str, object], name: str, place: Place) -> object:
    if name not in values:
        raise place.error(name, "the field to be there", f"fields {', '.join(values) or 'none'}")
    return values[name]


class _Chain:
    """The ids seen so far: what each came after, and its span when it is a full block."""

    def __init__(self, scale: int) -> None:
        self._scale = scale
        self._before: dict[int, int] = {}
        self._full: dict[int, Span] = {}

    def spans(self, ids: object, prompt_tokens: int, place: Place) -> list[Span]:
        """Return one span a block, `prompt_tokens` long after scaling."""
        blocks = -(-prompt_tokens // BLOCK_TOKENS)
        if not isinstance(ids, list):
            raise place.error("hash_ids", "a list of block ids", type(ids).__name__)
        if len(ids) != blocks:
            raise place.error(
                "hash_ids", f"{blocks} ids, one per 512 tokens of input_length {prompt_tokens}", f"{len(ids)} ids"
            )
        before, full, scale = self._before, self._full, self._scale
        spans: list[Span] = []
        previous = -1
        last = blocks - 1
        length = max(1, prompt_tokens // scale)
        start = 0
        for index, block in enumerate(ids):
            if type(block) is not int or not 0 <= block < 1 << NUMBER_BITS:
                raise place.error(f"hash_ids[{index}]", f"a whole number from 0 to 2^{NUMBER_BITS} - 1", block)
            if before.setdefault(block, previous) != previous:
                raise place.error(
                    f"hash_ids[{index}]", f"chained ids: {block} after {_named(before[block])}", _named(previous)
                )
            previous = block
            end = (index + 1) * BLOCK_TOKENS // scale
            if index == last:
                if length > start:
                    spans.append(Span(source(Use.BLOCK, block), 0, length - start))
            else:
                span = full.get(block)
                if span is None:
                    span = full[block] = Span(source(Use.BLOCK, block), 0, end - start)
                spans.append(span)
            start = end
        return spans


def _named(block: int) -> str:
    return "nothing (the first of its prompt)" if block < 0 else f"{block}"
