"""What the nodes of a pair say to each other about a room, read from frames that anybody may have written.

Read here: is it well formed? Whether it is true (a page that was asked for, a prompt that is ours) whoever takes it
knows. `RoomFails` concerns the room that a frame names; a frame that names none is no frame of this protocol.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tsviz.executor.manifest import Manifest
from tsviz.executor.refusal import RoomFails, Why
from tsviz.executor.wire import Frame

BROKEN = "the peer broke the protocol"
"""Kind of reason for whatever a peer should not have said."""
_MOST_ROOM_CHARACTERS = 4096


class NoRoom(ValueError):
    """A frame that belongs to no room; the message says what was expected and what was found."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The room failed on the other node."""

    why: Why


@dataclass(frozen=True, slots=True)
class Page:
    """A block's bytes, or one layer's of them (None is all), for position `index` of a group in the manifest."""

    group: str
    index: int
    layer: int | None
    crc: int
    body: bytes


@dataclass(frozen=True, slots=True)
class Status:
    """What P's forward said behind the prompt: a token, and candidates for the window that it begins."""

    token: int
    candidates: tuple[int, ...]


Message = Failed | Manifest | Page | Status


def room_of(frame: Frame) -> str:
    """Return which room a frame is for. Raises NoRoom."""
    room = frame.head.get("room")
    if not isinstance(room, str) or not 0 < len(room) <= _MOST_ROOM_CHARACTERS:
        raise NoRoom(f"expected a frame with the name of a room, found {_shown(frame.head)}")
    return room


def message_of(frame: Frame) -> Message:
    """Return what a frame says. Raises RoomFails."""
    head, kind = frame.head, frame.head.get("kind")
    if kind == "page":
        layer = None if head.get("layer") is None else _number(head, "layer")
        return Page(_text(head, "group"), _number(head, "index"), layer, _number(head, "crc"), frame.body)
    if frame.body:
        raise RoomFails(BROKEN, f"expected no bytes with {_shown(kind)}, found {len(frame.body):,}")
    if kind == "failed":
        return Failed(Why.heard(_text(head, "why"), _text(head, "detail")))
    if kind == "status":
        return Status(_number(head, "token"), _numbers(head, "candidates"))
    if kind == "manifest":
        pages = head.get("pages")
        if not isinstance(pages, dict):
            raise RoomFails(BROKEN, f"pages: expected an object, found {_shown(pages)}")
        return Manifest(
            room_of(frame), _number(head, "prefix"), _number(head, "prompt"), _number(head, "prompt_crc"),
            {name: _numbers(pages, name) for name in pages},
        )  # fmt: skip
    raise RoomFails(BROKEN, f"kind: expected failed, manifest, page or status, found {_shown(kind)}")


def _text(head: Mapping[str, Any], name: str) -> str:
    value = head.get(name)
    if not isinstance(value, str):
        raise RoomFails(BROKEN, f"{name}: expected text, found {_shown(value)}")
    return value


def _number(head: Mapping[str, Any], name: str) -> int:
    return _checked(name, head.get(name))


def _numbers(head: Mapping[str, Any], name: str) -> tuple[int, ...]:
    values = head.get(name)
    if not isinstance(values, list):
        raise RoomFails(BROKEN, f"{name}: expected a list, found {_shown(values)}")
    return tuple(_checked(name, value) for value in values)


def _checked(name: str, value: object) -> int:
    if type(value) is not int or not 0 <= value < 1 << 32:  # a bool is an int to isinstance
        raise RoomFails(BROKEN, f"{name}: expected a number from 0 to 4,294,967,295, found {_shown(value)}")
    return value


def _shown(value: object) -> str:
    try:
        return repr(value)[:60]
    except ValueError:  # an int of more digits than the interpreter writes
        return "a number beyond all bounds"
