"""What people type into "go to": a round, a position with its stop, a share of the trace, or a request."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal

_POSITION = re.compile(r"(?:.*@)?(?:(?P<node>[^\s@:]+/\d+):)?(?P<round>[\d,_]+)(?:\.(?P<stop>\d+))?")
_FINDING = re.compile(r"#(?P<number>[1-9]\d{0,5})")
_LENGTH = re.compile(
    r"(?:(?P<h>\d+)\s*h)?\s*(?:(?P<min>\d+)\s*m(?:in)?(?!s))?\s*(?:(?P<s>\d+(?:\.\d+)?)\s*s)?\s*"
    r"(?:(?P<ms>\d+(?:\.\d+)?)\s*ms)?"
)
_STAMP = re.compile(
    r"\[?(?P<date>\d{4}-\d\d-\d\d)[T ](?P<time>\d\d:\d\d(?::\d\d)?)(?:[.,](?P<part>\d{1,9}))?\s*"
    r"(?P<zone>Z|UTC|[+-]\d\d:?\d\d)?\]?"
)
_PERCENT = re.compile(r"(?P<percent>\d+(?:\.\d+)?)\s*%")


@dataclass(frozen=True, slots=True)
class ToRound:
    """A round that exists, and a stop in it; None for the round as a whole."""

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
    """A moment, to be looked up: ns since 1970 (`wall`), or since the clock of the trace began."""

    time_ns: int
    wall: bool
    words: str


@dataclass(frozen=True, slots=True)
class ToFinding:
    """The finding with this number in the list of findings, from 1."""

    number: int


Destination = ToRound | ToRequest | ToMoment | ToFinding | NoDestination


def moment_of(text: str) -> ToMoment | None:
    """Return the moment that a text is: a time since the start, or a timestamp (UTC where it names no zone)."""
    if stamp := _STAMP.fullmatch(text):
        zone = (stamp["zone"] or "Z").replace("UTC", "Z").replace("Z", "+00:00")
        try:
            seconds = datetime.fromisoformat(f"{stamp['date']}T{stamp['time']}{zone}")
        except ValueError:
            return None
        part_ns = int((stamp["part"] or "0").ljust(9, "0"))
        since = seconds - datetime.fromtimestamp(0, UTC)
        words = text if stamp["zone"] else f"{text} UTC"
        return ToMoment((since.days * 86_400 + since.seconds) * 1_000_000_000 + part_ns, True, words)
    length = _LENGTH.fullmatch(text)
    if length is None or not any(length.groups()):
        return None
    units = {"h": 3600 * 10**9, "min": 60 * 10**9, "s": 10**9, "ms": 10**6}
    ns = sum(round(Decimal(length[name] or 0) * unit) for name, unit in units.items())
    return ToMoment(ns, False, f"{text} since the start")


def parse(text: str, rounds: int, part: str) -> Destination:
    """Return where `text` leads in a trace of `rounds` rounds whose part is `part` (`node/rank`).

    `1204`, `1,204`, `1204.3`, `P/0:1204.3`, `trace@1204` and `45 %` are positions, `12.5s` is a time since the start,
    `2026-11-30 02:51:07,123` one of a log, `#3` a finding; anything else is a request id, and `id:17` the request 17.
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
    if position["node"] and position["node"] != part:
        return NoDestination(f"this is part {part}, not {position['node']}")
    digits = re.sub("[,_]", "", position["round"])
    if len(digits) > 18 or not 1 <= int(digits) <= rounds:
        return NoDestination(f"rounds are 1 to {rounds:,}")
    return ToRound(int(digits), int(position["stop"]) if position["stop"] else None)
