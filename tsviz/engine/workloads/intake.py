"""What all importers of rows with a time of their own do alike: cut the window, skip, count, scale, say so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from tsviz.engine.workloads.errors import Place
from tsviz.engine.workloads.files import TIME_LIMIT_NS
from tsviz.engine.workloads.model import Span, Workload, WorkRequest
from tsviz.engine.workloads.options import WorkloadOptions
from tsviz.engine.workloads.sources import Use, source

SECOND_NS = 1_000_000_000

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
    since_s = time_ns / SECOND_NS - (options.start_s or 0.0)
    return since_s >= 0 and (options.window_s is None or since_s < options.window_s)


def arrival_ns(time_ns: int, options: WorkloadOptions, place: Place) -> int:
    """Return the virtual arrival of a trace time: since `start_s`, divided by `speed`."""
    since = time_ns - round((options.start_s or 0.0) * SECOND_NS)
    return sped_up(since, options, place)


def sped_up(duration_ns: int, options: WorkloadOptions, place: Place) -> int:
    """Return a duration divided by `speed`; an error if it leaves the range of times."""
    if options.speed == 1:
        return duration_ns
    slow = duration_ns / options.speed
    if slow >= TIME_LIMIT_NS:
        raise place.error("time", f"below 2^62 ns at speed {options.speed}", f"{slow:.3g} ns")
    return round(slow)


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
