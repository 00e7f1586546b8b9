"""`tsviz whatif`: run a trace again with a knob turned, and say what changed."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .exit_codes import CliError, ExitCode
from .output import tell
from .params import OutputPath
from .rows import format_option, print_rows
from .schedulers import NAMES
from .sheltered import load_sheltered
from .traces import open_place, parse_place, tell_other_parts, traces_or_parts, unreadable
from .writing import recording_to

if TYPE_CHECKING:
    from tsviz.replay.whatif.knobs import Change
    from tsviz.replay.whatif.study import Outcome, Study
    from tsviz.replay.whatif.sweep import Axis, Predicate, Trial
    from tsviz.trace.reader import Bundle, Part

_CELL_FIGURES = (
    "rounds", "elapsed_s", "finished", "live", "refused", "retractions", "recomputed_tokens", "tokens_per_s",
    "ttft_p50_ms", "ttft_p95_ms", "tpot_p50_ms", "tpot_p95_ms", "hit_rate", "empty_rounds", "stuck_rounds",
)  # fmt: skip


@click.command("whatif", short_help="Run a trace again with a knob turned.")
@click.argument("trace")
@click.option("--set", "settings", multiple=True, metavar="KNOB=VALUE", help="Turn a knob; may be said repeatedly.")
@click.option(
    "--at", "at_round", type=click.IntRange(min=1), help="Turn it in front of this round, not from the start."
)
@click.option("--sweep", "axes", multiple=True, metavar="KNOB=A..B[:STEP|:log]", help="Run a grid of one or two knobs.")
@click.option("--find", type=click.Choice(("smallest",)), help="Search the one --sweep for a value with --where.")
@click.option("--where", metavar="SQL", help="Condition over the figures, such as 'retractions = 0 and live = 0'.")
@click.option("--scan", is_flag=True, help="--find: run every value instead of halving.")
@click.option("--scheduler", type=click.Choice(NAMES), default="twin", show_default=True, help="Whose plans.")
@click.option("--max-rounds", type=click.IntRange(min=1), help="Bound of every run.")
@click.option(
    "--unfinished", type=click.IntRange(min=1), metavar="TOKENS",
    help="What requests want in all that had not finished; otherwise one token more than they got.",
)  # fmt: skip
@click.option(
    "--show", type=click.Choice(("figures", "requests", "causes", "fit")), default="figures", show_default=True,
    help="Which table goes to standard output; causes: what requests wait for, before and after.",
)  # fmt: skip
@click.option("--out", type=OutputPath(), help="Record the changed run into a new bundle.")
@format_option
def command(
    trace: str, settings: tuple[str, ...], at_round: int | None, axes: tuple[str, ...], find: str | None,
    where: str | None, scan: bool, scheduler: str, max_rounds: int | None, unfinished: int | None, show: str,
    out: Path | None, form: str,
) -> None:  # fmt: skip
    """Run the requests of TRACE again in closed loop with knobs turned, timed by a cost model fitted to TRACE.

    The run is compared with the re-timed baseline: the same requests and the same model with nothing turned. How well
    that reproduces the recording is said first, then what the change does to the run, to the waiting and to the
    requests that gain and lose most. TRACE is only read. With --at the recorded calls are made again as
    they were up to that round, and chunk, batch, mixed or more pages are turned in front of its plan (twin only).

    \b
    Knobs: pages, host_pages, groups, chunk, batch, mixed, width, overlap, prefix_page, prefix_cache, replay_tokens,
    max_new (declared, undeclared or N), acceptance; the scheduler's own names (max_scheduled_tokens) do too.

    \b
    tsviz whatif stuck --set max_new=declared
    tsviz whatif stuck --set pages=257 --show causes
    tsviz whatif small --sweep pages=65..257:64 --sweep mixed=on,off
    tsviz whatif small --sweep pages=65..257 --find smallest --where 'retractions = 0'
    """
    from tsviz.replay.whatif.knobs import parse_change
    from tsviz.replay.whatif.study import study
    from tsviz.replay.whatif.words import fit_rows, metric_rows, outcome_words, request_rows, study_words

    (place,) = map(parse_place, traces_or_parts([trace], "--at {round} turns a knob in front of a round"))
    bundle, part = open_place(place)
    tell_other_parts(bundle, part, place)
    with _refusals():
        changes = [parse_change(text) for text in settings]
    wrong = [change.knob.name for change in changes if at_round is not None and not change.knob.midway]
    if wrong:
        raise CliError(ExitCode.USAGE, f"--at {at_round}: {', '.join(wrong)} can be turned from round 1 only")
    if at_round is not None and (out is not None or show == "causes"):
        asked = "--out" if out is not None else "--show causes, which records both runs"
        raise CliError(ExitCode.USAGE, f"{asked}: a bundle has one configuration; a run with --at has two")
    if show == "causes" and (scheduler != "twin" or axes or out is not None):
        raise CliError(ExitCode.USAGE, "--show causes: expected the twin, which says why, no --sweep and no --out")
    if (find is None) != (where is None) or (find and len(axes) != 1) or len(axes) > 2 or (axes and out is not None):
        raise CliError(
            ExitCode.USAGE, "expected one or two --sweep; --find needs --where and one --sweep; no --out then"
        )
    with _refusals():
        grid, wanted = _asked(axes, where)
    with _refusals(_recorded_again(bundle)), unreadable():
        module = load_sheltered(scheduler)
        ready = study(part, module, at_round=at_round, max_rounds=max_rounds, unfinished_tokens=unfinished)
        _say(study_words(ready))
        if axes:
            rows = _sweep(ready, changes, grid, wanted, scan=scan)
        elif show == "causes":
            from .whatif_recording import cause_rows

            outcome, rows = cause_rows(ready, changes, bundle, part)
            _say(outcome_words(ready, outcome))
        else:
            outcome = ready.run(changes) if out is None else _record(ready, changes, bundle, part, scheduler, out)
            _say(outcome_words(ready, outcome))
            if show == "requests":
                rows = request_rows(ready.compare(outcome), "baseline", "what_if")
            else:
                rows = fit_rows(ready) if show == "fit" else metric_rows(ready, outcome)
    print_rows(rows, form)


@contextmanager
def _refusals(instead: str = "") -> Iterator[None]:
    """Turn what a what-if cannot do into exit code 2, with its words; `instead`: what helps where it cannot run."""
    from tsviz.replay.whatif.cost import NothingToFit
    from tsviz.replay.whatif.knobs import BadKnob
    from tsviz.replay.whatif.source import CannotRetime
    from tsviz.replay.whatif.sweep import BadPredicate
    from tsviz.replay.whatif.turn import RefusedConfig
    from tsviz.trace.errors import CannotRecord

    try:
        yield
    except RefusedConfig as error:
        raise CliError(ExitCode.USAGE, f"the scheduler refuses this configuration: {error}") from error
    except CannotRetime as error:
        raise CliError(ExitCode.USAGE, str(error), instead) from error
    except (BadKnob, BadPredicate, NothingToFit, CannotRecord) as error:
        raise CliError(ExitCode.USAGE, str(error)) from error


def _recorded_again(bundle: Bundle) -> str:
    """Return how to ask with a recording what a run again cannot answer; empty where its command is not known."""
    command = bundle.meta.get("command")
    if not isinstance(command, list) or command[:2] != ["tsviz", "record"]:
        return ""
    return f"record it with the knob turned, and compare with `tsviz diff --show figures`: {shlex.join(command)}"


def _record(ready: Study, changes: list[Change], bundle: Bundle, part: Part, scheduler: str, out: Path) -> Outcome:
    from .whatif_recording import record_run

    with recording_to(out):
        outcome = record_run(ready, changes, bundle, part, scheduler, out)
    tell(f"{out}: recorded")
    return outcome


def _say(lines: list[str]) -> None:
    for line in lines:
        tell(line)


def _asked(axes: tuple[str, ...], where: str | None) -> tuple[list[Axis], Predicate | None]:
    """Read the axes and try the condition, before anything runs. Raises BadKnob and BadPredicate."""
    if not axes:
        return [], None
    from tsviz.replay.whatif.sweep import NOTHING_RAN, Predicate, parse_axis

    return [parse_axis(text) for text in axes], None if where is None else Predicate(where, NOTHING_RAN)


def _sweep(
    ready: Study, changes: list[Change], axes: list[Axis], wanted: Predicate | None, *, scan: bool
) -> list[dict[str, Any]]:
    from tsviz.replay.whatif.sweep import find_smallest, sweep
    from tsviz.replay.whatif.words import cell_row, search_words

    if wanted is None:
        rows = []
        for cell in sweep(ready, changes, axes):
            rows.append(cell_row(cell, _CELL_FIGURES))
            _progress(f"{len(rows)} runs: {' '.join(map(str, cell.changes))}")
        _progress("")
        return rows

    def told(trial: Trial) -> None:
        _progress(f"{trial.cell.changes[-1]} {'yes' if trial.holds else 'no'}")

    search = find_smallest(ready, changes, axes[0], wanted, scan=scan, told=told)
    _progress("")
    _say(search_words(search, wanted.where))
    return [{"holds": trial.holds} | cell_row(trial.cell, _CELL_FIGURES) for trial in search.trials]


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        click.echo(f"\r\033[K{text}", nl=False, err=True)
