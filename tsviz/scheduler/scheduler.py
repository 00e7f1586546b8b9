"""The scheduler: submissions and events in, one plan a round out (`scheduler-rules.md` 1.7, 5, 10)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from tsviz.scheduler import events as ev
from tsviz.scheduler.cache.coordinator import Cache
from tsviz.scheduler.cache.hashing import Digest
from tsviz.scheduler.cache.index import Tier
from tsviz.scheduler.cache.kv_events import BlockRemoved, BlockStored
from tsviz.scheduler.cache.storage import StorageKey
from tsviz.scheduler.capacity import CapacityModel
from tsviz.scheduler.config import INT32_MAX, Config, Role, validate
from tsviz.scheduler.decisions import Log, Observer, Pool
from tsviz.scheduler.feedback import Feedback
from tsviz.scheduler.plan import Plan
from tsviz.scheduler.planning.admission import Admission
from tsviz.scheduler.planning.decoding import Decoding
from tsviz.scheduler.planning.readmission import next_readmission
from tsviz.scheduler.planning.refusals import Refusals
from tsviz.scheduler.planning.releasable import Releasable
from tsviz.scheduler.planning.retraction import Retraction
from tsviz.scheduler.planning.roles import Grammar
from tsviz.scheduler.planning.roster import Roster
from tsviz.scheduler.planning.round import Round
from tsviz.scheduler.request import Request
from tsviz.scheduler.rules import RULES_0_1_24, RuleSet
from tsviz.scheduler.snapshot import Snapshot, capture, rebuild
from tsviz.scheduler.states import (
    BOOTSTRAPPING,
    DECODING,
    PREFILLING,
    REMOTE_PREFILLING,
    SUBMITTED,
)


@dataclass(frozen=True, slots=True)
class Submission:
    """A request as submitted; `max_new_tokens` 0 is an undeclared budget."""

    request_id: str
    tokens: Sequence[int]
    max_new_tokens: int = 0


class Scheduler:
    """The twin. A pure function of its config and the ordered calls made to it."""

    def __init__(
        self,
        config: Config,
        *,
        rules: RuleSet = RULES_0_1_24,
        observer: Observer | None = None,
        snapshot_at_stops: bool = False,
    ) -> None:
        """Validate the config and build empty pools. Raises ValueError.

        Args:
            config: copied, since it is immutable.
            rules: which version to equal.
            observer: is told every decision; nothing is built without one.
            snapshot_at_stops: keep the start of each round, so that `snapshot` works inside the observer.
        """
        validate(config)
        self.config = config
        self.rules = rules
        self.cache = Cache(config)
        self.roster = Roster(config.max_batch_size)
        refusals, releasable = Refusals(self.cache), Releasable(self.cache)
        self.admission = Admission(config, rules, self.cache, self.roster, refusals, releasable)
        self.decoding = Decoding(config, self.cache, self.roster, refusals, releasable)
        self.retraction = Retraction(config, self.admission, self.decoding, self.cache, self.roster)
        self.grammar = Grammar(config, self.admission, self.decoding, self.roster, self.retraction)
        self.rounds = 0
        self.log: Log | None = None
        self._keep_start = snapshot_at_stops and observer is not None
        self._round_start: Snapshot | None = None
        self._build: Round | None = None
        if observer is not None:
            self._listen(Log(observer))
        self._group_ids = tuple(group.group_id for group in config.cache_groups)
        self._zero_keys = tuple(self._group_ids.index(group_id) for group_id in self._group_ids)
        self._bound = CapacityModel(config).max_single_request_tokens(config.num_device_pages - 1)
        self.feedback = Feedback(config, self.cache, self.roster, self.admission, self.retraction)
        self._handlers = self.feedback.handlers()

    def _listen(self, log: Log) -> None:
        self.log = log
        self.cache.listen(log)
        parts = (self.roster, self.admission, self.admission.refusals, self.decoding)
        for part in (*parts, self.retraction, self.grammar):
            part.log = log

    # Inputs

    def submit(self, submissions: Sequence[Submission]) -> None:
        """Accept a batch of requests, all or none. Raises ValueError for the first bad one."""
        seen: set[str] = set()
        for spec in submissions:
            self._check(spec, seen)
            seen.add(spec.request_id)
        state = SUBMITTED if self.config.role is Role.Fused else BOOTSTRAPPING
        for spec in submissions:
            self.roster.add(
                Request(
                    spec.request_id,
                    spec.tokens,
                    spec.max_new_tokens,
                    self.config.prefix_granularity,
                    self.roster.submitted,
                    state,
                )
            )

    def _check(self, spec: Submission, seen: set[str]) -> None:
        if not len(spec.tokens):
            raise ValueError("Scheduler: request tokens must be non-empty")
        if spec.request_id in seen or spec.request_id in self.roster.by_id:
            raise ValueError(f"Scheduler: duplicate request id '{spec.request_id}'")
        if spec.max_new_tokens < 0:
            raise ValueError("Scheduler: max_new_tokens must be non-negative")
        limit = len(spec.tokens)
        if self.config.role is not Role.P:
            limit += max(spec.max_new_tokens, self.config.decode_input_tokens)
        if limit > INT32_MAX:
            raise ValueError("Scheduler: request token limit exceeds int32 range")
        if limit > self._bound:
            raise ValueError("Scheduler: request token limit exceeds cache capacity")

    def advance(self, events: Iterable[ev.Event]) -> None:
        """Apply events in order; the first one that raises stops, earlier effects stay."""
        handlers = self._handlers
        for event in events:
            handlers[type(event)](event)

    # The round

    def next_plan(self) -> Plan:
        """Build the next round. Raises RuntimeError like the reference; earlier effects stay."""
        if self._keep_start:
            self._round_start = capture(self)
        self.rounds += 1
        stores, self.feedback.finish_stores = self.feedback.finish_stores, []
        if self.roster.finished:
            self.roster.reap()
        build = Round(self.config, self.rounds, stores, self._zero_keys)
        if self.log is None:
            self._run_phases(build)
        else:
            self._run_observed(build, self.log)
        return self._finish(build)

    def _run_phases(self, build: Round) -> None:
        self.grammar.build(build)
        if self.admission.streams:
            op = self.cache.transfers.start_stores(source_pinned=True)
            if op is not None:
                build.stores.append(op)

    def _run_observed(self, build: Round, log: Log) -> None:
        self._build = build
        log.begin(self.rounds)
        try:
            self._run_phases(build)
            build.verdicts.conclude(self.roster, self.rounds, log)
            self._tell_pool(log)
        finally:
            self._build = None
            log.muted = 0

    def _finish(self, build: Round) -> Plan:
        return build.finish(self._group_ids, self.cache.shadow is not None)

    # State as data

    @property
    def building(self) -> bool:
        """Whether an observed round is being built: its observer is being called."""
        return self._build is not None

    @property
    def plan_so_far(self) -> Plan | None:
        """Inside the observer the plan as far as it is built; None between rounds."""
        return None if self._build is None else self._finish(self._build)

    def snapshot(self) -> Snapshot:
        """The whole state. Inside the observer: the start of the round, the stop, the plan so far.

        Raises RuntimeError inside the observer unless `snapshot_at_stops` was asked for.
        """
        build, log = self._build, self.log
        if build is None or log is None:
            return capture(self)
        if self._round_start is None:
            raise RuntimeError("snapshot inside a round needs snapshot_at_stops=True")
        return replace(self._round_start, stop=log.stop, told=log.told, plan=self._finish(build))

    @classmethod
    def restore(
        cls, snapshot: Snapshot, *, observer: Observer | None = None, snapshot_at_stops: bool = False
    ) -> Scheduler:
        """A scheduler that continues from a snapshot.

        One taken inside a round builds that round with its next plan, and tells what comes after the stop.
        """
        scheduler = cls(snapshot.config, rules=snapshot.rules, observer=observer, snapshot_at_stops=snapshot_at_stops)
        rebuild(scheduler, snapshot)
        if scheduler.log is not None:
            scheduler.log.round_number = snapshot.rounds
            scheduler.log.muted = snapshot.told
        return scheduler

    def _tell_pool(self, log: Log) -> None:
        device = self.cache.device
        for group in self.cache.groups:
            index = group.index
            cached = sum(len(where) for where in device.where[index])
            told = Pool(index, device.local[index], cached, device.empty, device.available, device.active)
            log.tell(told)

    # Questions

    def pd_pinned_requests(self) -> int:
        """Number of requests whose pages a PD transfer pins."""
        counts = self.roster.counts
        if self.config.role is Role.P:
            return sum(counts[PREFILLING : DECODING + 1])
        return counts[REMOTE_PREFILLING] if self.config.role is Role.D else 0

    def is_pd_pinned(self, request_id: str) -> bool:
        """Whether a PD transfer pins the request's pages; False for an unknown id."""
        request = self.roster.by_id.get(request_id)
        return request is not None and self.feedback.pinned(request)

    def request_tokens(self, request_id: str) -> int:
        """Tokens the request holds, -1 when unknown."""
        request = self.roster.by_id.get(request_id)
        return -1 if request is None else len(request.tokens)

    def max_single_request_tokens(self) -> int:
        """Largest request that the pool can ever run, in tokens."""
        return self._bound

    def group_index(self, group_id: str) -> int:
        """Position of a group. Raises IndexError."""
        for index, known in enumerate(self._group_ids):
            if known == group_id:
                return index
        raise IndexError(f"Scheduler: unknown cache group '{group_id}'")

    def drain_kv_events(self) -> list[BlockStored | BlockRemoved]:
        """Net changes of complete prefix pages since the last drain; empty without the feature."""
        return self.cache.kv.drain() if self.cache.kv is not None else []

    # Clears

    def can_clear(self, *, device_only: bool = False) -> bool:
        """Whether a clear would be accepted."""
        transfers, device, host = self.cache.transfers, self.cache.device, self.cache.host
        if self.pd_pinned_requests() or transfers.stores or transfers.loads or _has_pinned(device):
            return False
        return device_only or host is None or not _has_pinned(host)

    def clear(self, *, device_only: bool = False) -> bool:
        """Empty the device cache and, unless `device_only`, the host cache; False when refused."""
        if not self.can_clear(device_only=device_only):
            return False
        cache = self.cache
        cache.transfers.pending.clear()
        if cache.shadow is not None:
            cache.shadow.keys.clear()
        cache.device.evict_all()
        if cache.host is not None and not device_only:
            cache.host.evict_all()
        return True

    # Storage and routing

    def register_storage_keys(self, keys: Sequence[StorageKey]) -> None:
        """Keys known to exist in storage; ignored without that tier. Raises RuntimeError on a bad group."""
        shadow = self.cache.shadow
        if shadow is None:
            return
        for group, _, _ in keys:
            if group >= len(self._group_ids):
                raise RuntimeError(f"storage key names unknown cache group {group}")
        shadow.register(keys)

    def unregister_storage_keys(self, keys: Iterable[StorageKey]) -> None:
        """Keys no longer in storage."""
        if self.cache.shadow is not None:
            self.cache.shadow.unregister(keys)

    def waiting_prefix_digests(self) -> list[Digest]:
        """Digests of the prompts that could be admitted next, in order, without duplicates."""
        roster, counts = self.roster, self.roster.counts
        free = self.config.max_batch_size - roster.prefill_like - counts[DECODING]
        readmission = next_readmission(roster)
        if free <= 0 and readmission is None:
            return []
        out: dict[Digest, None] = {}
        if readmission is not None:
            pages = readmission.candidate_pages
            out.update(dict.fromkeys(readmission.digests(pages)[:pages]))
            free_new = free - 1
        else:
            free_new = free
        if free <= 0 or roster.prefilling or self.cache.device.available <= 0:
            return list(out)
        for request in roster.waiting[: max(0, free_new)]:
            pages = request.candidate_pages
            out.update(dict.fromkeys(request.digests(pages)[:pages]))
        return list(out)


def _has_pinned(tier: Tier) -> bool:
    cached = sum(len(where) for by_offset in tier.where for where in by_offset)
    return cached > tier.evictable
