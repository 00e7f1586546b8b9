"""Types of options that click does not have."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


class Finite(click.FloatRange):
    """A number in a range; NaN is none, and infinity is in no range."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"expected a finite number, found {value!r}", param, ctx)
        return number


LONGEST_SECONDS = 7 * 24 * 3600.0
"""A limit of time beyond this is a mistake."""


def seconds_option(name: str, default: float, text: str) -> Callable[[F], F]:
    """Return an option that takes seconds, more than 0."""
    kind = Finite(min=0, max=LONGEST_SECONDS, min_open=True)
    return click.option(name, type=kind, default=default, show_default=True, help=text)
