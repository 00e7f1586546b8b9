"""What can be wrong with a bundle, said with file, place, expected and found."""

from __future__ import annotations

from pathlib import Path


class TraceError(Exception):
    """A bundle, or a file in it, cannot be read.

    `path` is the file, `place` where in it, `expected` and `found` say what is wrong. The message has all four.
    """

    def __init__(self, path: Path | str, place: str, expected: str, found: str) -> None:
        self.path = str(path)
        self.place = place
        self.expected = expected
        self.found = found
        super().__init__(f"{self.path}: {place}: expected {expected}, found {found}")


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or its type where it has none."""
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


class NotABundle(TraceError):
    """The path is not a bundle at all."""


class NewerSchema(TraceError):
    """The bundle was written by a newer MAJOR of the schema than this reader knows."""


class Damaged(TraceError):
    """Bytes of the bundle are not what was written: a checksum, a length or a value contradicts another."""


class NothingYet(TraceError):
    """The bundle has no part yet: whoever records it has begun, and made no scheduler so far."""

    def __init__(self, path: Path, *, lives: bool) -> None:
        """`lives`: its recorder holds its lock; else there is no lock, and it may have ended."""
        super().__init__(path, "parts", "at least one part", "none yet")
        self.waits_for = (
            "no scheduler was made so far; its recorder lives"
            if lives
            else "no scheduler was made so far, and whether its recorder lives is not known: it holds no lock"
        )
        """What whoever waits waits for, in words."""
        self.args = (f"{path}: nothing is recorded yet: {self.waits_for}",)


class FellBehind(Exception):
    """The writer was too slow for what was recorded, and recording ended rather than fill the memory."""


class Full(Exception):
    """The recording alone came to as much as its retention allows, and ended."""


class CannotRecord(Exception):
    """What was asked for cannot be recorded; the message says why."""
