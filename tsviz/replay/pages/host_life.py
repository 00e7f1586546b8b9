"""A host page's life in words: which store filled it and of whom, which loads read it, when it left the cache."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from tsviz.replay.rows.lifetimes import NEVER

from .values import PageEvent, PageLife

if TYPE_CHECKING:
    from .host import HostHistory


def host_life(history: HostHistory, group: int, page: int, name_of: Callable[[int], str]) -> PageLife:
    """Return what happened to a page of the host tier, in order of rounds."""
    number = history.layout.base[group] + page
    fillings = history.fillings
    told: list[tuple[int, int, PageEvent]] = []

    def tell(turn: int, round_: int, what: str, words: str, submission: int = -1) -> None:
        request = name_of(submission) if submission >= 0 else ""
        told.append((round_, turn, PageEvent(round_, what, request, submission, -1, words)))

    def acknowledge(round_: int, op_id: int) -> None:
        if round_ != NEVER:
            tell(0, round_, "acknowledged", f"operation {op_id} acknowledged")

    for row in np.flatnonzero(fillings.number == number).tolist():
        op_id, source = int(fillings.op_id[row]), int(fillings.source[row])
        if op_id < 0:
            tell(3, int(fillings.from_round[row]), "cached", "kept in the host tier, where this trace begins")
            continue
        words = (
            f"load {op_id} fetches it from storage" if fillings.fetched[row] else f"store {op_id} copies page {source}"
        )
        tell(3, int(fillings.from_round[row]), "loading", words, int(history.owner[row]))
        acknowledge(int(fillings.acknowledged[row]), op_id)
    for row in np.flatnonzero(fillings.read_number == number).tolist():
        op_id = int(fillings.read_op_id[row])
        tell(4, int(fillings.read_round[row]), "pinned", f"load {op_id} reads it")
        acknowledge(int(fillings.read_until[row]), op_id)
    for row in np.flatnonzero(history.evicted == number).tolist():
        tell(2, int(history.evicted_round[row]), "evicted", "evicted from the host tier")
    told.sort(key=lambda each: each[:2])
    return PageLife(group, page, tuple(event for _, _, event in told), complete=True)
