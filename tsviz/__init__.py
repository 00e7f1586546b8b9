"""tsviz: a visual debugger and trace replayer for the scheduler of an LLM inference engine.

`tsviz.open("run.tsviz")` opens a trace from Python (docs/python.md). What it needs is imported when it is asked for, by
name: every room imports this package, and none may pull in the others with it. Types stand in `__init__.pyi`.
"""

from __future__ import annotations

import importlib

from .version import __version__

__all__ = ["Trace", "__version__", "follow", "open"]

_LAZY = {"Trace": "Trace", "follow": "follow_trace", "open": "open_trace"}


def __getattr__(name: str) -> object:
    if name in _LAZY:
        return getattr(importlib.import_module("tsviz.api"), _LAZY[name])
    raise AttributeError(f"module 'tsviz' has no attribute {name!r}")
