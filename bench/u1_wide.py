"""U1 where there is much to show: a list of 3,000 requests and a map of 50,000 pages, at 200x60, without a terminal.

The view is made up, so that what is measured is the screen alone: CPU milliseconds of the thread of the screen from a
key to the frame that answers it, less what waiting for a frame costs by itself. `python -m bench u1-wide`.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from array import array
from collections.abc import Iterator

from tsviz.replay.pages.values import PageGroup, PageLife, PagesMap
from tsviz.replay.recorded.snapshot import STATES, Pool, RequestLine, Snapshot, TraceHead

from .measure import Line
from .u1_step import COLUMNS, ROWS

REQUESTS, PAGES, ROUNDS = 3_000, 50_000, 1_000
_STEPS = 40
_HEAD = TraceHead(
    "wide", "P", 0, "fused", "tokenspeed-scheduler", "0", "0", ROUNDS, REQUESTS, False, "virtual", 0, ("P/0",)
)


class WideView:
    """3,000 requests whose numbers change from round to round, and pages that change hands."""

    head = _HEAD

    def snapshot(self, round_: int, selected: int | None = None) -> Snapshot:
        """Return a round."""
        lines = tuple(
            RequestLine(f"row-{i:07d}", i, STATES[(i + round_ // 50) % 6], i + round_, 4096, round_ % 97, 512, i % 90,
                        round_, (i + round_) % 7 == 0, 0)
            for i in range(REQUESTS)
        )  # fmt: skip
        return Snapshot(
            head=_HEAD, round=round_, start_ns=round_ * 8_000_000, budget_tokens=8192, scheduled_tokens=4096,
            batch_slots=256, rows=(), requests=lines, counts={"decoding": REQUESTS}, retracted=0, transfers=(),
            pool=Pool(PAGES, round_ % 500, 0), selected=selected, tables=(), events=(),
        )  # fmt: skip

    def next_mark(self, round_: int, _submission: int | None, step: int) -> int | None:
        """Every round is one."""
        return round_ + step

    @property
    def pages(self) -> WideView:
        """The pages of the part: this view knows them."""
        return self

    @property
    def live(self) -> WideView:
        """Nothing is re-executed."""
        return self

    def over(self, _pages: PagesMap, _wait_seconds: float) -> str:
        """Say why nothing more is known."""
        return "not re-executed"

    def close(self) -> None:
        """Do nothing."""

    def at(self, round_: int) -> PagesMap:
        """Return the map: page p has code (p div 3 + round) mod 11, so that three after another are alike."""
        codes = bytes([0, *((page // 3 + round_) % 11 for page in range(1, PAGES + 1))])
        return PagesMap(
            round=round_, groups=(PageGroup("full", "full", 1, 16),), parents=array("b", bytes(PAGES + 1)),
            codes=(codes,), owners=(array("i", [-1] * (PAGES + 1)),), shares=(bytes([3] * (PAGES + 1)),), counts=({},),
            tickets={}, names={}, empty_parents=0, unknown_parents=0, unknown_cached=0, source="none",
        )  # fmt: skip

    def held(self, _submission: int, _round: int) -> tuple[frozenset[int], ...]:
        """Return no pages."""
        return (frozenset(),)

    def life(self, group: int, page: int, _round: int) -> PageLife:
        """Return a page to which nothing happened."""
        return PageLife(group, page, (), True)

    def event_beyond(self, _group: int, _page: int, _round: int, _step: int) -> int | None:
        """Nothing happens."""
        return None


def figures() -> Iterator[Line]:
    """Yield the CPU of a key on the main screen and on the pages."""
    for what, milliseconds in asyncio.run(_measured()).items():
        yield Line("U1", what, milliseconds, "ms", 8.0)


async def _measured() -> dict[str, float]:
    from textual.events import Key
    from textual.pilot import Pilot

    from tsviz.tui.app import DebuggerApp

    async def of(pilot: Pilot[None], *keys: str) -> float:
        took: list[float] = []
        idle: list[float] = []
        for step in range(_STEPS):
            for key, times in ((keys[step % len(keys)], took), ("", idle)):
                begun = time.thread_time()
                if key:  # not by the pilot, which waits in its own way for a key that it presses
                    pilot.app.post_message(Key(key, None))
                await pilot.pause(0.05)
                times.append((time.thread_time() - begun) * 1e3)
        return statistics.median(took) - statistics.median(idle)

    app = DebuggerApp(WideView(), start_round=500)
    found = {}
    async with app.run_test(size=(COLUMNS, ROWS)) as pilot:
        await pilot.pause(1.0)
        found[f"{REQUESTS:,} requests: a round forward or back"] = await of(pilot, "n", "p")
        found[f"{REQUESTS:,} requests: the next request"] = await of(pilot, "j")
        found[f"{REQUESTS:,} requests: a screenful down"] = await of(pilot, "pagedown")
        await pilot.press("m")
        await pilot.pause(1.0)
        found[f"{PAGES:,} pages: the next page"] = await of(pilot, "right")
        found[f"{PAGES:,} pages: a screenful down"] = await of(pilot, "pagedown", "pageup")
        found[f"{PAGES:,} pages: a round forward or back"] = await of(pilot, "n", "p")
    return found
