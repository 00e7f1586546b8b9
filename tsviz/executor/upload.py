"""Between host and device without making either wait (`executor-rules.md` section 1, *Never block*)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor


def upload(values: npt.NDArray[Any] | Sequence[int] | Sequence[Sequence[int]], device: torch.device) -> Tensor:
    """Return whole numbers on the device; to a GPU from pinned memory that is never used again."""
    host = torch.from_numpy(np.ascontiguousarray(values, np.int64))
    return host if device.type == "cpu" else host.pin_memory().to(device, non_blocking=True)


def download(tensor: Tensor) -> Tensor:
    """Return a copy on the host; from a GPU it is there once the operation's event says so."""
    if tensor.device.type == "cpu":
        return tensor.clone()
    return torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True).copy_(tensor, non_blocking=True)
