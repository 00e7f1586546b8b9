"""A run of a real model with a recorder on its scheduler and on its device (`executor-rules.md` section 9)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tsviz.adapters.tokenspeed import RULE_SET, engine_of, recording_module
from tsviz.engine.configs import Role
from tsviz.engine.workloads.model import Workload
from tsviz.trace.api_events import event_reader
from tsviz.trace.config import describe_config
from tsviz.trace.writer import BundleWriter
from tsviz.version import __version__

from .exit_codes import CliError, ExitCode
from .model_peer import Peer, connected
from .model_setup import ModelSetup

if TYPE_CHECKING:
    from tsviz.cli.record import Stop
    from tsviz.engine.summary import RunSummary


@dataclass(frozen=True, slots=True)
class Answer:
    """What was asked and what the model said."""

    request_id: str
    text: str


class ModelRecording:
    """Runs what a setup has loaded and sized; `failures` says, of a pair's node, how many requests failed and why."""

    def __init__(self, setup: ModelSetup) -> None:
        self._setup = setup
        self._peer: Peer | None = None
        self._side: Any = None
        self.failures: list[str] = []
        self.races = 0

    def run(
        self, out: Path, workload: Workload, stop: Stop, *, scheduler: str, tokens: str, level: str,
        command: Sequence[str],
    ) -> tuple[RunSummary, list[Answer], dict[str, int]]:  # fmt: skip
        """Run and record; returns the summary, the answers, and what recording cost the control thread.

        Raises CliError, before anything is written, where no request of the workload fits, or a node finds no peer
        that it can be paired with.
        """
        self._setup.check_fit(workload)
        self._peer = connected(self._setup)
        try:
            return self._run(out, workload, stop, scheduler=scheduler, tokens=tokens, level=level, command=command)
        finally:
            if self._peer is not None:
                self._peer.wire.close()

    def _run(
        self, out: Path, workload: Workload, stop: Stop, *, scheduler: str, tokens: str, level: str,
        command: Sequence[str],
    ) -> tuple[RunSummary, list[Answer], dict[str, int]]:  # fmt: skip
        from tsviz.engine.arrivals import Arrivals
        from tsviz.executor.arena import NoMemory
        from tsviz.executor.clock import MonotonicClock
        from tsviz.executor.cuda import decode_graphs
        from tsviz.executor.decode import how_decoded
        from tsviz.executor.engine import Engine, EngineOptions, fit_vocabulary
        from tsviz.executor.options import DeviceOptions
        from tsviz.executor.pending import DummyPage
        from tsviz.executor.store import StorageFailed
        from tsviz.executor.telling import TraceSink

        setup, sink, clock = self._setup, TraceSink(), MonotonicClock()
        options, plan, loaded, sized = setup.options, setup.plan, setup.loaded, setup.sized
        meta = {
            "tool": f"tsviz {__version__}", "command": ["tsviz", *command], "scheduler": scheduler,
            "workload": dict(workload.meta), "skipped": dict(workload.skipped), "options": dict(plan.given),
            "device": {
                "model": options["model"], "mode": options["mode"], "dtype": options["dtype"],
                "streams": options["streams"], "layers": loaded.model.shape.pattern, **loaded.told,
                "weights": loaded.weights, "page_namespace": setup.namespace,
                **({} if setup.draft is None else {"draft": options["draft"], "draft_weights": setup.draft_weights}),
                "decode": how_decoded(loaded.model),
            },
        }  # fmt: skip
        writer = BundleWriter(out, meta=meta, tokens=tokens, now_ns=clock.now_ns)
        ends: dict[str, Any] = {}
        failed: str | None = None
        try:

            def open_recorder(config: Any) -> Any:
                sink.recorder = writer.recorder(
                    node=setup.node, rank=0, config=describe_config(config), engine=engine_of(setup.module),
                    event_reader=event_reader(setup.module), now_ns=clock.now_ns, clock="monotonic", rule_set=RULE_SET,
                    level=level,
                )  # fmt: skip
                return sink.recorder

            arrivals = Arrivals(
                fit_vocabulary(workload, loaded.model.shape.vocabulary).requests, follows_only=setup.node == "P"
            )
            engine = Engine(
                recording_module(setup.module, open_recorder, observed=level == "decisions"), loaded.model, sized,
                arrivals, clock,
                EngineOptions(
                    device=DeviceOptions(
                        poison=False, stop_tokens=loaded.stop_tokens, page_crcs=options["page_crcs"]
                    ),
                    max_rounds=plan.max_rounds, stop=stop,
                ),
                streams=self._make_streams(clock), store=setup.store, watcher=sink, observer=_Arrivals(sink),
                remote=self._remote(clock, arrivals), gate=None if self._peer is None else self._peer.gate,
                draft=setup.draft, graphs=decode_graphs() if options["streams"] == "cuda" else None,
            )  # fmt: skip
            loop = engine.loop
            stop.wake = clock.wake
            stop.told = lambda: f", {loop.live} live, {loop.generated_tokens:,} tokens, {loop.not_arrived:,} to come"
            summary = engine.run()
            if self._side is not None:
                self.failures = self._side.failures.told()
                summary = replace(summary, detail="; ".join(filter(None, (summary.detail, *self.failures))))
            self.races = len(engine.device.checker.races)
            cost = {"device_rows_ns": sink.spent_ns, "run_ns": clock.now_ns()}
            ends = {
                "parts": {f"{setup.node}/0": summary.told()},
                "recording": cost,
                "races": self.races,
            }
            return summary, self._answers(workload, engine.device.said), cost
        except NoMemory as error:
            failed = str(error)
            raise CliError(ExitCode.USAGE, failed) from error
        except DummyPage as error:
            failed = str(error)
            raise CliError(ExitCode.INVARIANT_BREACH, f"{failed}; the trace holds what led to it") from error
        except StorageFailed as error:
            failed = str(error)
            raise CliError(ExitCode.TRACE_UNREADABLE, f"{failed}; the trace holds what came before") from error
        except BaseException as error:
            failed = f"{type(error).__name__}: {error}"
            raise
        finally:
            writer.close({**ends, "error": failed})

    def _remote(self, clock: Any, arrivals: Any) -> Any:
        """Return what makes this node's end of the link; None for an engine of its own."""
        if (peer := self._peer) is None:
            return None
        from tsviz.executor.peer import PeerSide

        def make(engine: Any) -> PeerSide:
            setup = self._setup
            side = self._side = PeerSide(
                Role(setup.node), peer.wire, engine.device, engine.arena, setup.loaded.model.shape, clock, arrivals,
                layerwise=setup.options["layerwise"],
            )  # fmt: skip
            return side

        return make

    def _make_streams(self, clock: Any) -> Any:
        from tsviz.executor.cuda import cuda_streams
        from tsviz.executor.streams import InlineStreams
        from tsviz.executor.threads import ThreadStreams

        kind = self._setup.options["streams"]
        if kind == "cuda":
            return cuda_streams(clock.now_ns)
        return ThreadStreams(clock.now_ns) if kind == "threads" else InlineStreams(clock.now_ns)

    def _answers(self, workload: Workload, said: Mapping[str, Sequence[Any]]) -> list[Answer]:
        tokenizer = self._setup.loaded.tokenizer
        if tokenizer is None:
            return []
        return [
            Answer(r.request_id, tokenizer.decode([t for part in said.get(r.request_id, ()) for t in part.tokens]))
            for r in workload.requests
        ]


class _Arrivals:
    """Passes arrivals on to the recorder; the device's times come from the device."""

    def __init__(self, sink: Any) -> None:
        self._sink = sink

    def arrivals(self, arrivals: Any) -> None:
        """Arrivals of the next submit call."""
        self._sink.recorder.arrivals(arrivals)

    def forward(self, start_ns: int, end_ns: int) -> None:
        """Nothing: a real device tells by itself."""
