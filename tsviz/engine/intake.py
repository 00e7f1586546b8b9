"""Step 1 of a round: who has arrived, who is turned away, who has to wait for an id to become free again."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from tsviz.engine.arrivals import Arrivals
from tsviz.engine.observe import Arrival
from tsviz.engine.port import Port
from tsviz.engine.summary import Refusal, RefusalCause
from tsviz.engine.workloads.model import WorkRequest

Gate: TypeAlias = Callable[[WorkRequest], Refusal | None]
"""Says whether a request may be submitted at all."""


def bound_gate(port: Port, *, prefill_only: bool, width: int) -> Gate:
    """Return the gate of one scheduler: its admission bound, by `scheduler-rules.md` section 10.1."""
    return gate_of(port.max_single_request_tokens(), prefill_only=prefill_only, width=width)


def gate_of(bound: int, *, prefill_only: bool, width: int) -> Gate:
    """Return the gate of a bound in tokens.

    A request needs its prompt and, unless the node only prefills, its declared budget or one decode width.
    """

    def gate(request: WorkRequest) -> Refusal | None:
        prompt = request.prompt_tokens
        need = prompt + (0 if prefill_only else max(request.max_new_tokens, width))
        if prompt == 0:
            return Refusal(request.request_id, RefusalCause.EMPTY_PROMPT, need, bound)
        if request.output_tokens == 0:
            return Refusal(request.request_id, RefusalCause.EMPTY_OUTPUT, need, bound)
        if need > bound:
            return Refusal(request.request_id, RefusalCause.BEYOND_BOUND, need, bound)
        return None

    return gate


class Intake:
    """Turns arrivals into requests to submit."""

    def __init__(self, arrivals: Arrivals, gate: Gate) -> None:
        self.arrivals = arrivals
        self.refusals: list[Refusal] = []
        self._gate = gate
        self._held: list[tuple[WorkRequest, Arrival]] = []
        self._unreaped: set[str] = set()

    @property
    def not_arrived(self) -> int:
        """How many requests have yet to be submitted or turned away."""
        return len(self.arrivals) + len(self._held)

    def next_ns(self, live: Callable[[str], bool]) -> int | None:
        """Return the time of the next certain arrival; it has passed for one that was held and need be no longer."""
        freed = [arrival.arrival_ns for request, arrival in self._held if not live(request.request_id)]
        return freed[0] if freed else self.arrivals.next_ns()

    def take(self, now_ns: int, live: Callable[[str], bool]) -> list[tuple[WorkRequest, Arrival]]:
        """Return who is to be submitted now, in order of arrival.

        A refused request ends at once, so that whoever comes after it still comes. A request whose id is live or was
        not reaped yet is held: an id may be submitted again only after the plan that reaped it.
        """
        taken: list[tuple[WorkRequest, Arrival]] = []
        ids: set[str] = set()
        candidates, self._held = self._held, []
        while True:
            candidates += self.arrivals.take(now_ns)
            if not candidates:
                return taken
            for request, arrival in candidates:
                request_id = request.request_id
                if request_id in ids or request_id in self._unreaped or live(request_id):
                    self._held.append((request, arrival))
                elif (refusal := self._gate(request)) is not None:
                    self.refusals.append(refusal)
                    self.arrivals.ended(request_id, now_ns)
                else:
                    ids.add(request_id)
                    taken.append((request, arrival))
            candidates = []

    def ended(self, request_id: str, now_ns: int) -> None:
        """A submitted request has ended; its id stays taken until the next plan."""
        self._unreaped.add(request_id)
        self.arrivals.ended(request_id, now_ns)

    def reaped(self) -> None:
        """A plan was made: every id that had ended is free again."""
        if self._unreaped:
            self._unreaped.clear()
