"""Names of causes, spans and checks as a person reads them."""

from __future__ import annotations

CAUSE_LABELS = {
    "scheduled": "had a row", "scheduled_again": "had a row, computed again", "waits_for_bootstrap": "bootstrap",
    "waits_for_result": "result of its last row is out", "remote_transfer": "transfer between nodes",
    "batch_full": "batch full", "token_budget_spent": "token budget spent",
    "decode_holdback": "budget kept for a prefill", "chunk_cut_to_zero": "chunk cut to nothing",
    "no_request_slot": "no request slot", "head_of_line": "head of line", "sealed_by_readmission":
    "sealed by a readmission", "resident_prefill_blocked": "behind a blocked prefill", "retracted": "retracted",
    "grant_cannot_join": "grant cannot join", "never_schedulable": "can never be scheduled",
    "capacity": "no pages", "recovery_runs_alone": "a recovery runs alone",
    "one_remote_admission": "one remote admission a round", "decode_waits_for_prefill_round": "a prefill round",
    "deferred_by_transfer": "no pages, a transfer is out", "victim_not_quiescent": "no pages, the victim is busy",
    "nothing_retractable": "no pages, nobody can give way", "not_submitted": "before submission",
    "before_first_plan": "before the first plan", "before_slice": "not known before the slice", "unknown": "not known",
}  # fmt: skip
"""Cause to a few words; `decisions.CAUSES` and `blame.OWN_CAUSES` have them all."""

SPAN_LABELS = {
    "ttft": "to the first token",
    "tpot": "between tokens",
    "after_last_token": "after the last token",
    "no_first_token": "without a first token",
    "ended_without_token": "ended without a token",
}


def cause_label(cause: str) -> str:
    """Return the words for a cause; one that is not known as it stands."""
    return CAUSE_LABELS.get(cause, cause)


def check_label(name: str) -> str:
    """Return a check's name as words: `live-lock`, `recompute tax`."""
    return {"livelock": "live-lock"}.get(name, name.replace("_", " "))
