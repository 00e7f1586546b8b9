"""What `torch.cuda` offers, without a GPU: streams and events that log their calls, graphs that really replay.

A capture runs the operations to know them, as `CUDAGraph` does, and takes back what they did: capturing does nothing.
A replay runs the same operations on the same tensors. So a step that reads a number or a tensor of its first round, and
not what was put in its place, says a wrong token here as it would on a GPU.
"""

from __future__ import annotations

import contextlib
import threading
from itertools import count

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

_ASKS = 3
"""How often an event is asked for until it has happened: a device works on, whoever asks."""


class FakeEvent:
    """An event; it has happened once the host waited for it or for what was enqueued behind it, or asked often."""

    def __init__(self, library, enable_timing) -> None:
        self.library, self.at, self.asked = library, None, 0
        assert enable_timing

    @property
    def has_happened(self) -> bool:
        """Whether the device is past it."""
        return self.at is not None and self.at <= self.library.past

    def record(self, stream) -> None:
        self.at = next(self.library.ticks)
        self.library.calls.append(("record", stream.name, self))

    def query(self) -> bool:
        self.asked += self.at is not None
        if self.asked >= _ASKS:
            self.library.pass_by(self.at)
        return self.has_happened

    def synchronize(self) -> None:
        self.library.calls.append(("synchronize", None, self))
        self.library.pass_by(self.at)

    def elapsed_time(self, other) -> float:
        return float(other.at - self.at)


class FakeStream:
    """A stream; what is enqueued on it runs at once, and is said to have run when its event is."""

    def __init__(self, library, priority) -> None:
        self.library, self.priority = library, priority
        self.name = len(library.streams)
        library.streams.append(self)

    def wait_event(self, event) -> None:
        self.library.calls.append(("wait", self.name, event))

    def synchronize(self) -> None:
        self.library.calls.append(("drain", self.name, None))
        self.library.pass_by(next(self.library.ticks))


def _held(tensor):
    """What a tensor of the pretended device holds (`pretend`); any other is itself."""
    return getattr(tensor, "held", tensor)


def _address(tensor) -> int:
    return _held(tensor).untyped_storage().data_ptr()


class _Recording(TorchDispatchMode):
    """Keeps every operation with its tensors, and what those that existed before held when they were first written."""

    def __init__(self) -> None:
        super().__init__()
        self.operations = []
        self._before: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self._own: set[int] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        for argument, value in zip(func._schema.arguments, args, strict=False):
            if argument.alias_info is not None and argument.alias_info.is_write:
                self._remember(value)
        out = func(*args, **kwargs)
        tensors = [t for t in tree_flatten(out)[0] if isinstance(t, torch.Tensor)]
        given = {_address(t) for t in tree_flatten((args, kwargs))[0] if isinstance(t, torch.Tensor)}
        made = [t for t in tensors if _address(t) not in given]
        self._own.update(map(_address, made))
        self.operations.append((func, args, kwargs, made))
        return out

    def take_back(self) -> None:
        """Undo what was written to tensors that are not the capture's own."""
        for whole, was in self._before.values():
            whole.copy_(was)

    def _remember(self, tensor) -> None:
        storage = _held(tensor).untyped_storage()
        if storage.data_ptr() not in self._own and storage.data_ptr() not in self._before:
            whole = torch.empty(0, dtype=torch.uint8).set_(storage)
            self._before[storage.data_ptr()] = (whole, whole.clone())


class FakeGraph:
    """A graph of operations on tensors that stay where they are."""

    def __init__(self, library) -> None:
        self.library = library
        self._recording = _Recording()

    def capture_begin(self, pool, capture_error_mode) -> None:
        assert (pool, capture_error_mode) == (self.library.pool, "thread_local")
        assert self.library.current is not None, "a graph is captured on a stream of its own"
        self.library.capturing = self
        self.library.calls.append(("capture", self.library.current, self))
        self._recording.__enter__()

    def capture_end(self) -> None:
        self._recording.__exit__(None, None, None)
        self.library.capturing = None
        self._recording.take_back()

    def replay(self) -> None:
        self.library.calls.append(("replay", self.library.current, self))
        for func, args, kwargs, made in self._recording.operations:
            again = [t for t in tree_flatten(func(*args, **kwargs))[0] if isinstance(t, torch.Tensor)]
            for old, new in zip(made, again if made else (), strict=True):
                old.copy_(new)


class FakeCuda:
    """What `torch.cuda` offers, keeping a log of the calls."""

    def __init__(self) -> None:
        self.calls, self.streams, self.ticks = [], [], count(1)
        self.capturing, self.past = None, 0
        self.pool = (0, 1)
        self._of_thread = threading.local()

    @property
    def current(self):
        """The number of this thread's stream; None outside of one."""
        return getattr(self._of_thread, "current", None)

    def pass_by(self, at) -> None:
        """All that was enqueued up to a moment has run; the log says so, since nobody need wait for it any more."""
        if at > self.past:
            self.past = at
            self.calls.append(("past", None, at))

    def is_available(self) -> bool:
        return True

    def synchronize(self) -> None:
        self.calls.append(("everything", None, None))
        self.pass_by(next(self.ticks))

    def Stream(self, priority=0):
        return FakeStream(self, priority)

    def Event(self, enable_timing=False):
        return FakeEvent(self, enable_timing)

    def CUDAGraph(self):
        return FakeGraph(self)

    def graph_pool_handle(self):
        return self.pool

    @contextlib.contextmanager
    def stream(self, stream):
        self._of_thread.current = stream.name
        yield
        self._of_thread.current = None
