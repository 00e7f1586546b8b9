"""Running a scenario with a recorder on its scheduler: into memory to be judged, or into a bundle to be kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from tsviz.engine.clock import VirtualClock
from tsviz.engine.run import RunOptions, run_workload
from tsviz.engine.summary import RunSummary
from tsviz.trace.api_events import event_reader
from tsviz.trace.catalogue import TABLES
from tsviz.trace.columns import Table
from tsviz.trace.config import describe_config
from tsviz.trace.part_writer import PartWriter
from tsviz.trace.recorder import Recorder
from tsviz.trace.tokens import IDENTITY
from tsviz.trace.writer import BundleWriter

from .scenario import Scenario

Wrap = Callable[[Any, Callable[[Any], Recorder]], Any]
"""Returns a scheduler module's namespace with a recorder on it (`adapters.tokenspeed.recording_module`)."""
_TAKE_ENTRIES = 1 << 30


class MemoryPart:
    """The recorded tables of one run that stayed in memory; the catalog takes it as it takes a part of a bundle."""

    node, rank = "F", 0

    def __init__(self, config: Mapping[str, Any], batches: Mapping[str, list[pa.RecordBatch]]) -> None:
        self.config = dict(config)
        self._tables = {
            name: pa.Table.from_batches(batches.get(name, []), table.schema).unify_dictionaries().combine_chunks()
            for name, table in TABLES.items()
        }

    def table(self, name: str) -> pa.Table:
        """Return a recorded table. Raises KeyError for an unknown one."""
        return self._tables[name]

    def tables(self) -> Mapping[str, pa.Table]:
        """Return every recorded table."""
        return self._tables


class _Batches:
    """Stands where a part writer expects the files of a part."""

    def __init__(self) -> None:
        self.batches: dict[str, list[pa.RecordBatch]] = {}

    def append(self, table: Table, batch: pa.RecordBatch) -> None:
        self.batches.setdefault(table.name, []).append(batch)

    def commit(self, last_round: int, last_seq: int) -> None:
        """Everything appended is visible at once."""


class _Listener:
    """Passes what the engine tells an observer to the recorder, which exists once its scheduler does."""

    def __init__(self) -> None:
        self.recorder: Recorder | None = None

    def arrivals(self, arrivals: Any) -> None:
        assert self.recorder is not None
        self.recorder.arrivals(arrivals)

    def forward(self, start_ns: int, end_ns: int) -> None:
        assert self.recorder is not None
        self.recorder.forward(start_ns, end_ns)


def run_in_memory(
    scenario: Scenario, module: Any, wrap: Wrap, *, stop: Callable[[], bool] | None = None
) -> tuple[MemoryPart, RunSummary]:
    """Run a scenario on `module` and return its tables (identity tokens) and what it came to.

    Raises ValueError for a configuration that the scheduler refuses.
    """
    clock, listener, sink = VirtualClock(), _Listener(), _Batches()
    writers: list[tuple[Recorder, PartWriter, dict[str, Any]]] = []

    def open_recorder(config: Any) -> Recorder:
        described = describe_config(config)
        writer = PartWriter(
            sink,  # type: ignore[arg-type]  # the two methods of HotSegments that a part writer calls
            prefix_tokens=described["prefix_granularity"],
            token_mode=IDENTITY, event_reader=event_reader(module),
        )  # fmt: skip
        recorder = listener.recorder = Recorder(clock.now_ns)
        writers.append((recorder, writer, described))
        return recorder

    def consume() -> bool:
        for recorder, writer, _ in writers:
            for entry in recorder.take(_TAKE_ENTRIES):
                writer.consume(entry)
        return stop is not None and stop()

    summary = _run(scenario, wrap(module, open_recorder), clock, listener, consume)
    consume()
    _, writer, described = writers[0]
    writer.flush()
    return MemoryPart(described, sink.batches), summary


def record_bundle(
    scenario: Scenario, module: Any, wrap: Wrap, out: Path, *, engine: Mapping[str, Any], rule_set: str,
    meta: Mapping[str, Any],
) -> RunSummary:  # fmt: skip
    """Run a scenario on `module` and record it (identity tokens) into the new bundle `out`.

    Raises CannotRecord when the path is taken, ValueError for a configuration that the scheduler refuses.
    """
    clock, listener = VirtualClock(), _Listener()
    writer = BundleWriter(out, meta={**meta, "scenario": scenario.described()}, tokens=IDENTITY)

    def open_recorder(config: Any) -> Recorder:
        listener.recorder = writer.recorder(
            node="F", rank=0, config=describe_config(config), engine=engine, event_reader=event_reader(module),
            now_ns=clock.now_ns, clock="virtual", rule_set=rule_set,
        )  # fmt: skip
        return listener.recorder

    end: dict[str, Any] = {}
    try:
        summary = _run(scenario, wrap(module, open_recorder), clock, listener, None)
        end = {"F/0": summary.told()}
    finally:
        writer.close({"parts": end, "error": None if end else "the run was cut short"})
    return summary


def _run(
    scenario: Scenario, module: Any, clock: VirtualClock, listener: _Listener, stop: Callable[[], bool] | None
) -> RunSummary:
    options = RunOptions(scenario.device, scenario.aborts, scenario.max_rounds, stop)
    return run_workload(module, scenario.scheduler, scenario.workload(), options, clock=clock, observer=listener)
