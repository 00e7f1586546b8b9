"""A recording as a workload: who came when and why, what was said, what was acknowledged (debugger.md, section 4).

Everything is taken from the recorded calls. Where a recording says only a lower bound the bound is taken and counted
in `notes`: a request that had not finished wants one token more than it got.
"""

from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tsviz.engine.faults import ClientAbort
from tsviz.engine.workloads.model import Span, WorkRequest
from tsviz.replay.reexecution.call_log import CallLog
from tsviz.replay.rows.lifetimes import column, words
from tsviz.trace import entries as e
from tsviz.trace.reader import Part

from .acks import read_acknowledgements

Tokens = npt.NDArray[np.int32]

_UNKNOWN = 1 << 30
"""First of the tokens that the recording does not hold; one number a submission, equal to no recorded token."""


class CannotRetime(Exception):
    """The recording holds something that a what-if does not model; the message names it."""


@dataclass(slots=True)
class _Story:
    """What the calls say of one accepted submission."""

    request: str
    prompt: Tokens
    max_new_tokens: int
    output: array[int] = field(default_factory=lambda: array("i"))
    landings: list[int] = field(default_factory=list)
    end: str = ""
    end_round: int = 0
    end_seq: int = 0
    arrival_ns: int = 0


class Source:
    """The workload of one part. A request's `source` in its spans is its submission number."""

    def __init__(self, part: Part, *, unfinished_tokens: int | None = None) -> None:
        """Read the calls. `unfinished_tokens`: what a request wants in all that had not finished, if it got fewer.

        Raises CannotRetime, and `TraceError` when a table cannot be read.
        """
        _check(part)
        self._unfinished_tokens = unfinished_tokens or 0
        self.part = part
        self.notes: list[str] = []
        self._stories: dict[int, _Story] = {}
        self._read_calls(part)
        starts = part.table("rounds")
        numbers = column(starts, "round").tolist()
        self._start_ns = dict(zip(numbers, column(starts, "start_ns").tolist(), strict=True))
        calls = part.table("calls")
        self._times_ns = column(calls, "time_ns")
        self.origin_ns = int(self._times_ns[0]) if len(calls) else 0
        self.unfinished = sum(story.end != e.FINISH for story in self._stories.values())
        self._boundaries = {s: frozenset(story.landings) for s, story in self._stories.items()}
        self.requests = self._requests(part)
        self.aborts = self._aborts()
        still_open = any(story.end == "" for story in self._stories.values())
        self.acknowledgements = read_acknowledgements(part, self._start_ns, still_open=still_open)
        self.acceptance_rate = self._acceptance(part.config["decode_input_tokens"])

    def arrival_ns(self, submission: int) -> int:
        """Return when a submission arrived in the recording."""
        return self._stories[submission].arrival_ns

    def start_ns(self, round_: int) -> int | None:
        """Return when the plan of a round was asked for."""
        return self._start_ns.get(round_)

    def prompt(self, submission: int) -> Tokens:
        """Return the prompt of a submission."""
        return self._stories[submission].prompt

    def output(self, submission: int, start: int, count: int) -> list[int]:
        """Return generated tokens `start .. start + count - 1`; those that were never recorded are invented."""
        held = self._stories[submission].output[start : start + count].tolist()
        return held + [_UNKNOWN + submission] * (count - len(held))

    def landing(self, submission: int, position: int, width: int) -> int:
        """Return how many tokens a decode step at `position` gives: up to where a recorded one ended, `width` at most.

        A recorded end is met as it was; a step that starts between two of them reaches the next one.
        """
        boundaries = self._boundaries[submission]
        for taken in range(1, width):
            if position + taken in boundaries:
                return taken
        return width

    def _read_calls(self, part: Part) -> None:
        for call in CallLog(part):
            if call.kind == e.SUBMIT and call.outcome == "ok":
                for number, spec in enumerate(call.specs, start=call.first_submission):
                    prompt = np.frombuffer(spec.tokens, np.int32)
                    self._stories[number] = _Story(spec.request, prompt, spec.max_new_tokens)
            elif call.kind == e.ADVANCE:
                for event, submission, applied in zip(call.events, call.submissions, call.applied, strict=True):
                    story = self._stories.get(submission)
                    if story is None or not applied:
                        continue
                    if event.kind == e.EXTEND_RESULT and len(event.tokens) and not story.end:
                        story.output.extend(event.tokens)
                        story.landings.append(len(story.output))
                    elif event.kind in (e.FINISH, e.ABORT) and not story.end:
                        story.end, story.end_round, story.end_seq = event.kind, call.round, call.seq

    def _requests(self, part: Part) -> tuple[WorkRequest, ...]:
        table = part.table("submissions")
        rows = zip(
            column(table, "submission").tolist(), column(table, "call_seq").tolist(),
            table["arrival_ns"].to_pylist(), words(table, "after"), table["think_ns"].to_pylist(), strict=True,
        )  # fmt: skip
        times = Counter(story.request for story in self._stories.values())
        made, untimed, untied = [], 0, 0
        for submission, seq, arrival_ns, after, think_ns in rows:
            story = self._stories.get(submission)
            if story is None:
                continue
            if after is not None and (times[after] != 1 or think_ns is None):
                after, untied = None, untied + 1
            if arrival_ns is None:
                arrival_ns, untimed = int(self._times_ns[seq]), untimed + 1
            story.arrival_ns = arrival_ns
            wanted = len(story.output)
            if story.end != e.FINISH:
                wanted = max(wanted + 1, self._unfinished_tokens)
            made.append(
                WorkRequest(
                    story.request, (Span(submission, 0, len(story.prompt)),), (Span(submission, 0, wanted),),
                    story.max_new_tokens, arrival_ns if after is None else None, after, think_ns or 0,
                )
            )  # fmt: skip
        more = "one token more than they got"
        if self._unfinished_tokens:
            more += f", {self._unfinished_tokens} at least"
        open_ = sum(story.end == "" for story in self._stories.values())
        aborted = sum(story.end == e.ABORT for story in self._stories.values())
        for count, words_ in (
            (open_, f"had not ended where the recording stops: they want {more}"),
            (aborted, f"were aborted: so long after arrival again, unless they get what they want before: {more}"),
            (untimed, "have no recorded arrival: they arrive when they were submitted"),
            (untied, "waited for a request that the recording does not identify: they arrive when they did"),
        ):
            if count:
                self.notes.append(f"{count} of {len(made)} requests {words_}")
        return tuple(made)

    def _aborts(self) -> tuple[ClientAbort, ...]:
        """An abort was due somewhere between the plan of the round before and the call: take the beginning."""
        times = Counter(story.request for story in self._stories.values())
        found, unclear = [], 0
        for story in self._stories.values():
            if story.end != e.ABORT:
                continue
            if times[story.request] > 1:
                unclear += 1
                continue
            seen_ns = int(self._times_ns[story.end_seq])
            due_ns = min(self._start_ns.get(story.end_round - 1, seen_ns) + 1, seen_ns)
            found.append(ClientAbort(story.request, max(0, due_ns - story.arrival_ns)))
        if unclear:
            self.notes.append(f"{unclear} aborts are left out: their request id was used more than once")
        return tuple(found)

    def _acceptance(self, width: int) -> float | None:
        """Return how often a candidate was accepted if all before it were; None for a recording of width 1."""
        if width < 2:
            return None
        accepted = tried = 0
        for story in self._stories.values():
            for start, end in zip(story.landings, story.landings[1:], strict=False):
                accepted += end - start - 1
                tried += min(end - start, width - 1)
        return accepted / tried if tried else None


def _check(part: Part) -> None:
    place = f"{part.node}/{part.rank}"
    if "starts_at" in part.meta:
        raise CannotRetime(
            f"{place}: a slice from round {part.meta['starts_at']}: expected a trace from its first round"
        )
    if part.config["role"] != "Fused":
        raise CannotRetime(f"{place}: a what-if runs one node that does both; this one is role {part.config['role']}")
    if part.config["enable_l3_storage"]:
        raise CannotRetime(f"{place}: a what-if does not model a storage tier, and this recording has one")
    if part.rows("gaps"):
        raise CannotRetime(f"{place}: {part.rows('gaps')} gaps: what was dropped cannot be run again")
