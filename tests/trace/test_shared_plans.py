"""What is read of the twin's plans, sharing rows and tables, is what the public API spells out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.trace.lives import ROLES, record
from tsviz.replay.reexecution.verify import verify
from tsviz.scheduler import compat
from tsviz.trace.plan_fields import read_plan
from tsviz.trace.reader import open_bundle
from tsviz.trace.tokens import FULL, IDENTITY


@pytest.mark.parametrize("tokens", [FULL, IDENTITY])
@pytest.mark.parametrize("role", ROLES)
def test_digests_of_shared_plans_are_those_of_plans_read_whole(role: str, tokens: str, tmp_path: Path) -> None:
    """A recording whose writer reads every plan whole is equal in every round to re-execution, which does not."""
    for seed in range(12):
        directory = tmp_path / str(seed)
        record(compat, directory, seed=700 + seed, role=role, tokens=tokens, read=read_plan)
        found = verify(open_bundle(directory).parts[0], compat)
        assert found.divergence is None
        assert found.verified_rounds == found.recorded_rounds > 0


def test_groups_grow_in_the_order_of_their_names(tmp_path: Path) -> None:
    """Tables are told by name, as the public API does, also where a config names its groups in another order."""
    found = 0
    for seed in range(12):
        directory = tmp_path / str(seed)
        record(compat, directory, seed=700 + seed, tune=_turned, read=read_plan)
        part = open_bundle(directory).parts[0]
        found += len(part.config["cache_groups"]) > 1
        assert verify(part, compat).divergence is None
    assert found > 3


def _turned(config: Any) -> None:
    config.cache_groups = sorted(config.cache_groups, key=lambda group: group.group_id, reverse=True)
