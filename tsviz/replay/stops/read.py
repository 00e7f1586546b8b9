"""Stories of rounds, read from the decided tables by round: a binary search a table, never a whole table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np

from tsviz.replay.decided.causes import cause_words
from tsviz.replay.decided.view import DecidedTables
from tsviz.replay.rows.lifetimes import PerRequest, column
from tsviz.replay.rows.rows_from import RowsFrom, some
from tsviz.replay.why.tree import counted
from tsviz.scheduler import decisions as d
from tsviz.trace.decided import DECIDED

from .story import (
    ADMITTED,
    ATTEMPT,
    CANDIDATE,
    GRANT,
    IN_PLACE,
    ITERATION,
    NOT_NOW,
    PHASE,
    REFUSED,
    RETRACTED,
    STUCK,
    TOLD,
    Entry,
    Fact,
    PhaseStory,
    RoundStory,
    Stop,
)  # fmt: skip
from .words import ATTEMPTS, FACTS, PHASES, Decided, Groups, evictions, victim

_STOPS = {"phases": PHASE, "candidates": CANDIDATE, "attempts": ATTEMPT, "retractions": ITERATION, "grants": GRANT}
_TOLD = (*_STOPS, *FACTS, "evictions", "victims", "verdicts", "pool")
_GRANTS = {
    "granted": "granted", "capacity": "refused again: not enough yet", "not_now": "no chunk for it now",
    "cannot_join": "cannot join a batch that has decodes", "batch_full": "the batch is full",
    "nobody_waits": "nobody else waits",
}  # fmt: skip
_TURNS = {
    d.RETRACTED: "{victim} is retracted", d.NOT_QUIESCENT: "{victim} is first in line and has a forward out",
    d.NOTHING_RETRACTABLE: "nobody can be retracted", d.DEFERRED: "waits for operation {op_id}",
}  # fmt: skip
_NAMED = 6


def groups_of(config: Mapping[str, Any]) -> Groups:
    """Return what the words need to know of a part's configuration."""
    described = config["cache_groups"]
    return Groups(
        names=tuple(str(group["group_id"]) for group in described),
        packing=tuple(int(group["cache_blocks_per_lcm_block"]) for group in described),
        has_state=any(group["family"] == "State" for group in described),
        window_tokens=max((g["sliding_window_tokens"] or 0 for g in described if g["replayable"]), default=0),
        page_tokens=int(config["prefix_granularity"]),
    )


class Stories:
    """Stories of the rounds of one part, whose decisions stand in `tables`."""

    def __init__(self, tables: DecidedTables, source: str, config: Mapping[str, Any]) -> None:
        """`source` is `recorded` or `derived`. Tables are read at the first story."""
        self._tables, self._source, self._groups = tables, source, groups_of(config)
        self._rows: dict[str, RowsFrom] = {}
        self._in_force: InForce | None = None

    def story(self, round_: int, decodes: Sequence[str] = ()) -> RoundStory:
        """Return the story of a round; `decodes` are the requests of its decode rows in the order of the plan.

        They name the decodes in place, of which nothing is told. Raises `TraceError`.
        """
        rows = {name: self._at(name, round_) for name in _TOLD}
        if self._in_force is None:
            self._in_force = InForce(self._tables)
        reading = _Reading(round_, rows, self._groups, decodes, self._in_force)
        return RoundStory(round_, self._source, reading.opening(), reading.phases(), reading.behind())

    def _at(self, name: str, round_: int) -> list[Decided]:
        rows = self._rows.get(name)
        if rows is None:
            rows = self._rows[name] = RowsFrom(self._tables, name, DECIDED[name].names, key="round")
        found: list[Decided] = rows.between(round_, round_).to_pylist()
        return found


class InForce:
    """The verdicts that hold in a round: each holds until the next one of its request."""

    def __init__(self, tables: DecidedTables) -> None:
        """Read what tells where they stand. Raises `TraceError`."""
        self._verdicts = RowsFrom(tables, "verdicts", DECIDED["verdicts"].names, key="round")
        keys = some(tables, "verdicts", ("submission", "round"))
        self._keys = PerRequest(column(keys, "submission"), column(keys, "round"))

    def verdict(self, submission: int, round_: int) -> Decided | None:
        """Return the last verdict on a request at or before a round. Raises `TraceError`."""
        since = int(self._keys.last_round(np.array([submission], np.int64), round_)[0])
        rows: list[Decided] = [] if since < 0 else self._verdicts.between(since, since).to_pylist()
        return next((row for row in rows if row["submission"] == submission), None)


class _Reading:
    """One round while it is read."""

    def __init__(
        self, round_: int, rows: dict[str, list[Decided]], groups: Groups, decodes: Sequence[str], in_force: InForce
    ) -> None:
        self._round, self._in_force = round_, in_force
        self._rows, self._groups = rows, groups
        self._end = rows["pool"][-1]["item"] if rows["pool"] else 1 << 62
        told = sorted((row["stop"], kind, row) for name, kind in _STOPS.items() for row in rows[name])
        self._stops: list[tuple[int, str, Decided]] = told
        named = {row["request"] for row in rows["candidates"]}
        self._in_place = [name for name in decodes if name not in named]
        self._verdicts = {row["submission"]: row for row in rows["verdicts"]}
        self._hanging: dict[int, list[tuple[str, Decided]]] = {}
        for name in (*FACTS, "evictions", "victims"):
            for row in rows[name]:
                if row["item"] < self._end:
                    self._hanging.setdefault(row["stop"], []).append((name, row))
        for hanging in self._hanging.values():
            hanging.sort(key=lambda pair: pair[1]["item"])

    def opening(self) -> tuple[Fact, ...]:
        """What was told before the first phase."""
        return self._facts(0, None)

    def behind(self) -> tuple[Fact, ...]:
        """What came behind the plan, before the next one."""
        rows = [(name, row) for name in (*FACTS, "evictions") for row in self._rows[name] if row["item"] > self._end]
        return self._words(sorted(rows, key=lambda pair: pair[1]["item"]), None)

    def phases(self) -> tuple[PhaseStory, ...]:
        """The phases in order."""
        starts = [i for i, (_, kind, _) in enumerate(self._stops) if kind == PHASE]
        last = self._last_stop()
        found = []
        for position, start in enumerate(starts):
            end = starts[position + 1] if position + 1 < len(starts) else len(self._stops)
            until = self._stops[end][0] if end < len(self._stops) else last + 1
            found.append(self._phase(self._stops[start], self._stops[start + 1 : end], until))
        return tuple(found)

    def _last_stop(self) -> int:
        numbers = [row["stop"] for name in ("verdicts", "pool") for row in self._rows[name]]
        return max([number for number, _, _ in self._stops] + numbers, default=0)

    def _phase(self, start: tuple[int, str, Decided], inside: list[tuple[int, str, Decided]], until: int) -> PhaseStory:
        number, _, row = start
        name = str(row["name"])
        words = f"{counted(row['budget_tokens'], 'token')} left, {counted(row['batch_rows'], 'row')} so far"
        if row["holdback_tokens"]:
            words += f"; decodes leave {row['holdback_tokens']:,} to a pending prefill"
        stop = Stop(number, PHASE, "", -1, words, facts=self._facts(number, None))
        entries = tuple(self._entries(inside, number + 1, until))
        return PhaseStory(
            PHASES.get(name, name), stop, row["budget_tokens"], row["holdback_tokens"], row["batch_rows"], entries
        )

    def _entries(self, inside: list[tuple[int, str, Decided]], first: int, until: int) -> Iterator[Entry]:
        """Yield the entries of a phase, decodes in place (numbers that nothing is told of) as entries of their own."""
        pieces: list[list[tuple[int, str, Decided]]] = []
        for stop in inside:
            if stop[1] in (CANDIDATE, ITERATION) or not pieces:
                pieces.append([])
            pieces[-1].append(stop)
        expected = first
        for piece in pieces:
            if piece[0][0] > expected:
                yield self._quiet(expected, piece[0][0] - 1)
            yield self._entry(piece)
            expected = piece[-1][0] + 1
        if expected < until:
            yield self._quiet(expected, until - 1)

    def _quiet(self, first: int, last: int) -> Entry:
        many = last - first + 1
        names, self._in_place = self._in_place[:many], self._in_place[many:]
        shown = ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else "")
        words = f"{counted(many, 'decode')} in place, no page touched" + (f": {shown}" if shown else "")
        request = names[0] if many == 1 and names else ""
        return Entry(request, -1, TOLD, words, (Stop(first, IN_PLACE, request, -1, words, last=last),))

    def _entry(self, piece: list[tuple[int, str, Decided]]) -> Entry:
        stops = tuple(self._stop(*each) for each in piece)
        head = piece[0][2]
        if piece[0][1] == ITERATION:
            return Entry(head["blocker"], -1, stops[0].outcome, f"for {head['blocker']}: {stops[0].words}", stops)
        request, submission = head["request"], head.get("submission", -1)
        last = next((stop for stop in reversed(stops) if stop.outcome != TOLD), None)
        if last is not None:
            return Entry(request, submission, last.outcome, self._verdict(last), stops)
        verdict = self._verdicts.get(submission) or self._in_force.verdict(submission, self._round)
        if not verdict:
            return Entry(request, submission, NOT_NOW, "nothing was tried", stops)
        cause, holder, rule, op_id = (verdict[name] for name in ("cause", "holder", "rule", "op_id"))
        if cause == d.SCHEDULED:
            return Entry(request, submission, TOLD, "scheduled, no page touched", stops)
        return Entry(request, submission, NOT_NOW, cause_words(cause, holder, rule, op_id, 0, "", request), stops)

    @staticmethod
    def _verdict(stop: Stop) -> str:
        facts = {fact.kind: fact for fact in stop.facts}
        if stop.outcome == REFUSED:
            return f"refused: {facts['refusal'].words}"
        if stop.outcome == NOT_NOW:
            return facts["chunk"].words
        return f"admitted: {facts['admission'].words}"

    def _stop(self, number: int, kind: str, row: Decided) -> Stop:
        facts = self._facts(number, row if kind == ITERATION else None)
        kinds = {fact.kind for fact in facts}
        outcome = TOLD
        if kind in (CANDIDATE, ATTEMPT):
            if "admission" in kinds:
                outcome = ADMITTED
            elif "refusal" in kinds:
                outcome = REFUSED
            elif any(fact.kind == "chunk" and not fact.numbers["tokens"] for fact in facts):
                outcome = NOT_NOW
        match kind:
            case "candidate":
                words = "comes to " + row["request"]
                if outcome == REFUSED:
                    words += ": its remembered refusal repeats"
            case "attempt":
                words = (
                    f"{ATTEMPTS.get(row['kind'], row['kind'])}: needs {self._groups.each(row['need_pages'], 'no page')}"
                )
                words += f", hit {counted(row['hit_tokens'], 'token')}" if row["hit_tokens"] else ""
            case "iteration":
                outcome = RETRACTED if row["outcome"] == d.RETRACTED else STUCK
                words = _TURNS.get(row["outcome"], str(row["outcome"])).format(**row)
            case _:
                outcome = ADMITTED if row["outcome"] == "granted" else REFUSED
                words = f"offered to {row['request']}: {_GRANTS.get(row['outcome'], row['outcome'])}"
        request = row["victim"] or row["blocker"] if kind == ITERATION else row["request"]
        return Stop(number, kind, request, row.get("submission", -1), words, outcome, facts)

    def _facts(self, number: int, turn: Decided | None) -> tuple[Fact, ...]:
        return self._words(self._hanging.get(number, []), turn)

    def _words(self, hanging: list[tuple[str, Decided]], turn: Decided | None) -> tuple[Fact, ...]:
        found: list[Fact] = []
        for name, run in groupby(hanging, key=lambda pair: pair[0]):
            rows = [row for _, row in run]
            if name == "evictions":
                found += evictions(rows, self._groups)
            elif name == "victims":
                found += [victim(row, turn) for row in rows if turn is not None]
            else:
                found += [FACTS[name](row, self._groups) for row in rows]
        return tuple(found)
