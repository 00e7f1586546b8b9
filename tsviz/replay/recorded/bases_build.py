"""Building compact bases: one pass over operations and events, a group of rows at a time, and what follows from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tsviz.replay.rows.lifetimes import NEVER, Longs, column, keys
from tsviz.trace.cold import ColdTables
from tsviz.trace.columns import TEXT, Column, Table
from tsviz.trace.compact import write_tables
from tsviz.trace.reader import Part
from tsviz.trace.tables import RECORDED

from . import bases_tables as t
from .block_tables import RecordedTables
from .distinct import Columns, Starts, distinct
from .growth import FATES, KINDS, RESULT
from .held import HeldPages, held_pages
from .lives import Lives, requests_of
from .retractions import absences, shared_with
from .spans import merged
from .word_numbers import WordNumbers

_UNKNOWN = np.iinfo(np.int32).min
Progress = Callable[[int, int], None]


def build_bases(part: Part, store: ColdTables, directory: Path, progress: Progress | None = None) -> None:
    """Write the compact bases of a part with cold tables into `directory`. Raises `TraceError`, OSError.

    `progress(done, of)` counts rows of the recorded tables.
    """
    build = _Build(part, store, progress or (lambda _done, _of: None))
    write_tables(directory, build.tables(), part.last_round, -1)


class _Build:
    """The tables in the order in which each can be told from what came before."""

    def __init__(self, part: Part, store: ColdTables, progress: Progress) -> None:
        self._part, self._store, self._progress = part, store, progress
        self._of = sum(store.rows(RECORDED[name]) for name in ("operations", "events"))
        self._done = 0
        self._requests = requests_of(part)
        self._kinds, self._event_kinds, self._names = WordNumbers(KINDS), WordNumbers((RESULT,)), WordNumbers()
        self._rows: list[Columns] = []
        self._results: list[Columns] = []
        self._fates: list[Columns] = []
        self._acks: list[Columns] = []
        self._replayed: list[Longs] = []

    def tables(self) -> Iterator[tuple[Table, Iterator[pa.RecordBatch], int]]:
        """Yield the definition, the rows and the rows of a row group of every table."""
        batch_starts, landing_starts = Starts(), Starts()
        yield t.BATCHES, self._batches(batch_starts), t.GROUP_ROWS
        yield t.LANDINGS, self._landings(landing_starts), t.GROUP_ROWS
        yield self._plain(t.BATCH_STARTS, round=np.array(batch_starts.rounds), row=np.array(batch_starts.rows))
        yield self._plain(t.LANDING_STARTS, round=np.array(landing_starts.rounds), row=np.array(landing_starts.rows))
        spans, local = self._row_spans(batch_starts)
        yield self._plain(t.ROW_SPANS, **spans)
        results, counted = self._result_spans(landing_starts)
        yield self._plain(t.RESULT_SPANS, **results)
        fates = _stacked(self._fates, ("submission", "round", "kind"))
        yield self._plain(t.FATES, **fates)
        acks = _stacked(self._acks, ("op_id", "round"))
        yield self._plain(t.ACKNOWLEDGED, **_first_of_each(acks, "op_id"))
        replayed = np.unique(np.concatenate(self._replayed)) if self._replayed else np.zeros(0, np.int64)
        yield self._plain(t.REPLAYED, round=replayed)
        changes = self._changes()
        fresh = changes["fresh"].to_numpy(zero_copy_only=False)
        begun = np.unique(keys(column(changes, "submission")[fresh], column(changes, "round")[fresh]))
        starts = {"submission": begun >> 32, "round": begun & 0xFFFF_FFFF}
        yield self._plain(t.TABLE_STARTS, **starts)
        held = held_pages(changes, self._group_numbers(changes), len(self._part.config["cache_groups"]))
        kinds = list(self._event_kinds.numbers)
        fate_kinds = np.array([kinds[code] for code in fates["kind"].tolist()], dtype=object)
        life = Lives(self._requests, self._kinded(spans), results, fates | {"kind": fate_kinds}, starts)
        yield self._plain(t.ABSENCES, **self._absences(life, local, counted, held, changes))
        yield self._plain(t.HELD, **_in_blocks(held, life, self._part.last_round))
        order = np.argsort(column(changes, "submission"), kind="stable")
        yield t.REQUEST_TABLES, iter(changes.take(pa.array(order)).to_batches()), t.REQUEST_GROUP_ROWS

    def _chunks(self, name: str, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        for batch in self._store.batches(RECORDED[name], columns):
            yield batch
            self._done += batch.num_rows
            self._progress(self._done, self._of)

    def _batches(self, starts: Starts) -> Iterator[pa.RecordBatch]:
        names = tuple(c.name for c in t.BATCHES.columns)

        def chunks() -> Iterator[tuple[Longs, Columns]]:
            for batch in self._chunks("operations", names):
                columns = {
                    name: self._kinds.codes(batch[name]) if name == "kind" else column(batch, name).astype(np.int64)
                    for name in names
                }
                again = columns["replay_tokens"] > 0
                if again.any():
                    self._replayed.append(np.unique(columns["round"][again]))
                yield columns.pop("round"), columns

        for rounds, columns in distinct(chunks(), starts):
            kept = ("submission", "kind", "begin_tokens", "input_tokens", "prefill_tokens")
            self._rows.append({"round": rounds, **{name: columns[name] for name in kept}})
            yield self._batch(t.BATCHES, {"round": rounds, **columns})

    def _landings(self, starts: Starts) -> Iterator[pa.RecordBatch]:
        read = ("kind", "submission", "request", "op_id", "value", "applied", "token_count", "cause_round", "round")

        def chunks() -> Iterator[tuple[Longs, Columns]]:
            for batch in self._chunks("events", read):
                columns = {"kind": self._event_kinds.codes(batch["kind"])}
                for name in ("submission", "token_count", "round"):
                    columns[name] = column(batch, name).astype(np.int64)
                for name in ("op_id", "value", "cause_round"):
                    columns[name] = column(batch, name, _UNKNOWN).astype(np.int64)
                columns["applied"] = batch["applied"].to_numpy(zero_copy_only=False).astype(np.int64)
                stray = np.where(columns["submission"] < 0, self._names.codes(batch["request"]), -1)
                rounds, cause = columns.pop("round"), columns.pop("cause_round")
                columns["request"] = stray
                columns["delay_rounds"] = np.where(cause == _UNKNOWN, _UNKNOWN, rounds - cause)
                self._note(rounds, columns)
                yield rounds, columns

        for rounds, columns in distinct(chunks(), starts):
            kept = ("submission", "kind", "token_count", "applied")
            self._results.append({"round": rounds, **{name: columns[name] for name in kept}})
            columns["request"] = self._names.words(columns["request"]).cast(pa.string())
            yield self._batch(t.LANDINGS, {"round": rounds, **columns})

    def _note(self, rounds: Longs, columns: Columns) -> None:
        numbers = self._event_kinds.numbers
        fated = [numbers[kind] for kind in FATES if kind in numbers]
        chosen = np.isin(columns["kind"], fated) & (columns["applied"] == 1) & (columns["submission"] >= 0)
        if chosen.any():
            self._fates.append(
                {"submission": columns["submission"][chosen], "round": rounds[chosen], "kind": columns["kind"][chosen]}
            )
        answered = columns["op_id"] >= 0
        if answered.any():
            self._acks.append({"op_id": columns["op_id"][answered], "round": rounds[answered]})

    def _batch(self, table: Table, columns: Mapping[str, Any]) -> pa.RecordBatch:
        arrays = [_array(c, columns[c.name], self._vocabulary(table)) for c in table.columns]
        return pa.RecordBatch.from_arrays(arrays, schema=table.schema)

    def _vocabulary(self, table: Table) -> WordNumbers:
        return self._kinds if table in (t.BATCHES, t.ROW_SPANS) else self._event_kinds

    def _plain(self, table: Table, **columns: Any) -> tuple[Table, Iterator[pa.RecordBatch], int]:
        return table, iter([self._batch(table, columns)]), t.GROUP_ROWS

    def _kinded(self, spans: Columns) -> dict[str, Any]:
        return {**spans, "kind": np.array(list(self._kinds.numbers), dtype=object)[spans["kind"]]}

    def _row_spans(self, starts: Starts) -> tuple[Columns, Columns]:
        """Return the spans of rows, and of local ones (which a result answers) with how many a round has."""
        rows = _stacked(self._rows, ("round", "submission", "kind", "begin_tokens", "input_tokens", "prefill_tokens"))
        self._rows.clear()
        last = _until(rows["round"], starts)
        order = np.argsort(keys(rows["submission"], rows["round"]), kind="stable")
        rows, last = {name: values[order] for name, values in rows.items()}, last[order]
        where = keys(rows["submission"], rows["round"])
        final = np.concatenate([where[1:] != where[:-1], [True]]) if len(where) else np.zeros(0, np.bool_)
        told = {name: values[final] for name, values in rows.items()}
        fields = [told[name] for name in ("kind", "begin_tokens", "input_tokens", "prefill_tokens")]
        first_round, last_round, begins = merged(told["submission"], told["round"], last[final], fields)
        spans = {name: values[begins] for name, values in told.items() if name != "round"}
        spans |= {"first_round": first_round, "last_round": last_round}
        local = rows["kind"] <= 1
        return spans, _summed(
            rows["submission"][local], rows["round"][local], last[local], np.ones(int(local.sum()), int)
        )

    def _result_spans(self, starts: Starts) -> tuple[Columns, Columns]:
        """Return the spans in which tokens land, and those in which results come in with how many a round has."""
        rows = _stacked(self._results, ("round", "submission", "kind", "token_count", "applied"))
        self._results.clear()
        last = _until(rows["round"], starts)
        found = []
        told = np.where(rows["applied"] == 1, rows["token_count"], 0)
        for amount in (told, (rows["kind"] == 0).astype(np.int64)):
            some = (amount > 0) & (rows["submission"] >= 0)
            found.append(_summed(rows["submission"][some], rows["round"][some], last[some], amount[some]))
        tokens, results = found
        return tokens | {"token_count": tokens["amount"]}, results

    def _changes(self) -> pa.Table:
        names = tuple(c.name for c in t.REQUEST_TABLES.columns)
        batches = list(self._store.batches(RECORDED["table_changes"], names))
        found = pa.Table.from_batches(batches) if batches else RECORDED["table_changes"].schema.empty_table()
        return found.select(list(names)).unify_dictionaries().combine_chunks()

    def _group_numbers(self, changes: pa.Table) -> Longs:
        groups = WordNumbers(tuple(str(g["group_id"]) for g in self._part.config["cache_groups"]))
        codes = [groups.codes(chunk) for chunk in changes["group"].chunks]
        return np.concatenate(codes) if codes else np.zeros(0, np.int64)

    def _absences(
        self, life: Lives, local: Columns, results: Columns, held: HeldPages, changes: pa.Table
    ) -> dict[str, Any]:
        life.count_rounds(local, results)
        retracted: dict[int, int] = {}
        for batch in self._store.batches(RECORDED["rounds"], ("round", "retracted_requests")):
            counts = column(batch, "retracted_requests")
            some = np.flatnonzero(counts)
            retracted |= dict(zip(column(batch, "round")[some].tolist(), counts[some].tolist(), strict=True))
        saved: dict[int, set[tuple[int, int]]] = {}
        if retracted:
            for batch in self._store.batches(
                RECORDED["transfers"], ("round", "source_pinned", "group_index", "src_page")
            ):
                loose = batch.filter(pa.compute.equal(batch["source_pinned"], False))
                read = (loose[name].to_pylist() for name in ("round", "group_index", "src_page"))
                for round_, group, page in zip(*read, strict=True):
                    saved.setdefault(round_, set()).add((group, page))
        tables = RecordedTables(changes, self._part.config) if saved else None

        def held_at(submissions: Longs, round_: int) -> Longs:
            total: Longs = held.at(submissions, round_).sum(axis=1)
            return total

        def pages_at(submission: int, round_: int) -> frozenset[tuple[int, int]]:
            return frozenset() if tables is None else tables.held(submission, round_)

        shared = shared_with({round_: frozenset(pairs) for round_, pairs in saved.items()}, pages_at)
        found, _ = absences(life, retracted, held_at, shared)
        found.sort(key=lambda absence: (absence.submission, absence.since))
        return {
            "submission": np.array([a.submission for a in found], np.int64),
            "since_round": np.array([a.since for a in found], np.int64),
            "back_round": np.array([_UNKNOWN if a.back == NEVER else a.back for a in found], np.int64),
        }


def _array(column_: Column, values: Any, words: WordNumbers) -> pa.Array:
    if isinstance(values, pa.Array):
        return values
    if column_.type == TEXT:
        return words.words(values)
    if column_.type == pa.bool_():
        return pa.array(values == 1)
    if not column_.nullable:
        return pa.array(values, column_.type)
    missing = values == (-1 if column_.name == "begin_tokens" else _UNKNOWN)
    return pa.array(np.where(missing, 0, values), column_.type, mask=missing)


def _stacked(parts: list[Columns], names: tuple[str, ...]) -> Columns:
    return {name: np.concatenate([np.zeros(0, np.int64), *(part[name] for part in parts)]) for name in names}


def _first_of_each(columns: Columns, name: str) -> Columns:
    """Return, in order of `name`, the first row of each value of it."""
    _, first = np.unique(columns[name], return_index=True)
    return {each: values[first] for each, values in columns.items()}


def _until(rounds: Longs, starts: Starts) -> Longs:
    """Return the last round of the piece that begins at each of some rounds."""
    begins = np.array([*starts.rounds, 1 << 32], np.int64)
    return begins[np.searchsorted(begins, rounds, side="right")] - 1


def _summed(submission: Longs, first: Longs, last: Longs, amount: Longs) -> Columns:
    """Return spans with the amount of each of their rounds, several rows of one request in one round added up."""
    where = keys(submission, first)
    order = np.argsort(where, kind="stable")
    where, last, amount = where[order], last[order], amount[order]
    if len(where):
        begins = np.flatnonzero(np.concatenate([[True], where[1:] != where[:-1]]))
        where, last, amount = where[begins], last[begins], np.add.reduceat(amount, begins)
    owner, from_ = where >> 32, where & 0xFFFF_FFFF
    first_round, last_round, kept = merged(owner, from_, last, [amount])
    return {"submission": owner[kept], "first_round": first_round, "last_round": last_round, "amount": amount[kept]}


def _in_blocks(held: HeldPages, life: Lives, last_round: int) -> Columns:
    """Return the counts of held pages by round, all of them anew where a block of rounds begins."""
    rounds, tables, pages = [held.keys & 0xFFFF_FFFF], [held.keys >> 32], [held.pages]
    for base in range(t.BLOCK_ROUNDS, last_round + 1, t.BLOCK_ROUNDS):
        there = (life.live(base)[:, None] * held.groups + np.arange(held.groups)).ravel()
        count = held.of_tables(there, base - 1)
        some = count > 0
        rounds.append(np.full(int(some.sum()), base, np.int64))
        tables.append(there[some])
        pages.append(count[some])
    round_, table, count = (np.concatenate(parts) for parts in (rounds, tables, pages))
    is_change = np.concatenate([np.ones(len(held.keys), np.int64), np.zeros(len(round_) - len(held.keys), np.int64)])
    order = np.lexsort((table, is_change, round_))
    return {"round": round_[order], "table_index": table[order], "held_pages": count[order]}
