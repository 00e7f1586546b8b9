"""A seeded driver: decides each call of a lifetime from what the reference answered so far.

``Driver.calls()`` is a generator: it yields a call and is sent the reference's outcome of it. The calls are
legal in the order an engine makes them (executor-rules 4 and 5), except those of ``oddities``.
"""

from __future__ import annotations

from collections.abc import Generator
from random import Random
from typing import Any

from tests.conformance.calls import Call, Outcome
from tests.conformance.coverage import Coverage
from tests.conformance.oddities import odd_call
from tests.conformance.profiles import Profile
from tests.conformance.prompts import Prompts
from tests.conformance.tracker import Tracked, Tracker

Calls = Generator[Call, Outcome, None]


class Driver:
    """One lifetime over one configuration."""

    def __init__(self, rng: Random, profile: Profile, config: dict[str, Any], bound_tokens: int) -> None:
        self.rng = rng
        self.profile = profile
        self.config = config
        self.tracker = Tracker(config["role"])
        self.prompts = Prompts(rng, profile, config, bound_tokens)
        self.coverage = Coverage(config, self.tracker)
        self.waiting = 0
        self.clock = 0

    def chance(self, probability: float) -> bool:
        """True with the given probability."""
        return self.rng.random() < probability

    def calls(self) -> Calls:
        """The whole lifetime: rounds, then a wind-down that leaves the scheduler empty."""
        for _ in range(self.rng.randint(*self.profile.rounds)):
            yield from self._arrivals()
            yield from self._acknowledgements()
            yield from self._landings()
            yield from self._peer()
            yield from self._endings()
            yield from self._upkeep()
            if self.chance(self.profile.odd):
                yield from self._odd()
            yield from self._storage()
            yield from self._plan()
        yield from self._wind_down()

    def _advance(self, *events: tuple[Any, ...]) -> Generator[Call, Outcome, Outcome]:
        return (yield ("advance", list(events)))

    # -- what enters ---------------------------------------------------------------------------------

    def _arrivals(self) -> Calls:
        tracker = self.tracker
        if len(tracker.live) > self.config["max_batch_size"] + 3 or not self.chance(self.profile.arrivals):
            return
        count = self.rng.choice((1, 1, 2, 3))
        specs = [(self._name(), *self.prompts.draw(tracker.texts())) for _ in range(count)]
        outcome = yield ("submit", specs)
        if outcome[0] == "ok":
            for spec in specs:
                tracker.submitted(*spec)
            self.waiting += len(specs) if self.config["role"] == "Fused" else 0

    def _name(self) -> str:
        """A fresh id, or one whose last owner has ended (refused until a plan has reaped it)."""
        ended = [name for name in self.tracker.known if name not in self.tracker.live]
        if ended and self.chance(0.04):
            return self.rng.choice(ended)
        self.clock += 1
        return f"r{self.clock}" if self.chance(0.9) else f"{self.rng.choice('abz')}{self.clock}"

    def _storage(self) -> Calls:
        if not self.config.get("enable_l3_storage") or not self.chance(self.profile.register):
            return
        waiting = self.tracker.in_state("wait", "boot")
        if waiting and self.chance(0.7):
            request = self.rng.choice(waiting)
            tokens = request.tokens
        else:
            request, tokens = None, self.prompts.document()
        hashes = (yield ("prefix_hashes_for_tokens", tokens))[1]
        if self.chance(0.3):
            hashes = hashes[: self.rng.randint(0, len(hashes))]
        keys = (yield ("expand_prefix_keys", hashes))[1]
        self.coverage.forget_expected_hits()
        if self.chance(0.15):
            yield ("unregister_storage_keys", *keys)
            return
        if self.chance(0.15):
            picked = self.rng.sample(range(len(keys[0])), self.rng.randint(0, len(keys[0])))
            yield ("register_storage_keys", *([part[index] for index in picked] for part in keys))
            return
        outcome = yield ("register_storage_keys", *keys)
        if outcome[0] == "ok" and request is not None:
            self.coverage.expect_hit(request, len(hashes), len(keys[0]))

    def _acknowledgements(self) -> Calls:
        for op_id in list(self.tracker.stores):
            if self.chance(self.profile.acknowledge):
                del self.tracker.stores[op_id]
                self.coverage.forget_expected_hits()
                yield from self._advance(("WriteBackDoneEvent", op_id))
        for op_id, (prefetch, batch) in list(self.tracker.loads.items()):
            if not self.chance(max(self.profile.acknowledge, 0.3)):
                continue
            del self.tracker.loads[op_id]
            failed = self.chance(self.profile.load_failure * (1.5 if prefetch else 0.3))
            if failed and prefetch:
                self.coverage.count("failed prefetch with runtime Retract")
            yield from (
                self._failed_load(op_id, batch) if failed else self._advance(("LoadBackDoneEvent", op_id, True))
            )

    def _failed_load(self, op_id: int, batch: list[str]) -> Calls:
        """A missed prefetch: Retract for every request of the forward, and the failed acknowledgement."""
        events: list[tuple[Any, ...]] = [("Retract", name) for name in batch if self._retractable(name)]
        events.insert(self.rng.choice((0, len(events))), ("LoadBackDoneEvent", op_id, False))
        outcome = yield from self._advance(*events)
        if outcome[0] == "ok":
            for kind, name, *_ in events:
                if kind == "Retract":
                    yield from self._note_retract(name)

    def _retractable(self, name: str) -> bool:
        request = self.tracker.live.get(name)
        return request is not None and request.resident

    def _note_retract(self, name: str) -> Calls:
        self.tracker.retracted_by_runtime(name)
        self._sync_waiting((yield ("waiting_size",)))

    def _sync_waiting(self, outcome: Outcome) -> None:
        self.waiting = outcome[1]

    # -- what lands ----------------------------------------------------------------------------------

    def _landings(self) -> Calls:
        for request in list(self.tracker.live.values()):
            depth = self.config["overlap_schedule_depth"]
            late = (depth and self.chance(0.6)) or self.chance(self.profile.late)
            keep = self.rng.choice((1, 1, 1, 2)) if late else 0
            while len(request.in_flight) > keep and request.request_id in self.tracker.live:
                yield from self._land(request, request.in_flight.pop(0))

    def _land(self, request: Tracked, kind: str) -> Calls:
        name, width = request.request_id, self.config["decode_input_tokens"]
        if kind == "chunk":
            yield from self._advance(("ExtendResult", name, []))
            return
        count = 1 if kind == "last" else self._accepted(width)
        tokens = self.prompts.generated(count)
        event: tuple[Any, ...] = ("ExtendResult", name, tokens)
        if tokens and self.chance(0.4 if self.config["role"] == "P" else 0.05):
            event = (*event, [*tokens, *self.prompts.generated(max(0, width - 1))])
        events = [event]
        update = kind == "decode" and tokens and self.chance(0.85)
        ends = self._ends(request, len(tokens)) and self.config["role"] != "P" and not request.in_flight
        if update and not ends:
            accepted = len(tokens) if not self.chance(self.profile.overlong) else self.rng.randint(0, len(tokens))
            if self.chance(0.03):
                accepted += self.rng.randint(0, 2 * self.config["prefix_granularity"])
            events.append(("UpdateReserveNumTokens", name, accepted))
        split = self.chance(0.3)
        for part in [[one] for one in events] if split else [events]:
            outcome = yield from self._advance(*part)
            if outcome[0] == "ok" and part[-1][0] == "UpdateReserveNumTokens":
                self.coverage.count("UpdateReserve")
        request.tokens.extend(tokens)
        if request.state == "await" and tokens:
            request.state = "done"
        if ends:
            yield from self._finish(request)

    def _accepted(self, width: int) -> int:
        if width == 0:
            return 1 if self.chance(self.profile.overlong) else 0
        if self.chance(self.profile.overlong):
            return width + self.rng.randint(0, 2 * self.config["prefix_granularity"])
        if width > 16:
            return self.rng.choice((width, width, self.rng.randint(1, width)))
        return 0 if self.chance(0.02) else self.rng.randint(1, width)

    def _ends(self, request: Tracked, landed: int) -> bool:
        if request.max_new_tokens and request.generated + landed >= request.max_new_tokens:
            return not self.chance(0.05)
        return self.chance(self.profile.finish)

    def _finish(self, request: Tracked) -> Calls:
        outcome = yield from self._advance(("Finish", request.request_id))
        if outcome[0] == "ok":
            self.tracker.gone(request.request_id)
            self._sync_waiting((yield ("waiting_size",)))

    # -- peers, endings, upkeep ----------------------------------------------------------------------

    def _peer(self) -> Calls:
        if self.config["role"] == "Fused":
            return
        for request in list(self.tracker.live.values()):
            name, state = request.request_id, request.state
            if self.chance(self.profile.peer_failure * 0.3):
                yield from self._drop("FailedEvent", name)
                self.coverage.count("PD failure")
            elif state == "boot" and self.chance(0.8):
                yield from self._advance(("BootstrappedEvent", name))
                request.state = "wait"
                self.waiting += 1
            elif state == "remote" and self.chance(0.6):
                token = self.prompts.generated(1)
                outcome = yield from self._advance(("RemotePrefillDoneEvent", name, token[0]))
                if outcome[0] == "ok":
                    request.state = "done"
                    request.tokens.extend(token)
            elif self.config["role"] == "P" and state == "decode" and self.chance(0.5):
                failed = self.chance(self.profile.peer_failure)
                yield from self._drop("FailedEvent" if failed else "SucceededEvent", name)
                self.coverage.count("PD failure", int(failed))

    def _drop(self, kind: str, name: str) -> Calls:
        outcome = yield from self._advance((kind, name))
        if outcome[0] == "ok":
            self.tracker.gone(name)
            self._sync_waiting((yield ("waiting_size",)))

    def _endings(self) -> Calls:
        for request in list(self.tracker.live.values()):
            name = request.request_id
            if self.chance(self.profile.abort):
                yield from self._drop("Abort", name)
            elif self.chance(self.profile.retract) and request.state not in ("boot", "wait"):
                outcome = yield from self._advance(("Retract", name))
                if outcome[0] == "ok":
                    yield from self._note_retract(name)
            elif (
                request.state in ("done", "decode")
                and self.config["role"] != "P"
                and self.chance(self.profile.finish / 4)
            ):
                yield from self._finish(request)

    def _upkeep(self) -> Calls:
        if self.chance(self.profile.clear):
            yield from self._clear(self.rng.choice(("clear_cache", "clear_l1_cache", "clear_l1_cache")))
        if self.chance(self.profile.drain if self.config["enable_kv_cache_events"] else 0.02):
            events = yield ("drain_kv_events",)
            if events[1]:
                self.coverage.count("KV events")

    def _clear(self, name: str) -> Calls:
        cached = (yield ("available_lcm_blocks",))[1] - (yield ("empty_lcm_blocks",))[1]
        self.coverage.forget_expected_hits()
        outcome = yield (name,)
        if outcome[1] is True and cached > 0:
            self.coverage.count("clears")

    def _odd(self) -> Calls:
        call = odd_call(self.rng, self.config, self.tracker, self.prompts)
        if call is not None:
            yield call
            self._sync_waiting((yield ("waiting_size",)))

    def _plan(self) -> Calls:
        outcome = yield ("plan",)
        waiting = (yield ("waiting_size",))[1]
        if outcome[0] == "ok":
            seen = self.tracker.planned(outcome[1], self.waiting, waiting)
            self.coverage.plan(seen)
        else:
            self.tracker.plan_raised = True
        self.waiting = waiting

    def _wind_down(self) -> Calls:
        for request in list(self.tracker.live.values()):
            yield from self._drop("Abort", request.request_id)
        for op_id in self.tracker.stores:
            yield from self._advance(("WriteBackDoneEvent", op_id))
        for op_id in self.tracker.loads:
            yield from self._advance(("LoadBackDoneEvent", op_id, self.chance(0.5)))
        yield ("plan",)
        yield ("drain_kv_events",)
        yield ("clear_l1_cache",)
        yield ("clear_cache",)
        yield ("drain_kv_events",)
