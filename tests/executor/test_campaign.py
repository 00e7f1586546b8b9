"""Random lifetimes on random paths (`executor-rules.md` section 8); `python -m tests.executor.campaign` runs 2,000."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec

import pytest

torch = pytest.importorskip("torch", reason="the executor needs torch: pip install 'tsviz[executor]'")

import tsviz.scheduler.compat as twin
from tests.executor.campaign import PAIR_PATHS, Tally, campaign
from tests.executor.rig import drawn, live
from tsviz.adapters.tokenspeed import load_real
from tsviz.executor.paths import PATHS

torch.set_num_threads(1)
FIRST, LIFETIMES, PART = 1040, 40, 5
LEAST = 20
SCHEDULERS = {"twin": twin} | ({"real": load_real()} if find_spec("tokenspeed_scheduler") else {})


@pytest.fixture(scope="module")
def part(tmp_path_factory):
    """What five lifetimes came to, lived when first asked for."""

    @cache
    def lived(first: int) -> Tally:
        return campaign(range(first, first + PART), SCHEDULERS, tmp_path_factory.mktemp("storage"))

    return lived


@pytest.mark.parametrize("first", range(FIRST, FIRST + LIFETIMES, PART))
def test_random_lifetimes_are_bit_equal(part, first: int) -> None:
    """Every logit of every generated token equals the reference's, nothing races, every request comes to its end."""
    tally = part(first)
    assert tally.failures == []
    assert tally.equality.is_exact
    assert tally.equality.tokens > 200


@pytest.mark.timeout(600)  # where it runs alone it lives all of them
def test_random_lifetimes_go_every_way(part) -> None:
    """In forty lifetimes every path comes twenty times; of those that are no pairs half are the real package's."""
    total = Tally()
    for first in range(FIRST, FIRST + LIFETIMES, PART):
        total.add(part(first))
    print(*total.lines(), sep="\n")
    assert {path: total.counts[path] for path in (*PATHS, *PAIR_PATHS) if total.counts[path] < LEAST} == {}
    assert total.equality.tokens > 2000
    if "real" in SCHEDULERS:
        assert abs(total.lifetimes["real"] - total.lifetimes["twin"]) <= 4


@pytest.mark.oracle
@pytest.mark.parametrize("seed", [FIRST + 1, FIRST + 2])
def test_a_seed_is_the_same_lifetime_on_both_schedulers(seed: int, tmp_path, real_scheduler) -> None:
    """The same rounds, the same operations on the same bytes, the same tokens."""
    ours, real = (live(drawn(seed), s, tmp_path / name) for name, s in (("twin", twin), ("real", real_scheduler)))
    assert ours.summary == real.summary
    assert ours.said == real.said
    assert ours.counts == real.counts
    assert [(op.kind, op.reads, op.writes) for op in ours.ops] == [(op.kind, op.reads, op.writes) for op in real.ops]
