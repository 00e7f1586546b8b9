"""One scheduler of a bundle that is being written: its description, its tables, and what waits for them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from . import layout
from .backlog import Backlog
from .entries import Decided, Entry, EventReader
from .part_writer import PartWriter
from .plan_fields import ReadPlan
from .recorder import Recorder
from .ring import Rotation
from .segments import HotSegments
from .tokens import known_pages


class WrittenPart:
    """What its recorder appended goes through `writer` into `segments`; in a ring one segment follows another."""

    def __init__(
        self, recorder: Recorder, directory: Path, about: Mapping[str, Any], rotation: Rotation | None,
        event_reader: EventReader, read: ReadPlan | None,
    ) -> None:  # fmt: skip
        """Make the part's directory and write `part.json`, which is `about`. Raises OSError."""
        self.recorder, self.directory, self.rotation, self.backlog = recorder, directory, rotation, Backlog(recorder)
        self.segments = HotSegments(directory / layout.HOT) if rotation is None else rotation.next()
        layout.write_json(directory / layout.PART_FILE, dict(about))
        self.settled = 0.0
        """When what had been taken last became columns (`time.monotonic`)."""
        config = about["config"]
        self.writer = PartWriter(
            self.segments,
            prefix_tokens=config["prefix_granularity"],
            token_mode=about["tokens"],
            event_reader=event_reader,
            storage=config["enable_l3_storage"],
            read=read,
            level=about["level"],
            most_pages=known_pages(_cached_pages(config)),
        )

    def rotate_if_due(self, rotation: Rotation, entry: Entry | Decided) -> None:
        """Behind an entry at which a segment of a ring is full, finish it and begin the next one."""
        if not rotation.due(entry, self.segments.written_bytes):
            return
        self.writer.flush()
        self.segments.finish()
        self.segments.close()
        self.segments = rotation.next()
        self.writer = self.writer.successor(self.segments)


def _cached_pages(config: Mapping[str, Any]) -> int:
    """Return how many prefix pages the caches of a scheduler can hold at most."""
    blocks = max((group["cache_blocks_per_lcm_block"] for group in config.get("cache_groups", ())), default=1)
    return blocks * (int(config.get("num_device_pages", 0)) + int(config.get("num_host_pages", 0)))
