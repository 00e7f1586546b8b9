"""Columns under construction: plain arrays that become Arrow buffers without a copy at flush.

A row object per scheduled row would cost more than the scheduler itself, so columns are extended a round at a time.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from itertools import accumulate, islice
from typing import Any

import numpy as np
import pyarrow as pa

from .columns import INTS, TEXT, Table

_CODES = {pa.int32(): "i", pa.int64(): "q", pa.uint64(): "Q"}


class Vocabulary:
    """Distinct strings in order of first sight; their positions are dictionary codes. It only grows.

    What cannot be UTF-8 (a lone surrogate) is stored as its escape.
    """

    __slots__ = ("_arrow", "codes")

    def __init__(self) -> None:
        self.codes: dict[str, int] = {}
        self._arrow: pa.Array = pa.array((), pa.string())

    def code(self, text: str) -> int:
        """Return the code of `text`, adding it when it is new."""
        found = self.codes.get(text)
        if found is None:
            found = self.codes[text] = len(self.codes)
        return found

    def arrow(self) -> pa.Array:
        """All strings as an Arrow array; a longer one has the shorter as its prefix, as dictionary deltas need."""
        if (known := len(self._arrow)) != len(self.codes):
            new = [_utf8(text) for text in islice(self.codes, known, None)]
            self._arrow = pa.concat_arrays([self._arrow, pa.array(new, pa.string())])
        return self._arrow


def _utf8(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def _validity(missing: Sequence[int], length: int) -> pa.Buffer | None:
    if not missing:
        return None
    valid = np.ones(length, np.bool_)
    valid[missing] = False
    return pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())


class _Numbers:
    """An integer column; `None` marks a missing value."""

    def __init__(self, type_: pa.DataType) -> None:
        self._type = type_
        self.values: array[int] = array(_CODES[type_])
        self.missing: list[int] = []

    def add(self, value: int | None) -> None:
        if value is None:
            self.missing.append(len(self.values))
            value = 0
        self.values.append(value)

    def extend(self, values: Iterable[int]) -> None:
        if isinstance(values, list):
            self.values.fromlist(values)
        else:
            self.values.extend(values)

    def extend_optional(self, values: Sequence[int | None]) -> None:
        base = len(self.values)
        missing = [base + index for index, value in enumerate(values) if value is None]
        self.missing += missing
        self.values.fromlist([value or 0 for value in values])

    def extend_numpy(self, values: np.ndarray[Any, Any]) -> None:
        self.values.frombytes(np.ascontiguousarray(values, dtype=self.values.typecode).tobytes())

    def repeat(self, value: int | None, count: int) -> None:
        if value is None:
            self.missing.extend(range(len(self.values), len(self.values) + count))
            value = 0
        self.values.extend((value,) * count)

    def take(self) -> pa.Array:
        length = len(self.values)
        buffers = [_validity(self.missing, length), pa.py_buffer(self.values)]
        built = pa.Array.from_buffers(self._type, length, buffers)
        self.values, self.missing = array(self.values.typecode), []
        return built


class _Words(_Numbers):
    """A dictionary-encoded string column; codes are added, or strings through `add_text`."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        super().__init__(pa.int32())
        self.vocabulary = vocabulary

    def add_text(self, text: str | None) -> None:
        self.add(None if text is None else self.vocabulary.code(text))

    def extend_text(self, texts: Sequence[str | None]) -> None:
        codes = self.vocabulary.codes
        try:
            self.values.fromlist([codes[text] for text in texts])  # type: ignore[index]
        except KeyError:  # a new string, or None
            for text in texts:
                self.add_text(text)

    def repeat_text(self, text: str, count: int) -> None:
        self.repeat(self.vocabulary.code(text), count)

    def take(self) -> pa.Array:
        return pa.DictionaryArray.from_arrays(super().take(), self.vocabulary.arrow(), safe=False)


class _Objects:
    """A column of few rows, built from Python values: booleans and free strings."""

    def __init__(self, type_: pa.DataType) -> None:
        self._type = type_
        self.values: list[Any] = []

    def add(self, value: Any) -> None:
        self.values.append(value)

    def extend(self, values: Iterable[Any]) -> None:
        self.values.extend(values)

    def repeat(self, value: Any, count: int) -> None:
        self.values.extend((value,) * count)

    def take(self) -> pa.Array:
        strings = pa.types.is_string(self._type)
        values = [v if v is None else _utf8(v) for v in self.values] if strings else self.values
        built = pa.array(values, self._type)
        self.values = []
        return built


class _Lists:
    """A column of lists of int32; `None` marks a missing list."""

    def __init__(self) -> None:
        self.ends: array[int] = array("i", (0,))
        self.values: array[int] = array("i")
        self.missing: list[int] = []

    def add(self, values: Sequence[int] | array[int] | None) -> None:
        if values is None:
            self.missing.append(len(self.ends) - 1)
        else:
            self.values.extend(values)
        self.ends.append(len(self.values))

    def extend(self, lists: Sequence[Sequence[int]]) -> None:
        base = len(self.values)
        self.values.fromlist([value for values in lists for value in values])
        self.ends.fromlist([base + end for end in accumulate(map(len, lists))])

    def extend_runs(self, offsets: np.ndarray[Any, Any], values: np.ndarray[Any, Any]) -> None:
        base = len(self.values)
        self.values.frombytes(values.tobytes())
        self.ends.frombytes((offsets[1:] + base).astype(np.int32).tobytes())

    def repeat_missing(self, count: int) -> None:
        self.missing.extend(range(len(self.ends) - 1, len(self.ends) - 1 + count))
        self.ends.extend((len(self.values),) * count)

    def take(self) -> pa.Array:
        length = len(self.ends) - 1
        items = pa.Array.from_buffers(pa.int32(), len(self.values), [None, pa.py_buffer(self.values)])
        buffers = [_validity(self.missing, length), pa.py_buffer(self.ends)]
        built = pa.Array.from_buffers(INTS, length, buffers, children=[items])
        self.ends, self.values, self.missing = array("i", (0,)), array("i"), []
        return built


class TableBuilder:
    """Columns of one table; `columns[name]` is extended by the caller, all to the same length before `take`."""

    def __init__(self, table: Table, requests: Vocabulary, words: Vocabulary) -> None:
        """`requests`: vocabulary of request ids; `words`: of everything else."""
        self.table = table
        self.columns: dict[str, Any] = {}
        for column in table.columns:
            if column.type == TEXT:
                self.columns[column.name] = _Words(requests if column.name == "request" else words)
            elif column.type == INTS:
                self.columns[column.name] = _Lists()
            elif column.type in _CODES:
                self.columns[column.name] = _Numbers(column.type)
            else:
                self.columns[column.name] = _Objects(column.type)
        first = self.columns[table.columns[0].name]
        self._first = first

    @property
    def rows(self) -> int:
        """Rows under construction."""
        return len(self._first.values)

    def add(self, **values: Any) -> None:
        """Append one row; strings of word columns are given as text."""
        for name, column in self.columns.items():
            if isinstance(column, _Words):
                column.add_text(values[name])
            else:
                column.add(values[name])

    def take(self) -> pa.RecordBatch:
        """Return the rows as one batch and start anew."""
        return pa.RecordBatch.from_arrays([c.take() for c in self.columns.values()], schema=self.table.schema)
