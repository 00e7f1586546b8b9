"""Rounds of a table that are not the same as the round before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tsviz.replay.rows.lifetimes import Longs

Columns = dict[str, npt.NDArray[np.int64]]


@dataclass(slots=True)
class Starts:
    """Where pieces begin: their first rounds and the number of their first row among all that were kept."""

    rounds: list[int] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)


def distinct(chunks: Iterable[tuple[Longs, Columns]], starts: Starts) -> Iterator[tuple[Longs, Columns]]:
    """Yield the rows (round, columns) of rounds that differ from the one before, and note in `starts` where they begin.

    Chunks are rows in order of rounds, cut anywhere. A round without rows ends a piece like a different one does.
    """
    kept, last_round = 0, 0
    waiting: tuple[Longs, Columns] | None = None
    """The last whole round of what was seen and, behind it, rows of a round that may go on."""
    known = False
    for chunk in _with_end(chunks):
        rounds, columns = chunk if waiting is None else _joined(waiting, chunk)
        final = not len(chunk[0])
        firsts = (
            np.flatnonzero(np.concatenate([[True], rounds[1:] != rounds[:-1]])) if len(rounds) else np.zeros(0, int)
        )
        numbers = rounds[firsts]
        sizes = np.diff(np.concatenate([firsts, [len(rounds)]]))
        whole = len(firsts) if final else len(firsts) - 1
        same = _same(columns, firsts, sizes, numbers)
        for piece in range(1 if known else 0, whole):
            number = int(numbers[piece])
            if number > last_round + 1:
                starts.rounds.append(last_round + 1)
                starts.rows.append(kept)
            if not same[piece]:
                starts.rounds.append(number)
                starts.rows.append(kept)
                kept += int(sizes[piece])
            last_round = number
        chosen = np.repeat(~same, sizes)
        chosen[: int(firsts[1]) if known and len(firsts) > 1 else (len(rounds) if known else 0)] = False
        if whole < len(firsts):
            chosen[int(firsts[whole]) :] = False
        if chosen.any():
            yield rounds[chosen], {name: values[chosen] for name, values in columns.items()}
        from_row = int(firsts[max(whole - 1, 0)]) if len(firsts) else 0
        known = known or whole > 0
        waiting = rounds[from_row:], {name: values[from_row:] for name, values in columns.items()}
    starts.rounds.append(last_round + 1)
    starts.rows.append(kept)


def lot_pieces(rounds: Longs, columns: Columns) -> tuple[Longs, Longs, Columns]:
    """Return the rows of those rounds of a lot that differ from the one before, and until when they are the same.

    A lot is rows of whole rounds, in order. Returned are, per row that remains, the first and the last round that it
    stands for, and the columns.
    """
    if not len(rounds):
        return rounds, rounds, columns
    firsts = np.flatnonzero(np.concatenate([[True], rounds[1:] != rounds[:-1]]))
    sizes, numbers = np.diff(np.append(firsts, len(rounds))), rounds[firsts]
    new = ~_same(columns, firsts, sizes, numbers)
    begins = np.flatnonzero(new)
    last = numbers[np.append(begins[1:], len(numbers)) - 1]
    chosen = np.repeat(new, sizes)
    return rounds[chosen], np.repeat(last, sizes[begins]), {name: each[chosen] for name, each in columns.items()}


def _with_end(chunks: Iterable[tuple[Longs, Columns]]) -> Iterator[tuple[Longs, Columns]]:
    columns: Columns = {}
    for rounds, columns in chunks:
        if len(rounds):
            yield rounds, columns
    yield np.zeros(0, np.int64), {name: values[:0] for name, values in columns.items()}


def _joined(before: tuple[Longs, Columns], chunk: tuple[Longs, Columns]) -> tuple[Longs, Columns]:
    columns = {name: np.concatenate([values, chunk[1][name]]) for name, values in before[1].items()}
    return np.concatenate([before[0], chunk[0]]), columns


def _same(columns: Columns, firsts: Longs, sizes: Longs, numbers: Longs) -> npt.NDArray[np.bool_]:
    """Return which rounds have the same rows as the round right before them."""
    same = np.zeros(len(firsts), np.bool_)
    if len(firsts) < 2:
        return same
    same[1:] = (sizes[1:] == sizes[:-1]) & (numbers[1:] == numbers[:-1] + 1)
    row = np.arange(int(sizes.sum()))
    before = np.maximum(row - np.repeat(sizes, sizes), 0)
    equal = np.ones(len(row), np.bool_)
    for values in columns.values():
        equal &= values == values[before]
    same &= np.logical_and.reduceat(equal, firsts)
    return same
