"""The connection between two nodes: frames, its end, a peer that says nothing; and what nodes are told first."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import threading
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch", reason="the executor needs torch: pip install 'tsviz[executor]'")

from tests.executor.conftest import tsviz
from tests.executor.test_two_processes import COMMON, SHORT, free_port
from tsviz.executor.fast import fast_model
from tsviz.executor.greeting import OtherPeer, facts_of, hear, say
from tsviz.executor.meeting import connect, listen
from tsviz.executor.model import Model
from tsviz.executor.shape import PRESETS
from tsviz.executor.sizing import PoolOptions, size_pool
from tsviz.executor.weights import seeded_weights
from tsviz.executor.wire import Wire, wire_pair


def framed(head: bytes, body_bytes: int = 0) -> bytes:
    """A frame's bytes, but for its body."""
    return struct.pack("<II", len(head), body_bytes) + head


@pytest.fixture
def raw() -> Iterator[tuple[socket.socket, Wire]]:
    """A wire, and the bare other end."""
    bare, ours = socket.socketpair()
    bare.settimeout(20)
    wire = Wire(ours)
    yield bare, wire
    bare.close()
    wire.close()


def ended(wire: Wire) -> str:
    """Why a wire was lost, once its reader has ended."""
    wire._threads[0].join(timeout=20)
    assert wire.lost is not None
    return wire.lost


NO_FRAMES = {
    "noise": b"\xff" * 64,
    "no JSON": framed(b"{nonsense}"),
    "no text": framed(b"\xff\xfe\xfd"),
    "no object": framed(b"[1, 2]"),
    "a number without end": framed(b'{"room": ' + b"9" * 5000 + b"}"),
    "nested without end": framed(b"[" * 100_000),
    "a body beyond all bounds": framed(b"{}", 0xFFFFFFFF),
    "a web server": b"HTTP/1.1 404 Not Found\r\n\r\n",
}


@pytest.mark.parametrize("sent", NO_FRAMES.values(), ids=NO_FRAMES)
def test_what_is_no_frame_ends_the_connection_and_the_peer_is_told(sent, raw) -> None:
    """A head that is no object, or a size beyond the bounds, ends it; the last thing that the peer hears is why."""
    bare, wire = raw
    bare.sendall(sent)
    heard = b""
    while part := bare.recv(1 << 16):
        heard += part
    bare.close()
    assert ended(wire).startswith("what came is no frame: ")
    said = json.loads(heard[8:])
    assert (said["kind"], said["why"]) == ("bye", wire.lost)


def test_the_other_end_says_why_it_was_ended() -> None:
    """Who ends a connection over what came says so to the other one."""
    ours, theirs = wire_pair()
    ours.end("for a reason")
    assert ended(theirs) == "the peer says: for a reason"
    theirs.close()
    ours.close()


def test_an_orderly_end_is_told_from_a_lost_connection(raw) -> None:
    """A peer that closes says that its run ended; one that is killed says nothing. What came before is there."""
    ours, theirs = wire_pair()
    theirs.send({"kind": "status", "room": "a"})
    theirs.close()
    assert ended(ours) == "the peer's run ended"
    assert [frame.head for frame in ours.frames] == [{"kind": "status", "room": "a"}]
    ours.close()
    bare, wire = raw
    bare.close()
    assert ended(wire) == "the peer closed the connection"


def test_a_silent_peer_is_lost_and_one_with_nothing_to_say_is_not() -> None:
    """Beats are enough to be heard of; without them a connection ends after the time that was given."""
    bare, silent = socket.socketpair()
    lost = Wire(silent, beat_s=60, silence_s=0.1)
    assert ended(lost) == "the peer said nothing for 0.1 s"
    assert bare.recv(1) == b""
    a, b = socket.socketpair()
    kept, beating = Wire(a, beat_s=60, silence_s=60), Wire(b, beat_s=0.001, silence_s=60)
    beats = threading.Event()
    kept._take = lambda frame: beats.set() if frame.head == {"kind": "beat"} else None  # type: ignore[method-assign]
    assert beats.wait(20)
    assert kept.lost is None
    for end in (bare, lost, kept, beating):
        end.close()


def test_a_peer_that_takes_nothing_is_lost() -> None:
    """A connection whose other end reads nothing is given up once its buffers have been full for long enough."""
    bare, ours = socket.socketpair()
    wire = Wire(ours, beat_s=60, silence_s=0.2)
    wire.send({"kind": "page", "room": "a"}, bytes(1 << 24))
    wire._threads[1].join(timeout=20)
    assert wire.lost in ("the peer took nothing for 0.2 s", "the peer said nothing for 0.2 s")
    bare.close()
    wire.close()


TINY = PRESETS["tiny"]
MODEL = Model(TINY, seeded_weights(TINY, 1))


def facts(model: Model = MODEL, draft: Model | None = None, **pool: int):
    """What a node of a small model is."""
    element_bytes = model.weights.embed.element_size()
    return facts_of(
        size_pool(model.shape, PoolOptions(**pool), parents=9, host_parents=0, element_bytes=element_bytes),
        model,
        draft,
    )


OTHERS = {
    "weights": facts(Model(TINY, seeded_weights(TINY, 2))),
    "dtype float32 here, float64 there": facts(Model(TINY, seeded_weights(TINY, 1, torch.float64))),
    "mode exact here, fast there": facts(fast_model(MODEL)),
    "prefix page 8 here, 16 there; layout differs": facts(prefix_granularity=16),
    "width 1 here, 3 there": facts(decode_input_tokens=3),
    "draft": facts(draft=MODEL),
    "layers FF here, FS there": facts(Model(PRESETS["tiny-sliding"], seeded_weights(PRESETS["tiny-sliding"], 1))),
    "model differs": facts(replace(MODEL, shape=replace(TINY, rope_theta=1.0))),
}


@pytest.mark.parametrize("name", OTHERS)
def test_nodes_that_are_not_alike_say_on_both_sides_what_differs(name) -> None:
    """Other weights, formats, kernels, pages or widths are refused by name before anything is computed."""
    ours, theirs = wire_pair()
    say(ours, facts(), 64)
    say(theirs, OTHERS[name], 64)
    with pytest.raises(OtherPeer, match=name):
        hear(ours, facts())
    with pytest.raises(OtherPeer, match=name.split()[0]):
        hear(theirs, OTHERS[name])
    for wire in (ours, theirs):
        wire.close()


def test_nodes_that_are_alike_go_on() -> None:
    """Size of the pool, overlap and chunk are each node's own; each learns how long a request may be on the other."""
    ours, theirs = wire_pair()
    say(ours, facts(max_batch_size=7, overlap_schedule_depth=1, max_scheduled_tokens=64), 64)
    assert hear(theirs, facts()) == 64
    for wire in (ours, theirs):
        wire.close()


def test_a_peer_that_says_something_else_or_nothing_is_no_peer() -> None:
    """A hello comes first: another frame, one without facts, an end or no word at all are told apart."""
    for said, told in (({"kind": "status", "room": "a"}, "found 'status'"), ({"kind": "hello"}, "expected a hello")):
        ours, theirs = wire_pair()
        theirs.send(said)
        with pytest.raises(OtherPeer, match=told):
            hear(ours, facts())
        assert ended(theirs) == "the peer says: expected a hello first"
        for wire in (ours, theirs):
            wire.close()
    for most_tokens in (None, 0, True, "64"):
        ours, theirs = wire_pair()
        theirs.send({"kind": "hello", "facts": facts(), "most_tokens": most_tokens})
        with pytest.raises(OtherPeer, match="most_tokens: expected a number from 1 on"):
            hear(ours, facts())
        for wire in (ours, theirs):
            wire.close()
    ours, theirs = wire_pair()
    with pytest.raises(OtherPeer, match="did not say what it is within 0 s"):
        hear(ours, facts(), patience_s=0)
    theirs.close()
    with pytest.raises(OtherPeer, match="gone before it said what it is: the peer's run ended"):
        hear(ours, facts())
    ours.close()


@pytest.mark.parametrize("node", ["P", "D"])
def test_a_node_that_finds_another_peer_says_so_and_writes_nothing(node, tmp_path, capsys) -> None:
    """The command ends as wrongly used, names what differs, and leaves no trace behind."""
    port = free_port()
    peer = threading.Thread(target=_other_peer, args=(node, port), daemon=True)
    peer.start()
    code = tsviz(*COMMON, "--workload", SHORT, "--node", node, "--peer", f"127.0.0.1:{port}", "--out", tmp_path / "run")
    peer.join(timeout=20)
    assert code == 2
    said = capsys.readouterr().err
    assert "the peer is another one: layers FSM here, FF there" in said
    assert "give both nodes the same options" in said
    assert not (tmp_path / "run").exists()


def _other_peer(node: str, port: int) -> None:
    wire = connect("127.0.0.1", port) if node == "P" else listen("127.0.0.1", port)
    say(wire, facts(), 64)
    with contextlib.suppress(OtherPeer):
        hear(wire, facts())
    wire.close()


@pytest.mark.parametrize("peer", ["foo", ":1", "h:", "h:0", "h:65536", "h:²", "h:-1", "h:" + "9" * 5000])
def test_a_peer_that_is_no_address_is_refused_before_anything_is_written(peer, tmp_path, capsys) -> None:
    """The command says what it expected and leaves no trace behind."""
    assert tsviz(*COMMON, "--workload", SHORT, "--node", "D", "--peer", peer, "--out", tmp_path / "run") == 2
    assert "--peer: expected HOST:PORT with a port from 1 to 65535" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_peer_that_is_not_there_is_said_and_nothing_is_written(tmp_path, capsys, monkeypatch) -> None:
    """A prefill node that nobody connects to, and a decode node without one, end in a sentence."""
    monkeypatch.setattr("tsviz.executor.meeting.CONNECT_SECONDS", 0.05)
    for node, told in (("P", "nobody connected within 0 s"), ("D", "nobody listened within 0 s")):
        where = ("--node", node, "--peer", f"127.0.0.1:{free_port()}", "--out", tmp_path / "run")
        assert tsviz(*COMMON, "--workload", SHORT, *where) == 2
        assert told in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def _dial(port: int) -> socket.socket:
    """Connect to who listens, or soon will."""
    while True:
        with contextlib.suppress(ConnectionRefusedError):
            return socket.create_connection(("127.0.0.1", port), timeout=20)
        time.sleep(0.005)


def test_who_is_no_node_is_sent_away_and_the_peer_still_waited_for() -> None:
    """A web client gets an answer that says what this is, one hangs up, one speaks TLS; then the peer is taken."""
    port, told, wires = free_port(), list[str](), list[Wire]()
    node = threading.Thread(target=lambda: wires.append(listen("127.0.0.1", port, told.append)), daemon=True)
    node.start()
    with _dial(port) as web:
        web.sendall(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n")
        answer = b"".join(iter(lambda: web.recv(4096), b""))
    assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert b"It speaks to the other node of its pair" in answer
    _dial(port).close()
    with _dial(port) as tls:
        tls.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01")
        with contextlib.suppress(ConnectionResetError):  # of what it said nothing was read
            assert tls.recv(1) == b""
    for said in (b"\r\n", bytes(64)):
        with _dial(port) as stranger:
            stranger.sendall(said)
            with contextlib.suppress(OSError):  # it may have been sent away by now
                stranger.shutdown(socket.SHUT_WR)
                assert stranger.recv(1) == b""
    peer = connect("127.0.0.1", port)
    say(peer, facts(), 64)
    node.join(timeout=20)
    assert hear(wires[0], facts()) == 64
    assert told == [
        f"127.0.0.1 {did}" for did in ("speaks HTTP", "hung up", "speaks TLS", "hung up", "said what no node says")
    ]
    for wire in (peer, *wires):
        wire.close()


def test_a_web_server_at_the_other_end_is_named(raw) -> None:
    """What begins as an answer of HTTP is said to be that, not a frame of half a gigabyte."""
    bare, wire = raw
    bare.sendall(b"HTTP/1.1 404 Not Found\r\n\r\n")
    bare.shutdown(socket.SHUT_WR)
    assert ended(wire) == "what came is no frame: it is HTTP; expected another node"
