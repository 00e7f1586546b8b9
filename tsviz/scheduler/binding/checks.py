"""Type checks of the public API: what it accepts, it converts; everything else is a TypeError.

Integers: Python int, bool or numpy integer in range. Booleans, strings and enums are strict; an enum
attribute also accepts the integer value. Lists: any sequence, never an iterator, str, bytes or mapping.
"""

from __future__ import annotations

import enum
from array import array
from collections.abc import Callable, Sequence
from typing import Any, Generic, NoReturn, TypeVar, overload

import numpy as np

T = TypeVar("T")
E = TypeVar("E", bound=enum.Enum)


def reject(expected: str, value: object) -> NoReturn:
    """Raise the TypeError of a wrong argument."""
    raise TypeError(f"incompatible argument: expected {expected}, got {type(value).__name__} {value!r:.80}")


def _ranged(name: str, low: int, high: int) -> Callable[[object], int]:
    def check(value: object) -> int:
        if isinstance(value, (int, np.integer)):
            number = int(value)
            if low <= number <= high:
                return number
        reject(name, value)

    return check


int32 = _ranged("int32", -(2**31), 2**31 - 1)
uint32 = _ranged("uint32", 0, 2**32 - 1)
int64 = _ranged("int64", -(2**63), 2**63 - 1)


def boolean(value: object) -> bool:
    """A real bool."""
    if isinstance(value, bool):
        return value
    reject("bool", value)


def string(value: object) -> str:
    """A str."""
    if isinstance(value, str):
        return value
    reject("str", value)


def enumeration(kind: type[E]) -> Callable[[object], E]:
    """A member of `kind`, or the integer value of one."""

    def check(value: object) -> E:
        if isinstance(value, kind):
            return value
        if isinstance(value, (int, np.integer)):
            try:
                return kind(int(value))
            except ValueError:
                pass
        reject(kind.__name__, value)

    return check


def optional(inner: Callable[[object], T]) -> Callable[[object], T | None]:
    """None, or what `inner` accepts."""

    def check(value: object) -> T | None:
        return None if value is None else inner(value)

    return check


def sequence(value: object, expected: str = "a sequence") -> Sequence[Any]:
    """A sequence that is no text, mapping, set or iterator."""
    if isinstance(value, (list, tuple)):
        return value
    if isinstance(value, (str, bytes, bytearray, dict)) or not (
        hasattr(value, "__getitem__") and hasattr(value, "__len__")
    ):
        reject(expected, value)
    return value  # type: ignore[return-value]


def int32_array(value: object) -> array[int]:
    """A sequence of int32 as a compact copy."""
    try:
        return array("i", sequence(value, "a sequence of int32"))
    except (TypeError, OverflowError):
        reject("a sequence of int32", value)


def many(inner: Callable[[object], T]) -> Callable[[object], list[T]]:
    """A sequence whose elements `inner` accepts, as a fresh list."""

    def check(value: object) -> list[T]:
        return [inner(item) for item in sequence(value)]

    return check


class Field(Generic[T]):
    """A read/write attribute that checks what is assigned. The value lives in the slot `_<name>`."""

    def __init__(self, check: Callable[[object], T]) -> None:
        """`check` converts an assigned value or raises TypeError."""
        self.check = check
        self.slot = ""

    def __set_name__(self, owner: type, name: str) -> None:
        """Name the slot after the attribute."""
        self.slot = "_" + name

    @overload
    def __get__(self, instance: None, owner: type) -> Field[T]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> Field[T] | T:
        """The value; the field itself on the class."""
        if instance is None:
            return self
        value: T = getattr(instance, self.slot)
        return value

    def __set__(self, instance: object, value: object) -> None:
        """Check and assign."""
        setattr(instance, self.slot, self.check(value))


class Bound:
    """An object of the public API: no copies, no pickles, identity comparison."""

    __slots__ = ()

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """Objects of the API cannot be copied or pickled."""
        raise TypeError(f"cannot pickle '{type(self).__name__}' object")


class NoConstructor(Bound):
    """An object that only the scheduler makes."""

    __slots__ = ()

    def __init__(self, *args: object, **kwargs: object) -> None:  # noqa: ARG002
        """Always a TypeError: instances come from `object.__new__`."""
        raise TypeError(f"{type(self).__qualname__}: no constructor defined!")
