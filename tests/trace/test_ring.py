"""The flight recorder's segments: dropped only whole, and what is kept makes its rounds again from its keyframe."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.trace.lives import record
from tsviz.replay.reexecution.filled import fill
from tsviz.replay.reexecution.verify import verify
from tsviz.replay.ring.join import PartRing
from tsviz.replay.rows.lifetimes import ENDS
from tsviz.replay.view import open_view
from tsviz.scheduler import compat
from tsviz.trace import layout, privacy
from tsviz.trace.catalogue import CALLS, DECISIONS, PLAN_TABLES, PLANS, TABLES
from tsviz.trace.errors import NotABundle
from tsviz.trace.layout import RING_FILE
from tsviz.trace.reader import Part, open_bundle
from tsviz.trace.ring import RingOptions, parse_ring, segment_directories
from tsviz.trace.whole import write_whole

STEPS = 400
RING = RingOptions(3.6e-6, None)
"""Segments of 900 ns, which is 128 calls on the clock of a lifetime."""


def storage(config: Any) -> None:
    """Have a host tier and a storage tier."""
    config.num_host_pages, config.enable_l3_storage, config.enable_kv_cache_events = 40, True, False


def ring_of(home: Path) -> PartRing:
    """Return the kept part of a recording's only scheduler."""
    return PartRing(home, home / "parts" / "N.0", layout.read_json(home / RING_FILE))


def written(ring: PartRing, out: Path) -> Part:
    """Write what is kept as a trace and return its part."""
    write_whole(out, ring.description, [ring.joined()], {})
    return open_bundle(out).parts[0]


def rows_of(part: Part, name: str, first: int) -> list[dict[str, Any]]:
    """Return the rows of a table from a round on, without what is numbered or measured anew."""
    left_out = {"submission", "duration_ns", "key"}
    return [
        {column: value for column, value in row.items() if column not in left_out}
        for row in part.table(name).to_pylist() if row["round"] >= first
    ]  # fmt: skip


def verdicts_of(part: Part, first: int) -> dict[tuple[str, int], tuple[str, str, str, int]]:
    """Return what holds of each request that is there at a plan from a round on: a row until the request's next one."""
    runs: dict[int, dict[int, dict[str, Any]]] = {}
    for row in part.table("verdicts").to_pylist() if part.level == DECISIONS else ():
        runs.setdefault(row["submission"], {})[row["round"]] = row
    ends = {r["submission"]: r["round"] for r in part.table("events").to_pylist() if r["kind"] in ENDS and r["applied"]}
    found = {}
    for submission, rows in runs.items():
        holds: dict[str, Any] = {}
        for round_ in range(1, min(part.last_round + 1, ends.get(submission, part.last_round + 1))):
            holds = rows.get(round_, holds)
            if holds and round_ >= first:
                said = holds["cause"], holds["holder"], holds["rule"], holds["op_id"]
                found[holds["request"], round_] = said
    return found


MADE = ("operations", "table_changes", "zeroed", "transfers")


@pytest.mark.parametrize(
    ("role", "tokens", "level"),
    [("Fused", "identity", PLANS), ("P", "full", PLANS), ("D", "identity", PLANS), ("Fused", "full", DECISIONS)],
)
def test_what_is_kept_is_the_recording_from_there_on_and_makes_its_plans_again(
    real: ModuleType, tmp_path: Path, role: str, tokens: str, level: str
) -> None:
    """Segment by segment is dropped; each time the rest has every row of the plain recording, and verifies."""
    module, names = (compat, (*MADE, "admissions")) if level == DECISIONS else (real, MADE)
    for seed in (501 if role == "D" else 505,):
        home = tmp_path / f"{seed}.ring"
        record(module, home, seed, role=role, tokens=tokens, steps=STEPS, tune=storage, ring=RING, level=level)
        record(module, tmp_path / f"{seed}", seed, role=role, tokens=tokens, steps=STEPS, tune=storage, level=level)
        plain, ring = open_bundle(tmp_path / f"{seed}").parts[0], ring_of(home)
        pieces = len(ring.segments())
        assert pieces >= 3
        dropped = 0
        while True:
            part = written(ring, tmp_path / f"{seed}-{dropped}")
            first = part.meta.get("starts_at", 1)
            assert (part.last_round, ring.said) == (plain.last_round, "")
            assert verify(part, compat).complete
            for name in ("calls", "rounds", "events", *names):
                assert rows_of(part, name, first) == rows_of(plain, name, first), (name, first)
            assert verdicts_of(part, first) == verdicts_of(plain, first)
            gaps = {row["table"]: row for row in part.table("gaps").to_pylist()}
            assert all(row["last_round"] == first - 1 and row["reason"] == privacy.RING for row in gaps.values())
            for name in ("calls", "rounds", "verdicts", *names):
                before = sum(row["round"] < first for row in plain.table(name).to_pylist())
                assert (gaps[name]["dropped_rows"] if name in gaps else 0) == before
            if len(ring.segments()) < (3 if not dropped else 2):
                break
            ring.advance()
            dropped += 1
        assert dropped == pieces - 2


def test_a_ring_of_calls_has_every_plan_once_it_is_made_again(
    real: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind each drop the rest verifies, and `fill` gives the plans, and the states, of the recording with plans."""
    monkeypatch.setenv("TSVIZ_CACHE", str(tmp_path / "cache"))
    how: dict[str, Any] = {"role": "D", "tokens": "identity", "steps": STEPS, "tune": storage}
    record(real, tmp_path / "x.ring", 501, ring=RING, level=CALLS, **how)
    record(real, tmp_path / "x", 501, **how)
    plain, ring = open_bundle(tmp_path / "x"), ring_of(tmp_path / "x.ring")
    for dropped in (1, 2):
        ring.advance()
        part = written(ring, tmp_path / f"x-{dropped}")
        first = part.meta["starts_at"]
        assert (part.level, part.last_round, verify(part, compat).complete) == (CALLS, plain.parts[0].last_round, True)
        assert not rows_of(part, "operations", first)
        made, _ = fill(open_bundle(tmp_path / f"x-{dropped}"))
        for name in PLAN_TABLES:
            assert rows_of(made.parts[0], name, first) == rows_of(plain.parts[0], name, first)
        assert made.parts[0].rows("operations") > 0
        for number in (first, part.last_round):
            states = [[(r.request, r.state) for r in open_view(b).snapshot(number).requests] for b in (made, plain)]
            assert states[0] == states[1] != []


def test_a_ring_goes_on_where_its_keeper_was_stopped(real: ModuleType, tmp_path: Path) -> None:
    """A second look at the same folder knows what was sealed and what was dropped before it."""
    home = tmp_path / "x.ring"
    record(real, home, 505, tokens="identity", steps=STEPS, ring=RING)
    first = ring_of(home)
    first.advance()
    first.advance()
    again = ring_of(home)
    assert again.joined().tables["gaps"].to_pylist() == first.joined().tables["gaps"].to_pylist() != []
    assert verify(written(again, tmp_path / "out"), compat).complete


def test_segments_end_by_size_too(real: ModuleType, tmp_path: Path) -> None:
    """A ring of a few bytes has a segment for every flush, and all of them together are the recording."""
    home = tmp_path / "x.ring"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tsviz.trace.writer.FLUSH_SECONDS", 0.0)
        patch.setattr("tsviz.trace.writer._TAKE_ENTRIES", 8)
        record(real, home, 505, tokens="identity", steps=120, ring=RingOptions(None, 8_000))
    assert len(segment_directories(home / "parts" / "N.0")) > 3
    part = written(ring_of(home), tmp_path / "out")
    assert verify(part, compat).complete
    assert part.rows("gaps") == 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [("60s", (60.0, None)), ("10m", (600.0, None)), ("2h", (7200.0, None)), ("200MB", (None, 200 << 20)),
     ("1.5 GB", (None, 3 << 29))],
)  # fmt: skip
def test_how_much_is_kept_is_a_time_or_a_size(text: str, expected: tuple[float | None, int | None]) -> None:
    """Seconds, minutes, hours; KB, MB, GB of 1,024."""
    assert parse_ring(text) == expected


@pytest.mark.parametrize("text", ["", "60", "0s", "-5s", "5 days", "s"])
def test_other_sizes_are_refused(text: str) -> None:
    """What is neither is named, with what was expected."""
    with pytest.raises(ValueError, match="expected a time such as 60s"):
        parse_ring(text)


def test_every_table_can_have_a_gap() -> None:
    """The reason of a ring's gaps survives a redaction, and so do the names of tables."""
    assert privacy.RING in privacy.RULES["gaps", "reason"].words
    assert set(TABLES) == privacy.RULES["gaps", "table"].words


def test_the_segments_of_a_ring_are_no_trace_and_say_what_is(real: ModuleType, tmp_path: Path) -> None:
    """Opening, or following, what a flight recorder writes names its keeper and `repair`."""
    record(real, tmp_path / "b.ring", 505, tokens="identity", steps=20, ring=RingOptions(1.0, None))
    with pytest.raises(NotABundle, match="found the segments of a flight recorder, of which its keeper writes traces"):
        open_bundle(tmp_path / "b.ring")
