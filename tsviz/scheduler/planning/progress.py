"""What a request computed since its last admission, and its publication (`cache-rules.md` 7.1)."""

from __future__ import annotations

from tsviz.scheduler.cache.coordinator import Cache
from tsviz.scheduler.cache.index import CHUNK, ENDPOINT, PROMOTED
from tsviz.scheduler.cache.publication import Progress
from tsviz.scheduler.request import Request


def derive_progress(
    cache: Cache, request: Request, computed: int, stream: bool, retracts: bool = False
) -> tuple[Progress | None, int]:
    """Pages completed since the last admission, and the promotion boundary left after publishing them."""
    page_tokens, promotion = cache.page_tokens, request.promotion_tokens
    filled, known = computed // page_tokens, request.hashed_pages
    if filled <= known:
        return None, promotion
    chain = request.digests(filled)
    if cache.kv is not None:
        cache.kv.describe(chain, request.tokens, known, filled)
    kind = ENDPOINT if computed == request.prefill_size else CHUNK
    if 0 < promotion <= computed:
        if promotion == computed:
            kind = PROMOTED
        promotion = 0
    state_kind = kind
    if kind == CHUNK:
        last = computed if retracts else request.prefill_size
        aligned = last - last % page_tokens
        if aligned > 0 and aligned in request.state_boundaries:
            state_kind = ENDPOINT
    boundaries = tuple(request.state_boundaries)
    return Progress(known, filled, kind, state_kind, boundaries, stream), promotion


def commit_progress(cache: Cache, request: Request, progress: Progress | None, promotion: int) -> None:
    """An admission took the progress: the request remembers it."""
    if progress is None:
        return
    page_tokens, filled = cache.page_tokens, progress.end_page
    request.hashed_pages = filled
    request.promotion_tokens = promotion
    request.state_boundaries = [b for b in request.state_boundaries if b // page_tokens > filled]
