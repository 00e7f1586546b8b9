"""The real package, bare and behind the recording proxy, with or without a writer."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tsviz.adapters.tokenspeed import RULE_SET, engine_of, load_real, recording_module
from tsviz.trace.apart import ApartWriter
from tsviz.trace.api_events import event_reader
from tsviz.trace.config import describe_config
from tsviz.trace.lock import ALIVE, recorder_of
from tsviz.trace.recorder import Recorder
from tsviz.trace.ring import RingOptions, start_keeper
from tsviz.trace.writer import BundleWriter

_START_SECONDS = 60.0
THREAD, APART, RING = "thread", "process", "ring"


def real() -> Any:
    """Return the real package. Raises PackageMissing."""
    return load_real()


def collecting() -> tuple[Any, Callable[[], None]]:
    """Return a recorded module whose entries are only collected, and what forgets the entries."""
    recorder = Recorder(time.monotonic_ns)
    return recording_module(real(), lambda _: recorder), lambda: _forget(recorder)


def _forget(recorder: Recorder) -> None:
    recorder.take(recorder.waiting_entries())


def writing(
    path: Path,
    tokens: str,
    now_ns: Callable[[], int] = time.monotonic_ns,
    opened: Callable[[Recorder], None] = lambda _: None,
    how: str = APART,
) -> tuple[Any, BundleWriter | ApartWriter]:
    """Return a recorded module and the writer, running, of the bundle; `opened` hears of each scheduler's recorder.

    `how`: a process of its own writes, as with `tsviz run`; the same with a flight recorder, its triggers and keeper;
    or a thread, as with `tsviz record`. It is waited for until the writer is there.
    """
    module = real()
    meta = {"tool": "bench"}
    writer: BundleWriter | ApartWriter
    if how == THREAD:
        writer = BundleWriter(path, meta=meta, tokens=tokens)
    else:
        ring = (
            RingOptions(60.0, None, ("finding:livelock", "sql:rounds.retracted_requests > 3")) if how == RING else None
        )
        writer = ApartWriter(path, meta=meta, tokens=tokens, ring=ring)
        if ring is not None:
            start_keeper(path)
        until = time.monotonic() + _START_SECONDS
        while recorder_of(path) != ALIVE:
            if time.monotonic() > until:
                raise TimeoutError(f"{path}: no process writes there ({writer.error})")
            time.sleep(0.01)

    def open_recorder(config: Any) -> Recorder:
        recorder = writer.recorder(
            node="F", rank=0, config=describe_config(config), engine=engine_of(module),
            event_reader=event_reader(module), now_ns=now_ns, clock="virtual", rule_set=RULE_SET,
        )  # fmt: skip
        opened(recorder)
        return recorder

    return recording_module(module, open_recorder), writer
