"""Which trace it is, whatever its path and however long it has grown: notes and watches hang on it."""

from __future__ import annotations

import hashlib
import json

from tsviz.trace.reader import Bundle, Part


def identity(bundle: Bundle, part: Part) -> str:
    """Return a digest of what a bundle and one of its parts say of themselves: constant while it is recorded."""
    hasher = hashlib.blake2b(digest_size=16)
    for said in (bundle.description, part.meta):
        hasher.update(json.dumps(said, sort_keys=True).encode("utf-8", "surrogatepass"))
        hasher.update(b"\0")
    return hasher.hexdigest()
