"""Which pages were cached where a slice begins: what its keyframe says, beside who held pages there.

Without it a page that nobody holds at the first round is of unknown use until it is taken; with it the map of a slice
is that of the whole trace from its first round on (debugger.md, section 1, *Pages*).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tsviz.replay.keyframes.keyframe import recorded_keyframe
from tsviz.replay.rows.lifetimes import Longs
from tsviz.scheduler.snapshot import TierState
from tsviz.trace.errors import TraceError
from tsviz.trace.reader import Part

from .spells import Layout, host_layout_of, layout_of


@dataclass(frozen=True, slots=True)
class Start:
    """What was in the prefix index of both tiers behind the last round in front of a slice; pages by `Layout`."""

    round: int
    device: Longs
    kind: npt.NDArray[np.int8]
    """Of the device pages, as in `cache.KINDS`."""
    host: Longs


def start_of(part: Part) -> Start | None:
    """Return what was cached where a part begins; None at round 1, and for a slice without a sound keyframe."""
    begin = part.meta.get("starts_at")
    if begin is None:
        return None
    try:
        snapshot = recorded_keyframe(part, begin).snapshot
    except TraceError:
        return None
    device, kind = _cached(snapshot.device, layout_of(part))
    layout = host_layout_of(part)
    host = np.zeros(0, np.int64)
    if snapshot.host is not None and layout is not None:
        host, _ = _cached(snapshot.host, layout)
    return Start(begin - 1, device, kind, host)


def _cached(tier: TierState, layout: Layout) -> tuple[Longs, npt.NDArray[np.int8]]:
    """Return the numbers of the pages that are in the index of a tier, rising, and their kinds."""
    found = [
        (layout.base[group] + page, entry.kind + 1)
        for group, entries in enumerate(tier.entries)
        for page, entry in enumerate(entries) if entry is not None
    ]  # fmt: skip
    number, kind = zip(*found, strict=True) if found else ((), ())
    return np.array(number, np.int64), np.array(kind, np.int8)
