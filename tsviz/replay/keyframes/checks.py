"""Values of a keyframe taken out one by one: each is what it must be, or `Malformed` says which is not."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from .packed import Arrays, Malformed

INT32: Final = (1 << 31) - 1
INT64: Final = (1 << 63) - 1


def whole(value: Any, place: str, low: int = -1, high: int = INT32) -> int:
    """Return an integer in a range."""
    if type(value) is not int or not low <= value <= high:
        raise Malformed(place, f"a number from {low} to {high}", repr(value)[:60])
    return value


def flag(value: Any, place: str) -> bool:
    """Return a yes or no."""
    if type(value) is not bool:
        raise Malformed(place, "true or false", repr(value)[:60])
    return value


def text(value: Any, place: str) -> str:
    """Return a string."""
    if type(value) is not str:
        raise Malformed(place, "a string", repr(value)[:60])
    return value


def items(value: Any, place: str, count: int | None = None) -> list[Any]:
    """Return a list, of a length."""
    if type(value) is not list or (count is not None and len(value) != count):
        wanted = "a list" if count is None else f"a list of {count}"
        raise Malformed(place, wanted, repr(value)[:60])
    return value


def wholes(value: Any, place: str, low: int = -1, high: int = INT32, count: int | None = None) -> tuple[int, ...]:
    """Return a list of integers in a range."""
    return tuple([whole(v, place, low, high) for v in items(value, place, count)])


def member(values: Any, name: str) -> Any:
    """Return a member of an object."""
    if type(values) is not dict or name not in values:
        raise Malformed(name, "a member of the state", "nothing")
    return values[name]


def numbers(
    arrays: Arrays, name: str, low: int = -1, high: int = INT32, count: int | None = None
) -> npt.NDArray[np.int64]:
    """Return an array of integers in a range, of a length."""
    if name not in arrays:
        raise Malformed(f"array {name}", "an array", "nothing")
    found = arrays[name].astype(np.int64)
    if count is not None and len(found) != count:
        raise Malformed(f"array {name}", f"{count} numbers", str(len(found)))
    if len(found) and (int(found.min()) < low or int(found.max()) > high):
        raise Malformed(f"array {name}", f"numbers from {low} to {high}", f"{found.min()} to {found.max()}")
    return found
