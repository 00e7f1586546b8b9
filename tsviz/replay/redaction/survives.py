"""What a trace tells of the prompts behind it: every place of a bundle looked at, and what stands there counted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc as ipc
import pyarrow.parquet as pq

from tsviz.trace import entries as e
from tsviz.trace import layout, lock, privacy
from tsviz.trace.catalogue import TABLES
from tsviz.trace.columns import Column, Table
from tsviz.trace.decided import DECIDED
from tsviz.trace.reader import Bundle, Part
from tsviz.trace.tables import RECORDED
from tsviz.trace.tokens import FULL

from . import redact


@dataclass(frozen=True, slots=True)
class Left:
    """What one place of a bundle holds: how many values, and what they are.

    `private`: it tells, or may tell, something of the prompts or of who sent them.
    """

    place: str
    count: int
    what: str
    private: bool


def survey(bundle: Bundle) -> list[Left]:
    """Return what is in a bundle, private things first. Raises `TraceError`."""
    found = [*_meta(bundle), *_files(bundle)]
    for part in bundle.parts:
        found += [left for name, table in RECORDED.items() for left in _table(part, name, table)]
        decided = sum(part.rows(name) for name in DECIDED)
        if decided:
            found.append(Left(f"{part.node}/{part.rank}: decided tables", decided, "decisions, by request id", True))
        groups = [group["group_id"] for group in part.config.get("cache_groups", [])]
        odd = [name for name in groups if not privacy.PLAIN_GROUP.fullmatch(str(name))]
        found.append(Left(f"{part.node}/{part.rank}: part.json", len(groups), "names of cache groups", bool(odd)))
    return sorted(found, key=lambda left: not left.private)


def _meta(bundle: Bundle) -> Iterator[Left]:
    for key in sorted(set(bundle.meta) - redact.META):
        yield Left(f"bundle.json: meta.{key}", 1, "what the recorder says of itself, in free words", True)
    anchor = bundle.description.get("clock_anchor")
    if isinstance(anchor, dict) and anchor.get("wall_ns"):
        yield Left("bundle.json: clock_anchor", 1, "the day and time of the recording", True)
    reasons = str((bundle.end or {}).get("error") or "")
    if reasons and reasons != "the recording failed":
        yield Left("end.json: error", 1, "why it ended, in free words", True)
    if redact.begin_of(bundle):
        yield Left("calls.time_ns", 1, "an absolute clock: how long the machine had been up", True)
    if (bundle.end or {}).get("crash"):
        yield Left("end.json: crash", 1, "the exception that ended it", True)
    if (bundle.path / layout.STOPPED_FILE).exists():
        yield Left(layout.STOPPED_FILE, 1, "why its recording had to stop, in free words, and when", True)
    for name, end in ((bundle.end or {}).get("parts") or {}).items():
        odd = {k: v for k, v in end.items() if k not in redact.COUNTS and not (k == "reason" and v in redact.ENDS)}
        if odd:
            yield Left(f"end.json: {name}"[:80], len(odd), "how it ended, in free words", True)
    for part in bundle.parts:
        if not redact.NODE.fullmatch(part.node):
            yield Left(f"part {part.node}/{part.rank}", 1, "a node's own name", True)
        if part.engine.get("name") not in {*redact.ENGINES, "unknown"}:
            yield Left(f"{part.node}/{part.rank}: part.json: engine", 1, "an engine's own name", True)


def _files(bundle: Bundle) -> Iterator[Left]:
    """Say which files and columns are there that no version of this reader looks at."""
    known = {layout.BUNDLE_FILE, layout.END_FILE, layout.STOPPED_FILE, lock.LOCK_FILE}
    tables = {f"{name}{suffix}" for name in TABLES for suffix in (".parquet", ".arrows")}
    inner = {layout.PART_FILE, layout.COMMITS_FILE, layout.MANIFEST_FILE} | tables
    for path in sorted(bundle.path.rglob("*")):
        relative = path.relative_to(bundle.path)
        if path.is_dir() and not path.is_symlink():
            continue
        if relative.name not in (known if len(relative.parts) == 1 else inner):
            yield Left(str(relative)[:120], 1, "a file that is not part of a trace", True)
        elif path.suffix in (".parquet", ".arrows"):
            extra = sorted(set(_columns(path)) - set(TABLES[path.stem].names))
            if extra:
                yield Left(str(relative)[:120], len(extra), "columns that are not part of the table", True)


def _columns(path: Path) -> list[str]:
    if path.suffix == ".parquet":
        return list(pq.read_schema(path).names)
    with path.open("rb") as file, ipc.open_stream(file) as stream:
        return list(stream.schema.names)


def _table(part: Part, name: str, table: Table) -> Iterator[Left]:
    rows = part.table(name)
    if not rows.num_rows:
        return
    place = f"{part.node}/{part.rank}: {name}"
    if name in privacy.EMPTIED:
        yield Left(place, rows.num_rows, "tokens and hashes", True)
        return
    for column in table.columns:
        left = _column(part, table, column, rows[column.name])
        if left is not None:
            yield Left(f"{place}.{column.name}", *left)
    if name == "events":
        tokens = pc.and_(pc.equal(rows["kind"].cast(pa.string()), e.REMOTE_PREFILL_DONE), pc.greater(rows["value"], 0))
        if count := pc.sum(tokens).as_py():
            yield Left(f"{place}.value", count, "bootstrap tokens", True)


def _column(part: Part, table: Table, column: Column, values: pa.ChunkedArray) -> tuple[int, str, bool] | None:
    rule = privacy.rule_of(table, column)
    if rule.kind == "state" and column.name == "state":
        return len(values), "a state with tokens and hashes", part.token_mode == FULL
    if rule.kind == "dropped":
        count = len(values) - values.null_count if column.nullable else _filled(values)
        return (count, "tokens, hashes or free text", True) if count else None
    if rule.kind == "words":
        odd = _distinct(values) - rule.words - {"unknown"}
        return (len(odd), "words that are not of the closed list", True) if odd else None
    if rule.kind == "request":
        names = _distinct(values) - {""}
        odd = {name for name in names if not privacy.RENAMED.fullmatch(name)}
        return (len(names), "request ids", bool(odd)) if names else None
    if column.name == "pages" and table.name in ("submissions", "key_prefixes"):
        return len(values), "which prefix pages are equal", False
    if column.name in ("prompt_tokens", "token_count", "time_ns"):
        return len(values), {"time_ns": "times between things"}.get(column.name, "lengths"), False
    return None


def _distinct(values: pa.ChunkedArray) -> set[Any]:
    return {value for value in pc.unique(values.cast(pa.string())).to_pylist() if value is not None}


def _filled(values: pa.ChunkedArray) -> int:
    return sum(1 for value in values.to_pylist() if value)
