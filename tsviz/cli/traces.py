"""The TRACE argument: a bundle, and where in it (`@[node/rank:]round.stop`, architecture.md, section 4)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .exit_codes import CliError, ExitCode
from .output import tell
from .progress import clear_progress, parts_progress

if TYPE_CHECKING:
    from tsviz.trace.reader import Bundle, Part

_NUMBER = r"\d{1,1000}"
_POSITION = re.compile(
    rf"(?:(?P<node>[A-Za-z0-9_-]+)/(?P<rank>{_NUMBER}):)?(?P<round>{_NUMBER})(?:\.(?P<stop>{_NUMBER}))?"
)
_PART = re.compile(rf"(?P<node>[A-Za-z0-9_-]+)/(?P<rank>{_NUMBER}):?")


@dataclass(frozen=True, slots=True)
class Place:
    """A bundle's path and a position in it; what was not said is None."""

    path: Path
    node: str | None = None
    rank: int | None = None
    round: int | None = None
    stop: int | None = None


def parse_place(text: str) -> Place:
    """Parse `TRACE[@[NODE/RANK:]ROUND[.STOP]]` or `TRACE@NODE/RANK`. A path that exists as it stands has none."""
    head, at, tail = text.rpartition("@")
    if not at or os.path.exists(text):  # noqa: PTH110 (Path.exists raises for a loop of links)
        return Place(Path(text))
    place = parse_position(tail, Path(head))
    if place is None:
        wanted = "TRACE@[NODE/RANK:]ROUND[.STOP] or TRACE@NODE/RANK"
        raise CliError(ExitCode.USAGE, f"{text}: expected {wanted}, found {tail!r} behind the @")
    return place


def traces_or_parts(paths: Sequence[str], instead: str) -> list[str]:
    """Return traces for a command that asks all rounds of each, or of the part that stands behind one.

    A round behind one narrows nothing: raises CliError with what does, `instead`.
    """
    for text in paths:
        head, at, tail = text.rpartition("@")
        place = None if not at or os.path.exists(text) else parse_position(tail, Path(head))  # noqa: PTH110
        if place is not None and place.round is not None:
            part = "TRACE" if place.node is None else f"TRACE@{place.node}/{place.rank}"
            hint = f"{part} without the round asks all of it; {instead.format(round=place.round)}"
            raise CliError(ExitCode.USAGE, f"{text}: expected TRACE or TRACE@NODE/RANK, found round {tail!r}", hint)
    return list(paths)


def whole_traces(paths: Sequence[str]) -> list[str]:
    """Return traces for a command that takes each as a whole. Raises CliError for a part or a round behind one."""
    for text in paths:
        head, at, tail = text.rpartition("@")
        if at and not os.path.exists(text) and parse_position(tail, Path(head)) is not None:  # noqa: PTH110
            raise CliError(ExitCode.USAGE, f"{text}: expected a whole trace, found {tail!r} behind the @")
    return list(paths)


def parse_position(text: str, path: Path) -> Place | None:
    """Parse `[NODE/RANK:]ROUND[.STOP]` or `NODE/RANK` in the bundle at `path`; None for anything else."""
    if part := _PART.fullmatch(text):
        return Place(path, part["node"], int(part["rank"]))
    match = _POSITION.fullmatch(text)
    if match is None:
        return None
    rank, stop = match["rank"], match["stop"]
    return Place(
        path, match["node"], None if rank is None else int(rank), int(match["round"]),
        None if stop is None else int(stop),
    )  # fmt: skip


@contextmanager
def unreadable() -> Iterator[None]:
    """Turn what is wrong with a trace into exit code 3."""
    from tsviz.trace.errors import NotABundle, TraceError

    try:
        yield
    except NotABundle as error:
        raise CliError(ExitCode.TRACE_UNREADABLE, str(error), _hint_of_folder(error.path)) from error
    except TraceError as error:
        raise CliError(ExitCode.TRACE_UNREADABLE, str(error)) from error
    except OSError as error:
        raise CliError(
            ExitCode.TRACE_UNREADABLE, f"{error.filename or 'the trace or the cache'}: {error.strerror or error}"
        ) from error


def _hint_of_folder(path: str) -> str:
    """Return what helps whoever named a folder of bundles to a command that takes one bundle; empty for others."""
    from tsviz.query.paths import bundles_of

    inside = [bundle for bundle in bundles_of([path]) if bundle != path]
    if not inside:
        return ""
    count = "1 bundle" if len(inside) == 1 else f"{len(inside):,} bundles"
    return f"this is a folder of {count}: name one, such as {inside[0]}; sql, hits and export take the folder"


def open_recorded(place: Place) -> tuple[Bundle, Part]:
    """Open a bundle as it was recorded, and the part that is meant (the first one if none was named)."""
    from tsviz.trace.reader import open_bundle

    with unreadable():
        bundle = open_bundle(place.path)
    return bundle, _part_of(bundle, place)


def open_place(place: Place, *, derive: bool = True) -> tuple[Bundle, Part]:
    """Open a bundle as `open_recorded`, with its plans where only its calls were recorded.

    These come from the user's cache; `derive`: they are made again if they are not there.
    """
    from tsviz.replay.reexecution.filled import fill, filled, needs_plans

    bundle, _ = open_recorded(place)
    with unreadable():
        bundle = filled(bundle)
        if derive and needs_plans(bundle):
            bundle, _ = fill(bundle, progress=parts_progress())
            clear_progress()
            tell(f"{place.path}: calls were recorded; their plans were made again and compared")
    return bundle, _part_of(bundle, place)


def tell_other_parts(bundle: Bundle, part: Part, place: Place) -> None:
    """Say on standard error that a trace has more parts than the one that is answered for, where none was named."""
    if place.node is None and len(bundle.parts) > 1:
        others = [f"{other.node}/{other.rank}" for other in bundle.parts if other is not part]
        named = others[0] if len(others) == 1 else f"{others[0]} to {others[-1]}"
        tell(f"{part.node}/{part.rank} of {len(bundle.parts):,} parts; {place.path}@NODE/RANK asks another: {named}")


def tell_gaps(parts: Sequence[Part]) -> None:
    """Say on standard error what figures over the rounds of these parts are without."""
    with unreadable():
        said = gaps_of(parts)
    for words in said:
        tell(words)


def gaps_of(parts: Sequence[Part]) -> list[str]:
    """Return what figures over the rounds of these parts are without, a line a part with gaps. Raises `TraceError`."""
    from tsviz.trace.gaps import LostRounds

    lost = [(part, LostRounds(part.table("gaps"))) for part in parts if part.rows("gaps")]
    return [f"{part.node}/{part.rank}: {rounds.uncounted()}" for part, rounds in lost if rounds]


def require_round(place: Place, part: Part) -> None:
    """Raise CliError if a place names a round that its part does not have."""
    if place.round is not None and not 1 <= place.round <= part.last_round:
        raise CliError(ExitCode.USAGE, f"{place.path}@{place.round}: rounds are 1 to {part.last_round:,}")


def _part_of(bundle: Bundle, place: Place) -> Part:
    try:
        return bundle.part(place.node, place.rank)
    except KeyError as error:
        raise CliError(ExitCode.USAGE, f"{place.path}: {error.args[0]}") from None
