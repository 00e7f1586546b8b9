"""What is wrong with a workload, said so that a person can find the place: file, row, field, expected, found."""

from __future__ import annotations

from dataclasses import dataclass

_FOUND_CHARACTERS = 80


class WorkloadError(ValueError):
    """Input, option or name of a workload that cannot be used. Its attributes are the parts of its message."""

    def __init__(self, file: str, place: str, field: str, expected: str, found: object) -> None:
        shown = found if isinstance(found, str) else repr(found)
        if len(shown) > _FOUND_CHARACTERS:
            shown = f"{shown[:_FOUND_CHARACTERS]}... ({len(shown)} characters)"
        shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in shown)
        super().__init__(f"{file}: {place}: {field}: expected {expected}, found {shown}")
        self.file, self.place, self.field, self.expected, self.found = file, place, field, expected, shown


@dataclass(frozen=True, slots=True)
class Place:
    """A row of an input (a line, a request of a session), able to raise what is wrong in it."""

    file: str
    at: str

    def error(self, field: str, expected: str, found: object) -> WorkloadError:
        """Return the error for one field of this row."""
        return WorkloadError(self.file, self.at, field, expected, found)
