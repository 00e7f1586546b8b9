"""Numbers for the words of a column, the same in every piece of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tsviz.replay.rows.lifetimes import Longs


class WordNumbers:
    """Words in order of first sight."""

    def __init__(self, known: tuple[str, ...] = ()) -> None:
        self.numbers = {word: number for number, word in enumerate(known)}

    def codes(self, values: pa.DictionaryArray) -> Longs:
        """Return the number of each word; -1 for null."""
        known = [self.numbers.setdefault(word, len(self.numbers)) for word in values.dictionary.to_pylist()]
        table = np.array([*known, -1], np.int64)
        indices = values.indices.fill_null(len(known)) if values.null_count else values.indices
        codes: Longs = table[indices.to_numpy(zero_copy_only=False)]
        return codes

    def words(self, codes: npt.NDArray[Any]) -> pa.DictionaryArray:
        """Return the words of numbers; null for -1."""
        indices = pa.array(codes.astype(np.int32), mask=codes < 0)
        return pa.DictionaryArray.from_arrays(indices, pa.array(list(self.numbers), pa.string()))

    def strings(self, codes: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the words of numbers, of which none is -1, as objects."""
        found: npt.NDArray[Any] = np.array(list(self.numbers), dtype=object)[codes]
        return found
