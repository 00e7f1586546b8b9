"""Frames between the two nodes of a pair: a small JSON head and bytes, over a stream socket.

A sender and a reader thread, so that the control thread never waits for the peer. Frames come from outside: what is no
frame ends the connection, and the peer is told why. Where there is nothing to send a beat goes out, so that a peer that
has stopped, or a network that is gone, is told from one that has nothing to say (`executor-rules.md` section 5).
"""

from __future__ import annotations

import contextlib
import json
import queue
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

_HEAD = struct.Struct("<II")
HEAD_BYTES = _HEAD.size
"""What a frame begins with: how long its head and its body are."""
_MOST_HEAD_BYTES = 1 << 20
_MOST_BODY_BYTES = 1 << 30
_MOST_WHY = 200
_JOIN_SECONDS = 30.0


_OTHERS = {
    b"\x16\x03": "TLS",
    **dict.fromkeys((b"GET ", b"HEAD", b"POST", b"PUT ", b"PATC", b"DELE", b"OPTI", b"CONN", b"HTTP"), "HTTP"),
    b"SSH-": "SSH",
}
"""What others say first."""


class Frame(NamedTuple):
    """One message: what it says, and the bytes that come with it."""

    head: dict[str, Any]
    body: bytes


class Wire:
    """One connection. `frames` holds what has come, `lost` why nothing more will; `on_news` is called behind either.

    Whoever asks for both reads `lost` first: frames that came before the end are there once it is set.
    """

    def __init__(self, connection: socket.socket, *, beat_s: float = 5.0, silence_s: float = 30.0) -> None:
        """After `beat_s` without a frame a beat goes out; a peer that says or takes nothing for `silence_s` is lost."""
        connection.settimeout(silence_s)
        self._socket, self._beat_s, self._silence_s = connection, beat_s, silence_s
        self.frames: deque[Frame] = deque()
        self.lost: str | None = None
        self.on_news: Callable[[], None] = _nobody_waits
        self.most_body_bytes = _MOST_BODY_BYTES
        self._outbox: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._read, name="tsviz-wire-in", daemon=True),
            threading.Thread(target=self._write, name="tsviz-wire-out", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def send(self, head: dict[str, Any], body: bytes = b"") -> None:
        """Queue a frame. Never blocks; after a loss it goes nowhere."""
        self._outbox.put(_packed(head, body))

    def end(self, why: str) -> None:
        """End the connection over what the peer did, and tell it."""
        self._set_lost(why)
        self.send({"kind": "bye", "why": why})
        self._outbox.put(None)

    def close(self) -> None:
        """Send what is queued and that this is all, then close and join."""
        self.send({"kind": "bye"})
        self._outbox.put(None)
        self._threads[1].join(timeout=_JOIN_SECONDS)
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._threads[0].join(timeout=_JOIN_SECONDS)

    def _read(self) -> None:
        try:
            while self.lost is None:
                self._take(self._frame())
        except TimeoutError:
            self._lose(f"the peer said nothing for {self._silence_s:g} s")
        except EOFError as error:
            self._lose(str(error))
        except OSError as error:
            self._lose(error.strerror or str(error))
        except (ValueError, RecursionError) as error:
            self.end(f"what came is no frame: {error}"[:_MOST_WHY])
        # What nobody reads would let the kernel drop, with our socket, the words that say why.
        with contextlib.suppress(OSError):
            while self._socket.recv(1 << 20):
                pass

    def _take(self, frame: Frame) -> None:
        if frame.head.get("kind") == "bye":
            why = frame.head.get("why")
            self._set_lost("the peer's run ended" if why is None else f"the peer says: {str(why)[:_MOST_WHY]}")
        elif frame.head.get("kind") != "beat":
            self.frames.append(frame)
            self.on_news()

    def _frame(self) -> Frame:
        head_bytes, body_bytes = _HEAD.unpack(self._exactly(_HEAD.size))
        if (other := other_protocol(_HEAD.pack(head_bytes, body_bytes))) is not None:
            raise ValueError(f"it is {other}; expected another node")
        if head_bytes > _MOST_HEAD_BYTES or body_bytes > self.most_body_bytes:
            raise ValueError(
                f"expected a head of at most {_MOST_HEAD_BYTES:,} and a body of at most {self.most_body_bytes:,} bytes,"
                f" found {head_bytes:,} and {body_bytes:,}"
            )
        head = json.loads(self._exactly(head_bytes))
        if not isinstance(head, dict):
            raise ValueError("expected an object as its head")
        return Frame(head, self._exactly(body_bytes))

    def _write(self) -> None:
        try:
            while (data := self._next_out()) is not None:
                self._socket.sendall(data)
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_WR)
        except TimeoutError:
            self._lose(f"the peer took nothing for {self._silence_s:g} s")
        except OSError:
            pass  # The reader sees the end too, behind what came before it.

    def _set_lost(self, why: str) -> None:
        self.lost = self.lost or why
        self.on_news()

    def _lose(self, why: str) -> None:
        self._set_lost(why)
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def _next_out(self) -> bytes | None:
        try:
            return self._outbox.get(timeout=self._beat_s)
        except queue.Empty:
            return _packed({"kind": "beat"}, b"")

    def _exactly(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            part = self._socket.recv(min(1 << 20, size - len(parts)))
            if not part:
                raise EOFError("the peer closed the connection")
            parts += part
        return bytes(parts)


def _nobody_waits() -> None:
    """No run has begun that news would wake."""


def wire_pair() -> tuple[Wire, Wire]:
    """Return both ends of a connection within this process."""
    a, b = socket.socketpair()
    return Wire(a), Wire(b)


def is_head(said: bytes) -> bool:
    """Return whether these first bytes may be a frame's head."""
    return len(said) == HEAD_BYTES and 0 < _HEAD.unpack(said)[0] <= _MOST_HEAD_BYTES


def other_protocol(said: bytes) -> str | None:
    """Return the name of another protocol that begins so; None where it may be ours."""
    return next((name for begin, name in _OTHERS.items() if said.startswith(begin)), None)


def _packed(head: dict[str, Any], body: bytes) -> bytes:
    text = json.dumps(head).encode()
    return _HEAD.pack(len(text), len(body)) + text + body
