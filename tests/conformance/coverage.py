"""Counts lifetimes that show each feature, from the reference's plans and the calls alone.

The names are those of the campaign's floor. Where a feature has no field of its own (a deferred
retraction, a grant that cannot join) the reading is one that no other rule explains, so that the counts
err on the low side.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from tests.conformance.tracker import SAFE_TOKENS, Round, Tracked, Tracker

FEATURES = (
    "stream-ordered retraction",
    "load-back",
    "storage shortening",
    "failed prefetch with runtime Retract",
    "promotion",
    "replay after a hit",
    "redirected grant",
    "grant that cannot join",
    "pinned-store gate",
    "escalated headroom",
    "turn to exemption",
    "shards",
    "UpdateReserve",
    "clears",
    "PD failure",
    "KV events",
    "overlap 1",
    "width > 1",
)


class Coverage:
    """Feature counts of one lifetime."""

    def __init__(self, config: dict[str, Any], tracker: Tracker) -> None:
        self.config = config
        self.tracker = tracker
        self.seen: Counter[str] = Counter()
        self.rounds = 0
        self.rows = 0
        groups = config["cache_groups"]
        self._page = config["prefix_granularity"]
        self._state = any(group.get("family") == "State" for group in groups)
        self._window = max((g["sliding_window_tokens"] for g in groups if g.get("replayable")), default=0)
        self._shortens = any(
            g.get("family") == "State" or (g.get("retention") == "SlidingWindow" and not g.get("replayable"))
            for g in groups
        )
        self._sharded = any(group["shard_count"] > 1 for group in groups)

    def count(self, feature: str, times: int = 1) -> None:
        """Note a feature."""
        if times:
            self.seen[feature] += times

    def forget_expected_hits(self) -> None:
        """The set of keys in storage may have changed: no hit can be foretold any more."""
        for request in self.tracker.live.values():
            request.expected_hit = None

    def expect_hit(self, request: Tracked, pages: int, keys: int) -> None:
        """Just registered: all keys of the first ``pages`` pages, as far as the shadow has room for them."""
        parents = self.config["num_host_pages"] - 1
        limit = sum(parents * group["cache_blocks_per_lcm_block"] for group in self.config["cache_groups"])
        if keys and not self.config["disable_prefix_cache"] and self.config["role"] != "D":
            replay = max(self.config.get("prefix_replay_tokens", 0), 1)
            whole = min(pages, limit // (keys // pages)) * self._page
            request.expected_hit = min(whole, max(len(request.tokens) - replay, 0) // self._page * self._page)

    def plan(self, seen: Round) -> None:
        """Read one round."""
        batch = seen.plan["forward"][0]
        rows = len(batch["request_ids"])
        self.rounds += 1
        self.rows += rows
        if rows:
            self.count("shards", int(self._sharded))
        decodes = rows - batch["num_extends"]
        self.count("overlap 1", int(decodes > 0 and self.config["overlap_schedule_depth"] == 1))
        self.count("width > 1", int(decodes > 0 and self.config["decode_input_tokens"] > 1))
        self.count("replay after a hit", sum(1 for length in batch["extend_replay_lens"] if length > 0))
        for operation in seen.plan["cache"]:
            if operation["kind"] == "LoadBackOp":
                self.count("load-back", len(operation["op_ids"]))
            elif not all(operation["source_pinned"]):
                self.count("stream-ordered retraction")
        self._first_chunks(seen, batch)
        if seen.retracted > 0:
            self._grants(seen, batch, decodes)
        else:
            self._gate(batch, decodes)

    def _first_chunks(self, seen: Round, batch: dict[str, Any]) -> None:
        for request in seen.first_chunks:
            remaining = max(0, request.max_new_tokens - request.generated)
            if request.retractions and remaining > SAFE_TOKENS:
                self.count("escalated headroom")
            if request.retractions and request.turned_exempt:
                self.count("turn to exemption")
        spent = 0
        for index in range(batch["num_extends"]):
            request = self.tracker.live[batch["request_ids"][index]]
            if request in seen.first_chunks:
                begin = batch["extend_prefix_lens"][index] + batch["extend_replay_lens"][index]
                if request.expected_hit is not None and begin < request.expected_hit:
                    self.count("storage shortening")
                if self._shortens and not self._window:
                    self._promotion(batch, index, begin, spent)
            spent += batch["input_lengths"][index]
        for request in seen.first_chunks:
            request.expected_hit = None

    def _promotion(self, batch: dict[str, Any], index: int, begin: int, spent: int) -> None:
        """A first chunk cut at a page boundary short of both the budget and the prompt's end."""
        room = self.config["max_scheduled_tokens"] - spent
        if self.config["enable_mixed_prefill_decode"]:
            room -= (len(batch["request_ids"]) - batch["num_extends"]) * self.config["decode_input_tokens"]
        length = min(room, batch["prefill_lengths"][index] - begin)
        if self._state and length < batch["prefill_lengths"][index] - begin:
            length -= length % self._page
        taken = batch["input_lengths"][index]
        self.count("promotion", int(0 < taken < length and (begin + taken) % self._page == 0))

    def _attempted_decode_failed(self, batch: dict[str, Any], decodes: int) -> bool:
        """Whether some request that could decode was tried and found no room (not skipped by the guard)."""
        config, width = self.config, self.config["decode_input_tokens"]
        if config["role"] == "P" or width == 0 or width > config["max_scheduled_tokens"]:
            return False
        if config["role"] == "Fused":
            if batch["num_extends"]:
                return False
            held = self._page if self._state else self._window + max(self._window, self._page) if self._window else 0
            if not config["enable_mixed_prefill_decode"]:
                held = 0
            if config["max_scheduled_tokens"] - decodes * width < held + width:
                return False
        if len(batch["request_ids"]) >= config["max_batch_size"]:
            return False
        return any(
            request.request_id not in batch["request_ids"] for request in self.tracker.in_state("done", "decode")
        )

    def _grants(self, seen: Round, batch: dict[str, Any], decodes: int) -> None:
        config = self.config
        remote = seen.plan["remote_prefill"]
        granted = seen.first_chunks and (batch["num_extends"] or remote)
        if config["role"] == "D":
            waited = any(r.request_id not in batch["request_ids"] for r in self.tracker.in_state("done", "decode"))
            self.count("redirected grant", int(bool(granted and remote and waited)))
            return
        if granted:
            chunk_waits = any(r not in seen.first_chunks for r in self.tracker.in_state("prefill"))
            mixed = config["enable_mixed_prefill_decode"]
            decode_waits = mixed and any(
                r.request_id not in batch["request_ids"] for r in self.tracker.in_state("done", "decode")
            )
            self.count("redirected grant", int(bool(decode_waits or (not mixed and chunk_waits))))
        elif not config["enable_mixed_prefill_decode"] and decodes and not batch["num_extends"]:
            sealed = any(
                r.maybe_retracted for r in self.tracker.live.values() if r.request_id not in batch["request_ids"]
            )
            newcomers = self.tracker.in_state("wait")
            blocked_chunk = any(not r.in_flight for r in self.tracker.in_state("prefill"))
            slots = config["max_batch_size"] > sum(1 for r in self.tracker.live.values() if r.resident)
            tried = bool(newcomers) and slots and seen.retracted == 1 and sealed
            self.count("grant that cannot join", int(tried or blocked_chunk))

    def _gate(self, batch: dict[str, Any], decodes: int) -> None:
        """A blocked decode, nobody in flight, somebody not exempt, and a pinned store out: the gate held."""
        if not any(self.tracker.stores.values()) or not self._attempted_decode_failed(batch, decodes):
            return
        residents = [request for request in self.tracker.live.values() if request.resident]
        quiet = all(len(r.in_flight) <= int(r.request_id in batch["request_ids"]) for r in residents)
        rows = batch["request_ids"]
        if quiet and not rows and any(not r.covered() and not r.maybe_retracted for r in residents):
            self.count("pinned-store gate")
