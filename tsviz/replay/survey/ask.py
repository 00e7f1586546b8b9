"""What is asked about a trace as a whole: its findings, and where its time went (debugger.md, section 1).

Answers come as values, one by one, so that a screen shows each as it is found. They cross a pipe as JSON: see
`worker.py`, which makes them in a process of its own, and `child.py`, which reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from tsviz.replay.diff.sides import MetSome, Sides, met_from_json, sides_from_json

if TYPE_CHECKING:
    from tsviz.replay.findings.model import Checked
    from tsviz.replay.lost.keys import LostKey
    from tsviz.replay.lost.model import Lost
    from tsviz.replay.reexecution.index import Index
    from tsviz.replay.why.facts import Facts
    from tsviz.trace.reader import Bundle, Part

RECORDED, DERIVED, NONE = "recorded", "derived", "none"


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a long step has come."""

    words: str
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class Extent:
    """How far decisions of one part are known, and whence; `note` says what stands in the way."""

    part: str
    source: str
    decided_round: int
    last_round: int
    note: str = ""
    lacks: str = ""
    """What its figures are without: rounds whose plans were dropped while recording."""
    first_round: int = 1
    """Where it begins: later than 1 for a slice and for what a ring kept."""

    @property
    def complete(self) -> bool:
        """Whether decisions are known up to the last round."""
        return self.source != NONE and self.decided_round >= self.last_round


@dataclass(frozen=True, slots=True)
class Looked:
    """One check of one part as it ended: see `findings/model.py`."""

    name: str
    part: str
    outcome: str
    severity: str
    sentence: str
    says: str
    threshold: int
    counts: str
    rounds: tuple[int, ...] = ()
    requests: tuple[str, ...] = ()
    numbers: Mapping[str, int] | None = None
    of_device: bool = False
    """Whether it is about what a real device did, and not about what the scheduler decided."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How many checks will be made."""

    checks: int


@dataclass(frozen=True, slots=True)
class LostTime:
    """Some of the sums of one part, in order."""

    keys: tuple[LostKey, ...]


@dataclass(frozen=True, slots=True)
class HitPlaces:
    """Some positions at which a predicate holds, in order: rounds, stops (-1: the end of the round), requests."""

    rounds: tuple[int, ...]
    stops: tuple[int, ...]
    submissions: tuple[int, ...]
    """-1 where the predicate names no request."""
    requests: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HitTotal:
    """How many positions there are, and what could not be asked."""

    of: int
    exact: bool
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Refused:
    """Why a predicate has no hit list, and where in it."""

    kind: str
    message: str
    at: tuple[int, int] | None = None
    candidates: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Failed:
    """Why there is no more."""

    error: str


Answer = Progress | Extent | Looked | Plan | LostTime | HitPlaces | HitTotal | Refused | Failed | Sides | MetSome
Tell = Callable[[Answer], None]
_AT_ONCE = 500
_POSITIONS_AT_ONCE = 20_000


def findings(bundle: Bundle, *, derive: bool, tell: Tell) -> Iterator[Answer]:
    """Make every check of every part; `derive` builds an index where decisions are not known. Raises `TraceError`."""
    from tsviz.replay.findings.scan import check_kept, checks_of

    yield Plan(sum(len(checks_of(part)) for part in bundle.parts))
    for part in bundle.parts:
        extent, facts = _facts(part, derive, tell)
        yield extent
        for checked in check_kept(bundle, part, f"{extent.source} {extent.decided_round}", facts, extent.note):
            yield looked(checked)


def derive(bundle: Bundle, tell: Tell) -> Iterator[Answer]:
    """Build the index of every part whose decisions are not known. Raises `TraceError`, OSError."""
    for part in bundle.parts:
        yield _extent(part, derive=True, tell=tell)[0]


def lost_time(part: Part, *, derive: bool, tell: Tell) -> Iterator[Answer]:
    """Split the time of every request of a part by cause; nothing but an extent where decisions are not known."""
    from tsviz.replay.lost.blame import blame
    from tsviz.replay.lost.keys import lost_keys

    extent, read = _facts(part, derive, tell)
    yield extent
    facts = read()
    if facts is None:
        return
    total = facts.life.count
    lost: list[Lost] = []
    for first in range(0, total, _AT_ONCE):
        some = range(first, min(first + _AT_ONCE, total))
        lost += blame(facts, some)
        yield Progress("requests split", some.stop, total)
    keys = lost_keys(lost)
    for first in range(0, len(keys), _AT_ONCE):
        yield LostTime(tuple(keys[first : first + _AT_ONCE]))


def hit_list(trace: str, part: Part, predicate: str) -> Iterator[Answer]:
    """Return every position of a part at which a predicate holds, in order; it runs in the locked query process."""
    from tsviz.query.problem import QueryError
    from tsviz.replay.hits import Near, Wanted, hits_apart

    try:
        found = hits_apart([trace], predicate, Wanted.ALL, Near(part.node, part.rank))
    except QueryError as error:
        problem = error.problem
        yield Refused(problem.kind.value, problem.message, problem.at, problem.candidates)
        return
    columns = {name: found.positions.column(name).to_pylist() for name in ("round", "stop", "submission", "request")}
    for first in range(0, found.positions.num_rows, _POSITIONS_AT_ONCE):
        some = {name: values[first : first + _POSITIONS_AT_ONCE] for name, values in columns.items()}
        yield HitPlaces(
            tuple(some["round"]),
            tuple(-1 if stop is None else stop for stop in some["stop"]),
            tuple(-1 if number is None else number for number in some["submission"]),
            tuple(name or "" for name in some["request"]),
        )
    here = f"{part.node}/{part.rank}:"
    unknown = tuple(str(one) for one in found.unknown if f"{one.node}/{one.rank}:" == here)
    yield HitTotal(found.total.of, found.total.exact, unknown)


def _facts(part: Part, derive: bool, tell: Tell) -> tuple[Extent, Callable[[], Facts | None]]:
    """Return how far decisions are known, and what reads them."""
    extent, index = _extent(part, derive, tell)

    def read() -> Facts | None:
        from tsviz.replay.why.answer import facts_of

        return None if extent.source == NONE else facts_of(part, index)

    return extent, read


def _extent(part: Part, derive: bool, tell: Tell) -> tuple[Extent, Index | None]:
    from tsviz.replay.reexecution.index import build_index, open_index
    from tsviz.trace.gaps import LostRounds

    name, first, last = f"{part.node}/{part.rank}", part.meta.get("starts_at", 1), part.last_round
    lacks = LostRounds(part.table("gaps")).uncounted()
    if part.level == "decisions":
        return Extent(name, RECORDED, last, last, lacks=lacks, first_round=first), None

    def step(done: int, rounds: int) -> None:
        tell(Progress("rounds re-executed", done, rounds))

    index = build_index(part, progress=step) if derive else open_index(part)
    if index is None:
        return Extent(name, NONE, 0, last, lacks=lacks, first_round=first), None
    note = "" if index.divergence is None else f"the twin leaves the recording in round {index.divergence.round:,}"
    if not index.last_round:
        return Extent(name, NONE, 0, last, note, lacks, first), None
    return Extent(name, DERIVED, index.last_round, last, note, lacks, first), index


def looked(checked: Checked) -> Looked:
    """Return a check that was made, with everything a person is shown of it."""
    from tsviz.replay.findings.model import CHECKSUMS, DEVICE
    from tsviz.replay.scenario.predicates import Finding

    check, ended = checked.check, checked.ended
    finding = ended if isinstance(ended, Finding) else None
    return Looked(
        name=check.name,
        part=f"{checked.node}/{checked.rank}",
        outcome=checked.outcome,
        severity=check.severity,
        sentence=checked.sentence,
        says=check.says,
        threshold=check.threshold,
        counts=check.counts,
        rounds=tuple(position.round for position in checked.positions),
        requests=() if finding is None else tuple(finding.requests),
        numbers=None if finding is None else dict(finding.numbers),
        of_device=check.needs in (DEVICE, CHECKSUMS),
    )


# On the wire


def to_json(answer: Answer) -> dict[str, Any]:
    """Return an answer as plain JSON values."""
    return {"is": type(answer).__name__} | asdict(answer)


def from_json(data: Mapping[str, Any]) -> Answer:
    """Read what `to_json` wrote. Raises KeyError, TypeError or ValueError on anything else."""
    values = {name: value for name, value in data.items() if name != "is"}
    match data["is"]:
        case "Looked":
            values["rounds"], values["requests"] = tuple(values["rounds"]), tuple(values["requests"])
            return Looked(**values)
        case "HitPlaces":
            return HitPlaces(**{name: tuple(value) for name, value in values.items()})
        case "HitTotal":
            return HitTotal(values["of"], values["exact"], tuple(values["unknown"]))
        case "Refused":
            at = values["at"]
            place = None if at is None else (int(at[0]), int(at[1]))
            return Refused(values["kind"], values["message"], place, tuple(values["candidates"]))
        case "Sides":
            return sides_from_json(values)
        case "MetSome":
            return met_from_json(values)
        case "LostTime":
            from tsviz.replay.lost.keys import key_from_json

            return LostTime(tuple(map(key_from_json, values["keys"])))
        case str(name) if name in _PLAIN:
            return _PLAIN[name](**values)
        case other:
            raise ValueError(f"expected an answer, found {other!r}")


_PLAIN: dict[str, Callable[..., Answer]] = {each.__name__: each for each in (Progress, Extent, Plan, Failed)}
