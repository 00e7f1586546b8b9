"""The scheduler's package with a word before every call: where it was when it took its process with it."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from tsviz.trace import entries as e

BUILD = "construction"
_METHODS = {
    "next_execution_plan": e.PLAN,
    "advance": e.ADVANCE,
    "submit_requests": e.SUBMIT,
    "register_storage_keys": e.REGISTER_KEYS,
    "unregister_storage_keys": e.UNREGISTER_KEYS,
    "clear_cache": e.CLEAR,
    "clear_l1_cache": e.CLEAR_L1,
    "drain_kv_events": e.DRAIN,
}
"""The state-changing calls, by method, as a trace names them."""


def watched_module(module: Any, tell: Callable[[int, int, str], None]) -> SimpleNamespace:
    """Return the package's namespace with a `Scheduler` that calls `tell(seq, round, kind)` before each of its calls.

    Sequence and round are those that the log of calls of a recording would give the call; -1 and 0 for construction.
    """

    class Scheduler(module.Scheduler):  # type: ignore[misc]
        """The package's own scheduler."""

        def __init__(self, *arguments: Any, **options: Any) -> None:
            tell(-1, 0, BUILD)
            super().__init__(*arguments, **options)
            self.calls = self.plans = 0

    def watched(name: str, kind: str) -> Callable[..., Any]:
        method, plans = getattr(module.Scheduler, name), kind == e.PLAN

        def call(self: Any, *arguments: Any) -> Any:
            tell(self.calls, self.plans + 1, kind)
            self.calls += 1
            self.plans += plans
            return method(self, *arguments)

        return call

    for name, kind in _METHODS.items():
        setattr(Scheduler, name, watched(name, kind))
    names = {name: getattr(module, name) for name in dir(module) if not name.startswith("_")}
    return SimpleNamespace(**names | {"__name__": module.__name__, "Scheduler": Scheduler})
