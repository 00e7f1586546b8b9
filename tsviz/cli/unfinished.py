"""What a recording says of the requests that came to no good end: a line a part, on standard error.

The exit code stays 0: what was to be recorded was recorded, and failures are what many a run is recorded for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .output import tell

if TYPE_CHECKING:
    from pathlib import Path

    from tsviz.engine.summary import RunSummary


def tell_unfinished(out: Path, name: str, summary: RunSummary, failures: Sequence[str] = ()) -> None:
    """Say how many requests of a part failed, were aborted or refused, and why; nothing where none was.

    `failures` are the reasons of those that failed, a text a kind, each with its count.
    """
    from tsviz.engine.summary import EndReason

    words = list(failures) or ([f"{summary.failed:,} failed"] if summary.failed else [])
    if summary.aborted:
        words.append(f"{summary.aborted:,} aborted")
    for cause in dict.fromkeys(refusal.cause for refusal in summary.refusals):
        refused = [refusal for refusal in summary.refusals if refusal.cause is cause]
        first = refused[0]
        words.append(
            f"{len(refused):,} refused: {cause.value} (first {first.request_id}:"
            f" {first.need_tokens:,} tokens, the bound is {first.bound_tokens:,})"
        )
    count = summary.failed + summary.aborted + summary.refused
    if summary.reason in (EndReason.STALLED, EndReason.SCHEDULER_RAISED, EndReason.RANK_FAILED):
        count += summary.live + summary.not_arrived
        words.append(
            f"{summary.live:,} live and {summary.not_arrived:,} to come when it ended ({summary.reason.value})"
        )
    if count:
        of = summary.submitted + summary.refused + summary.not_arrived
        tell(f"{out}: {name}: {count:,} of {of:,} requests did not finish: {'; '.join(words)}")
