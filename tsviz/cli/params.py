"""Types of options that click does not have."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from .output import clean

F = TypeVar("F", bound=Callable[..., Any])


class Finite(click.FloatRange):
    """A number in a range; NaN is none, and infinity is in no range."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"expected a finite number, found {value!r}", param, ctx)
        return number


class OutputPath(click.Path):
    """Where a command writes: a path in UTF-8, which Arrow needs, outside every bundle, which nothing may add to."""

    def __init__(self, *, file_okay: bool = True, dir_okay: bool = True) -> None:
        super().__init__(path_type=Path, file_okay=file_okay, dir_okay=dir_okay)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from tsviz.trace.layout import enclosing_bundle, not_utf8

        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        if shown := not_utf8(path.absolute()):
            self.fail(f"{shown}: expected names in UTF-8, which Arrow needs, found bytes that are none", param, ctx)
        if (bundle := enclosing_bundle(path)) is not None:
            words = f"{path}: expected a path outside every bundle, found the bundle {bundle}"
            self.fail(clean(words), param, ctx)
        return path


LONGEST_SECONDS = 7 * 24 * 3600.0
"""A limit of time beyond this is a mistake."""


def seconds_option(name: str, default: float, text: str) -> Callable[[F], F]:
    """Return an option that takes seconds, more than 0."""
    kind = Finite(min=0, max=LONGEST_SECONDS, min_open=True)
    return click.option(name, type=kind, default=default, show_default=True, help=text)
