"""Knobs turned between two rounds: a scheduler keeps its state and changes its config (debugger.md, section 4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tsviz.scheduler.snapshot import Snapshot

from .knobs import BadKnob, Change


class RefusedConfig(Exception):
    """The scheduler does not take the configuration; the message is its own."""


def turned(snapshot: Snapshot, changes: Sequence[Change]) -> Snapshot:
    """Return the snapshot with knobs turned; refusals that were remembered under the old ones are forgotten.

    With a smaller batch there are as many slots from then on as were taken, or as the batch if that is more.
    Raises BadKnob for a knob that cannot be turned in the middle, and for a pool that would shrink.
    """
    config = snapshot.config
    values: dict[str, Any] = {}
    for change in changes:
        if not change.knob.midway:
            raise BadKnob(f"{change.knob.name} can be turned from round 1 only")
        values[change.knob.field] = change.value
    made = replace(config, **values)
    if made.num_device_pages < config.num_device_pages:
        raise BadKnob(
            f"pages: a pool can only grow in the middle of a trace; expected {config.num_device_pages} or more"
        )
    free, held = snapshot.free_slots, config.max_batch_size - len(snapshot.free_slots)
    more = range(config.max_batch_size + 1, made.max_batch_size + 1)
    usable = made.num_device_pages - 1
    groups = tuple(replace(g, total_pages=usable * g.cache_blocks_per_lcm_block + 1) for g in made.cache_groups)
    return replace(
        snapshot,
        config=replace(made, cache_groups=groups),
        free_slots=(*free, *more)[: max(0, made.max_batch_size - held)],
        requests=tuple(request._replace(memory=None) for request in snapshot.requests),
    )
