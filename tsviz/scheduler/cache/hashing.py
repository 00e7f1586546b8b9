"""Content hashes of prefix pages, and the external hashes of KV events (`cache-rules.md` 3 and 10)."""

from __future__ import annotations

from array import array
from hashlib import sha256

Digest = bytes
"""SHA-256 of a prefix page and everything before it: 32 bytes."""

_ROOT = (0).to_bytes(4, "little")
_CHAINED = (32).to_bytes(4, "little")


def extend_chain(chain: list[Digest], tokens: array[int], page_tokens: int, pages: int) -> None:
    """Append to `chain` the digests of the pages up to `pages`; each page is hashed once."""
    count = page_tokens.to_bytes(4, "little")
    known, step = len(chain), 4 * page_tokens
    if known >= pages:
        return
    data = tokens[known * page_tokens : pages * page_tokens].tobytes()
    begin = 0
    if not known:
        chain.append(sha256(_ROOT + count + data[:step]).digest())
        begin = step
    prior = chain[-1]
    for start in range(begin, len(data), step):
        prior = sha256(_CHAINED + prior + count + data[start : start + step]).digest()
        chain.append(prior)


_OFFSET = 14695981039346656037
_PRIME = 1099511628211
_MASK = (1 << 64) - 1


def external_hash(parent: int | None, tokens: array[int]) -> int:
    """FNV-1a 64 of a page: the hash that KV events carry."""
    head = b"\x00" if parent is None else b"\x01" + parent.to_bytes(8, "little")
    value = _OFFSET
    for byte in head + len(tokens).to_bytes(8, "little") + tokens.tobytes():
        value = ((value ^ byte) * _PRIME) & _MASK
    return value
