"""From a moment to a round."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from tsviz.replay.moments import AtRound, NoMoment, round_at
from tsviz.trace.reader import open_bundle

TRACES = Path(__file__).parents[2] / "traces"


@pytest.mark.parametrize(
    ("time_ns", "round_"), [(0, 1), (19_999_999, 1), (20_000_000, 2), (85_000_000, 5), (133_959_999, 5)]
)
def test_a_time_since_the_start(time_ns: int, round_: int) -> None:
    """head-of-line: round 2 begins at 20 ms, round 5 at 85 ms, round 6 at 133.96 ms."""
    bundle = open_bundle(TRACES / "head-of-line")
    assert round_at(bundle, bundle.parts[0], time_ns, wall=False) == AtRound(round_)


def test_a_virtual_clock_has_no_place_on_the_wall() -> None:
    """It says what counts instead; behind the end it is the last round, with a note."""
    bundle = open_bundle(TRACES / "head-of-line")
    part = bundle.parts[0]
    none = round_at(bundle, part, 1_795_995_670 * 10**9, wall=True)
    assert isinstance(none, NoMoment)
    assert "virtual clock" in none.reason
    assert round_at(bundle, part, 10**12, wall=False) == AtRound(
        55, "the moment lies behind the begin of the last round"
    )


def test_the_anchor_puts_a_monotonic_clock_on_the_wall() -> None:
    """Anchor: monotonic 1,000 ns is 5,000,000 ns since 1970; rounds begin at 2,000 and 3,000, so 5,002,500 is in 2."""
    rounds = pa.table({"round": pa.array([1, 2, 3], pa.int32()), "start_ns": [1_500, 2_000, 3_000]})
    part: Any = SimpleNamespace(node="F", rank=0, clock="monotonic", table=lambda _: rounds)
    anchor = {"clock_anchor": {"wall_ns": 5_000_000, "monotonic_ns": 1_000}}
    bundle: Any = SimpleNamespace(name="x", path=Path("x"), parts=[part], description=anchor)
    assert round_at(bundle, part, 5_001_500, wall=True) == AtRound(2)
    assert round_at(bundle, part, 600, wall=False) == AtRound(2)
    assert round_at(bundle, part, 4_000_000, wall=True) == NoMoment("the moment lies before the first round")
    late = {"wall_ns": 5_000_000 + 2 * 10**9, "monotonic_ns": 1_000 + 2 * 10**9}
    bundle.description = {"clock_anchor": late}  # the bundle was opened two seconds later
    assert round_at(bundle, part, 5_001_500, wall=True) == AtRound(2)
    bundle.description = {}
    assert isinstance(round_at(bundle, part, 1, wall=True), NoMoment)


def test_a_clock_that_counts_from_the_start_of_its_run_has_no_place_on_the_wall() -> None:
    """smollm2-live: its first round began 0.06 s into the run, while the machine had been up for a day."""
    bundle = open_bundle(TRACES / "smollm2-live")
    found = round_at(bundle, bundle.parts[0], 1_796_068_951 * 10**9, wall=True)
    assert isinstance(found, NoMoment)
    assert "from the start of its run" in found.reason
