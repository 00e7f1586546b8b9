"""The relations `parts` and `groups`: what is opened, with the settings of its scheduler, and where decisions reach.

The config of a trace is data of others: a value of another type than expected counts as missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from tsviz.trace.catalogue import LEVELS
from tsviz.trace.columns import Table, flag, i32, string
from tsviz.trace.decided import DECIDED

from .source import Configured, Derived, Levelled, Part

Place: TypeAlias = tuple[str, str, int]
"""Name of the trace, node and rank: the constants of a part."""
NONE, RECORDED, DERIVED = "none", "recorded", "derived"

PARTS = Table(
    "parts",
    "the parts of the opened traces: settings of each scheduler, and how far its decided tables reach",
    (
        string("role", "Fused, P or D", nullable=True),
        string(
            "level",
            "what was recorded: calls (plan tables are empty until `tsviz index`), plans, or also decisions",
            nullable=True,
        ),
        string("decisions", "decided tables: recorded, derived (re-executed and verified round by round), or none"),
        i32("decided_round", "last round whose decisions are there; null without any", nullable=True),
        i32("last_round", "last round that was recorded; null without any", nullable=True),
        i32("budget_tokens", "forward rows that a plan may have", nullable=True),
        i32("batch_rows", "rows that a plan may have", nullable=True),
        i32("prefix_tokens", "tokens of a prefix page", nullable=True),
        i32("device_pages", "LCM parents of the device, page 0 included, which holds nothing", nullable=True),
        i32("host_pages", "pages of the host tier, page 0 included", nullable=True),
    ),
)
GROUPS = Table(
    "groups",
    "the cache groups of each part: decided tables name a group by its position, recorded ones by its name",
    (
        i32("group_index", "position of the group, from 0"),
        string("group", "name of the group", nullable=True),
        string("family", "History or State", nullable=True),
        string("retention", "FullHistory or SlidingWindow", nullable=True),
        i32("block_tokens", "tokens of a page", nullable=True),
        i32("parent_pages", "pages of the group that an LCM parent holds", nullable=True),
        i32("window_tokens", "sliding window", nullable=True),
        flag("replayable", "never cached: a hit feeds its window again", nullable=True),
    ),
)
_SETTINGS = {
    "role": "role", "budget_tokens": "max_scheduled_tokens", "batch_rows": "max_batch_size",
    "prefix_tokens": "prefix_granularity", "device_pages": "num_device_pages", "host_pages": "num_host_pages",
}  # fmt: skip
_GROUP_FIELDS = {
    "group": "group_id", "family": "family", "retention": "retention", "block_tokens": "block_granularity",
    "parent_pages": "cache_blocks_per_lcm_block", "window_tokens": "sliding_window_tokens", "replayable": "replayable",
}  # fmt: skip
_PLACE = (("trace", pa.string()), ("node", pa.string()), ("rank", pa.int32()))


def parts_table(parts: Sequence[tuple[Place, Part, Mapping[str, Any]]]) -> pa.Table:
    """Return `parts` but for what only the rounds tell: `last_round`, and `decided_round` of recorded decisions."""
    rows = []
    for place, part, tables in parts:
        derived_round = part.derived_round if isinstance(part, Derived) else None
        recorded = any(_has_rows(tables.get(name)) for name in DECIDED)
        source = DERIVED if derived_round is not None else RECORDED if recorded else NONE
        level = part.recorded_level if isinstance(part, Levelled) and part.recorded_level in LEVELS else None
        row = {"level": level, "decisions": source, "decided_round": derived_round} | _named(place)
        rows.append(row | _values(PARTS, _config(part), _SETTINGS))
    return _table(PARTS, rows)


def groups_table(parts: Sequence[tuple[Place, Part, Mapping[str, Any]]]) -> pa.Table:
    """Return `groups`."""
    rows = []
    for place, part, _ in parts:
        groups = _config(part).get("cache_groups")
        for index, group in enumerate(groups if isinstance(groups, list) else ()):
            known = group if isinstance(group, dict) else {}
            rows.append({"group_index": index} | _named(place) | _values(GROUPS, known, _GROUP_FIELDS))
    return _table(GROUPS, rows)


def _config(part: Part) -> Mapping[str, Any]:
    return part.config if isinstance(part, Configured) else {}


def _named(place: Place) -> dict[str, Any]:
    return dict(zip((name for name, _ in _PLACE), place, strict=True))


def _has_rows(data: object) -> bool:
    return data is not None and (not isinstance(data, pa.Table) or data.num_rows > 0)


def _values(table: Table, config: Mapping[str, Any], fields: Mapping[str, str]) -> dict[str, Any]:
    types = {column.name: column.type for column in table.columns}
    return {name: _checked(config.get(key), types[name]) for name, key in fields.items()}


def _checked(value: object, kind: pa.DataType) -> object:
    if kind == pa.int32():
        return value if type(value) is int and -(1 << 31) <= value < 1 << 31 else None
    if kind == pa.bool_():
        return value if type(value) is bool else None
    return readable(value) if type(value) is str else None


def readable(text: str) -> str:
    """Return text that can be encoded: surrogates that stand for bytes as UTF-8, other ones as question marks."""
    try:
        text.encode()
    except UnicodeEncodeError:
        try:
            return text.encode(errors="surrogateescape").decode(errors="replace")
        except UnicodeEncodeError:
            return text.encode(errors="replace").decode()
    return text


def _table(table: Table, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    schema = pa.schema([*_PLACE, *((column.name, column.type) for column in table.columns)])
    return pa.Table.from_pylist([{name: row.get(name) for name in schema.names} for row in rows], schema=schema)
