"""How the nodes of a pair find each other: one listens, the other one connects (`executor-rules.md` section 5)."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable

from tsviz.executor.wire import HEAD_BYTES, Wire, other_protocol

CONNECT_SECONDS = 30.0
"""How long a node waits for the other one to be there."""
_SILENT_SECONDS = 5.0
"""How long who has connected may say nothing before it is taken for a peer that is slow."""
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
    connection.settimeout(_SILENT_SECONDS)
    try:
        said = connection.recv(HEAD_BYTES, socket.MSG_PEEK)
    except TimeoutError:
        return None
    except OSError:
        said = b""
    other = other_protocol(said)
    if said and other is None:
        return None
    with connection, contextlib.suppress(OSError):
        if other == "HTTP":
            connection.sendall(_TO_HTTP)
            connection.shutdown(socket.SHUT_WR)
            connection.recv(1 << 16)  # what is not read would have the kernel drop the answer
    return "hung up" if other is None else f"speaks {other}"


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
