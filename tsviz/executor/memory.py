"""Whether the pools fit, asked before anything is allocated (`executor-rules.md` section 6, *L2 layout*).

A machine that overcommits hands out more than it has and ends the process later: so free memory is looked at first.
"""

from __future__ import annotations

from pathlib import Path

from tsviz.executor.arena import NoMemory
from tsviz.executor.sizing import SizedPool

HEADROOM_BYTES = 256 << 20
"""What is left to everything else."""
_TOKEN_BYTES = 8
_MEMINFO = Path("/proc/meminfo")


def free_host_bytes() -> int | None:
    """Return what the system says can be had without swapping; None where it does not say."""
    try:
        lines = _MEMINFO.read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, ValueError, StopIteration):
        return None


def free_device_bytes(device: str) -> int | None:
    """Return what is free on a device: the GPU's own count, the host's for `cpu`."""
    if device == "cpu":
        return free_host_bytes()
    import torch

    return int(torch.cuda.mem_get_info()[0])


def check_memory(sized: SizedPool, device: str, most_tokens: int) -> None:
    """Raise NoMemory, with the bytes that are needed and free, where a pool cannot be held.

    `most_tokens`: how long a request can get, as far back a slot remembers its tokens.
    """
    layout, options = sized.layout, sized.scheduler
    on_device = options.num_device_pages * layout.parent_bytes
    on_device += (options.max_batch_size + 2) * max(0, most_tokens) * _TOKEN_BYTES
    on_host = max(0, options.num_host_pages - 1) * layout.host_parent_bytes
    if device == "cpu":
        on_device, on_host = on_device + on_host, 0
    for what, need, free in (
        (device, on_device, free_device_bytes(device)),
        ("host", on_host, free_host_bytes() if on_host else None),
    ):
        if free is not None and need > max(0, free - HEADROOM_BYTES):
            raise NoMemory(
                f"{what} memory: pools and slots need {need:,} bytes, {free:,} are free, {HEADROOM_BYTES:,} of them are"
                " kept back: fewer --pages or --host-pages, a smaller --batch, or less --memory"
            )
