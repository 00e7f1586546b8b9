"""Where bytes lie and how big pools are (`executor-rules.md` sections 6 and 7)."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="the executor needs torch: pip install 'tsviz[executor]'")

from tsviz.executor.arena import Arena, HostPool
from tsviz.executor.layout import plan_layout
from tsviz.executor.shape import BadModel, ModelShape
from tsviz.executor.sizing import PoolOptions, parents_for_budget, single_request_tokens, size_pool
from tsviz.trace.order.ops import ByteRange

SHAPE = ModelShape("FS", kv_heads=2, head_dim=8)


def test_blocks_lie_one_behind_the_other_from_parent_one_on() -> None:
    """A full block of 8 tokens is 8 x 2 x 8 x 4 bytes twice, 1,024; two sliding blocks of 4 fill the same parent."""
    layout = plan_layout(SHAPE, {"full": 8, "sliding": 4}, 4)
    full, sliding = layout.groups
    assert (layout.parent_bytes, full.packing, sliding.packing) == (1024, 1, 2)
    assert full.device_offset(1) == 1024
    assert [sliding.device_offset(page) for page in (1, 2, 3)] == [1024, 1536, 2048]
    assert full.row_ranges(1, 2, 3, 0) == [ByteRange("device", 1024 + 128, 1024 + 192), ByteRange("device", 1664, 1728)]
    assert layout.host_offset(sliding, 3) == 1024


def test_a_block_comes_back_from_the_host_as_it_was() -> None:
    """What is stored and loaded into another block is equal, byte by byte, and the null parent stays zero."""
    layout = plan_layout(SHAPE, {"full": 8, "sliding": 4}, 4)
    arena, host = Arena(layout, 3, torch.float32), HostPool(layout, 2)
    group = layout.group("sliding")
    arena.view("sliding", 1, "k")[2] = torch.arange(64.0).view(4, 2, 8)
    host.store(arena, group, 2, 3)
    host.load(arena, group, 3, 5, None)
    assert torch.equal(arena.view("sliding", 1, "k")[5], arena.view("sliding", 1, "k")[2])
    assert arena.read_block(group, 5) == arena.read_block(group, 2)
    assert arena.null_parent_is_zero()


def test_a_byte_budget_gives_whole_parents_less_the_null_one() -> None:
    """100,000 bytes less 1,000 of workspace hold 96 parents of 1,024 bytes, one of them the null parent."""
    pool = PoolOptions(granularity={"full": 8, "sliding": 4})
    assert parents_for_budget(SHAPE, pool, 100_000, 1_000, 4) == 95
    with pytest.raises(BadModel, match="memory budget: expected at least 3,048 bytes, found 2,000"):
        parents_for_budget(SHAPE, pool, 2_000, 1_000, 4)


def test_the_bound_of_a_request_is_the_capacity_models() -> None:
    """Ten blocks of 8 tokens hold one request of 80 with nothing in flight."""
    sized = size_pool(ModelShape("F"), PoolOptions(), parents=10, host_parents=0, element_bytes=4)
    assert single_request_tokens(sized) == 80


@pytest.mark.parametrize("state", [1, 2, 3, 5, 7])
def test_parents_are_filled_to_three_quarters(state) -> None:
    """However odd the sizes, no group leaves more than a quarter of a parent unused, and no block crosses its end."""
    shape = ModelShape("FM", heads=state, kv_heads=1, head_dim=8, hidden=24)
    layout = plan_layout(shape, {"full": 8, "state": 4}, 4)
    for group in layout.groups:
        assert group.packing * group.payload_bytes >= 0.7 * layout.parent_bytes
        assert group.packing * group.stride_bytes == layout.parent_bytes
        assert group.payload_bytes <= group.stride_bytes
