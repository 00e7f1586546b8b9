"""What people type into "go to": a round, a position with its stop, a share of the trace, or a request."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal

_POSITION = re.compile(r"(?:.*@)?(?:(?P<node>[^\s@:]+/\d+):)?(?P<round>[\d,_]+)(?:\.(?P<stop>\d+))?")
_FINDING = re.compile(r"#(?P<number>[1-9]\d{0,5})")
_LENGTH = re.compile(
    r"(?:(?P<h>\d+)\s*h)?\s*(?:(?P<min>\d+)\s*m(?:in)?(?!s))?\s*(?:(?P<s>\d+(?:\.\d+)?)\s*s)?\s*"
    r"(?:(?P<ms>\d+(?:\.\d+)?)\s*ms)?"
)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_STAMP = re.compile(
    r"(?<![\d:])\[?(?:(?:(?P<year>\d{4})[-/](?P<month>\d\d)[-/](?P<day>\d\d)|(?P<short>\d\d[-/]\d\d)|[IWEF](?P<glog>\d{4})"
    rf"|(?P<name>{'|'.join(_MONTHS)}) +(?P<of>\d{{1,2}}))[T ])?"
    r"(?P<time>\d\d:\d\d(?::\d\d)?)(?:[.,](?P<part>\d{1,9}))?\s*(?P<zone>Z|UTC|[+-]\d\d:?\d\d)?\]?(?![\d:])"
)
_DAY_NS = 86_400 * 10**9
_LEAP = 2000
"""The year in which a date without one is put, until the trace is asked."""
_PERCENT = re.compile(r"(?P<percent>\d+(?:\.\d+)?)\s*%")


@dataclass(frozen=True, slots=True)
class ToRound:
    """A round that exists, and a stop in it; None for the round as a whole."""

    round: int
    stop: int | None = None


@dataclass(frozen=True, slots=True)
class ToPart:
    """A round of another part of the trace, and a stop in it; how many rounds that has is known there."""

    part: str
    round: int
    stop: int | None = None


@dataclass(frozen=True, slots=True)
class ToRequest:
    """A request id, to be looked up."""

    request: str


@dataclass(frozen=True, slots=True)
class NoDestination:
    """Why the text leads nowhere."""

    reason: str


@dataclass(frozen=True, slots=True)
class ToMoment:
    """A moment, to be looked up: ns since 1970 (`wall`), or since the clock of the trace began.

    `lacks` is what a timestamp leaves to the trace: its `year` (it is then one of 2000), or its `day` (of 1970-01-01).
    """

    time_ns: int
    wall: bool
    words: str
    lacks: str = ""

    def within(self, begin_ns: int, end_ns: int) -> int:
        """Return the moment in ns since 1970, of those that it may be the one in or nearest to a trace."""
        if not self.lacks:
            return self.time_ns
        return min(self._times(begin_ns, end_ns), key=lambda ns: (max(begin_ns - ns, ns - end_ns, 0), ns))

    def _times(self, begin_ns: int, end_ns: int) -> Iterator[int]:
        if self.lacks == "day":
            for number in range(begin_ns // _DAY_NS - 1, end_ns // _DAY_NS + 2):
                yield self.time_ns + number * _DAY_NS
            return
        at = datetime.fromtimestamp(0, UTC) + timedelta(seconds=self.time_ns // 10**9)
        years = (datetime.fromtimestamp(0, UTC) + timedelta(seconds=ns // 10**9) for ns in (begin_ns, end_ns))
        first, last = (moment.year for moment in years)
        for year in range(first - 1, last + 2):
            with contextlib.suppress(ValueError):  # 29 February is not in every year
                yield _since_1970(at.replace(year=year)) + self.time_ns % 10**9


@dataclass(frozen=True, slots=True)
class ToFinding:
    """The finding with this number in the list of findings, from 1."""

    number: int


Destination = ToRound | ToPart | ToRequest | ToMoment | ToFinding | NoDestination


def moment_of(text: str) -> ToMoment | None:
    """Return the moment that a text is: a time since the start, or a timestamp (UTC where it names no zone).

    A line of a log is the moment of the timestamp in it.
    """
    stamp = _STAMP.fullmatch(text) or (_STAMP.search(text) if " " in text else None)
    if stamp is not None:
        return _stamped(stamp, text if stamp.group() == text else stamp.group().strip())
    length = _LENGTH.fullmatch(text)
    if length is None or not any(length.groups()):
        return None
    units = {"h": 3600 * 10**9, "min": 60 * 10**9, "s": 10**9, "ms": 10**6}
    ns = sum(round(Decimal(length[name] or 0) * unit) for name, unit in units.items())
    return ToMoment(ns, False, f"{text} since the start")


def _stamped(stamp: re.Match[str], text: str) -> ToMoment | None:
    year, month, day = _LEAP, 1, 1
    lacks = "year"
    if stamp["year"]:
        year, month, day, lacks = int(stamp["year"]), int(stamp["month"]), int(stamp["day"]), ""
    elif stamp["short"] or stamp["glog"]:
        digits = re.sub("[-/]", "", stamp["short"] or stamp["glog"])
        month, day = int(digits[:2]), int(digits[2:])
    elif stamp["name"]:
        month, day = _MONTHS.index(stamp["name"]) + 1, int(stamp["of"])
    else:
        year, lacks = 1970, "day"
    zone = (stamp["zone"] or "Z").replace("UTC", "Z").replace("Z", "+00:00")
    try:
        moment = datetime.fromisoformat(f"{year:04d}-{month:02d}-{day:02d}T{stamp['time']}{zone}")
    except ValueError:
        return None
    part_ns = int((stamp["part"] or "0").ljust(9, "0"))
    return ToMoment(_since_1970(moment) + part_ns, True, text if stamp["zone"] else f"{text} UTC", lacks)


def _since_1970(moment: datetime) -> int:
    since = moment - datetime.fromtimestamp(0, UTC)
    return (since.days * 86_400 + since.seconds) * 10**9


def parse(text: str, rounds: int, part: str, parts: Sequence[str] = ()) -> Destination:
    """Return where `text` leads in a trace of `rounds` rounds whose part is `part` (`node/rank`).

    `parts`: those that one can go to from here.

    `1204`, `1,204`, `1204.3`, `P/0:1204.3`, `trace@1204` and `45 %` are positions, `12.5s` is a time since the start,
    `2026-11-30 02:51:07,123`, `11-30 02:51:07`, `02:51:07` or a line with such a one is one of a log, `#3` a finding;
    anything else is a request id, and `id:17` the request 17.
    """
    text = text.strip()
    if not text:
        return NoDestination("a round, 45%, a time (12.5s, or one from a log), #finding, a request id")
    if text.startswith("id:"):
        name = text.removeprefix("id:").strip()
        return ToRequest(name) if name else NoDestination("a request id after id:")
    if rounds == 0:
        return NoDestination("this trace has no rounds")
    if finding := _FINDING.fullmatch(text):
        return ToFinding(int(finding["number"]))
    moment = moment_of(text)
    if moment is not None:
        return moment
    if share := _PERCENT.fullmatch(text):
        value = float(share["percent"])
        if value > 100:
            return NoDestination(f"{text} is more than the whole trace")
        return ToRound(max(1, round(rounds * value / 100)))
    position = _POSITION.fullmatch(text)
    if position is None or not position["round"].strip(",_"):
        return ToRequest(text)
    digits, stop = re.sub("[,_]", "", position["round"]), int(position["stop"]) if position["stop"] else None
    if (there := position["node"]) and there != part:
        if there not in parts:
            named = f"the parts are {', '.join(parts)}" if parts else f"this is part {part}"
            return NoDestination(f"{named}, not {there}")
        return ToPart(there, int(digits), stop) if int(digits[:18]) > 0 else NoDestination("rounds are from 1 on")
    if len(digits) > 18 or not 1 <= int(digits) <= rounds:
        return NoDestination(f"rounds are 1 to {rounds:,}")
    return ToRound(int(digits), stop)
