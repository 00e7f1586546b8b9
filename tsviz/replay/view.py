"""Recorded state of one part: any round, forwards or backwards at the same cost, without re-execution.

Implements `RecordedView` (architecture.md, section 6, *Recorded state*).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tsviz.replay.decided.view import DERIVED, RECORDED, DecidedView
from tsviz.replay.pages.large import LargePages
from tsviz.replay.pages.map import PagesHistory
from tsviz.replay.pages.open import open_pages
from tsviz.replay.pages.spells import host_layout_of
from tsviz.replay.recorded.bases import make_bases, open_bases
from tsviz.replay.recorded.life_of import is_large
from tsviz.replay.recorded.preparing import PreparingTables
from tsviz.replay.recorded.recorded_rows import RecordedRows
from tsviz.replay.recorded.snapshot import (
    BlockTable,
    Forward,
    NotPrepared,
    Outstanding,
    Pool,
    Preparing,
    Record,
    RecordedView,
    RequestLine,
    Snapshot,
    TraceHead,
    Transfer,
)
from tsviz.replay.recorded.source import CallsTables, Source, WholeTables
from tsviz.replay.recorded.source_bases import BasedTables
from tsviz.replay.recorded.states import Codes, RequestStates
from tsviz.replay.recorded.timeline import CELLS, CODES, Lane, Lanes, StateRuns, counted, edges
from tsviz.replay.reexecution.filled import open_filled
from tsviz.replay.reexecution.index import Index, open_index
from tsviz.replay.rows.event_words import event_words
from tsviz.replay.rows.lifetimes import NEVER, Lifetimes, Longs, column, keys
from tsviz.replay.stops.story import NotKnown, RoundStory
from tsviz.replay.why.tree import Answer
from tsviz.trace.catalogue import CALLS
from tsviz.trace.errors import TraceError
from tsviz.trace.gaps import spans
from tsviz.trace.reader import Bundle, Part

from .inside import Inside
from .moments import AtRound, NoMoment, round_at, wall_offset_ns

NOT_RECORDED = "Not recorded at this level (calls): rows, block tables and transfers. `tsviz index` makes them again."
_HOLD_NOTHING = [CODES[state] for state in ("waiting", "bootstrapping", "retracted", "finished", "aborted")]


class PartView:
    """Recorded state of one part of a bundle."""

    def __init__(
        self,
        bundle: Bundle,
        part: Part,
        decided: DecidedView | None = None,
        inside: Inside | None = None,
        source: Source | None = None,
    ) -> None:
        """Read what every round needs; `decided` adds causes and reserves, `inside` stories. Raises `TraceError`.

        `source` is where it is read from: tables held whole unless it is given.
        """
        self._bundle, self._part, self._decided = bundle, part, decided
        self._inside = inside if inside is not None else Inside(part, None, str(bundle.path))
        self._source = source or WholeTables(part)
        self._take_source()
        self.head = self._head(bundle)

    def _take_source(self) -> None:
        self._numbers, self._life = self._source.numbers, self._source.life

    @property
    def preparing(self) -> Preparing | None:
        """How far what tells of requests is built; None once it is there, and from then on it is used."""
        source = self._source
        if isinstance(source, CallsTables):
            return Preparing(0, 0, words=NOT_RECORDED)
        if not isinstance(source, PreparingTables):
            return None
        ready = source.ready()
        if ready is None:
            return source.progress
        self._source = ready
        self._take_source()
        for name in ("_states", "_runs", "_marks", "_rows_of_part"):
            self.__dict__.pop(name, None)
        return None

    def _head(self, bundle: Bundle) -> TraceHead:
        part = self._part
        first_ns = int(self._source.of_rounds("start_ns")[0]) if len(self._numbers) else 0
        offset = wall_offset_ns(bundle, part, first_ns)
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
            gaps=len(spans(part.table("gaps"))),
            parts=tuple(f"{p.node}/{p.rank}" for p in bundle.parts),
            groups=tuple(str(group["group_id"]) for group in part.config["cache_groups"]),
            frontier=self._inside.frontier,
            first_round=int(self._numbers[0]) if len(self._numbers) else 1,
            calls_only=part.recorded_level == CALLS,
            host_pages=0 if (host := host_layout_of(part)) is None else host.parents,
            zero_ns=0 if part.clock == "virtual" else first_ns,
            wall_zero_ns=None if isinstance(offset, NoMoment) else first_ns + offset,
        )

    @cached_property
    def _states(self) -> RequestStates:
        return RequestStates(self._life, self._source.absent, self.head.role)

    def snapshot(self, round_: int, selected: int | None = None) -> Snapshot:
        """Return what is known at `round_` (clamped to the trace), with the tables of submission `selected`."""
        preparing = self.preparing
        if not len(self._numbers):
            return self._empty()
        index = int(np.clip(np.searchsorted(self._numbers, round_), 0, len(self._numbers) - 1))
        number = int(self._numbers[index])
        row = self._source.round_row(index)
        zeroed = self._source.zeroed(number)
        rows = self._source.rows(number)
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
            events=event_words(self._source.events(number)),
            decisions=self._decisions(number),
            reserve=None if selected is None or self._decided is None else self._decided.reserve(selected, number),
            preparing=preparing,
        )

    def _decisions(self, number: int) -> str:
        decided = self._decided
        return "none" if decided is None or number > decided.last_round else decided.source

    def next_mark(self, round_: int, submission: int | None, step: int) -> int | None:
        """Return the next (`step` 1) or previous (-1) round in which `submission` was scheduled or changed state.

        Without a submission: in which anything was retracted. None when there is no such round.
        """
        if submission is None:
            marks = self._retracted
        else:
            gone = self._source.absent.of(submission)
            ends = [e for e in (int(self._life.end_round[submission]),) if e != NEVER]
            first = [int(self._life.submitted[submission])]
            row = self._life.op_rows.nearest(submission, round_, step)
            marks = np.unique(
                np.array(
                    [*gone[gone >= self.head.first_round], *ends, *first, *([] if row is None else [row])], np.int64
                )
            )
        chosen = marks[marks > round_] if step > 0 else marks[marks < round_][::-1]
        return int(chosen[0]) if len(chosen) else None

    def story(self, round_: int) -> RoundStory | NotKnown:
        """Return a round from the inside: phases, candidates and stops; or why that is not known."""
        decodes = [row.request for row in self._source.rows(round_) if row.kind == "decode"]
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
        return RecordedRows(self._source, self._transfers)

    def pool_history(self, first_round: int, last_round: int, buckets: int) -> tuple[int, ...]:
        """Return the most occupied pages in each of at most `buckets` equal pieces of the rounds, both included.

        -1 stands for a piece of which no round is recorded.
        """
        usable = max(0, int(self._part.config["num_device_pages"]) - 1)
        at = np.searchsorted(self._numbers, edges(first_round, last_round, buckets))
        most = np.full(len(at) - 1, -1, np.int64)
        held = np.flatnonzero(np.diff(at))
        if len(held):
            most[held] = usable - np.minimum.reduceat(self._empty_pages[: at[-1]], at[held])
        return tuple(most.tolist())

    @cached_property
    def pages(self) -> PagesHistory | LargePages:
        """The pages of this part at every round, made when they are first asked for.

        Raises `TraceError`; `NotPrepared` for a large part of which this is still being built.
        """
        part, preparing = self._part, self.preparing
        if preparing is not None and not (preparing.error or preparing.words):
            raise NotPrepared(part.directory, preparing)
        if preparing is not None:
            found = preparing.error or preparing.words
            raise TraceError(part.directory, "pages", "what happened to the requests", found)
        source, life = self._source, self._life
        if isinstance(source, BasedTables):
            return LargePages(part, source, lambda: source.absent.since_keys, self._begun)
        assert isinstance(life, Lifetimes)
        return open_pages(part, life, lambda: source.absent.since_keys)

    def _begun(self, round_: int) -> list[int]:
        """Return the rounds that began the operations which are out behind the plan of a round."""
        return [operation.round for operation in self.outstanding(round_)]

    def lanes(self, first_round: int, last_round: int) -> Sequence[Lane]:
        """Return the requests that are there in some round of a window, in order of submission."""
        life = self._life
        begin = max(first_round, self.head.first_round)
        there = life.accepted & (life.submitted <= min(last_round, self.head.rounds)) & (life.end_round >= begin)
        submissions = np.flatnonzero(there) if last_round >= begin else np.zeros(0, np.int64)
        return Lanes(life.names, submissions, life.submitted, life.end_round, NEVER)

    def timeline(
        self, first_round: int, last_round: int, columns: int, submissions: Sequence[int]
    ) -> tuple[bytes, ...]:
        """Return a lane a submission, a byte a column: the code in `CELLS` of the state that holds longest in it.

        Rounds before the first that is recorded say nothing.
        """
        at = np.maximum(edges(first_round, last_round, columns), self.head.first_round)
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
        again = self._source.absent.readmitted(keys(self._life.start_submission, self._life.start_round))
        gaps = self._part.table("gaps")
        missing = [np.arange(a, b + 1) for a, b in zip(column(gaps, "round"), column(gaps, "last_round"), strict=True)]
        lost = np.unique(np.concatenate(missing)) if missing else np.zeros(0, np.int64)
        found = {"retraction": self._retracted, "readmission": again, "replay": self._source.replayed(), "gap": lost}
        if self._decided is not None:
            found |= self._decided.marks
        return {mark: rounds.astype(np.int64) for mark, rounds in found.items()}

    @property
    def decided_to(self) -> int:
        """The last round up to which marks that decisions tell are known; 0: none is."""
        return 0 if self._decided is None else self._decided.last_round

    @cached_property
    def _empty_pages(self) -> npt.NDArray[Any]:
        return self._source.of_rounds("empty_pages")

    @cached_property
    def _retracted(self) -> Longs:
        rounds: Longs = self._numbers[np.flatnonzero(self._source.of_rounds("retracted_requests"))].astype(np.int64)
        return rounds

    def active_history(self, first_round: int, last_round: int, buckets: int) -> tuple[int, ...]:
        """Return the most pages that live tables held in each of at most `buckets` equal pieces of the rounds."""
        return self._inside.active_history(first_round, last_round, buckets)

    def round_at(self, time_ns: int, *, wall: bool) -> AtRound | NoMoment:
        """Return the round of a moment: ns since 1970, or since the part's clock began."""
        return round_at(self._bundle, self._part, time_ns, wall=wall, columns=(self._numbers, self._starts_ns))

    @cached_property
    def _starts_ns(self) -> Longs:
        """When each round began: an axis of time asks for it once a column, a large part decodes it once."""
        starts: Longs = self._source.of_rounds("start_ns").astype(np.int64, copy=False)
        return starts

    def find_request(self, request: str) -> int | None:
        """Return the last submission with this request id."""
        for submission in range(self._life.count - 1, -1, -1):
            if self._life.names[submission] == request:
                return submission
        return None

    def _requests(self, number: int, scheduled: set[int]) -> tuple[RequestLine, ...]:
        life = self._life
        there = life.live(number)
        last, landed = life.op_rows.last(there, number), life.landed(there, number)
        states, retractions = self._states.at(there, number, last), self._source.absent.begun(there, number)
        held = dict(zip(*self._holding(there, states, number), strict=True))
        lines = []
        names = [life.names[submission] for submission in there.tolist()]
        causes = [None] * len(there) if self._decided is None else self._decided.causes(there, names, number)
        for submission, name, row, generated, code, gone, cause in zip(
            there.tolist(), names, last.tolist(), landed.tolist(), states.tolist(), retractions.tolist(), causes,
            strict=True,
        ):  # fmt: skip
            state = CELLS[code]
            pages = held.get(submission, ())
            lines.append(
                RequestLine(
                    request=name,
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

    def _holding(self, there: Longs, states: Codes, number: int) -> tuple[list[int], Sequence[tuple[int, ...]]]:
        """Return the requests that hold pages, by their states, and how many each by group."""
        holding = there[~np.isin(states, _HOLD_NOTHING)]
        return holding.tolist(), self._source.held(holding, number)

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
        gone = bool(self._source.absent.gone(np.array([submission], np.int64), number)[0])
        return self._source.tables(submission, number, zeroed) if there and not gone else ()

    def _transfers(self, number: int) -> tuple[Transfer, ...]:
        found: dict[int, Transfer] = {}
        for row in self._source.transfers(number):
            op_id, before = row["op_id"], found.get(row["op_id"])
            pages = 1 if before is None else before.pages + 1
            back = self._source.acknowledged(op_id) if before is None else before.acknowledged_round
            found[op_id] = Transfer(op_id, row["kind"], pages, row["source_pinned"], back)
        return tuple(found.values())

    def _empty(self) -> Snapshot:
        config = self._part.config
        pool = Pool(max(0, int(config["num_device_pages"]) - 1), max(0, int(config["num_device_pages"]) - 1), 0)
        return Snapshot(
            head=self.head, round=0, start_ns=0, budget_tokens=int(config["max_scheduled_tokens"]), scheduled_tokens=0,
            batch_slots=int(config["max_batch_size"]), rows=(), requests=(), counts={}, retracted=0, transfers=(),
            pool=pool, selected=None, tables=(), events=(),
        )  # fmt: skip


def open_view(bundle: Bundle, node: str | None = None, rank: int | None = None, *, wait: bool = True) -> RecordedView:
    """Return the recorded state of a part of a bundle, with its decisions where they are recorded or indexed.

    A large part needs compact bases, which are built once. `wait`: until they are there; otherwise a process builds
    them, and snapshots say how far it is (`preparing`) and nothing of requests.

    Raises KeyError for a part that is not there, `TraceError`.
    """
    part = bundle.part(node, rank)
    index = None if part.level == "decisions" else open_index(part)
    decided = _decided(part, index)
    source = _source(bundle, part, decided, wait=wait)
    return PartView(bundle, part, decided, Inside(part, index, str(bundle.path)), source)


def _source(bundle: Bundle, part: Part, decided: DecidedView | None, *, wait: bool) -> Source:
    if part.level == CALLS:
        return CallsTables(part)
    store = part.cold
    if store is None or not is_large(part):
        begin = part.meta.get("starts_at", 1)
        return WholeTables(part, None if decided is None or begin == 1 else decided.retracted(begin - 1))
    bases = make_bases(part) if wait else open_bases(part)
    return PreparingTables(part, store, bundle.path) if bases is None else BasedTables(part, store, bases)


def view_at(path: str, node: str, rank: int) -> RecordedView:
    """Return what `open_view` does, for the bundle that is at a path now."""
    return open_view(open_filled(path), node, rank, wait=False)


def _decided(part: Part, index: Index | None) -> DecidedView | None:
    described = part.config["cache_groups"]
    groups = [str(group["group_id"]) for group in described]
    has_state = any(group["family"] == "State" for group in described)
    if part.level == "decisions":
        return DecidedView(part, RECORDED, part.last_round, groups, has_state=has_state)
    return None if index is None else DecidedView(index, DERIVED, index.last_round, groups, has_state=has_state)
