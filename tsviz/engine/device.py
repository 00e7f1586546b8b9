"""The loop's handle on the data plane (`executor-rules.md` sections 1 and 2), and the values that cross it.

Named operations only: no model, pool, stream or buffer is reachable from the loop. What goes in is frozen; what comes
out comes through the pending forward. Times are nanoseconds on the run's clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from tsviz.engine.binding import Batch, LoadBackOp, Plan, WriteBackOp
from tsviz.engine.port import StorageKey
from tsviz.engine.workloads.model import WorkRequest


@dataclass(frozen=True, slots=True)
class Planned:
    """One plan, each attribute read once, with the request of every row as it was before any later commit.

    A row below `num_extends` is a prefill row and has an entry in `extend_prefix_lens`; it completes its prompt when
    `extend_prefix_lens[i] + input_lengths[i] == prefill_lengths[i]`. `batch` is None when the round runs no forward:
    then the row fields are empty. `failed_loads` are op ids whose pages vanished from storage: no copy, success false.
    """

    batch: Batch | None
    request_ids: Sequence[str]
    requests: Sequence[WorkRequest]
    num_extends: int
    input_lengths: Sequence[int]
    prefill_lengths: Sequence[int]
    extend_prefix_lens: Sequence[int]
    stores: WriteBackOp | None
    loads: LoadBackOp | None
    failed_loads: frozenset[int]
    remote_prefill: Batch | None
    remote_decode: Batch | None


@dataclass(frozen=True, slots=True)
class ForwardResult:
    """What one forward gave: per row its tokens (none for an intermediate chunk) and its draft candidates.

    `candidates` is empty unless the model drafts; else one list a row, whose first element is the row's last token.
    Rows in `corrupt` came out with broken numbers: their requests are aborted. Rows in `ended` said a stop token last.
    """

    tokens: Sequence[Sequence[int]]
    candidates: Sequence[Sequence[int]] = ()
    corrupt: frozenset[int] = frozenset()
    ended: frozenset[int] = frozenset()


class PendingForward(Protocol):
    """A forward that was launched."""

    @property
    def start_ns(self) -> int | None:
        """When the device begins it; None on a device that does not know yet."""

    @property
    def end_ns(self) -> int | None:
        """When the result is there, for the loop to wait until; None: `result` itself waits."""

    def result(self) -> ForwardResult:
        """Return the result; raises what the forward raised."""


class CacheResult(NamedTuple):
    """A page copy that ended. Stores always succeed or never end; a load may fail."""

    op_id: int
    is_store: bool
    success: bool


@dataclass(frozen=True, slots=True)
class Fetched:
    """Outcome of fetching pages from storage: which were not there any more, and when the fetch is over."""

    missing: frozenset[StorageKey]
    end_ns: int | None


class DeviceHandle(Protocol):
    """What a device offers. Only `PendingForward.result` may block."""

    def execute(self, plan: Plan, planned: Planned) -> PendingForward | None:
        """Launch everything of a plan in the order of section 2; return None when it has no batch to run."""

    def poll_cache_results(self) -> Sequence[CacheResult]:
        """Return the copies that ended since the last poll."""

    def probe_storage(self, keys: Sequence[StorageKey]) -> Sequence[bool]:
        """Return, key by key, whether storage has the page; errors are misses."""

    def prefetch_storage(self, keys: Sequence[StorageKey]) -> Fetched:
        """Fetch pages into their host pages, now. What is missing counts as absent until it is stored anew."""

    def land_remote(self, request: WorkRequest, token: int, candidates: Sequence[int]) -> None:
        """D: arm the request's slot with the token and the candidates that came with its pages."""

    def next_change_ns(self) -> int | None:
        """Return when a poll may next return something; None when nothing is out that will ever end."""

    def release(self, request_id: str) -> None:
        """Forget the request: it has ended."""

    def shutdown(self) -> None:
        """Give everything back."""
