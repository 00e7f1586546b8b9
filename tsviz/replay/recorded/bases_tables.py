"""Compact bases: what lets any round of a large trace be told from a few small pieces (architecture.md, section 5).

Rounds that repeat the one before are stored once, and what happens to a request as spans of rounds; both take as much
room as there is change, and never more rows than the recorded tables have. They follow from recorded tables alone.
"""

from __future__ import annotations

from tsviz.trace.columns import Table, flag, i32, i64, ints, string, word

BLOCK_ROUNDS = 256
"""`held` starts anew at every round that is a multiple of this."""
GROUP_ROWS = 1 << 13
"""Rows of a row group: what a look-up decodes."""
REQUEST_GROUP_ROWS = 1 << 12
"""The same of `request_tables`: a long request has some thousand changes."""

_SUBMISSION = i32("submission", "number of the request in order of submission, from 0; -1 if it was never submitted")
_FIRST, _LAST = i32("first_round", "first round of the span"), i32("last_round", "last round of the span")
_KIND = word("kind", "prefill, decode, remote_prefill or remote_decode")
_BEGIN = i32("begin_tokens", "extend_prefix_len of a prefill row; null for a decode row", nullable=True)

BATCHES = Table(
    "batches",
    "the rows of a plan that is not the same as the one before, in batch order",
    (
        i32("round", "first round of the batch; it holds until the next one in `batch_starts`"),
        _SUBMISSION,
        _KIND,
        i32("slot", "request-pool slot, from 1"),
        _BEGIN,
        i32("input_tokens", "forward rows"),
        i32("replay_tokens", "re-fed rows among them"),
        i32("prefill_tokens", "the request's prefill size"),
    ),
)
LANDINGS = Table(
    "landings",
    "the events before a plan, where they are not the same as those before the one before",
    (
        i32("round", "first round of the events; they repeat until the next one in `landing_starts`"),
        word("kind", "kind of event"),
        _SUBMISSION,
        string("request", "request id; null where `submission` names it, or nothing does", nullable=True),
        i64("op_id", "operation that is acknowledged", nullable=True),
        i32("value", "as in `events`", nullable=True),
        flag("applied", "as in `events`"),
        i32("token_count", "tokens of a result"),
        i32("delay_rounds", "rounds since the row that this answers", nullable=True),
    ),
)


def _starts(name: str, of: str) -> Table:
    columns = (i32("round", f"first round of a piece of `{of}`"), i64("row", "number of its first row"))
    return Table(name, f"where each piece of `{of}` begins; one without rows holds empty rounds", columns)


BATCH_STARTS = _starts("batch_starts", "batches")
LANDING_STARTS = _starts("landing_starts", "landings")

ROW_SPANS = Table(
    "row_spans",
    "rounds in a row in which a request has the same row",
    (
        _SUBMISSION, _FIRST, _LAST, _KIND, _BEGIN, i32("input_tokens", "forward rows"),
        i32("prefill_tokens", "the request's prefill size"),
    ),
    key="submission",
)  # fmt: skip
RESULT_SPANS = Table(
    "result_spans",
    "rounds in a row before which as many tokens of a request landed",
    (_SUBMISSION, _FIRST, _LAST, i32("token_count", "tokens a round")),
    key="submission",
)
FATES = Table(
    "fates",
    "events that took effect and change more than a length",
    (_SUBMISSION, i32("round", "round of the plan behind the event"), word("kind", "kind of event")),
)
ACKNOWLEDGED = Table(
    "acknowledged",
    "when a store or load was acknowledged",
    (i64("op_id", "operation"), i32("round", "round of the plan behind the event")),
    key="op_id",
)
TABLE_STARTS = Table(
    "table_starts",
    "where tables of a request start anew",
    (_SUBMISSION, i32("round", "round of the plan")),
    key="submission",
)
ABSENCES = Table(
    "absences",
    "where a request was retracted, as far as the recording tells",
    (
        _SUBMISSION,
        i32("since_round", "the round that retracted it"),
        i32("back_round", "the round in which it came back or ended; null for never", nullable=True),
    ),
    key="submission",
)
HELD = Table(
    "held",
    "pages in block tables, where they change and for all tables at the start of a block of rounds",
    (
        i32("round", "the change, or the start of the block"),
        i64("table_index", "submission x groups + position of the group in the config"),
        i32("held_pages", "pages in the table behind the plan"),
    ),
)
REQUEST_TABLES = Table(
    "request_tables",
    "the rows of `table_changes`, request by request",
    (
        _SUBMISSION,
        i32("round", "round of the plan"),
        word("group", "cache group"),
        flag("fresh", "the table starts anew"),
        i32("first_slot", "first slot of the run"),
        ints("pages", "page ids of the run; 0 is a hole"),
        i32("length_slots", "length of the table behind the plan"),
    ),
    key="submission",
)
REPLAYED = Table("replayed", "rounds with re-fed rows", (i32("round", "round of the plan"),))
