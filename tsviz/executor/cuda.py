"""Streams on a GPU: CUDA streams and events behind the same interface (`executor-rules.md` section 2).

`submit` is called from the one forward thread (`forward_thread`) and only enqueues; nothing on the way synchronises but
a peer's bytes, on a thread of their own. Times come from two timing events an operation, read once the operation has
ended. The library is given, so that CI checks the calls against the ordering table without a GPU.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from tsviz.executor.forward_thread import ForwardThread
from tsviz.executor.graphs import DecodeGraphs
from tsviz.executor.shape import BadModel
from tsviz.executor.streams import Run
from tsviz.trace.order.ops import Op, Stream

_HIGH_PRIORITY = -1
_ANCHOR_MS = 1000.0
"""How far apart events are measured: a distance is a 32-bit float, exact to 60 ns at a second, 60 us at 17 minutes."""
_OFF_DEVICE = (Stream.HOST, Stream.BACKUP)


def require_gpu(library: Any = torch.cuda) -> None:
    """Raise BadModel where there is no GPU."""
    if not library.is_available():
        raise BadModel("there is no CUDA device here")


def cuda_streams(now_ns: Callable[[], int]) -> ForwardThread:
    """Return the streams of the GPU that is here, with their forward thread. Raises BadModel where there is none."""
    return ForwardThread(CudaStreams(now_ns, torch.cuda))


def decode_graphs() -> DecodeGraphs:
    """Return what captures and replays decode steps on the GPU that is here. Raises BadModel where there is none."""
    require_gpu()
    return DecodeGraphs(torch.cuda)


@dataclass(slots=True)
class _Launched:
    """An operation that was enqueued: events before and behind it."""

    op: Op
    began: Any
    ended: Any


class CudaStreams:
    """One CUDA stream for each of ours that is the device's; loads have a high priority."""

    def __init__(self, now_ns: Callable[[], int], library: Any) -> None:
        """`library` is `torch.cuda`, or what looks like it. Raises BadModel where there is no GPU."""
        require_gpu(library)
        self._now_ns, self._library = now_ns, library
        self._streams = {
            stream: library.Stream(priority=_HIGH_PRIORITY if stream is Stream.LOAD else 0)
            for stream in Stream
            if stream not in _OFF_DEVICE
        }
        self._events: dict[int, Any] = {}
        self._open: list[_Launched] = []
        self._lock = threading.Lock()
        """Of the two above: operations are launched on one thread, and asked for on another."""
        self._anchor = library.Event(enable_timing=True)
        self._anchor.record(self._streams[Stream.EXEC])
        self._anchor.synchronize()
        self._anchor_ns = now_ns()
        self._has_begun = False

    def submit(self, op: Op, run: Run) -> None:
        """Enqueue behind the events that it waits for; what is not the device's happens now, on the calling thread."""
        if op.stream in _OFF_DEVICE:
            op.start_ns = self._now_ns()
            run()
            op.end_ns = self._now_ns()
            return
        if not self._has_begun:
            # Weights, pools and slots were made on the library's own stream, which ours do not wait for.
            self._library.synchronize()
            self._has_begun = True
        stream = self._streams[op.stream]
        with self._lock:
            events = [self._events[number] for number in op.waits if number in self._events]
        for event in events:
            stream.wait_event(event)
        began, ended = (self._library.Event(enable_timing=True) for _ in range(2))
        with self._library.stream(stream):
            began.record(stream)
            run()
            ended.record(stream)
        with self._lock:
            self._events[op.number] = ended
            self._open.append(_Launched(op, began, ended))

    def done(self, op: Op) -> bool:
        """Ask the event; reads the times of everything that has ended."""
        self._collect()
        event = self._events.get(op.number)
        return event is None or bool(event.query())

    def wait(self, op: Op) -> None:
        """Wait for the event: the only place that blocks."""
        if (event := self._events.get(op.number)) is not None:
            event.synchronize()
        self._collect()

    def close(self) -> None:
        """Wait for every stream."""
        for stream in self._streams.values():
            stream.synchronize()
        self._collect()

    def _collect(self) -> None:
        """Read the times of what has ended, in the order of submission; an event is dropped when nobody needs it."""
        with self._lock:
            while self._open and self._open[0].ended.query():
                launched = self._open.pop(0)
                self._time(launched)
            keep_from = min((launched.op.number for launched in self._open), default=max(self._events, default=0))
            for number in [n for n in self._events if n < keep_from]:
                del self._events[number]

    def _time(self, launched: _Launched) -> None:
        """Read when it began and ended, from an event that is not long ago."""
        began, ended = (self._anchor.elapsed_time(event) for event in (launched.began, launched.ended))
        launched.op.start_ns, launched.op.end_ns = (self._anchor_ns + int(ms * 1e6) for ms in (began, ended))
        if ended > _ANCHOR_MS:
            self._anchor, self._anchor_ns = launched.ended, launched.op.end_ns
