"""Hit lists: where a predicate holds, in the hand-made trace of tests/query/tiny.py and its decisions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.query.decided import CONFIG, DerivedPart, decided
from tests.query.fakes import FakeBundle, FakePart, save
from tests.query.tiny import tiny
from tsviz.query.catalog import Catalog
from tsviz.query.locked import Limits, Locked
from tsviz.query.problem import Kind, Problem, QueryError
from tsviz.replay.hits import LIMITS, Hits, Near, Unknown, Wanted, hits, hits_apart
from tsviz.replay.reexecution.index import build_index, open_indexed
from tsviz.trace.reader import open_bundle


@pytest.fixture
def known() -> Iterator[Locked]:
    """The tiny trace with its decisions."""
    locked = Locked(Catalog([decided()]))
    yield locked
    locked.close()


def at(found: Hits) -> list[tuple[int, int | None, str | None]]:
    """Return (round, stop, request) of the hits."""
    return [(row["round"], row["stop"], row["request"]) for row in found.positions.to_pylist()]


def problem(locked: Locked, predicate: str) -> tuple[Problem, str]:
    """Return the problem of a predicate and the text at its place."""
    with pytest.raises(QueryError) as caught:
        hits(locked, predicate)
    found = caught.value.problem
    first, length = found.at or (0, 0)
    return found, predicate[first : first + length]


def test_a_qualifier_names_the_table(known: Locked) -> None:
    """A table named by a qualifier is asked: rounds 1 and 4 have requests that wait, at the ends of their rounds."""
    assert at(hits(known, "rounds.waiting_requests > 0")) == [(1, None, None), (4, None, None)]


def test_the_victim_of_a_retraction_is_its_request(known: Locked) -> None:
    """`retractions.request` is the victim: b was retracted in round 4 at stop 6, and nobody else."""
    assert at(hits(known, "retractions.request = 'b'")) == [(4, 6, "b")]
    assert at(hits(known, "retractions.request = 'a'")) == []


def test_a_retraction_is_that_a_request_lost_its_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """r3 lost its pages 3 times in `retract-and-grant`; 32 more turns that chose it are asked for by their outcome."""
    monkeypatch.setenv("TSVIZ_CACHE", str(tmp_path))
    path = Path(__file__).resolve().parents[2] / "traces" / "retract-and-grant"
    build_index(open_bundle(path).parts[0])
    locked = Locked(Catalog([open_indexed(path)]))
    lost = at(hits(locked, "retractions.request = 'r3'"))
    every = at(hits(locked, "retractions.request = 'r3' AND retractions.outcome IS NOT NULL"))
    locked.close()
    assert [request for _, _, request in lost] == ["r3"] * 3
    assert len(every) == 3 + 32


def test_a_verdict_is_a_hit_where_its_run_begins(known: Locked) -> None:
    """b waits for the line in round 1 and c for pages in round 4; neither is a hit in the rounds that follow."""
    assert at(hits(known, "verdicts.cause IN ('head_of_line', 'capacity')")) == [(1, 9, "b"), (4, 9, "c")]


def test_waited_rounds_count_the_run(known: Locked) -> None:
    """a is scheduled in rounds 1 to 4 and b in 2 and 3: their second rounds are 2 and 3, their third 3 and none."""
    second = hits(known, "verdicts.cause = 'scheduled' AND waited_rounds > 1 AND since_round < 4")
    assert at(second) == [(2, None, "a"), (3, None, "b")]
    assert at(hits(known, "verdicts.cause = 'scheduled' AND waited_rounds > 2 AND since_round < 4")) == [(3, None, "a")]


@pytest.mark.parametrize(
    "condition",
    [
        "waited_rounds > 1",
        "waited_rounds >= 2 AND waited_rounds < 4",
        "waited_rounds BETWEEN 2 AND 3",
        "NOT waited_rounds <= 2 OR cause = 'capacity'",
        "waited_rounds != 1",
        "round > 2 AND since_round < 3",
        "verdicts.round = 3 AND verdicts.waited_rounds >= 1",
        "waited_rounds = 4 OR round = 5",
        "waited_rounds * 2 > 3 AND since_round > 0",
        "10 - waited_rounds < 8",
        "waited_rounds > since_round",
        "abs(waited_rounds) > 2",
        "waited_rounds > 1 + 1",
        "(waited_rounds > 1) = true",
        "coalesce(waited_rounds > 2, false)",
        "round % 3 = 0 AND since_round > 0",
    ],
)
def test_a_run_is_a_hit_in_the_first_round_in_which_it_holds(known: Locked, condition: str) -> None:
    """Whether or not the predicate lets rounds be skipped, the hits are the first rounds that a query finds."""
    bare = condition.replace("verdicts.", "")
    sql = f"SELECT min(round) AS round, request FROM verdict_rounds WHERE ({bare}) GROUP BY request, since_round"
    expected = at(hits(known, sql))
    text = f"verdicts.since_round >= 1 AND ({condition})"
    assert at(hits(known, text)) == expected
    assert expected


def test_tables_go_together_by_round_and_request(known: Locked) -> None:
    """Of two tables rows of one round and request meet: b is scheduled as a prefill row in rounds 2 and 5."""
    found = hits(known, "verdicts.cause = 'scheduled' AND operations.kind = 'prefill' AND operations.request = 'b'")
    assert at(found) == [(2, None, "b"), (5, None, "b")]


def test_a_column_of_one_table_needs_no_qualifier(known: Locked) -> None:
    """`releasable_blocks` stands in `victims` alone, whose rows are at stop 6 of round 4; b gives three."""
    assert at(hits(known, "releasable_blocks = 3")) == [(4, 6, "b")]


def test_hits_are_distinct(known: Locked) -> None:
    """Ten pages were zeroed in rounds 1, 2, 3 and 5: these are four positions."""
    assert at(hits(known, "zeroed.page > 0")) == [(1, None, None), (2, None, None), (3, None, None), (5, None, None)]


def test_a_query_works_as_well(known: Locked) -> None:
    """A query gives positions by the names of its columns, in any order, sorted; what it leaves out is null."""
    assert at(hits(known, "SELECT request, round FROM operations WHERE kind = 'prefill' ORDER BY round DESC;")) == [
        (1, None, "a"), (2, None, "a"), (2, None, "b"), (5, None, "b"), (5, None, "c"),
    ]  # fmt: skip
    assert at(hits(known, "WITH t AS (FROM stop_list(4)) SELECT 4 AS round, 1 AS stop LIMIT 1")) == [(4, 1, None)]


def test_a_subquery_has_its_tables_for_itself(known: Locked) -> None:
    """Tables behind FROM inside the predicate are not joined: rounds in which b has a row are 2, 3, 5 and 6."""
    found = hits(known, "EXISTS (FROM operations WHERE operations.round = rounds.round AND operations.request = 'b')"
                        " AND rounds.round > 0")  # fmt: skip
    assert [round_ for round_, _, _ in at(found)] == [2, 3, 5, 6]


@pytest.mark.parametrize(
    ("wanted", "near", "expected"),
    [
        (Wanted.FIRST, None, [1]),
        (Wanted.LAST, None, [6]),
        (Wanted.NEXT, Near(round=2), [3]),
        (Wanted.NEXT, Near(round=6), []),
        (Wanted.PREVIOUS, Near(round=3), [2]),
        (Wanted.PREVIOUS, Near(round=1), []),
        (Wanted.NEXT, Near(round=3, stop=1), [3]),
        (Wanted.FIRST, Near("F", 1), []),
    ],
)
def test_one_hit_can_be_wanted(known: Locked, wanted: Wanted, near: Near | None, expected: list[int]) -> None:
    """Rounds 1 to 6 all have a row; the end of round 3 is behind its stops and in front of round 4."""
    assert [round_ for round_, _, _ in at(hits(known, "rounds.scheduled_tokens > 0", wanted, near))] == expected


def test_a_position_parts_the_stops_of_its_round(known: Locked) -> None:
    """Attempts stand at 4.3, 5.3 and 5.5: from 5.3 the next is 5.5 and the one before 4.3; from 5 it is 5.5 again."""
    asked = [(Wanted.NEXT, Near(round=5, stop=3)), (Wanted.PREVIOUS, Near(round=5, stop=3)),
             (Wanted.PREVIOUS, Near(round=5)), (Wanted.NEXT, Near(round=5))]  # fmt: skip
    found = [at(hits(known, "attempts.hit_tokens = 2", wanted, near)) for wanted, near in asked]
    assert found == [[(5, 5, "c")], [(4, 3, "c")], [(5, 5, "c")], []]


def test_places_are_those_of_the_predicate(known: Locked) -> None:
    """What is wrong is named with its place in the predicate and with what may have been meant."""
    found, word = problem(known, "verdicts.cuase = 'x'")
    assert (found.kind, word, found.candidates[0]) == (Kind.FAILED, "cuase", "cause")
    found, word = problem(known, "verdict.cause = 'x'")
    assert (word, found.candidates[0]) == ("verdict", "verdicts")
    found, word = problem(known, "rounds.round > 1 AND nonsense > 3")
    assert word == "nonsense"
    found, word = problem(known, "SELECT rond FROM rounds")
    assert (word, "round" in found.candidates) == ("rond", True)


@pytest.mark.parametrize(
    ("predicate", "place", "says"),
    [
        ("", "", "no predicate"),
        ("-- nothing", "", "no predicate"),
        ("rounds.round >", "", "ends too early"),
        ("(rounds.round > 1", "(", "not closed"),
        ("rounds.round > 1) OR (true", ")", "closes none"),
        ("rounds.round > 1; DROP TABLE x", ";", "one predicate"),
        ("round > 1", "round", "name the one that is meant"),
        ("nonsense > 1", "nonsense", "no table has a column"),
        ("parts.rank = 0", "parts", "no round"),
        ("releasable_blocks > 1 AND waiting_requests > 1", "releasable_blocks", "no table has all of"),
        ("1 = 1", "", "no column"),
        ("SELECT request FROM operations", "", "no column round"),
        ("INSERT INTO x VALUES (1)", "x", "no table has a column"),
    ],
)
def test_what_is_no_predicate_is_told(known: Locked, predicate: str, place: str, says: str) -> None:
    """Each text that is no predicate is refused with its own reason, at its place."""
    found, word = problem(known, predicate)
    assert (says in found.message, word) == (True, place), found


def test_a_predicate_cannot_write(known: Locked) -> None:
    """A query that writes inside WITH fails, as in `sql`."""
    found, _ = problem(known, "WITH x AS (INSERT INTO _parts DEFAULT VALUES RETURNING 1 AS round) FROM x")
    assert found.kind is Kind.FAILED


def test_unknown_decisions_are_named() -> None:
    """Without decisions a predicate about them has no hits and says so; one about plans has nothing to say."""
    locked = Locked(Catalog([FakeBundle("tiny", [FakePart(tiny())])]))
    found = hits(locked, "verdicts.cause = 'capacity'")
    assert (at(found), found.unknown) == ([], (Unknown("tiny", "F", 0, 0, 6),))
    assert hits(locked, "verdict_runs.rounds > 1").unknown
    assert hits(locked, "rounds.round > 1").unknown == ()
    locked.close()


def test_decisions_known_up_to_a_round_are_named() -> None:
    """Decisions derived up to round 5 of 6 leave one round of which nothing can be said."""
    part = DerivedPart(decided().parts[0].data, config=CONFIG, derived_round=5)
    locked = Locked(Catalog([FakeBundle("tiny", [part])]))
    assert hits(locked, "verdicts.cause = 'capacity'").unknown == (Unknown("tiny", "F", 0, 5, 6),)
    locked.close()


def test_hits_of_several_parts_name_theirs() -> None:
    """With two parts every hit names its own, and a query that does not say it is refused."""
    parts = [FakePart(tiny(), rank=rank) for rank in (0, 1)]
    locked = Locked(Catalog([FakeBundle("tiny", parts)]))
    found = hits(locked, "rounds.retracted_requests > 0").positions.to_pylist()
    assert [(row["trace"], row["node"], row["rank"], row["round"]) for row in found] == [
        ("tiny", "F", 0, 4), ("tiny", "F", 1, 4),
    ]  # fmt: skip
    assert hits(locked, "rounds.retracted_requests > 0", Wanted.FIRST, Near(rank=1)).positions["rank"].to_pylist() == [
        1
    ]
    message = problem(locked, "SELECT round FROM rounds")[0].message
    assert "there are 2 parts" in message
    locked.close()


def test_hits_come_from_a_process_of_its_own(tmp_path: Path) -> None:
    """A process of its own gives the same hits and the same problems, and stops at its time."""
    path = str(save(tmp_path / "tiny", tiny()))
    opener = "tests.query.fakes:open_folder"
    assert at(hits_apart([path], "rounds.waiting_requests > 0", opener=opener)) == [(1, None, None), (4, None, None)]
    with pytest.raises(QueryError) as caught:
        hits_apart([path], "rounds.nonsense > 0", opener=opener)
    assert caught.value.problem.at == (7, 8)
    endless = (
        "SELECT max(i)::INTEGER AS round FROM (WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i FROM r) FROM r)"
    )
    with pytest.raises(QueryError) as caught:
        hits_apart([path], endless, limits=Limits(seconds=1.0), opener=opener)
    assert caught.value.problem.kind is Kind.TIMEOUT


def test_a_list_is_cut_and_says_of_how_many(known: Locked) -> None:
    """With room for two, two of six rounds are listed and six are counted."""
    found = hits(known, "rounds.round > 0", limits=Limits(rows=2))
    assert (at(found), str(found.total)) == ([(1, None, None), (2, None, None)], "2 of 6 rows")
    assert LIMITS.rows == 1_000_000
