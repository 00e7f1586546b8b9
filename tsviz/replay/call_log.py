"""The calls of a part as values, in order, ready to be made again (architecture.md, section 2)."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tsviz.trace import entries as e
from tsviz.trace.chains import next_digest
from tsviz.trace.errors import Damaged
from tsviz.trace.reader import Part
from tsviz.trace.tokens import FULL

from .invented import InventedTokens

_CHUNK_ROWS = 1 << 16


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
    submissions: tuple[int, ...] = ()
    keys: tuple[tuple[int, str, int], ...] = ()


class _Cursor:
    """Walks a table whose rows belong to calls, in order of `call_seq`."""

    def __init__(self, table: pa.Table, names: Sequence[str]) -> None:
        self._rows = self._iterate(table.select(["call_seq", *names]))
        self._next: tuple[Any, ...] | None = next(self._rows, None)

    @staticmethod
    def _iterate(table: pa.Table) -> Iterator[tuple[Any, ...]]:
        for batch in table.to_batches(max_chunksize=_CHUNK_ROWS):
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)

    def take(self, seq: int) -> list[tuple[Any, ...]]:
        """Return the rows of a call, without their `call_seq`."""
        taken = []
        while self._next is not None and self._next[0] == seq:
            taken.append(self._next[1:])
            self._next = next(self._rows, None)
        return taken


class CallLog:
    """Iterates the calls of a part. With identity tokens, prompts and results are invented so that sharing is kept."""

    def __init__(self, part: Part) -> None:
        """Raises `TraceError` when a table cannot be read."""
        self._part = part
        self._full = part.token_mode == FULL
        self._invented = InventedTokens(part.prefix_tokens)
        self._held: dict[int, int] = {}
        self._pages: list[array[int]] = []
        if self._full:
            self._pages = self._dictionary()
        else:
            grown = part.table("grown_pages")
            columns = (grown[name].to_pylist() for name in ("submission", "index", "page"))
            for submission, index, page in zip(*columns, strict=True):
                self._invented.learn_page(submission, index, page)

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
        part = self._part
        events = _Cursor(
            part.table("events"),
            (
                "kind",
                "request",
                "submission",
                "op_id",
                "value",
                "token_count",
                "tokens",
                "candidate_count",
                "candidates",
            ),
        )
        specs = _Cursor(
            part.table("submissions"),
            ("request", "submission", "prompt_tokens", "max_new_tokens", "pages", "tail", "accepted"),
        )
        keys = _Cursor(part.table("storage_keys"), ("group_index", "content_hash", "chain", "page_offset"))
        table = part.table("calls")
        names = ("seq", "round", "kind", "outcome", "result", "items")
        for batch in table.select(names).to_batches(max_chunksize=_CHUNK_ROWS):
            for seq, round_, kind, outcome, result, items in zip(*(c.to_pylist() for c in batch.columns), strict=True):
                if kind == e.ADVANCE:
                    taken = events.take(seq)
                    yield Call(
                        seq, round_, kind, outcome, result, items,
                        events=tuple(self._event(row) for row in taken), submissions=tuple(row[2] for row in taken),
                    )  # fmt: skip
                elif kind == e.SUBMIT:
                    rows = specs.take(seq)
                    first = rows[0][1] if rows else -1
                    made = tuple(self._spec(row) for row in rows)
                    yield Call(seq, round_, kind, outcome, result, items, specs=made, first_submission=first)
                elif kind in (e.REGISTER_KEYS, e.UNREGISTER_KEYS):
                    found = tuple((row[0], self._hash(row[1], row[2]), row[3]) for row in keys.take(seq))
                    yield Call(seq, round_, kind, outcome, result, items, keys=found)
                else:
                    yield Call(seq, round_, kind, outcome, result, items)

    def resynchronise(self, submission: int, held_tokens: int) -> None:
        """Say how many tokens a request holds after a call that stopped half-way."""
        if submission in self._held:
            self._held[submission] = held_tokens

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
            self._invented.learn_prompt(submission, pages)
            tokens = self._invented.tokens(submission, 0, prompt_tokens)
            if accepted:
                self._held[submission] = prompt_tokens
        if len(tokens) != prompt_tokens:
            place = f"submissions, submission {submission}"
            raise Damaged(self._part.directory, place, f"{prompt_tokens} prompt tokens", str(len(tokens)))
        return e.Spec(request, tokens, max_new)

    def _event(self, row: tuple[Any, ...]) -> e.Event:
        kind, request, submission, op_id, value, token_count, tokens, candidate_count, candidates = row
        if not self._full:
            candidates = [0] * candidate_count
            if kind == e.EXTEND_RESULT:
                tokens = self._land(submission, token_count)
            elif kind == e.REMOTE_PREFILL_DONE and value >= 0:
                value = self._land(submission, 1)[0]
            elif kind in (e.FINISH, e.ABORT):
                self._held.pop(submission, None)
        return e.Event(kind, request, tokens or (), candidates or (), op_id, value)

    def _land(self, submission: int, count: int) -> array[int]:
        start = self._held.get(submission, 0)
        if submission in self._held:
            self._held[submission] = start + count
        return self._invented.tokens(submission, start, count)

    def _hash(self, content_hash: str | None, chain: list[int] | None) -> str:
        if content_hash is not None:
            return content_hash
        if chain is None:
            return "00" * 32
        return prefix_hash(self._invented.chain(chain), self._part.prefix_tokens)


def prefix_hash(tokens: Sequence[int], page_tokens: int) -> str:
    """Return the content hash of a prefix of whole pages (scheduler-rules.md, section 10.4)."""
    digest = b""
    for start in range(0, len(tokens), page_tokens):
        digest = next_digest(digest, array("i", tokens[start : start + page_tokens]).tobytes())
    return digest.hex()
