"""The public package `tokenspeed_scheduler`: finding it, and recording whatever drives it.

`recording_module` returns a namespace with the package's names in which `Scheduler` and `ExecutionEvent` are replaced
by proxies; code that uses it runs as before and is recorded. It works on the twin as well, which has the same API.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import sys
import time
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import ModuleType, SimpleNamespace
from typing import Any

from tsviz.trace import entries as e
from tsviz.trace.api_events import event_reader
from tsviz.trace.recorder import Recorder
from tsviz.trace.rounds import Counters
from tsviz.version import __version__

PACKAGE = "tokenspeed_scheduler"
DISTRIBUTION = "tokenspeed-scheduler"
RULE_SET = "0.1.24"
_LOGGER_LEVEL = "SPDLOG_LEVEL"

_nanoseconds = time.perf_counter_ns
_reference_count = sys.getrefcount
_made: Any = tuple.__new__
"""Makes a named tuple. Behind a plan all that is touched is cold, and a class's own constructor is a function more."""


class PackageMissing(Exception):
    """The real scheduler is not installed; the message says how to get it."""


def load_real() -> ModuleType:
    """Import the real package, its logger silenced (it writes to stdout). Raises PackageMissing."""
    os.environ.setdefault(_LOGGER_LEVEL, "off")
    try:
        return importlib.import_module(PACKAGE)
    except ImportError as error:
        raise PackageMissing(
            f"the real scheduler is not installed: pip install 'tsviz[tokenspeed]' ({error})"
        ) from error


def engine_of(module: Any) -> dict[str, str]:
    """Return name and version of a scheduler module, for a trace's metadata."""
    if module.__name__ == PACKAGE:
        return {"name": DISTRIBUTION, "version": importlib.metadata.version(DISTRIBUTION)}
    return {"name": "tsviz-twin", "version": __version__}


def _references(thing: Any) -> int:
    return _reference_count(thing)


_UNREACHABLE = _references(object())
"""What `_references` says of an object that nobody but the caller's expression refers to."""


class RecordingExecutionEvent:
    """An `ExecutionEvent` that also keeps its events for the recorder.

    The package copies an event when it is added. One that nobody else refers to cannot change any more: it is kept by
    reference and read off the loop thread. One that the caller still holds may be changed and added again: it is taken
    apart at once.
    """

    __slots__ = ("_add", "_keep", "_reader", "events", "inner")

    def __init__(self, inner: Any, reader: Mapping[type, Callable[[Any], e.Event]]) -> None:
        """`inner`: the package's own; `reader` takes an event of each class apart."""
        self.inner, self._reader = inner, reader
        self.events: list[Any] = []
        # Bound once: `add_event` is called once a row, and there is nothing else a recording costs as often.
        self._add, self._keep = inner.add_event, self.events.append

    def add_event(self, event: Any) -> RecordingExecutionEvent:
        """Add an event, as the package's method does."""
        self._add(event)
        if _reference_count(event) > _UNREACHABLE:
            event = self._reader[type(event)](event)
        self._keep(event)
        return self

    def taken_apart(self, events: Sequence[Any]) -> list[e.Event]:
        """Return `events` as plain data."""
        return [v if type(v) is e.Event else self._reader[type(v)](v) for v in events]


class RecordingScheduler:
    """A `Scheduler` whose state-changing calls are recorded; every other attribute is the scheduler's own.

    A TypeError is an argument that the scheduler never saw: such a call did not happen and is not recorded.
    """

    def __init__(self, inner: Any, recorder: Recorder, bootstrap: type) -> None:
        """`bootstrap`: class of the event that brings a bootstrap token, which the scheduler may ignore."""
        self._inner = inner
        self._recorder = recorder
        self._told = frozenset((bootstrap, e.Event))
        self._plan = inner.next_execution_plan
        self._waiting = inner.waiting_size
        self._bootstrapping = inner.bootstrapping_size
        self._prefilling = inner.prefilling_size
        self._decoding = inner.decoding_size
        self._pd_transfer = inner.pd_transfer_size
        self._empty = inner.empty_lcm_blocks

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def next_execution_plan(self) -> Any:
        """Ask for a plan; the plan itself is what is recorded."""
        recorder = self._recorder
        recorder.before_plan()
        waiting, now = self._waiting(), recorder.now_ns()
        start = _nanoseconds()
        try:
            plan = self._plan()
        except Exception as error:
            recorder.append(e.PlanEntry(now, _nanoseconds() - start, None, waiting, None, _failure(error)))
            raise
        duration = _nanoseconds() - start
        counters = _made(Counters, (
            self._bootstrapping(), self._waiting(), self._prefilling(), self._decoding(), self._pd_transfer(),
            self._empty(),
        ))  # fmt: skip
        recorder.append(_made(e.PlanEntry, (now, duration, plan, waiting, counters, None)))
        return plan

    def advance(self, event: RecordingExecutionEvent) -> Any:
        """Apply events. Raises TypeError for an execution event that was not made by the recorded namespace."""
        if not isinstance(event, RecordingExecutionEvent):
            raise TypeError(f"advance: expected the recorded module's ExecutionEvent, found {type(event).__name__}")
        recorder, events = self._recorder, event.events[:]
        now, start = recorder.now_ns(), _nanoseconds()
        try:
            result = self._inner.advance(event.inner)
        except TypeError:
            raise
        except Exception as error:
            duration = _nanoseconds() - start
            taken = event.taken_apart(events)
            held = self._held(v.request for v in taken if v.request is not None)
            recorder.append(e.AdvanceEntry(now, duration, taken, _failure(error), held))
            raise
        duration = _nanoseconds() - start
        told = None if self._told.isdisjoint(map(type, events)) else self._bootstrapped(event.taken_apart(events))
        recorder.append(_made(e.AdvanceEntry, (now, duration, events, None, told)))
        return result

    def _bootstrapped(self, events: Sequence[e.Event]) -> dict[str, int] | None:
        named = [v.request for v in events if v.kind == e.REMOTE_PREFILL_DONE and v.request is not None]
        return self._held(named) if named else None

    def _held(self, requests: Iterable[str]) -> dict[str, int]:
        size = self._inner.request_token_size
        return {request: size(request) for request in requests}

    def submit_requests(self, request_specs: Any) -> Any:
        """Submit requests."""
        now, start = self._recorder.now_ns(), _nanoseconds()
        try:
            result = self._inner.submit_requests(request_specs)
        except TypeError:
            raise
        except Exception as error:
            self._submitted(now, _nanoseconds() - start, request_specs, _failure(error))
            raise
        self._submitted(now, _nanoseconds() - start, request_specs, None)
        return result

    def _submitted(self, now: int, duration: int, request_specs: Any, failure: e.Failure | None) -> None:
        specs = [e.Spec(s.request_id, array("i", s.tokens), s.max_new_tokens) for s in request_specs]
        self._recorder.append(e.SubmitEntry(now, duration, specs, self._recorder.take_arrivals(), failure))

    def register_storage_keys(self, group_ids: Any, content_hashes: Any, page_offsets: Any) -> Any:
        """Register storage keys."""
        return self._keys(e.REGISTER_KEYS, self._inner.register_storage_keys, group_ids, content_hashes, page_offsets)

    def unregister_storage_keys(self, group_ids: Any, content_hashes: Any, page_offsets: Any) -> Any:
        """Unregister storage keys."""
        call = self._inner.unregister_storage_keys
        return self._keys(e.UNREGISTER_KEYS, call, group_ids, content_hashes, page_offsets)

    def _keys(self, kind: str, call: Callable[..., Any], groups: Any, hashes: Any, offsets: Any) -> Any:
        now, start, failure = self._recorder.now_ns(), _nanoseconds(), None
        try:
            return call(groups, hashes, offsets)
        except Exception as error:
            failure = _failure(error)
            raise
        finally:
            if failure is None or failure.kind != "TypeError":
                duration = _nanoseconds() - start
                lists = [int(g) for g in groups], [str(h) for h in hashes], [int(o) for o in offsets]
                self._recorder.append(e.KeysEntry(now, duration, kind, *lists, failure))

    def clear_cache(self) -> Any:
        """Clear both tiers."""
        return self._clear(e.CLEAR, self._inner.clear_cache)

    def clear_l1_cache(self) -> Any:
        """Clear the device tier."""
        return self._clear(e.CLEAR_L1, self._inner.clear_l1_cache)

    def _clear(self, kind: str, call: Callable[[], Any]) -> Any:
        now, start = self._recorder.now_ns(), _nanoseconds()
        try:
            result = call()
        except Exception as error:
            self._recorder.append(e.ClearEntry(now, _nanoseconds() - start, kind, None, _failure(error)))
            raise
        self._recorder.append(e.ClearEntry(now, _nanoseconds() - start, kind, result, None))
        return result

    def drain_kv_events(self) -> Any:
        """Drain KV events."""
        now, start = self._recorder.now_ns(), _nanoseconds()
        try:
            events = self._inner.drain_kv_events()
        except Exception as error:
            self._recorder.append(e.DrainEntry(now, _nanoseconds() - start, (), _failure(error)))
            raise
        self._recorder.append(e.DrainEntry(now, _nanoseconds() - start, tuple(events), None))
        return events


def _failure(error: Exception) -> e.Failure:
    return e.Failure(type(error).__name__, str(error))


def recording_module(
    module: Any, open_recorder: Callable[[Any], Recorder], *, observed: bool = False
) -> SimpleNamespace:
    """Return `module`'s namespace with `Scheduler` and `ExecutionEvent` recorded.

    `observed`: the module is the twin, and its decisions are recorded too.

    `open_recorder(config)` is called for every scheduler that is built, right behind its construction.
    """
    reader, bootstrap = event_reader(module), module.PD.RemotePrefillDoneEvent

    class Scheduler(RecordingScheduler):
        """The module's scheduler, recorded."""

        def __init__(self, config: Any) -> None:
            # The recorder exists only once the config was accepted; nothing is decided before that.
            inner = module.Scheduler(config, observer=self._observe) if observed else module.Scheduler(config)
            super().__init__(inner, open_recorder(config), bootstrap)

        def _observe(self, round_: int, stop: int, decision: Any) -> None:
            self._recorder.append((round_, stop, decision))

    class ExecutionEvent(RecordingExecutionEvent):
        """The module's execution event, as the recorded scheduler takes it."""

        __slots__ = ()

        def __init__(self) -> None:
            super().__init__(module.ExecutionEvent(), reader)

    names = {name: getattr(module, name) for name in dir(module) if not name.startswith("_")}
    names["Scheduler"] = Scheduler
    names["ExecutionEvent"] = ExecutionEvent
    return SimpleNamespace(**names)
