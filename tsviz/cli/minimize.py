"""`tsviz minimize`: the smallest run that still shows it."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .exit_codes import CliError, ExitCode
from .output import clean, tell
from .params import OutputPath, seconds_option
from .rows import format_option, print_rows
from .schedulers import NAMES, load_scheduler
from .sheltered import load_sheltered_or_twin
from .traces import open_place, parse_place, unreadable
from .writing import recording_to

if TYPE_CHECKING:
    from tsviz.replay.minimize.shrink import Minimized, Step
    from tsviz.replay.scenario.predicates import Predicate
    from tsviz.replay.scenario.scenario import Scenario


@click.command("minimize", short_help="Shrink a trace while something still happens in it.")
@click.argument("trace")
@click.option(
    "--while", "condition", required=True, metavar="FINDING|SQL",
    help="livelock, stall, retraction_storm or head_of_line, optionally NAME>N; or an SQL condition over the run.",
)  # fmt: skip
@click.option("--out", type=OutputPath(), required=True, help="Directory of the new bundle.")
@seconds_option("--time-limit", 300.0, "Seconds after which the smallest so far is taken.")
@click.option(
    "--with", "scheduler", type=click.Choice(NAMES), default="twin", show_default=True, help="Who runs the attempts."
)
@format_option
def command(trace: str, condition: str, out: Path, time_limit: float, scheduler: str, form: str) -> None:
    """Shrink the requests, lengths, sharing, arrivals and config of TRACE while a condition holds, and record the rest.

    Every attempt is a new run, closed loop on virtual time. The smallest one is recorded into --out on the real package
    if it is installed, which confirms it. Ctrl-C takes the smallest so far.

    \b
    tsviz minimize run.tsviz --while livelock --out small.tsviz
    tsviz minimize run.tsviz --while "exists (from rounds where retracted_requests > 1)" --out small.tsviz
    """
    from tsviz.adapters.tokenspeed import recording_module
    from tsviz.query.problem import QueryError
    from tsviz.replay.minimize.order import PASSES
    from tsviz.replay.minimize.shrink import DoesNotHold, Stopped, minimize
    from tsviz.replay.minimize.starts import starts
    from tsviz.replay.scenario.predicates_text import UnknownFinding, parse_predicate
    from tsviz.replay.scenario.read import read_scenario
    from tsviz.replay.scenario.run import MemoryPart, run_in_memory
    from tsviz.replay.scenario.scenario import NotAScenario

    try:
        predicate = parse_predicate(condition)
    except UnknownFinding as error:
        raise CliError(ExitCode.USAGE, str(error)) from error
    if out.exists():
        raise CliError(ExitCode.USAGE, f"{out}: expected a path that is free, found something there")
    place = parse_place(trace)
    bundle, part = open_place(place)
    recorder = load_sheltered_or_twin()
    module = recorder if scheduler == "real" else load_scheduler(scheduler)
    stopped = _stop_flag(time.monotonic() + time_limit)

    def run(scenario: Scenario, stop: Callable[[], bool]) -> MemoryPart:
        return run_in_memory(scenario, module, recording_module, stop=stop)[0]

    began = time.monotonic()
    try:
        with unreadable():
            scenario = read_scenario(part)
            found = minimize(
                part, scenario, predicate, run, PASSES, starts=starts, stop=stopped, progress=_progress(began)
            )
    except (NotAScenario, DoesNotHold) as error:
        raise CliError(ExitCode.USAGE, f"{place.path}: {error}") from error
    except QueryError as error:
        raise CliError(ExitCode.QUERY_FAILED, error.problem.message) from error
    except Stopped:
        raise CliError(ExitCode.TIMEOUT, "stopped before any smaller run showed it", "give it --time-limit") from None
    seconds = time.monotonic() - began
    for left_out in scenario.left_out:
        tell(f"not carried over: {left_out}")
    meta = {
        "tool": "tsviz minimize", "command": ["tsviz", *sys.argv[1:]], "predicate": predicate.text,
        "workload": {"kind": "scenario", "from": bundle.name},
    }  # fmt: skip
    recorded_with, shown = _record(found, recorder, predicate, out, meta)
    row = _row(scenario, found) | {"recorded_with": recorded_with, "seconds": round(seconds, 1)}
    print_rows([row], form)
    tell(shown)


def _stop_flag(deadline: float) -> Callable[[], bool]:
    """Make ctrl-C and the deadline ask the search to end; a second ctrl-C ends it at once."""
    pressed: list[int] = []

    def on_signal(number: int, _frame: object) -> None:
        if pressed:
            raise KeyboardInterrupt
        pressed.append(number)

    signal.signal(signal.SIGINT, on_signal)
    return lambda: bool(pressed) or time.monotonic() > deadline


def _progress(began: float) -> Callable[[Step], None]:
    """Tell every step that was accepted; on a terminal also what is being tried."""
    terminal = sys.stderr.isatty()

    def tell(step: Step) -> None:
        config, requests = step.scenario.scheduler, step.scenario.requests
        text = (
            f"{time.monotonic() - began:6.1f} s  run {step.runs:4}  {len(requests):4} requests"
            f" {sum(r.prompt_tokens for r in requests):8,} prompt tokens {config.num_device_pages:5} pages"
            f"  {'kept: ' if step.held else ''}{step.what}"
        )
        if step.held:
            click.echo(("\r\033[K" if terminal else "") + clean(text), err=True)
        elif terminal:
            click.echo("\r\033[K" + clean(text)[:100], nl=False, err=True)

    return tell


def _record(found: Minimized, module: Any, predicate: Predicate, out: Path, meta: dict[str, Any]) -> tuple[str, str]:
    """Record the result on `module`; return who made it and what it shows."""
    from tsviz.adapters.tokenspeed import RULE_SET, engine_of, recording_module
    from tsviz.replay.scenario.predicates import Absent
    from tsviz.replay.scenario.run import record_bundle
    from tsviz.trace.errors import CannotRecord
    from tsviz.trace.reader import open_bundle

    engine = engine_of(module)
    try:
        with recording_to(out):
            record_bundle(
                found.scenario, module, recording_module, out, engine=engine, rule_set=RULE_SET,
                meta=meta | {"scheduler": engine["name"]},
            )  # fmt: skip
    except CannotRecord as error:
        raise CliError(ExitCode.USAGE, str(error)) from error
    outcome = predicate.check(open_bundle(out).parts[0])
    name = f"{engine['name']} {engine['version']}"
    if isinstance(outcome, Absent):
        raise CliError(ExitCode.DIVERGENCE, f"{out}: {name} does not show what the attempts showed: {outcome}")
    return name, outcome.sentence


def _row(before: Scenario, found: Minimized) -> dict[str, Any]:
    after = found.scenario

    def tokens(scenario: Scenario) -> int:
        return sum(r.prompt_tokens for r in scenario.requests)

    return {
        "requests": len(after.requests), "requests_before": len(before.requests), "prompt_tokens": tokens(after),
        "prompt_tokens_before": tokens(before), "pages": after.scheduler.num_device_pages,
        "pages_before": before.scheduler.num_device_pages, "rounds": after.max_rounds,
        "rounds_before": before.max_rounds, "runs": found.runs, "kept": found.accepted,
        "finished": found.finished,
    }  # fmt: skip
