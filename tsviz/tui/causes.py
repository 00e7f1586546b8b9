"""How a cause is drawn: a glyph and a colour for its family, its word, and a sentence (debugger.md, section 3)."""

from __future__ import annotations

from rich.cells import cell_len

from tsviz.replay.recorded.snapshot import Cause
from tsviz.tui.clean import clean, fit, shorten
from tsviz.tui.glyphs import Mark


def _family(glyph: str, role: str, **sentences: str) -> dict[str, Mark]:
    return {name: Mark(glyph, name.replace("_", " "), role, words) for name, words in sentences.items()}


CAUSES: dict[str, Mark] = {
    **_family("●", "decoding", scheduled="it had a row in the batch"),
    **_family("↻", "replaced", scheduled_again="its row computed only what had been computed before a retraction"),
    **_family(
        "○", "waiting",
        head_of_line="an incomplete prefill holds the line, and nothing behind it is tried",
        sealed_by_readmission="a retracted request must come back before any newcomer",
        resident_prefill_blocked="a prefill that has begun is refused, and nothing behind it is tried",
        recovery_runs_alone="a request that recovers has the batch for itself",
        one_remote_admission="another remote request was admitted in that round",
    ),
    **_family(
        "▦", "pool-full",
        capacity="its admission needs more pages than there are",
        nothing_retractable="it needs pages, and nobody can give way",
        victim_not_quiescent="it needs pages, and the victim still has a forward out",
        deferred_by_transfer="it needs pages, and a copy between the tiers must end first",
        never_schedulable="it can never be admitted under this configuration",
    ),
    **_family(
        "◔", "warn",
        batch_full="the batch has no row left",
        token_budget_spent="the token budget of the round was spent",
        decode_holdback="decodes hold budget back for a prefill that is pending",
        chunk_cut_to_zero="a rule cut its chunk to nothing",
        no_request_slot="there is no request slot",
        decode_waits_for_prefill_round="the round prefills only",
    ),
    **_family(
        "⇄", "remote",
        waits_for_bootstrap="its peer is not connected yet",
        waits_for_result="the result of its last row has not landed",
        remote_transfer="its pages are on their way",
    ),
    **_family(
        "↺", "retracted",
        retracted="it lost its pages in that round",
        grant_cannot_join="it got its pages back and cannot join this batch",
    ),
    **_family(
        "·", "dim",
        not_submitted="it had arrived and was not submitted yet",
        before_first_plan="it was submitted, and no plan had come yet",
    ),
    **_family(
        "?", "unknown",
        unknown="no decision is known for those rounds",
        before_slice="it is not known before the slice",
    ),
}  # fmt: skip
"""Causes of verdicts and of lost time, by family."""


_SHORT = {
    "waits_for_bootstrap": "no peer yet",
    "waits_for_result": "awaits a result",
    "remote_transfer": "with its peer",
    "batch_full": "batch full",
    "token_budget_spent": "budget spent",
    "decode_holdback": "decodes hold back",
    "chunk_cut_to_zero": "chunk cut to zero",
    "no_request_slot": "no slot",
    "head_of_line": "behind {holder}",
    "sealed_by_readmission": "sealed by {holder}",
    "resident_prefill_blocked": "behind {holder}",
    "retracted": "retracted",
    "grant_cannot_join": "cannot join batch",
    "never_schedulable": "never schedulable",
    "capacity": "no pages",
    "recovery_runs_alone": "{holder} recovers",
    "one_remote_admission": "after {holder}",
    "decode_waits_for_prefill_round": "{holder} prefills",
    "deferred_by_transfer": "no pages, copy out",
    "victim_not_quiescent": "no pages",
    "nothing_retractable": "no pages",
}
"""Verdicts in so few words that a narrow list has room for them and for who is in the way."""
_HOLDER_CELLS = 7


def cause_text(cause: Cause, round_: int, cells: int, *, roomy: bool = True) -> str:
    """Return what became of a request in exactly so many cells: in full where that fits, else as short as it must be.

    Names are cut before words are, and for how many rounds it has held goes last. A cut name has what
    room is left over, but where others want it too (not `roomy`).
    """
    waited = round_ - cause.since_round + 1
    since = f", {waited:,}{'+' if cause.at_least else ''} rounds" if waited > 1 else ""

    def ways(holder: str) -> tuple[str, ...]:
        named = cause.words.replace(cause.holder, holder) if cause.holder else cause.words
        short = _SHORT.get(cause.name, "").format(holder=holder or "another")
        needs = f"{named.partition('; ')[0]}){since}" if named.startswith("no pages (") else ""
        return named, needs, f"{short}{since}" if short else "", short

    cut = ways(shorten(cause.holder, _HOLDER_CELLS))
    for number, way in enumerate(cut):
        if way and (spare := cells - cell_len(clean(way))) >= 0:
            return fit(ways(shorten(cause.holder, _HOLDER_CELLS + spare))[number] if roomy else way, cells)
    return fit(cut[-1] or cut[0], cells)


def cause_mark(cause: str) -> Mark:
    """Return how a cause is drawn; one of a newer trace is drawn as unknown under its own name."""
    return CAUSES.get(cause) or Mark("?", cause.replace("_", " "), "unknown", "a cause that this version does not know")
