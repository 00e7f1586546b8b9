"""Random lifetimes on random paths (`executor-rules.md` section 8); `python -m tests.executor.campaign` runs 2,000."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="the executor needs torch: pip install 'tsviz[executor]'")

import tsviz.scheduler.compat as twin
from tests.executor.campaign import PAIR_PATHS, campaign
from tsviz.executor.paths import PATHS

torch.set_num_threads(1)
LEAST = 20


@pytest.mark.timeout(300)
def test_random_lifetimes_are_bit_equal_and_go_every_way(tmp_path) -> None:
    """In forty lifetimes every logit of every generated token equals the reference's; every path comes twenty times."""
    total, counts, failures = campaign(1000, 40, {"twin": twin}, tmp_path)
    paths = (*PATHS, *PAIR_PATHS)
    print(*(f"{counts[path]:6,}  {path}" for path in paths), sep="\n")
    assert failures == []
    assert total.is_exact
    assert total.tokens > 2000
    assert {path: counts[path] for path in paths if counts[path] < LEAST} == {}
