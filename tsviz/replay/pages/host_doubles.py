"""Copies whose content was in the host tier already when they came: their page is given back (debugger.md, *Pages*).

A store is not begun of content that is kept or being stored. A load that first fetches from storage knows nothing of a
store that is out, nor a store of such a load: of two copies of the same content the one that comes later is dropped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tsviz.replay.rows.lifetimes import NEVER

if TYPE_CHECKING:
    from .host import HostFillings

Flags = npt.NDArray[np.bool_]


def doubles(fillings: HostFillings) -> tuple[Flags, Flags]:
    """Return which filled pages were given back when their copy came, and of which that is not known.

    Where the trace holds no hashes it is known of a store that copies the page which the load fills, and of no other.
    """
    given_back, open_ = np.zeros(len(fillings.number), np.bool_), np.zeros(len(fillings.number), np.bool_)
    for row in np.flatnonzero(fillings.fetched & (fillings.landed != NEVER)).tolist():
        began = fillings.from_round[row]
        beside = (fillings.op_id >= 0) & (fillings.op_id != fillings.op_id[row])
        beside &= fillings.group == fillings.group[row]
        beside &= (fillings.from_round <= fillings.landed[row]) & (fillings.landed >= began)
        alike = beside & ~fillings.fetched & (fillings.from_round > began) & (fillings.device == fillings.device[row])
        if fillings.content[row] >= 0:
            alike = beside = beside & (fillings.content == fillings.content[row])
        for other in np.flatnonzero(beside & (fillings.landed != NEVER)).tolist():
            first, second = (row, other) if fillings.turn[row] < fillings.turn[other] else (other, row)
            if alike[other]:
                given_back[second] = fillings.landed[first] < fillings.until[first]
            else:
                open_[second] = True
    return given_back, open_ & ~given_back
