"""tsviz: a visual debugger and trace replayer for the scheduler of an LLM inference engine.

`tsviz.open("run.tsviz")` opens a trace from Python (docs/python.md). What it needs is imported when it is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .version import __version__

if TYPE_CHECKING:
    from .api import Trace
    from .api import open_trace as open  # noqa: A004 (the name that Python users type: tsviz.open)

__all__ = ["Trace", "__version__", "open"]

_LAZY = {"Trace": "Trace", "open": "open_trace"}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        from . import api

        return getattr(api, _LAZY[name])
    raise AttributeError(f"module 'tsviz' has no attribute {name!r}")
