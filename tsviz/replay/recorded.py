"""Recorded state of one part: any round, forwards or backwards at the same cost, without re-execution.

Implements `RecordedView` (architecture.md, section 6, *Recorded state*).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from tsviz.trace.reader import Bundle, Part, open_bundle

from .block_tables import RecordedTables
from .decided_view import DERIVED, RECORDED, DecidedView
from .event_words import event_words
from .index import Index, open_index
from .inside import Inside
from .lifetimes import NEVER, Lifetimes, Longs, column, keys, words
from .moments import AtRound, NoMoment, round_at
from .pages_map import PagesHistory, open_pages
from .recorded_rows import RecordedRows
from .retractions import absences
from .snapshot import (
    BlockTable,
    Forward,
    Outstanding,
    Pool,
    Record,
    RecordedView,
    RequestLine,
    Row,
    Snapshot,
    TraceHead,
    Transfer,
)
from .states import Absences, RequestStates
from .stops import NotKnown, RoundStory
from .timeline import CELLS, Lane, StateRuns, counted, edges
from .why_tree import Answer


class PartView:
    """Recorded state of one part of a bundle."""

    def __init__(
        self, bundle: Bundle, part: Part, decided: DecidedView | None = None, inside: Inside | None = None
    ) -> None:
        """Read what every round needs; `decided` adds causes and reserves, `inside` stories. Raises `TraceError`."""
        self._bundle, self._part = bundle, part
        self._decided = decided
        self._inside = inside if inside is not None else Inside(part, None, str(bundle.path))
        self._rounds = part.table("rounds")
        self._numbers = column(self._rounds, "round")
        self._life = Lifetimes(part)
        self._tables = RecordedTables(part)
        self.head = self._head(bundle)
        operations = part.table("operations")
        self._op_slot, self._op_replay = column(operations, "slot"), column(operations, "replay_tokens")
        self._op_submission = column(operations, "submission")
        self._event_round = column(part.table("events"), "round")
        self._transfer_round = column(part.table("transfers"), "round")
        self._zeroed_round = column(part.table("zeroed"), "round")

    def _head(self, bundle: Bundle) -> TraceHead:
        part = self._part
        return TraceHead(
            name=bundle.name,
            node=part.node,
            rank=part.rank,
            role=str(part.meta.get("role", "?")),
            engine=str(part.engine.get("name", "?")),
            engine_version=str(part.engine.get("version", "?")),
            rule_set=part.rule_set,
            rounds=int(self._numbers[-1]) if len(self._numbers) else 0,
            requests=self._life.count,
            live=part.live,
            clock=part.clock,
            gaps=part.rows("gaps"),
            parts=tuple(f"{p.node}/{p.rank}" for p in bundle.parts),
            groups=tuple(str(group["group_id"]) for group in part.config["cache_groups"]),
            frontier=self._inside.frontier,
        )

    @cached_property
    def _absent(self) -> Absences:
        counts = column(self._rounds, "retracted_requests")
        retracted = {int(self._numbers[i]): int(counts[i]) for i in np.flatnonzero(counts)}
        transfers = self._part.table("transfers")
        saved: dict[int, set[tuple[int, int]]] = {}
        ordered = np.array(transfers["source_pinned"].fill_null(True).to_numpy(zero_copy_only=False), np.bool_)
        groups, pages = column(transfers, "group_index"), column(transfers, "src_page")
        for row in np.flatnonzero(~ordered).tolist():
            saved.setdefault(int(self._transfer_round[row]), set()).add((int(groups[row]), int(pages[row])))
        found = absences(self._life, retracted, {r: frozenset(p) for r, p in saved.items()}, self._tables.held)
        return Absences(found)

    @cached_property
    def _states(self) -> RequestStates:
        return RequestStates(self._life, self._absent, self.head.role)

    def snapshot(self, round_: int, selected: int | None = None) -> Snapshot:
        """Return what is known at `round_` (clamped to the trace), with the tables of submission `selected`."""
        if not len(self._numbers):
            return self._empty()
        index = int(np.clip(np.searchsorted(self._numbers, round_), 0, len(self._numbers) - 1))
        number = int(self._numbers[index])
        row: dict[str, Any] = self._rounds.slice(index, 1).to_pylist()[0]
        zeroed = self._zeroed(number)
        rows = self._rows(number)
        scheduled = {r.submission for r in rows}
        config = self._part.config
        return Snapshot(
            head=self.head,
            round=number,
            start_ns=row["start_ns"],
            budget_tokens=int(config["max_scheduled_tokens"]),
            scheduled_tokens=row["scheduled_tokens"],
            batch_slots=int(config["max_batch_size"]),
            rows=rows,
            requests=self._requests(number, scheduled),
            counts={
                "bootstrapping": row["bootstrapping_requests"],
                "waiting": row["waiting_requests"],
                "prefilling": row["prefilling_requests"],
                "decoding": row["decoding_requests"],
                "pd_transfer": row["pd_transfer_requests"],
            },
            retracted=row["retracted_requests"],
            transfers=self._transfers(number),
            pool=Pool(
                max(0, int(config["num_device_pages"]) - 1),
                row["empty_pages"],
                sum(map(len, zeroed.values())),
                self._inside.active_blocks(number),
            ),
            selected=selected,
            tables=() if selected is None else self._selected(selected, number, zeroed),
            events=self._events(number),
            decisions=self._source(number),
            reserve=None if selected is None or self._decided is None else self._decided.reserve(selected, number),
        )

    def _source(self, number: int) -> str:
        decided = self._decided
        return "none" if decided is None or number > decided.last_round else decided.source

    def next_mark(self, round_: int, submission: int | None, step: int) -> int | None:
        """Return the next (`step` 1) or previous (-1) round in which `submission` was scheduled or changed state.

        Without a submission: in which anything was retracted. None when there is no such round.
        """
        if submission is None:
            marks = self._numbers[np.flatnonzero(column(self._rounds, "retracted_requests"))].astype(np.int64)
        else:
            gone = self._absent.of(submission)
            ends = [e for e in (int(self._life.end_round[submission]),) if e != NEVER]
            first = [int(self._life.submitted[submission])]
            marks = np.unique(
                np.concatenate([self._life.op_rows.rounds(submission), gone, ends, first]).astype(np.int64)
            )
        chosen = marks[marks > round_] if step > 0 else marks[marks < round_][::-1]
        return int(chosen[0]) if len(chosen) else None

    def story(self, round_: int) -> RoundStory | NotKnown:
        """Return a round from the inside: phases, candidates and stops; or why that is not known."""
        decodes = [row.request for row in self._rows(round_) if row.kind == "decode"]
        return self._inside.story(round_, decodes)

    def why(self, submission: int, round_: int) -> Answer | NotKnown:
        """Return why a submission has no row in a round; or why that is not known."""
        return self._inside.why(self._life.names[submission], round_)

    def outstanding(self, round_: int) -> tuple[Outstanding, ...]:
        """Return the operations that are out behind the plan of a round, oldest first."""
        return self._rows_of_part.outstanding(round_)

    def forwards(self, first_round: int, last_round: int) -> tuple[Forward, ...]:
        """Return the measured forwards of the rounds, both included."""
        return self._rows_of_part.forwards(first_round, last_round)

    def records(self, round_: int, submission: int | None) -> tuple[Record, ...]:
        """Return the recorded rows of a round: its own, and those of a submission in it."""
        return self._rows_of_part.records(round_, submission)

    @cached_property
    def _rows_of_part(self) -> RecordedRows:
        return RecordedRows(self._part, self._transfers)

    def pool_history(self, first_round: int, last_round: int, buckets: int) -> tuple[int, ...]:
        """Return the most occupied pages in each of at most `buckets` equal pieces of the rounds, both included."""
        low, high = np.searchsorted(self._numbers, (first_round, last_round + 1))
        usable = max(0, int(self._part.config["num_device_pages"]) - 1)
        occupied = usable - column(self._rounds, "empty_pages")[low:high].astype(np.int64)
        starts = edges(0, len(occupied) - 1, buckets)[:-1]
        return tuple(np.maximum.reduceat(occupied, starts).tolist()) if len(starts) else ()

    @cached_property
    def pages(self) -> PagesHistory:
        """The pages of this part at every round, made when they are first asked for. Raises `TraceError`."""
        return open_pages(self._part, self._life, lambda: self._absent.since_keys)

    def lanes(self, first_round: int, last_round: int) -> tuple[Lane, ...]:
        """Return the requests that are there in some round of a window, in order of submission."""
        life = self._life
        there = life.accepted & (life.submitted <= min(last_round, self.head.rounds)) & (life.end_round >= first_round)
        first, last = life.submitted.tolist(), life.end_round.tolist()
        return tuple(
            Lane(s, life.names[s], first[s], None if last[s] == NEVER else last[s])
            for s in np.flatnonzero(there).tolist()
        )

    def timeline(
        self, first_round: int, last_round: int, columns: int, submissions: Sequence[int]
    ) -> tuple[bytes, ...]:
        """Return a lane a submission, a byte a column: the code in `CELLS` of the state that holds longest in it."""
        at = edges(first_round, last_round, columns)
        return tuple(self._runs.lane(submission, at) for submission in submissions)

    @cached_property
    def _runs(self) -> StateRuns:
        return self._states.runs()

    def marks(self, first_round: int, last_round: int, columns: int) -> Mapping[str, tuple[int, ...]]:
        """Return, per mark of `MARKS`, in how many rounds of each column it stands; a missing one is not known."""
        at = edges(first_round, last_round, columns)
        return {mark: counted(rounds, at) for mark, rounds in self._marks.items()}

    @cached_property
    def _marks(self) -> dict[str, Longs]:
        part = self._part
        retracted = np.unique(self._numbers[np.flatnonzero(column(self._rounds, "retracted_requests"))])
        replayed = np.unique(self._life.op_round[self._op_replay > 0])
        again = self._absent.readmitted(keys(self._life.start_submission, self._life.start_round))
        gaps = part.table("gaps")
        missing = [np.arange(a, b + 1) for a, b in zip(column(gaps, "round"), column(gaps, "last_round"), strict=True)]
        lost = np.unique(np.concatenate(missing)) if missing else np.zeros(0, np.int64)
        found = {"retraction": retracted, "readmission": again, "replay": replayed, "gap": lost}
        if self._decided is not None:
            found |= self._decided.marks
        return {mark: rounds.astype(np.int64) for mark, rounds in found.items()}

    @property
    def decided_to(self) -> int:
        """The last round up to which marks that decisions tell are known; 0: none is."""
        return 0 if self._decided is None else self._decided.last_round

    def active_history(self, first_round: int, last_round: int, buckets: int) -> tuple[int, ...]:
        """Return the most pages that live tables held in each of at most `buckets` equal pieces of the rounds."""
        return self._inside.active_history(first_round, last_round, buckets)

    def round_at(self, time_ns: int, *, wall: bool) -> AtRound | NoMoment:
        """Return the round of a moment: ns since 1970, or since the part's clock began."""
        return round_at(self._bundle, self._part, time_ns, wall=wall)

    def find_request(self, request: str) -> int | None:
        """Return the last submission with this request id."""
        for submission in range(self._life.count - 1, -1, -1):
            if self._life.names[submission] == request:
                return submission
        return None

    def _rows(self, number: int) -> tuple[Row, ...]:
        life = self._life
        low, high = np.searchsorted(life.op_round, (number, number + 1))
        return tuple(
            Row(
                kind=str(life.op_kind[i]),
                request=life.names[self._op_submission[i]],
                submission=int(self._op_submission[i]),
                slot=int(self._op_slot[i]),
                begin_tokens=None if life.op_begin[i] < 0 else int(life.op_begin[i]),
                input_tokens=int(life.op_input[i]),
                replay_tokens=int(self._op_replay[i]),
                prefill_tokens=int(life.op_prefill[i]),
            )
            for i in range(low, high)
        )

    def _requests(self, number: int, scheduled: set[int]) -> tuple[RequestLine, ...]:
        life = self._life
        there = life.live(number)
        last, landed = life.op_rows.last(there, number), life.landed(there, number)
        states, retractions = self._states.at(there, number, last), self._absent.begun(there, number)
        lines = []
        causes = [None] * len(there) if self._decided is None else self._decided.causes(there, number)
        for submission, row, generated, code, gone, cause in zip(
            there.tolist(), last.tolist(), landed.tolist(), states.tolist(), retractions.tolist(), causes, strict=True
        ):
            state = CELLS[code]
            holding = state not in ("waiting", "bootstrapping", "retracted", "finished", "aborted")
            pages = self._tables.counts(submission, number) if holding else ()
            lines.append(
                RequestLine(
                    request=life.names[submission],
                    submission=submission,
                    state=state,
                    computed_tokens=self._computed(submission, row, generated, state),
                    prompt_tokens=int(life.prompt[submission]),
                    generated_tokens=generated,
                    max_new_tokens=int(life.max_new[submission]),
                    held_pages=sum(pages),
                    age_rounds=number - int(life.submitted[submission]),
                    scheduled=submission in scheduled,
                    retractions=gone,
                    cause=cause if state not in ("finished", "aborted") else None,
                    group_pages=pages,
                )
            )
        return tuple(lines)

    def _computed(self, submission: int, row: int, generated: int, state: str) -> int:
        life = self._life
        if row < 0 or state == "retracted":
            return 0
        if life.op_kind[row] == "prefill":
            return int(life.op_begin[row] + life.op_input[row])
        return int(life.prompt[submission]) + max(0, generated - 1)

    def _selected(self, submission: int, number: int, zeroed: dict[str, frozenset[int]]) -> tuple[BlockTable, ...]:
        if not 0 <= submission < self._life.count:
            return ()
        there = self._life.end_round[submission] > number
        gone = bool(self._absent.gone(np.array([submission], np.int64), number)[0])
        return self._tables.tables(submission, number, zeroed) if there and not gone else ()

    def _zeroed(self, number: int) -> dict[str, frozenset[int]]:
        low, high = np.searchsorted(self._zeroed_round, (number, number + 1))
        rows = self._part.table("zeroed").slice(low, high - low)
        pages: dict[str, set[int]] = {}
        for group, page in zip(words(rows, "group"), rows["page"].to_pylist(), strict=True):
            pages.setdefault(group or "", set()).add(page)
        return {group: frozenset(found) for group, found in pages.items()}

    @cached_property
    def _acknowledged(self) -> dict[int, int]:
        events = self._part.table("events")
        op_ids = column(events, "op_id")
        return {int(op_ids[i]): int(self._event_round[i]) for i in np.flatnonzero(op_ids >= 0)}

    def _transfers(self, number: int) -> tuple[Transfer, ...]:
        low, high = np.searchsorted(self._transfer_round, (number, number + 1))
        found: dict[int, Transfer] = {}
        for row in self._part.table("transfers").slice(low, high - low).to_pylist():
            op_id, before = row["op_id"], found.get(row["op_id"])
            pages = 1 if before is None else before.pages + 1
            found[op_id] = Transfer(op_id, row["kind"], pages, row["source_pinned"], self._acknowledged.get(op_id))
        return tuple(found.values())

    def _events(self, number: int) -> tuple[str, ...]:
        low, high = np.searchsorted(self._event_round, (number, number + 1))
        return event_words(self._part.table("events").slice(low, high - low).to_pylist())

    def _empty(self) -> Snapshot:
        config = self._part.config
        pool = Pool(max(0, int(config["num_device_pages"]) - 1), max(0, int(config["num_device_pages"]) - 1), 0)
        return Snapshot(
            head=self.head, round=0, start_ns=0, budget_tokens=int(config["max_scheduled_tokens"]), scheduled_tokens=0,
            batch_slots=int(config["max_batch_size"]), rows=(), requests=(), counts={}, retracted=0, transfers=(),
            pool=pool, selected=None, tables=(), events=(),
        )  # fmt: skip


def open_view(bundle: Bundle, node: str | None = None, rank: int | None = None) -> RecordedView:
    """Return the recorded state of a part of a bundle, with its decisions where they are recorded or indexed.

    Raises KeyError for a part that is not there, `TraceError`.
    """
    part = bundle.part(node, rank)
    index = None if part.level == "decisions" else open_index(part)
    return PartView(bundle, part, _decided(part, index), Inside(part, index, str(bundle.path)))


def view_at(path: str, node: str, rank: int) -> RecordedView:
    """Return what `open_view` does, for the bundle that is at a path now."""
    return open_view(open_bundle(path), node, rank)


def _decided(part: Part, index: Index | None) -> DecidedView | None:
    described = part.config["cache_groups"]
    groups = [str(group["group_id"]) for group in described]
    has_state = any(group["family"] == "State" for group in described)
    if part.level == "decisions":
        return DecidedView(part, RECORDED, part.last_round, groups, has_state=has_state)
    return None if index is None else DecidedView(index, DERIVED, index.last_round, groups, has_state=has_state)
