"""What people type into "go to": a round, a position with its stop, a share of the trace, or a request."""

from __future__ import annotations

import re
from dataclasses import dataclass

_POSITION = re.compile(r"(?:.*@)?(?:(?P<node>[^\s@:]+/\d+):)?(?P<round>[\d,_]+)(?:\.(?P<stop>\d+))?")
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


Destination = ToRound | ToRequest | NoDestination


def parse(text: str, rounds: int, part: str) -> Destination:
    """Return where `text` leads in a trace of `rounds` rounds whose part is `part` (`node/rank`).

    `1204`, `1,204`, `1204.3`, `P/0:1204.3`, `trace@1204` and `45 %` are positions; anything else is a request id, and
    `id:17` is the request whose id is 17.
    """
    text = text.strip()
    if not text:
        return NoDestination("a round, a share like 45%, or a request id")
    if text.startswith("id:"):
        name = text.removeprefix("id:").strip()
        return ToRequest(name) if name else NoDestination("a request id after id:")
    if rounds == 0:
        return NoDestination("this trace has no rounds")
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
