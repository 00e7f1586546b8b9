"""Bundles that were made to harm: everything is refused by name before it is used or allocated."""

from __future__ import annotations

import io
import json
import os
import shutil
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.ipc as ipc
import pyarrow.parquet as pq
import pytest

from tests.trace.lives import record
from tests.trace.reading_process import everything
from tsviz.trace import layout
from tsviz.trace.compact import file_crc, footer_crc
from tsviz.trace.errors import Damaged, NewerSchema, NotABundle, TraceError
from tsviz.trace.reader import open_bundle
from tsviz.trace.segments import commit_line
from tsviz.trace.tables import RECORDED

ROOT = Path(__file__).resolve().parents[2]
PART = Path("parts") / "N.0"


@pytest.fixture(scope="module")
def recorded(real: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One lifetime in both forms."""
    folder = tmp_path_factory.mktemp("recorded")
    for form in ("hot", "cold"):
        record(real, folder / form, 100, compacted=form == "cold", steps=60)
    return {form: folder / form for form in ("hot", "cold")}


@pytest.fixture
def hot(recorded: dict[str, Path], tmp_path: Path) -> Path:
    """A hot bundle to change."""
    return Path(shutil.copytree(recorded["hot"], tmp_path / "hot"))


@pytest.fixture
def cold(recorded: dict[str, Path], tmp_path: Path) -> Path:
    """A cold bundle to change."""
    return Path(shutil.copytree(recorded["cold"], tmp_path / "cold"))


def change_json(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change the values of a JSON file, its CRC included, as somebody who knows the format would."""
    values = json.loads(path.read_text())
    values.pop("crc")
    change(values)
    layout.write_json(path, values)


def set_hot(bundle: Path, name: str, data: bytes, rows: int) -> None:
    """Replace a hot table, with a commit that agrees."""
    (bundle / PART / "hot" / f"{name}.arrows").write_bytes(data)
    commits = bundle / PART / "hot" / "commits.jsonl"
    line = json.loads(commits.read_bytes().splitlines()[-1].rpartition(b" ")[0])
    line["commit"], line["tables"][name] = 0, [len(data), zlib.crc32(data), rows]
    commits.write_bytes(commit_line(line))


def stream(schema: pa.Schema, *batches: pa.RecordBatch) -> bytes:
    """Return an IPC stream."""
    sink = io.BytesIO()
    with ipc.new_stream(sink, schema, options=ipc.IpcWriteOptions(compression="zstd", allow_64bit=True)) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue()


def set_cold(bundle: Path, name: str, table: pa.Table, **claims: int) -> None:
    """Replace a cold table, with a manifest that agrees but for `claims`."""
    path = bundle / PART / "cold" / f"{name}.parquet"
    pq.write_table(table, path)
    entry = {
        "rows": table.num_rows,
        "bytes": path.stat().st_size,
        "crc": file_crc(path),
        "footer_crc": footer_crc(path),
    }
    change_json(bundle / PART / "cold" / "manifest.json", lambda m: m["tables"].__setitem__(name, entry | claims))


def zeroed(rows: int) -> pa.RecordBatch:
    """Return valid rows of the table `zeroed`."""
    table = RECORDED["zeroed"]
    group = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array(["full"]))
    return pa.RecordBatch.from_arrays(
        [pa.array([1] * rows, pa.int32()), group, pa.array(range(rows), pa.int32())], schema=table.schema
    )


# --- things that are not bundles -------------------------------------------------------------------------------------


def test_what_is_no_bundle_is_said_to_be_none(tmp_path: Path) -> None:
    """Nothing, a file, an empty directory, a foreign directory and a foreign bundle.json are no bundles."""
    (tmp_path / "file").write_text("x")
    (tmp_path / "empty").mkdir()
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "notes.txt").write_text("x")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "bundle.json").write_text('{"format": "something else"}')
    for name in ("nothing", "file", "empty", "foreign", "other"):
        with pytest.raises(NotABundle, match=name):
            open_bundle(tmp_path / name)


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", "null", "1", '"x"', "{}", '{"format": 1}', "\xff\xfe", '{"format": "tsviz-bundle"}',
        '{"format": "tsviz-bundle", "schema": 1}', '{"format": "tsviz-bundle", "schema": "1"}',
        '{"format": "tsviz-bundle", "schema": "x.y"}', '{"format": "tsviz-bundle", "schema": "0.9"}',
        '{"format": "tsviz-bundle", "schema": "1.0"}', "[" * 200_000, '{"format": ' + "9" * 6000 + "}",
        '{"a": NaN' + "}", "{" + '"a":' * 50_000,
    ],
)  # fmt: skip
def test_json_that_makes_no_sense_is_refused(hot: Path, text: str) -> None:
    """Broken, foreign, deep and huge JSON in any of the small files is a TraceError."""
    for path in (hot / "bundle.json", hot / PART / "part.json", hot / "end.json"):
        before = path.read_bytes()
        path.write_bytes(text.encode("latin-1"))
        with pytest.raises(TraceError):
            everything(hot)
        path.write_bytes(before)


def test_a_json_file_that_is_too_large_is_refused_unread(hot: Path) -> None:
    """A sparse part.json of a terabyte is refused by its size."""
    with (hot / PART / "part.json").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(Damaged, match=r"part\.json: size: expected at most 16777216 bytes, found 1099511627776 bytes"):
        open_bundle(hot)


# --- versions --------------------------------------------------------------------------------------------------------


def test_a_newer_major_is_refused_with_a_way_out(cold: Path) -> None:
    """A bundle of schema 2 says what it is and what to do, even where its CRC is made in another way."""
    change_json(cold / "bundle.json", lambda v: v.update(schema="2.0"))
    with pytest.raises(NewerSchema, match=r"schema: expected at most 1\.x \(upgrade tsviz to read it\), found 2\.0"):
        open_bundle(cold)
    values = json.loads((cold / "bundle.json").read_text())
    (cold / "bundle.json").write_text(json.dumps(values | {"crc": "another way"}))
    with pytest.raises(NewerSchema):
        open_bundle(cold)


@pytest.mark.parametrize("form", ["hot", "cold"])
def test_a_newer_minor_opens_without_what_is_new(recorded: dict[str, Path], tmp_path: Path, form: str) -> None:
    """Schema 1.99 with an unknown table, column, commit entry and JSON field reads like 1.0."""
    bundle = Path(shutil.copytree(recorded[form], tmp_path / form))
    for path in (bundle / "bundle.json", bundle / PART / "part.json", bundle / "end.json"):
        change_json(path, lambda v: v.update(novelty=[1, {"x": None}]))
    change_json(bundle / "bundle.json", lambda v: v.update(schema="1.99"))
    batch = zeroed(3)
    columns = {"novelty": pa.array([{"a": [1.5]}] * 3), **{n: batch.column(n) for n in batch.schema.names}}
    wide = pa.RecordBatch.from_pydict(
        columns, schema=pa.schema([pa.field("novelty", columns["novelty"].type), *batch.schema])
    )
    if form == "hot":
        set_hot(bundle, "novel_table", b"whatever", 7)
        set_hot(bundle, "zeroed", stream(wide.schema, wide), 3)
    else:
        change_json(
            bundle / PART / "cold" / "manifest.json",
            lambda m: m["tables"].update(novel={"rows": 1, "bytes": 2, "crc": 3, "footer_crc": 4, "more": 5}),
        )
        set_cold(bundle, "zeroed", pa.Table.from_batches([wide]))
    assert open_bundle(bundle).schema == "1.99"
    found = everything(bundle)
    assert found["N/0 zeroed"][1] == batch.to_pylist()
    assert found["N/0 calls"] == everything(recorded[form])["N/0 calls"]


def test_an_older_minor_without_a_nullable_column_opens(hot: Path) -> None:
    """A column that a later MINOR adds is nullable, and null where a file does not have it."""
    table = RECORDED["kv_events"]
    older = pa.schema([f for f in table.schema if f.name not in ("tokens", "block_tokens")])
    empty = pa.RecordBatch.from_pylist(
        [{"call_seq": 1, "round": 1, "item": 0, "kind": "BlockRemoved", "block_hash": 5, "parent_hash": None}],
        schema=older,
    )
    set_hot(hot, "kv_events", stream(older, empty), 1)
    (row,) = open_bundle(hot).parts[0].table("kv_events").to_pylist()
    assert (row["block_hash"], row["tokens"], row["block_tokens"]) == (5, None, None)


# --- paths -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("node", ["..", ".", "", "a/b", "../../etc", "a\0b", "N.0", "é", "x" * 65, "N\n", 5, None])
def test_a_node_name_that_could_be_a_path_is_refused(hot: Path, node: object) -> None:
    """Names of nodes are letters, digits, - and _; a name cannot lead out of the bundle."""
    change_json(hot / "bundle.json", lambda v: v.update(parts=[{"node": node, "rank": 0}]))
    with pytest.raises(Damaged):
        open_bundle(hot)


@pytest.mark.parametrize("rank", [-1, 1 << 30, 10**60, "0", 0.5, True, None])
def test_a_rank_that_is_none_is_refused(hot: Path, rank: object) -> None:
    """A rank is a small number."""
    change_json(hot / "bundle.json", lambda v: v.update(parts=[{"node": "N", "rank": rank}]))
    with pytest.raises(Damaged):
        open_bundle(hot)


@pytest.mark.parametrize("parts", [[], {}, [[]], [{}], [{"node": "N", "rank": 0}] * 2, [{"node": "M", "rank": 0}]])
def test_parts_that_are_not_there_or_not_their_own_are_refused(hot: Path, parts: object) -> None:
    """No part, a part twice and a part without a directory are errors."""
    change_json(hot / "bundle.json", lambda v: v.update(parts=parts))
    with pytest.raises(Damaged):
        everything(hot)


@pytest.mark.parametrize(
    "name", ["bundle.json", "end.json", "parts", PART, PART / "part.json", PART / "hot", PART / "hot" / "calls.arrows",
             PART / "hot" / "commits.jsonl"],
)  # fmt: skip
def test_a_link_in_a_bundle_is_refused(hot: Path, tmp_path: Path, name: Path | str) -> None:
    """No file or directory of a bundle may be a link, wherever it points: here to the very same bytes elsewhere."""
    elsewhere = tmp_path / "elsewhere"
    (hot / name).rename(elsewhere)
    (hot / name).symlink_to(elsewhere)
    with pytest.raises(TraceError):
        everything(hot)


@pytest.mark.parametrize("name", [Path("cold"), Path("cold") / "manifest.json", Path("cold") / "calls.parquet"])
def test_a_link_in_a_cold_part_is_refused(cold: Path, tmp_path: Path, name: Path) -> None:
    """The same of compacted tables."""
    elsewhere = tmp_path / "elsewhere"
    (cold / PART / name).rename(elsewhere)
    (cold / PART / name).symlink_to(elsewhere)
    with pytest.raises(TraceError):
        everything(cold)


def test_a_pipe_in_a_bundle_does_not_hang_the_reader(hot: Path) -> None:
    """A file that is a pipe is refused, not waited for."""
    for name in (PART / "hot" / "calls.arrows", PART / "part.json"):
        (hot / name).unlink()
        os.mkfifo(hot / name)
        with pytest.raises(Damaged, match="plain file"):
            everything(hot)


# --- sizes and contents ----------------------------------------------------------------------------------------------


def in_little_memory(bundle: Path, name: str) -> str:
    """Read a table in a process with 3 GiB of address space; return its error."""
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))\n"
        "from tsviz.trace.reader import open_bundle\nfrom tsviz.trace.errors import TraceError\n"
        "try: open_bundle(sys.argv[1]).parts[0].table(sys.argv[2])\n"
        "except TraceError as error: print(error)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, str(bundle), name],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=60,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-800:]
    return run.stdout


@pytest.mark.parametrize("claim", ["rows", "bytes"])
def test_a_commit_that_claims_absurd_sizes_is_refused(hot: Path, claim: str) -> None:
    """2^40 rows or bytes in a commit are refused, in little memory."""
    data = stream(RECORDED["zeroed"].schema, zeroed(3))
    set_hot(hot, "zeroed", data, 1 << 40 if claim == "rows" else 3)
    if claim == "bytes":
        commits = hot / PART / "hot" / "commits.jsonl"
        line = json.loads(commits.read_bytes().rpartition(b" ")[0])
        line["tables"]["zeroed"][0] = 1 << 40
        commits.write_bytes(commit_line(line))
    assert "1099511627776" in in_little_memory(hot, "zeroed")


def test_a_batch_with_absurdly_many_rows_is_refused(hot: Path) -> None:
    """A few hundred bytes that are 2^40 valid rows of nulls do not become rows."""
    nothing = pa.RecordBatch.from_arrays([pa.Array.from_buffers(pa.null(), 1 << 40, [None])], names=["novelty"])
    set_hot(hot, "zeroed", stream(nothing.schema, nothing), 1 << 40)
    assert "column round: expected one column, found 0" in in_little_memory(hot, "zeroed")


def test_a_buffer_that_claims_to_unpack_to_a_terabyte_is_refused(hot: Path) -> None:
    """A compressed buffer whose stated length is 2^40 is an error, not an allocation that kills the reader."""
    data = stream(RECORDED["zeroed"].schema, zeroed(3))
    magic = b"\x28\xb5\x2f\xfd"
    bomb = data.replace(struct.pack("<q", 12) + magic, struct.pack("<q", 1 << 40) + magic)
    assert bomb != data
    set_hot(hot, "zeroed", bomb, 3)
    assert "zeroed.arrows: content: expected an Arrow stream" in in_little_memory(hot, "zeroed")


def test_a_row_group_that_claims_absurdly_many_rows_is_refused(cold: Path) -> None:
    """More rows in a row group than are ever written are refused before they are read."""
    table = pa.Table.from_batches([zeroed(1)])
    big = pa.table(
        {"round": pa.repeat(pa.scalar(1, pa.int32()), 1 << 22),
         "group": pa.repeat(pa.scalar("full"), 1 << 22).dictionary_encode(),
         "page": pa.repeat(pa.scalar(1, pa.int32()), 1 << 22)}, schema=table.schema,
    )  # fmt: skip
    path = cold / PART / "cold" / "zeroed.parquet"
    set_cold(cold, "zeroed", table)
    pq.write_table(big, path, row_group_size=1 << 22)
    entry = {"rows": 1 << 22, "bytes": path.stat().st_size, "crc": file_crc(path), "footer_crc": footer_crc(path)}
    change_json(cold / PART / "cold" / "manifest.json", lambda m: m["tables"].__setitem__("zeroed", entry))
    assert "row group 0: expected at most 2097152 rows, found 4194304" in in_little_memory(cold, "zeroed")


@pytest.mark.parametrize("claims", [{"rows": 1 << 40}, {"bytes": 1 << 40}, {"crc": 0}, {"footer_crc": 0}, {"rows": 2}])
def test_a_manifest_that_contradicts_a_file_is_refused(cold: Path, claims: dict[str, int]) -> None:
    """Rows, bytes and checksums of the manifest are compared with the file, whole or as a dataset."""
    set_cold(cold, "zeroed", pa.Table.from_batches([zeroed(3)]), **claims)
    part = open_bundle(cold).parts[0]
    if "footer_crc" in claims or claims.get("rows", 0) > 2:
        from tsviz.trace.cold import ColdTables

        store = ColdTables(cold / PART / "cold")
        if "footer_crc" in claims:
            with pytest.raises(Damaged, match="footer"):
                store.dataset(RECORDED["zeroed"])
            return
    with pytest.raises(Damaged, match=r"zeroed\.parquet"):
        part.table("zeroed")


def broken_columns() -> dict[str, tuple[str, pa.RecordBatch]]:
    """Return batches that are well-formed Arrow and still must not be used: table and batch by what is wrong."""
    good = zeroed(2)
    rounds, group, page = good.columns
    table = RECORDED["zeroed"].schema
    nothing = pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int32()), pa.array(["full", None]))
    beyond = pa.DictionaryArray.from_arrays(pa.array([0, 7], pa.int32()), pa.array(["full"]), safe=False)
    latin = pa.DictionaryArray.from_arrays(
        pa.array([0, 0], pa.int32()),
        pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff")]),
    )
    nullable = pa.schema([f.with_nullable(True) for f in table])
    changes = RECORDED["table_changes"].schema
    row = {"round": 1, "group": "full", "request": "a", "submission": 0, "fresh": True, "first_slot": 0,
           "pages": [1, None], "length_slots": 2}  # fmt: skip
    return {
        "a null where none may be": ("zeroed", pa.RecordBatch.from_arrays(
            [pa.array([1, None], pa.int32()), group, page], schema=nullable)),
        "a null word": ("zeroed", pa.RecordBatch.from_arrays([rounds, nothing, page], schema=table)),
        "a code beyond the dictionary": ("zeroed", pa.RecordBatch.from_arrays([rounds, beyond, page], schema=table)),
        "a word that is no UTF-8": ("zeroed", pa.RecordBatch.from_arrays([rounds, latin, page], schema=table)),
        "another type": ("zeroed", pa.RecordBatch.from_pydict(
            {"round": pa.array([1, 2], pa.int64()), "group": group, "page": page})),
        "a missing column": ("zeroed", pa.RecordBatch.from_pydict({"round": rounds, "page": page})),
        "a column twice": ("zeroed", pa.RecordBatch.from_arrays(
            [rounds, rounds, group, page], names=["round", "round", "group", "page"])),
        "a null in a list": ("table_changes", pa.RecordBatch.from_pylist([row], schema=changes)),
    }  # fmt: skip


@pytest.mark.parametrize("wrong", list(broken_columns()))
def test_arrow_is_validated_before_it_is_used(hot: Path, wrong: str) -> None:
    """Nulls, dictionary codes, UTF-8, types and columns are checked; what is wrong is named."""
    name, batch = broken_columns()[wrong]
    set_hot(hot, name, stream(batch.schema, batch), batch.num_rows)
    with pytest.raises(Damaged, match=rf"{name}\.arrows: "):
        open_bundle(hot).parts[0].table(name)


def test_list_offsets_that_run_backwards_are_refused(hot: Path) -> None:
    """Offsets of a list column that point outside its values do not reach memory that is not theirs."""
    changes = RECORDED["table_changes"]
    row = {"round": 1, "group": "full", "request": "a", "submission": 0, "fresh": True, "first_slot": 0,
           "pages": [1, 2], "length_slots": 2}  # fmt: skip
    batch = pa.RecordBatch.from_pylist([row, row], schema=changes.schema)
    offsets = pa.py_buffer(b"".join(v.to_bytes(4, "little") for v in (0, 1 << 30, 2)))
    lists = pa.Array.from_buffers(pa.list_(pa.int32()), 2, [None, offsets], children=[pa.array([1, 2], pa.int32())])
    columns = [lists if name == "pages" else batch.column(name) for name in changes.names]
    broken = pa.RecordBatch.from_arrays(columns, schema=changes.schema)
    set_hot(hot, "table_changes", stream(changes.schema, broken), 2)
    with pytest.raises(Damaged, match=r"table_changes\.arrows: "):
        open_bundle(hot).parts[0].table("table_changes")


@pytest.mark.parametrize(
    "line",
    [b"{}", b"[]", b'{"commit":0}', b'{"commit":1,"last_round":1,"last_seq":1,"tables":{},"final":true}',
     b'{"commit":0,"final":true,"last_round":1,"last_seq":1,"tables":{"calls":[-1,0,0]}}',
     b'{"commit":0,"final":true,"last_round":1,"last_seq":1,"tables":{"calls":[1,2]}}',
     b'{"commit":0,"final":true,"last_round":"1","last_seq":1,"tables":{}}'],
)  # fmt: skip
def test_a_commit_that_makes_no_sense_is_refused(hot: Path, line: bytes) -> None:
    """A commit with a right CRC and wrong contents is named by its line."""
    commits = hot / PART / "hot" / "commits.jsonl"
    commits.write_bytes(line + b" %08x\n" % zlib.crc32(line))
    with pytest.raises(Damaged, match=r"commits\.jsonl: "):
        open_bundle(hot).parts[0].table("calls")
