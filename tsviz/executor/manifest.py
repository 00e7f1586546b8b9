"""Which blocks travel from a prefill to a decode node (`executor-rules.md` section 5, *Which pages*)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tsviz.executor.shape import ModelShape


class BadManifest(ValueError):
    """A manifest that names other blocks than the prompt needs."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """Per group the blocks in logical order: where they lie on the decode node, or on the prefill node.

    `prefix_tokens` is the decode node's own hit, `prompt_tokens` the prompt.
    """

    request_id: str
    prefix_tokens: int
    prompt_tokens: int
    pages: Mapping[str, tuple[int, ...]]

    @property
    def blocks(self) -> int:
        """How many blocks travel."""
        return sum(map(len, self.pages.values()))

    def told(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "kind": "manifest", "room": self.request_id, "prefix": self.prefix_tokens, "prompt": self.prompt_tokens,
            "pages": {name: list(ids) for name, ids in self.pages.items()},
        }  # fmt: skip

    @staticmethod
    def heard(head: Mapping[str, Any]) -> Manifest:
        """Return what a peer told. Raises BadManifest."""
        try:
            pages = {str(name): tuple(int(page) for page in ids) for name, ids in head["pages"].items()}
            found = Manifest(str(head["room"]), int(head["prefix"]), int(head["prompt"]), pages)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise BadManifest(f"a manifest that cannot be read: {error}") from error
        if not 0 <= found.prefix_tokens < found.prompt_tokens or any(
            page <= 0 for ids in pages.values() for page in ids
        ):
            raise BadManifest(f"{found.request_id}: expected a prefix within the prompt and blocks from 1 on")
        return found


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
    """Return the blocks of one row that travel. Raises BadManifest for a hole among them."""
    pages = {}
    for name, g in granularity.items():
        slots = travelling(shape, name, g, prefix_tokens, prompt_tokens)
        ids = tuple(int(page) for page in tables[name][row][slots.start : slots.stop])
        if len(ids) != len(slots) or any(page <= 0 for page in ids):
            raise BadManifest(f"group {name}: expected blocks for slots {slots[0]}..{slots[-1]}, found {list(ids)}")
        pages[name] = ids
    return pages
