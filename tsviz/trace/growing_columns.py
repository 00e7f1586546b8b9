"""Columns under construction: plain arrays that become Arrow buffers without a copy (`builder`)."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from .columns import INTS

if TYPE_CHECKING:
    from .builder import Vocabulary

CODES = {pa.int8(): "b", pa.int32(): "i", pa.int64(): "q", pa.uint64(): "Q", pa.float64(): "d"}
"""Type codes of the numbers that a column may hold."""


def utf8(text: str) -> str:
    """Return a text that can be UTF-8; what cannot be (a lone surrogate) as its escape."""
    return text.encode("utf-8", "backslashreplace").decode()


class _Missing:
    """Which rows of a column have no value: runs, since whole stretches of some columns have none."""

    __slots__ = ("begins", "count", "ends")

    def __init__(self) -> None:
        self.begins: list[int] = []
        self.ends: list[int] = []
        self.count = 0

    def add(self, begin: int, count: int) -> None:
        """Mark `count` rows from `begin` on; rows must come in order."""
        if self.ends and self.ends[-1] == begin:
            self.ends[-1] = begin + count
        elif count:
            self.begins.append(begin)
            self.ends.append(begin + count)
        self.count += count

    def add_each(self, places: Sequence[int]) -> None:
        """Mark rows, which come in order."""
        at = np.array(places)
        starts = np.append(True, at[1:] != at[:-1] + 1)
        begins, ends = at[starts].tolist(), (at[np.append(starts[1:], True)] + 1).tolist()
        for begin, end in zip(begins, ends, strict=True):
            self.add(begin, end - begin)

    def validity(self, length: int) -> pa.Buffer | None:
        """Return the Arrow validity bitmap of a column of `length` rows; None when no row lacks its value."""
        if not self.count:
            return None
        edges = np.zeros(length + 1, np.int8)
        edges[self.begins] = 1
        edges[self.ends] -= 1
        return pa.py_buffer(np.packbits(np.cumsum(edges[:-1], dtype=np.int8) == 0, bitorder="little").tobytes())


class Numbers:
    """An integer column; `None` marks a missing value."""

    def __init__(self, type_: pa.DataType) -> None:
        self._type = type_
        self.values: array[int] = array(CODES[type_])
        self.missing = _Missing()

    def add(self, value: int | None) -> None:
        if value is None:
            self.missing.add(len(self.values), 1)
            value = 0
        self.values.append(value)

    def extend(self, values: Iterable[int]) -> None:
        self.values.extend(values)

    def extend_counts(self, firsts: Sequence[int], counts: Sequence[int]) -> None:
        """Append, for each first number and count, that many numbers that rise by one."""
        ends = np.cumsum(counts)
        self.extend_numpy(np.arange(ends[-1]) + np.repeat(np.subtract(firsts, ends - counts), counts))

    def extend_arrays(self, parts: Iterable[array[int]]) -> None:
        """Append arrays of the column's own type."""
        self.values.frombytes(b"".join(parts))

    def extend_optional(self, values: Sequence[int | None]) -> None:
        if None in values:
            begin = len(self.values)
            self.missing.add_each([begin + at for at, value in enumerate(values) if value is None])
            self.values.extend([0 if value is None else value for value in values])
        else:
            self.values.extend(values)  # type: ignore[arg-type]

    def extend_any(self, values: Sequence[int | None]) -> None:
        self.extend_optional(values)

    def extend_numpy(self, values: np.ndarray[Any, Any]) -> None:
        self.values.frombytes(np.ascontiguousarray(values, dtype=self.values.typecode).tobytes())

    def repeat(self, value: int | None, count: int) -> None:
        if value is None:
            self.missing.add(len(self.values), count)
            value = 0
        self.values += array(self.values.typecode, (value,)) * count

    def take(self) -> pa.Array:
        length = len(self.values)
        buffers = [self.missing.validity(length), pa.py_buffer(self.values)]
        built = pa.Array.from_buffers(self._type, length, buffers)
        self.values, self.missing = array(self.values.typecode), _Missing()
        return built


class Words(Numbers):
    """A dictionary-encoded string column; codes are added, or strings through `add_text`."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        super().__init__(pa.int32())
        self.vocabulary = vocabulary
        self._last: tuple[Sequence[str], array[int]] = (), self.values[:0]

    def code(self, text: str) -> int:
        """Return the code of a string, for `extend_numpy`."""
        return self.vocabulary.code(text)

    def add_text(self, text: str | None) -> None:
        self.add(None if text is None else self.vocabulary.code(text))

    def extend_text(self, texts: Sequence[str | None]) -> None:
        codes = self.vocabulary.codes
        try:
            self.values.extend([codes[text] for text in texts])  # type: ignore[index]
        except KeyError:  # a new string, or None
            for text in texts:
                self.add_text(text)

    def coded(self, texts: Sequence[str]) -> array[int]:
        """Return the codes of strings, for `extend_arrays`; mostly they are the same as the last time."""
        if texts != self._last[0]:
            self._last = texts, array("i", map(self.vocabulary.code, texts))
        return self._last[1]

    def extend_any(self, values: Sequence[Any]) -> None:
        self.extend_text(values)

    def repeat_text(self, text: str, count: int) -> None:
        self.repeat(self.vocabulary.code(text), count)

    def take(self) -> pa.Array:
        return pa.DictionaryArray.from_arrays(super().take(), self.vocabulary.arrow(), safe=False)


class Flags(Numbers):
    """A yes/no column: a byte a row until it becomes a bitmap."""

    def __init__(self) -> None:
        super().__init__(pa.int8())

    def take(self) -> pa.Array:
        length = len(self.values)
        bits = np.packbits(np.frombuffer(self.values, np.bool_), bitorder="little").tobytes()
        built = pa.Array.from_buffers(pa.bool_(), length, [self.missing.validity(length), pa.py_buffer(bits)])
        self.values, self.missing = array(self.values.typecode), _Missing()
        return built


class Strings:
    """A column of free strings; `None` marks a missing one."""

    def __init__(self) -> None:
        self.values: list[str | None] = []

    def extend(self, values: Iterable[str | None]) -> None:
        self.values.extend(values)

    extend_any = extend

    def repeat(self, value: str | None, count: int) -> None:
        self.values.extend((value,) * count)

    def take(self) -> pa.Array:
        built = pa.array([None if value is None else utf8(value) for value in self.values], pa.string())
        self.values = []
        return built


class Lists:
    """A column of lists of int32; `None` marks a missing list."""

    def __init__(self) -> None:
        self.ends: array[int] = array("i", (0,))
        self.values: array[int] = array("i")
        self.missing = _Missing()

    def add(self, values: Sequence[int] | array[int] | None) -> None:
        if values is None:
            self.missing.add(len(self.ends) - 1, 1)
        else:
            self.values.extend(values)
        self.ends.append(len(self.values))

    def extend(self, lists: Sequence[Sequence[int]]) -> None:
        ends = accumulate(map(len, lists), initial=len(self.values))
        next(ends)
        self.ends.extend(ends)
        self.values.extend(chain.from_iterable(lists))

    def repeat_empty(self, count: int) -> None:
        self.ends += array("i", (len(self.values),)) * count

    def extend_any(self, lists: Sequence[Sequence[int] | None]) -> None:
        if None in lists:
            for values in lists:
                self.add(values)
        else:
            self.extend(lists)  # type: ignore[arg-type]

    def extend_runs(self, offsets: np.ndarray[Any, Any], values: np.ndarray[Any, Any]) -> None:
        base = len(self.values)
        self.values.frombytes(values.tobytes())
        self.ends.frombytes((offsets[1:] + base).astype(np.int32).tobytes())

    def repeat_missing(self, count: int) -> None:
        self.missing.add(len(self.ends) - 1, count)
        self.repeat_empty(count)

    def take(self) -> pa.Array:
        length = len(self.ends) - 1
        items = pa.Array.from_buffers(pa.int32(), len(self.values), [None, pa.py_buffer(self.values)])
        buffers = [self.missing.validity(length), pa.py_buffer(self.ends)]
        built = pa.Array.from_buffers(INTS, length, buffers, children=[items])
        self.ends, self.values, self.missing = array("i", (0,)), array("i"), _Missing()
        return built
