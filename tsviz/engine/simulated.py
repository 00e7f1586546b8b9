"""A device that takes time and says what the workload says, without a model: the data plane on virtual time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tsviz.engine.binding import Plan
from tsviz.engine.clock import Clock
from tsviz.engine.copies import CopyEngine
from tsviz.engine.cost import DeviceCost
from tsviz.engine.device import CacheResult, Fetched, ForwardResult, Planned
from tsviz.engine.faults import AckFaults
from tsviz.engine.port import StorageKey
from tsviz.engine.speech import Speech, SpeechOptions
from tsviz.engine.tier import StorageOptions, StorageTier
from tsviz.engine.workloads.model import WorkRequest


@dataclass(frozen=True, slots=True)
class SimulatedOptions:
    """Everything that can be said about a simulated device; goes into a trace's metadata as it is."""

    cost: DeviceCost = field(default_factory=DeviceCost)
    acks: AckFaults = field(default_factory=AckFaults)
    speech: SpeechOptions = field(default_factory=SpeechOptions)
    storage: StorageOptions | None = None


@dataclass(frozen=True, slots=True)
class SimulatedForward:
    """A forward whose end is known when it starts."""

    start_ns: int
    end_ns: int
    outcome: ForwardResult

    def result(self) -> ForwardResult:
        """Return the result; the loop has waited until `end_ns`."""
        return self.outcome


class SimulatedDevice:
    """Implements `DeviceHandle` on a virtual clock (`executor-rules.md` section 2 for the order of a plan).

    One forward at a time; it starts when the forward before it, the plan's unpinned stores and its loads have ended.
    """

    def __init__(self, options: SimulatedOptions, clock: Clock, *, decode_input_tokens: int, drafts: bool) -> None:
        """Build a device; `drafts`: results carry candidates, as a prefill node with a drafter needs."""
        self._cost = options.cost
        self._clock = clock
        self._exec_free_ns = 0
        self._tier = StorageTier(options.storage) if options.storage is not None else None
        self._copies = CopyEngine(options.cost, options.acks, self._tier)
        self._speech = Speech(options.speech, decode_input_tokens, drafts=drafts)

    def execute(self, plan: Plan, planned: Planned) -> SimulatedForward | None:  # noqa: ARG002 (a real device reads it)
        """Launch copies, then the batch; see `DeviceHandle`."""
        ready_ns = max(self._clock.now_ns(), self._exec_free_ns)
        if planned.stores is not None or planned.loads is not None:
            ready_ns = self._copies.launch(planned, ready_ns)
        if not planned.request_ids:
            return None
        end_ns = ready_ns + self._cost.round_ns + self._cost.token_ns * sum(planned.input_lengths)
        self._exec_free_ns = end_ns
        return SimulatedForward(ready_ns, end_ns, self._speech.rows(planned))

    def poll_cache_results(self) -> Sequence[CacheResult]:
        """Return the copies that have been acknowledged by now."""
        return self._copies.poll(self._clock.now_ns())

    def probe_storage(self, keys: Sequence[StorageKey]) -> Sequence[bool]:
        """Return which pages exist; none without a storage tier."""
        return [False] * len(keys) if self._tier is None else [self._tier.exists(key) for key in keys]

    def prefetch_storage(self, keys: Sequence[StorageKey]) -> Fetched:
        """Fetch, one page after the other."""
        missing = frozenset(keys if self._tier is None else (key for key in keys if not self._tier.get(key)))
        taken_ns = self._cost.storage_page_ns * len(keys)
        return Fetched(missing, self._clock.now_ns() + taken_ns if taken_ns else None)

    def land_remote(self, request: WorkRequest, token: int, candidates: Sequence[int]) -> None:  # noqa: ARG002
        """Go on behind the first token, which the peer has said."""
        self._speech.landed(request, has_candidates=len(candidates) > 0)

    def next_change_ns(self) -> int | None:
        """Return when the next acknowledgement is due; lost ones never are."""
        return self._copies.next_ns()

    def release(self, request_id: str) -> None:
        """Forget the request."""
        self._speech.release(request_id)

    def shutdown(self) -> None:
        """Nothing is held."""
