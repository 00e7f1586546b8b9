"""A desk whose answers are written down, so that tests know what must be on the other screens."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa

from tests.tui.fakes import FullView
from tsviz.replay.diff.sides import Figure, Lane, Met, MetSome, Sides
from tsviz.replay.lost.keys import LostCause, LostKey, LostPhase
from tsviz.replay.lost.model import Run
from tsviz.replay.survey.ask import Extent, HitPlaces, HitTotal, Looked, LostTime, Plan, Progress
from tsviz.tui.grid import Columns
from tsviz.tui.language import LanguageLoader
from tsviz.tui.queries import Saved, Total


class FakeStream:
    """Answers from a list; before answer number `stop_at` it waits for `gate` or for `cancel`."""

    def __init__(self, answers: Iterable[object], gate: threading.Event | None = None, stop_at: int = 0) -> None:
        self._answers = list(answers)
        self._gate, self._stop_at = gate, stop_at
        self.cancelled = threading.Event()

    def __iter__(self) -> Iterator[object]:
        for number, answer in enumerate(self._answers):
            if number == self._stop_at and self._gate is not None:
                while not (self._gate.is_set() or self.cancelled.is_set()):
                    self._gate.wait(0.01)
            if self.cancelled.is_set():
                return
            if isinstance(answer, Exception):
                raise answer
            yield answer

    def cancel(self) -> None:
        """End."""
        self.cancelled.set()


def check(name: str, outcome: str, severity: str, sentence: str, **more: object) -> Looked:
    """Return a check as it ended."""
    return Looked(name, str(more.pop("part", "P/0")), outcome, severity, sentence, f"{name} is looked for", 3,
                  "rounds", **more)  # type: ignore[arg-type]  # fmt: skip


CHECKED = (
    check("plan_breach", "not_found", "broken", "at most 0 breaches; a finding from 1"),
    check("rank_divergence", "not_checkable", "broken", "rows were dropped while recording: rounds (table gaps)"),
    check("stall", "found", "stuck", "stall: every plan from round 290 on is empty, and 4 requests live",
          rounds=(290, 300), requests=("r4", "r9"), numbers={"empty_plans": 11, "requests": 4}),
    check("retraction_storm", "found", "costly", "retraction storm: 6 retractions in rounds 40 to 90",
          rounds=(40, 90), requests=("r4",), numbers={"retractions": 6}),
    check("page_breach", "found", "broken", "page breach: page 7 is owned twice", rounds=(64,),
          numbers={"breaches": 1}, part="D/0"),
)  # fmt: skip
WHOLE = Extent("P/0", "recorded", 300, 300)
FOUND = (Plan(5), WHOLE, *CHECKED)


def key(view: str, name: str, scale: int = 1) -> LostKey:
    """Return sums in which 60 % of 10 s x scale is head of line, and no token waited."""
    second = 1_000_000_000 * scale
    ttft = LostPhase("ttft", 10 * second, 4, 4, (
        LostCause("head_of_line", 6 * second, "r4", 4, Run(20, 39, 3 * second)),
        LostCause("capacity", 3 * second, "r9", 9, Run(64, 64, second)),
        LostCause("scheduled", second, "r4", 4, Run(40, 44, second // 2)),
    ))  # fmt: skip
    tpot = LostPhase("tpot", 2 * second, 4, 160, (LostCause("scheduled", 2 * second, "r4", 4, Run(45, 84, second)),))
    return LostKey(view, name, (ttft, tpot))


LOST = (
    WHOLE,
    Progress("requests split", 60, 60),
    LostTime((key("fleet", "all requests", 3), key("class", "r", 3))),
    LostTime(tuple(key("request", f"r{number}") for number in range(60))),
)


def rows(count: int, first: int = 0) -> pa.RecordBatch:
    """Return rows `first` to `first + count - 1`: of row i the round is 2 i + 1 and the request r(i mod 60)."""
    numbers = range(first, first + count)
    return pa.record_batch({
        "request": [f"r{i % 60}" for i in numbers],
        "round": [2 * i + 1 for i in numbers],
        "wait_ms": [None if i % 7 == 3 else i * 1.25 for i in numbers],
        "note": ["x" * (i % 50) for i in numbers],
    })  # fmt: skip


COLUMNS = Columns(("request", "round", "wait_ms", "note"), ("string", "int64", "double", "string"))
ANSWER = (COLUMNS, rows(100), rows(20, 100), Total(120, 120, True))


HITS = (
    HitPlaces((20, 80, 80, 200), (-1, -1, -1, -1), (-1, 4, 9, 40), ("", "r4", "r9", "r40")),
    HitTotal(4, True),
)
"""Where `pool.free < 4` holds: at the end of rounds 20, 80 (of two requests) and 200."""


SIDES = Sides(
    left="mooncake", right="mooncake-2x", rounds=(300, 240), equal_rounds=63, parts_at=64, rows_at=70,
    field="operations[2].input_tokens", request="r9", values=("256", "512"),
    words=("config: max_scheduled_tokens: 2048 and 4096", "63 rounds are equal; the plans part in round 64",
           "requests: 60 on both sides, in the same order; 1 only left, 0 only right"),
    figures=(Figure("rounds", 300.0, 240.0), Figure("retractions", 12.0, 0.0), Figure("ttft_p50_ms", 812.5, 406.25),
             Figure("hit_rate", None, None), Figure("finished", 60.0, 60.0)),
    lanes=tuple(
        Lane(name, side, tuple(values))
        for name, left, right in (
            ("tokens", range(100), [i if i < 80 else -1 for i in range(100)]),
            ("occupied", [50] * 100, [25 if i < 80 else -1 for i in range(100)]),
            ("retracted", [i % 25 == 0 for i in range(100)], [0] * 80 + [-1] * 20),
        )
        for side, values in (("left", left), ("right", right))
    ),
)  # fmt: skip
MET = MetSome(tuple(
    Met(f"r{i}", i, 1 + 3 * i, (1e6 * i, 5e8, 1e7, 2e9 + 1e8 * i, 40.0, float(i % 3), 16.0),
        (1e6 * i, 4e8, 1e7, 2e9, 40.0, 0.0, 0.0) if i else (None,) * 7)
    for i in range(60)
))  # fmt: skip


class FakeDesk:
    """A `Desk` that answers from lists."""

    trace = "runs/mooncake"
    key = "mooncake"

    def __init__(self, found: Iterable[object] = FOUND, lost: Iterable[object] = LOST) -> None:
        self.found, self.lost = found, lost
        self.derived: Iterable[object] = ()
        self.derive_gate: threading.Event | None = None
        self.renewed = FullView()
        self.answer: Iterable[object] = ANSWER
        self.queries: list[tuple[str, int]] = []
        self.compared: Iterable[object] = (SIDES, MET)
        self.hit_lists: dict[str, Iterable[object]] = {"pool.free < 4": HITS}
        self.hit_gate: threading.Event | None = None
        self.predicates: list[str] = []
        self.gate: threading.Event | None = None
        self.stop_at = 0
        self.asked: list[tuple[str, bool]] = []
        self.streams: list[FakeStream] = []

    def _stream(self, what: str, derive: bool, answers: Iterable[object]) -> FakeStream:
        self.asked.append((what, derive))
        self.streams.append(FakeStream(answers, self.gate, self.stop_at))
        return self.streams[-1]

    def view(self) -> FullView:
        """Return the formula's trace, its decisions derived."""
        return self.renewed

    def derive(self) -> FakeStream:
        """Return how far re-execution comes."""
        self.asked.append(("derive", True))
        self.streams.append(FakeStream(self.derived, self.derive_gate, 1))
        return self.streams[-1]

    def findings(self, *, derive: bool) -> FakeStream:
        """Return the findings."""
        return self._stream("findings", derive, self.found)

    def lost_time(self, *, derive: bool) -> FakeStream:
        """Return lost time."""
        return self._stream("lost", derive, self.lost)

    def query(self, sql: str, rows: int) -> FakeStream:
        """Return the answer."""
        self.queries.append((sql, rows))
        return self._stream("sql", False, self.answer)

    def save(self, sql: str, path: Path) -> FakeStream:
        """Say that a file was written."""
        return FakeStream((Saved(str(path), 120),))

    def compare(self, other: str) -> FakeStream:
        """Return the comparison."""
        return self._stream(other, False, self.compared)

    def what_if(self, settings: tuple[str, ...]) -> FakeStream:
        """Return the comparison with what was turned."""
        return self._stream(" ".join(settings), False, self.compared)

    def hits(self, predicate: str) -> FakeStream:
        """Return the hits that are written down for a predicate."""
        self.predicates.append(predicate)
        return FakeStream(self.hit_lists.get(predicate, (HitTotal(0, True),)), self.hit_gate, 0)

    def language(self) -> LanguageLoader:
        """Return the real one."""
        return LanguageLoader()
