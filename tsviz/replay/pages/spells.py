"""Who held a page from when to when: the table changes of a part as spells, one row a stretch of ownership.

A spell is (group, page, submission, slot, from round, to round, why it ended); a page's owners behind the plan of round
r are the spells with `from <= r < to`. Everything is columns: a trace of millions of slots is asked in milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tsviz.replay.recorded.lives import Lives
from tsviz.replay.rows.lifetimes import NEVER, Lifetimes, Longs, column

from .window import PagesPart

HELD, REPLACED, DROPPED, RESTARTED, RETRACTED, FINISHED, ABORTED = range(7)
WHY_ENDED = ("held", "replaced", "dropped", "restarted", "retracted", "finished", "aborted")
"""Why a spell ended: it has not; the slot got another page; the slot expired; the table started anew; and so on."""

_BLOCK = 4096


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the pages of each group stand in one numbering over all groups: group g, page p is `base[g] + p`."""

    names: tuple[str, ...]
    packing: tuple[int, ...]
    base: tuple[int, ...]
    parents: int

    @property
    def size(self) -> int:
        """Numbers in all, page 0 of each group included."""
        return self.base[-1]

    @property
    def indexes(self) -> dict[str, int]:
        """Index of each group by its name; of groups of one name the first, which is what plans show."""
        return {name: index for index, name in reversed(list(enumerate(self.names)))}

    def split(self, number: int) -> tuple[int, int]:
        """Return (group, page) of a number."""
        group = next(g for g in range(len(self.packing)) if number < self.base[g + 1])
        return group, number - self.base[group]


def host_layout_of(part: PagesPart) -> Layout | None:
    """Return the layout of a part's host pages; None without a host tier."""
    config = part.config
    there = not config.get("disable_l2_cache") and int(config.get("num_host_pages") or 0) > 1
    return layout_of(part, "num_host_pages") if there else None


def layout_of(part: PagesPart, pages: str = "num_device_pages") -> Layout:
    """Return the layout of a part's device pages, or of those that another field of the config counts."""
    groups = part.config["cache_groups"]
    packing = tuple(max(1, int(group["cache_blocks_per_lcm_block"])) for group in groups)
    parents = max(0, int(part.config[pages]) - 1)
    base = [0]
    for k in packing:
        base.append(base[-1] + parents * k + 1)
    return Layout(tuple(str(group["group_id"]) for group in groups), packing, tuple(base), parents)


class Spells:
    """The spells of one part, in order of their first round; `number` is group and page by `Layout`."""

    def __init__(self, part: PagesPart, layout: Layout, life: Lifetimes | Lives, gone: Longs) -> None:
        """`gone` are the keys (submission, round) of retractions. Raises `TraceError` for a table of no use."""
        entry = _entries(part, layout)
        key = _places(entry["submission"], entry["group"], entry["slot"])
        order = np.lexsort((entry["round"], key))
        entry = {name: values[order] for name, values in entry.items()}
        key = key[order]
        same_slot = np.append(key[1:] == key[:-1], False) if len(key) else np.zeros(0, np.bool_)
        goes_on = same_slot & (np.append(entry["epoch"][1:], -1)[: len(key)] == entry["epoch"])
        following = np.append(entry["round"][1:], NEVER)[: len(key)]
        next_page = np.append(entry["page"][1:], 0)[: len(key)]
        to = np.where(goes_on, following, entry["epoch_end"])
        why = np.where(goes_on, np.where(next_page != 0, REPLACED, DROPPED), np.where(to == NEVER, HELD, RESTARTED))
        # The same page written again in the same slot goes on: the later entry is the same spell.
        repeats = np.append(False, goes_on[:-1] & (entry["page"][1:] == entry["page"][:-1]))[: len(key)]
        heads = np.flatnonzero(~repeats)
        if len(heads):
            last = np.append(heads[1:], len(key)) - 1
            kept = {name: values[heads] for name, values in entry.items()}
            to, why = to[last], why[last].astype(np.int8)
        else:
            kept = entry
        self._finish(kept, to, why.astype(np.int8), layout, life, gone)

    def _finish(
        self, kept: dict[str, Longs], to: Longs, why: npt.NDArray[Any], layout: Layout, life: Lifetimes | Lives,
        gone: Longs,
    ) -> None:  # fmt: skip
        submission, from_ = kept["submission"], kept["round"]
        for sub, since, reason in _stops(life, gone):
            ends = _first_behind(submission, from_, sub, since)
            earlier = ends < to
            to = np.where(earlier, ends, to)
            why = np.where(earlier, reason, why).astype(np.int8)
        bases = np.array(layout.base[:-1], np.int64)
        valid = (kept["page"] > 0) & (to > from_)
        number = bases[kept["group"]] + kept["page"]
        valid &= number < np.array(layout.base[1:], np.int64)[kept["group"]]
        chosen = np.flatnonzero(valid)
        chosen = chosen[np.argsort(from_[chosen], kind="stable")]
        self.number = number[chosen].astype(np.int32)
        self.submission = submission[chosen].astype(np.int32)
        self.slot = kept["slot"][chosen].astype(np.int32)
        self.group = kept["group"][chosen].astype(np.int8)
        self.from_round = from_[chosen]
        self.to_round = to[chosen]
        self.why = why[chosen]
        self._last: tuple[int, Longs] = (-1, np.zeros(0, np.int64))
        blocks = np.arange(0, len(chosen), _BLOCK)
        self._latest = np.maximum.reduceat(self.to_round, blocks) if len(chosen) else np.zeros(0, np.int64)

    def at(self, round_: int) -> Longs:
        """Return the spells that hold behind the plan of a round, in order of their first round."""
        if self._last[0] != round_:
            self._last = (round_, self._at(round_))
        return self._last[1]

    def _at(self, round_: int) -> Longs:
        count = int(np.searchsorted(self.from_round, round_, side="right"))
        blocks = np.flatnonzero(self._latest[: -(-count // _BLOCK)] > round_)
        pieces = [
            start + np.flatnonzero(self.to_round[start : min(start + _BLOCK, count)] > round_)
            for start in (blocks * _BLOCK).tolist()
        ]
        return np.concatenate(pieces) if pieces else np.zeros(0, np.int64)

    @cached_property
    def _by_end(self) -> Longs:
        return np.argsort(self.to_round, kind="stable")

    @cached_property
    def _ends(self) -> Longs:
        return self.to_round[self._by_end]

    def ended(self, round_: int) -> Longs:
        """Return the spells that ended with the plan of a round (or right before it)."""
        low, high = np.searchsorted(self._ends, (round_, round_ + 1))
        return self._by_end[low:high]

    @cached_property
    def _by_page(self) -> Longs:
        return np.lexsort((self.from_round, self.number))

    @cached_property
    def _pages(self) -> Longs:
        return self.number[self._by_page].astype(np.int64)

    def of_page(self, number: int) -> Longs:
        """Return the spells of one page in order of their first round."""
        low, high = np.searchsorted(self._pages, (number, number + 1))
        return self._by_page[low:high]

    @cached_property
    def by_page(self) -> Longs:
        """All spells in order of page, then first round."""
        return self._by_page

    @cached_property
    def _by_owner(self) -> Longs:
        return np.lexsort((self.from_round, self.slot, self.group, self.submission))

    @cached_property
    def _owner_keys(self) -> tuple[Longs, Longs]:
        order = self._by_owner
        places = _places(self.submission[order], self.group[order], self.slot[order])
        return places, self.from_round[order]

    def holding(self, submission: Longs, group: Longs, slot: Longs, round_: Longs) -> Longs:
        """Return, for each (submission, group, slot, round), the spell that holds the slot then; -1: none."""
        places, starts = self._owner_keys
        if not len(places):
            return np.full(len(submission), -1, np.int64)
        wanted = _places(submission, group, slot)
        distinct, first = np.unique(places, return_index=True)
        rank = np.searchsorted(distinct, wanted)
        known = (rank < len(distinct)) & (distinct[np.minimum(rank, len(distinct) - 1)] == wanted)
        which = np.repeat(np.arange(len(distinct)), np.diff(np.append(first, len(places))))
        keys = (which << 32) | starts
        position = np.searchsorted(keys, (rank.astype(np.int64) << 32) | round_, side="right") - 1
        spell = self._by_owner[np.maximum(position, 0)]
        inside = known & (position >= 0) & (which[np.maximum(position, 0)] == rank) & (self.to_round[spell] > round_)
        return np.where(inside, spell, -1)


def _places(submission: npt.NDArray[Any], group: npt.NDArray[Any], slot: npt.NDArray[Any]) -> Longs:
    places: Longs = (submission.astype(np.int64) << 36 | group.astype(np.int64) << 28) + slot
    return places


def _entries(part: PagesPart, layout: Layout) -> dict[str, Longs]:
    """Return every written slot as (submission, group, slot, page, round), with the epoch of its table.

    The epoch of a table counts how often it started anew; `epoch_end` is the round in which it did so next.
    """
    changes = part.table("table_changes")
    group = mapped(changes, "group", layout.indexes)
    submission = column(changes, "submission").astype(np.int64)
    round_ = column(changes, "round").astype(np.int64)
    fresh = changes["fresh"].to_numpy(zero_copy_only=False).astype(np.int64)
    lists = changes["pages"].combine_chunks()
    counts = np.diff(lists.offsets.to_numpy()).astype(np.int64)
    length = column(changes, "length_slots").astype(np.int64)
    epoch, epoch_end, before = _epochs(submission, group, round_, fresh, length)
    row, inside = _spread(counts)
    slot, page = column(changes, "first_slot").astype(np.int64)[row] + inside, lists.flatten().to_numpy()
    cut, beyond = _spread(np.maximum(before - length, 0))  # slots that a table lost by becoming shorter: holes
    row, slot = np.concatenate([row, cut]), np.concatenate([slot, length[cut] + beyond])
    page = np.concatenate([page.astype(np.int64), np.zeros(len(cut), np.int64)])
    kept = np.flatnonzero(group[row] >= 0)
    row, slot, page = row[kept], slot[kept], page[kept]
    return {
        "submission": submission[row],
        "group": group[row],
        "slot": slot,
        "page": page,
        "round": round_[row],
        "epoch": epoch[row],
        "epoch_end": epoch_end[row],
    }


def mapped(table: Any, name: str, numbers: Mapping[str, int]) -> Longs:
    """Return a word column as the numbers that stand for its words; -1 for null and for any other word."""
    words = table[name].combine_chunks()
    codes = np.array([*(numbers.get(word, -1) for word in words.dictionary.to_pylist()), -1], np.int64)
    indices: Longs = words.indices.fill_null(len(codes) - 1).to_numpy()
    numbered: Longs = codes[indices]
    return numbered


def _spread(counts: Longs) -> tuple[Longs, Longs]:
    """Return, for rows with so many items each, the row and the position in it of every item."""
    row = np.repeat(np.arange(len(counts)), counts)
    return row, np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)


def _epochs(submission: Longs, group: Longs, round_: Longs, fresh: Longs, length: Longs) -> tuple[Longs, Longs, Longs]:
    """Return, for each row, the epoch of its table, the round of the next one, and the length in slots before it."""
    if not len(submission):
        return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64)
    order = np.lexsort((np.arange(len(submission)), group, submission))
    key = (submission << 8 | group)[order]
    begins_table = np.append(True, key[1:] != key[:-1])
    epoch = np.cumsum(fresh[order] | begins_table)
    first = np.append(True, epoch[1:] != epoch[:-1])
    begins = np.flatnonzero(first)
    next_round = np.append(round_[order][begins[1:]], NEVER)
    next_round[:-1][key[begins[1:]] != key[begins[:-1]]] = NEVER
    before = np.where(first, 0, np.append(0, length[order][:-1]))
    back = np.empty(len(order), np.int64)
    back[order] = np.arange(len(order))
    return epoch[back], next_round[epoch - 1][back], before[back]


def _stops(life: Lifetimes | Lives, gone: Longs) -> list[tuple[Longs, Longs, int]]:
    """Return what ends all spells of a submission: (submissions, rounds, why), each sorted by both."""
    finished = np.flatnonzero(life.end_kind == "finished")
    aborted = np.flatnonzero(life.end_kind == "aborted")
    retracted = np.sort(gone)
    return [
        (retracted >> 32, retracted & 0xFFFF_FFFF, RETRACTED),
        (finished.astype(np.int64), life.end_round[finished], FINISHED),
        (aborted.astype(np.int64), life.end_round[aborted], ABORTED),
    ]


def _first_behind(submission: Longs, from_: Longs, stopped: Longs, rounds: Longs) -> Longs:
    """Return, for each spell, the first stop of its submission behind its first round; NEVER if there is none."""
    if not len(stopped):
        return np.full(len(submission), NEVER, np.int64)
    keys = stopped << 32 | rounds
    position = np.searchsorted(keys, submission << 32 | from_, side="right")
    there = np.minimum(position, len(keys) - 1)
    found = (position < len(keys)) & (stopped[there] == submission)
    return np.where(found, rounds[there], NEVER)
