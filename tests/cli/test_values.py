"""Values of every SQL type in the text formats, flat and nested (docs/formats.md)."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from tsviz.cli.output import Format, Held, write

from .conftest import Tsviz

DAY, TIME = "date '2026-01-02'", "timestamp '2026-01-02 03:04:05.678901'"
VALUES: list[tuple[str, Any]] = [
    ("12::decimal(10, 0)", 12),
    ("12.50::decimal(10, 2)", "12.50"),
    ("-0.05::decimal(10, 2)", "-0.05"),
    ("99999999999999999999999999999999999999::hugeint", 10**38 - 1),
    ("18446744073709551615::ubigint", 2**64 - 1),
    ("'nan'::double", "NaN"),
    ("'-inf'::float", "-Infinity"),
    ("'\\x00\\xFF'::blob", "00ff"),
    (DAY, "2026-01-02"),
    ("time '03:04:05'", "03:04:05.000000"),
    (TIME, "2026-01-02 03:04:05.678901"),
    ("timestamp_s '2026-01-02 03:04:05'", "2026-01-02 03:04:05"),
    ("timestamp_ns '2026-01-02 03:04:05.123456789'", "2026-01-02 03:04:05.123456789"),
    ("timestamptz '2026-01-02 03:04:05+02'", "2026-01-02 01:04:05.000000+00"),
    ("'infinity'::timestamp", "infinity"),
    ("'-infinity'::date", "-infinity"),
    ("interval '14 months 3 days 04:05:06.789'", "1 year 2 months 3 days 04:05:06.789"),
    ("interval '-3 hours'", "-03:00:00"),
    ("interval 0 days", "00:00:00"),
    ("'x'::enum('x', 'y')", "x"),
    ("uuid '00000000-0000-0000-0000-000000000001'", "00000000-0000-0000-0000-000000000001"),
    ("[1, null, 3]", [1, None, 3]),
    ("[4, 5]::integer[2]", [4, 5]),
    ("{'a': 1, 'b': null}", {"a": 1, "b": None}),
    ("map {'k': 1, 'j': null}", {"k": 1, "j": None}),
    ("map {7: 'x'}", {"7": "x"}),
    ("union_value(a := 3)", 3),
    ("null::integer", None),
]
"""SQL, and what it is in JSON."""
IDS = [sql for sql, _ in VALUES]


def table(*expressions: str) -> pa.Table:
    """Return a table of a row with these values and a row of nulls."""
    columns = ", ".join(f"{sql} as c{n}" for n, sql in enumerate(expressions))
    with duckdb.connect() as connection:
        connection.execute("set timezone = 'UTC'")
        found = connection.sql(f"select {columns}").to_arrow_table()
    nulls = pa.Table.from_arrays([pa.nulls(1, field.type) for field in found.schema], schema=found.schema)
    return pa.concat_tables([found, nulls]).combine_chunks()


def written(rows: pa.Table, form: Format) -> str:
    """Return rows in a format."""
    out = io.BytesIO()
    write(Held(rows), form, out)
    return out.getvalue().decode()


@pytest.mark.parametrize(("sql", "value"), VALUES, ids=IDS)
def test_a_value_by_its_type(sql: str, value: Any) -> None:
    """Every type is what docs/formats.md says, alone and inside lists, structs and maps; a null is null."""
    nested = (f"[{sql}, null]", f"{{'s': {sql}}}", f"map {{'k': {sql}}}", f"[[{{'s': map {{'k': [{sql}]}}}}], []]")
    first, second = json.loads(written(table(sql, *nested), Format.JSON))
    assert first["c0"] == value
    assert first["c1"] == [value, None]
    assert first["c2"] == {"s": value}
    assert first["c3"] == {"k": value}
    assert first["c4"] == [[{"s": {"k": [value]}}], []]
    assert list(second.values()) == [None] * 5


@pytest.mark.parametrize(("sql", "value"), VALUES, ids=IDS)
def test_csv_says_the_same(sql: str, value: Any) -> None:
    """A field of CSV is the text of JSON without its quotes, what has parts is JSON, a null is empty."""
    rows = list(csv.reader(io.StringIO(written(table("1", sql), Format.CSV))))
    field = "" if value is None else value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
    assert rows[1:] == [["1", field], ["", ""]]


@pytest.mark.parametrize(
    "text",
    ["14 months 3 days 04:05:06.789", "-14 months", "-3 hours", "100 hours", "1 microsecond", "-1 day 1 second",
     "2 days", "1 month -1 day", "0.5 second", "1.0001 second", "1 year", "-90 minutes"],
)  # fmt: skip
def test_an_interval_is_written_as_duckdb_writes_it(text: str) -> None:
    """The text of an interval is DuckDB's own, so DuckDB reads it back."""
    with duckdb.connect() as connection:
        (expected,) = connection.execute(f"select (interval '{text}')::varchar").fetchone()  # type: ignore[misc]
    assert json.loads(written(table(f"interval '{text}'"), Format.JSON))[0]["c0"] == expected


def test_slices_and_empty_columns_keep_their_values() -> None:
    """Nested columns of a batch that starts in the middle of its buffers, or has no rows, are read from there."""
    whole = pa.table(
        {
            "l": pa.array([[1], None, [2, 3], []], pa.list_(pa.int32())),
            "f": pa.array([[1, 2], None, [3, 4], [5, 6]], pa.list_(pa.int32(), 2)),
            "m": pa.array([[("a", 1)], None, [("b", 2)], []], pa.map_(pa.string(), pa.int32())),
            "s": pa.array([{"x": [1]}, None, {"x": None}, {"x": []}]),
        }
    )
    rows = [json.loads(line) for line in written(whole.slice(1), Format.JSONL).splitlines()]
    assert rows == [
        {"l": None, "f": None, "m": None, "s": None},
        {"l": [2, 3], "f": [3, 4], "m": {"b": 2}, "s": {"x": None}},
        {"l": [], "f": [5, 6], "m": {}, "s": {"x": []}},
    ]
    assert written(whole.slice(4), Format.JSONL) == ""


def test_the_command_writes_every_type(tsviz: Tsviz) -> None:
    """`tsviz sql` writes all of them, with code 0; Parquet has no interval, and says so."""
    columns = ", ".join(f"{sql} as c{n}" for n, (sql, _) in enumerate(VALUES))
    for form in set(Format) - {Format.PARQUET}:
        ended = tsviz("sql", "traces/head-of-line", f"select {columns}", "--format", form.value)
        assert (ended.code, ended.err.strip().splitlines()[1:]) == (0, []), (form, ended.err)
    ended = tsviz("sql", "traces/head-of-line", f"select {columns}", "--format", "parquet")
    assert (ended.code, "parquet cannot hold the result" in ended.err, "cast it" in ended.err) == (1, True, True)
