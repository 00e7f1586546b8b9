"""What a recorded column may give away, and what takes its place when a trace is redacted (architecture.md, section 7).

Every column of the recorded tables that is not a plain number or flag has its rule here; numbers are lengths, times,
positions and counters, which survive, but for those that `TOKENS` names.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from . import entries as e
from .catalogue import TABLES
from .columns import TEXT, Column, Table

RENAMED = re.compile(r"r\d{1,19}")
"""What a request id looks like behind a redaction."""
RING = "ring: older than what is kept"
RESTART = "restart: its process ended and another one went on"
BEHIND = "the writer fell behind"
LOST = "not committed when its process ended"
REASONS = frozenset((RING, RESTART, BEHIND, LOST))
"""Reasons of gaps that are our own words."""
PLAIN_GROUP = re.compile(r"[a-z0-9_.-]{1,16}")
"""Names of cache groups are in the digests and stay; one that is not of this form is refused."""

_EXCEPTIONS = frozenset(
    name for name, value in vars(builtins).items() if isinstance(value, type) and issubclass(value, BaseException)
)
_CALLS = frozenset((e.SUBMIT, e.ADVANCE, e.PLAN, e.REGISTER_KEYS, e.UNREGISTER_KEYS, e.CLEAR, e.CLEAR_L1, e.DRAIN))
_EVENTS = frozenset(
    (e.EXTEND_RESULT, e.FINISH, e.ABORT, e.RETRACT, e.UPDATE_RESERVE, e.WRITE_BACK_DONE, e.LOAD_BACK_DONE,
     e.BOOTSTRAPPED, e.FAILED, e.SUCCEEDED, e.REMOTE_PREFILL_DONE)
)  # fmt: skip
_STREAMS = ("default", "exec", "write", "load", "peer", "host", "backup")
_OPERATIONS = (
    "store_ordered", "store_pinned", "zero", "load", "prologue", "layer", "epilogue", "result", "commit", "fetch",
    "backup", "land", "receive", "send",
)  # fmt: skip
_SPACES = ("device", "host", "result")


@dataclass(frozen=True, slots=True)
class Rule:
    """What happens to a column: words of a closed list stay, ids are renamed, the rest is dropped or stays as it is."""

    kind: str
    words: frozenset[str] = frozenset()


DROPPED, REQUEST, GROUP, KEPT, STATE = Rule("dropped"), Rule("request"), Rule("group"), Rule("kept"), Rule("state")
EMPTIED = frozenset(("prefix_pages", "kv_events", "page_crcs"))
"""Tables that are content and nothing else."""


def _words(*words: str) -> Rule:
    return Rule("words", frozenset(words))


RULES: Mapping[tuple[str, str], Rule] = {
    ("calls", "kind"): _words(*_CALLS),
    ("calls", "outcome"): _words("ok", *_EXCEPTIONS),
    ("calls", "error"): DROPPED,
    ("submissions", "request"): REQUEST,
    ("submissions", "pages"): KEPT,
    ("submissions", "tail"): DROPPED,
    ("submissions", "after"): REQUEST,
    ("events", "kind"): _words(*_EVENTS),
    ("events", "request"): REQUEST,
    ("events", "tokens"): DROPPED,
    ("events", "candidates"): DROPPED,
    ("storage_keys", "content_hash"): DROPPED,
    ("key_prefixes", "pages"): KEPT,
    ("rounds", "digest_structural"): KEPT,
    ("rounds", "digest_content"): DROPPED,
    ("operations", "kind"): _words("prefill", "decode", "remote_prefill", "remote_decode"),
    ("operations", "request"): REQUEST,
    ("operations", "decode_input_token"): DROPPED,
    ("table_changes", "group"): GROUP,
    ("table_changes", "request"): REQUEST,
    ("table_changes", "pages"): KEPT,
    ("zeroed", "group"): GROUP,
    ("transfers", "kind"): _words("write_back", "load_back"),
    ("transfers", "content_hash"): DROPPED,
    ("forward_rows", "request"): REQUEST,
    ("forward_rows", "top2_margin"): DROPPED,
    ("device_ops", "stream"): _words(*_STREAMS),
    ("device_ops", "kind"): _words(*_OPERATIONS),
    ("device_ops", "waits"): KEPT,
    ("device_ops", "seen"): KEPT,
    ("device_ranges", "space"): _words(*_SPACES),
    ("keyframes", "digest_state"): STATE,
    ("keyframes", "state"): STATE,
    ("gaps", "table"): _words(*TABLES),
    ("gaps", "reason"): _words(*REASONS),
}


def rule_of(table: Table, column: Column) -> Rule:
    """Return the rule of a column of a recorded table; a column without one, of a newer schema, is dropped."""
    if table.name in EMPTIED:
        return DROPPED
    found = RULES.get((table.name, column.name))
    if found is None:
        found = KEPT if pa.types.is_boolean(column.type) or column.type in (pa.int32(), pa.int64()) else DROPPED
    return found


def new_names(requests: Iterable[str]) -> dict[str, str]:
    """Return a new name for every request id. The names have the byte order of the ids, by which victim ties go."""
    ordered = sorted(set(requests), key=lambda name: name.encode("utf-8", "surrogatepass"))
    width = len(str(max(len(ordered) - 1, 0)))
    return {name: f"r{index:0{width}d}" for index, name in enumerate(ordered)}


def request_ids(tables: Mapping[str, pa.Table]) -> set[str]:
    """Return every request id that stands in recorded tables."""
    found: set[str] = set()
    for (name, column), rule in RULES.items():
        if rule is REQUEST and name in tables:
            found.update(value for value in pc.unique(tables[name][column].cast(pa.string())).to_pylist() if value)
    return found


def redacted(table: Table, rows: pa.Table, names: Mapping[str, str]) -> pa.Table:
    """Return the rows of a table without what its rules take away. Nothing of a column's old dictionary stays."""
    if table.name in EMPTIED:
        return table.schema.empty_table()
    return pa.Table.from_arrays([_column(table, c, rows[c.name], names) for c in table.columns], schema=table.schema)


def without_bootstrap_tokens(events: pa.Table) -> pa.Table:
    """Return events whose bootstrap token says only whether there was one (0), or a refusal (-1)."""
    remote = pc.equal(events["kind"].cast(pa.string()), e.REMOTE_PREFILL_DONE)
    plain = pc.if_else(pc.less(events["value"], 0), pa.scalar(-1, pa.int32()), pa.scalar(0, pa.int32()))
    at = events.schema.get_field_index("value")
    return events.set_column(at, events.schema.field(at), pc.if_else(remote, plain, events["value"]))


def _column(table: Table, column: Column, values: pa.ChunkedArray, names: Mapping[str, str]) -> pa.Array:
    rule = rule_of(table, column)
    if rule.kind in ("kept", "state"):
        return values.combine_chunks() if values.num_chunks != 1 else values.chunk(0)
    if rule.kind == "dropped":
        return pa.nulls(len(values), column.type) if column.nullable else _empty(column, len(values))
    words = values.cast(pa.string()).combine_chunks().dictionary_encode()
    known = [_word(rule, word, names) for word in words.dictionary.to_pylist()]
    plain = pa.DictionaryArray.from_arrays(words.indices, pa.array(known, pa.string())).dictionary_decode()
    return plain.dictionary_encode().cast(TEXT) if column.type == TEXT else plain


def _word(rule: Rule, word: str, names: Mapping[str, str]) -> str:
    if rule.kind == "request":
        return names[word] if word else ""
    if rule.kind == "group" or word in rule.words:
        return word
    return "unknown"


def _empty(column: Column, count: int) -> pa.Array:
    zero = "" if column.type in (TEXT, pa.string()) else b"" if column.type == pa.binary() else 0
    return pa.array([[] if pa.types.is_list(column.type) else zero] * count, column.type)
