"""A run of a real model with a recorder on its scheduler and on its device (`executor-rules.md` section 9)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tsviz.adapters.tokenspeed import RULE_SET, engine_of, recording_module
from tsviz.engine.configs import Role
from tsviz.engine.workloads.model import Span, Workload, WorkRequest, given_tokens
from tsviz.trace.api_events import event_reader
from tsviz.trace.config import describe_config
from tsviz.trace.writer import BundleWriter
from tsviz.version import __version__

from .exit_codes import CliError, ExitCode
from .run_options import RunPlan

if TYPE_CHECKING:
    from tsviz.cli.record import Stop
    from tsviz.engine.summary import RunSummary
    from tsviz.executor.models import LoadedModel

_DEFAULT_MIB = 256
_WORKSPACE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Answer:
    """What was asked and what the model said."""

    request_id: str
    text: str


class ModelRecording:
    """Loads the model and sizes the pools when it is made; nothing is written before that went well."""

    def __init__(self, options: Mapping[str, Any], plan: RunPlan, module: Any, *, pages_given: bool) -> None:
        """Raises CliError: torch or the model is missing or bad, the pool is too small, the scheduler refuses."""
        try:
            from tsviz.executor.models import load_model, use_threads
        except ImportError:
            raise CliError(
                ExitCode.USAGE, "--model needs torch, which is not installed", "pip install 'tsviz[executor]'"
            ) from None
        from tsviz.executor.shape import BadModel

        use_threads(options["threads"])
        self._options, self._plan, self._module = options, plan, module
        self.node: str = options["node"] or "F"
        self._wire: Any = None
        try:
            if options["streams"] == "cuda":
                from tsviz.executor.cuda import require_gpu

                require_gpu()
            self.loaded: LoadedModel = load_model(
                options["model"], seed=plan.workload.seed, dtype=options["dtype"], fast=options["mode"] == "fast",
                device="cuda" if options["streams"] == "cuda" else "cpu",
            )  # fmt: skip
            self._draft = self._load_draft()
            self._sized = self._size(pages_given=pages_given)
        except (BadModel, ValueError) as error:
            raise CliError(ExitCode.USAGE, str(error)) from error

    def prompts(self, texts: Sequence[str], max_tokens: int) -> Workload:
        """Return the prompts as requests that come at once. Raises CliError for a model without a tokenizer."""
        if self.loaded.tokenizer is None:
            raise CliError(ExitCode.USAGE, f"--prompt: model {self._options['model']!r} has no tokenizer")
        says = (Span(0, 0, max_tokens),)
        requests = tuple(
            WorkRequest(f"prompt{i}", (given_tokens(tokens),), says, max_tokens, arrival_ns=0)
            for i, tokens in enumerate(map(self.loaded.tokenizer.encode, texts))
        )
        return Workload(requests, {"kind": "prompts", "prompts": len(texts)})

    def run(
        self, out: Path, workload: Workload, stop: Stop, *, scheduler: str, tokens: str, level: str,
        command: Sequence[str],
    ) -> tuple[RunSummary, list[Answer], dict[str, int]]:  # fmt: skip
        """Run and record; returns the summary, the answers, and what recording cost the control thread."""
        from tsviz.engine.arrivals import Arrivals
        from tsviz.executor.arena import NoMemory
        from tsviz.executor.clock import MonotonicClock
        from tsviz.executor.engine import Engine, EngineOptions, fit_vocabulary
        from tsviz.executor.options import DeviceOptions
        from tsviz.executor.store import PageStore
        from tsviz.executor.telling import TraceSink

        options, loaded, sink, clock = self._options, self.loaded, TraceSink(), MonotonicClock()
        meta = {
            "tool": f"tsviz {__version__}", "command": ["tsviz", *command], "scheduler": scheduler,
            "workload": dict(workload.meta), "skipped": dict(workload.skipped), "options": dict(self._plan.given),
            "device": {
                "model": options["model"], "mode": options["mode"], "dtype": options["dtype"],
                "streams": options["streams"], "layers": loaded.model.shape.pattern, **loaded.told,
                **({} if options["draft"] is None else {"draft": options["draft"]}),
            },
        }  # fmt: skip
        writer = BundleWriter(out, meta=meta, tokens=tokens)
        ends: dict[str, Any] = {}
        failed: str | None = None
        try:

            def open_recorder(config: Any) -> Any:
                sink.recorder = writer.recorder(
                    node=self.node, rank=0, config=describe_config(config), engine=engine_of(self._module),
                    event_reader=event_reader(self._module), now_ns=clock.now_ns, clock="monotonic", rule_set=RULE_SET,
                    level=level,
                )  # fmt: skip
                return sink.recorder

            remote = self._remote(clock)
            store = None
            if options["store"] is not None:
                store = PageStore(options["store"], repr((loaded.told, options["dtype"])), self._sized.layout.signature)
            engine = Engine(
                recording_module(self._module, open_recorder, observed=level == "decisions"), loaded.model, self._sized,
                Arrivals(fit_vocabulary(workload, loaded.model.shape.vocabulary).requests), clock,
                EngineOptions(
                    device=DeviceOptions(poison=False, stop_tokens=loaded.stop_tokens),
                    max_rounds=self._plan.max_rounds, stop=stop,
                ),
                streams=self._make_streams(clock), store=store, watcher=sink, observer=_Arrivals(sink), remote=remote,
                draft=self._draft,
            )  # fmt: skip
            loop = engine.loop
            stop.told = lambda: f", {loop.live} live, {loop.generated_tokens:,} tokens, {loop.not_arrived:,} to come"
            try:
                summary = engine.run()
            finally:
                if self._wire is not None:
                    self._wire.close()
            cost = {"device_rows_ns": sink.spent_ns, "run_ns": clock.now_ns()}
            ends = {
                "parts": {f"{self.node}/0": summary.told()},
                "recording": cost,
                "races": len(engine.device.checker.races),
            }
            return summary, self._answers(workload, engine.device.said), cost
        except NoMemory as error:
            failed = str(error)
            raise CliError(ExitCode.USAGE, failed) from error
        except BaseException as error:
            failed = f"{type(error).__name__}: {error}"
            raise
        finally:
            writer.close({**ends, "error": failed})

    def _load_draft(self) -> Any:
        from tsviz.executor.drafting import check_draft
        from tsviz.executor.models import load_draft

        options, model = self._options, self.loaded.model
        if options["draft"] is None:
            return None
        draft = load_draft(
            options["draft"], model, seed=self._plan.workload.seed, dtype=options["dtype"],
            fast=options["mode"] == "fast", device="cuda" if options["streams"] == "cuda" else "cpu",
        )  # fmt: skip
        check_draft(model.shape, draft.shape, self._plan.scheduler.decode_input_tokens)
        return draft

    def _size(self, *, pages_given: bool) -> Any:
        from tsviz.executor.sizing import PoolOptions, parents_for_budget, size_pool, with_role

        s, shape = self._plan.scheduler, self.loaded.model.shape
        element_bytes = self.loaded.model.weights.embed.element_size()
        draft = None if self._draft is None else self._draft.shape
        pool = PoolOptions(
            s.prefix_granularity, s.max_scheduled_tokens, s.max_batch_size, s.decode_input_tokens,
            s.overlap_schedule_depth, s.mixed, s.storage, s.prefix_cache,
        )  # fmt: skip
        parents = s.num_device_pages - 1
        mib = self._options["memory_mib"]
        if mib is not None or not pages_given:
            budget = (mib or _DEFAULT_MIB) << 20
            parents = parents_for_budget(shape, pool, budget, _WORKSPACE_BYTES, element_bytes, draft)
            if mib is None:
                parents = min(parents, s.num_device_pages - 1)
        host = max(0, s.num_host_pages - 1)
        sized = size_pool(shape, pool, parents=parents, host_parents=host, element_bytes=element_bytes, draft=draft)
        if self.node != "F":
            sized = with_role(sized, Role(self.node))
        self._module.Scheduler(sized.scheduler.build(self._module))
        return sized

    def _remote(self, clock: Any) -> Any:
        """Return what makes this node's end of the link, connected; None for an engine of its own."""
        if self.node == "F":
            return None
        from tsviz.executor.peer import PeerSide
        from tsviz.executor.wire import connect, listen

        host, _, port = str(self._options["peer"]).rpartition(":")
        if not host or not port.isdigit():
            raise CliError(ExitCode.USAGE, f"--peer: expected HOST:PORT, found {self._options['peer']!r}")
        try:
            self._wire = wire = (listen if self.node == "P" else connect)(host, int(port))
        except OSError as error:
            raise CliError(ExitCode.USAGE, f"--peer {host}:{port}: {error.strerror or error}") from error
        role, shape = Role(self.node), self.loaded.model.shape
        return lambda engine: PeerSide(role, wire, engine.device, engine.arena, shape, clock)

    def _make_streams(self, clock: Any) -> Any:
        from tsviz.executor.cuda import cuda_streams
        from tsviz.executor.streams import InlineStreams, ThreadStreams

        kind = self._options["streams"]
        if kind == "cuda":
            return cuda_streams(clock.now_ns)
        return ThreadStreams(clock.now_ns) if kind == "threads" else InlineStreams(clock.now_ns)

    def _answers(self, workload: Workload, said: Mapping[str, Sequence[Any]]) -> list[Answer]:
        tokenizer = self.loaded.tokenizer
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
