"""A weka agent session as read from its file: checked turns, in file order, still in the trace's own times and lengths.

A session is the parent's turns with sub-agents listed between them. A sub-agent's turns are timed from its own start.
Its entry's `t` is when it came back: in all six of the sample, `t` - `duration_ms` is 0.7 to 1 s after the end of the
parent's turn before, and the parent's next turn is later than `t`. So the start is taken to be `t` - `duration_ms`,
and never before the end of the parent's turn before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tsviz.engine.workloads.blocks import Blocks
from tsviz.engine.workloads.errors import Place
from tsviz.engine.workloads.files import TextFile, field_of, parse_object, time_ns, whole_number
from tsviz.engine.workloads.options import SECOND_NS

ID_BITS = 22
"""Ids and rows of one session stay below 2^22, so that sources have room for 2^14 sessions."""

_MS_NS = 1_000_000


@dataclass(frozen=True, slots=True)
class Turn:
    """One request of the session. Times in ns since the session's start, lengths before scaling."""

    place: Place
    name: str
    row: int
    start_ns: int
    end_ns: int
    think_ns: int
    prompt_tokens: int
    output_tokens: int
    ids: list[int]


@dataclass(slots=True)
class Agent:
    """The turns of the parent or of one sub-agent, in order; each carries the one before."""

    leading_tokens: int
    turns: list[Turn] = field(default_factory=list)


@dataclass(slots=True)
class Session:
    """The parent, the sub-agents in file order, and per sub-agent how many of the parent's turns stand before it."""

    parent: Agent
    subagents: list[tuple[int, Agent]] = field(default_factory=list)

    def subagents_before(self, index: int) -> list[Agent]:
        """Return the sub-agents that stand right before the parent's turn number `index` (from 0), in file order."""
        return [agent for before, agent in self.subagents if before == index]


class _Reader:
    """Reads one session; counts its rows from 1 in file order."""

    def __init__(self, file: TextFile, blocks_for: Callable[[int], Blocks]) -> None:
        self._file, self._rows = file, 0
        self._name = file.path.stem
        self._whole = Place(str(file.path), "session")
        self._values = parse_object(file.text, self._whole)
        scope = field_of(self._values, "hash_id_scope", self._whole)
        if scope != "local":
            raise self._whole.error("hash_id_scope", "local", scope)
        self._block_tokens = whole_number(field_of(self._values, "block_size", self._whole), self._whole, "block_size")
        if self._block_tokens == 0:
            raise self._whole.error("block_size", "at least 1 token", 0)
        self._blocks = blocks_for(self._block_tokens)

    def session(self) -> tuple[Session, Blocks]:
        """Return the session and the id space of its turns."""
        session = Session(Agent(_leading_tokens(self._values, self._whole)))
        parent = session.parent.turns
        for number, value in enumerate(_list_of(self._values, self._whole), 1):
            place = Place(self._whole.file, f"request {number}")
            values = _object(value, place)
            if values.get("type") == "subagent":
                name = f"sub-{len(session.subagents) + 1:03d}"
                before_ns = parent[-1].end_ns if parent else 0
                session.subagents.append((len(parent), self._subagent(values, name, before_ns, place)))
            else:
                parent.append(self._turn(values, "parent", parent, 0, place))
        return session, self._blocks

    def _subagent(self, values: dict[str, object], name: str, before_ns: int, place: Place) -> Agent:
        back_ns = time_ns(field_of(values, "t", place), place, "t", SECOND_NS)
        duration_ns = time_ns(field_of(values, "duration_ms", place), place, "duration_ms", _MS_NS)
        start_ns = max(before_ns, back_ns - duration_ns)
        agent = Agent(_leading_tokens(values, place))
        for number, value in enumerate(_list_of(values, place), 1):
            at = Place(place.file, f"{place.at}, sub-agent request {number}")
            agent.turns.append(self._turn(_object(value, at), name, agent.turns, start_ns, at))
        return agent

    def _turn(self, values: dict[str, object], agent: str, before: list[Turn], origin_ns: int, place: Place) -> Turn:
        self._rows += 1
        if self._rows >> ID_BITS:
            raise place.error("requests", f"fewer than {1 << ID_BITS} in a session", "more")
        kind = field_of(values, "type", place)
        if kind not in ("n", "s"):
            raise place.error("type", "n or s (or subagent, not inside another)", kind)
        start_ns, took_ns, think_ns = (
            time_ns(field_of(values, name, place), place, name, SECOND_NS) for name in ("t", "api_time", "think_time")
        )
        start_ns += origin_ns
        if before and start_ns < before[-1].start_ns:
            raise place.error("t", "not before the request before", values["t"])
        prompt_tokens, output_tokens = (whole_number(field_of(values, n, place), place, n) for n in ("in", "out"))
        rule = f"one per full block of {self._block_tokens} tokens of in = {prompt_tokens}"
        count = prompt_tokens // self._block_tokens
        ids = self._blocks.ids(field_of(values, "hash_ids", place), count, rule, place)
        name = f"{self._name}/{agent}/{len(before) + 1:05d}"
        end_ns = start_ns + took_ns
        return Turn(place, name, self._rows, start_ns, end_ns, think_ns, prompt_tokens, output_tokens, ids)


def read_session(file: TextFile, blocks_for: Callable[[int], Blocks]) -> tuple[Session, Blocks]:
    """Return the session of a file and its id space; `blocks_for` makes that space for a block size.

    Raises `WorkloadError` naming the request for whatever contradicts the format.
    """
    return _Reader(file, blocks_for).session()


def _object(value: object, place: Place) -> dict[str, object]:
    if not isinstance(value, dict):
        raise place.error("request", "an object", type(value).__name__)
    return value


def _list_of(values: dict[str, object], place: Place) -> list[object]:
    requests = field_of(values, "requests", place)
    if not isinstance(requests, list) or not requests:
        found = "an empty list" if requests == [] else type(requests).__name__
        raise place.error("requests", "a list of at least one request", found)
    return requests


def _leading_tokens(values: dict[str, object], place: Place) -> int:
    return sum(whole_number(field_of(values, n, place), place, n) for n in ("tool_tokens", "system_tokens"))
