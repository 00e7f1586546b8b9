"""What is asked about a trace as a whole: its findings, and where its time went (debugger.md, section 1).

Answers come as values, one by one, so that a screen shows each as it is found. They cross a pipe as JSON: see
`survey_worker.py`, which makes them in a process of its own, and `survey_child.py`, which reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tsviz.trace.reader import Bundle, Part

    from .blame import Lost
    from .findings_model import Checked
    from .lost_keys import LostKey
    from .why_facts import Facts

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

    @property
    def complete(self) -> bool:
        """Whether decisions are known up to the last round."""
        return self.source != NONE and self.decided_round >= self.last_round


@dataclass(frozen=True, slots=True)
class Looked:
    """One check of one part as it ended: see `findings_model`."""

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


@dataclass(frozen=True, slots=True)
class Plan:
    """How many checks will be made."""

    checks: int


@dataclass(frozen=True, slots=True)
class LostTime:
    """Some of the sums of one part, in order."""

    keys: tuple[LostKey, ...]


@dataclass(frozen=True, slots=True)
class Failed:
    """Why there is no more."""

    error: str


Answer = Progress | Extent | Looked | Plan | LostTime | Failed
Tell = Callable[[Answer], None]
_AT_ONCE = 500


def findings(bundle: Bundle, *, derive: bool, tell: Tell) -> Iterator[Answer]:
    """Make every check of every part; `derive` builds an index where decisions are not known. Raises `TraceError`."""
    from .findings import CHECKS, check_kept

    yield Plan(len(CHECKS) * len(bundle.parts))
    for part in bundle.parts:
        extent, facts = _facts(part, derive, tell)
        yield extent
        for checked in check_kept(bundle, part, f"{extent.source} {extent.decided_round}", facts, extent.note):
            yield looked(checked)


def lost_time(part: Part, *, derive: bool, tell: Tell) -> Iterator[Answer]:
    """Split the time of every request of a part by cause; nothing but an extent where decisions are not known."""
    from .blame import blame
    from .lost_keys import lost_keys

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


def _facts(part: Part, derive: bool, tell: Tell) -> tuple[Extent, Callable[[], Facts | None]]:
    """Return how far decisions are known, and what reads them."""
    from .index import build_index, open_index
    from .why import facts_of

    name, last = f"{part.node}/{part.rank}", part.last_round
    if part.level == "decisions":
        return Extent(name, RECORDED, last, last), lambda: facts_of(part, None)

    def step(done: int, rounds: int) -> None:
        tell(Progress("rounds re-executed", done, rounds))

    index = build_index(part, progress=step) if derive else open_index(part)
    if index is None:
        return Extent(name, NONE, 0, last), lambda: None
    note = "" if index.divergence is None else f"the twin leaves the recording in round {index.divergence.round:,}"
    if not index.last_round:
        return Extent(name, NONE, 0, last, note), lambda: None
    return Extent(name, DERIVED, index.last_round, last, note), lambda: facts_of(part, index)


def looked(checked: Checked) -> Looked:
    """Return a check that was made, with everything a person is shown of it."""
    from .predicates import Finding

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
        case "LostTime":
            from .lost_keys import key_from_json

            return LostTime(tuple(map(key_from_json, values["keys"])))
        case str(name) if name in _PLAIN:
            return _PLAIN[name](**values)
        case other:
            raise ValueError(f"expected an answer, found {other!r}")


_PLAIN: dict[str, Callable[..., Answer]] = {each.__name__: each for each in (Progress, Extent, Plan, Failed)}
