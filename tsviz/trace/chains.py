"""Storage keys without content: which chain of pages a content hash stands for.

With identity tokens no hash of content may survive, yet a re-execution must register the same logical keys. The hash of
a prefix is SHA-256 over the previous digest and the page (scheduler-rules.md, section 10.4); this book remembers for
every prefix that a request of the trace could have, which pages it is made of.
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

    def prompt(self, submission: int, tokens: array[int], pages: array[int]) -> None:
        """Learn all prefixes of a prompt."""
        data, digest = tokens.tobytes(), b""
        for index, page in enumerate(pages):
            digest = self._extend(digest, data[index * self._step : (index + 1) * self._step], page)
        self._last[submission] = digest

    def grown(self, submission: int, page: int, book: PageBook) -> None:
        """Learn the prefix that a request reached by filling `page`."""
        self._last[submission] = self._extend(self._last[submission], book.content(page), page)

    def chain(self, content_hash: str) -> list[int] | None:
        """Return the pages of the prefix with this hash; None for a key that no request of the trace could have."""
        try:
            digest = bytes.fromhex(content_hash)
        except ValueError:
            return None
        pages: list[int] = []
        while digest:
            if digest not in self._parents:
                return None
            digest, page = self._parents[digest]
            pages.append(page)
        return pages[::-1]

    def _extend(self, digest: bytes, content: bytes, page: int) -> bytes:
        longer = next_digest(digest, content)
        self._parents.setdefault(longer, (digest, page))
        return longer
