"""What all importers of rows with a time of their own do alike: cut the window, skip, count, scale, say so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from tsviz.engine.workloads.errors import Place, WorkloadError
from tsviz.engine.workloads.files import TIME_LIMIT_NS
from tsviz.engine.workloads.model import Span, Workload, WorkRequest
from tsviz.engine.workloads.options import SECOND_NS, WorkloadOptions
from tsviz.engine.workloads.sources import Use, source

EMPTY_PROMPT = "empty prompt"
EMPTY_OUTPUT = "empty output"
OUTSIDE_WINDOW = "outside the window asked for"

Meta = dict[str, str | int | float | bool | None]


@dataclass(slots=True)
class Intake:
    """Requests taken so far, and the rows that were not, counted per reason."""

    options: WorkloadOptions
    requests: list[WorkRequest] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    rows: int = 0

    def wanted(self, time_ns: int, prompt_tokens: int, output_tokens: int) -> bool:
        """Count one input row; say whether it can and shall be scheduled, or count why not."""
        self.rows += 1
        reason = reason_to_skip(prompt_tokens, output_tokens)
        if reason is None and not in_window(time_ns, self.options):
            reason = OUTSIDE_WINDOW
        if reason is not None:
            self.skipped[reason] += 1
        return reason is None

    def add(self, place: Place, row: int, time_ns: int, prompt: Sequence[Span], output_tokens: int) -> None:
        """Take input row number `row` (from 1): trace time, prompt as it shall be, output length before scaling."""
        length = self.options.scaled(output_tokens)
        self.requests.append(
            WorkRequest(
                request_id=row_id(row),
                prompt=tuple(prompt),
                output=(Span(source(Use.OUTPUT, row), 0, length),),
                max_new_tokens=self.options.max_new_tokens(length),
                arrival_ns=arrival_ns(time_ns, self.options, place),
            )
        )

    def generated(self, place: Place, row: int, time_ns: int, prompt: Sequence[Span], output_tokens: int) -> None:
        """Take a generated request, as `add` does, if it lies in the window asked for."""
        if self.wanted(time_ns, 1, output_tokens):
            self.add(place, row, time_ns, prompt, output_tokens)

    def fresh_prompt(self, row: int, prompt_tokens: int) -> tuple[Span, ...]:
        """Return the prompt of a row that shares nothing, from its length before scaling."""
        return (Span(source(Use.PROMPT, row), 0, self.options.scaled(prompt_tokens)),)

    def workload(self, meta: Meta) -> Workload:
        """Return what was taken."""
        return Workload(tuple(self.requests), {**meta, "input_rows": self.rows}, dict(self.skipped))


def row_id(row: int) -> str:
    """Return the request id of an input row or a generated request; ids sort as their numbers do."""
    return f"row-{row:07d}"


def reason_to_skip(prompt_tokens: int, output_tokens: int) -> str | None:
    """Return in words why a row of such (unscaled) lengths cannot be scheduled; None if it can."""
    if prompt_tokens == 0:
        return f"{EMPTY_PROMPT} and {EMPTY_OUTPUT}" if output_tokens == 0 else EMPTY_PROMPT
    return EMPTY_OUTPUT if output_tokens == 0 else None


def in_window(time_ns: int, options: WorkloadOptions) -> bool:
    """Say whether a trace time lies in start_s <= time < start_s + window_s."""
    since = time_ns - options.start_ns
    return since >= 0 and (options.window_s is None or since < round(options.window_s * SECOND_NS))


def arrival_ns(time_ns: int, options: WorkloadOptions, place: Place) -> int:
    """Return the virtual arrival of a trace time: since `start_s`, divided by `speed`."""
    return sped_up(time_ns - options.start_ns, options, place)


def sped_up(duration_ns: int, options: WorkloadOptions, place: Place) -> int:
    """Return a duration divided by `speed`; an error if it leaves the range of times."""
    result = duration_ns if options.speed == 1 else round(duration_ns / options.speed)
    if result >= TIME_LIMIT_NS:
        raise place.error("time", f"below 2^61 ns at speed {options.speed}", f"{result} ns")
    return result


def meta_of(kind: str, options: WorkloadOptions, *, source_line: str, invented: str) -> Meta:
    """Return the metadata that every workload has; no path that is not a bare name belongs in it."""
    return {
        "kind": kind,
        "scale": options.scale,
        "speed": options.speed,
        "rows": options.rows,
        "max_new": options.max_new,
        "seed": options.seed,
        "start_s": options.start_s,
        "window_s": options.window_s,
        "source": source_line,
        "invented": invented,
    }


def refuse_window(kind: str, options: WorkloadOptions) -> None:
    """Raise for a window asked of a kind whose requests have no time of their own to cut by."""
    for name, value in (("start_s", options.start_s), ("window_s", options.window_s)):
        if value is not None:
            raise WorkloadError("workload options", "option", name, f"none: {kind} has no window", value)


def first_rows(count: int, options: WorkloadOptions) -> range:
    """Return the numbers, from 1, of the requests to generate: all, or the first `rows`."""
    return range(1, min(count, options.rows or count) + 1)


def generator_meta(kind: str, options: WorkloadOptions, parameters: Sequence[str], invented: str) -> Meta:
    """Return the metadata of a generated workload: what every one has, and the generator's parameters."""
    meta = meta_of(kind, options, source_line=f"generated by tsviz ({kind})", invented=invented)
    return {**meta, **{name: getattr(options, name) for name in parameters}}
