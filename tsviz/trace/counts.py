"""Tables of a part that must have as many rows as another one says: what a checksum of a forged file does not show.

Every call that was recorded names how many rows hang off it, and every plan how many rows it scheduled
(architecture.md, section 5, *Recorded*), so a table that was left out or cut is found without making a call again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from . import entries as e
from .errors import Damaged
from .gaps import LostRounds
from .tables import RECORDED

_SCHEDULED = ("prefill_rows", "decode_rows", "remote_prefill_rows", "remote_decode_rows")


def check_calls(path: Path, rows: int, last_seq: int) -> None:
    """Refuse a manifest or a commit whose log of calls is not the one that it counts: no call is ever dropped.

    `path` is the file that says so. Raises `Damaged`.
    """
    if rows != last_seq + 1:
        raise Damaged(path, "tables, calls", f"{last_seq + 1} rows (the last call is {last_seq})", f"{rows} rows")


Read = Callable[[str, Sequence[str]], pa.Table]


def check_counts(path: Path, read: Read, rows: Callable[[str], int], *, plans: bool = True) -> None:
    """Compare rows of tables with what calls and rounds say of them.

    `read` returns columns of a table, `rows` how many rows one has; `path` is the file that counts them; `plans`:
    whether plans were recorded, and not only that they were asked for. Raises `Damaged` for the first table that has
    other rows.
    """
    for name, expected, why in _expected(read):
        if rows(name) != expected and (plans or name != "operations"):
            raise Damaged(path, f"tables, {name}", f"{expected} rows ({why})", f"{rows(name)} rows")
    if rows("operations") and not rows("table_changes"):
        raise Damaged(path, "tables, table_changes", "block tables of the scheduled rows", "0 rows")


def _expected(read: Read) -> Iterator[tuple[str, int, str]]:
    rounds, calls = read("rounds", _SCHEDULED), read("calls", ("kind", "outcome", "items"))
    groups = calls.group_by(["kind", "outcome"]).aggregate([("items", "sum"), ("items", "count")]).to_pylist()
    items: Counter[str] = Counter()
    for group in groups:
        items[group["kind"]] += group["items_sum"]
    plans = sum(group["items_count"] for group in groups if (group["kind"], group["outcome"]) == (e.PLAN, "ok"))
    lost = len(LostRounds(read("gaps", RECORDED["gaps"].names)))
    yield "rounds", plans - lost, "plans that did not raise" + (" and were not dropped" if lost else "")
    yield "submissions", items[e.SUBMIT], "requests in submit calls"
    yield "events", items[e.ADVANCE], "events in advance calls"
    yield "operations", sum(pc.sum(rounds[name]).as_py() or 0 for name in _SCHEDULED), "rows of the plans"
