"""The storage tier: where fetched pages land, and what a shortened hit does to the chunk."""

from __future__ import annotations

from tests.conformance.notation import full
from tests.incidents.conftest import OpenScene
from tsviz.scheduler import decisions as d


def test_i11_fetched_pages_land_at_their_own_slots(scene: OpenScene) -> None:
    """I11: h0, h1 of the host and h2, h3 of the storage load into slots 0 to 3; the hit is 16 and 4 are computed."""
    s = scene([full(4)], blocks=20, num_host_pages=9, enable_l3_storage=True)
    prompt = list(range(100, 120))
    s.submit("A", prompt[:9])
    s.round()
    assert s.round().stored == [(0, [0, 0], [1, 2], [1, 2], True)]
    s.stored(0)
    s.finish("A")
    assert s.scheduler.clear_l1_cache()
    hashes = s.scheduler.prefix_hashes_for_tokens(prompt)
    s.scheduler.register_storage_keys(*s.scheduler.expand_prefix_keys(hashes[2:4]))
    s.submit("B", prompt)
    plan = s.round()
    assert plan.rows == "B:P[16+4/20]@2"
    assert plan.load is not None
    loaded, table = plan.load["dst_pages"][0], plan.table("B")
    assert [hashes.index(one) for one in plan.load["content_hashes"][0]] == [0, 1, 2, 3]
    assert [table.index(page) for page in loaded] == [0, 1, 2, 3]
    assert plan.load["prefetch_from_storage"] == [[0, 0, 1, 1]]
    s.tells(d.TierMatch, request_id="B", tier="host", common_tokens=16, begin_slot=0, hit_slots=4)
    s.tells(d.Admitted, request_id="B", device_tokens=0, host_tokens=16, loaded_pages=4, fresh_pages=(2,))
    s.answers("I11", ("B", 0, False), ("B", 1, False), ("B", 2, True), ("B", 3, True))


def test_i41_hit_chunk_and_tables_come_from_one_admission(scene: OpenScene) -> None:
    """I41: no host page is free for the third page, so the hit of 12 is tried again at 8, chunk and reserve with it."""
    s = scene([full(4)], blocks=20, budget=16, num_host_pages=3, enable_l3_storage=True)
    prompt = list(range(24))
    s.submit("seed", prompt[:9])
    s.rounds(2)
    s.finish("seed")
    hashes = s.scheduler.prefix_hashes_for_tokens(prompt)
    s.scheduler.register_storage_keys(*s.scheduler.expand_prefix_keys(hashes[2:3]))
    s.submit("B", 4)
    s.submit("A", prompt, 2)
    plan = s.round()
    # The boundary 12, which the closed group still reaches, cuts the second try: 4 + 4 tokens of 16.
    assert (plan.rows, plan.load) == ("B:P[0+4/4]@2 A:P[8+4/24]@3", None)
    s.tells(d.Chunk, request_id="A", tokens=12, bound_by="whole_prompt", budget_tokens=12)
    s.tells(d.Chunk, request_id="A", tokens=4, bound_by="promotion", promotion_tokens=12)
    assert s.round().rows == "A:P[12+12/24]@3"
    s.answers("I41", (3, 12, 8, 8), (3, 8, 8, 8))
