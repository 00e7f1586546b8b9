"""The first difference between two pieces of plain data, named by its path."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

_ABSENT = "(absent)"
_SCALARS = frozenset((int, bool, float, str, type(None)))


@dataclass(frozen=True, slots=True)
class Difference:
    """Where two answers part: the path of the field, what the reference gave, what the other gave."""

    field: str
    expected: Any
    got: Any


def first_difference(expected: Any, got: Any, path: str) -> Difference | None:
    """Walk both in the reference's order; None when equal in value, order and type (bool is not int)."""
    if isinstance(expected, dict) and isinstance(got, dict):
        return _in_dicts(expected, got, path)
    if isinstance(expected, list | tuple) and type(expected) is type(got):
        if _equal_scalars(expected, got):
            return None
        for index, (left, right) in enumerate(zip(expected, got, strict=False)):
            found = first_difference(left, right, f"{path}[{index}]")
            if found:
                return found
        if len(expected) != len(got):
            return Difference(f"{path} (length)", expected, got)
        return None
    if type(expected) is not type(got) or expected != got:
        return Difference(path, expected, got)
    return None


def _equal_scalars(expected: Any, got: Any) -> bool:
    """Whether two flat sequences agree in values and types, without a Python loop over token lists."""
    if expected != got:
        return False
    types = list(map(type, expected))
    return _SCALARS.issuperset(types) and types == list(map(type, got))


def _in_dicts(expected: dict[str, Any], got: dict[str, Any], path: str) -> Difference | None:
    for key, value in expected.items():
        if key not in got:
            return Difference(f"{path}.{key}", value, _ABSENT)
        found = first_difference(value, got[key], f"{path}.{key}")
        if found:
            return found
    extra = next((key for key in got if key not in expected), None)
    return None if extra is None else Difference(f"{path}.{extra}", _ABSENT, got[extra])


def compare_outcomes(call_name: str, expected: tuple[Any, ...], got: tuple[Any, ...]) -> Difference | None:
    """Compare two outcomes of one call: the answers, or the error's type and documented fragment."""
    if expected[0] != got[0]:
        return Difference(f"{call_name}.outcome", _short(expected), _short(got))
    if expected[0] == "ok":
        return first_difference(expected[1], got[1], call_name)
    if expected[1] != got[1]:
        return Difference(f"{call_name}.error.type", expected[1:], got[1:])
    if expected[2] and expected[2] not in got[3]:
        return Difference(f"{call_name}.error.message", expected[3], got[3])
    return None


def _short(outcome: tuple[Any, ...]) -> tuple[Any, ...]:
    return ("ok",) if outcome[0] == "ok" else outcome
