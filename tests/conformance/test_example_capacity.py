"""The numbers of scheduler-rules 11: pages of one request, of many, and the bound they imply."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from tests.conformance.calls import build_config
from tests.conformance.notation import full, sliding, state

_BASE: dict[str, Any] = {
    "prefix_granularity": 64,
    "max_scheduled_tokens": 8192,
    "max_batch_size": 16,
    "decode_input_tokens": 4,
    "overlap_schedule_depth": 1,
    "cache_groups": [full(64, packing=12), state(64), sliding(128, 64, packing=3)],
}


def _model(module: ModuleType, role: str = "Fused") -> Any:
    return module.CapacityModel(build_config(module, {**_BASE, "role": role}))


@pytest.mark.parametrize(("limit", "pages"), [(4096, [65, 4, 65]), (8197, [129, 4, 130]), (65536, [1025, 4, 131])])
def test_single_request_pages(module: ModuleType, limit: int, pages: list[int]) -> None:
    """A full group grows with the limit; a sliding one stops at the window and a chunk; a state keeps 4."""
    assert _model(module).single_request_group_pages(limit) == pages


def test_concurrent_pages(module: ModuleType) -> None:
    """65,536 tokens in contexts of 4,096 need 217 parents: ceil(1056/12) + 64 + ceil(194/3)."""
    model = _model(module)
    assert model.num_groups == 3
    assert model.concurrent_group_pages(65536, 4096) == [1056, 64, 194]
    assert model.lcm_blocks_needed_for([1056, 64, 194]) == 88 + 64 + 65 == 217


@pytest.mark.parametrize(("usable", "bound"), [(4, 0), (5, 68), (6, 188), (10, 764), (20, 2300), (100, 39932)])
def test_max_single_request_tokens(module: ModuleType, usable: int, bound: int) -> None:
    """The largest limit whose pages fit into the given parents."""
    assert _model(module).max_single_request_tokens(usable) == bound


@pytest.mark.parametrize(
    ("role", "single", "concurrent"),
    [("P", [64, 3, 64], [1040, 48, 194]), ("D", [65, 4, 6], [1056, 64, 96])],
)
def test_roles(module: ModuleType, role: str, single: list[int], concurrent: list[int]) -> None:
    """P reserves no decode step; D lands only a sliding group's tail."""
    model = _model(module, role)
    assert model.single_request_group_pages(4096) == single
    assert model.concurrent_group_pages(65536, 4096) == concurrent


def test_concurrent_is_never_below_single(module: ModuleType) -> None:
    """For every limit of a sweep, concurrent(L, L) covers single(L), group by group, in every role."""
    for role in ("Fused", "P", "D"):
        model = _model(module, role)
        for limit in [*range(0, 300, 7), 4096, 8191, 8192, 8193, 20000]:
            pairs = zip(
                model.concurrent_group_pages(limit, limit),
                model.single_request_group_pages(limit),
                strict=True,
            )
            assert all(many >= one for many, one in pairs), (role, limit)


def test_refusals(module: ModuleType) -> None:
    """Negative limits and wrong vectors are RuntimeErrors; negative concurrent arguments are ValueErrors."""
    model = _model(module)
    with pytest.raises(RuntimeError):
        model.single_request_group_pages(-1)
    for wrong in ([1, 2], [1, 2, -1]):
        with pytest.raises(RuntimeError):
            model.lcm_blocks_needed_for(wrong)
    with pytest.raises(ValueError, match="CapacityModel: max_total_tokens must be >= 0"):
        model.concurrent_group_pages(-1, 1)
    with pytest.raises(ValueError, match="CapacityModel: max_context_len must be >= 0"):
        model.concurrent_group_pages(1, -1)
