"""Why a request has no row in a round: the cause with its numbers, the chain to the root, and cycles by their names.

Implements debugger.md, section 3. Needs decisions: recorded ones, or those of the index up to its verified frontier.
"""

from __future__ import annotations

from difflib import get_close_matches

from tsviz.replay.decided.causes import REFUSED, cause_words, held_words
from tsviz.replay.recorded.life_of import Life
from tsviz.replay.reexecution.index import Index
from tsviz.replay.rows.lifetimes import ENDS
from tsviz.scheduler import decisions as d
from tsviz.trace.reader import Part

from .behind import waiters
from .causes import EXPLAINED, Case, retraction, shortage_words
from .chain import Chain, Link, chain
from .facts import Facts
from .tree import Answer, Branch, counted
from .turns import Cycle, Turns

RECORDED, DERIVED = "recorded", "derived"


class CannotSay(Exception):
    """There is no such request, or nothing is known of it in that round; the message says which."""


def facts_of(part: Part, index: Index | None, life: Life | None = None) -> Facts:
    """Return the facts of a part; `index` has the decisions of one that was recorded without. Raises `TraceError`.

    `life` is what happened to its requests, if that is known already.
    """
    if index is None:
        return Facts(part, part, RECORDED, part.last_round, life)
    return Facts(part, index, DERIVED, index.last_round, life)


def find(facts: Facts, request: str, round_: int | None) -> tuple[int, int]:
    """Return submission and round of a question; without a round the last one in which the request waited.

    Raises CannotSay.
    """
    submission = facts.submission_of(request, facts.last_round if round_ is None else round_)
    if submission < 0:
        near = get_close_matches(request, list(facts.names()), 3)
        hint = f"; there are {', '.join(map(repr, near))}" if near else ""
        raise CannotSay(f"no request {request!r} in this trace{hint}")
    if round_ is None:
        round_ = _last_wait(facts, submission)
    last = max(facts.part.last_round, facts.last_round)
    if not facts.begin <= round_ <= last:
        raise CannotSay(f"round {round_:,}: this trace has rounds {facts.begin:,} to {last:,}")
    if round_ > facts.last_round:
        raise CannotSay(f"round {round_:,}: decisions are known up to round {facts.last_round:,} of {last:,}")
    return submission, round_


def _last_wait(facts: Facts, submission: int) -> int:
    end = facts.ended(submission)
    last = facts.last_round if end is None else min(facts.last_round, end - 1)
    for said in reversed(facts.verdicts(submission, last)):
        if said.cause != d.SCHEDULED:
            return last
        last = min(last, said.since_round - 1) if said.since_round > 1 else last
    return last if end is None else min(facts.last_round, end - 1)


def why(facts: Facts, turns: Turns, request: str, round_: int | None = None) -> Answer:
    """Answer why `request` has no row in `round_`. Raises CannotSay."""
    submission, at = find(facts, request, round_)
    outside = _outside(facts, submission, at)
    if outside is not None:
        return outside
    found = chain(facts, submission, at)
    said = found.links[0].said
    if said is None:
        raise CannotSay(f"nothing was decided about {request!r} in round {at:,}")
    cycle = next((c for link in found.links if (c := turns.cycle(link.request, at))), None)
    since = facts.waiting_since(submission, at)
    names = cycle.requests if cycle else found.cycle
    tree = _tree(facts, found, at, cycle)
    return Answer(
        request, submission, at, facts.source, said.cause, said.since_round,
        _paragraph(facts, found, at, since, cycle), tree, found.links[-1].request, names,
    )  # fmt: skip


def _outside(facts: Facts, submission: int, round_: int) -> Answer | None:
    """Answer for a request that was not there in a round."""
    life = facts.life
    name, submitted, end = life.names[submission], int(life.submitted[submission]), facts.ended(submission)
    if not life.accepted[submission]:
        cause, since, words = (
            "rejected",
            submitted,
            f"{name} was refused at its submission in front of round {submitted:,}",
        )
        error = _error(facts, submission)
        words += f": {error}" if error else ""
    elif submitted > round_:
        cause, since, words = "not_submitted", 0, f"{name} is submitted only in front of round {submitted:,}"
    elif end is not None and end <= round_:
        cause, since, words = "ended", end, f"{name} {_ended(facts.end_event(submission))} in front of round {end:,}"
    else:
        return None
    return Answer(name, submission, round_, facts.source, cause, since, words + ".", Branch(cause, words, name), name)


def _ended(event: str) -> str:
    """Return how a request ended: the state that lists name, and the event where that says more."""
    more = {"failed": " (its transfer failed)", "succeeded": " (its transfer succeeded)"}
    return f"{ENDS.get(event, 'ended')}{more.get(event, '')}"


def _error(facts: Facts, submission: int) -> str:
    row = facts.part.table("submissions").slice(submission, 1).to_pylist()[0]
    call = facts.call(row["round"], row["call_seq"])
    return "" if call is None else str(call["error"] or "")


def _words(facts: Facts, link: Link, round_: int) -> str:
    said = link.said
    if said is None:
        return "nothing is known of it"
    shortage = shortage_words(facts, link.submission, round_) if said.cause in REFUSED else ""
    waited = round_ - said.since_round
    return cause_words(
        said.cause, said.holder, said.rule, said.op_id, waited, shortage, link.request, at_least=said.at_least
    )


def _tree(facts: Facts, found: Chain, round_: int, cycle: Cycle | None) -> Branch:
    ring = bool(found.cycle)
    closing = found.links[-1] if ring else None
    branch: Branch | None = None
    links = found.links[:-1] if ring else found.links
    if closing is not None:
        words = f"{closing.request} {closing.way}: this is a cycle, {_ring_words(found.cycle)}"
        branch = Branch("cycle", words, request=closing.request)
    for index in range(len(links) - 1, -1, -1):
        link = links[index]
        said = link.said
        children = list(EXPLAINED[said.cause](Case(facts, link.submission, round_, said))) if said else []
        if said and said.cause not in (d.RETRACTED, d.SCHEDULED):
            children += retraction(facts, link.submission, round_)
        if index:  # how far the prefill is that others wait for is told with them
            children = [child for child in children if child.kind != "progress"]
        if branch is not None:
            children.append(branch)
        if index == 0:
            children += waiters(facts, link.submission, round_)
        if index == 0 and cycle is not None:
            children.append(_cycle_branch(cycle))
        lead = f"{link.request} {link.way}: " if link.way else f"{link.request}: "
        branch = Branch(said.cause if said else "unknown", lead + _words(facts, link, round_), request=link.request,
                        position=str(round_), children=tuple(children))  # fmt: skip
    assert branch is not None
    return branch


def _ring_words(names: tuple[str, ...]) -> str:
    return " waits for ".join((*names, names[0]))


def _cycle_branch(cycle: Cycle) -> Branch:
    turns = tuple(
        Branch(
            "turn", f"round {t.round:,}: {t.victim} is retracted for {_whom(t.victim, t.blocker)};"
            f" {t.taker} is admitted in round {t.taken_round:,}", request=t.victim, position=f"{t.round}.{t.stop}",
        )
        for t in cycle.turns[: 2 * len(cycle.requests)]
    )  # fmt: skip
    numbers = {
        "times": cycle.times, "first_round": cycle.first_round, "last_round": cycle.last_round,
        "last_gain_round": cycle.last_gain_round, "fruitless_turns": cycle.fruitless,
        "evicted_pages": cycle.evicted_pages,
    }  # fmt: skip
    return Branch("evictions", _cycle_words(cycle), position=str(cycle.first_round), numbers=numbers, children=turns)


def _whom(victim: str, blocker: str) -> str:
    return "its own refusal" if victim == blocker else blocker


def _cycle_words(cycle: Cycle) -> str:
    names = cycle.requests
    ring = ", ".join(f"{names[(i + 1) % len(names)]} evicts {name}" for i, name in enumerate(names))
    progress = (
        f"since round {cycle.last_gain_round + 1:,}, for {counted(cycle.fruitless, 'turn')}, nobody of them computed a"
        " position that had not been computed before: a live-lock"
        if cycle.fruitless >= 2 * len(names)
        else f"the last new position was computed in round {cycle.last_gain_round:,}"
    )
    return (
        f"cycle of retractions: {ring}; {counted(cycle.times, 'time')} in rounds {cycle.first_round:,} to"
        f" {cycle.last_round:,}, {counted(cycle.evicted_pages, 'cached page')} of the one away evicted; {progress}"
    )


def _paragraph(facts: Facts, found: Chain, round_: int, since: int, cycle: Cycle | None) -> str:
    first, last = found.links[0], found.links[-1]
    said = first.said
    assert said is not None
    explained = EXPLAINED[said.cause](Case(facts, first.submission, round_, said))
    row = next((branch.words for branch in explained if branch.kind == "row"), "row")
    told = [branch for branch in explained if branch.kind == "retraction"]
    if said.cause != d.SCHEDULED:
        told = list(retraction(facts, first.submission, round_))
    words = _words(facts, first, round_)
    if said.cause == d.RETRACTED and told:
        words, told = told[0].words.replace(f" in round {round_:,}", "", 1), []
    has = f"has a {row}" if said.cause == d.SCHEDULED else f"has no row: {words}"
    parts = [f"In round {round_:,} {first.request} {has}."]
    if said.cause != d.SCHEDULED:
        parts.append(_since_words(facts, first.submission, said.since_round, since, round_))
    if found.cycle:
        parts.append(f"The chain of holders is a cycle: {_ring_words(found.cycle)}.")
    elif len(found.links) > 1:
        way = " -> ".join(link.request for link in found.links)
        parts.append(f"Behind it: {way}. {last.request} {last.way}; its own verdict: {_words(facts, last, round_)}.")
    if said.cause == d.SCHEDULED:
        parts += [branch.words[0].upper() + branch.words[1:] + "." for branch in explained if branch.kind == "grant"]
    parts += [f"It was {branch.words}." for branch in told]
    parts += [f"It {branch.words}." for branch in waiters(facts, first.submission, round_)]
    if cycle is not None:
        words = _cycle_words(cycle)
        parts.append(words[0].upper() + words[1:] + ".")
    return " ".join(filter(None, parts))


def _since_words(facts: Facts, submission: int, cause_since: int, since: int, round_: int) -> str:
    """Return since when a request has no row, and since when for this cause; empty for one that begins to wait."""
    cut = since == facts.begin and facts.carried(submission)
    if since == round_ and not cut:
        return ""
    took = facts.elapsed_ns(since, round_) / 1e6
    rounds = f"({held_words(round_ - since + 1, at_least=cut)}, {took:,.1f} ms)"
    words = f"It has had none since round {since:,}{', where this trace begins, or longer' if cut else ''} {rounds}"
    return f"{words}; this cause holds since round {cause_since:,}." if cause_since != since else f"{words}."
