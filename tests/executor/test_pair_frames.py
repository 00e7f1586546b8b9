"""What a peer should not say: it fails the room that it names, with a reason, and nothing else."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="the executor needs torch: pip install 'tsviz[executor]'")

from tests.executor.pairs import Pair, run_pair
from tests.executor.rig import request
from tsviz.engine.configs import Role
from tsviz.engine.summary import EndReason
from tsviz.executor.peer import PeerTimeouts
from tsviz.executor.wire import Frame

torch.set_num_threads(1)
Change = dict[str, Any]
GONE = object()
"""A field that is left out."""


def changed(kind: str, change: Change, body: bytes | None = None) -> Callable[[Frame], list[Frame]]:
    """Say of a frame of a kind something else."""

    def forge(frame: Frame) -> list[Frame]:
        if frame.head["kind"] != kind:
            return [frame]
        head = {name: value for name, value in (frame.head | change).items() if value is not GONE}
        return [Frame(head, frame.body if body is None else body)]

    return forge


def twice(kind: str) -> Callable[[Frame], list[Frame]]:
    """Say what is of a kind a second time."""
    return lambda frame: [frame, frame] if frame.head["kind"] == kind else [frame]


def layer_behind(frame: Frame) -> list[Frame]:
    """Send one layer of a block that has come whole."""
    if frame.head["kind"] != "page":
        return [frame]
    half = frame.body[: len(frame.body) // 2]
    return [frame, Frame(frame.head | {"layer": 0, "crc": zlib.crc32(half)}, half)]


MANIFEST = {"kind": "manifest", "prefix": 0, "prompt": 9, "prompt_crc": 0, "pages": {}}
AT_D = {
    "no token": (changed("status", {"token": GONE}), "token: expected a number"),
    "a token beyond the vocabulary": (changed("status", {"token": 97}), "token: expected less than 97"),
    "a negative token": (changed("status", {"token": -1}), "token: expected a number"),
    "a token that is true": (changed("status", {"token": True}), "token: expected a number"),
    "a candidate too many": (changed("status", {"candidates": [1, 2, 3]}), "candidates: expected 1"),
    "candidates that are no list": (changed("status", {"candidates": {}}), "candidates: expected a list"),
    "two statuses": (twice("status"), "has come"),
    "a page twice": (twice("page"), "it has come"),
    "a layer of a block that came": (layer_behind, "it has come"),
    "another checksum": (changed("page", {"crc": 1}), "another checksum"),
    "half a page": (changed("page", {"crc": zlib.crc32(b"abc")}, b"abc"), "bytes, found 3"),
    "no such layer": (changed("page", {"layer": 99}), "expected 0 bytes"),
    "no such group": (changed("page", {"group": "x"}), "not asked for"),
    "no such page": (changed("page", {"index": 1 << 20}), "not asked for"),
    "an endless index": (changed("page", {"index": 10**400}), "index: expected a number"),
    "bytes with a status": (changed("status", {}, b"abc"), "expected no bytes"),
    "an unknown kind": (changed("status", {"kind": "what"}), "kind: expected"),
    "a manifest for a decode node": (changed("status", MANIFEST), "not for node D"),
}  # fmt: skip
AT_P = {
    "another length": (changed("manifest", {"prompt": 999_999}), "prompt: expected"),
    "another prompt": (changed("manifest", {"prompt_crc": 1}), "prompt_crc: expected"),
    "no groups": (changed("manifest", {"pages": {}}), "groups: expected"),
    "pages that are no object": (changed("manifest", {"pages": []}), "pages: expected an object"),
    "a page of text": (changed("manifest", {"pages": {"full": ["x"]}}), "full: expected a number"),
    "a block too few": (changed("manifest", {"pages": {"full": [1]}}), "full: expected 2 blocks"),
    "the null block": (changed("manifest", {"pages": {"full": [0, 1]}}), "full: expected 2 blocks"),
    "a prefix beyond the prompt": (changed("manifest", {"prefix": 16}), "prefix: expected"),
    "half a block of prefix": (changed("manifest", {"prefix": 3}), "prefix: expected"),
    "no prefix": (changed("manifest", {"prefix": GONE}), "prefix: expected a number"),
    "two manifests": (twice("manifest"), "not now"),
    "a status for a prefill node": (
        changed("manifest", {"kind": "status", "token": 1, "candidates": []}), "not now, or not for node P",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("role", "cases"), [(Role.D, AT_D), (Role.P, AT_P)], ids=["D", "P"])
def test_a_frame_that_is_not_true_fails_its_room_alone(role, cases) -> None:
    """Each of so many requests hears one thing that is wrong: it fails and says what; the two others are right."""
    requests = tuple(request(name, (i, 12), says=2) for i, name in enumerate((*cases, "well", "well too")))

    def hears(frame: Frame) -> list[Frame]:
        forge, _ = cases.get(frame.head["room"], (lambda f: [f], ""))
        return forge(frame)

    paired = run_pair(Pair(requests=requests, hears={role: hears}))
    assert paired.on_d.reason is EndReason.DRAINED, paired.on_d
    assert (paired.on_d.finished, paired.on_d.failed) == (2, len(cases))
    assert paired.equality.is_exact
    assert paired.is_freed
    whys = (paired.d if role is Role.D else paired.p).loop._remote.failures.whys
    told = {name: str(whys[name]) for name in cases}
    assert {name: why for name, why in told.items() if cases[name][1] not in why} == {}


JUNK = st.sampled_from((-1, 0, 1, 12, 1 << 31, 10**30, 1.5, "x", "full", None, True, [], [1, 2], {}, {"full": [1, 2]}))
FORGED = st.builds(
    lambda head, body: Frame({name: value for name, value in head.items() if value is not GONE}, body),
    st.fixed_dictionaries(
        {
            "kind": st.sampled_from(("manifest", "page", "status", "failed", "hello", "bye", 7, None, GONE)),
            "room": st.sampled_from(("a", "a", "nobody", "", 7, None, GONE)),
        },
        optional=dict.fromkeys(
            ("prefix", "prompt", "prompt_crc", "pages", "group", "index", "layer", "crc", "token", "candidates", "why",
             "detail"),
            JUNK,
        ),
    ),
    st.binary(max_size=3),
)  # fmt: skip


@settings(max_examples=30, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(role=st.sampled_from((Role.P, Role.D)), at=st.integers(0, 8), forged=st.lists(FORGED, min_size=1, max_size=4))
def test_made_up_frames_fail_the_room_that_they_name_or_end_the_connection(role, at, forged) -> None:
    """Whatever a node hears between true frames, both drain with everything freed; who was not named is right."""
    heard: list[Frame] = []

    def hears(frame: Frame) -> list[Frame]:
        heard.append(frame)
        return [*forged, frame] if len(heard) == at + 1 else [frame]

    requests = tuple(request(name, (i, 12), says=2) for i, name in enumerate("ab"))
    paired = run_pair(Pair(requests=requests, hears={role: hears}))
    assert (paired.on_d.reason, paired.on_p.reason) == (EndReason.DRAINED, EndReason.DRAINED)
    assert paired.on_d.finished + paired.on_d.failed == 2
    assert paired.is_freed
    assert paired.races == set()
    told = {frame.head.get("room") for frame in forged}
    if all(isinstance(room, str) and room for room in told):
        assert len(paired.d.device.said["b"]) == 2
    if not any(true_to_the_eye(frame) for frame in forged):
        assert paired.equality.is_exact


def true_to_the_eye(frame: Frame) -> bool:
    """Whether a status could be true: a peer that says another token than it computed is believed."""
    token = frame.head.get("token")
    return frame.head.get("kind") == "status" and type(token) is int and 0 <= token < 97


MS = 1_000_000


@pytest.mark.parametrize(
    ("role", "timeouts", "what"),
    [(Role.P, PeerTimeouts(bootstrap_ns=MS), "manifest"), (Role.D, PeerTimeouts(waiting_ns=MS), "pages")],
    ids=["P", "D"],
)
def test_a_peer_that_is_there_and_says_nothing_of_a_room_is_not_waited_for(role, timeouts, what) -> None:
    """The node that waits fails the request once its time is over, and says for what it waited."""
    paired = run_pair(Pair(requests=(request("a", (1, 12), says=2),), timeouts=timeouts, hears={role: lambda _: []}))
    waited = paired.d if role is Role.D else paired.p
    assert waited.loop._remote.failures.whys["a"].kind == f"the peer is connected and sent no {what} within 0.001 s"
    assert paired.on_p.finished + paired.on_p.failed == paired.on_d.failed == 1
    assert paired.is_freed


def test_a_peer_without_end_of_rooms_is_cut_off(monkeypatch) -> None:
    """A peer may open so many rooms of requests that are not here; one more ends the connection, and the run drains."""
    monkeypatch.setattr("tsviz.executor.peer.MOST_UNKNOWN_ROOMS", 5)

    def hears(frame: Frame) -> list[Frame]:
        return [replace_room(frame, f"{frame.head['room']}-{i}") for i in range(9)] + [frame]

    paired = run_pair(Pair(requests=(request("a", (1, 12), says=2),), hears={Role.P: hears}))
    assert (paired.on_p.failed, paired.on_d.failed) == (1, 1)
    assert paired.is_freed
    assert "more than 5 rooms" in paired.d.loop._remote.failures.told()[0]


def replace_room(frame: Frame, room: str) -> Frame:
    """The frame for another room."""
    return frame._replace(head=frame.head | {"room": room})
