"""The pool of one group over time: how many parents have pages in tables, how many only cached or copied ones.

Parents are shared by all groups: those of a group and those of the others are together what the pool counts as occupied
(debugger.md, section 1, *Timeline*).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tsviz.replay.recorded.timeline import edges
from tsviz.replay.rows.lifetimes import Longs

from .cache import WAS_CACHED

if TYPE_CHECKING:
    from .map import PagesHistory

_LAST = 0xFFFF_FFFF


@dataclass(frozen=True, slots=True)
class Steps:
    """A number over rounds: `values[i]` from `rounds[i]` on."""

    rounds: Longs
    values: Longs

    def most(self, at: Longs) -> tuple[int, ...]:
        """Return the largest value between each two of the rounds `at`, which rise."""
        if len(at) < 2:
            return ()
        rounds = np.concatenate([[np.iinfo(np.int64).min], self.rounds])
        values = np.concatenate([[0], self.values])
        begins = np.searchsorted(rounds, at[:-1], side="right") - 1
        ends = np.searchsorted(rounds, at[1:], side="left")
        pairs = np.stack([begins, ends], axis=1).ravel()
        return tuple(np.maximum.reduceat(np.append(values, 0), pairs)[::2].tolist())


class GroupSteps:
    """How many parents of one group are active, and how many occupied, in every round that a history tells of."""

    def __init__(self, history: PagesHistory, group: int) -> None:
        layout, spells, tickets, gaps = history.layout, history.spells, history.tickets, history.gaps
        first, last, packing = layout.base[group], layout.base[group + 1], layout.packing[group]

        def parents(number: npt.NDArray[np.integer]) -> Longs:
            return np.asarray((number.astype(np.int64) - first - 1) // packing + 1, np.int64)

        held, out = spells.group == group, (tickets.number >= first) & (tickets.number < last)
        number = np.concatenate([parents(spells.number[held]), parents(tickets.number[out])])
        from_ = np.concatenate([spells.from_round[held], tickets.from_round[out]])
        to = np.concatenate([spells.to_round[held], tickets.to_round[out]])
        in_tables = int(held.sum())
        self.active = union(number[:in_tables], from_[:in_tables], to[:in_tables])
        kept = (gaps.state == WAS_CACHED) & (gaps.number >= first) & (gaps.number < last)
        self.occupied = union(
            np.concatenate([number, parents(gaps.number[kept])]),
            np.concatenate([from_, gaps.from_round[kept]]),
            np.concatenate([to, gaps.until[kept]]),
        )

    def most(self, first_round: int, last_round: int, buckets: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the most active and the most occupied parents in each of at most `buckets` pieces of the rounds."""
        at = edges(first_round, last_round, buckets)
        return self.active.most(at), self.occupied.most(at)


def union(key: Longs, from_: Longs, to: Longs) -> Steps:
    """Return over rounds how many keys lie in at least one of their stretches `from_` to before `to`."""
    there = np.flatnonzero(to > from_)
    order = there[np.lexsort((from_[there], key[there]))]
    key, from_, to = key[order], from_[order], np.minimum(to[order], _LAST)
    if not len(key):
        return Steps(np.zeros(0, np.int64), np.zeros(0, np.int64))
    reach = np.maximum.accumulate((key << 32) + to)
    begins = np.append(True, (key[1:] << 32) + from_[1:] > reach[:-1])
    starts = from_[begins]
    ends = reach[np.append(np.flatnonzero(begins)[1:] - 1, len(key) - 1)] & _LAST
    rounds = np.concatenate([starts, ends])
    change = np.concatenate([np.ones(len(starts), np.int64), -np.ones(len(ends), np.int64)])
    order = np.argsort(rounds, kind="stable")
    rounds, counts = rounds[order], np.cumsum(change[order])
    final = np.append(rounds[1:] != rounds[:-1], True)
    return Steps(rounds[final], counts[final])
