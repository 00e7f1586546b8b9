"""How the nodes of a pair find each other: one listens, the other one connects (`executor-rules.md` section 5)."""

from __future__ import annotations

import contextlib
import select
import socket
import time
from collections.abc import Callable

from tsviz.executor.wire import HEAD_BYTES, Wire, is_head, other_protocol

CONNECT_SECONDS = 30.0
"""How long a node waits for the other one to be there."""
_SILENT_SECONDS = 10.0
"""How long who has connected may take to say as much as a peer says at once; the peer itself may come behind it."""
_CLOSED = getattr(select, "POLLRDHUP", 0) | select.POLLHUP | select.POLLERR
_TO_HTTP = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n"
    b"This is `tsviz record --node P`. It speaks to the other node of its pair, `tsviz record --node D`, and no HTTP.\n"
)


def listen(host: str, port: int, on_other: Callable[[str], None] | None = None) -> Wire:
    """Wait for the peer to connect; who hangs up or speaks something else is sent away and told of. Raises OSError."""
    until = time.monotonic() + CONNECT_SECONDS
    with socket.create_server((host, port)) as server:
        while True:
            server.settimeout(max(0.001, until - time.monotonic()))
            connection, address = server.accept()
            if (other := _first_words(connection)) is None:
                return Wire(connection)
            if on_other is not None:
                on_other(f"{address[0]} {other}")


def _first_words(connection: socket.socket) -> str | None:
    """Return what another one than a peer did who has connected, and send it away; None for what may be a peer."""
    said, gone = _peeked(connection)
    other = other_protocol(said)
    if other is None and is_head(said):
        connection.settimeout(None)
        return None
    with connection, contextlib.suppress(OSError):
        if other == "HTTP":
            connection.sendall(_TO_HTTP)
            connection.shutdown(socket.SHUT_WR)
            connection.recv(1 << 16)  # what is not read would have the kernel drop the answer
    if other is not None:
        return f"speaks {other}"
    if len(said) == HEAD_BYTES:
        return "said what no node says"
    return "hung up" if gone else f"said {len(said)} bytes in {_SILENT_SECONDS:g} s"


def _peeked(connection: socket.socket) -> tuple[bytes, bool]:
    """Return as many first bytes as a frame's head has, or as come in time, and whether it hung up before."""
    until, said = time.monotonic() + _SILENT_SECONDS, b""
    try:
        while len(said) < HEAD_BYTES and other_protocol(said) is None and (left := until - time.monotonic()) > 0:
            connection.settimeout(left)
            more = connection.recv(HEAD_BYTES, socket.MSG_PEEK)
            if more == said:
                if _is_gone(connection):
                    return said, True
                time.sleep(0.05)  # a peek does not wait for more than there is
            said = more
    except TimeoutError:
        return said, False
    except OSError:
        return said, True
    return said, False


def _is_gone(connection: socket.socket) -> bool:
    """Return whether the other end has closed: beyond what it said nothing will come."""
    poll = select.poll()
    poll.register(connection, _CLOSED)
    return bool(poll.poll(0))


def connect(host: str, port: int) -> Wire:
    """Connect to a peer that listens, or soon will. Raises OSError."""
    until = time.monotonic() + CONNECT_SECONDS
    while True:
        try:
            return Wire(socket.create_connection((host, port), timeout=CONNECT_SECONDS))
        except ConnectionRefusedError:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)
