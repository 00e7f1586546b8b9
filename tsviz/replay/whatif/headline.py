"""What a what-if comes to in a few sentences: who ends, who waits, who gains and who loses (debugger.md, section 4)."""

from __future__ import annotations

from collections.abc import Sequence

from tsviz.engine.summary import EndReason
from tsviz.replay.figures.requests import Alignment, RequestDelta
from tsviz.replay.figures.run import Figures

from .study import Outcome, Study

_ENDS = {
    EndReason.DRAINED: "every request ends",  # but those that are refused, which are told behind it
    EndReason.MAX_ROUNDS: "cut at the bound of its rounds",
    EndReason.STOPPED: "stopped",
    EndReason.STALLED: "a permanent stall: plans stay empty and nothing is to come that could change one",
    EndReason.SCHEDULER_RAISED: "the scheduler raised",
    EndReason.RANK_FAILED: "a rank failed",
}


def ended_words(outcome: Outcome) -> str:
    """Say why a run ended, and who is left."""
    figures = outcome.figures
    live = f", {figures.live:,} requests have not ended" if figures.live else ""
    refused = f", {figures.refused:,} are refused" if figures.refused else ""
    lock = f", the last {figures.stuck_rounds:,} rounds a live-lock" if figures.live_locked else ""
    return f"{_ENDS[outcome.run.summary.reason]}{refused}{live}{lock}"


def headline_words(study: Study, outcome: Outcome) -> list[str]:
    """Say what the change did: to the run, to the waiting of all, and to each request at its worst and best."""
    before, after = study.baseline.figures, outcome.figures
    lines = [_fleet(before, after)]
    titles = {"queue": "wait for the first row", "ttft": "time to first token", "tpot": "time between tokens"}
    alignment = study.compare(outcome)
    lines += [words for name, title in titles.items() if (words := _times(title, before, after, name, alignment))]
    lines += _requests(alignment)
    least = study.fit_error.ttft.p50_ns
    if least >= 1:
        lines.append(
            f"the baseline misses the recorded first tokens by {ms(least)} (p50): less of a change than that may be"
            " the model's"
        )
    return lines


def _fleet(before: Figures, after: Figures) -> str:
    parts = [
        f"finished {_turned(before.finished, after.finished)} of {max(before.requests, after.requests):,}",
        f"retractions {_turned(before.retractions, after.retractions)}",
    ]
    if before.recomputed_tokens or after.recomputed_tokens:
        parts.append(f"tokens computed again {_turned(before.recomputed_tokens, after.recomputed_tokens)}")
    if before.refused or after.refused:
        parts.append(f"refused {_turned(before.refused, after.refused)}")
    parts.append(f"in all {_turned_ms(before.elapsed_s * 1e3, after.elapsed_s * 1e3)}")
    return "; ".join(parts)


def _times(title: str, before: Figures, after: Figures, name: str, alignment: Alignment) -> str:
    had, have = (sum(_has(d, side, f"{name}_ns") for d in alignment.deltas) for side in ("left", "right"))
    if had != have:  # a quantile over those who got there says less the fewer they are
        title += f", which {had:,} requests had and {have:,} have,"
    found = []
    for quantile in ("p50", "p95"):
        left, right = (getattr(f, f"{name}_{quantile}_ms") for f in (before, after))
        if left is not None and right is not None:
            found.append(f"{quantile} {_turned_ms(left, right)}")
    return f"{title} {', '.join(found)}" if found else ""


def _requests(alignment: Alignment) -> list[str]:
    lines = []
    for title, name in (("first token", "ttft_ns"), ("end", "end_to_end_ns")):
        changes = [(change, delta) for delta in alignment.deltas if (change := delta.change(name)) is not None]
        sooner, later = ([c for c in changes if sign * c[0] > 0] for sign in (-1, 1))
        said = [f"{len(sooner):,} sooner{_most(sooner, name)}", f"{len(later):,} later{_most(later, name)}"]
        for side, other, words in (("right", "left", "got there not before"), ("left", "right", "get there no more")):
            alone = [d.request for d in alignment.deltas if _has(d, side, name) and not _has(d, other, name)]
            if alone:
                said.append(f"{len(alone):,} {words} ({alone[0]}{', ...' if len(alone) > 1 else ''})")
        lines.append(f"requests by {title}: {'; '.join(said)}")
    return lines


def _has(delta: RequestDelta, side: str, name: str) -> bool:
    figures = getattr(delta, side)
    return figures is not None and getattr(figures, name) is not None


def _most(changes: Sequence[tuple[float, RequestDelta]], name: str) -> str:
    if not changes:
        return ""
    _, delta = max(changes, key=lambda c: (abs(c[0]), c[1].request))
    left, right = (getattr(side, name) / 1e6 for side in (delta.left, delta.right))
    return f", most {delta.request} {_turned_ms(left, right)}"


def _turned(before: int, after: int) -> str:
    return f"{before:,}" if before == after else f"{before:,} -> {after:,}"


def _turned_ms(before: float, after: float) -> str:
    if before == after:
        return ms(before * 1e6)
    share = f" ({100 * (after - before) / before:+,.1f} %)" if before else ""
    return f"{ms(before * 1e6)} -> {ms(after * 1e6)}{share}"


def ms(ns: float) -> str:
    """Return a time as a person reads it, to four digits: in seconds from one on, else in milliseconds."""
    if ns < 1:
        return "0 ms"
    value, unit = (ns / 1e9, "s") if ns >= 1e9 else (ns / 1e6, "ms")
    return f"{value:,.0f} {unit}" if value >= 1000 else f"{value:.4g} {unit}"
