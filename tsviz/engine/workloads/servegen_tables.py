"""Statistics of one ServeGen client, read and checked: windows with a law of arrivals, and tables of lengths."""

from __future__ import annotations

import csv
import re
from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate

from tsviz.engine.workloads.errors import Place
from tsviz.engine.workloads.files import TextFile, finite_text, parse_object, whole_number_text

WINDOW_S = 600
"""Every window of arrivals is ten minutes long."""

MOST_REQUESTS = 10_000_000
"""More than this in one window is taken for damage."""

LAWS = ("Gamma", "Weibull")

_COLUMNS = ("window start", "rate", "inter-arrival CV", "pattern", "first shape parameter", "second shape parameter")
_SHAPES = (0.01, 1e6)
_SUM_SLACK = 1e-3
_DAY_S = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Window:
    """Ten minutes of arrivals that are not silent: `rate` a second, gaps by `law` with `shape`."""

    place: Place
    start_s: int
    rate: float
    law: str
    shape: float


@dataclass(frozen=True, slots=True)
class Lengths:
    """A table of lengths in tokens and the running sums of their probabilities; empty where there were no requests."""

    values: tuple[int, ...]
    cumulated: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables of lengths of one client, by the start of the span of time they hold for."""

    file: str
    starts_s: tuple[int, ...]
    prompts: tuple[Lengths, ...]
    outputs: tuple[Lengths, ...]

    def at(self, window: Window) -> tuple[Lengths, Lengths]:
        """Return the tables of prompts and outputs that hold for a window; an error if there is none or it is empty."""
        index = bisect_right(self.starts_s, window.start_s) - 1
        place = Place(self.file, f"table for window {window.start_s}")
        if index < 0:
            raise place.error(
                "window start", f"a table that starts by {window.start_s}", f"first at {self.starts_s[0]}"
            )
        pair = self.prompts[index], self.outputs[index]
        for field, lengths in zip(("input_tokens", "output_tokens"), pair, strict=True):
            if not lengths.values:
                raise place.error(field, f"lengths, as the rate is {window.rate:g}", "an empty table")
        return pair


def read_windows(file: TextFile) -> list[Window]:
    """Return the windows that are not silent (rate 0), in order of time."""
    windows: list[Window] = []
    before_s = -WINDOW_S
    for number, line in enumerate(file.lines(), 1):
        place = Place(str(file.path), f"line {number}")
        try:
            values = next(csv.reader([line], strict=True), [])
        except csv.Error as problem:
            raise place.error("row", "comma-separated values", str(problem)) from None
        if len(values) != len(_COLUMNS):
            raise place.error("row", f"{len(_COLUMNS)} values ({', '.join(_COLUMNS)})", f"{len(values)}: {line}")
        start_s = whole_number_text(values[0], place, _COLUMNS[0], _DAY_S)
        if start_s < before_s + WINDOW_S:
            raise place.error(_COLUMNS[0], f"at least {before_s + WINDOW_S}", start_s)
        before_s = start_s
        rate, _, first, second = (finite_text(values[i], place, _COLUMNS[i]) for i in (1, 2, 4, 5))
        if rate == 0:
            continue
        if rate * WINDOW_S > MOST_REQUESTS:
            raise place.error("rate", f"at most {MOST_REQUESTS} requests in a window", values[1])
        if values[3] not in LAWS:
            raise place.error("pattern", f"{' or '.join(LAWS)}, as the rate is {rate:g}", values[3] or "nothing")
        if not _SHAPES[0] <= first <= _SHAPES[1]:
            raise place.error(_COLUMNS[4], f"{_SHAPES[0]:g} to {_SHAPES[1]:g}", values[4])
        if second == 0:
            raise place.error(_COLUMNS[5], "a number above 0", values[5])
        windows.append(Window(place, start_s, rate, values[3], first))
    return windows


def read_tables(file: TextFile) -> Tables:
    """Return the tables of lengths of a client's dataset file."""
    place = Place(str(file.path), "whole file")
    spans: list[tuple[int, Lengths, Lengths]] = []
    for start, value in parse_object(file.text, place).items():
        at = Place(place.file, f"window {start[:20]}")
        start_s = whole_number_text(start, at, "window start", _DAY_S)
        if not isinstance(value, dict):
            raise at.error("tables", "an object", type(value).__name__)
        prompts, outputs = (_lengths(value.get(name), at, name) for name in ("input_tokens", "output_tokens"))
        spans.append((start_s, prompts, outputs))
    if not spans:
        raise place.error("content", "at least one window", "none")
    spans.sort(key=lambda span: span[0])
    starts, all_prompts, all_outputs = zip(*spans, strict=True)
    return Tables(place.file, starts, all_prompts, all_outputs)


def _lengths(value: object, place: Place, field: str) -> Lengths:
    """Read a table that is a *string* holding `{length: probability, ...}`: not JSON, and not to be evaluated."""
    if not isinstance(value, str) or not re.fullmatch(r"\{.*\}", value, re.DOTALL):
        raise place.error(field, "a string {length: probability, ...}", value)
    body = value[1:-1].strip()
    values: list[int] = []
    weights: list[float] = []
    for item in body.split(",") if body else []:
        length, colon, weight = item.partition(":")
        if not colon:
            raise place.error(field, "length: probability", item.strip())
        values.append(whole_number_text(length.strip(), place, field))
        weights.append(finite_text(weight.strip(), place, f"{field}[{values[-1]}]"))
    if values and abs(sum(weights) - 1) > _SUM_SLACK:
        raise place.error(field, "probabilities that sum to 1", f"{sum(weights):g}")
    return Lengths(tuple(values), tuple(accumulate(weights)))
