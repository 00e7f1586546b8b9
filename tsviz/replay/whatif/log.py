"""What a run did, in the columns of a recording, so that the shipped views answer for both (query/views.py)."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from tsviz.engine.binding import Plan
from tsviz.engine.device import Planned
from tsviz.engine.events import Aborted, Event, Extended, Finished
from tsviz.engine.observe import Arrival
from tsviz.engine.workloads.model import WorkRequest

_ENDS = {Finished: "finish", Aborted: "abort"}
_NUMBERS = {
    "operations": (
        "round", "row", "submission", "slot", "begin_tokens", "input_tokens", "replay_tokens", "prefill_tokens"
    ),
    "events": ("call_seq", "round", "item", "submission", "token_count"),
    "submissions": ("call_seq", "round", "submission", "prompt_tokens", "max_new_tokens", "arrival_ns"),
    "rounds": ("round", "call_seq", "start_ns", "prefill_rows", "decode_rows", "scheduled_tokens"),
    "calls": ("seq", "round", "time_ns"),
}  # fmt: skip
_WORDS = {
    "operations": ("kind", "request"),
    "events": ("kind", "request"),
    "submissions": ("request",),
    "calls": ("kind",),
}
_ALWAYS = {"submissions": "accepted", "events": "applied"}


class RunLog:
    """The log of one run; submissions keep the numbers that they have in the recording.

    Satisfies the `Part` of query/source.py once the run is over. Every method is called in the order of the run.
    """

    node, rank = "F", 0

    def __init__(self) -> None:
        self._numbers = {t: {n: array("q") for n in names} for t, names in _NUMBERS.items()}
        self._texts: dict[str, dict[str, list[str]]] = {t: {n: [] for n in names} for t, names in _WORDS.items()}
        self._submission: dict[str, int] = {}
        self._round = 0
        self._calls = 0

    def submitted(self, requests: Sequence[tuple[WorkRequest, Arrival]], now_ns: int) -> None:
        """Note a submit call."""
        seq = self._call("submit", now_ns, self._round + 1)
        for request, arrival in requests:
            submission = request.prompt[0].source
            self._submission[request.request_id] = submission
            values = (
                seq, self._round + 1, submission, request.prompt_tokens, request.max_new_tokens, arrival.arrival_ns
            )  # fmt: skip
            self._add("submissions", values, (request.request_id,))

    def advanced(self, events: Sequence[Event], now_ns: int) -> None:
        """Note an advance call: results and ends."""
        seq = self._call("advance", now_ns, self._round + 1)
        for item, event in enumerate(events):
            if isinstance(event, Extended):
                kind, count = "extend_result", len(event.tokens)
            elif isinstance(event, Finished | Aborted):
                kind, count = _ENDS[type(event)], 0
            else:
                continue
            values = (seq, self._round + 1, item, self._submission[event.request_id], count)
            self._add("events", values, (kind, event.request_id))

    def planned(self, now_ns: int) -> None:
        """Note a plan request; `operations` follows if it has a batch."""
        self._round += 1
        seq = self._call("plan", now_ns, self._round)
        self._add("rounds", (self._round, seq, now_ns, 0, 0, 0), ())

    def operations(self, plan: Plan, planned: Planned) -> int:
        """Note the rows of the last plan; return how many positions of them are fed again."""
        prefills, rows = planned.num_extends, len(planned.request_ids)
        batch: Any = plan.forward[0]
        replays = list(batch.extend_replay_lens) if prefills else []
        slots = batch.request_pool_indices if prefills else [0] * rows
        decodes = [0] * (rows - prefills)
        numbers, texts = self._numbers["operations"], self._texts["operations"]
        numbers["round"].extend([self._round] * rows)
        numbers["row"].extend(range(rows))
        numbers["submission"].extend([self._submission[name] for name in planned.request_ids])
        numbers["slot"].extend(slots)
        numbers["begin_tokens"].extend([*planned.extend_prefix_lens, *decodes])
        numbers["input_tokens"].extend(planned.input_lengths)
        numbers["replay_tokens"].extend([*replays, *decodes])
        numbers["prefill_tokens"].extend(planned.prefill_lengths)
        texts["kind"].extend(["prefill"] * prefills + ["decode"] * (rows - prefills))
        texts["request"].extend(planned.request_ids)
        rounds = self._numbers["rounds"]
        rounds["prefill_rows"][-1], rounds["decode_rows"][-1] = prefills, rows - prefills
        rounds["scheduled_tokens"][-1] = sum(planned.input_lengths)
        return sum(replays)

    def tables(self) -> Mapping[str, pa.Table]:
        """Return the tables by name; a column that is not noted is missing."""
        made = {}
        for name, numbers in self._numbers.items():
            columns = {n: pa.array(memoryview(values), pa.int64()) for n, values in numbers.items()}
            columns |= {n: pa.array(values, pa.string()) for n, values in self._texts.get(name, {}).items()}
            if (always := _ALWAYS.get(name)) is not None:
                columns[always] = pa.array([True] * len(numbers["submission"]), pa.bool_())
            made[name] = pa.table(columns)
        return made

    def _call(self, kind: str, now_ns: int, round_: int) -> int:
        seq = self._calls
        self._calls += 1
        self._add("calls", (seq, round_, now_ns), (kind,))
        return seq

    def _add(self, table: str, values: Sequence[int], texts: Sequence[str]) -> None:
        for column, value in zip(self._numbers[table].values(), values, strict=True):
            column.append(value)
        for text_column, text in zip(self._texts.get(table, {}).values(), texts, strict=True):
            text_column.append(text)
