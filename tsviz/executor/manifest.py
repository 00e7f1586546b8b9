"""Which blocks travel from a prefill to a decode node (`executor-rules.md` section 5, *Which pages*)."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tsviz.engine.workloads.model import WorkRequest, expand
from tsviz.executor.layout import Layout
from tsviz.executor.refusal import RoomFails
from tsviz.executor.shape import ModelShape

WRONG = "a manifest that does not fit the request"
HOLE = "the scheduler's table lacks blocks that travel"
"""Kinds of reasons."""


def prompt_crc(request: WorkRequest) -> int:
    """Return a checksum of a request's prompt: both nodes must have been given the same one."""
    return zlib.crc32(expand(request.prompt).astype("<i4").tobytes())


@dataclass(frozen=True, slots=True)
class Manifest:
    """Per group the blocks in logical order, as they lie on the decode node.

    `prefix_tokens` is the decode node's own hit, `prompt_tokens` and `prompt_crc` are the prompt's.
    """

    request_id: str
    prefix_tokens: int
    prompt_tokens: int
    prompt_crc: int
    pages: Mapping[str, tuple[int, ...]]

    def told(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "kind": "manifest", "room": self.request_id, "prefix": self.prefix_tokens, "prompt": self.prompt_tokens,
            "prompt_crc": self.prompt_crc, "pages": {name: list(ids) for name, ids in self.pages.items()},
        }  # fmt: skip

    def check(self, request: WorkRequest, shape: ModelShape, layout: Layout) -> None:
        """Raise RoomFails where the peer asks for other blocks than this request's prompt has."""
        expected: dict[str, object] = {
            "prompt": request.prompt_tokens,
            "prompt_crc": prompt_crc(request),
            "groups": {group.name for group in layout.groups},
        }
        found = {"prompt": self.prompt_tokens, "prompt_crc": self.prompt_crc, "groups": set(self.pages)}
        for name, value in expected.items():
            if found[name] != value:
                raise RoomFails(WRONG, f"{name}: expected {value}, found {found[name]}")
        aligned = all(self.prefix_tokens % group.granularity == 0 for group in layout.groups)
        if not aligned or self.prefix_tokens >= self.prompt_tokens:
            raise RoomFails(WRONG, f"prefix: expected whole blocks within the prompt, found {self.prefix_tokens}")
        for group in layout.groups:
            slots = travelling(shape, group.name, group.granularity, self.prefix_tokens, self.prompt_tokens)
            pages = self.pages[group.name]
            if len(pages) != len(slots) or 0 in pages:
                raise RoomFails(WRONG, f"{group.name}: expected {len(slots)} blocks from 1 on, found {len(pages)}")


def travelling(shape: ModelShape, group: str, granularity: int, prefix_tokens: int, prompt_tokens: int) -> range:
    """Return the table slots of a group whose blocks travel: what the peer lacks and its layers will still look at."""
    last = (prompt_tokens - 1) // granularity
    window = {"sliding": shape.declared_window, "replay": shape.declared_replay}.get(group)
    if group == "state":
        first = last
    elif window is None:
        first = prefix_tokens // granularity
    else:
        first = max(prefix_tokens, prompt_tokens - window + 1) // granularity
    return range(first, last + 1)


def select_pages(
    shape: ModelShape, granularity: Mapping[str, int], tables: Mapping[str, npt.NDArray[np.int32]], row: int,
    prefix_tokens: int, prompt_tokens: int,
) -> dict[str, tuple[int, ...]]:  # fmt: skip
    """Return the blocks of one row that travel. Raises RoomFails for a hole among them."""
    pages = {}
    for name, g in granularity.items():
        slots = travelling(shape, name, g, prefix_tokens, prompt_tokens)
        ids = tuple(int(page) for page in tables[name][row][slots.start : slots.stop])
        if len(ids) != len(slots) or any(page <= 0 for page in ids):
            raise RoomFails(HOLE, f"group {name}: expected blocks for slots {slots[0]}..{slots[-1]}, found {list(ids)}")
        pages[name] = ids
    return pages
