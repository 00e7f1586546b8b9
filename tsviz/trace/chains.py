"""Storage keys without content: which chain of pages a content hash stands for.

With identity tokens no hash of content may survive, yet a re-execution must register the same logical keys. The hash of
a prefix is SHA-256 over the previous digest and the page (scheduler-rules.md, section 10.4); this book remembers for
every prefix that a request of the trace had, which pages it is made of. A key may be registered long before a request
with its prefix comes: it is a number at first, and its chain is told once it is known.
"""

from __future__ import annotations

import hashlib
import struct
from array import array

from .tokens import PageBook


def next_digest(previous: bytes, page: bytes) -> bytes:
    """Return the digest of a prefix that ends with `page` (tokens as LE32 bytes) behind `previous` (empty at first)."""
    count = len(page) // 4
    return hashlib.sha256(struct.pack("<i", len(previous)) + previous + struct.pack("<i", count) + page).digest()


class ChainBook:
    """Chains of page numbers by content hash, for one part recorded with identity tokens."""

    def __init__(self, page_tokens: int) -> None:
        """`page_tokens`: prefix granularity."""
        self._step = page_tokens * 4
        self._last: dict[int, bytes] = {}
        self._parents: dict[bytes, tuple[bytes, int]] = {}
        self._wanted: dict[bytes, int] = {}
        self._known: list[tuple[int, list[int]]] = []

    def prompt(self, submission: int, tokens: array[int], pages: array[int]) -> None:
        """Learn all prefixes of a prompt."""
        data, digest = tokens.tobytes(), b""
        for index, page in enumerate(pages):
            digest = self._extend(digest, data[index * self._step : (index + 1) * self._step], page)
        self._last[submission] = digest

    def grown(self, submission: int, page: int, book: PageBook) -> None:
        """Learn the prefix that a request reached by filling `page`."""
        self._last[submission] = self._extend(self._last[submission], book.content(page), page)

    def forget(self, submission: int) -> None:
        """Stop following a request that ended; its prefixes stay known."""
        self._last.pop(submission, None)

    def want(self, key: int, content_hash: str) -> None:
        """Ask for the chain behind a hash that was not seen before; `known` tells it, now or later."""
        try:
            digest = bytes.fromhex(content_hash)
        except ValueError:
            return
        if digest.hex() != content_hash:
            return
        if digest in self._parents:
            self._known.append((key, self._chain(digest)))
        else:
            self._wanted[digest] = key

    def known(self) -> list[tuple[int, list[int]]]:
        """Return (key, pages) of the chains that became known since the last call."""
        known, self._known = self._known, []
        return known

    def _chain(self, digest: bytes) -> list[int]:
        pages: list[int] = []
        while digest:
            digest, page = self._parents[digest]
            pages.append(page)
        return pages[::-1]

    def _extend(self, digest: bytes, content: bytes, page: int) -> bytes:
        longer = next_digest(digest, content)
        if longer not in self._parents:
            self._parents[longer] = digest, page
            if self._wanted and (key := self._wanted.pop(longer, None)) is not None:
                self._known.append((key, self._chain(longer)))
        return longer
