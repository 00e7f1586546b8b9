"""Runs at the start of every Python process under `tsviz run`: the package of the scheduler is recorded when it comes.

The folder of this file stands first in PYTHONPATH. A sitecustomize that would have been found without it runs as ever,
before anything of ours. Only the standard library is loaded here, and nothing that goes wrong here reaches the program.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import sys
from types import ModuleType
from typing import Any

_OPTIONS = "TSVIZ_RUN"
_PACKAGE = "tokenspeed_scheduler"
_HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 (no import that is not needed)


def _tell(words: str) -> None:
    shown = "".join(each if each.isprintable() else "\ufffd" for each in words)  # a path may hold anything
    try:
        sys.stderr.write(f"tsviz: {shown}\n")
    except Exception:
        return


def _note_failed() -> None:
    """Have `tsviz run` say nothing more about it (`FAILED_VARIABLE` of `live.py`, which may be what failed)."""
    try:
        with open(os.environ["TSVIZ_RUN_FAILED"], "wb") as file:  # noqa: PTH123 (no import that is not needed)
            file.write(b"1")
    except (OSError, KeyError):
        return


def _chain() -> None:
    """Run the sitecustomize that this one stands in front of; as ever, its errors are its own."""
    sys.path[:] = [path for path in sys.path if os.path.abspath(path or ".") != _HERE]  # noqa: PTH100
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


def _tsviz() -> None:
    """Make `tsviz` importable, without putting anything into the program's path."""
    folder = os.environ["TSVIZ_RUN_PACKAGE"]
    if "tsviz" in sys.modules or importlib.util.find_spec("tsviz") is not None:
        return
    path = os.path.join(folder, "__init__.py")  # noqa: PTH118
    spec = importlib.util.spec_from_file_location("tsviz", path, submodule_search_locations=[folder])
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["tsviz"] = module
    spec.loader.exec_module(module)


def _record(module: ModuleType) -> None:
    try:
        _tsviz()
        from tsviz.adapters.live import install_from_environment

        install_from_environment(module)
    except Exception as error:
        _tell(f"not recorded: {type(error).__name__}: {error}")
        _note_failed()


class _Loader:
    """The package's own loader; once the package is there, it is recorded."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: Any) -> Any:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        _record(module)


class _Finder:
    """Finds the scheduler's package as every other finder would, and gives it a loader that tells us."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != _PACKAGE:
            return None
        for finder in sys.meta_path:
            if finder is not self and hasattr(finder, "find_spec"):
                spec = finder.find_spec(name, path, target)
                if spec is not None:
                    if spec.loader is not None:
                        spec.loader = _Loader(spec.loader)  # type: ignore[assignment]
                    return spec
        return None


if os.environ.get(_OPTIONS):
    sys.meta_path.insert(0, _Finder())
_chain()
