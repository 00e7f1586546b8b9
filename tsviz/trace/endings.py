"""Why a recording ended, in words of our own, and what a bundle says of it for one part."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

ENDED, CRASHED = "the program ended", "the program crashed"
NOT_CLOSED, REPAIRED, CLOSED = "not closed", "repaired: not closed", "closed"


def reason_of(end: Mapping[str, Any] | None, part: str) -> str:
    """Return why the recording of a part ended: its own reason, or that of the whole bundle (`end.json`)."""
    if end is None:
        return NOT_CLOSED
    parts = end.get("parts")
    told = parts.get(part) if isinstance(parts, dict) else None
    for values in (told, end):
        if isinstance(values, dict) and values.get("reason"):
            return str(values["reason"])
    return CLOSED
