"""Worked examples about hashes, keys and KV events: cache-rules E1 and E17, scheduler-rules 10.4."""

from __future__ import annotations

import hashlib
import struct
from types import ModuleType

import pytest

from tests.conformance.calls import perform
from tests.conformance.notation import Drive, full

_FIRST = "65a73aeec7de373d87d0bb665fb1b7e9c490f83287b644f3ea58f3eea1ee271f"
_SECOND = "9f99734c64c898db6698530d61968eeba422fe1f4f044203644087f9ec65e01c"


def _chain(tokens: list[int], page: int) -> list[str]:
    """The prefix chain by the text of cache-rules 3."""
    digest, hashes = b"", []
    for start in range(0, max(len(tokens) - 1, 0) // page * page, page):
        words = struct.pack(f"<{page}i", *tokens[start : start + page])
        framed = struct.pack("<I", len(digest)) + digest + struct.pack("<I", page) + words
        digest = hashlib.sha256(framed).digest()
        hashes.append(digest.hex())
    return hashes


def test_e1_hashing(module: ModuleType) -> None:
    """The last token is never part of a candidate page, so nine tokens make two pages and eight make one."""
    drive = Drive(module, [full(4)], page=4, pages=9)
    own = drive.scheduler
    assert own.prefix_hashes_for_tokens(list(range(1, 10))) == [_FIRST, _SECOND]
    assert own.prefix_hashes_for_tokens(list(range(1, 9))) == [_FIRST]
    assert own.prefix_hashes_for_tokens([]) == []
    assert _chain(list(range(1, 10)), 4) == [_FIRST, _SECOND]


def test_hashes_of_negative_tokens(module: ModuleType) -> None:
    """Negative ids enter by two's complement."""
    tokens = [-1, -2, 7, -(2**31), 5]
    own = Drive(module, [full(4)], page=4, pages=9).scheduler
    assert own.prefix_hashes_for_tokens(tokens) == _chain(tokens, 4)


def test_e1_keys(module: ModuleType) -> None:
    """Keys are ordered by group, then hash, then offset."""
    groups = [full(4, "a"), full(2, "b"), full(1, "c")]
    own = Drive(module, groups, page=4, pages=9).scheduler
    groups_of, hashes, offsets = own.expand_prefix_keys(["h", "k"])
    assert list(groups_of) == [0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2]
    assert list(hashes) == list("hkhhkkhhhhkkkk")
    assert list(offsets) == [0, 0, 0, 1, 0, 1, 0, 1, 2, 3, 0, 1, 2, 3]


def _drained(drive: Drive) -> list[tuple[str, int]]:
    events = perform(drive.module, drive.scheduler, ("drain_kv_events",))
    return [(event["kind"], event["block_hashes"][0]) for event in events]


def test_e17_events(module: ModuleType) -> None:
    """Pages are announced when published, deepest first when they go, and a second drain is silent."""
    drive = Drive(module, [full(4)], page=4, pages=6, enable_kv_cache_events=True)
    drive.submit("a", list(range(1, 10)))
    drive.plan()
    assert _drained(drive) == []
    drive.result("a", 50)
    drive.plan()
    stored = perform(module, drive.scheduler, ("drain_kv_events",))
    assert stored == [
        {
            "kind": "BlockStored",
            "block_hashes": [15932823548972441343],
            "parent_block_hash": None,
            "token_ids": [1, 2, 3, 4],
            "block_size": 4,
        },
        {
            "kind": "BlockStored",
            "block_hashes": [12482753192408519678],
            "parent_block_hash": 15932823548972441343,
            "token_ids": [5, 6, 7, 8],
            "block_size": 4,
        },
    ]
    assert _drained(drive) == []
    drive.finish("a")
    drive.plan()
    drive.submit("b", list(range(101, 114)))
    assert drive.plan().table("b") == [4, 5, 3, 2]
    assert _drained(drive) == [("BlockRemoved", 12482753192408519678)]
    drive.abort("b")
    assert drive.scheduler.clear_l1_cache() is True
    assert _drained(drive) == [("BlockRemoved", 15932823548972441343)]


@pytest.mark.parametrize(
    ("tokens", "hashes"),
    [([1, 2], [15057981579580773918]), ([1, 2, 3, 4], [15057981579580773918, 1701542150546744594])],
)
def test_10_4_event_hashes(module: ModuleType, tokens: list[int], hashes: list[int]) -> None:
    """The external hash of a page is FNV-1a over parent, count and tokens."""
    drive = Drive(module, [full(2)], page=2, pages=9, enable_kv_cache_events=True)
    drive.serve("a", [*tokens, 9])
    assert [value for _, value in _drained(drive)][: len(hashes)] == hashes
