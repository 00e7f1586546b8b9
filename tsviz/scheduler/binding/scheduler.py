"""`Scheduler`, `CapacityModel` and the KV events of the public API (`scheduler-rules.md` 1.7 to 1.9)."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence

from tsviz.scheduler import capacity
from tsviz.scheduler import scheduler as core
from tsviz.scheduler.binding.checks import (
    Bound,
    NoConstructor,
    int32,
    int32_array,
    int64,
    many,
    reject,
    sequence,
    string,
    uint32,
)
from tsviz.scheduler.binding.config import RequestSpec, SchedulerConfig
from tsviz.scheduler.binding.events import ExecutionEvent
from tsviz.scheduler.binding.plan import ExecutionPlan, execution_plan
from tsviz.scheduler.cache import kv_events
from tsviz.scheduler.cache.hashing import Digest, extend_chain
from tsviz.scheduler.cache.storage import StorageKey
from tsviz.scheduler.decisions import Observer
from tsviz.scheduler.rules import RULES_0_1_24, RuleSet
from tsviz.scheduler.snapshot import Snapshot
from tsviz.scheduler.states import (
    BOOTSTRAPPING,
    DECODING,
    REMOTE_PREFILLING,
    RETRACTED,
    SUBMITTED,
)

_HEX = frozenset("0123456789abcdef")


class BlockStored(NoConstructor):
    """A prefix page is complete on the device."""

    __slots__ = ("_event",)
    _event: kv_events.BlockStored

    @property
    def kind(self) -> str:
        """`BlockStored`."""
        return "BlockStored"

    @property
    def block_hashes(self) -> list[int]:
        """One uint64."""
        return [self._event.block_hash]

    @property
    def parent_block_hash(self) -> int | None:
        """Hash of the page before it."""
        return self._event.parent_block_hash

    @property
    def token_ids(self) -> list[int]:
        """Its tokens."""
        return list(self._event.token_ids)

    @property
    def block_size(self) -> int:
        """Tokens in a prefix page."""
        return self._event.block_size


class BlockRemoved(NoConstructor):
    """A prefix page is no longer complete on the device."""

    __slots__ = ("_event",)
    _event: kv_events.BlockRemoved

    @property
    def kind(self) -> str:
        """`BlockRemoved`."""
        return "BlockRemoved"

    @property
    def block_hashes(self) -> list[int]:
        """One uint64."""
        return [self._event.block_hash]


class CapacityModel(Bound):
    """Pages a request and an engine need, from the configuration alone."""

    __slots__ = ("_model",)

    def __init__(self, config: SchedulerConfig) -> None:
        """Validate the fields that are known before a pool exists. Raises ValueError."""
        if not isinstance(config, SchedulerConfig):
            reject("SchedulerConfig", config)
        self._model = capacity.CapacityModel(config._to_core())

    @property
    def num_groups(self) -> int:
        """Number of groups."""
        return self._model.num_groups

    def single_request_group_pages(self, token_limit: int) -> list[int]:
        """Worst-case pages per group of one request."""
        return self._model.single_request_group_pages(int32(token_limit))

    def concurrent_group_pages(self, max_total_tokens: int, max_context_len: int) -> list[int]:
        """Pages per group of a full batch."""
        return self._model.concurrent_group_pages(int64(max_total_tokens), int64(max_context_len))

    def lcm_blocks_needed_for(self, group_pages: Sequence[int]) -> int:
        """LCM blocks for a page count per group."""
        return self._model.lcm_blocks_needed_for(many(int64)(group_pages))

    def max_single_request_tokens(self, usable_lcm_blocks: int) -> int:
        """Largest request that fits."""
        return self._model.max_single_request_tokens(int64(usable_lcm_blocks))


def _digest(text: str) -> Digest:
    """A content hash as bytes; text that is no hash becomes a key that matches only itself."""
    if len(text) == 64 and _HEX.issuperset(text):
        return bytes.fromhex(text)
    return b"\0" * 33 + text.encode("utf-8", "surrogatepass")


def _storage_keys(name: str, groups: object, hashes: object, offsets: object) -> list[StorageKey]:
    ids, texts, places = many(uint32)(groups), many(string)(hashes), many(int32)(offsets)
    if not len(ids) == len(texts) == len(places):
        raise ValueError(f"{name} requires aligned group/hash/offset lists")
    return [(g, _digest(t), o) for g, t, o in zip(ids, texts, places, strict=True)]


class Scheduler(Bound):
    """The twin behind the public API. `rules` is ours: which version to equal, and what a what-if changes."""

    __slots__ = ("_advance", "_next", "core")

    def __init__(
        self,
        config: SchedulerConfig,
        *,
        rules: RuleSet = RULES_0_1_24,
        observer: Observer | None = None,
        snapshot_at_stops: bool = False,
    ) -> None:
        """Validate and copy the config. Raises ValueError."""
        if not isinstance(config, SchedulerConfig):
            reject("SchedulerConfig", config)
        self.core = core.Scheduler(
            config._to_core(), rules=rules, observer=observer, snapshot_at_stops=snapshot_at_stops
        )
        self._bind()

    def _bind(self) -> None:
        """Look the two methods of every round up once."""
        self._advance: Callable[..., None] = self.core.advance
        self._next = self.core.next_plan

    def snapshot(self) -> Snapshot:
        """The whole state as data; ours, not the reference's."""
        return self.core.snapshot()

    @classmethod
    def restore(
        cls, snapshot: Snapshot, *, observer: Observer | None = None, snapshot_at_stops: bool = False
    ) -> Scheduler:
        """A scheduler that continues from a snapshot; ours, not the reference's."""
        out: Scheduler = object.__new__(cls)
        out.core = core.Scheduler.restore(snapshot, observer=observer, snapshot_at_stops=snapshot_at_stops)
        out._bind()
        return out

    def submit_requests(self, request_specs: Sequence[RequestSpec]) -> None:
        """Accept a batch of requests, all or none. Raises ValueError."""
        batch = []
        for spec in sequence(request_specs, "a sequence of RequestSpec"):
            if not isinstance(spec, RequestSpec):
                reject("RequestSpec", spec)
            batch.append(core.Submission(spec.request_id, spec._token_array(), spec.max_new_tokens))
        self.core.submit(batch)

    def next_execution_plan(self) -> ExecutionPlan:
        """Build the next round."""
        return execution_plan(self._next())

    def advance(self, event: ExecutionEvent) -> None:
        """Apply events in order; the first that raises stops."""
        if not isinstance(event, ExecutionEvent):
            reject("ExecutionEvent", event)
        self._advance(event._events)

    def drain_kv_events(self) -> list[BlockStored | BlockRemoved]:
        """Net changes of complete prefix pages since the last drain."""
        out: list[BlockStored | BlockRemoved] = []
        for event in self.core.drain_kv_events():
            if isinstance(event, kv_events.BlockStored):
                stored: BlockStored = object.__new__(BlockStored)
                stored._event = event
                out.append(stored)
            else:
                removed: BlockRemoved = object.__new__(BlockRemoved)
                removed._event = event
                out.append(removed)
        return out

    def bootstrapping_size(self) -> int:
        """Requests in Bootstrapping."""
        return self.core.roster.counts[BOOTSTRAPPING]

    def waiting_size(self) -> int:
        """Requests in Submitted or Retracted."""
        counts = self.core.roster.counts
        return counts[SUBMITTED] + counts[RETRACTED]

    def prefilling_size(self) -> int:
        """Requests on their way through prefill, local or remote."""
        return self.core.roster.prefill_like

    def remote_prefilling_size(self) -> int:
        """Requests in RemotePrefilling."""
        return self.core.roster.counts[REMOTE_PREFILLING]

    def decoding_size(self) -> int:
        """Requests in Decoding."""
        return self.core.roster.counts[DECODING]

    def pd_transfer_size(self) -> int:
        """Requests whose pages a PD transfer pins."""
        return self.core.pd_pinned_requests()

    def pd_transfer_pinned(self, request_id: str) -> bool:
        """Whether a PD transfer pins the request."""
        return self.core.is_pd_pinned(string(request_id))

    def request_token_size(self, id: str) -> int:  # noqa: A002
        """Tokens held, -1 when unknown."""
        return self.core.request_tokens(string(id))

    def max_single_request_tokens(self) -> int:
        """Largest request that the pool can run."""
        return self.core.max_single_request_tokens()

    def available_lcm_blocks(self) -> int:
        """LCM blocks that are empty or hold only unpinned cache."""
        return self.core.cache.device.available

    def empty_lcm_blocks(self) -> int:
        """LCM blocks that no group holds."""
        return self.core.cache.device.empty

    def active_lcm_blocks(self) -> int:
        """LCM blocks that live requests refer to."""
        return self.core.cache.device.active

    def cache_group_total_pages(self, group_id: str) -> int:
        """The configured number. Raises IndexError."""
        index = self.core.group_index(string(group_id))
        return self.core.config.cache_groups[index].total_pages

    def cache_group_available_pages(self, group_id: str) -> int:
        """Pages that can be placed without eviction. Raises IndexError."""
        return self.core.cache.device.placeable(self.core.group_index(string(group_id)))

    def can_clear_cache(self) -> bool:
        """Whether `clear_cache` would be accepted."""
        return self.core.can_clear()

    def clear_cache(self) -> bool:
        """Empty both tiers; False when refused."""
        return self.core.clear()

    def clear_l1_cache(self) -> bool:
        """Empty the device tier; False when refused."""
        return self.core.clear(device_only=True)

    def prefix_hashes_for_tokens(self, tokens: Sequence[int]) -> list[str]:
        """Content hashes of the full pages that a prompt of these tokens may look up."""
        data: array[int] = int32_array(tokens)
        size = self.core.config.prefix_granularity
        chain: list[Digest] = []
        extend_chain(chain, data, size, max((len(data) - 1) // size, 0))
        return [digest.hex() for digest in chain]

    def waiting_prefix_hashes(self) -> list[str]:
        """Content hashes of the prompts that could be admitted next."""
        return [digest.hex() for digest in self.core.waiting_prefix_digests()]

    def expand_prefix_keys(self, content_hashes: Sequence[str]) -> tuple[list[int], list[str], list[int]]:
        """Groups, hashes and offsets of all keys of some prefix pages."""
        hashes = many(string)(content_hashes)
        keys = [(g.index, h, o) for g in self.core.cache.groups for h in hashes for o in range(g.per_page)]
        return [k[0] for k in keys], [k[1] for k in keys], [k[2] for k in keys]

    def register_storage_keys(
        self, group_ids: Sequence[int], content_hashes: Sequence[str], page_offsets: Sequence[int]
    ) -> None:
        """Keys known to exist in storage. Raises ValueError on unequal lengths."""
        self.core.register_storage_keys(_storage_keys("register_storage_keys", group_ids, content_hashes, page_offsets))

    def unregister_storage_keys(
        self, group_ids: Sequence[int], content_hashes: Sequence[str], page_offsets: Sequence[int]
    ) -> None:
        """Keys no longer in storage. Raises ValueError on unequal lengths."""
        self.core.unregister_storage_keys(
            _storage_keys("unregister_storage_keys", group_ids, content_hashes, page_offsets)
        )
