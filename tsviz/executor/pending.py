"""A forward that was launched, and what it said once its result is there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import compress, count
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from tsviz.engine.device import ForwardResult
from tsviz.executor.decode import DecodeForward
from tsviz.executor.forward import Forward
from tsviz.executor.inputs import Row
from tsviz.executor.options import Edge, Fault
from tsviz.executor.slots import Drafter
from tsviz.executor.spoken import Said, Speech
from tsviz.trace.entries import ForwardRow
from tsviz.trace.order.ops import Kind, Op, Stream

if TYPE_CHECKING:
    from tsviz.executor.device import ExecutorDevice


class DummyPage(RuntimeError):
    """Live rows had no page and would have been written to the dummy page; names the round and how often, by layers."""


_of_row = attrgetter("request_id", "length", "completes")
_forward_row: Callable[[tuple[Any, ...]], ForwardRow] = partial(tuple.__new__, ForwardRow)


@dataclass(frozen=True, slots=True)
class _Rows:
    """What the rows of a forward came to; those that gave tokens are made where they are iterated, off this thread."""

    rows: Sequence[Row]
    begins: Sequence[int]
    tokens: Sequence[Sequence[int]]
    margins: Sequence[float]
    broken: Sequence[bool]

    def __iter__(self) -> Iterator[ForwardRow]:
        ids, lengths, completes = zip(*map(_of_row, self.rows), strict=True)
        columns = (count(), ids, self.begins, lengths, map(len, self.tokens), self.margins, self.broken)
        return map(_forward_row, compress(zip(*columns, strict=False), completes))


class ExecutorForward:
    """Implements `PendingForward`; `start_ns` and `end_ns` are None unless the device is paced."""

    def __init__(
        self, device: ExecutorDevice, forward: Forward | DecodeForward, speeches: Sequence[Speech], began: Op,
        copied: Op, start_ns: int | None, end_ns: int | None,
    ) -> None:  # fmt: skip
        """`speeches` are those of the rows' requests, as they live when it is launched."""
        self._device, self._forward, self._speeches = device, forward, speeches
        self._began, self._copied = began, copied
        self.start_ns = start_ns
        self.end_ns = end_ns

    def result(self) -> ForwardResult:
        """Wait for the copy and read it. Raises DummyPage."""
        device, inputs = self._device, self._forward.inputs
        stops = device.options.stop_tokens
        if device.options.unless(Edge.RESULT_COMMIT, self._copied.number) is not None:
            device.queue.wait(self._copied)
        device.queue.submit(Stream.HOST, Kind.COMMIT, lambda: None, reads=self._copied.writes)
        outcome = self._forward.outcome
        if outcome is None:  # only where the edge to the commit is left out on purpose
            return ForwardResult([() if not r.completes else (0,) for r in inputs.rows])
        if int(outcome.dummy_rows):
            writes, at = int(outcome.dummy_rows), self._copied.round
            raise DummyPage(f"round {at}: {writes} writes of live rows on the dummy page; expected none")
        best, counts, begins = outcome.best.tolist(), outcome.counts.tolist(), outcome.begins.tolist()
        broken, margins, following = outcome.broken.tolist(), outcome.margins.tolist(), outcome.next_inputs.tolist()
        tokens: list[Sequence[int]] = []
        corrupt, ended = set(), set()
        for i, (row, speech) in enumerate(zip(inputs.rows, self._speeches, strict=True)):
            if not row.completes:
                tokens.append(())
                continue
            said = tuple(best[i][: counts[i]])
            position = begins[i] + (row.length if row.is_extend else 1)
            if not row.is_extend:
                if not speech.ended:
                    device.view.resolve(row.request_id, counts[i])
                if row.length > 1:
                    device.counts[
                        _verified(counts[i], row.length, drafts=device.slots.drafter is not Drafter.NONE)
                    ] += 1
            if broken[i]:
                corrupt.add(i)
                device.counts["broken row"] += 1
            if Fault.DROPPED_TOKEN in device.options.faults and len(said) > 1:
                said = said[:-1]
            if (kept := _until_stop(said, stops)) < len(said) or said[-1] in stops:
                said = said[:kept]
                ended.add(i)
            logits = None if outcome.logits is None else outcome.logits[i, : len(said)]
            speech.note(Said(position, said, logits, margins[i]))
            tokens.append(said)
        if (observer := device.queue.observer) is not None:
            told = _Rows(inputs.rows, begins, tokens, margins, broken)
            observer.forward(self._copied.round, self._began.start_ns, self._copied.end_ns, told)
        candidates = following if device.slots.width > 1 else ()
        return ForwardResult(tokens, candidates, frozenset(corrupt), frozenset(ended))


def _verified(count: int, width: int, *, drafts: bool) -> str:
    if not drafts:
        return "no candidates"
    return "all candidates accepted" if count == width else "candidate rejected"


def _until_stop(tokens: tuple[int, ...], stops: frozenset[int]) -> int:
    """Return how many tokens stay: up to the first stop token, itself included."""
    return next((i + 1 for i, token in enumerate(tokens) if token in stops), len(tokens))
