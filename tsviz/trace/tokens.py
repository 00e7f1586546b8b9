"""Tokens by prefix page: which pages are equal, and, if wanted, what stands in them.

A prompt becomes a list of page numbers and a tail. Two modes (architecture.md, section 5): `full` also keeps the
tokens of every distinct page, of tails and of results; `identity` keeps only which pages are equal, including the pages
that fill up with generated tokens, so that a later prompt which repeats an answer still matches when the calls are
re-executed on invented tokens.
"""

from __future__ import annotations

from array import array
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


class PageBook:
    """The dictionary of distinct prefix pages of one part. Page numbers count from 0 in order of first sight."""

    __slots__ = ("_contents", "_full_pages", "_numbers", "_tails", "page_tokens")

    def __init__(self, page_tokens: int) -> None:
        """`page_tokens`: prefix granularity."""
        self.page_tokens = page_tokens
        self._numbers: dict[bytes, int] = {}
        self._contents: list[bytes] = []
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
            return number, False
        self._contents.append(content)
        number = self._numbers[content] = len(self._numbers)
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
        """Return the tokens of a page as LE32 bytes. Raises IndexError for a number that was never given."""
        return self._contents[number]

    def forget(self, submission: int) -> None:
        """Stop following a request that ended."""
        self._tails.pop(submission, None)
        self._full_pages.pop(submission, None)
