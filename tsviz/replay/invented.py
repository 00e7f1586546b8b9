"""Tokens for a re-execution of a trace that holds none: equal pages get equal tokens, different ones different tokens.

With identity tokens a trace knows which prefix pages are equal and nothing else. A token of page n is n, whatever its
offset, and a token that never came to fill a page is a number that no page has; so the scheduler sees exactly the
recorded sharing (architecture.md, section 5).
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

_LOOSE = 1 << 30
"""First token of those that belong to no recorded page; one number a submission."""


class InventedTokens:
    """Tokens of every request of one part by position. Built from `submissions.pages` and `grown_pages`."""

    def __init__(self, page_tokens: int) -> None:
        """`page_tokens`: prefix granularity."""
        self._page_tokens = page_tokens
        self._pages: dict[int, dict[int, int]] = {}

    def learn_prompt(self, submission: int, pages: Sequence[int]) -> None:
        """Note the full pages of a prompt."""
        self._pages.setdefault(submission, {}).update(enumerate(pages))

    def learn_page(self, submission: int, index: int, page: int) -> None:
        """Note a page that a request filled while it generated."""
        self._pages.setdefault(submission, {})[index] = page

    def token(self, submission: int, position: int) -> int:
        """Return the token of a request at one position."""
        pages = self._pages.get(submission)
        loose = _LOOSE + submission
        return loose if pages is None else pages.get(position // self._page_tokens, loose)

    def tokens(self, submission: int, start: int, count: int) -> array[int]:
        """Return the tokens of a request at positions `start .. start + count - 1`."""
        pages, size = self._pages.get(submission, {}), self._page_tokens
        loose = _LOOSE + submission
        return array("i", [pages.get(position // size, loose) for position in range(start, start + count)])

    def chain(self, pages: Sequence[int]) -> list[int]:
        """Return the tokens of a prefix that is made of these pages."""
        return [page for page in pages for _ in range(self._page_tokens)]

    def forget(self, submission: int) -> None:
        """Drop what is known of a request that will get no more tokens."""
        self._pages.pop(submission, None)
