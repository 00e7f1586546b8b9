"""A finding of what a real device said of itself."""

from __future__ import annotations

import pyarrow.compute as pc

from tsviz.replay.rows.lifetimes import column, words
from tsviz.replay.rows.rows_from import pieces
from tsviz.replay.scenario.predicates import Absent

from .model import Ended, Subject, found, listed


def broken_logits(subject: Subject, rows: int) -> Ended:
    """Judge: more than `rows` rows of forwards had a logit that is no number.

    They read what nobody had written, or not yet, or the model's own numbers overflow: docs/failures.md says which
    query tells more. A simulated device has no such rows.
    """
    broken: list[tuple[int, str]] = []
    for batch in pieces(subject.part, "forward_rows", ("round", "request", "broken")):
        spoilt = batch.filter(pc.fill_null(batch["broken"], False))
        broken += zip(column(spoilt, "round").tolist(), (name or "" for name in words(spoilt, "request")), strict=True)
    if len(broken) <= rows:
        return Absent("broken_logits", len(broken), rows)
    who = list(dict.fromkeys(name for _, name in broken))
    first, last = broken[0][0], broken[-1][0]
    return found(
        "broken_logits",
        f"logits are no numbers: {len(broken):,} rows of {listed(who)}, the first in round {first:,}",
        (first, last), who, rows=len(broken), requests=len(who),
    )  # fmt: skip
