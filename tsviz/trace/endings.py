"""Why a recording ended, in words of our own, and what a bundle says of it for one part."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from . import layout
from .errors import TraceError, first_line

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


def say_stopped(bundle: Path, error: BaseException) -> None:
    """Write into a bundle that its recording had to stop, why and when, if the disk takes it. Never raises OSError."""
    with contextlib.suppress(OSError):
        values = {"why": f"{type(error).__name__}: {first_line(error)}", "wall_ns": time.time_ns()}
        layout.write_json(bundle / layout.STOPPED_FILE, values)


def stopped_of(bundle: Path) -> str:
    """Return when and why the recording of a bundle had to stop, in words; empty if nothing says so."""
    path = bundle / layout.STOPPED_FILE
    if not path.exists():
        return ""
    try:
        values = layout.read_json(path)
        why, wall_ns = layout.field(path, values, "why", str), layout.field(path, values, "wall_ns", int)
        return f"{datetime.fromtimestamp(wall_ns / 1e9, UTC):%Y-%m-%d %H:%M:%S} UTC: {why[:300]}"
    except (TraceError, OverflowError, ValueError, OSError) as error:
        return f"a time that is not known: {path.name} is damaged ({first_line(error)})"


def why_not_closed(bundle: Path) -> str:
    """Return what there is to say of a recording that was not closed."""
    if stopped := stopped_of(bundle):
        return f"recording had to stop before its program did, at {stopped}"
    return "the recording was not closed: its process was killed, or failed"
