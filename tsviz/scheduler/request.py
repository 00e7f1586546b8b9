"""A request: its tokens, its state, its cache record, and the arithmetic on them (`scheduler-rules.md` 3)."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from tsviz.scheduler.cache.hashing import Digest, extend_chain
from tsviz.scheduler.cache.tables import Table, TableView
from tsviz.scheduler.decisions import Refused, Verdict
from tsviz.scheduler.plan import Row
from tsviz.scheduler.planning.memory import Remembered
from tsviz.scheduler.states import DECODING, PREFILL_DONE, PREFILLING, STATE_NAMES


class Request:
    """One request from submission to its end. Tokens and their page digests only ever grow."""

    __slots__ = (
        "access_epoch",
        "chain",
        "debt_tokens",
        "decode_row",
        "exclusive_at",
        "exclusive_blocks",
        "hashed_pages",
        "in_flight",
        "max_new_tokens",
        "memo",
        "next_reserve_tokens",
        "order",
        "page_tokens",
        "prefill_size",
        "promotion_tokens",
        "quiet_until",
        "recoverable",
        "refusal",
        "replay_tokens",
        "request_id",
        "resumes_generation",
        "retraction_epoch",
        "retractions",
        "scheduled_round",
        "slack_tokens",
        "slot",
        "spec_candidates",
        "state",
        "state_boundaries",
        "submitted_tokens",
        "tables",
        "tokens",
        "verdict",
        "views",
        "window_end",
    )

    def __init__(
        self,
        request_id: str,
        tokens: Sequence[int],
        max_new_tokens: int,
        page_tokens: int,
        order: int,
        state: int,
    ) -> None:
        """A submitted request; `order` is its place in the FIFO."""
        self.request_id = request_id
        self.tokens: array[int] = array("i", tokens)
        self.page_tokens = page_tokens
        self.order = order
        self.state = state
        self.submitted_tokens = len(tokens)
        self.prefill_size = len(tokens)
        self.max_new_tokens = max_new_tokens
        self.retractions = 0
        self.spec_candidates: tuple[int, ...] = ()
        self.chain: list[Digest] = []
        self.scheduled_round = -1
        self.retraction_epoch = 0
        self.recoverable = False
        self.resumes_generation = False
        self.refusal: Refused | None = None
        self.memo: Remembered | None = None
        self.verdict: Verdict | None = None
        self.clear_bundle()

    def clear_bundle(self) -> None:
        """Forget everything a page-holding state owns."""
        self.tables: list[Table] = []
        self.views: tuple[TableView, ...] = ()
        self.slot = 0
        self.in_flight = 0
        self.window_end = 0
        self.replay_tokens = 0
        self.next_reserve_tokens = 0
        self.hashed_pages = 0
        self.access_epoch = 0
        self.promotion_tokens = 0
        self.state_boundaries: list[int] = []
        self.debt_tokens = 0
        self.slack_tokens = -1
        self.quiet_until = 0
        self.decode_row: Row | None = None
        self.exclusive_at = -1
        """`Pool.sharing` for which `exclusive_blocks` was counted; -1 when it was not."""
        self.exclusive_blocks = 0

    def digests(self, pages: int) -> list[Digest]:
        """The chain, extended to at least `pages` prefix pages."""
        if len(self.chain) < pages:
            extend_chain(self.chain, self.tokens, self.page_tokens, pages)
        return self.chain

    @property
    def candidate_pages(self) -> int:
        """Prefix pages that a first admission may look up."""
        return (self.prefill_size - 1) // self.page_tokens

    @property
    def generated_tokens(self) -> int:
        """Tokens beyond the submitted prompt."""
        return len(self.tokens) - self.submitted_tokens

    @property
    def computed_tokens(self) -> int:
        """Tokens whose rows are written, the scheduled window included. Raises RuntimeError elsewhere."""
        if self.state == DECODING:
            return len(self.tokens) - 1
        if self.state in (PREFILLING, PREFILL_DONE):
            return self.window_end
        raise RuntimeError(f"computed tokens undefined in state {STATE_NAMES[self.state]}")

    def headroom_tokens(self, safe_step_tokens: int) -> int:
        """Generation that an admission now must secure (seed 4)."""
        remaining = max(0, self.max_new_tokens - self.generated_tokens)
        return min(remaining, safe_step_tokens * (1 + self.retractions))

    def reserve_covers_generation(self, safe_step_tokens: int) -> bool:
        """Whether the last admission secured the whole generation: then it is never a victim (seed 4)."""
        if self.max_new_tokens <= 0:
            return False
        open_then = max(0, self.max_new_tokens - (self.prefill_size - self.submitted_tokens))
        return safe_step_tokens * (1 + self.retractions) >= open_then

    def settle(self) -> None:
        """Charge the tokens consumed in place to the tables."""
        debt = self.debt_tokens
        if debt:
            for table in self.tables:
                table.available -= debt
            self.debt_tokens = 0
        self.slack_tokens = -1

    def refresh_views(self) -> tuple[TableView, ...]:
        """The block tables as the next row shows them."""
        self.views = tuple([table.view() for table in self.tables])
        return self.views
