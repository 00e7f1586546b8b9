"""Keyframes: the whole state of a re-execution between two calls, as a value and as bytes (architecture.md, section 6).

A keyframe of round r is the state before the first call that precedes plan r. A *block* holds some of one run, with
what they share stored once: the index keeps blocks of several, a slice one block of one. Bytes are untrusted: they
prove themselves by digest, every value is checked, and the state by the twin's own invariants.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tsviz.scheduler import compat, invariants
from tsviz.scheduler.cache.geometry import groups_of
from tsviz.scheduler.config import Config
from tsviz.scheduler.scheduler import Scheduler
from tsviz.scheduler.snapshot import Snapshot
from tsviz.trace import layout
from tsviz.trace.config import build_config
from tsviz.trace.errors import Damaged
from tsviz.trace.reader import Part
from tsviz.trace.tables import RECORDED

from .book import Keyframe, book_values, read_book
from .checks import member, whole
from .collector import Collector
from .differences import POOLS, added, less, over_cached
from .packed import Arrays, Malformed, pack, unpack, unpack_arrays
from .shared import Shared
from .states import state, state_values

_COUNT = struct.Struct("<I")
_LENGTH = struct.Struct("<Q")
_STATES_LIMIT = 1 << 16
_ENTRIES = "_entries_"


def write_block(keyframes: Sequence[Keyframe]) -> bytes:
    """Return keyframes of one run as bytes."""
    shared = Collector()
    states = []
    for keyframe in keyframes:
        values, arrays = state_values(keyframe.snapshot, shared)
        values["round"], values["book"] = keyframe.round, book_values(keyframe, arrays, shared)
        states.append((values, arrays))
    sections = [pack(None, shared.arrays())]
    before: Arrays = {}
    for keyframe, (values, arrays) in zip(keyframes, states, strict=True):
        over_cached(arrays, groups_of(keyframe.snapshot.config))
        whole_ = {name: shared.present(a) if _ENTRIES in name else a for name, a in arrays.items()}
        sections.append(pack(values, less(whole_, before)))
        before = {name: array for name, array in whole_.items() if name.startswith(POOLS)}
    return _COUNT.pack(len(keyframes)) + b"".join(_LENGTH.pack(len(part)) + part for part in sections)


class Block:
    """The keyframes of a block, read one by one when they are asked for."""

    def __init__(self, path: Path, data: bytes) -> None:
        """`path` is what errors name. Raises `Damaged`."""
        self._path = path
        try:
            self._sections = _sections(data)
            self._shared: Shared | None = None
            self._added: tuple[int, Arrays] = (0, {})
        except Malformed as error:
            raise Damaged(path, error.place, error.expected, error.found) from None

    def __len__(self) -> int:
        return len(self._sections) - 1

    def _whole(self, index: int) -> tuple[Any, Arrays]:
        """Return values and arrays of a state; where they are differences, those before it are added up."""
        first, before = self._added if self._added[0] <= index else (0, {})
        for at in range(first, index):
            before = added(unpack_arrays(self._sections[1 + at], POOLS), before)
        self._added = index, before
        values, arrays = unpack(self._sections[1 + index])
        kept = {name: array.copy() for name, array in before.items()}
        return values, added(arrays, kept)

    def keyframe(self, index: int, config: Config, *, check: bool) -> Keyframe:
        """Return one keyframe; `check`: hold it against every invariant of the twin too. Raises `Damaged`."""
        try:
            values, arrays = self._whole(index)
            round_ = whole(member(values, "round"), "round", 1)
            if self._shared is None:
                self._shared = Shared(unpack(self._sections[0])[1], config.prefix_granularity)
            found = Keyframe(
                round_,
                state(values, arrays, self._shared, config),
                read_book(member(values, "book"), arrays, self._shared, config),
            )
            if found.snapshot.rounds != round_ - 1:
                raise Malformed("rounds", str(round_ - 1), str(found.snapshot.rounds))
            _check_live(found)
            if check:
                _check_invariants(found.snapshot)
        except Malformed as error:
            raise Damaged(self._path, f"keyframe {error.place}", error.expected, error.found) from None
        except (ValueError, TypeError, LookupError, ArithmeticError, MemoryError) as error:  # what no check foresaw
            words = f"{type(error).__name__}: {error}"[:120]
            raise Damaged(self._path, "keyframe", "a state of the twin", words) from None
        return found


def _sections(data: bytes) -> list[bytes]:
    if len(data) < _COUNT.size:
        raise Malformed("block", "a count of states", f"{len(data)} bytes")
    (count,) = _COUNT.unpack_from(data)
    if count > _STATES_LIMIT:
        raise Malformed("block", f"at most {_STATES_LIMIT} states", str(count))
    at, sections = _COUNT.size, []
    for _ in range(count + 1):
        end = at + _LENGTH.size
        length = _LENGTH.unpack_from(data, at)[0] if end <= len(data) else len(data)
        if end + length > len(data):
            raise Malformed("block", f"{count} states and what they share", f"{len(data)} bytes")
        sections.append(data[end : end + length])
        at = end + length
    if at != len(data):
        raise Malformed("block", f"{at} bytes", str(len(data)))
    return sections


def _check_live(found: Keyframe) -> None:
    live = {request.request_id for request in found.snapshot.requests}
    if live != found.book.submissions.keys():
        missing = sorted(live ^ found.book.submissions.keys())
        raise Malformed("book", "the submission of every live request", f"{missing[:3]} without it"[:80])


def _check_invariants(snapshot: Snapshot) -> None:
    try:
        found = invariants.breaches(Scheduler.restore(snapshot))
    except Exception as error:
        raise Malformed("state", "one that the twin can be in", f"{type(error).__name__}: {error}"[:120]) from None
    if found:
        first = found[0]
        raise Malformed(f"{first.name} at {first.place}"[:120], first.expected[:60], first.found[:60])


def _row(keyframe: Keyframe) -> dict[str, Any]:
    return {
        "round": keyframe.round,
        "digest_state": state_digest(keyframe.snapshot),
        "state": write_block([keyframe]),
    }


def recorded_keyframe(part: Part, round_: int) -> Keyframe:
    """Return the keyframe of a round that a trace holds, at its start or behind a gap, checked in full.

    Raises `Damaged`.
    """
    path, rows = part.directory / layout.PART_FILE, part.table("keyframes")
    rounds = rows["round"].to_pylist()
    if rounds.count(round_) != 1 or rounds != sorted(rounds):
        raise Damaged(path, "keyframes", f"one of round {round_}, in order", f"of {rounds[:5]}")
    at = rounds.index(round_)
    block = Block(path, rows["state"][at].as_py())
    found = block.keyframe(0, core_config(part), check=True)
    if found.round != round_ or len(block) != 1:
        raise Damaged(path, "keyframes", f"one, of round {round_}", f"one of {len(block)}, of round {found.round}")
    if (expected := rows["digest_state"][at].as_py()) != (digest := state_digest(found.snapshot)):
        raise Damaged(path, "keyframes", f"a state of digest {expected:016x}", f"{digest:016x}")
    return found


def keyframe_table(keyframes: Sequence[Keyframe]) -> pa.Table:
    """Return keyframes as the table of a trace."""
    return pa.Table.from_pylist([_row(each) for each in keyframes], RECORDED["keyframes"].schema)


def core_config(part: Part) -> Config:
    """Return the part's config as the twin has it. Raises `Damaged` when it cannot be built."""
    try:
        config: Config = Scheduler(build_config(compat, part.config)._to_core()).config
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        place = f"config ({type(error).__name__})"
        raise Damaged(part.directory, place, "a config that the scheduler takes", str(error)[:200]) from None
    return config


def state_digest(snapshot: Snapshot) -> int:
    """Return the full-state digest of a snapshot between two calls: 64 bits over everything that decides what follows.

    The same state has the same digest however it came about: run through, or restored from bytes.
    """
    plain = _Plain()
    values, arrays = state_values(snapshot, plain)
    hasher = hashlib.blake2b(digest_size=8)
    hasher.update(json.dumps(values, separators=(",", ":"), sort_keys=True).encode())
    for name in sorted(arrays):
        hasher.update(f"{name}:{len(arrays[name])};".encode())
        hasher.update(np.ascontiguousarray(arrays[name]).tobytes())
    hasher.update(plain.contents())
    return int.from_bytes(hasher.digest(), "little")


class _Plain(Collector):
    """Numbers things by what is in them, in order of first sight, so that a state has one form: for its digest."""

    def __init__(self) -> None:
        super().__init__()
        self._known: dict[Any, int] = {}
        self._hasher = hashlib.blake2b(digest_size=32)

    def contents(self) -> bytes:
        """Return a digest of all that was numbered."""
        return self._hasher.digest()

    def listed(self, values: Any, length: int) -> int:
        part = values[:length]
        content = b"".join(part) if isinstance(part, list) else part.tobytes()
        return self._number(hashlib.blake2b(content, digest_size=32).digest())

    def chained(self, chain: Any, pages: int, tokens: Any) -> int:  # noqa: ARG002
        return self.listed(chain, pages)

    def digest(self, digest: bytes) -> int:
        return self._number(digest)

    def entry(self, entry: Any, group: int, page: int) -> int:  # noqa: ARG002
        if entry is None:
            return 0
        digest, *rest = entry
        return self._number((self._number(digest), *rest)) + 1

    def _number(self, content: Any) -> int:
        known = self._known.get(content)
        if known is None:
            known = self._known[content] = len(self._known)
            self._hasher.update(content if isinstance(content, bytes) else repr(content).encode())
        return known
