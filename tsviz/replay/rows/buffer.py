"""A column that grows: what was handed out of it stays as it is."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


class Buffer:
    """Numbers that are added at the end."""

    def __init__(self, kind: type[np.generic] = np.int64) -> None:
        self._values: npt.NDArray[Any] = np.zeros(64, kind)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, values: npt.NDArray[Any]) -> None:
        """Add numbers."""
        count = self._count + len(values)
        if count > len(self._values):
            larger = np.zeros(max(count, len(self._values) * 3 // 2), self._values.dtype)
            larger[: self._count] = self._values[: self._count]
            self._values = larger
        self._values[self._count : count] = values
        self._count = count

    @property
    def values(self) -> npt.NDArray[Any]:
        """All numbers so far, not copied: only `put` changes them."""
        return self._values[: self._count]

    def put(self, at: npt.NDArray[np.int64], values: npt.NDArray[Any]) -> None:
        """Replace numbers, also in what was handed out."""
        self._values[at] = values
