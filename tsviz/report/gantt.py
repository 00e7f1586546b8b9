"""The chart of requests: a lane each, with its phases, holds of the line and retractions."""

from __future__ import annotations

from typing import Any

from tsviz.replay.scenario.predicates import Finding

from .axis import Axis
from .chart import Chart
from .lanes import PHASES, Segment, chosen, coarsened, lanes_of, named
from .subject import Source, SubjectPart
from .text import clean, counted

_MOST_MARKS = 6_000
KEYS = (
    ("waits for its first row", '<path d="M2 7H34" stroke="var(--queued)" stroke-width="3"/>'),
    ("prefill", '<path d="M2 7H34" stroke="var(--prefill)" stroke-width="11"/>'),
    ("decode", '<path d="M2 7H34" stroke="var(--decode)" stroke-width="7"/>'),
    ("retracted, waits to come back",
     '<path d="M2 7H34" stroke="var(--retracted)" stroke-width="3" stroke-dasharray="3 4"/>'
     '<path d="M2 3l8 8m0-8l-8 8" stroke="var(--retracted)" stroke-width="2"/>'),
    ("holds the line", '<path d="M2 2H34M2 12H34" stroke="var(--c5)" stroke-width="2"/>'),
)  # fmt: skip
"""What the lanes are drawn with: told by thickness and marks as well as by colour."""
_LEAST_HEIGHT, _MOST_HEIGHT = 220, 620


def gantt(source: Source, axis: Axis, part: SubjectPart, decided: bool) -> Chart | None:
    """Return the lanes of a part's requests; None where there are none."""
    about = named(source)
    every = lanes_of(source, axis, decided)
    if not every:
        return None
    telling = _telling(part, about)
    shown, step = chosen(list(every), telling)
    lanes, grain = coarsened({submission: every[submission] for submission in shown})
    place = {submission: number for number, submission in enumerate(shown)}
    marks = _retractions(every, place)
    holds = _holds(source, place, decided)
    extra = {
        "names": [clean(about[s]["request"]) for s in shown],
        "segments": [_flat(lanes, place, phase) for phase in range(len(PHASES))],
        "retracted": marks[0], "holds": holds[0],
    }  # fmt: skip
    says = _says(len(about), len(shown), step, grain, (marks[1], holds[1]), sum(map(len, every.values())))
    height = min(_MOST_HEIGHT, max(_LEAST_HEIGHT, 60 + 22 * len(shown)))
    return Chart("gantt", "Every request", says, [], {}, height=height, extra=extra)


def _flat(lanes: dict[int, list[Segment]], place: dict[int, int], phase: int) -> list[int]:
    """Return lane, first round, round behind the last, of all segments of one phase, in one list."""
    flat: list[int] = []
    for submission, pieces in lanes.items():
        for begin, until, which in pieces:
            if which == phase:
                flat += (place[submission], begin, until)
    return flat


def _telling(part: SubjectPart, about: dict[int, Any]) -> set[int]:
    """Return the requests that must be shown: those a finding names, and those that never ended; 1,000 at most."""
    names = {name for one in part.checked if isinstance(one.ended, Finding) for name in one.ended.requests[:50]}
    telling = [s for s, row in about.items() if row["end_round"] is None or row["request"] in names]
    return set(telling[:1_000])


def _retractions(every: dict[int, list[Segment]], place: dict[int, int]) -> tuple[list[int], int]:
    """Return lane and round of each retraction shown, and of how many each n-th was taken."""
    gone = PHASES.index("retracted")  # a lane that begins so is of a slice, before which it was retracted
    found = [(place[s], begin) for s in place for begin, _, phase in every[s][1:] if phase == gone]
    step = max(1, -(-len(found) // _MOST_MARKS))
    return [value for mark in found[::step] for value in mark], step


def _holds(source: Source, place: dict[int, int], decided: bool) -> tuple[list[int], int]:
    """Return lane, first and last round of runs in which a request held the line, and the step as above."""
    relation = "line_holds" if decided else "hol_holds"
    rows = source.rows("submission, round", relation, behind="ORDER BY submission, round")
    runs: list[list[int]] = []
    for row in rows:
        if row["submission"] not in place:
            continue
        lane = place[row["submission"]]
        if runs and runs[-1][0] == lane and runs[-1][2] == row["round"]:
            runs[-1][2] += 1
        else:
            runs.append([lane, row["round"], row["round"] + 1])
    step = max(1, -(-len(runs) // _MOST_MARKS))
    return [value for run in runs[::step] for value in run], step


def _says(requests: int, shown: int, step: int, grain: int, steps: tuple[int, int], segments: int) -> str:
    says = [f"{counted(requests, 'request')}, first submitted on top."]
    if shown < requests:
        says.append(
            f"{shown:,} are drawn: one in {step:,} in order of submission, and all that a finding names or never ended."
            if step > 1
            else f"{shown:,} are drawn: what became of the others is not known."
        )
    if grain > 1:
        says.append(f"Of {segments:,} phases those shorter than {grain:,} rounds give way to a longer neighbour.")
    for what, every in zip(("retraction", "hold of the line"), steps, strict=True):
        if every > 1:
            says.append(f"Of the marks for a {what}, one in {every} is drawn.")
    return " ".join(says)
