"""A keyframe as a value, and its book of plans as builtin values and arrays, and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tsviz.scheduler.config import Config
from tsviz.scheduler.snapshot import Snapshot
from tsviz.trace.rounds import BookState

from .checks import INT32, items, member, numbers, text, whole, wholes
from .collector import Collector
from .packed import Arrays, Malformed
from .shared import Shared


@dataclass(frozen=True, slots=True)
class Keyframe:
    """The state of a re-execution before the first call of a round: the twin, and what tells its plans apart."""

    round: int
    snapshot: Snapshot
    book: BookState

    def held(self) -> dict[int, int]:
        """Return how many tokens each live submission holds."""
        known = self.book.submissions
        return {known[r.request_id][0]: r.token_count for r in self.snapshot.requests if r.request_id in known}


def book_values(keyframe: Keyframe, arrays: Arrays, shared: Collector) -> dict[str, Any]:
    """Return the book as values and arrays.

    The last table seen of a request is nearly always a part of the one that it has, and is stored as that.
    """
    book = keyframe.book
    arrays["book_owner"] = np.array(book.owner, np.int64)
    groups = [group.group_id for group in keyframe.snapshot.config.cache_groups]
    numbered = {number: request for request, (number, _, _) in book.submissions.items()}
    requests = {request.request_id: request for request in keyframe.snapshot.requests}
    tables: dict[str, list[Any]] = {}
    literal: list[npt.NDArray[np.int32]] = []
    for group, rows in book.tables.items():
        written = tables[group] = []
        for slot, row in enumerate(rows):
            if not len(row):
                written.append(0)
                continue
            request = requests.get(numbered.get(int(book.owner[slot]), ""))
            own: Any = request.tables[groups.index(group)][0] if request is not None and request.tables else ()
            holes = int(np.argmax(row != 0)) if row.any() else len(row)
            if len(own) >= len(row) and np.array_equal(np.frombuffer(own, np.int32)[holes : len(row)], row[holes:]):
                written.append([shared.listed(own, len(row)), len(row), holes])
            else:
                written.append(len(row))
                literal.append(row)
    arrays["book_pages"] = np.concatenate([*literal, np.zeros(0, np.int32)])
    return {
        "submissions": [[request, *known] for request, known in book.submissions.items()],
        "shift": book.shift,
        "tables": tables,
    }


def read_book(values: Any, arrays: Arrays, shared: Shared, config: Config) -> BookState:
    """Return the book again, checked. Raises `Malformed`."""
    submissions = {}
    for row in items(member(values, "submissions"), "submissions"):
        request, *known = items(row, "submission", 4)
        number, original, computed = wholes(known, "submission")
        submissions[text(request, "submission")] = (whole(number, "submission", 0), original, computed)
    owner = numbers(arrays, "book_owner", -1, INT32)
    groups = {group.group_id for group in config.cache_groups}
    literal, at = numbers(arrays, "book_pages", 0).astype(np.int32), 0
    tables: dict[str, list[npt.NDArray[np.int32]]] = {}
    written = member(values, "tables")
    if type(written) is not dict or not groups.issuperset(written):
        raise Malformed("book", f"groups of {sorted(groups)}"[:80], repr(written)[:40])
    for group, rows in written.items():
        tables[group] = found = []
        if len(items(rows, "book")) > 4 * config.max_batch_size + 1024:
            raise Malformed("book", f"rows of {config.max_batch_size} slots", str(len(rows)))
        for row in rows:
            if type(row) is list:
                number, length, holes = wholes(row, "book table", 0, count=3)
                pages = np.array(shared.listed(number, length)[:length], np.int32)
                pages[:holes] = 0
                if len(pages) and int(pages.min()) < 0:
                    raise Malformed("book table", "pages", str(int(pages.min())))
            else:
                end = at + whole(row, "book table", 0)
                if end > len(literal):
                    raise Malformed("book", f"{end} pages", str(len(literal)))
                pages, at = literal[at:end], end
            found.append(pages)
    return BookState(submissions, whole(member(values, "shift"), "shift", 0), owner, tables)
