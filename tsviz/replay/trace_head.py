"""What the header of the screen says of a part."""

from __future__ import annotations

from tsviz.replay.pages.spells import host_layout_of
from tsviz.replay.recorded.snapshot import Frontier, TraceHead
from tsviz.replay.recorded.source import Source
from tsviz.trace.catalogue import CALLS
from tsviz.trace.gaps import spans
from tsviz.trace.reader import Bundle, Part

from .moments import NoMoment, wall_offset_ns


def head_of(bundle: Bundle, part: Part, source: Source, frontier: Frontier) -> TraceHead:
    """Return the head of a part, whose tables `source` reads. Raises `TraceError`."""
    numbers = source.numbers
    first_ns = int(source.of_rounds("start_ns")[0]) if len(numbers) else 0
    offset, host = wall_offset_ns(bundle, part, first_ns), host_layout_of(part)
    return TraceHead(
        name=bundle.name,
        node=part.node,
        rank=part.rank,
        role=str(part.meta.get("role", "?")),
        engine=str(part.engine.get("name", "?")),
        engine_version=str(part.engine.get("version", "?")),
        rule_set=part.rule_set,
        rounds=int(numbers[-1]) if len(numbers) else 0,
        requests=source.life.count,
        live=part.live,
        clock=part.clock,
        gaps=len(spans(part.table("gaps"))),
        parts=tuple(f"{p.node}/{p.rank}" for p in bundle.parts),
        groups=tuple(str(group["group_id"]) for group in part.config["cache_groups"]),
        frontier=frontier,
        first_round=int(numbers[0]) if len(numbers) else 1,
        calls_only=part.recorded_level == CALLS,
        host_pages=0 if host is None else host.parents,
        zero_ns=0 if part.clock == "virtual" else first_ns,
        wall_zero_ns=None if isinstance(offset, NoMoment) else first_ns + offset,
    )
