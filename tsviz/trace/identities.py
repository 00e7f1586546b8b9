"""Tokens in full made into identity ones: which prefix pages are equal, told as a recorder without tokens tells it.

The calls are gone through in order with the recorder's own books, so that a trace that was recorded in full and
redacted holds the rows of one that was recorded with `--tokens identity`.
"""

from __future__ import annotations

from array import array
from typing import Any

import pyarrow as pa

from . import entries as e
from .chains import ChainBook
from .errors import Damaged
from .reader import Part
from .tables import RECORDED
from .tokens import PageBook

_ENDS = frozenset((e.FINISH, e.ABORT, e.FAILED, e.SUCCEEDED))


class Identities:
    """The tables `submissions`, `grown_pages` and `key_prefixes` of a part by which pages are equal, not by tokens."""

    def __init__(self, part: Part) -> None:
        """Read a part that holds tokens in full. Raises `TraceError`."""
        self._part, self._size = part, part.prefix_tokens
        self._book = PageBook(self._size)
        self._chains = ChainBook(self._size) if part.config.get("enable_l3_storage") else None
        self._pages: list[Any] = []
        self._grown: list[dict[str, int]] = []
        self._prefixes: list[dict[str, Any]] = []
        self._keys: set[int] = set()

    def tables(self) -> dict[str, pa.Table]:
        """Return the tables. Raises `TraceError`."""
        part = self._part
        contents = part.table("prefix_pages")["tokens"].to_pylist()
        for _, name, row in _in_order(part):
            if name == "submissions":
                self._submit(row, contents)
            elif name == "events":
                self._event(row)
            elif self._chains is not None and row["key"] not in self._keys:
                self._keys.add(row["key"])
                self._chains.want(row["key"], row["content_hash"] or "")
            if self._chains is not None:
                self._prefixes += [
                    {"round": row["round"], "key": key, "pages": pages} for key, pages in self._chains.known()
                ]
        submissions = part.table("submissions")
        at = submissions.schema.get_field_index("pages")
        pages = pa.array(self._pages, submissions.schema.field(at).type)
        return {
            "submissions": submissions.set_column(at, submissions.schema.field(at), pages),
            "grown_pages": pa.Table.from_pylist(self._grown, RECORDED["grown_pages"].schema),
            "key_prefixes": pa.Table.from_pylist(self._prefixes, RECORDED["key_prefixes"].schema),
        }

    def _submit(self, row: dict[str, Any], contents: list[list[int]]) -> None:
        tokens: array[int] = array("i")
        for page in row["pages"]:
            if not 0 <= page < len(contents):
                place = f"submissions, submission {row['submission']}"
                raise Damaged(self._part.directory, place, f"a page below {len(contents)}", str(page))
            tokens.extend(contents[page])
        tokens.extend(row["tail"] or ())
        prompt = self._book.prompt(tokens)
        self._pages.append(prompt.pages.tolist())
        if row["accepted"]:
            self._book.follow(row["submission"], len(tokens), prompt.tail)
            if self._chains is not None:
                self._chains.prompt(row["submission"], tokens, prompt.pages)

    def _event(self, row: dict[str, Any]) -> None:
        submission, kind = row["submission"], row["kind"]
        if not row["applied"]:
            return
        if kind in _ENDS:
            self._book.forget(submission)
            if self._chains is not None:
                self._chains.forget(submission)
            return
        landed = row["tokens"] or () if kind == e.EXTEND_RESULT else ()
        if kind == e.REMOTE_PREFILL_DONE and row["token_count"]:
            landed = (row["value"],)
        for index, page in self._book.grow(submission, landed):
            self._grown.append({"round": row["round"], "submission": submission, "index": index, "page": page})
            if self._chains is not None:
                self._chains.grown(submission, page, self._book)


def _in_order(part: Part) -> list[tuple[int, str, dict[str, Any]]]:
    """Return the rows of submissions, events and registered keys in the order of their calls."""
    rows = []
    for name in ("submissions", "events", "storage_keys"):
        rows += [(row["call_seq"], name, row) for row in part.table(name).to_pylist()]
    rows.sort(key=lambda row: row[0])
    return rows
