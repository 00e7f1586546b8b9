"""From a waiting request to the root: who is in its way, and who is in the way of that one (debugger.md, section 3)."""

from __future__ import annotations

from dataclasses import dataclass

from tsviz.replay.decided.causes import REFUSED
from tsviz.scheduler import decisions as d

from .facts import Facts, Said

_MOST = 64


@dataclass(frozen=True, slots=True)
class Link:
    """One request of the chain: its verdict, and in which way it is in the way of the one before."""

    submission: int
    request: str
    said: Said | None
    way: str


@dataclass(frozen=True, slots=True)
class Chain:
    """Links from the request to the root; `cycle` are the requests of the ring that the chain runs into, if it does."""

    links: tuple[Link, ...]
    cycle: tuple[str, ...]


def chain(facts: Facts, submission: int, round_: int) -> Chain:
    """Follow holders from a request in a round until one is not held, or was met before."""
    links = [Link(submission, facts.life.names[submission], facts.verdict(submission, round_), "")]
    while len(links) < _MOST:
        following = _next(facts, links[-1], round_)
        if following is None:
            return Chain(tuple(links), ())
        met = [i for i, link in enumerate(links) if link.submission == following.submission]
        if met:
            ring = tuple(link.request for link in links[met[0] :])
            return Chain((*links, following), ring)
        links.append(following)
    return Chain(tuple(links), ())


def in_the_way(facts: Facts, submission: int, round_: int) -> str:
    """Return who is in a request's way in a round: the next of its chain, or nobody (empty)."""
    link = Link(submission, facts.life.names[submission], facts.verdict(submission, round_), "")
    following = _next(facts, link, round_)
    return "" if following is None else following.request


def _next(facts: Facts, link: Link, round_: int) -> Link | None:
    said = link.said
    if said is None or said.cause in _ENDS or link.way == _WAYS[d.NOT_QUIESCENT]:
        return None
    if said.cause == d.NOT_QUIESCENT and said.holder == link.request:
        return None
    if said.holder and said.holder != link.request:
        return _link(facts, facts.submission_of(said.holder, round_), round_, _WAYS.get(said.cause, "is before it"))
    if said.cause == d.HOLDBACK:
        pending = _pending_prefill(facts, link.submission, round_)
        return None if pending < 0 else _link(facts, pending, round_, "is the prefill that decodes hold back for")
    turns = facts.at("retractions", round_)
    if said.cause == d.CAPACITY and turns and turns[0]["blocker"] != link.request:
        blocker = facts.submission_of(turns[0]["blocker"], round_)
        return _link(facts, blocker, round_, "was refused first, so retraction serves it")
    if said.cause in REFUSED:
        refusal = facts.refusal(link.submission, round_)
        holders = [] if refusal is None else facts.holdings(round_, refusal["item"])
        others = [h for h in holders if h.submission != link.submission and h.blocks]
        if others:
            way = f"holds the most pages ({len(others[0].blocks):,} blocks)"
            return _link(facts, others[0].submission, round_, way)
    return None


_ENDS = (d.SCHEDULED, d.RETRACTED, d.DEFERRED, d.REMOTE_TRANSFER, d.NEVER, d.BOOTSTRAP, d.RESULT)
"""Verdicts that no other request is behind."""

_WAYS = {
    d.HEAD_OF_LINE: "holds the line",
    d.SEALED: "must come back first",
    d.RESIDENT_BLOCKED: "is a resident prefill and blocked",
    d.RECOVERY_ALONE: "recovers alone",
    d.ONE_REMOTE: "took the one remote admission",
    d.PREFILL_ONLY: "prefills in this round",
    d.NOT_QUIESCENT: "would give way, but has a forward out",
}


def _link(facts: Facts, submission: int, round_: int, way: str) -> Link | None:
    if submission < 0:
        return None
    return Link(submission, facts.life.names[submission], facts.verdict(submission, round_), way)


def _pending_prefill(facts: Facts, own: int, round_: int) -> int:
    """Return the prefill that a round's holdback is for: resident, else retracted, else new; the oldest of its kind."""
    waiting: dict[str, list[int]] = {}
    phases = [row["item"] for row in facts.at("phases", round_) if row["name"] == "decodes"]
    for submission in facts.live(round_):
        if submission != own:
            state = facts.state(submission, round_, phases[0] if phases else 0)
            waiting.setdefault(state, []).append(submission)
    for state in ("Prefilling", "Retracted", "Submitted"):
        if waiting.get(state):
            return waiting[state][0]
    return -1
