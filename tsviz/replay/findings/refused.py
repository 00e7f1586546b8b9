"""Requests that were refused when they were submitted: no round ever sees them."""

from __future__ import annotations

import pyarrow.compute as pc

from tsviz.replay.rows.lifetimes import column, words
from tsviz.replay.rows.rows_from import pieces
from tsviz.replay.scenario.predicates import Absent

from .model import Ended, Subject, found, listed


def refused_submissions(subject: Subject, requests: int) -> Ended:
    """Judge: more than `requests` requests were refused when they were submitted, the first with what it was told."""
    refused: list[tuple[int, int, str]] = []
    for rows in pieces(subject.part, "submissions", ("round", "call_seq", "request", "accepted")):
        turned = rows.filter(pc.invert(rows["accepted"]))
        each = zip(column(turned, "round").tolist(), column(turned, "call_seq").tolist(), words(turned, "request"),
                   strict=True)  # fmt: skip
        refused += [(round_, seq, name or "") for round_, seq, name in each]
    if len(refused) <= requests:
        return Absent("refused_submissions", len(refused), requests)
    (round_, seq, _), last = refused[0], refused[-1][0]
    told = ""
    for rows in pieces(subject.part, "calls", ("round", "seq", "error"), round_, round_):
        told = next((error or "" for at, error in zip(column(rows, "seq").tolist(), words(rows, "error"), strict=True)
                     if at == seq), told)  # fmt: skip
    who = [name for _, _, name in refused]
    return found(
        "refused_submissions",
        f"refused at submission: {listed(who)}{', the first' if len(who) > 1 else ''} in front of round {round_:,}"
        f"{f': {told}' if told else ''}",
        (round_, last), who, requests=len(who),
    )  # fmt: skip
