"""Values of a result as Python values that every text format can say, whatever their type and however deep they lie.

Arrow's own Python values will not do: they drop or refuse nanoseconds and give intervals and maps as tuples. Times,
dates and intervals become the text that DuckDB's cast to VARCHAR gives, which it reads back; a map becomes a
dictionary of text keys. The rest stays: numbers, text, bytes, lists, and structs as dictionaries.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

_NANOS_A_SECOND = 1_000_000_000
_ENDLESS = {f"<value out of range: {sign}{2**bits - 1}>": f"{sign}infinity" for bits in (31, 63) for sign in ("", "-")}
"""What Arrow makes of DuckDB's infinite dates and timestamps, and what DuckDB calls them."""


def values(batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    """Iterate over the rows of a batch."""
    if not batch.num_columns:
        return iter([()] * batch.num_rows)
    return zip(*(column_values(column) for column in batch), strict=True)


def column_values(column: pa.Array) -> list[Any]:
    """Return the values of a column."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as kinds

    kind = column.type
    if kinds.is_dictionary(kind):
        return column_values(column.dictionary_decode())
    if kinds.is_interval(kind):
        return [None if v is None else interval_text(*v) for v in column.to_pylist()]
    if kinds.is_duration(kind):
        return [
            None if v is None else interval_text(0, 0, v)
            for v in pc.cast(column, pa.duration("ns")).cast("int64").to_pylist()
        ]
    if kinds.is_timestamp(kind) and kind.tz is not None:  # by its moment, whatever zone the session is in
        moments = column_values(column.cast(pa.timestamp(kind.unit)))
        return [v if v is None or v.endswith("infinity") else f"{v}+00" for v in moments]
    if kinds.is_temporal(kind):
        return [_ENDLESS.get(text, text) for text in pc.cast(column, "string").to_pylist()]
    if kinds.is_map(kind):
        return _maps(column)
    if kinds.is_nested(kind):
        if kinds.is_struct(kind):
            return _structs(column)
        if kinds.is_union(kind):
            return _unions(column)
        return _lists(column)
    return list(column.to_pylist())


def _lists(column: pa.Array) -> list[Any]:
    import pyarrow.compute as pc

    inner = iter(column_values(column.flatten()))
    lengths = pc.list_value_length(column).to_pylist()
    return [None if length is None else list(islice(inner, length)) for length in lengths]


def _structs(column: pa.Array) -> list[Any]:
    from tsviz.query.catalog import distinct

    names = distinct([field.name for field in column.type])
    # Not `flatten`, which puts the nulls of the struct on its fields: Arrow aborts the process where one is a union.
    fields = zip(*(column_values(column.field(index)) for index in range(len(names))), strict=True)
    return [
        dict(zip(names, row, strict=True)) if there else None for row, there in zip(fields, _there(column), strict=True)
    ]


def _maps(column: pa.Array) -> list[Any]:
    """Nulls are told by the column: a null map has no entries."""
    import pyarrow as pa

    entries = pa.ListArray.from_arrays(
        column.offsets, pa.StructArray.from_arrays([column.keys, column.items], ["k", "v"])
    )
    return [
        {_key(pair["k"]): pair["v"] for pair in pairs} if there else None
        for pairs, there in zip(_lists(entries), _there(column), strict=True)
    ]


def _key(value: Any) -> str:
    return value if isinstance(value, str) else str(value)


def _unions(column: pa.Array) -> list[Any]:
    fields = [column_values(column.field(index)) for index in range(column.type.num_fields)]
    codes = column.type_codes.to_pylist()
    places = column.offsets.to_pylist() if column.type.mode == "dense" else range(len(column))
    return [fields[code][place] for code, place in zip(codes, places, strict=True)]


def _there(column: pa.Array) -> list[bool]:
    return list(column.is_valid().to_pylist())


def interval_text(months: int, days: int, nanoseconds: int) -> str:
    """Return an interval as DuckDB writes it: `1 year 2 months 3 days 04:05:06.789`."""
    years, months = _split(months, 12)
    words = [
        f"{n} {name}{'' if abs(n) == 1 else 's'}"
        for n, name in ((years, "year"), (months, "month"), (days, "day"))
        if n
    ]
    if nanoseconds or not words:
        seconds, fraction = divmod(abs(nanoseconds), _NANOS_A_SECOND)
        part = f".{fraction:09d}".rstrip("0") if fraction else ""
        sign = "-" if nanoseconds < 0 else ""
        words.append(f"{sign}{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{part}")
    return " ".join(words)


def _split(value: int, base: int) -> tuple[int, int]:
    """Divide towards zero, so that both parts have the sign of the whole."""
    quotient, rest = divmod(abs(value), base)
    return (quotient, rest) if value >= 0 else (-quotient, -rest)
