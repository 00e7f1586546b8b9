"""Importer for ServeGen: statistics of single clients, from which requests are drawn with a seed.

A window's gaps follow the named law (Gamma, Weibull) with the given shape and a mean of 1 / rate: the second shape
parameter would give a mean of its own, which in windows of silence and one burst is up to 350 times shorter and would
make as many more requests than the client sent. Lengths come from the tables, prompt and output independently.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

from tsviz.engine.workloads.draws import gap, pick, stream
from tsviz.engine.workloads.errors import Place
from tsviz.engine.workloads.files import TextFile, file_meta, files_in, read_text
from tsviz.engine.workloads.intake import Intake, meta_of
from tsviz.engine.workloads.model import Workload
from tsviz.engine.workloads.options import SECOND_NS, WorkloadOptions
from tsviz.engine.workloads.servegen_tables import MOST_REQUESTS, WINDOW_S, Tables, Window, read_tables, read_windows

TRACE_END, DATASET_END = "-trace.csv", "-dataset.json"

_SOURCE = "ServeGen, github.com/alibaba/ServeGen, Apache-2.0"
_INVENTED = (
    "all arrivals (gaps by each window's law and shape, mean 1 / rate) and lengths (tables, prompt and output "
    "independent), drawn with the seed; all tokens: every prompt and output is unlike any other"
)


def load_servegen(path: Path, options: WorkloadOptions) -> Workload:
    """Return requests drawn for the clients of a folder, or for one `NAME-trace.csv` beside its `NAME-dataset.json`.

    `start_s` (default: the first window in which a client is not silent) and `window_s` (default: one window, 600 s)
    choose the time of day; the same seed draws the same requests for a window, whatever else is chosen. `rows` keeps
    the first drawn. Raises `WorkloadError` for what contradicts the format and when no client sends anything.
    """
    files: list[TextFile] = []
    clients: list[tuple[str, list[Window], Tables]] = []
    for trace_path in files_in(path, f"*{TRACE_END}"):
        pair = read_text(trace_path), read_text(_dataset_beside(trace_path))
        files.extend(pair)
        clients.append((trace_path.name.removesuffix(TRACE_END), read_windows(pair[0]), read_tables(pair[1])))
    options = _with_window(clients, options, Place(str(path), "all windows"))
    drawn = [d for name, windows, tables in clients for w in windows for d in _draw(name, w, tables, options)]
    drawn.sort(key=lambda d: d[0])
    intake = Intake(options)
    for row, (at_ns, prompt_tokens, output_tokens, place) in enumerate(islice(drawn, options.rows), 1):
        if intake.wanted(at_ns, prompt_tokens, output_tokens):
            intake.add(place, row, at_ns, intake.fresh_prompt(row, prompt_tokens), output_tokens)
    meta = meta_of("servegen", options, source_line=_SOURCE, invented=_INVENTED)
    return intake.workload({**meta, "clients": ", ".join(name for name, _, _ in clients), **file_meta(files)})


def _dataset_beside(trace: Path) -> Path:
    if not trace.name.endswith(TRACE_END):
        raise Place(str(trace), "whole file").error("path", f"a folder, or a file NAME{TRACE_END}", trace.name)
    return trace.with_name(trace.name.removesuffix(TRACE_END) + DATASET_END)


def _with_window(
    clients: list[tuple[str, list[Window], Tables]], options: WorkloadOptions, place: Place
) -> WorkloadOptions:
    starts = [window.start_s for _, windows, _ in clients for window in windows]
    if not starts:
        raise place.error("rate", "a window with a rate above 0", "silence")
    start_s = float(min(starts)) if options.start_s is None else options.start_s
    window_s = float(WINDOW_S) if options.window_s is None else options.window_s
    if not any(_overlap(start, start_s, window_s) for start in starts):
        nearest = min(starts, key=lambda start: abs(start - start_s))
        expected = f"time in which a client sends (nearest window: {nearest})"
        raise place.error("start_s", expected, f"{start_s:g} and {window_s:g} s on: silence")
    return replace(options, start_s=start_s, window_s=window_s)


def _overlap(window_start_s: int, start_s: float, window_s: float) -> bool:
    return window_start_s < start_s + window_s and start_s < window_start_s + WINDOW_S


def _draw(
    client: str, window: Window, tables: Tables, options: WorkloadOptions
) -> Iterator[tuple[int, int, int, Place]]:
    """Yield time in ns, prompt and output length of every request of one client in one window that is asked for."""
    start_s, window_s = options.start_s or 0.0, options.window_s or 0.0
    if not _overlap(window.start_s, start_s, window_s):
        return
    prompts, outputs = tables.at(window)
    random = stream(options.seed, "servegen", client, window.start_s)
    at_s = gap(random, window.law, window.shape, 1 / window.rate)
    for _ in range(MOST_REQUESTS):
        if at_s >= WINDOW_S:
            return
        prompt_tokens = prompts.values[pick(random, prompts.cumulated)]
        output_tokens = outputs.values[pick(random, outputs.cumulated)]
        if start_s <= window.start_s + at_s < start_s + window_s:
            yield round((window.start_s + at_s) * SECOND_NS), prompt_tokens, output_tokens, window.place
        at_s += gap(random, window.law, window.shape, 1 / window.rate)
    raise window.place.error("rate", f"fewer than {MOST_REQUESTS} requests in a window", f"{window.rate:g}")
