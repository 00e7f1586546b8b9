"""Opening the recorded state of a part: where it is read, and what its decisions add."""

from __future__ import annotations

import numpy as np

from tsviz.replay.decided.view import DERIVED, RECORDED, DecidedView
from tsviz.replay.recorded.bases import make_bases, open_bases
from tsviz.replay.recorded.followed import Followed
from tsviz.replay.recorded.life_of import has_many_rows, is_large
from tsviz.replay.recorded.preparing import PreparingTables
from tsviz.replay.recorded.snapshot import RecordedView
from tsviz.replay.recorded.source import CallsTables, Source, WholeTables
from tsviz.replay.recorded.source_bases import BasedTables
from tsviz.replay.recorded.source_grown import FollowedTables
from tsviz.replay.reexecution.filled import open_filled
from tsviz.replay.reexecution.index import Index, open_index
from tsviz.replay.rows.lifetimes import column
from tsviz.trace.catalogue import CALLS, DECISIONS
from tsviz.trace.reader import Bundle, Part

from .inside import Inside
from .part_view import PartView


def open_view(bundle: Bundle, node: str | None = None, rank: int | None = None, *, wait: bool = True) -> RecordedView:
    """Return the recorded state of a part of a bundle, with its decisions where they are recorded or indexed.

    A large part needs compact bases, which are built once. `wait`: until they are there; otherwise a process builds
    them, and snapshots say how far it is (`preparing`) and nothing of requests.

    Raises KeyError for a part that is not there, `TraceError`.
    """
    part = bundle.part(node, rank)
    if part.cold is None and "starts_at" not in part.meta and has_many_rows(part):
        return followed_view(bundle, *Followed(part.directory).committed())
    index = None if part.level == DECISIONS else open_index(part)
    decided = _decided(part, index)
    source = _source(bundle, part, decided, wait=wait)
    return PartView(bundle, part, decided, Inside(part, index, str(bundle.path)), source)


def followed_view(bundle: Bundle, part: Part, source: FollowedTables) -> RecordedView:
    """Return the recorded state of a part of a bundle that was read as it grew. Raises `TraceError`."""
    index = None if part.level == DECISIONS else open_index(part)
    inside = Inside(part, index, str(bundle.path), (source.life, source.by_request))
    return PartView(bundle, part, _decided(part, index), inside, source)


def _source(bundle: Bundle, part: Part, decided: DecidedView | None, *, wait: bool) -> Source:
    if part.level == CALLS:
        return CallsTables(part)
    store = part.cold
    if store is None or not is_large(part):
        begin = part.meta.get("starts_at", 1)
        return WholeTables(part, None if decided is None or begin == 1 else decided.retracted(begin - 1))
    bases = make_bases(part) if wait else open_bases(part)
    return PreparingTables(part, store, bundle.path) if bases is None else BasedTables(part, store, bases)


def view_at(path: str, node: str, rank: int) -> RecordedView:
    """Return what `open_view` does, for the bundle that is at a path now."""
    return open_view(open_filled(path), node, rank, wait=False)


def _decided(part: Part, index: Index | None) -> DecidedView | None:
    described = part.config["cache_groups"]
    groups = [str(group["group_id"]) for group in described]
    has_state = any(group["family"] == "State" for group in described)
    if part.level != DECISIONS and index is None:
        return None
    begin = part.meta.get("starts_at", 1)
    carried: frozenset[int] = frozenset()
    if begin > 1:
        carried = frozenset(np.flatnonzero(column(part.table("submissions"), "round") < begin).tolist())
    return DecidedView(
        index or part, RECORDED if index is None else DERIVED, part.last_round if index is None else index.last_round,
        groups, has_state=has_state, begin=begin, carried=carried,
    )  # fmt: skip
