"""`tsviz record`: a workload, a scheduler, a simulated device or a real model; every round into a bundle."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from .exit_codes import CliError, ExitCode
from .level import DECISIONS, LEVELS, PLANS, level_option
from .model_options import MODEL_NAMES, check_model_options, model_options
from .output import tell
from .params import OutputPath
from .retaining import retain_option, retention_of, tell_removed
from .ringing import Keepers, nothing_kept, ring_of, ring_options, signals_of
from .rows import format_option, print_rows
from .run_options import RunPlan, device_options, node_options, scheduler_options, workload_options
from .schedulers import NAMES, load_scheduler
from .unfinished import tell_unfinished
from .writing import stopped

_PROGRESS_SECONDS = 0.25

if TYPE_CHECKING:
    from tsviz.engine.summary import RunSummary
    from tsviz.engine.workloads.model import Workload


@click.command("record", short_help="Run a workload through a scheduler and record every round.")
@click.option(
    "--workload", "workload", metavar="KIND:PATH|GENERATOR",
    help="mooncake, azure, burstgpt, weka, servegen or plain with a file or folder; or poisson, bursts,"
    " shared_prefixes, agent_sessions, optionally with :key=value,...",
)  # fmt: skip
@click.option("--scheduler", type=click.Choice(NAMES), default="real", show_default=True, help="Whose plans.")
@click.option("--out", type=OutputPath(), required=True, help="Directory of the new bundle.")
@click.option(
    "--tokens", type=click.Choice(("full", "identity")), default="full", show_default=True,
    help="identity keeps only which prefix pages are equal.",
)  # fmt: skip
@level_option(LEVELS, "Default: plans for the real scheduler, else decisions.")
@click.option("--max-rounds", type=click.IntRange(min=1), help="Stop after so many rounds.")
@retain_option
@ring_options
@format_option
@model_options
@workload_options
@scheduler_options
@device_options
@node_options
@click.pass_context
def command(
    context: click.Context,
    /,
    workload: str | None,
    scheduler: str,
    out: Path,
    tokens: str,
    level: str | None,
    max_rounds: int | None,
    retain: tuple[str, ...],
    ring: str | None,
    trigger: tuple[str, ...],
    keep: int,
    form: str,
    **options: Any,
) -> None:
    """Run a workload through a scheduler on a simulated device, or on a model, and record every call and plan.

    \b
    tsviz record --workload mooncake:conversation_trace.jsonl --out first --scale 8 --speed 4 --rows 500
    tsviz record --workload poisson:requests=200,rate=8 --out second --pages 257 --max-new undeclared
    tsviz record --model smollm2 --prompt "What is a page table?" --out third
    """
    from tsviz.engine.workloads.errors import WorkloadError
    from tsviz.engine.workloads.registry import load
    from tsviz.trace.errors import CannotRecord, Full

    from .recording import Recording, RefusedConfig

    model = {name: options.pop(name) for name in MODEL_NAMES}
    check_model_options(context, model, workload, tokens)
    try:
        plan = RunPlan.from_options(options, max_rounds)
        requests = load(workload, plan.workload) if workload is not None else None
    except WorkloadError as error:
        raise CliError(ExitCode.USAGE, str(error)) from error
    level = level or (PLANS if scheduler == "real" else DECISIONS)
    flight = ring_of(ring, trigger, keep, level)
    limits = retention_of(retain, flight)
    if level == DECISIONS and scheduler == "real":
        raise CliError(
            ExitCode.USAGE, "the real scheduler does not say why",
            "record plans and run `tsviz index`, which derives the decisions, or record with --scheduler twin",
        )  # fmt: skip
    module = load_scheduler(scheduler)
    if model["model"] is not None:
        if limits is not None:
            raise CliError(ExitCode.USAGE, "--retain does not go with --model")
        if flight is not None:
            raise CliError(ExitCode.USAGE, "--ring does not go with --model: a model's run is recorded whole")
        record_model(
            context, model, plan, module, requests, out, scheduler=scheduler, tokens=tokens, level=level, form=form
        )
        return
    assert requests is not None, "checked above"
    stop, keepers = Stop(), Keepers()
    for number in signals_of(flight):
        signal.signal(number, lambda number, _: keepers.pull(f"signal {signal.Signals(number).name}"))
    began = time.monotonic()
    try:
        with Recording(
            out,
            module,
            scheduler,
            requests,
            plan,
            tokens=tokens,
            command=sys.argv[1:],
            level=level,
            ring=flight,
            retention=limits,
        ) as recording:
            keepers.look(recording.homes)
            summaries = recording.run(stop)
    except CannotRecord as error:
        raise CliError(ExitCode.USAGE, str(error)) from error
    except RefusedConfig as error:
        raise CliError(ExitCode.USAGE, f"the scheduler refuses this configuration: {error}") from error
    except (Full, OSError) as error:
        raise CliError(ExitCode.TRACE_UNREADABLE, stopped(out, error, ring=flight is not None)) from error
    finally:
        stop.clear()
    seconds = time.monotonic() - began
    tell(f"{out}: recorded in {seconds:.1f} s")
    tell_removed(out)
    stop.let_go()
    said = keepers.wait(patience_s=None)
    for words in said:
        tell(words)
    if flight is not None and not said and not out.exists():
        tell(f"{out}: {nothing_kept(recording.homes)}")
    for reason, count in requests.skipped.items():
        tell(f"{count} input rows skipped: {reason}")
    for name, summary in summaries.items():
        tell_unfinished(out, name, summary)
    print_rows([_summary_row(None if flight else out, name, summary) for name, summary in summaries.items()], form)
    if stop.pressed:
        raise CliError(ExitCode.INTERRUPTED, "stopped; what was recorded until then is complete")


def record_model(
    context: click.Context, model: Mapping[str, Any], plan: RunPlan, module: Any, requests: Workload | None, out: Path,
    *, scheduler: str, tokens: str, level: str, form: str,
) -> None:  # fmt: skip
    """Run a real model and record it."""
    from tsviz.trace.errors import CannotRecord

    from .model_recording import ModelRecording
    from .model_setup import ModelSetup

    setup = ModelSetup(
        model, plan, module, pages_given=context.get_parameter_source("pages") is not ParameterSource.DEFAULT
    )
    workload = requests or setup.prompts(model["prompts"], model["max_tokens"])
    stop = Stop()
    stop.every = 1
    recording = ModelRecording(setup)
    try:
        summary, answers, cost = recording.run(
            out, workload, stop, scheduler=scheduler, tokens=tokens, level=level, command=sys.argv[1:]
        )
    except CannotRecord as error:
        raise CliError(ExitCode.USAGE, str(error)) from error
    except OSError as error:
        raise CliError(ExitCode.TRACE_UNREADABLE, stopped(out, error)) from error
    finally:
        stop.clear()
    for answer in answers if model["prompts"] else ():
        for line in f"{answer.request_id}: {answer.text}".split("\n"):
            tell(line)
    tell_unfinished(out, f"{setup.node}/0", summary, recording.failures)
    share = cost["device_rows_ns"] / max(1, cost["run_ns"])
    tell(f"{out}: recorded; the device's rows took {share:.2%} of the run")
    print_rows([_summary_row(out, f"{setup.node}/0", summary)], form)
    if recording.races:
        raise CliError(
            ExitCode.INVARIANT_BREACH,
            f"{out}: nothing orders {recording.races:,} pairs of operations of the device",
            f"tsviz findings {out} names one, python -m tsviz.executor.races {out} all",
        )
    if stop.pressed:
        raise CliError(ExitCode.INTERRUPTED, "stopped; what was recorded until then is complete")


def _summary_row(out: Path | None, name: str, summary: RunSummary) -> dict[str, Any]:
    """Return what a run came to; how long it lasted as `info` tells it of the trace `out`, None without one of all."""
    return {
        "part": name, "ended": summary.reason.value, "rounds": summary.rounds, "rows": summary.scheduled_rows,
        "submitted": summary.submitted, "finished": summary.finished, "aborted": summary.aborted,
        "failed": summary.failed, "refused": len(summary.refusals), "live": summary.live,
        "not_arrived": summary.not_arrived, "retractions": summary.retractions,
        "generated_tokens": summary.generated_tokens, "seconds": _seconds(out, name, summary),
        "detail": summary.detail,
    }  # fmt: skip


def _seconds(out: Path | None, name: str, summary: RunSummary) -> float | None:
    from tsviz.replay.overview import seconds_of
    from tsviz.trace.reader import open_bundle

    if out is None:
        return round(summary.end_ns / 1e9, 3)
    node, _, rank = name.partition("/")
    return seconds_of(open_bundle(out).part(node, int(rank)))


class Stop:
    """Asked by the run before every round: ctrl-C ends it there, a second one at once. Shows how far the run is.

    `wake` ends what a run may wait for on real time, so that it asks.
    """

    def __init__(self) -> None:
        self.pressed = False
        self.told: Callable[[], str] = str
        self.wake: Callable[[], None] | None = None
        self.every = 64
        self._rounds = 0
        self._shown = time.monotonic()
        self._people = sys.stderr.isatty()
        self._before = signal.signal(signal.SIGINT, self._on_signal)

    def __call__(self) -> bool:
        self._rounds += 1
        if self._people and self._rounds % self.every == 0 and time.monotonic() - self._shown > _PROGRESS_SECONDS:
            self._shown = time.monotonic()
            click.echo(f"\r\033[K{self._rounds:,} rounds{self.told()}", nl=False, err=True)
        return self.pressed

    def clear(self) -> None:
        """Take the progress off the terminal."""
        if self._people:
            click.echo("\r\033[K", nl=False, err=True)

    def let_go(self) -> None:
        """Have ctrl-C mean again what it did before: there is no run any more that it could end in between."""
        signal.signal(signal.SIGINT, self._before)

    def _on_signal(self, _number: int, _frame: object) -> None:
        if self.pressed:
            raise KeyboardInterrupt
        self.pressed = True
        if self.wake is not None:
            self.wake()
