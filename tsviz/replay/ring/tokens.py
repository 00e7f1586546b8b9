"""What a keyframe of invented tokens could not know when it was made, since it came to light behind it.

With identity tokens it is known which page a request fills once it has filled it, and what a storage key stands for
once a request has its prefix. A state that was made before that holds a page begun with tokens of no page, and a key
of no prefix; both are told here, so that the rounds behind are made as they were (`invented.py` and `call_log.py` of
`reexecution`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa

from tsviz.replay.keyframes.book import Keyframe
from tsviz.replay.reexecution.call_log import prefix_hash, unknown_hash
from tsviz.replay.reexecution.invented import Grown, InventedTokens
from tsviz.scheduler.snapshot import RequestState


def with_known_tokens(keyframe: Keyframe, tables: Mapping[str, pa.Table], page_tokens: int) -> Keyframe:
    """Return a keyframe of identity tokens as the tables of its trace, which go on behind it, tell it."""
    tokens = _invented(tables, page_tokens)
    numbers = keyframe.book.submissions
    requests = tuple(
        [_request(request, numbers[request.request_id][0], tokens) for request in keyframe.snapshot.requests]
    )
    shadow = keyframe.snapshot.shadow
    if shadow is not None:
        known = _keys(tables["key_prefixes"], tokens, page_tokens)
        shadow = tuple([(group, known.get(key, key), offset) for group, key, offset in shadow])
    return replace(keyframe, snapshot=replace(keyframe.snapshot, requests=requests, shadow=shadow))


def _invented(tables: Mapping[str, pa.Table], page_tokens: int) -> InventedTokens:
    tokens = InventedTokens(page_tokens, Grown(tables["grown_pages"]))
    submissions = tables["submissions"]
    for submission, pages in zip(submissions["submission"].to_pylist(), submissions["pages"].to_pylist(), strict=True):
        tokens.learn_prompt(submission, pages)
    return tokens


def _request(request: RequestState, submission: int, tokens: InventedTokens) -> RequestState:
    known = tokens.tokens(submission, 0, request.token_count)
    return request if known == request.tokens[: request.token_count] else request._replace(tokens=known)


def _keys(prefixes: pa.Table, tokens: InventedTokens, page_tokens: int) -> dict[bytes, bytes]:
    return {
        bytes.fromhex(unknown_hash(key)): bytes.fromhex(prefix_hash(tokens.chain(pages), page_tokens))
        for key, pages in zip(prefixes["key"].to_pylist(), prefixes["pages"].to_pylist(), strict=True)
    }
