"""What if a knob had stood elsewhere: closed-loop runs of a recording, compared with its re-timed baseline.

Both sides run the same requests under the same cost model, so that what differs between them is the knob. How well
the baseline itself reproduces the recording is stated (debugger.md, section 4). The recording is only read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tsviz.engine.clock import VirtualClock
from tsviz.engine.observe import RunObserver
from tsviz.replay.figures.requests import Alignment, Errors, align, errors
from tsviz.replay.figures.run import Figures, RequestFigures, figures_of
from tsviz.trace.reader import Part
from tsviz.trace.tokens import FULL

from .cost import CostModel, fit_costs
from .knobs import Change, acceptance, changed_config, changed_requests
from .midway import Script
from .run import Run, Setting, run_setting
from .source import Source


@dataclass(frozen=True, slots=True)
class Outcome:
    """One run: what was changed, what the scheduler and the loop did, in numbers."""

    changes: tuple[Change, ...]
    run: Run
    figures: Figures
    requests: tuple[RequestFigures, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FitError:
    """How far the re-timed baseline lies from the recording."""

    recorded_rounds: int
    baseline_rounds: int
    ttft: Errors
    end: Errors


@dataclass(frozen=True, slots=True)
class Study:
    """A recording that is ready to be asked: its workload, its prices, and its re-timed baseline."""

    source: Source
    cost: CostModel
    module: Any
    max_rounds: int
    recorded: Figures
    baseline: Outcome
    fit_error: FitError
    script: Script | None = None
    """The recorded rounds in front of which nothing is changed; None: the runs start at round 1."""

    def run(
        self,
        changes: Sequence[Change],
        *,
        module: Any = None,
        clock: VirtualClock | None = None,
        observer: RunObserver | None = None,
        stop: Callable[[], bool] | None = None,
    ) -> Outcome:
        """Run the workload with the changes. It is always run, even if nothing is changed.

        Give `module`, `clock` and `observer` to record it. Raises RefusedConfig and BadKnob.
        """
        return _outcome(
            self.source, self.cost, changes, module or self.module, self.max_rounds,
            script=self.script, clock=clock, observer=observer, stop=stop,
        )  # fmt: skip

    def compare(self, outcome: Outcome) -> Alignment:
        """Return the requests of the baseline beside those of an outcome."""
        return align(self.baseline.requests, outcome.requests)


def study(
    part: Part,
    module: Any,
    *,
    at_round: int | None = None,
    max_rounds: int | None = None,
    unfinished_tokens: int | None = None,
    stop: Callable[[], bool] | None = None,
) -> Study:
    """Read a recording, fit its costs and run its baseline on fresh schedulers of `module`.

    `at_round`: every run makes the recorded calls up to the plan of this round, which is the first with the changes.
    `max_rounds` bounds every run; without it a recording in which requests are left open bounds them by its own
    length, any other by twice that and a thousand. `unfinished_tokens` as in `Source`.
    Raises CannotRetime, NothingToFit, RefusedConfig, and `TraceError` when a table cannot be read.
    """
    source = Source(part, unfinished_tokens=unfinished_tokens)
    cost = fit_costs(part)
    recorded, requests = figures_of(part)
    limit = max_rounds
    if limit is None:
        limit = part.last_round if recorded.live else 2 * part.last_round + 1000
    script = None if at_round is None else Script(source, module, at_round)
    baseline = _outcome(source, cost, (), module, limit, script=script, stop=stop)
    apart = align(requests, baseline.requests)
    error = FitError(recorded.rounds, baseline.figures.rounds, errors(apart, "ttft_ns"), errors(apart, "end_ns"))
    return Study(source, cost, module, limit, recorded, baseline, error, script)


def _outcome(
    source: Source,
    cost: CostModel,
    changes: Sequence[Change],
    module: Any,
    max_rounds: int,
    *,
    script: Script | None = None,
    clock: VirtualClock | None = None,
    observer: RunObserver | None = None,
    stop: Callable[[], bool] | None = None,
) -> Outcome:
    config = changed_config(source.part.config, changes, module)
    rate = acceptance(source, config, changes)
    setting = Setting(config, changed_requests(source, changes), rate)
    if script is not None:
        setting = Setting(source.part.config, source.requests, None, script, tuple(changes))
    run = run_setting(source, cost, setting, module, max_rounds=max_rounds, clock=clock, observer=observer, stop=stop)
    summary = run.summary
    figures, requests = figures_of(run.log, retractions=summary.retractions, refused=summary.refused)
    return Outcome(tuple(changes), run, figures, requests, _notes(source, changes, rate, run))


def _notes(source: Source, changes: Sequence[Change], rate: float | None, run: Run) -> tuple[str, ...]:
    notes = []
    names = {change.knob.name for change in changes}
    if rate is not None:
        notes.append(f"candidates are accepted with probability {rate:.3f}, drawn: the recorded windows do not apply")
    if "prefix_page" in names and source.part.token_mode != FULL:
        size = source.part.prefix_tokens
        notes.append(
            f"identity tokens: what prompts share inside a prefix page of {size} is not known and counts as not shared"
        )
    if "max_new" in names and any(change.value == "declared" for change in changes) and source.unfinished:
        notes.append(
            f"{source.unfinished} requests that had not finished declare what they are taken to want, a lower bound:"
            " give them more tokens (--unfinished) to see how much that matters"
        )
    if run.summary.detail:
        notes.append(run.summary.detail)
    return tuple(notes)
