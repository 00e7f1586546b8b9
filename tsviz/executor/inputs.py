"""One plan's batch as a forward needs it, all of it known to the host (`executor-rules.md` section 3).

Flat rows are the tokens fed, extends first, then `width` rows a decode. A decode's positions are the device's own;
the host knows bounds, which is all that byte ranges and key tiles need.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tsviz.engine.device import Planned
from tsviz.executor.shape import BadModel


class Bounds(NamedTuple):
    """What the host knows of a slot's valid length: at least `low`, at most `high` tokens."""

    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the batch.

    An extend feeds `tokens` from position `begin`; the first `replay` of them are fed again; it completes its prompt
    iff `completes`. A decode has no tokens, its begin lies within `bounds`; `given` is its first input where a peer
    computed the prompt and this is the first decode, else -1. `fresh`: the slot has a new owner.
    """

    request_id: str
    slot: int
    length: int
    bounds: Bounds
    is_extend: bool
    begin: int = 0
    replay: int = 0
    completes: bool = True
    fresh: bool = False
    given: int = -1

    @property
    def floor(self) -> int:
        """First position that may be written in groups that are not replayable."""
        return self.begin + self.replay


@dataclass(frozen=True, slots=True)
class ForwardInputs:
    """The rows, the tokens of the extends, and per group the table `[rows, columns]`: 0 a hole, -1 padding."""

    rows: tuple[Row, ...]
    num_extends: int
    width: int
    tokens: npt.NDArray[np.int64]
    tables: Mapping[str, npt.NDArray[np.int64]]
    offsets: tuple[int, ...]

    @property
    def flat_rows(self) -> int:
        """How many tokens are fed."""
        return self.offsets[-1]


class HostView:
    """What the host knows of every request that is on the device: who has which slot, and how far it is."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._owner: dict[int, str] = {}
        self._bounds: dict[str, Bounds] = {}
        self._landed: set[str] = set()

    def extend(self, request_id: str, slot: int, begin: int, end: int) -> bool:
        """Note a chunk; True when the slot must be reset before it."""
        known = self._bounds.get(request_id)
        fresh = self._owner.get(slot) != request_id or known is None or known.high != begin
        self._owner[slot] = request_id
        self._bounds[request_id] = Bounds(end, end)
        self._landed.discard(request_id)
        return fresh

    def land(self, request_id: str, slot: int, tokens: int) -> None:
        """Note that a peer's pages make so many tokens valid."""
        self._owner[slot] = request_id
        self._bounds[request_id] = Bounds(tokens, tokens)
        self._landed.add(request_id)

    def slot_of(self, request_id: str) -> int:
        """Return the slot that a request was last seen in. Raises KeyError."""
        return next(slot for slot, owner in self._owner.items() if owner == request_id)

    def decode(self, request_id: str, slot: int, given: int) -> Row:
        """Return the decode's row, and note that it advances by 1 to `width`; `given` is the plan's first input.

        Behind a chunk of this node the device has a newer one: with a result in flight the scheduler does not know it
        yet (A4 in docs/failures.md).
        """
        bounds = self._bounds[request_id]
        self._bounds[request_id] = Bounds(bounds.low + 1, bounds.high + self._width)
        given = given if request_id in self._landed else -1
        self._landed.discard(request_id)
        return Row(request_id, slot, self._width, bounds, False, given=given)

    def resolve(self, request_id: str, accepted: int) -> None:
        """A decode of the request came back: it had advanced by `accepted`."""
        if (bounds := self._bounds.get(request_id)) is not None:
            self._bounds[request_id] = Bounds(bounds.low + accepted - 1, bounds.high - self._width + accepted)

    def release(self, request_id: str) -> None:
        """Forget the request; its slot still names it until the next owner comes."""
        self._bounds.pop(request_id, None)
        self._landed.discard(request_id)


def read_inputs(planned: Planned, view: HostView, width: int, group_names: Sequence[str]) -> ForwardInputs:
    """Read the batch once. Raises BadModel when its groups are not those of the model."""
    batch: Any = planned.batch
    slots, replays = batch.request_pool_indices, batch.extend_replay_lens
    given = batch.decode_input_ids
    arrays = batch.block_tables_arrays()
    if set(arrays) != set(group_names):
        raise BadModel(f"cache groups: expected {sorted(group_names)}, found {sorted(arrays)} in the plan")
    n = planned.num_extends
    rows = []
    for i, request_id in enumerate(planned.request_ids):
        if i < n:
            begin, length = planned.extend_prefix_lens[i], planned.input_lengths[i]
            end = begin + length
            fresh = view.extend(request_id, slots[i], begin, end)
            completes = end == planned.prefill_lengths[i]
            rows.append(
                Row(request_id, slots[i], length, Bounds(begin, begin), True, begin, replays[i], completes, fresh)
            )
        else:
            rows.append(view.decode(request_id, slots[i], given[i - n]))
    offsets = np.concatenate([[0], np.cumsum([row.length for row in rows])])
    return ForwardInputs(
        tuple(rows), n, width, np.asarray(batch.input_ids, np.int64),
        {name: np.array(arrays[name], np.int64) for name in group_names}, tuple(int(o) for o in offsets),
    )  # fmt: skip
