"""Rows on standard output: machine formats lose nothing, people are safe."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tsviz.cli.exit_codes import CliError, ExitCode
from tsviz.cli.output import Format, Held, clean, write

TABLE = pa.table(
    {
        "digest": pa.array([2**64 - 1, None], pa.uint64()),
        "kind": pa.array(["prefill", None]).dictionary_encode(),
        "pages": pa.array([[1, None, 3], []], pa.list_(pa.int32())),
        "text": ['a,"b"\n<x>', ""],
        "share": [0.1, None],
        "flag": [True, None],
        "total": pa.array([10**30, None], pa.decimal128(38, 0)),
    }
)


def _bytes(table: pa.Table, form: Format, width: int | None = None) -> bytes:
    out = io.BytesIO()
    write(Held(table), form, out, width=width)
    return out.getvalue()


def _lines(table: pa.Table, width: int | None = None) -> list[str]:
    return _bytes(table, Format.TABLE, width).decode().splitlines()


def test_arrow_keeps_everything() -> None:
    """The Arrow stream holds the same schema, dictionaries included, and the same values."""
    back = pa.ipc.open_stream(_bytes(TABLE, Format.ARROW)).read_all()
    assert back.schema.equals(TABLE.schema)
    assert back.to_pylist() == TABLE.to_pylist()


def test_parquet_keeps_everything() -> None:
    """The Parquet file holds the same schema and values."""
    back = pq.read_table(io.BytesIO(_bytes(TABLE, Format.PARQUET)))
    assert back.schema.equals(TABLE.schema)
    assert back.to_pylist() == TABLE.to_pylist()


def test_json_keeps_numbers_nulls_and_lists() -> None:
    """JSON is an array of objects; 64 and 128 bit whole numbers are exact numbers."""
    expected = [
        {"digest": 2**64 - 1, "kind": "prefill", "pages": [1, None, 3], "text": 'a,"b"\n<x>', "share": 0.1,
         "flag": True, "total": 10**30},
        {"digest": None, "kind": None, "pages": [], "text": "", "share": None, "flag": None, "total": None},
    ]  # fmt: skip
    assert json.loads(_bytes(TABLE, Format.JSON)) == expected
    assert [json.loads(line) for line in _bytes(TABLE, Format.JSONL).splitlines()] == expected


@pytest.mark.parametrize(("form", "expected"), [(Format.JSON, b"[]\n"), (Format.JSONL, b""), (Format.CSV, b"a\n")])
def test_no_rows(form: Format, expected: bytes) -> None:
    """A result without rows is a valid empty document."""
    assert _bytes(pa.table({"a": pa.array([], pa.int32())}), form) == expected


def test_json_has_no_nan() -> None:
    """What JSON cannot say as a number comes as a string; bytes come as hexadecimal."""
    values = pa.table({"f": [float("nan"), float("inf"), float("-inf")], "b": [b"\x00\xff"] * 3})
    assert _bytes(values, Format.JSONL).splitlines() == [
        b'{"f":"NaN","b":"00ff"}',
        b'{"f":"Infinity","b":"00ff"}',
        b'{"f":"-Infinity","b":"00ff"}',
    ]


def test_columns_of_one_name_stay_apart_in_json() -> None:
    """Columns that share a name are told apart in objects."""
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["x", "x"])
    assert _bytes(table, Format.JSONL) == b'{"x":1,"x~2":2}\n'


def test_csv_tells_null_from_empty() -> None:
    """A null is an empty field, an empty string is quoted; lists are JSON; quotes and newlines survive."""
    raw = _bytes(TABLE, Format.CSV).decode()
    rows = list(csv.reader(io.StringIO(raw)))
    assert rows[0] == TABLE.column_names
    assert rows[1] == [str(2**64 - 1), "prefill", "[1,null,3]", 'a,"b"\n<x>', "0.1", "true", str(10**30)]
    assert raw.endswith('\n,,[],"",,,\n')


def test_nanoseconds_are_text() -> None:
    """A time keeps its nanoseconds in text formats."""
    times = pa.table({"t": pa.array([1_234_567_891], pa.timestamp("ns"))})
    assert _bytes(times, Format.JSONL) == b'{"t":"1970-01-01 00:00:01.234567891"}\n'


HOSTILE = "\x1b]0;own\x07\x1b[31mred\x9b[2J\u202eevil\u2066\r\n[bold]x[/bold][/a]:smile:"


def test_nothing_of_a_trace_reaches_the_terminal_as_a_command() -> None:
    """Controls become pictures, bidirectional marks U+FFFD, and markup stays text."""
    text = "\n".join(_lines(pa.table({"s\x1b[1m": [HOSTILE]})))
    assert not any((ord(c) < 32 and c != "\n") or 0x7F <= ord(c) < 0xA0 for c in text)
    assert "\u202e" not in text and "\u2066" not in text
    assert "[bold]x[/bold][/a]:smile:" in text
    assert "␛[31mred" in text


def test_csv_to_a_terminal_is_clean_and_to_a_file_exact() -> None:
    """CSV on a terminal is cleaned; in a file it is what the trace says."""
    table = pa.table({"s": [HOSTILE]})
    assert b"\x1b" not in _bytes(table, Format.CSV, width=80)
    assert list(csv.reader(io.StringIO(_bytes(table, Format.CSV).decode(), newline="")))[1] == [HOSTILE]


def test_json_escapes_controls() -> None:
    """JSON holds no control character and gives the string back."""
    raw = _bytes(pa.table({"s": [HOSTILE]}), Format.JSONL)
    assert b"\x1b" not in raw and raw.isascii()
    assert json.loads(raw) == {"s": HOSTILE}


def test_a_table_for_people() -> None:
    """Numbers stand to the right, strings to the left, nulls are said, floats are short."""
    table = pa.table({"n": [5, 1200], "name": ["ab", None], "f": [1 / 3, 123456.78]})
    assert _lines(table) == [
        "   n  name         f",
        "   5  ab    0.333333",
        "1200  null  123456.8",
    ]


def test_a_wide_table_is_cut_with_a_note() -> None:
    """Columns that do not fit are left out and the note says how many are shown; without a terminal all are."""
    table = pa.table({name: ["0123456789"] for name in "abcde"})
    out = io.BytesIO()
    notes = write(Held(table), Format.TABLE, out, width=36)
    # three columns of 10 and two gaps of 2 are 34; a fourth would be 46
    assert notes == ("3 of 5 columns shown; select fewer, or use --format json or csv",)
    assert out.getvalue().count(b"0123456789") == 3
    assert write(Held(table), Format.TABLE, io.BytesIO()) == ()


def test_a_long_cell_is_cut_on_a_terminal_only() -> None:
    """A cell of a terminal ends in an ellipsis behind 47 cells; wide characters count as two."""
    table = pa.table({"s": ["語" * 100]})
    assert _lines(table, 200)[1] == "語" * 23 + " …"
    assert _lines(table)[1] == "語" * 100


@pytest.mark.parametrize(("text", "cleaned"), [("a\tb", "a␉b"), ("\x7f", "␡"), ("é語❤️", "é語❤️")])
def test_clean(text: str, cleaned: str) -> None:
    """Only what a terminal obeys is replaced."""
    assert clean(text) == cleaned


def test_an_error_of_the_command_line_is_clean(capsys: Any) -> None:
    """A CliError says message and hint on standard error, each one clean line, and knows its code."""
    error = CliError(ExitCode.TRACE_UNREADABLE, "bad \x1b[31m\nline two", "look")
    error.show()
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "error: bad ␛[31m␊line two\nhint: look\n")
    assert error.exit_code == 3
