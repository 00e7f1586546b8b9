"""A device in pure Python for the CUDA back end: real numbers, and a note of all that a GPU refuses or waits for.

Its tensors hold ordinary ones and say that they lie elsewhere. An operation that takes tensors of both sides fails, as
on a GPU. What would make the host wait is noted with the line that asked for it: a number read back, a shape that
depends on values, a copy from or to memory that is not pinned; not so on the thread that moves a peer's bytes. A copy
to the host that is not waited for holds garbage until an event behind it is asked, so that who reads too soon reads
that.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import traceback
import warnings
from pathlib import Path

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import backend_registration
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

from tests.executor.fake_cuda import FakeCuda
from tsviz.executor.forward_thread import PEER_THREAD

NAME = "pretend"
_GARBAGE = 0xA5
_ATEN = torch.ops.aten
_VALUE_SHAPED = {_ATEN.nonzero.default, _ATEN.masked_select.default, _ATEN._unique2.default, _ATEN.unique_dim.default}
_READS = {_ATEN._local_scalar_dense.default, _ATEN.is_nonzero.default, _ATEN.equal.default}


class MixedDevices(Exception):
    """An operation was given tensors of the host and of the device."""


class OnDevice(torch.Tensor):
    """A tensor of the device: `held` is what it holds."""

    is_cuda = True

    @staticmethod
    def __new__(cls, held):
        with torch.inference_mode(False):  # a tensor of a class that is made in inference mode has no views
            made = torch.Tensor._make_wrapper_subclass(
                cls, held.shape, strides=held.stride(), storage_offset=held.storage_offset(), dtype=held.dtype,
                device=torch.device(NAME, 0),
            )  # fmt: skip
        made.held = held
        return made

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return Pretend.current.run(func, args, kwargs or {})


def held(value):
    """What a tensor of the device holds; anything else as it is."""
    return value.held if isinstance(value, OnDevice) else value


class _Cuda(TorchFunctionMode):
    """Takes "cuda" for the device, wherever one is named. A number assigned by index is noted: a GPU copies it."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is torch.Tensor.__setitem__ and isinstance(args[0], OnDevice) and isinstance(args[2], int | float):
            Pretend.current.note("a number assigned by index")
        return func(*map(_named, args), **{name: _named(value) for name, value in (kwargs or {}).items()})


def _named(value):
    return NAME if isinstance(value, str | torch.device) and str(value).startswith("cuda") else value


class Pretend(TorchDispatchMode):
    """While it is entered, there is the device. `waits` are the functions that made the host wait, and for what."""

    current: Pretend

    def __init__(self) -> None:
        super().__init__()
        if not hasattr(torch, NAME):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                backend_registration._setup_privateuseone_for_python_backend(NAME)
        self.waits: set[str] = set()
        self.arriving = []
        self._pinned = {}
        self._of_thread = threading.local()
        Pretend.current = self

    def __enter__(self):
        self._of_thread.cuda = _Cuda()
        self._of_thread.cuda.__enter__()
        return super().__enter__()

    def __exit__(self, *raised):
        super().__exit__(*raised)
        self._of_thread.cuda.__exit__(*raised)
        del self._of_thread.cuda

    @property
    def is_entered(self) -> bool:
        """Whether this thread sees the device."""
        return hasattr(self._of_thread, "cuda")

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return self.run(func, args, kwargs or {})

    def run(self, func, args, kwargs):
        """Do an operation on what its tensors hold."""
        if func in (_ATEN._pin_memory.default, _ATEN.pin_memory.default):
            return self._pin(args[0].clone())
        if func is _ATEN.is_pinned.default:
            return self.is_pinned(args[0])
        if func is _ATEN.copy_.default:
            return self._copy(*args, **kwargs)
        tensors = [t for t in tree_flatten((args, kwargs))[0] if isinstance(t, torch.Tensor)]
        device = any(isinstance(t, OnDevice) for t in tensors)
        if func is _ATEN._to_copy.default and kwargs.get("device") is not None:
            return self._move(func, args[0], dict(kwargs))
        if device and any(not isinstance(t, OnDevice) and t.dim() for t in tensors):
            raise MixedDevices(f"{func} of {[(tuple(t.shape), str(t.device)) for t in tensors]}")
        if device and (func in _READS or func in _VALUE_SHAPED or _masks(func, args)):
            self.note(func)
        kwargs = dict(kwargs)
        if kwargs.get("device") is not None:
            device, kwargs["device"] = torch.device(kwargs["device"]).type == NAME, torch.device("cpu")
        pinned = kwargs.pop("pin_memory", False)
        out = func(*tree_map(held, args), **tree_map(held, kwargs))
        if pinned:
            return self._pin(out)
        if not device:
            return out
        if func._schema.returns and (alias := func._schema.returns[0].alias_info) is not None and alias.is_write:
            return kwargs["out"] if "out" in kwargs else args[0]
        return tree_map(lambda t: OnDevice(t) if isinstance(t, torch.Tensor) else t, out)

    def is_pinned(self, tensor) -> bool:
        """Whether memory of the host is pinned."""
        return tensor.untyped_storage().data_ptr() in self._pinned

    def arrive(self, before: int | None = None) -> None:
        """Let the copies to the host land that were enqueued before a moment; all of them without one."""
        for copy in [copy for copy in self.arriving if before is None or copy[0] < before]:
            self.arriving.remove(copy)
            copy[1].copy_(copy[2])

    def _pin(self, tensor):
        self._pinned[tensor.untyped_storage().data_ptr()] = tensor  # held, so that no other gets its address
        return tensor

    def _copy(self, target, source, non_blocking=False):
        if isinstance(target, OnDevice) == isinstance(source, OnDevice):
            held(target).copy_(held(source))
            return target
        host = source if isinstance(target, OnDevice) else target
        if not non_blocking or not self.is_pinned(host):
            self.note("a copy that " + ("waits" if not non_blocking else "is of memory that is not pinned"))
        elif target is host:
            self.arriving.append((next(self.library.ticks), target, held(source).clone()))
            target.view(-1).view(torch.uint8).fill_(_GARBAGE)
            return target
        held(target).copy_(held(source))
        return target

    def _move(self, func, tensor, kwargs):
        to_device = torch.device(kwargs["device"]).type == NAME
        if to_device != isinstance(tensor, OnDevice) and not (
            to_device and kwargs.get("non_blocking") and self.is_pinned(tensor)
        ):
            self.note(func)
        kwargs["device"] = torch.device("cpu")
        moved = func(held(tensor), **kwargs)
        return OnDevice(moved) if to_device else moved

    def note(self, what) -> None:
        """Keep the function that made the host wait."""
        assert self.library.capturing is None, f"{what} while a graph is captured"
        frames = [f for f in traceback.extract_stack(sys._getframe(1)) if f"{Path('tsviz') / 'executor'}" in f.filename]
        if threading.current_thread().name == PEER_THREAD:
            return
        at = f"{Path(frames[-1].filename).stem}.{frames[-1].name}" if frames else "elsewhere"
        self.waits.add(f"{at}: {what}")

    @property
    def library(self) -> PretendCuda:
        """What stands for `torch.cuda`."""
        if not hasattr(self, "_library"):
            self._library = PretendCuda(self)
        return self._library


def _masks(func, args) -> bool:
    """Whether tensors are indexed by a mask: how many are taken then depends on values."""
    if func not in (_ATEN.index.Tensor, _ATEN.index_put_.default, _ATEN.index_put.default):
        return False
    return any(t is not None and t.dtype in (torch.bool, torch.uint8) for t in args[1])


class _Generator(torch.Generator):
    """Draws on the host, whatever device is asked for."""

    def __new__(cls, device="cpu"):
        del device
        return super().__new__(cls)


class PretendCuda(FakeCuda):
    """`torch.cuda` of the pretended device."""

    def __init__(self, pretend: Pretend) -> None:
        super().__init__()
        self.pretend = pretend

    def pass_by(self, at) -> None:
        """Let the copies that were enqueued before that arrive."""
        super().pass_by(at)
        self.pretend.arrive(at)

    @contextlib.contextmanager
    def stream(self, stream):
        """Let what this thread does run there; a thread that launches sees the device only meanwhile."""
        with super().stream(stream), contextlib.nullcontext() if self.pretend.is_entered else self.pretend:
            yield

    def stand_in(self, monkeypatch) -> None:
        """Be `torch.cuda`."""
        for name in (
            "is_available", "Stream", "Event", "CUDAGraph", "graph_pool_handle", "stream", "synchronize",
            "get_device_name", "mem_get_info", "set_sync_debug_mode",
        ):  # fmt: skip
            monkeypatch.setattr(torch.cuda, name, getattr(self, name))
        monkeypatch.setattr(torch, "Generator", _Generator)

    def get_device_name(self, _device=None) -> str:
        return NAME

    def mem_get_info(self) -> tuple[int, int]:
        return 1 << 34, 1 << 34

    def set_sync_debug_mode(self, mode) -> None:
        """What waits is noted anyhow."""
