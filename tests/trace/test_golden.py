"""Bundles that earlier releases wrote open and verify for ever."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from tests.trace.reading_process import everything
from tsviz.replay.reexecution.verify import verify
from tsviz.replay.view import open_view
from tsviz.trace.reader import open_bundle

GOLDEN = sorted(path.parent for path in (Path(__file__).parent / "golden").glob("*/*/bundle.json"))
NAMES = [f"{path.parent.name}/{path.name}" for path in GOLDEN]


def test_there_is_a_golden_bundle_of_every_kind() -> None:
    """Every schema is kept hot and cold, with full and with identity tokens."""
    kinds = ("fused-hot", "fused-cold", "d-identity-hot", "d-identity-cold")
    assert {f"{schema}/{kind}" for schema in ("1.0", "1.1", "1.2", "1.3") for kind in kinds} <= set(NAMES)


@pytest.mark.parametrize("path", GOLDEN, ids=NAMES)
def test_a_golden_bundle_opens(path: Path) -> None:
    """Every table reads whole, and every round can be shown."""
    assert everything(path)["end"] == {"error": None}
    view = open_view(open_bundle(path))
    assert [view.snapshot(r).round for r in range(1, view.head.rounds + 1)] == list(range(1, view.head.rounds + 1))


@pytest.mark.parametrize("path", GOLDEN, ids=NAMES)
def test_a_golden_bundle_verifies(real: ModuleType, path: Path) -> None:
    """Every round is made again with the recorded digests."""
    part = open_bundle(path).parts[0]
    found = verify(part, real)
    assert found.divergence is None
    assert found.verified_rounds == found.recorded_rounds >= 25


@pytest.mark.parametrize("kind", ["fused", "d-identity"])
def test_hot_and_cold_hold_the_same(kind: str) -> None:
    """The two forms of one golden lifetime have the same rows."""
    folder = Path(__file__).parent / "golden" / "1.0"
    hot, cold = (open_bundle(folder / f"{kind}-{form}").parts[0] for form in ("hot", "cold"))
    for name in ("operations", "table_changes", "rounds", "events", "submissions", "zeroed", "transfers"):
        left, right = hot.table(name), cold.table(name)
        assert (
            left.drop_columns([c for c in ("start_ns",) if c in left.column_names]).to_pylist()
            == right.drop_columns([c for c in ("start_ns",) if c in right.column_names]).to_pylist()
        )
