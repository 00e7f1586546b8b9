"""What re-execution reads of the twin's plans, sharing rows and tables, is what the public API spells out."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.trace.lives import ROLES, record
from tsviz.replay.reexecution.verify import verify
from tsviz.scheduler import compat
from tsviz.trace.reader import open_bundle
from tsviz.trace.tokens import FULL, IDENTITY


@pytest.mark.parametrize("tokens", [FULL, IDENTITY])
@pytest.mark.parametrize("role", ROLES)
def test_digests_of_shared_plans_are_those_of_plans_read_whole(role: str, tokens: str, tmp_path: Path) -> None:
    """A recording, whose writer reads every plan whole, is equal in every round to re-execution, which does not."""
    for seed in range(12):
        directory = tmp_path / str(seed)
        record(compat, directory, seed=700 + seed, role=role, tokens=tokens)
        found = verify(open_bundle(directory).parts[0], compat)
        assert found.divergence is None
        assert found.verified_rounds == found.recorded_rounds > 0
