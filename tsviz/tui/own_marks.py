"""Marks of the timeline that are not in the trace: notes, hits of breakpoints, where findings begin."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tsviz.tui.strip import Strip
from tsviz.tui.study import Study

HIT, FINDING, NOTE = "hit", "finding", "note"


def with_own(strip: Strip, study: Study, part: str) -> Strip:
    """Return a strip with the marks of a study in place of those it had."""
    marks: dict[str, tuple[int, ...]] = {name: cells for name, cells in strip.marks.items() if name not in _OWN}
    return replace(strip, marks=marks | dict(_own(strip, study, part)))


_OWN = (HIT, FINDING, NOTE)


def _own(strip: Strip, study: Study, part: str) -> Mapping[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {}
    hits = [watch.places.rounds for watch in study.watches.all if watch.enabled and len(watch.places)]
    begins = sorted(one.rounds[0] for one in study.findings.found if one.rounds and one.part == part)
    notes = sorted(note.round for note in study.notes.all)
    for name, lists in ((HIT, hits), (FINDING, [begins]), (NOTE, [notes])):
        cells = _counts(strip, lists)
        if any(cells):
            found[name] = cells
    return found


def _counts(strip: Strip, lists: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Return how many of the sorted rounds lie in each cell's column."""
    counts: list[int] = []
    firsts = (*strip.firsts, strip.ask.window.last + 1)
    for cell, first in enumerate(strip.firsts):
        if cell and first == firsts[cell - 1]:
            counts.append(counts[-1])
            continue
        behind = next(each for each in firsts[cell + 1 :] if each > first)
        counts.append(sum(bisect_left(rounds, behind) - bisect_left(rounds, first) for rounds in lists))
    return tuple(counts)
