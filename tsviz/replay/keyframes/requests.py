"""One request of a snapshot as builtin values, and back."""

from __future__ import annotations

from dataclasses import astuple
from typing import Any

from tsviz.scheduler import decisions as d
from tsviz.scheduler.config import Config
from tsviz.scheduler.plan import Row
from tsviz.scheduler.snapshot import PLAIN, RequestState
from tsviz.scheduler.states import FINISHED, holds_pages

from .checks import INT64, flag, items, member, text, whole, wholes
from .collector import Collector
from .packed import Malformed
from .shared import Shared

_FLAGS = frozenset(("recoverable", "resumes_generation"))
_MADE = frozenset(("decode_row", "refusal", "verdict", "views", "spec_candidates"))
_AT = {name: index for index, name in enumerate(PLAIN)}
_REFUSED_LISTS = (1, 3, 5)
"""Which fields of a refusal are lists."""


def request_values(request: RequestState, shared: Collector) -> dict[str, Any]:
    """Return a request as JSON-able values; its lists go into `shared`."""
    plain = dict(zip(PLAIN, request.plain, strict=True))
    row: Any = plain["decode_row"]
    refusal: Any = plain["refusal"]
    verdict: Any = plain["verdict"]
    views: Any = plain["views"]
    memory = request.memory
    tokens = shared.listed(request.tokens, request.token_count)
    chain = shared.chained(request.chain, request.chain_pages, request.tokens)
    tables = [[shared.listed(t[0], t[1]), *t[1:]] for t in request.tables]
    shared.placed(chain, [table[0] for table in tables])
    return {
        "id": request.request_id,
        "tokens": [tokens, request.token_count],
        "chain": [chain, request.chain_pages],
        "boundaries": list(request.state_boundaries),
        "tables": tables,
        "memory": None if memory is None else [*memory[:3], shared.digest(memory[3]), memory[4]],
        "plain": [plain[name] for name in PLAIN if name not in _MADE],
        "views": _views(views, shared),
        "spec_candidates": list(plain["spec_candidates"]),  # type: ignore[arg-type]
        "decode_row": None if row is None else [*row[:4], _views(row.views, shared), *row[5:7], *row[8:]],
        "refusal": None if refusal is None else list(astuple(refusal)),
        "verdict": None if verdict is None else list(astuple(verdict)),
    }


def _views(views: Any, shared: Collector) -> list[list[int]]:
    return [[shared.listed(pages, length), length, frontier] for pages, length, frontier in views]


def request_state(values: Any, shared: Shared, config: Config, pages: list[int]) -> RequestState:
    """Return the request again, checked; `pages` says how many pages each group can have. Raises `Malformed`."""
    name = text(member(values, "id"), "request id")
    place = f"request {name!r}"[:80]
    token_list, token_count = wholes(member(values, "tokens"), f"{place} tokens", 0, count=2)
    chain_list, chain_pages = wholes(member(values, "chain"), f"{place} chain", 0, count=2)
    if chain_pages * config.prefix_granularity > token_count:
        raise Malformed(f"{place} chain", f"digests of whole pages of {token_count} tokens", f"{chain_pages} digests")
    plain = _plain(values, place, shared)
    holds = holds_pages(plain[_AT["state"]])
    tables = items(member(values, "tables"), f"{place} tables", len(pages) if holds else 0)
    found = []
    for group, row in enumerate(tables):
        number, length, available, frontier = wholes(row, f"{place} table", -INT64, INT64, 4)
        listed = shared.listed(number, length)
        slots = listed[:length]
        if length and not (min(slots) >= 0 and max(slots) <= pages[group]):
            raise Malformed(f"{place} table {group}", f"pages up to {pages[group]}", f"up to {max(slots)}")
        if not 0 <= frontier <= length:
            raise Malformed(f"{place} table {group}", f"at most {length} leading holes", str(frontier))
        found.append((listed, length, available, frontier))
    if holds and not 1 <= plain[_AT["slot"]] <= config.max_batch_size:
        raise Malformed(f"{place} slot", f"1 to {config.max_batch_size}", str(plain[_AT["slot"]]))
    return RequestState(
        request_id=name,
        tokens=shared.listed(token_list, token_count),
        token_count=token_count,
        chain=shared.chain(chain_list, chain_pages),
        chain_pages=chain_pages,
        state_boundaries=wholes(member(values, "boundaries"), f"{place} boundaries", 0),
        tables=tuple(found),
        memory=_memory(member(values, "memory"), place, shared, len(pages)),
        plain=tuple(plain),
    )


def _memory(values: Any, place: str, shared: Shared, groups: int) -> tuple[int, int, int, bytes, int] | None:
    if values is None:
        return None
    low, high, blocks, digest, group = wholes(values, f"{place} memory", -INT64, INT64, 5)
    return low, high, blocks, shared.digest(digest), whole(group, f"{place} memory", -1, groups - 1)


def _plain(values: Any, place: str, shared: Shared) -> list[Any]:
    names = [name for name in PLAIN if name not in _MADE]
    found: dict[str, Any] = {}
    for name, value in zip(names, items(member(values, "plain"), place, len(names)), strict=True):
        where = f"{place} {name}"
        if name in _FLAGS:
            found[name] = flag(value, where)
        elif name == "state":
            found[name] = whole(value, where, 0, FINISHED)
        else:
            found[name] = whole(value, where, -INT64, INT64)
    found["views"] = _read_views(member(values, "views"), place, shared)
    found["spec_candidates"] = wholes(member(values, "spec_candidates"), f"{place} candidates", -INT64, INT64)
    found["decode_row"] = _row(member(values, "decode_row"), place, shared, found["views"])
    found["refusal"] = _refusal(member(values, "refusal"), f"{place} refusal")
    found["verdict"] = _verdict(member(values, "verdict"), f"{place} verdict")
    return [found[name] for name in PLAIN]


def _read_views(values: Any, place: str, shared: Shared) -> tuple[tuple[Any, int, int], ...]:
    views = []
    for row in items(values, f"{place} views"):
        number, length, frontier = wholes(row, f"{place} view", 0, count=3)
        views.append((shared.listed(number, length), length, frontier))
    return tuple(views)


def _row(values: Any, place: str, shared: Shared, views: tuple[Any, ...]) -> Row | None:
    if values is None:
        return None
    name, slot, size, prefill, seen, prefix, replay, token, candidates = items(values, f"{place} row", 9)
    read = _read_views(seen, place, shared)
    place = f"{place} row"
    counted = wholes([slot, size, prefill, prefix, replay, token], place, -INT64, INT64)
    return Row(
        request_id=text(name, place),
        slot=counted[0],
        input_length=counted[1],
        prefill_length=counted[2],
        views=views if read == views else read,
        prefix_tokens=counted[3],
        replay_tokens=counted[4],
        tokens=None,
        decode_input_id=counted[5],
        spec_candidates=wholes(candidates, place, -INT64, INT64),
    )


def _refusal(values: Any, place: str) -> d.Refused | None:
    if values is None:
        return None
    name, *rest = items(values, place, 6)
    made: list[Any] = [text(name, place)]
    for at, value in enumerate(rest, 1):
        made.append(wholes(value, place, -INT64, INT64) if at in _REFUSED_LISTS else whole(value, place, -INT64, INT64))
    return d.Refused(*made)


def _verdict(values: Any, place: str) -> d.Verdict | None:
    if values is None:
        return None
    name, cause, holder, rule, op_id = items(values, place, 5)
    if cause not in d.CAUSES:
        raise Malformed(place, "a cause of the closed list", repr(cause)[:40])
    return d.Verdict(
        text(name, place), cause, text(holder, place), text(rule, place), whole(op_id, place, -INT64, INT64)
    )
