"""A forward as operations: prologue, layers, epilogue, result (`executor-rules.md` section 2, steps f and g)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tsviz.executor.arena import Arena
from tsviz.executor.crcs import Watched
from tsviz.executor.decode import DecodeForward, Decoding
from tsviz.executor.forward import Forward
from tsviz.executor.graphs import DecodeGraphs
from tsviz.executor.inputs import ForwardInputs
from tsviz.executor.model import Model
from tsviz.executor.opqueue import OpQueue
from tsviz.executor.options import DeviceOptions, Edge
from tsviz.executor.slots import SlotState
from tsviz.executor.spoilt import TableSpoiler
from tsviz.executor.touched import Touched, Touching
from tsviz.executor.touched_bytes import FieldSpans
from tsviz.trace.order.ops import ByteRange, Kind, Op, Stream


class Launched(NamedTuple):
    """A forward that was queued: its first operation, its layers, the copy of its result."""

    forward: Forward | DecodeForward
    began: Op
    layers: list[Op]
    copied: Op


class Launcher:
    """Queues the forwards of one device."""

    def __init__(
        self, model: Model, draft: Model | None, arena: Arena, slots: SlotState, queue: OpQueue,
        options: DeviceOptions, prefix_granularity: int, graphs: DecodeGraphs | None,
    ) -> None:  # fmt: skip
        self._model, self._draft, self._arena, self._slots = model, draft, arena, slots
        self._queue, self._options, self._prefix = queue, options, prefix_granularity
        self._decoding = Decoding(model, arena, slots, options, draft, graphs)
        self._spoiler = TableSpoiler()
        draft_layers = len(draft.shape.pattern) if draft is not None else 0
        self._touching = Touching(
            model.shape, FieldSpans(arena.layout), prefix_granularity, draft_layers, options.faults
        )
        self.layers = len(model.shape.pattern) + draft_layers

    def launch(self, inputs: ForwardInputs, zero: Op, loads: Mapping[int | None, Sequence[int]]) -> Launched:
        """Queue a batch behind its plan's zeroing, and each layer behind the loads of it (None: of every layer).

        A step of all layers waits for all of them, once.
        """
        options, queue, planned = self._options, self._queue, inputs.tables
        if options.faults:
            inputs = self._spoiler.spoil(inputs, options.faults)
        whole = self._decoding.takes(inputs)
        forward = self._forward(inputs, whole=whole)
        behind = [options.unless(Edge.ZERO_FORWARD, zero.number)]
        began = queue.submit(
            Stream.EXEC, Kind.PROLOGUE, forward.prologue, behind,
            watch=lambda: Watched(also=forward.prologue_copied(planned)),
        )  # fmt: skip
        upper = inputs if forward.upper is None else forward.upper.inputs
        touched = Touched(inputs, upper, self._touching)
        numbers: Sequence[int | None] = (None,) if whole else range(self.layers)
        layers = [self._layer(forward, touched, layer, loads) for layer in numbers]
        queue.submit(
            Stream.EXEC, Kind.EPILOGUE, forward.epilogue,
            reads=touched.drafted_from() if options.tracked else (),
            writes=touched.committed() if options.tracked else (),
            watch=lambda: Watched(left=touched.committed_blocks(), also=forward.candidates_copied),
        )  # fmt: skip
        result = (ByteRange("result", queue.round, queue.round + 1),)
        return Launched(forward, began, layers, queue.submit(Stream.EXEC, Kind.RESULT, forward.copy_out, writes=result))

    def _forward(self, inputs: ForwardInputs, *, whole: bool) -> Forward | DecodeForward:
        if whole:
            return DecodeForward(inputs, self._decoding)
        return Forward(inputs, self._model, self._arena, self._slots, self._prefix, self._options, self._draft)

    def _layer(
        self, forward: Forward | DecodeForward, touched: Touched, layer: int | None,
        loads: Mapping[int | None, Sequence[int]],
    ) -> Op:  # fmt: skip
        reads, writes = touched.layer(layer) if self._options.tracked else ((), ())
        needed = loads.values() if layer is None else (loads.get(layer, ()), loads.get(None, ()))
        waits = [self._options.unless(Edge.LOAD_FORWARD, number) for numbers in needed for number in numbers]
        return self._queue.submit(
            Stream.EXEC, Kind.LAYER, lambda: forward.layer(layer), waits, reads=reads, writes=writes, layer=layer,
            watch=lambda: Watched(*touched.blocks(layer)),
        )  # fmt: skip
