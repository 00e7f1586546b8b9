"""Frames between the two nodes of a pair: a small JSON head and bytes, over a stream socket.

A sender and a reader thread, so that the control thread never waits for the peer. Frames come from outside: a head that
is too long, no JSON or not an object ends the connection.
"""

from __future__ import annotations

import contextlib
import json
import queue
import socket
import struct
import threading
import time
from collections import deque
from typing import Any, NamedTuple

_HEAD = struct.Struct("<II")
_MOST_HEAD_BYTES = 1 << 20
_MOST_BODY_BYTES = 1 << 30
_CONNECT_SECONDS = 30.0


class Frame(NamedTuple):
    """One message: what it says, and the bytes that come with it."""

    head: dict[str, Any]
    body: bytes


class Wire:
    """One connection; `frames` holds what has come, `lost` why it ended."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self.frames: deque[Frame] = deque()
        self.lost: str | None = None
        self._outbox: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._read, name="tsviz-wire-in", daemon=True),
            threading.Thread(target=self._write, name="tsviz-wire-out", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def send(self, head: dict[str, Any], body: bytes = b"") -> None:
        """Queue a frame. Never blocks; after a loss it goes nowhere."""
        text = json.dumps(head).encode()
        self._outbox.put(_HEAD.pack(len(text), len(body)) + text + body)

    def close(self) -> None:
        """Send what is queued, then close and join."""
        self._outbox.put(None)
        self._threads[1].join(timeout=_CONNECT_SECONDS)
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._threads[0].join(timeout=_CONNECT_SECONDS)

    def _read(self) -> None:
        try:
            while True:
                head_bytes, body_bytes = _HEAD.unpack(self._exactly(_HEAD.size))
                if head_bytes > _MOST_HEAD_BYTES or body_bytes > _MOST_BODY_BYTES:
                    raise ValueError(f"a frame of {head_bytes} and {body_bytes} bytes")
                head = json.loads(self._exactly(head_bytes))
                if not isinstance(head, dict):
                    raise ValueError("a frame's head is no object")
                self.frames.append(Frame(head, self._exactly(body_bytes)))
        except (OSError, ValueError, EOFError) as error:
            self.lost = self.lost or str(error) or "closed"

    def _write(self) -> None:
        try:
            while (data := self._outbox.get()) is not None:
                self._socket.sendall(data)
        except OSError as error:
            self.lost = self.lost or str(error)

    def _exactly(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            part = self._socket.recv(min(1 << 20, size - len(parts)))
            if not part:
                raise EOFError("the peer closed the connection")
            parts += part
        return bytes(parts)


def wire_pair() -> tuple[Wire, Wire]:
    """Return both ends of a connection within this process."""
    a, b = socket.socketpair()
    return Wire(a), Wire(b)


def listen(host: str, port: int) -> Wire:
    """Wait for the peer to connect. Raises OSError."""
    with socket.create_server((host, port)) as server:
        server.settimeout(_CONNECT_SECONDS)
        connection, _ = server.accept()
    connection.settimeout(None)
    return Wire(connection)


def connect(host: str, port: int) -> Wire:
    """Connect to a peer that listens, or soon will. Raises OSError."""
    until = time.monotonic() + _CONNECT_SECONDS
    while True:
        try:
            return Wire(_connected(host, port))
        except ConnectionRefusedError:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)


def _connected(host: str, port: int) -> socket.socket:
    connection = socket.create_connection((host, port), timeout=_CONNECT_SECONDS)
    connection.settimeout(None)
    return connection
