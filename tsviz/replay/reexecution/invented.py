"""Tokens for a re-execution of a trace that holds none: equal pages get equal tokens, different ones different tokens.

With identity tokens a trace knows which prefix pages are equal and nothing else. A token of page n is n, whatever its
offset, and a token that never came to fill a page is a number that no page has; so the scheduler sees exactly the
recorded sharing (architecture.md, section 5).
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

_LOOSE = 1 << 30
"""First token of those that belong to no recorded page; one number a submission."""


_NONE: array[int] = array("i")


class Grown:
    """The pages that requests filled while they generated: the table `grown_pages`, by submission."""

    def __init__(self, rows: pa.Table) -> None:
        """`rows`: columns `submission`, `index` and `page`, in order of filling."""
        submission = rows["submission"].to_numpy()
        order = np.argsort(submission, kind="stable")
        self._submission = submission[order]
        self._index, self._page = rows["index"].to_numpy()[order], rows["page"].to_numpy()[order]

    def of(self, submission: int) -> tuple[int, array[int]] | dict[int, int]:
        """Return the pages of a request: the index of the first and all in a row, or by index where some are missing.

        Of several of one index the last one counts.
        """
        wanted = np.array((submission, submission + 1), self._submission.dtype)  # another type would convert them all
        low, high = np.searchsorted(self._submission, wanted)
        index, page = self._index[low:high], self._page[low:high]
        if not len(index) or (np.diff(index) == 1).all():
            return (int(index[0]) if len(index) else 0), array("i", page.astype(np.int32).tobytes())
        return dict(zip(index.tolist(), page.tolist(), strict=True))


class InventedTokens:
    """Tokens of every request of one part by position. Built from `submissions.pages` and `grown_pages`."""

    def __init__(self, page_tokens: int, grown: Grown | None = None) -> None:
        """`page_tokens`: prefix granularity; `grown`: the pages that requests filled while they generated."""
        self._page_tokens = page_tokens
        self._grown = grown
        self._prompts: dict[int, array[int]] = {}
        self._filled: dict[int, tuple[int, array[int]] | dict[int, int]] = {}

    def learn_prompt(self, submission: int, pages: Sequence[int]) -> None:
        """Note the full pages of a prompt."""
        self._prompts[submission] = array("i", pages)

    def token(self, submission: int, position: int) -> int:
        """Return the token of a request at one position."""
        index = position // self._page_tokens
        prompt = self._prompts.get(submission, _NONE)
        if index < len(prompt):
            return prompt[index]
        filled = self._filled.get(submission)
        if filled is None:
            filled = self._filled[submission] = (0, _NONE) if self._grown is None else self._grown.of(submission)
        if isinstance(filled, dict):
            return filled.get(index, _LOOSE + submission)
        first, pages = filled
        return pages[index - first] if 0 <= index - first < len(pages) else _LOOSE + submission

    def tokens(self, submission: int, start: int, count: int) -> array[int]:
        """Return the tokens of a request at positions `start .. start + count - 1`."""
        size, found = self._page_tokens, array("i")
        position, end = start, start + count
        prompt = self._prompts.get(submission, _NONE)
        if position + size <= min(end, len(prompt) * size):  # many tokens of a prompt: page by page at once
            inside = min(end, len(prompt) * size)
            pages = np.frombuffer(prompt, np.int32)[position // size : -(-inside // size)]
            skipped = position % size
            found.frombytes(np.repeat(pages, size)[skipped : skipped + inside - position].tobytes())
            position = inside
        while position < end:
            until = min(end, (position // size + 1) * size)
            found.extend([self.token(submission, position)] * (until - position))
            position = until
        return found

    def chain(self, pages: Sequence[int]) -> list[int]:
        """Return the tokens of a prefix that is made of these pages."""
        return [page for page in pages for _ in range(self._page_tokens)]
