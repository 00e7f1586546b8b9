"""Random lifetimes on random paths (`executor-rules.md` section 8); `python -m tests.executor.campaign` runs 2,000."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="the executor needs torch: pip install 'tsviz[executor]'")

import tsviz.scheduler.compat as twin
from tests.executor.campaign import campaign

torch.set_num_threads(1)


@pytest.mark.parametrize("first", [1000, 1020])
def test_random_lifetimes_are_bit_equal(first, tmp_path) -> None:
    """In twenty lifetimes every logit of every generated token equals the reference's; no race, no dummy row."""
    total, counts, failures = campaign(first, 20, {"twin": twin}, tmp_path)
    assert failures == []
    assert total.is_exact
    assert total.tokens > 500
    print(counts)
