"""Workloads in one line, and a module that writes down what is called on it."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

from tsviz.engine.workloads.model import Span, Workload, WorkRequest

os.environ.setdefault("SPDLOG_LEVEL", "off")  # The real package logs to stdout.


@pytest.fixture
def real() -> Any:
    """The real package."""
    return pytest.importorskip("tokenspeed_scheduler")


@pytest.fixture
def ask() -> Callable[..., WorkRequest]:
    """Make a request with a prompt of its own, arriving at 0."""

    def make(
        request_id: str,
        prompt: int,
        output: int,
        *,
        declared: bool = True,
        source: int | None = None,
        at: int | None = 0,
        after: str | None = None,
        think: int = 0,
    ) -> WorkRequest:
        key = int.from_bytes(request_id.encode(), "big") if source is None else source
        return WorkRequest(
            request_id,
            (Span(key, 0, prompt),) if prompt else (),
            (Span(key + (1 << 50), 0, output),) if output else (),
            output if declared else 0,
            arrival_ns=None if after else at,
            after=after,
            think_ns=think,
        )

    return make


@pytest.fixture
def together() -> Callable[..., Workload]:
    """Make a workload of requests."""
    return lambda *requests: Workload(tuple(requests), {})


class Logged:
    """A module like the one it wraps, whose scheduler logs every call, every plan and every event."""

    def __init__(self, module: Any) -> None:
        self._module = module
        self.log: list[tuple[Any, ...]] = []
        self.schedulers: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)

    def Scheduler(self, config: Any) -> Any:
        """Wrap a scheduler of the wrapped module."""
        logged = _LoggedScheduler(self._module.Scheduler(config), self.log)
        self.schedulers.append(logged)
        return logged

    def ExecutionEvent(self) -> Any:
        """Wrap a list of events."""
        return _LoggedEvents(self._module.ExecutionEvent())

    def events(self, kind: str) -> list[tuple[Any, ...]]:
        """Return the events of a kind, in order: their attributes by name, sorted."""
        return [e for call in self.log if call[0] == "advance" for e in call[1] if e[0] == kind]

    def plans(self) -> list[Any]:
        """Return the plans, in order."""
        return [call[1] for call in self.log if call[0] == "plan"]

    def rows(self) -> list[list[tuple[str, int, int]]]:
        """Return per plan its rows: request, input length, prefix (-1 on a decode row)."""
        rows = []
        for plan in self.plans():
            b = plan.forward[0]
            prefixes = list(b.extend_prefix_lens) + [-1] * (len(b.request_ids) - b.num_extends())
            rows.append(list(zip(b.request_ids, b.input_lengths, prefixes, strict=True)))
        return rows


class _LoggedEvents:
    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.seen: list[tuple[Any, ...]] = []

    def add_event(self, event: Any) -> Any:
        names = [n for n in dir(event) if not n.startswith("_")]
        self.seen.append((type(event).__name__, *(getattr(event, n) for n in sorted(names))))
        self.inner.add_event(event)
        return self


class _LoggedScheduler:
    def __init__(self, inner: Any, log: list[tuple[Any, ...]]) -> None:
        self._inner = inner
        self._log = log

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def submit_requests(self, specs: Any) -> None:
        self._log.append(("submit", [s.request_id for s in specs]))
        self._inner.submit_requests(specs)

    def next_execution_plan(self) -> Any:
        plan = self._inner.next_execution_plan()
        self._log.append(("plan", plan))
        return plan

    def advance(self, event: _LoggedEvents) -> None:
        self._log.append(("advance", event.seen))
        self._inner.advance(event.inner)

    def drain_kv_events(self) -> Any:
        events = self._inner.drain_kv_events()
        self._log.append(("drain", len(events)))
        return events


@pytest.fixture
def logged(real: Any) -> Logged:
    """The real package behind a log."""
    return Logged(real)


@pytest.fixture
def logged_again(real: Any) -> Callable[[], Logged]:
    """Further ones, for the other nodes or ranks of a run."""
    return lambda: Logged(real)
