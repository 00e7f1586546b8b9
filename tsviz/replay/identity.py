"""Which trace it is, whatever its path and however long it has grown: notes and watches hang on it."""

from __future__ import annotations

import hashlib
import json

from tsviz.trace.errors import TraceError
from tsviz.trace.layout import RECORDED_LEVEL
from tsviz.trace.reader import Bundle, Part, open_bundle


class Replaced(TraceError):
    """At the path of a trace that is open there is another one by now."""

    def __init__(self, path: str) -> None:
        super().__init__(path, "identity", "the trace that was opened", "another one")
        self.args = (f"the trace was replaced while it was open: open it again ({path})",)


def identity(bundle: Bundle, part: Part) -> str:
    """Return a digest of what a bundle and one of its parts say of themselves: constant while it is recorded.

    A trace of level `calls` is the same one once its plans were made again (`reexecution/filled.py`).
    """
    hasher = hashlib.blake2b(digest_size=16)
    meta = {name: said for name, said in part.meta.items() if name != RECORDED_LEVEL}
    if RECORDED_LEVEL in part.meta:
        meta["level"] = part.meta[RECORDED_LEVEL]
    for said in (bundle.description, meta):
        hasher.update(json.dumps(said, sort_keys=True).encode("utf-8", "surrogatepass"))
        hasher.update(b"\0")
    return hasher.hexdigest()


def require_same(bundle: Bundle, node: str, rank: int, expected: str) -> None:
    """Raise `Replaced` unless the part of a bundle that was opened now has the identity of the one opened before."""
    try:
        now = identity(bundle, bundle.part(node, rank))
    except KeyError as error:
        raise Replaced(str(bundle.path)) from error
    if now != expected:
        raise Replaced(str(bundle.path))


def require_at(path: str, node: str, rank: int, expected: str) -> None:
    """Open what is at a path now and hold it to `expected`. Raises `TraceError`: `Replaced`, or that it is gone."""
    require_same(open_bundle(path), node, rank, expected)


def problem_at(path: str, node: str, rank: int, expected: str) -> str:
    """Return why what is at a path now is not the trace that was opened; nothing where it is."""
    try:
        require_at(path, node, rank, expected)
    except TraceError as error:
        return str(error)
    return ""
