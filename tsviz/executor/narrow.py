"""The decoder narrowed to the prompt's last window (`seed.md`, *bounded replay*; `executor-rules.md` section 8).

Behind its last layer of another kind a model of replayable layers needs of a prompt only what its last token sees
through them: `n * (w - 1) + 1` rows for n layers of window w, which is what their group declares. The scheduler lets no
final chunk be shorter. All earlier rows end below those layers, whose pages then hold nothing before the window.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tsviz.executor.inputs import Bounds, ForwardInputs, Row
from tsviz.executor.shape import ModelShape


@dataclass(frozen=True, slots=True)
class Narrowed:
    """The batch as the upper layers see it, and which of its flat rows they are."""

    inputs: ForwardInputs
    kept: tuple[int, ...]


def narrowed(inputs: ForwardInputs, shape: ModelShape) -> Narrowed | None:
    """Return what is left of a batch for the layers from `shape.narrow_from` on; None where the model is not narrowed.

    Of a completing chunk the last window stays, of another its last row, whose sample nobody takes, of a decode all.
    """
    if not shape.narrow:
        return None
    rows: list[Row] = []
    kept: list[int] = []
    for row, end in zip(inputs.rows, inputs.offsets[1:], strict=True):
        length = row.length
        if row.is_extend:
            length = min(length, shape.declared_replay if row.completes else 1)
        rows.append(_last(row, length) if row.is_extend else row)
        kept += range(end - length, end)
    offsets = np.concatenate([[0], np.cumsum([row.length for row in rows])])
    return Narrowed(replace(inputs, rows=tuple(rows), offsets=tuple(int(o) for o in offsets)), tuple(kept))


def _last(row: Row, length: int) -> Row:
    """Return the last rows of a chunk: all look back to the first of them and no further, like replayed ones."""
    begin = row.begin + row.length - length
    return replace(row, length=length, begin=begin, bounds=Bounds(begin, begin), replay=length)
