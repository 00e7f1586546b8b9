"""`redact`: nothing of the prompts is left, and what is left makes the same plans."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest

from tests.trace.lives import ROLES, record
from tests.trace.test_identity import needles, planted
from tsviz.replay.overview import overview
from tsviz.replay.redaction.redact import write_redacted
from tsviz.replay.redaction.survives import survey
from tsviz.replay.reexecution.verify import verify
from tsviz.replay.slice import write_slice
from tsviz.scheduler import compat
from tsviz.trace import privacy
from tsviz.trace.columns import INTS, TEXT, Table
from tsviz.trace.errors import CannotRecord
from tsviz.trace.merging import TIMES, first_ns, shifted
from tsviz.trace.reader import Bundle, open_bundle
from tsviz.trace.tables import RECORDED
from tsviz.trace.whole import WholePart, last_call, write_whole

SHIPPED = sorted(path.parent for path in (Path(__file__).resolve().parents[2] / "traces").glob("*/bundle.json"))
SECRET = "Q3-SECRET-zulu"


def storage(config: Any) -> None:
    """Have everything that can hold a hash: a host tier and a storage tier."""
    config.num_host_pages, config.enable_l3_storage, config.enable_kv_cache_events = 40, True, False


def everything(bundle: Bundle) -> str:
    """Return every value of every column and every JSON file as text, and the bytes of all files."""
    values = [{name: table.to_pylist() for name, table in part.tables().items()} for part in bundle.parts]  # type: ignore[union-attr]
    files = [path.read_bytes().decode("latin-1") for path in sorted(bundle.path.rglob("*")) if path.is_file()]
    return json.dumps(values, default=str) + "\0".join(files)


def digests(bundle: Bundle) -> list[list[int]]:
    """Return the structural digests of every part."""
    return [part.table("rounds")["digest_structural"].to_pylist() for part in bundle.parts]


@pytest.mark.parametrize("trace", SHIPPED, ids=lambda path: path.name)
def test_a_shipped_trace_makes_the_same_plans_without_its_prompts(tmp_path: Path, trace: Path) -> None:
    """Redacted, each has its structural digests, the twin makes them again, and the check finds nothing private."""
    bundle = open_bundle(trace)
    assert write_redacted(bundle, tmp_path / "out") == []
    out = open_bundle(tmp_path / "out")
    assert digests(out) == digests(bundle)
    assert all(verify(part, compat).complete for part in out.parts)
    assert [left for left in survey(out) if left.private] == []
    assert [left for left in survey(bundle) if left.private] != []


@pytest.mark.parametrize("role", ROLES)
def test_a_redacted_recording_is_the_one_that_would_have_been_made_without_tokens(
    real: ModuleType, tmp_path: Path, role: str
) -> None:
    """Full and redacted, or recorded with identity tokens: the same rows but for request ids, and no planted token."""
    for seed in range(400, 402):
        life = record(real, tmp_path / f"full{seed}", seed, role=role, tokens="full", token=planted, tune=storage)
        record(real, tmp_path / f"identity{seed}", seed, role=role, tokens="identity", token=planted, tune=storage)
        write_redacted(open_bundle(tmp_path / f"full{seed}"), tmp_path / f"out{seed}")
        write_redacted(open_bundle(tmp_path / f"identity{seed}"), tmp_path / f"again{seed}")
        out, again = open_bundle(tmp_path / f"out{seed}"), open_bundle(tmp_path / f"again{seed}")
        for name in set(RECORDED) - {"calls"}:  # how long a call took differs
            rows = [b.parts[0].table(name).to_pylist() for b in (out, again)]
            assert rows[0] == rows[1], (seed, name)
        text = everything(out)
        assert [n for n in needles(life) if n.decode("latin-1") in text] == []
        assert verify(out.parts[0], compat).complete
        assert [left for left in survey(out) if left.private] == []


def hostile(bundle: Bundle, out: Path) -> None:
    """Write a bundle with a secret in every string, token and hash column, in its config's engine and in its meta."""
    (part,) = bundle.parts
    tables = {name: with_secrets(table, part.table(name)) for name, table in RECORDED.items() if name != "keyframes"}
    meta = {**part.meta, "engine": {"name": SECRET, "version": SECRET}, "note": SECRET}
    end = {"parts": {"F/0": {"reason": SECRET, "rounds": 3, SECRET: 4}}, "error": SECRET, SECRET: SECRET}
    description = {**bundle.description, "meta": {"command": [SECRET], SECRET: 1, "scheduler": SECRET}, SECRET: SECRET}
    write_whole(out, description, [WholePart(meta, tables, part.last_round, last_call(tables["calls"]))], end)


def with_secrets(table: Table, rows: pa.Table) -> pa.Table:
    """Return rows whose strings, lists of tokens and nullable hashes hold a secret; at least one row each."""
    if not rows.num_rows:
        zero = {pa.bool_(): True, INTS: [], TEXT: "", pa.string(): "", pa.binary(): b""}
        rows = pa.Table.from_pylist([{c.name: zero.get(c.type, 0) for c in table.columns}], rows.schema)
    kept = {(name, column) for (name, column), rule in privacy.RULES.items() if rule is privacy.KEPT}
    count = rows.num_rows
    for at, column in enumerate(table.columns):
        if (table.name, column.name) in kept or column.name == "group":
            continue
        if column.type in (TEXT, pa.string()):
            values = pa.array([f"{SECRET}-{column.name}-{row}" for row in range(count)]).cast(column.type)
        elif column.type == INTS:
            values = pa.array([[planted(5), planted(6)]] * count, INTS)
        elif column.name in ("decode_input_token", "digest_content", "block_hash", "parent_hash"):
            values = pa.array([planted(7)] * count, column.type)
        else:
            continue
        rows = rows.set_column(at, column_field(rows, at), values)
    return rows


def column_field(rows: pa.Table, at: int) -> pa.Field:
    """Return a field of a table's schema."""
    return rows.schema.field(at)


def test_no_planted_secret_is_left_in_any_column_or_byte(tmp_path: Path) -> None:
    """A secret in every string, token and hash column, in the engine's name, the command and the reason: none is left.

    The check lists the trace that holds them, column by column, and nothing private of the redacted one.
    """
    trace = next(path for path in SHIPPED if path.name == "bounded-replay")
    hostile(open_bundle(trace), tmp_path / "planted")
    planted_bundle = open_bundle(tmp_path / "planted")
    before = {left.place.rpartition(": ")[2] for left in survey(planted_bundle) if left.private}
    text = [
        f"{name}.{c.name}" for name, table in RECORDED.items() for c in table.columns
        if c.type in (TEXT, pa.string()) and c.name != "group" and name not in privacy.EMPTIED
    ]  # fmt: skip
    assert before >= {*text, "submissions.tail", "events.tokens", "events.candidates", "prefix_pages", "kv_events"}
    write_redacted(planted_bundle, tmp_path / "out")
    out = open_bundle(tmp_path / "out")
    found = everything(out)
    assert SECRET not in found and SECRET.lower() not in found
    assert [n for n in (5, 6, 7) if str(planted(n)) in found] == []
    assert [left for left in survey(out) if left.private] == []


def test_no_absolute_clock_is_left(tmp_path: Path) -> None:
    """A machine that was up for 31,704 s: the first time becomes 0, differences stay, and the check says so."""
    (part,) = open_bundle(SHIPPED[0]).parts
    tables = {name: shifted(name, part.table(name), 31_704 * 10**9) for name in RECORDED}
    meta = {**part.meta, "clock": "monotonic"}
    end = {"parts": {}, "error": None, "reason": "the program ended"}
    description = open_bundle(SHIPPED[0]).description
    write_whole(
        tmp_path / "up", description, [WholePart(meta, tables, part.last_round, last_call(tables["calls"]))], end
    )
    up = open_bundle(tmp_path / "up")
    assert [left.what for left in survey(up) if "absolute clock" in left.what and left.private] != []
    write_redacted(up, tmp_path / "out")
    out = open_bundle(tmp_path / "out")
    assert [left for left in survey(out) if left.private] == []
    assert first_ns((name, out.parts[0].table(name)) for name in RECORDED) == 0
    for name in ("calls", "rounds", "submissions"):
        for column in TIMES[name]:
            moved = zip(part.table(name)[column].to_pylist(), out.parts[0].table(name)[column].to_pylist(), strict=True)
            assert len({a - b for a, b in moved if a is not None}) <= 1, (name, column)
    assert digests(out) == [part.table("rounds")["digest_structural"].to_pylist()]
    assert verify(out.parts[0], compat).complete
    told = overview(out)["parts"][0]
    starts = part.table("rounds")["start_ns"].to_pylist()
    assert (told["ended"], told["seconds"]) == ("the program ended", round((starts[-1] - starts[0]) / 1e9, 3))


def test_a_group_whose_name_may_tell_something_is_refused(tmp_path: Path) -> None:
    """Names of cache groups are in the digests and stay: one with a capital is refused, and nothing is written."""
    bundle = open_bundle(SHIPPED[0])
    bundle.parts[0].config["cache_groups"][0]["group_id"] = "Customer A"
    with pytest.raises(CannotRecord, match="a cache group has a name that may tell something"):
        write_redacted(bundle, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_new_names_have_the_byte_order_of_the_old_ones() -> None:
    """`Z` before `a` before `é`, as bytes are ordered; eleven names are padded to equal length."""
    assert privacy.new_names(["é", "a", "Z"]) == {"Z": "r0", "a": "r1", "é": "r2"}
    assert privacy.new_names(map(str, range(11)))["9"] == "r10"


def test_every_column_that_is_no_number_has_a_rule() -> None:
    """A string, list, hash or binary column of a recorded table is never kept by default."""
    for name, table in RECORDED.items():
        for column in table.columns:
            if name not in privacy.EMPTIED and column.type not in (pa.int32(), pa.int64(), pa.bool_()):
                assert (name, column.name) in privacy.RULES or privacy.rule_of(table, column) is privacy.DROPPED


def test_a_redacted_slice_goes_on_from_its_keyframe(tmp_path: Path) -> None:
    """A slice of a trace with identity tokens re-executes when it is redacted, under the new request ids."""
    trace = next(path for path in SHIPPED if path.name == "escalating-headroom")
    bundle = open_bundle(trace)
    write_slice(bundle, bundle.parts[0], 40, 90, tmp_path / "slice")
    assert write_redacted(open_bundle(tmp_path / "slice"), tmp_path / "out") == []
    out = open_bundle(tmp_path / "out")
    found = verify(out.parts[0], compat)
    assert (found.complete, found.verified_rounds) == (True, 51)
    assert digests(out)[0] == digests(bundle)[0][39:90]
    assert [left for left in survey(out) if left.private] == []


def test_a_redacted_slice_of_full_tokens_has_no_keyframe(tmp_path: Path) -> None:
    """Its keyframe is full of hashes of prompts: it is left out, which `redact` and `info` say, with what helps."""
    trace = next(path for path in SHIPPED if path.name == "head-of-line")
    bundle = open_bundle(trace)
    write_slice(bundle, bundle.parts[0], 20, 40, tmp_path / "slice")
    (words,) = write_redacted(open_bundle(tmp_path / "slice"), tmp_path / "out")
    assert "its keyframe" in words and "cannot be re-executed" in words and "redact that and slice" in words
    out = open_bundle(tmp_path / "out")
    assert out.parts[0].rows("keyframes") == 0
    (warned,) = overview(out)["warnings"]
    assert "no keyframe there (redaction left it out): it opens and steps, but cannot be re-executed" in warned
    write_redacted(bundle, tmp_path / "whole")
    whole = open_bundle(tmp_path / "whole")
    write_slice(whole, whole.parts[0], 20, 40, tmp_path / "again")
    assert verify(open_bundle(tmp_path / "again").parts[0], compat).verified_rounds == 21
