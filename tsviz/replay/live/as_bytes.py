"""A live state as bytes, for the way from the worker: values and arrays, nothing pickled."""

from __future__ import annotations

from dataclasses import astuple, fields
from typing import Any

import numpy as np

from tsviz.replay.keyframes.packed import Arrays, Malformed, pack, unpack

from .pages import LivePages, LiveTier
from .state import LiveRequest, LiveRow, LiveState, Ticket

_PAGE_COLUMNS = tuple(f.name for f in fields(LivePages) if f.name not in ("group", "packing"))
_BLOCK_COLUMNS = ("block_group", "block_pages", "block_tables")
_PLAIN = tuple(f.name for f in fields(LiveRequest) if f.name not in ("tables", "available_tokens"))


def to_bytes(state: LiveState) -> bytes:
    """Return a live state as bytes."""
    arrays: Arrays = {}
    tables = [table for request in state.requests for table in request.tables]
    arrays["table_lengths"] = np.array([len(table) for table in tables], np.int32)
    arrays["table_pages"] = np.array([page for table in tables for page in table], np.int32)
    tiers = []
    for at, tier in enumerate(state.tiers):
        for name in _BLOCK_COLUMNS:
            arrays[f"{at}.{name}"] = getattr(tier, name)
        for group, pages in enumerate(tier.groups):
            for name in _PAGE_COLUMNS:
                arrays[f"{at}.{group}.{name}"] = getattr(pages, name)
        named = [[pages.group, pages.packing] for pages in tier.groups]
        tiers.append([tier.name, tier.blocks, tier.empty_blocks, named])
    requests = [
        [[getattr(request, name) for name in _PLAIN], list(request.available_tokens)] for request in state.requests
    ]
    values = {
        "round": state.round, "stop": state.stop, "requests": requests, "tiers": tiers,
        "rows": [list(astuple(row)) for row in state.rows], "zeroed": [list(pages) for pages in state.zeroed_pages],
        "tickets": [list(astuple(ticket)) for ticket in state.tickets], "free_slots": list(state.free_slots),
        "storage_keys": state.storage_keys,
    }  # fmt: skip
    return pack(values, arrays)


def from_bytes(data: bytes) -> LiveState:
    """Return the live state of `to_bytes`. Raises `Malformed`."""
    values, arrays = unpack(data)
    try:
        return _state(values, arrays)
    except (KeyError, TypeError, ValueError, IndexError, StopIteration) as error:
        raise Malformed("live state", "what a worker says", f"{type(error).__name__}: {error}"[:80]) from None


def _state(values: Any, arrays: Arrays) -> LiveState:
    pages = arrays["table_pages"].tolist()
    ends = np.cumsum(arrays["table_lengths"]).tolist()
    tables = iter([tuple(pages[start:end]) for start, end in zip([0, *ends], ends, strict=False)])
    requests = []
    for plain, available in values["requests"]:
        named = dict(zip(_PLAIN, plain, strict=True))
        mine = tuple(next(tables) for _ in available)
        requests.append(LiveRequest(**named, tables=mine, available_tokens=tuple(available)))
    tiers = []
    for at, (name, blocks, empty, groups) in enumerate(values["tiers"]):
        made = tuple(
            LivePages(group, packing, *(arrays[f"{at}.{index}.{column}"] for column in _PAGE_COLUMNS))
            for index, (group, packing) in enumerate(groups)
        )
        block_group, block_pages, block_tables = (arrays[f"{at}.{column}"] for column in _BLOCK_COLUMNS)
        tiers.append(LiveTier(name, blocks, empty, block_group, block_pages, block_tables, made))
    return LiveState(
        values["round"], values["stop"], tuple(requests), tuple(tiers), tuple(LiveRow(*row) for row in values["rows"]),
        tuple(tuple(listed) for listed in values["zeroed"]), tuple(Ticket(*row) for row in values["tickets"]),
        tuple(values["free_slots"]), values["storage_keys"],
    )  # fmt: skip
