"""Findings that were made before: kept in the user's cache beside the index, so that a large trace has them at once.

They are keyed by everything that they follow from: the bytes of all parts of the bundle (as an index is), how far
decisions are known, and the code of the checks. What is damaged, foreign or of another version is not looked at.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from tsviz.replay.reexecution.index import cache_directory, content_key
from tsviz.replay.scenario.predicates import Absent, Finding
from tsviz.trace import layout
from tsviz.trace.errors import TraceError
from tsviz.trace.reader import Bundle, Part

from .model import Check, Ended, NotApplicable, NotCheckable

_FOLDER = "findings"
_CODE = (
    "replay/findings/*.py",
    "replay/scenario/predicates.py",
    "replay/why/facts.py",
    "replay/diff/*.py",
    "replay/figures/*.py",
    "replay/rows/lifetimes.py",
    "replay/rows/rows_from.py",
    "replay/recorded/life_of.py",
    "replay/recorded/lives.py",
    "trace/order/*.py",
)
_KINDS: Mapping[str, type[Ended]] = {kind.__name__: kind for kind in (Finding, Absent, NotCheckable, NotApplicable)}


class Kept:
    """The checks of one part that were made before, by name."""

    def __init__(self, bundle: Bundle, part: Part, decided: str) -> None:
        """`decided` says how far decisions are known, in any words that differ when it does.

        Nothing is kept of a part that still grows, nor where the cache cannot be written. Raises `TraceError` where
        there is something and the part's files contradict their CRCs.
        """
        self._path = None if any(p.live for p in bundle.parts) else cache_directory() / _FOLDER / _key(
            bundle, part, decided
        )  # fmt: skip
        self._found: dict[str, Any] = {}
        if self._path is not None and self._path.exists():
            with suppress(TraceError, OSError):
                self._found = layout.read_json(self._path)
        if self._found:  # the key is of what describes the tables; their own bytes may be damaged since
            part.check_bytes()

    def get(self, check: Check) -> Ended | None:
        """Return how a check ended before; None if it was not made, or not with this threshold."""
        kept = self._found.get(check.name)
        if not isinstance(kept, dict) or kept.get("threshold") != check.threshold:
            return None
        try:
            values = dict(kept["values"])
            if "requests" in values:
                values["requests"] = tuple(values["requests"])
            return _KINDS[kept["is"]](**values)
        except (KeyError, TypeError, ValueError):
            return None

    def put(self, check: Check, ended: Ended) -> None:
        """Keep how a check ended."""
        if self._path is None:
            return
        self._found[check.name] = {
            "threshold": check.threshold, "is": type(ended).__name__, "values": asdict(ended),
        }  # fmt: skip
        with suppress(OSError):  # a cache that is full or read only: it will be made again
            self._path.parent.mkdir(parents=True, exist_ok=True)
            layout.write_json(self._path, self._found)


def _key(bundle: Bundle, part: Part, decided: str) -> str:
    hasher = hashlib.blake2b(digest_size=16)
    said = [f"{p.node}/{p.rank} {content_key(p)}" for p in bundle.parts]
    hasher.update("\0".join([_code_key(), f"{part.node}/{part.rank}", decided, *said]).encode())
    return f"{hasher.hexdigest()}.json"


@cache
def _code_key() -> str:
    """Return a digest of the code of the checks: another one may find other things."""
    hasher = hashlib.blake2b(digest_size=16)
    for path in sorted({path for pattern in _CODE for path in Path(__file__).parents[2].glob(pattern)}):
        hasher.update(path.read_bytes())
    return hasher.hexdigest()
