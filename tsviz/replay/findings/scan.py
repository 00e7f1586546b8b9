"""Problems of a trace, each with a threshold, a sentence, evidence and positions (debugger.md, section 1, *Findings*).

No alarm while something outstanding could change the next plan: `stall` asks that nothing is out, and what is out for
long is a finding of its own (`acknowledgement_missing`). A check that lacks its tables ends as not checkable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial

from tsviz.query.problem import QueryError
from tsviz.replay.scenario.predicates import NAMED, STORM_ROUNDS
from tsviz.replay.why.facts import Facts
from tsviz.trace.catalogue import CALLS
from tsviz.trace.reader import Bundle, Part

from . import decided, device, invariants, recorded, refused, waits
from .kept import Kept
from .model import BUNDLE, CHECKSUMS, DECIDED, DEVICE, RECORDED, Check, Checked, Ended, NotCheckable, Subject, starts_at


def _named(name: str, says: str) -> Check:
    named = NAMED[name]
    scan = partial(recorded.named, name)
    return Check(name, says, named.threshold, named.counts, RECORDED, scan, more_on_a_slice=name == "head_of_line")


CHECKS: tuple[Check, ...] = (
    Check("plan_breach", "a plan breaks an invariant: two rows of one request or slot, more rows or tokens than"
          " allowed, a prefill behind one that was cut, more empty pages than there are",
          0, "breaches", RECORDED, invariants.plan_breach, breach=True),
    Check("page_breach", "pages break an invariant: one is handed out fresh while another live table holds it, or free,"
          " cached, owned and pinned blocks do not make the pool",
          0, "breaches", DECIDED, invariants.page_breach, breach=True),
    Check("changed_pages", "a block was found otherwise than the operation before had left it",
          0, "blocks", CHECKSUMS, device.changed_pages, breach=True),
    Check("broken_rows", "logits of a forward are no numbers", 0, "rows", DEVICE, device.broken_rows, breach=True),
    Check("lost_tokens", "device and scheduler count the tokens of a request differently",
          0, "decodes", DEVICE, device.lost_tokens, breach=True),
    Check("early_acknowledgement", "a copy to the host was told as done before it was", 0, "copies", DEVICE,
          device.early_acknowledgement, breach=True),
    Check("rank_divergence", "ranks of one node make different plans", 0, "ranks", BUNDLE, recorded.rank_divergence),
    _named("livelock", "rows are scheduled, and for many rounds in a row no request's highest computed position rises"
           " and none ends"),
    _named("stall", "every plan at the end is empty, requests live, and nothing is outstanding that could change that"),
    Check("never_fits", "a request can never be scheduled under this configuration, with the inequality",
          0, "requests", DECIDED, decided.never_fits),
    Check("refused_submissions", "requests were refused when they were submitted, with what they were told", 0,
          "requests", RECORDED, refused.refused_submissions),
    Check("leak", "nothing is active and no operation is out, yet blocks cannot be had",
          0, "blocks", DECIDED, decided.leak),
    Check("acknowledgement_missing", "a copy or a peer's answer is out at the end, three times longer than the slowest"
          " that was answered", 100, "rounds", RECORDED, recorded.acknowledgement),
    Check("failed_transfers", "requests ended because the transfer of their pages failed", 0, "requests", RECORDED,
          waits.failed_transfers),
    _named("retraction_storm", f"many retractions within {STORM_ROUNDS} rounds"),
    Check("repeated_retraction", "one request is retracted again and again", 3, "retractions of one request", DECIDED,
          decided.repeated_retraction),
    Check("recompute_tax", "positions that prefill rows compute again after retractions", 10,
          "percent of prefilled positions", RECORDED, recorded.recompute_tax),
    Check("starvation", "a newcomer is refused pages while later ones are admitted before it", 5, "later requests",
          DECIDED, decided.starvation),
    Check("head_of_line_hold", "one incomplete prefill holds the line: nothing behind it is tried", 8, "rounds",
          DECIDED, decided.hold),
    _named("head_of_line", "the oldest request that never ran is passed over in rounds that schedule others"),
    Check("decodes_wait", "requests that were prefilled get no row for many rounds, because prompts are prefilled", 16,
          "rounds", DECIDED, waits.decodes_wait),
    Check("readmission_waits", "a retracted request waits to come back while others finish or send tokens", 50,
          "rounds", DECIDED, decided.readmission),
    Check("low_hit_rate", "the cache gives little of the prefixes that earlier prompts had in common", 50,
          "percent of the possible hits missed", RECORDED, recorded.low_hit_rate),
    Check("copy_stalls", "the streams of forwards stand still for copies", 10, "percent of what forwards took", DEVICE,
          device.copy_stalls),
    Check("over_reservation", "headroom is held and not used while admissions are refused for pages", 50,
          "percent of the headroom unused", DECIDED, decided.over_reservation),
    Check("device_race", "operations of the device touch the same bytes, one writes, and nothing orders them",
          0, "pairs of operations", DEVICE, device.device_race, breach=True),
)  # fmt: skip
"""All checks, most telling first, but for the slowest: it looks at every operation of a device."""

BY_NAME = {check.name: check for check in CHECKS}

_ROWS_OF = {DEVICE: "device_ops", CHECKSUMS: "page_crcs"}
"""What a part must have rows of to be asked at all: a simulated device has no order that could be broken."""


def checks_of(part: Part) -> tuple[Check, ...]:
    """Return the checks that are about something this part has."""
    return tuple(check for check in CHECKS if check.needs not in _ROWS_OF or part.rows(_ROWS_OF[check.needs]))


def check_part(
    bundle: Bundle, part: Part, facts: Facts | None, checks: Iterable[Check] | None = None, why_not: str = ""
) -> list[Checked]:
    """Check one part, for all that it can have or for `checks`. `facts` are None where decisions are not known, and
    `why_not` says why.

    Raises `TraceError`.
    """
    found = []
    for check in checks_of(part) if checks is None else checks:
        try:
            ended = _made(bundle, part, facts, check, why_not)
        except QueryError as error:
            ended = _unanswered(check, error)
        found.append(Checked(check, part.node, part.rank, ended))
    return found


def check_kept(
    bundle: Bundle, part: Part, decided: str, facts: Callable[[], Facts | None], why_not: str = ""
) -> Iterator[Checked]:
    """Make every check of a part that was not made before, and keep how it ended; yield each as it is known.

    `decided` says how far decisions are known; `facts` reads them, and is called when the first check needs them. Where
    they are None `why_not` says why. Raises `TraceError`.
    """
    kept = Kept(bundle, part, f"{decided} {why_not}")
    read = cache(facts)
    for check in checks_of(part):
        ended = kept.get(check)
        if ended is None:
            try:
                asked = check.needs == DECIDED or (check.more_on_a_slice and starts_at(part) is not None)
                ended = _made(bundle, part, read() if asked else None, check, why_not)
                kept.put(check, ended)
            except QueryError as error:  # for want of memory or time: not kept, so that it is tried again
                ended = _unanswered(check, error)
        yield Checked(check, part.node, part.rank, ended)


def _unanswered(check: Check, error: QueryError) -> NotCheckable:
    return NotCheckable(check.name, f"its question to the tables got no answer: {str(error).partition(chr(10))[0]}")


def dropped_tables(part: Part) -> list[str]:
    """Return the tables of which rows were dropped while recording: with them nothing of one part can be checked."""
    first = part.meta.get("starts_at", 1)  # what was dropped in front of it, by a ring, takes nothing from the rest
    gaps = [row for row in part.table("gaps").to_pylist() if row["last_round"] >= first]
    return sorted({str(row["table"]) for row in gaps} - {"forwards"})


def _made(bundle: Bundle, part: Part, facts: Facts | None, check: Check, why_not: str) -> Ended:
    dropped = dropped_tables(part)
    if dropped and check.needs != BUNDLE:
        return NotCheckable(check.name, f"rows were dropped while recording: {', '.join(dropped)} (table gaps)")
    if check.needs == DECIDED and facts is None:
        return NotCheckable(
            check.name, "not checkable without decisions (tsviz index)" + (f": {why_not}" if why_not else "")
        )
    if part.level == CALLS and check.needs != BUNDLE:
        return NotCheckable(
            check.name, "not checkable without plans, of which only the calls were recorded (tsviz index)"
        )
    return check.scan(Subject(bundle, part, facts), check.threshold)
