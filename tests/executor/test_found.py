"""Mistakes of a device are among the findings of its trace, without a query."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="the executor needs torch: pip install 'tsviz[executor]'")

import tsviz.scheduler.compat as twin
from tests.executor.rig import record, with_device
from tests.executor.test_equality import SHARED
from tests.executor.test_failures import STATE, TINY, WIDE, life
from tsviz.executor.options import Edge, Fault
from tsviz.replay.findings.model import CHECKSUMS, DEVICE
from tsviz.replay.findings.scan import check_part, checks_of
from tsviz.trace.reader import open_bundle

STORE_ZERO = frozenset({Edge.STORE_ZERO})
SLIDING = life(SHARED, "tiny-sliding", 20)


@pytest.mark.parametrize(
    ("lifetime", "mistake", "expected"),
    [
        (TINY, {"omitted": STORE_ZERO}, {"device_race", "broken_rows"}),
        (WIDE, {"faults": frozenset({Fault.DROPPED_TOKEN})}, {"lost_tokens"}),
        (TINY, {"faults": frozenset({Fault.EARLY_ACK})}, {"device_race", "early_acknowledgement"}),
        (
            SLIDING,
            {"faults": frozenset({Fault.ZERO_PARENT}), "page_crcs": True},
            {"device_race", "changed_pages", "broken_rows"},
        ),
        (STATE, {"page_crcs": True}, set()),
    ],
    ids=["no fence", "a token dropped", "told early", "a whole parent zeroed", "none"],
)
def test_a_mistake_of_a_device_is_found(lifetime, mistake, expected, tmp_path) -> None:
    """What an operation, a result or a word too early did is said by findings; a sound run has none of them."""
    record(with_device(lifetime, **mistake), twin, tmp_path / "run")
    bundle = open_bundle(tmp_path / "run")
    (part,) = bundle.parts
    checks = [check for check in checks_of(part) if check.needs in (DEVICE, CHECKSUMS)]
    assert {one.check.name for one in check_part(bundle, part, None, checks) if one.outcome == "found"} == expected
