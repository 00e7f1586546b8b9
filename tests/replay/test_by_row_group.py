"""Large traces are read by row group: what they say is what the same tables say when they are read whole."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from tests.replay.row_groups import cut_into_groups
from tsviz.replay.findings.scan import check_part
from tsviz.replay.inside import Inside
from tsviz.replay.live.as_bytes import to_bytes
from tsviz.replay.live.run import LiveRun
from tsviz.replay.live.state import live_state
from tsviz.replay.lost.blame import blame
from tsviz.replay.recorded import life_of
from tsviz.replay.recorded.lives import Lives
from tsviz.replay.reexecution import index
from tsviz.replay.reexecution.call_log import CallLog
from tsviz.replay.reexecution.index import build_index
from tsviz.replay.reexecution.invented import Grown, InventedTokens
from tsviz.replay.slice import write_slice
from tsviz.replay.stops.story import NotKnown
from tsviz.replay.why.answer import facts_of, why
from tsviz.replay.why.facts import Facts
from tsviz.replay.why.tree import Answer
from tsviz.replay.why.turns import Turns
from tsviz.trace import reader
from tsviz.trace.catalogue import TABLES
from tsviz.trace.reader import Part, open_bundle

TRACES = Path(__file__).resolve().parents[2] / "traces"
SOURCES = ("retract-and-grant", "readmission-seals")


@pytest.fixture(scope="module")
def indexed(both: tuple[Part, Part], tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Facts, Facts]]:
    """What is known of both with an index each; requests of the second come from compact bases."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TSVIZ_CACHE", str(tmp_path_factory.mktemp("cache")))
        whole = facts_of(both[0], build_index(both[0]))
        patch.setattr(life_of, "LARGE_ROWS", 0)
        patch.setattr(index, "KEPT_ROWS", 0)
        yield whole, facts_of(both[1], build_index(both[1]))


@pytest.fixture(scope="module", params=SOURCES)
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Part, Part]]:
    """A trace that ships, read whole and by row group."""
    source = TRACES / request.param
    whole = open_bundle(source).parts[0]
    for name in ("rounds", "calls", "events", "operations", "submissions", "grown_pages"):
        whole.table(name)
    with pytest.MonkeyPatch.context() as patch:
        yield whole, cut_into_groups(source, tmp_path_factory.mktemp("grouped") / "bundle", patch)


def test_the_log_of_calls_is_the_same_from_any_round_on(both: tuple[Part, Part]) -> None:
    """From the start and from each of some rounds the same calls come in the same order, with the same events."""
    whole, grouped = (CallLog(part) for part in both)
    assert both[1].large("events") is not None
    every = list(whole)
    assert list(grouped) == every
    for round_ in (
        1,
        2,
        *Random(3).sample(range(3, both[0].last_round), 12),
        both[0].last_round,
        both[0].last_round + 9,
    ):
        assert [(c.seq, c.round, c.kind, c.items) for c in grouped.since(round_, {})] == [
            (c.seq, c.round, c.kind, c.items) for c in every if c.round >= round_
        ]


def test_live_states_are_the_same(both: tuple[Part, Part]) -> None:
    """Wherever one looks, forwards and back, the state made from row groups is byte for byte that made from memory."""
    runs = [LiveRun(part) for part in both]
    for run in runs:
        run.verify_for(60.0)
        assert run.done and run.divergence is None and run.verified == both[0].last_round
    dice = Random(5)
    for _ in range(12):
        place = (dice.randint(1, both[0].last_round), dice.choice((None, 0, 2)))
        one, other = (run.look(place) for run in runs)
        assert one is not None and other is not None
        assert to_bytes(live_state(one)) == to_bytes(live_state(other))


def test_why_is_the_same(indexed: tuple[Facts, Facts]) -> None:
    """Every request in every 9th round: cause, chain, tree and cycle are those of whole tables, to the word."""
    whole, grouped = indexed
    assert isinstance(grouped.life, Lives) and grouped.decided.large("verdicts") is not None  # type: ignore[attr-defined]
    turns = Turns(whole), Turns(grouped)
    asked = 0
    for round_ in range(1, whole.last_round + 1, 9):
        for submission in whole.live(round_):
            name = whole.life.names[submission]
            assert why(grouped, turns[1], name, round_) == why(whole, turns[0], name, round_), (name, round_)
            asked += 1
    assert asked > 90


def test_why_waits_for_the_bases_of_a_large_trace(
    both: tuple[Part, Part], indexed: tuple[Facts, Facts], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While its bases are being built a large trace says so and reads nothing whole; then it answers."""
    inside = Inside(both[1], build_index(both[1]), "T")
    request, round_ = indexed[0].life.names[0], both[0].last_round // 2
    with monkeypatch.context() as patch:
        patch.setenv("TSVIZ_CACHE", str(tmp_path))
        found = inside.why(request, round_)
        assert isinstance(found, NotKnown) and found.kind == "preparing"
    assert isinstance(inside.why(request, round_), Answer)


def test_findings_and_lost_time_are_the_same(indexed: tuple[Facts, Facts], both: tuple[Part, Part]) -> None:
    """Each check ends as it does over whole tables, evidence included; so does every nanosecond that was lost."""
    ended = [
        check_part(open_bundle(both[0].directory.parents[1]), part, facts)
        for part, facts in zip(both, indexed, strict=True)
    ]
    assert [one.ended for one in ended[1]] == [one.ended for one in ended[0]]
    assert {one.outcome for one in ended[0]} > {"found"} and len(ended[0]) >= 20
    lost = [blame(facts) for facts in indexed]
    assert [(one.causes, one.tokens) for one in lost[1]] == [(one.causes, one.tokens) for one in lost[0]]


def test_a_slice_is_the_same(
    both: tuple[Part, Part], indexed: tuple[Facts, Facts], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cut out of row groups, with a keyframe that an index led to, it has the rows and the state of the other one."""
    assert indexed[1].last_round == both[1].last_round
    middle = both[0].last_round // 2
    slices = []
    for number, part in enumerate(both):
        bundle = open_bundle(part.directory.parents[1])
        monkeypatch.setattr(reader, "KEPT_ROWS", 0 if number else 1 << 19)
        monkeypatch.setattr(life_of, "LARGE_ROWS", 0 if number else 2_000_000)
        out = tmp_path / str(number)
        assert write_slice(bundle, bundle.parts[0], middle, middle + 20, out).no_keyframe == ""
        slices.append(open_bundle(out).parts[0])
    for name in TABLES.keys() - {"keyframes"}:
        rows = [part.table(name).to_pylist() for part in slices]
        assert rows[1] == rows[0], name
    # A keyframe's bytes also hold what its twin remembered, which is less where it went on from another keyframe.
    assert [part.table("keyframes").column("round").to_pylist() for part in slices] == [[middle], [middle]]
    one, other = (LiveRun(part).look((middle, None)) for part in slices)
    assert one is not None and other is not None
    assert to_bytes(live_state(one)) == to_bytes(live_state(other))


def test_a_token_of_a_grown_page_is_the_number_of_the_page() -> None:
    """Prompt pages come first, then pages that were filled, in a row or with holes; what filled none is loose."""
    rows = pa.table({"submission": [4, 9, 4, 9], "index": [2, 1, 3, 7], "page": [20, 31, 21, 33]},
                    schema=pa.schema([(name, pa.int32()) for name in ("submission", "index", "page")]))  # fmt: skip
    tokens = InventedTokens(2, Grown(rows))
    tokens.learn_prompt(4, [7, 8])
    loose = 1 << 30
    assert tokens.tokens(4, 0, 9).tolist() == [7, 7, 8, 8, 20, 20, 21, 21, loose + 4]
    assert [tokens.token(9, position) for position in (1, 2, 14, 16)] == [loose + 9, 31, 33, loose + 9]
    assert tokens.tokens(5, 1, 2).tolist() == [loose + 5] * 2
    assert np.all(np.array(tokens.chain([3, 4])) == [3, 3, 4, 4])
