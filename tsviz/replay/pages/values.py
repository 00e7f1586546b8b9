"""What the pages map shows: frozen values at one round, one code a page (debugger.md, section 1, *Pages*).

Page ids are those of the plans: `1 + (parent - 1) * packing + child`, each group with its own packing, 0 is no page.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

EMPTY, UNKNOWN, CACHED, OWNED, SHARED, RESERVE, WRITTEN, ZEROED, PINNED, LOADING, FREED = range(11)
"""Codes of a page: what is said of it first. Later ones hide earlier ones, except that `FREED` is of unowned pages."""

CODES = (
    "empty", "unknown", "cached", "owned", "shared", "reserve", "written", "zeroed", "pinned", "loading", "freed",
)  # fmt: skip
"""Their names, by code."""

DEVICE, HOST = "device", "host"
"""The tiers, in `PagesMap.tier`."""

UNBOUND, UNBOUND_OR_CACHED = -1, -2
"""In `PagesMap.parents`: no group holds the parent; it is not known whether one does (its cache)."""


@dataclass(frozen=True, slots=True)
class PageGroup:
    """One cache group of the part: `packing` pages lie in a parent, `block_tokens` tokens in a page."""

    name: str
    kind: str
    packing: int
    block_tokens: int


@dataclass(frozen=True, slots=True)
class PagesMap:
    """Every parent and every page of every group at one round, behind its plan.

    `codes[group][page]` is a code, `owners[group][page]` the submission that holds the page (the latest of several; -1:
    none), `shares[group][page]` how many tables point to it (255 and more are 255).
    """

    round: int
    groups: tuple[PageGroup, ...]
    parents: array[int]
    """By parent (index 0 is unused): the group that it is bound to, or UNBOUND, or UNBOUND_OR_CACHED."""
    codes: tuple[bytes, ...]
    owners: tuple[array[int], ...]
    shares: tuple[bytes, ...]
    counts: tuple[Mapping[str, int], ...]
    """By group: how many pages have each code; `empty` are those in parents that are bound to the group."""
    tickets: Mapping[tuple[int, int], tuple[int, ...]]
    """Operations that hold a page, by (group, page): stores that pin it, loads that fill it."""
    names: Mapping[int, str]
    """Request ids of the owners, by submission."""
    empty_parents: int
    """Parents that hold nothing: on the device the scheduler's own count."""
    unknown_parents: int
    """Parents of which it is not known whether they are empty or hold cache only."""
    unknown_cached: int
    """How many of those hold cache: known from the scheduler's count, not which ones; -1 where it counts none."""
    source: str
    """Where caching is known from: `recorded` or `derived` decisions, `live` (re-executed), or `none`."""
    tier: str = DEVICE
    """Whose pages these are; on the host an owner is the request from whose page the copy was made."""
    live: Mapping[tuple[int, int], CachedPage] | None = None
    """Entries of the prefix index by (group, page), where the state was re-executed; None: not known without it."""

    def parent_of(self, group: int, page: int) -> int:
        """Return the parent of a page."""
        return (page - 1) // self.groups[group].packing + 1

    def page_at(self, parent: int, child: int) -> tuple[int, int] | None:
        """Return (group, page) of a child of a parent; None where no group is known to hold the parent."""
        group = self.parents[parent]
        if group < 0 or child >= self.groups[group].packing:
            return None
        return group, 1 + (parent - 1) * self.groups[group].packing + child


@dataclass(frozen=True, slots=True)
class CachedPage:
    """An entry of the prefix index: its kind (chunk, endpoint, promoted), and where it stands in the eviction order.

    `epoch` counts admissions; `recency` is 0 for the page of the tier that goes first, -1 for one that is pinned.
    """

    kind: str
    epoch: int
    acquired: bool
    recency: int


@dataclass(frozen=True, slots=True)
class PageEvent:
    """One event of a page's life: the round, what happened, to whose table (empty: nobody's), and in words how."""

    round: int
    what: str
    request: str
    submission: int
    slot: int
    words: str


@dataclass(frozen=True, slots=True)
class PageLife:
    """What happened to one page of one group, in order; `complete`: evictions are known, so nothing is missing."""

    group: int
    page: int
    events: tuple[PageEvent, ...]
    complete: bool
    rounds: tuple[int, int] = (0, 0)
    """The first and the last round of which it tells, where these are not all rounds of the trace; else zeros."""

    def tells(self, place: tuple[int, int] | None, round_: int) -> bool:
        """Return whether it is the life of this (group, page) in a round."""
        first, last = self.rounds
        return (self.group, self.page) == place and (not last or first < round_ <= last)


class GroupPool(NamedTuple):
    """The most parents of a group in each piece of a window: with pages in live tables; with any page at all, cached or
    held by an operation as well. `words` is not empty where that is not known, or only in part.
    """

    active_parents: tuple[int, ...]
    occupied_parents: tuple[int, ...]
    words: str = ""
