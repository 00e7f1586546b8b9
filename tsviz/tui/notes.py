"""Notes and bookmarks of the user: a position and a few words, kept in their state folder (never in the bundle)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from tsviz.tui import keep


@dataclass(frozen=True, slots=True)
class Note:
    """A place and what was said of it; a bookmark says nothing."""

    round: int
    stop: int | None = None
    text: str = ""
    request: str = ""

    @property
    def position(self) -> str:
        """`1204` or `1204.3`."""
        return f"{self.round}" if self.stop is None else f"{self.round}.{self.stop}"


class Notes:
    """All notes of a trace, in order of place."""

    def __init__(self, key: str) -> None:
        self._path = keep.of_trace(key, "notes") if key else None
        self.problem = ""
        """Why they could not be read or written, in words."""
        self.all: list[Note] = self._read()

    def _read(self) -> list[Note]:
        found = None if self._path is None else keep.read(self._path)
        if isinstance(found, keep.NotKept):
            self.problem, self._path = found.unread("notes are"), None
            return []
        return sorted(filter(None, map(_note, found if isinstance(found, list) else [])), key=_place)

    def at(self, round_: int, stop: int | None) -> Note | None:
        """Return the note at a place."""
        return next((note for note in self.all if (note.round, note.stop) == (round_, stop)), None)

    def put(self, note: Note) -> None:
        """Note something at a place, in the place of what was noted there."""
        self.all = [old for old in self.all if (old.round, old.stop) != (note.round, note.stop)]
        self.all.append(note)
        self.all.sort(key=_place)
        self._write()

    def remove(self, note: Note) -> None:
        """Forget one."""
        self.all.remove(note)
        self._write()

    def _write(self) -> None:
        if self._path is not None:
            failed = keep.write(self._path, [asdict(note) for note in self.all])
            self.problem = "" if failed is None else f"Notes are not kept: {failed.reason}"


def _place(note: Note) -> tuple[int, int]:
    return note.round, -1 if note.stop is None else note.stop


def _note(entry: Any) -> Note | None:
    """Read one entry; what is none is left out."""
    if not isinstance(entry, dict) or type(entry.get("round")) is not int or entry["round"] < 1:
        return None
    stop, text, request = entry.get("stop"), entry.get("text"), entry.get("request")
    return Note(
        entry["round"],
        stop if type(stop) is int and stop > 0 else None,
        text if isinstance(text, str) else "",
        request if isinstance(request, str) else "",
    )
