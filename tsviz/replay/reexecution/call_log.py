"""The calls of a part as values, in order, ready to be made again (architecture.md, section 2)."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pyarrow as pa

from tsviz.replay.rows.event_rows import EVENT_COLUMNS, EventRows, Landed
from tsviz.replay.rows.rows_from import RowsFrom, some
from tsviz.trace import entries as e
from tsviz.trace.chains import next_digest
from tsviz.trace.errors import Damaged
from tsviz.trace.reader import Part
from tsviz.trace.tokens import FULL

from .invented import Grown, InventedTokens

_CHUNK_ROWS = 1 << 16
_TOKENS_LIMIT = 1 << 26
_PLAIN = frozenset((e.PLAN, e.CLEAR, e.CLEAR_L1, e.DRAIN))


@dataclass(frozen=True, slots=True)
class Call:
    """One recorded call. Only the fields of its kind are filled; `round` is that of the plan which it precedes."""

    seq: int
    round: int
    kind: str
    outcome: str
    result: bool | None
    items: int
    specs: tuple[e.Spec, ...] = ()
    first_submission: int = -1
    events: tuple[e.Event, ...] = ()
    applied: tuple[bool, ...] = ()
    submissions: tuple[int, ...] = ()
    keys: tuple[tuple[int, str, int], ...] = ()
    landed: Landed | None = None
    """Instead of `events`, where those are results that all landed and columns were asked for."""


class _Cursor:
    """Walks a table whose rows belong to calls, in order of `call_seq`, its first column."""

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._rows = self._iterate(batches)
        self._next: tuple[Any, ...] | None = next(self._rows, None)

    @staticmethod
    def _iterate(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[Any, ...]]:
        for batch in batches:
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)

    def take(self, seq: int) -> list[tuple[Any, ...]]:
        """Return the rows of a call, without their `call_seq`."""
        taken = []
        while self._next is not None and self._next[0] == seq:
            taken.append(self._next[1:])
            self._next = next(self._rows, None)
        return taken


_NOTHING = (0, (0,))
_CALLS = ("seq", "round", "kind", "outcome", "result", "items")
_SPECS = ("call_seq", "request", "submission", "prompt_tokens", "max_new_tokens", "pages", "tail", "accepted")
_KEYS = ("call_seq", "group_index", "key", "content_hash", "page_offset")


class CallLog:
    """Iterates the calls of a part. With identity tokens, prompts and results are invented so that sharing is kept."""

    def __init__(self, part: Part, *, columns: bool = False) -> None:
        """`columns`: results that all landed may come as `Call.landed`. Raises `TraceError` for an unreadable table."""
        self._part = part
        self._columns = columns
        self._full = part.token_mode == FULL
        self._held: dict[int, int] = {}
        self._filling: dict[int, tuple[int, tuple[int]]] = {}
        self._first_round: int | None = None
        self._calls = RowsFrom(part, "calls", _CALLS, key="round")
        self._events = RowsFrom(part, "events", ("call_seq", *EVENT_COLUMNS), key="call_seq")
        self._specs = RowsFrom(part, "submissions", _SPECS, key="call_seq")
        self._keys = RowsFrom(part, "storage_keys", _KEYS, key="call_seq")
        self._pages: list[array[int]] = []
        self._prefixes: dict[int, list[int]] = {}
        grown = None
        if self._full:
            self._pages = self._dictionary()
        else:
            grown = Grown(some(part, "grown_pages", ("submission", "index", "page")))
            prefixes = part.table("key_prefixes")
            self._prefixes = dict(zip(prefixes["key"].to_pylist(), prefixes["pages"].to_pylist(), strict=True))
        self._invented = InventedTokens(part.prefix_tokens, grown)

    def since(self, round_: int, held: Mapping[int, int]) -> CallLog:
        """Return the log from the first call of a round on; `held`: by live submission, its tokens before that."""
        log = copy(self)
        log._first_round, log._held, log._filling = round_, dict(held), {}
        return log

    def _dictionary(self) -> list[array[int]]:
        table = self._part.table("prefix_pages")
        pages: list[array[int]] = []
        for batch in table.to_batches(max_chunksize=_CHUNK_ROWS):
            for number, tokens in zip(batch["page"].to_pylist(), batch["tokens"].to_pylist(), strict=True):
                if number != len(pages) or len(tokens) != self._part.prefix_tokens:
                    raise Damaged(
                        self._part.directory, f"prefix_pages row {len(pages)}",
                        f"page {len(pages)} of {self._part.prefix_tokens} tokens", f"page {number} of {len(tokens)}",
                    )  # fmt: skip
                pages.append(array("i", tokens))
        return pages

    def __iter__(self) -> Iterator[Call]:
        """Yield the calls. Raises `TraceError`."""
        part = self._part
        calls = self._calls.since(self._first_round)
        first = next(calls, None)
        if first is None:
            return
        seq = None if self._first_round is None else int(first["seq"][0].as_py())
        events = EventRows(self._events.since(seq), full=self._full, limit=_TOKENS_LIMIT)
        specs, keys = _Cursor(self._specs.since(seq)), _Cursor(self._keys.since(seq))
        for batch in chain((first,), calls):
            for seq, round_, kind, outcome, result, items in zip(*(c.to_pylist() for c in batch.columns), strict=True):
                if kind == e.ADVANCE:
                    pieces = list(events.pieces(seq))
                    if self._columns and len(pieces) == 1 and isinstance(pieces[0], Landed):
                        landed = self._land(pieces[0])
                        yield Call(seq, round_, kind, outcome, result, items, landed=landed)
                        continue
                    taken = [row for piece in pieces for row in _rows(piece)]
                    yield Call(
                        seq, round_, kind, outcome, result, items,
                        events=tuple(map(self._event, taken)), applied=tuple([row[5] for row in taken]),
                        submissions=tuple([row[2] for row in taken]),
                    )  # fmt: skip
                elif kind == e.SUBMIT:
                    rows = specs.take(seq)
                    first = rows[0][1] if rows else -1
                    made = tuple(self._spec(row) for row in rows)
                    yield Call(seq, round_, kind, outcome, result, items, specs=made, first_submission=first)
                elif kind in (e.REGISTER_KEYS, e.UNREGISTER_KEYS):
                    found = tuple((row[0], self._hash(row[1], row[2]), row[3]) for row in keys.take(seq))
                    yield Call(seq, round_, kind, outcome, result, items, keys=found)
                elif kind in _PLAIN:
                    yield Call(seq, round_, kind, outcome, result, items)
                else:
                    raise Damaged(part.directory, f"calls, seq {seq}", "a kind of call that this reader knows", kind)

    def _spec(self, row: tuple[Any, ...]) -> e.Spec:
        request, submission, prompt_tokens, max_new, pages, tail, accepted = row
        if self._full:
            tokens: array[int] = array("i")
            for page in pages:
                if not 0 <= page < len(self._pages):
                    place = f"submissions, submission {submission}"
                    raise Damaged(self._part.directory, place, f"a page below {len(self._pages)}", str(page))
                tokens.extend(self._pages[page])
            tokens.extend(tail or ())
        else:
            if len(pages) != prompt_tokens // self._part.prefix_tokens or prompt_tokens > _TOKENS_LIMIT:
                place = f"submissions, submission {submission}"
                found = f"{len(pages)} pages for {prompt_tokens} tokens"
                raise Damaged(self._part.directory, place, "every full page of the prompt", found)
            self._invented.learn_prompt(submission, pages)
            tokens = self._invented.tokens(submission, 0, prompt_tokens)
            if accepted:
                self._held[submission] = prompt_tokens
        if len(tokens) != prompt_tokens:
            place = f"submissions, submission {submission}"
            raise Damaged(self._part.directory, place, f"{prompt_tokens} prompt tokens", str(len(tokens)))
        return e.Spec(request, tokens, max_new)

    def _event(self, row: tuple[Any, ...]) -> e.Event:
        kind, request, submission, op_id, value, applied, token_count, tokens, candidate_count, candidates = row
        if not self._full:
            if not 0 <= token_count <= _TOKENS_LIMIT or not 0 <= candidate_count <= _TOKENS_LIMIT:
                found = f"{token_count} tokens, {candidate_count} candidates"
                raise Damaged(self._part.directory, "events", f"at most {_TOKENS_LIMIT} of either", found)
            candidates = [0] * candidate_count
            invented = self._invent(submission, token_count, lands=applied)
            if kind == e.EXTEND_RESULT:
                tokens = invented
            elif kind == e.REMOTE_PREFILL_DONE and token_count:
                value = invented[0]
        return e.Event(kind, request, tokens or (), candidates or (), op_id, value)

    def _land(self, landed: Landed) -> Landed:
        """Return results with their tokens, invented where the trace holds none."""
        if landed.tokens is not None:
            return landed
        held, filling = self._held, self._filling
        tokens: list[Sequence[int]] = []
        for submission, count in zip(landed.submissions, landed.counts, strict=True):
            if count == 1 and submission in held:
                start = held[submission]
                held[submission] = start + 1
                end, token = filling.get(submission, _NOTHING)
                if start >= end:  # all tokens of a page are the same
                    end = (start // self._part.prefix_tokens + 1) * self._part.prefix_tokens
                    token = (self._invented.token(submission, start),)
                    filling[submission] = end, token
                tokens.append(token)
            else:
                tokens.append(self._invent(submission, count, lands=True))
        return landed._replace(tokens=tokens)

    def _invent(self, submission: int, count: int, *, lands: bool) -> array[int]:
        """Return the next tokens of a request; `lands`: whether it took them."""
        start = self._held.get(submission, 0)
        if lands and submission in self._held:
            self._held[submission] = start + count
        return self._invented.tokens(submission, start, count)

    def _hash(self, key: int, content_hash: str | None) -> str:
        if content_hash is not None:
            return content_hash
        if key in self._prefixes:
            return prefix_hash(self._invented.chain(self._prefixes[key]), self._part.prefix_tokens)
        return unknown_hash(key)


def _rows(piece: Landed | list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return results that landed as rows of the table."""
    if not isinstance(piece, Landed):
        return piece
    tokens: Sequence[Sequence[int] | None] = piece.tokens or [None] * len(piece.requests)
    return [
        (e.EXTEND_RESULT, request, submission, None, None, True, count, landed, 0, ())
        for request, submission, count, landed in zip(
            piece.requests, piece.submissions, piece.counts, tokens, strict=True
        )
    ]


def unknown_hash(key: int) -> str:
    """Return what stands for the hash of a storage key while no request of the trace has had its prefix."""
    return hashlib.sha256(f"a key without a request, {key}".encode()).hexdigest()


def prefix_hash(tokens: Sequence[int], page_tokens: int) -> str:
    """Return the content hash of a prefix of whole pages (scheduler-rules.md, section 10.4)."""
    digest = b""
    for start in range(0, len(tokens), page_tokens):
        digest = next_digest(digest, array("i", tokens[start : start + page_tokens]).tobytes())
    return digest.hex()
