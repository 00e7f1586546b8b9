"""A recorded trace read as a scenario (debugger.md, section 5).

Lengths, sharing, budgets and arrivals are as recorded. A request that ended says what it said; one that was still there
at the end, or that its client gave up, could say more than it had time for. The device's cost is fitted to the recorded
forwards, which is exact for a simulated device.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tsviz.engine.configs import GroupKind, GroupOptions, Role, SchedulerOptions
from tsviz.engine.cost import DeviceCost
from tsviz.engine.faults import AckFaults, ClientAbort
from tsviz.engine.simulated import SimulatedOptions
from tsviz.engine.workloads.model import WorkRequest
from tsviz.replay.rows.lifetimes import Lifetimes, column, words
from tsviz.trace import entries as e
from tsviz.trace.reader import Part

from .scenario import NotAScenario, Scenario, behind, cut
from .tokens import SpanBook, page_numbers, unbroken

OPEN_TOKENS = 256
"""What a request whose end was not recorded could still say if no budget says it and the pool has room for it."""
_LOST_ROUNDS = 64


def read_scenario(part: Part) -> Scenario:
    """Return the scenario of a part.

    A slice is none: what led to its start is not in it. Raises `NotAScenario` for one, for a node of a P/D pair and for
    a config that the engine cannot build, `TraceError` when a table cannot be read.
    """
    if "starts_at" in part.meta:
        raise NotAScenario(f"a slice from round {part.meta['starts_at']}: expected a trace from its first round")
    scheduler = read_config(part.config)
    life = Lifetimes(part)
    rounds = max(1, part.last_round)
    requests, arrived, aborts = _requests(part, life)
    left_out = []
    kinds = set(words(part.table("events"), "kind"))
    if e.RETRACT in kinds:
        left_out.append("retractions by the runtime (pages that vanished from storage)")
    if part.rows("storage_keys"):
        left_out.append("storage keys: the scenario runs without a storage tier")
    if not all(life.accepted):
        left_out.append("submissions that the scheduler refused")
    return Scenario(scheduler, requests, _device(part), rounds, aborts, arrived, tuple(left_out))


def read_config(config: dict[str, Any]) -> SchedulerOptions:
    """Return a recorded config as the engine's options, without a storage tier. Raises `NotAScenario`."""
    if config["role"] != Role.FUSED.value:
        raise NotAScenario(f"config, role: expected a node that prefills and decodes (Fused), found {config['role']}")
    host = 0 if config["disable_l2_cache"] else config["num_host_pages"]
    return SchedulerOptions(
        groups=tuple(_group(config, index) for index in range(len(config["cache_groups"]))),
        prefix_granularity=config["prefix_granularity"],
        max_scheduled_tokens=config["max_scheduled_tokens"],
        max_batch_size=config["max_batch_size"],
        num_device_pages=config["num_device_pages"],
        num_host_pages=host,
        decode_input_tokens=config["decode_input_tokens"],
        overlap_schedule_depth=config["overlap_schedule_depth"],
        mixed=config["enable_mixed_prefill_decode"],
        prefix_cache=not config["disable_prefix_cache"],
        kv_events=config["enable_kv_cache_events"],
        prefix_replay_tokens=config["prefix_replay_tokens"],
    )


def _group(config: dict[str, Any], index: int) -> GroupOptions:
    group = config["cache_groups"][index]
    kind = GroupKind.FULL
    if group["family"] == "State":
        kind = GroupKind.STATE
    elif group["retention"] == "SlidingWindow":
        kind = GroupKind.SLIDING
    packing = group["cache_blocks_per_lcm_block"]
    expected = {
        "total_pages": (config["num_device_pages"] - 1) * packing + 1,
        "transfer_policy": "LatestSnapshot" if kind is GroupKind.STATE else "FullSuffix",
    }
    for name, value in expected.items():
        if group[name] != value:
            raise NotAScenario(f"config, cache_groups[{index}].{name}: expected {value}, found {group[name]}")
    return GroupOptions(
        kind, group["block_granularity"], group["group_id"], group["sliding_window_tokens"], group["replayable"],
        packing, group["shard_count"],
    )  # fmt: skip


def _requests(part: Part, life: Lifetimes) -> tuple[tuple[WorkRequest, ...], dict[str, int], tuple[ClientAbort, ...]]:
    numbers = page_numbers(part)
    book = SpanBook(part.prefix_tokens)
    for pages in numbers:
        book.add([pages[i] for i in range(unbroken(pages))])
    said = life.landed(np.arange(life.count, dtype=np.int64), 0xFFFF_FFFF)
    submissions = part.table("submissions")
    arrivals, afters, thinks = (submissions[n].to_pylist() for n in ("arrival_ns", "after", "think_ns"))
    calls = dict(zip(part.table("calls")["seq"].to_pylist(), part.table("calls")["time_ns"].to_pylist(), strict=True))
    submitted = [calls.get(seq, 0) for seq in submissions["call_seq"].to_pylist()]
    ended_ns = _end_times(part, calls)
    requests: list[WorkRequest] = []
    arrived: dict[str, int] = {}
    aborts: list[ClientAbort] = []
    seen: dict[str, int] = {}
    for index in np.flatnonzero(life.accepted).tolist():
        name = life.names[index]
        seen[name] = again = seen.get(name, 0) + 1
        name = name if again == 1 else f"{name}~{again}"
        at_ns = int(submitted[index] if arrivals[index] is None else arrivals[index])
        arrived[name] = at_ns
        prompt, output = int(life.prompt[index]), int(said[index])
        if life.end_kind[index] != "finished":
            output = _open_tokens(part, life, index, output)
        if life.end_kind[index] == "aborted":
            aborts.append(ClientAbort(name, max(0, ended_ns.get(index, at_ns) - at_ns)))
        spans = book.spans(index, prompt + output)
        after = afters[index] if afters[index] in arrived and afters[index] != name else None
        requests.append(
            WorkRequest(
                name, cut(spans, prompt), behind(spans, prompt), int(life.max_new[index]),
                at_ns if after is None else None, after, int(thinks[index] or 0) if after is not None else 0,
            )
        )  # fmt: skip
    return tuple(requests), arrived, tuple(aborts)


def _open_tokens(part: Part, life: Lifetimes, index: int, said: int) -> int:
    budget = int(life.max_new[index])
    if budget > 0:
        return max(said + 1, budget)
    groups = part.config["cache_groups"]
    block = min((int(g["block_granularity"] * g["cache_blocks_per_lcm_block"]) for g in groups), default=0)
    room = block * (int(part.config["num_device_pages"]) - 1) - int(life.prompt[index])
    return max(said + 1, min(said + OPEN_TOKENS, room))


def _end_times(part: Part, calls: dict[int, int]) -> dict[int, int]:
    events = part.table("events")
    columns = (events[name].to_pylist() for name in ("kind", "submission", "call_seq"))
    return {s: calls.get(seq, 0) for kind, s, seq in zip(*columns, strict=True) if kind in (e.ABORT, e.FAILED)}


def _device(part: Part) -> SimulatedOptions:
    cost = fit_cost(part)
    events = part.table("events")
    acknowledged = np.isin(np.array(words(events, "kind"), dtype=object), (e.WRITE_BACK_DONE, e.LOAD_BACK_DONE))
    late = column(events, "round")[acknowledged] - column(events, "cause_round")[acknowledged] > 1
    if len(late) and late.mean() > 0.5:
        cost = DeviceCost(
            cost.round_ns, cost.token_ns, cost.empty_round_ns,
            ack_delay_ns=int(np.median(column(events, "delay_ns")[acknowledged])),
        )  # fmt: skip
    answered = set(column(events, "op_id")[acknowledged].tolist())
    transfers = part.table("transfers")
    old = column(transfers, "round") < part.last_round - _LOST_ROUNDS
    lost = frozenset(set(column(transfers, "op_id")[old].tolist()) - answered)
    failed = acknowledged & (np.array(words(events, "kind"), dtype=object) == e.LOAD_BACK_DONE)
    failed &= column(events, "value") == 0
    acks = AckFaults(lost_ops=lost, failed_load_ops=frozenset(column(events, "op_id")[failed].tolist()))
    return SimulatedOptions(cost=cost, acks=acks)


def fit_cost(part: Part) -> DeviceCost:
    """Return the cost a round and a forward row by least squares over the recorded forwards; defaults without any."""
    rounds, forwards = part.table("rounds"), part.table("forwards")
    if not forwards.num_rows or not rounds.num_rows:
        return DeviceCost()
    tokens_of = dict(zip(rounds["round"].to_pylist(), rounds["scheduled_tokens"].to_pylist(), strict=True))
    tokens = np.array([tokens_of.get(r, 0) for r in forwards["round"].to_pylist()], np.float64)
    taken = (column(forwards, "end_ns") - column(forwards, "start_ns")).astype(np.float64)
    if np.ptp(tokens) == 0:
        round_ns, token_ns = float(np.median(taken)), 0.0
    else:
        spread = tokens - tokens.mean()
        token_ns = max(0.0, float((spread * (taken - taken.mean())).sum() / (spread**2).sum()))
        round_ns = max(0.0, float(taken.mean() - token_ns * tokens.mean()))
    return DeviceCost(round(round_ns), round(token_ns), max(1, round(round_ns)))
