"""What the pages screen shows, in one frozen value, and what it asks of a view."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from tsviz.replay.pages.values import DEVICE, GroupPool, PageLife, PagesMap
from tsviz.replay.recorded.snapshot import Preparing, TraceHead
from tsviz.tui.key import Key
from tsviz.tui.pages_keys import PAGES_KEYS


class LivePages(Protocol):
    """Lays over a map what a re-executed scheduler knows (`tsviz.replay.pages.live.LivePageSource`)."""

    def over(self, pages: PagesMap, wait_seconds: float) -> PagesMap | str:
        """Return the map with what is live, or why it is not there; an empty text: not yet."""
        ...

    def close(self) -> None:
        """Stop re-executing."""
        ...


class Pages(Protocol):
    """The pages of one tier of a part at every round: `PagesHistory`, `LargePages`, `HostHistory`, `LargeHost`."""

    @property
    def live(self) -> LivePages:
        """What is known by re-execution."""
        ...

    def at(self, round_: int) -> PagesMap:
        """Return the map behind the plan of a round."""
        ...

    def held(self, submission: int, round_: int) -> tuple[frozenset[int], ...]:
        """Return the pages of a request behind the plan of a round, by group."""
        ...

    def life(self, group: int, page: int, round_: int) -> PageLife:
        """Return what happened to a page, in order; of a large part in the rounds around one."""
        ...

    def event_beyond(self, group: int, page: int, round_: int, step: int) -> int | None:
        """Return the next (`step` 1) or previous (-1) round of its life beyond what `life` tells around a round."""
        ...


class TieredPages(Pages, Protocol):
    """The device pages of one part, and those of its host tier."""

    @property
    def host(self) -> Pages | None:
        """The pages of the host tier; None for a part without one."""
        ...

    def group_pool(self, group: int, first_round: int, last_round: int, buckets: int) -> GroupPool:
        """Return the pool of one group in each of at most `buckets` equal pieces of the rounds, both included."""
        ...


@runtime_checkable
class PagesView(Protocol):
    """A view that knows its pages."""

    @property
    def pages(self) -> TieredPages:
        """The pages; reading them may take a while the first time."""
        ...


@dataclass(frozen=True, slots=True)
class PagesScene:
    """The map of a round, the place of the cursor, and whose pages are lit."""

    head: TraceHead
    round: int
    tier: str = DEVICE
    """Whose pages are shown: those of the device, or of the host."""
    map: PagesMap | None = None
    life: PageLife | None = None
    parent: int = 1
    child: int = 0
    group: int | None = None
    """The only group that is drawn; None: all."""
    lit: int | None = None
    """Submission whose pages are lit."""
    lit_name: str = ""
    lit_pages: tuple[frozenset[int], ...] = ()
    hover: tuple[int, int] | None = None
    """Parent and child under the pointer."""
    live_words: str = "re-executing …"
    """Why the index is not known by re-execution; empty where it is."""
    loading: bool = True
    preparing: Preparing | None = None
    """How far the indexing of a large trace is, while its pages wait for it."""
    error: str = ""
    message: str = ""
    keys: tuple[Key, ...] = PAGES_KEYS
    """What the last line and the help offer: our keys, or those that the user chose."""

    @property
    def page(self) -> tuple[int, int] | None:
        """(group, page) under the cursor; None where no group is known to hold its parent."""
        return None if self.map is None else place(self.map, self.group, self.parent, self.child)


def place(pages: PagesMap, only: int | None, parent: int, child: int) -> tuple[int, int] | None:
    """Return (group, page) at a place of the map; with `only`, or a single group, also in a parent that is empty."""
    found = pages.page_at(parent, child)
    single = 0 if len(pages.groups) == 1 else only
    if found is not None or single is None or child >= pages.groups[single].packing:
        return found
    if pages.parents[parent] >= 0:
        return None
    return single, 1 + (parent - 1) * pages.groups[single].packing + child
