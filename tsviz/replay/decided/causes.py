"""The named causes in words, with the names and numbers of the verdict (debugger.md, section 3)."""

from __future__ import annotations

from tsviz.scheduler import decisions as d

_WORDS = {
    d.SCHEDULED: "scheduled",
    d.BOOTSTRAP: "waits for bootstrap",
    d.RESULT: "waits for a result",
    d.REMOTE_TRANSFER: "remote transfer",
    d.BATCH_FULL: "batch full",
    d.BUDGET_SPENT: "token budget spent",
    d.HOLDBACK: "decodes hold back for a pending prefill",
    d.CHUNK_ZERO: "chunk cut to zero ({rule})",
    d.NO_SLOT: "no request slot",
    d.HEAD_OF_LINE: "behind {holder} (head of line)",
    d.SEALED: "sealed by the readmission of {holder}",
    d.RESIDENT_BLOCKED: "behind {holder} (resident prefill, blocked)",
    d.RETRACTED: "retracted this round for {holder}",
    d.CANNOT_JOIN: "granted, but cannot join this batch",
    d.NEVER: "never schedulable ({rule})",
    d.CAPACITY: "no pages{shortage}",
    d.RECOVERY_ALONE: "the recovery of {holder} runs alone",
    d.ONE_REMOTE: "one remote admission a round: {holder}",
    d.PREFILL_ONLY: "decode waits: {holder} prefills this round",
    d.DEFERRED: "no pages{shortage}; retraction waits for operation {op_id}",
    d.NOT_QUIESCENT: "no pages{shortage}; the victim {holder} has a forward out",
    d.NOTHING_RETRACTABLE: "no pages{shortage}; nothing can be retracted",
}


REFUSED = frozenset((d.CAPACITY, d.DEFERRED, d.NOT_QUIESCENT, d.NOTHING_RETRACTABLE))
"""Causes behind which an admission was refused for capacity."""


def cause_words(
    cause: str, holder: str, rule: str, op_id: int, waited_rounds: int, shortage: str = "", request: str = "",
    *, at_least: bool = False,
) -> str:  # fmt: skip
    """Return a verdict in words, with the rounds it has held if it is not the first; an unknown cause as it stands.

    `shortage` says what a refused admission needs and what there is, `request` whose verdict it is; `at_least`: it may
    hold since before the trace begins.
    """
    template = _WORDS.get(cause)
    if template is None:
        return cause
    if cause == d.RETRACTED and holder == request:
        holder = "its own refusal"
    shortage = f" ({shortage})" if shortage else ""
    words = template.format(holder=holder or "another request", rule=rule or "no rule", op_id=op_id, shortage=shortage)
    if cause == d.SCHEDULED or (waited_rounds < 1 and not at_least):
        return words
    return f"{words}, {held_words(waited_rounds + 1, at_least=at_least)}"


def held_words(rounds: int, *, at_least: bool) -> str:
    """Return for how many rounds something holds; `at_least`: it may hold since before the trace begins."""
    return f"{'at least ' if at_least else ''}{rounds:,} {'round' if rounds == 1 else 'rounds'}"
