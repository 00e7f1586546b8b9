"""The process that opens a trace and answers one query, under limits that it cannot lift (architecture.md, section 7).

Started by `child.py`: one line of JSON on standard input says what to do; frames go out on what was standard output;
the end of standard input means that the parent is gone. It may not write to files at all.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import math
import os
import re
import resource
import sys
import threading
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, cast

import pyarrow.dataset  # noqa: F401  (loaded before the limits are set, like duckdb below)

from tsviz.trace.layout import BUNDLE_FILE

from . import frames
from .catalog import Catalog
from .locked import Limits, Locked
from .opening import open_several, open_with_tables
from .paths import split_part
from .problem import Kind, Problem, QueryError
from .source import Bundle, Opener

_OPENER = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_SPARE_CPU_SECONDS = 10


def main() -> None:
    """Answer the query on standard input and end."""
    out = cast(BinaryIO, os.fdopen(os.dup(1), "wb"))
    os.dup2(2, 1)
    line = sys.stdin.buffer.readline()
    if not line:  # the parent ended before it asked
        return
    ask = json.loads(line)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    limits = Limits(**ask["limits"])
    try:
        _limit(limits, ask["seconds"], ask["paths"])
        bundles, left_out = _open(ask["opener"], ask["paths"], ask["optional"])
        for problem in left_out:
            frames.write(out, frames.WARNING, _encoded(problem))
        _answer(Locked(Catalog(bundles), limits), ask["sql"], out)
    except QueryError as error:
        frames.write(out, frames.PROBLEM, _encoded(error.problem))
    except Exception as error:
        # The process must not end as Python does: the thread that reads standard input would abort it.
        problem = Problem(Kind.FAILED, f"{type(error).__name__}: {error}")
        frames.write(out, frames.PROBLEM, _encoded(problem))
    finally:
        # Threads of the engine may still be inside a call that nothing stops.
        os._exit(0)


def _encoded(problem: Problem) -> bytes:
    return json.dumps(problem.to_json()).encode()


def _answer(locked: Locked, sql: str, out: BinaryIO) -> None:
    with locked.stream(sql) as stream:
        frames.write(out, frames.BATCH, frames.encode(stream.schema))
        for batch in stream:
            frames.write(out, frames.BATCH, frames.encode(stream.schema, batch))
        total = stream.total
    assert total is not None
    frames.write(out, frames.TOTAL, json.dumps([total.rows, total.of, total.exact]).encode())


def _open(opener: str, paths: Sequence[str], optional: Sequence[str]) -> tuple[list[Bundle], list[Problem]]:
    """Open every path and read its tables; whatever goes wrong on data of others is a problem of the trace.

    Optional paths that cannot be read are left out, unless nothing else is there.
    """
    if _OPENER.fullmatch(opener) is None:
        raise QueryError(Problem(Kind.TRACE, f"opener: expected module:name, found {opener!r}"))
    module, _, name = opener.partition(":")
    open_bundle: Opener = getattr(importlib.import_module(module), name)
    bundles, left_out = open_several(lambda path: _opened(open_bundle, path), paths, optional, (QueryError,))
    return bundles, [Problem(Kind.TRACE, one.reason) for one in left_out]


def _opened(open_bundle: Opener, path: str) -> Bundle:
    """Open a bundle; whatever goes wrong on data of others is a problem of the trace."""
    try:
        return open_with_tables(open_bundle, path)
    except MemoryError as error:
        raise QueryError(Problem(Kind.TRACE, f"{path}: opening it takes more memory than allowed")) from error
    except Exception as error:
        text = str(error) or type(error).__name__
        if isinstance(error, OSError) and error.filename:
            text = f"{error.filename}: {error.strerror or error}"
        raise QueryError(Problem(Kind.TRACE, text if path in text else f"{path}: {text}")) from error


def _limit(limits: Limits, seconds: float, paths: Sequence[str]) -> None:
    """Set hard limits: memory over what the process has now, address space for mapped files, time, no files written."""
    allowed = 2 * limits.memory_bytes
    with contextlib.suppress(OSError):  # no /proc: the wall clock of the parent and the engine's own limit remain
        pages = Path("/proc/self/statm").read_text().split()
        size, data = (int(pages[i]) * resource.getpagesize() for i in (0, 5))
        _set(resource.RLIMIT_DATA, data + allowed)
        _set(resource.RLIMIT_AS, size + allowed + sum(map(_file_bytes, paths)))
    _set(resource.RLIMIT_CPU, math.ceil(seconds) * limits.threads + _SPARE_CPU_SECONDS)
    _set(resource.RLIMIT_FSIZE, 0)
    _set(resource.RLIMIT_CORE, 0)


def _set(limit: int, value: int) -> None:
    hard = resource.getrlimit(limit)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(limit, (value, value))


def _file_bytes(path: str) -> int:
    """Return how much of the address space the files of a bundle take when all of them are mapped.

    Of a folder that is none only the files right in it count: it may be the root of everything.
    """
    root = Path(split_part(path)[0])
    below: Any = os.walk(root) if (root / BUNDLE_FILE).is_file() else islice(os.walk(root), 1)
    total = 0
    for file in (Path(folder) / name for folder, _, names in below for name in names):
        with contextlib.suppress(OSError):
            total += file.lstat().st_size
    return total


def _end_with_parent() -> None:
    sys.stdin.buffer.read()
    os._exit(1)


if __name__ == "__main__":
    main()
