"""Tokens by prefix page: which pages are equal, and, if wanted, what stands in them.

A prompt becomes a list of page numbers and a tail. Two modes (architecture.md, section 5): `full` also keeps the
tokens of every distinct page, of tails and of results; `identity` keeps only which pages are equal, including the pages
that fill up with generated tokens, so that a later prompt which repeats an answer still matches when the calls are
re-executed on invented tokens.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

FULL = "full"
IDENTITY = "identity"
MODES = (FULL, IDENTITY)


@dataclass(frozen=True, slots=True)
class PagedPrompt:
    """A prompt by prefix page: page numbers, those that are new to the dictionary (number, tokens), and the tail."""

    pages: array[int]
    new: tuple[tuple[int, array[int]], ...]
    tail: array[int]


KNOWN_PAGES = 1 << 20
"""So many distinct prefix pages a recorder knows at least, with 16 tokens each about 250 MB."""
_KNOWN_FOR_A_CACHED = 4


def known_pages(cached_pages: int) -> int:
    """Return how many pages must be known where a scheduler may hold so many prefix pages in its caches."""
    return max(KNOWN_PAGES, _KNOWN_FOR_A_CACHED * cached_pages)


class PageBook:
    """The dictionary of distinct prefix pages of one part. Page numbers count from 0 in order of first sight.

    It holds the pages that were seen last, so that a recording without end does not fill the memory: one that comes
    again behind that is a new page. That is as it should be for a scheduler whose caches hold far fewer pages, and
    turn out what was used least lately: it has forgotten the page as well.
    """

    __slots__ = ("_contents", "_full_pages", "_most", "_next", "_numbers", "_tails", "page_tokens")

    def __init__(self, page_tokens: int, most_pages: int | None = None) -> None:
        """`page_tokens`: prefix granularity; `most_pages`: how many pages are known, all of them by default."""
        self.page_tokens = page_tokens
        self._most, self._next = most_pages, 0
        self._numbers: OrderedDict[bytes, int] = OrderedDict()
        self._contents: dict[int, bytes] = {}
        self._tails: dict[int, array[int]] = {}
        self._full_pages: dict[int, int] = {}

    def prompt(self, tokens: Sequence[int] | array[int]) -> PagedPrompt:
        """Cut a prompt into pages, adding those not seen before to the dictionary."""
        flat = tokens if isinstance(tokens, array) else array("i", tokens)
        size = self.page_tokens
        full = len(flat) // size
        data = flat.tobytes()
        step = size * flat.itemsize
        pages: array[int] = array("i")
        new: list[tuple[int, array[int]]] = []
        for start in range(0, full * step, step):
            key = data[start : start + step]
            number, is_new = self._number(key)
            if is_new:
                page: array[int] = array("i")
                page.frombytes(key)
                new.append((number, page))
            pages.append(number)
        return PagedPrompt(pages, tuple(new), flat[full * size :])

    def _number(self, content: bytes) -> tuple[int, bool]:
        number = self._numbers.get(content)
        if number is not None:
            if self._most is not None:
                self._numbers.move_to_end(content)
            return number, False
        number = self._numbers[content] = self._next
        self._contents[number] = content
        self._next += 1
        if self._most is not None and len(self._numbers) > self._most:
            _, gone = self._numbers.popitem(last=False)
            del self._contents[gone]
        return number, True

    def follow(self, submission: int, prompt_tokens: int, tail: array[int]) -> None:
        """Watch a request grow: remember the tokens behind its last full page."""
        self._tails[submission] = array("i", tail)
        self._full_pages[submission] = prompt_tokens // self.page_tokens

    def grow(self, submission: int, tokens: Sequence[int]) -> list[tuple[int, int]]:
        """Append landed tokens; return (index of the page in the request, page number) for pages that filled up."""
        tail = self._tails.get(submission)
        if tail is None:
            return []
        tail.extend(tokens)
        size = self.page_tokens
        filled: list[tuple[int, int]] = []
        while len(tail) >= size:
            number, _ = self._number(tail[:size].tobytes())
            filled.append((self._full_pages[submission], number))
            del tail[:size]
            self._full_pages[submission] += 1
        return filled

    def grow_all(
        self, submissions: Sequence[int], tokens: Sequence[Sequence[int]]
    ) -> list[tuple[int, list[tuple[int, int]]]]:
        """Do what `grow` does for several followed requests; return those with pages that filled up, with these."""
        tails, size = self._tails, self.page_tokens
        filled = []
        for submission, landed in zip(submissions, tokens, strict=True):
            tail = tails[submission]
            tail.extend(landed)
            if len(tail) >= size:
                filled.append((submission, self.grow(submission, ())))
        return filled

    def content(self, number: int) -> bytes:
        """Return the tokens of a page as LE32 bytes. Raises KeyError for one that is not known (any more)."""
        return self._contents[number]

    def forget(self, submission: int) -> None:
        """Stop following a request that ended."""
        self._tails.pop(submission, None)
        self._full_pages.pop(submission, None)
