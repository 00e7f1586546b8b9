"""`tsviz report`: one offline HTML file about a trace."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .exit_codes import CliError, ExitCode
from .findings import check
from .output import tell
from .params import OutputPath
from .traces import Place, open_place, parse_place, unreadable
from .writing import cannot_write

if TYPE_CHECKING:
    from tsviz.report.subject import Subject, SubjectPart
    from tsviz.trace.reader import Bundle, Part

_MEMORY_BYTES = 2 << 30
_STANDARD_OUTPUT = Path("-")


@click.command("report", short_help="Write one offline HTML file about a trace.")
@click.argument("trace")
@click.option(
    "-o", "--out", "out", type=OutputPath(dir_okay=False), metavar="FILE",
    help="Where to write it; without it NAME.html in this folder; - is standard output.",
)  # fmt: skip
@click.option("--recorded-only", is_flag=True, help="Do not derive decisions; what needs them is left out.")
def command(trace: str, out: Path | None, recorded_only: bool) -> None:
    """Write what is in TRACE as one HTML file that opens in any browser, from disk, without a network.

    \b
    tsviz report traces/mixed-stall                  writes mixed-stall.html
    tsviz report runs/a -o a.html

    Headlines, findings with positions, every request over the rounds, what they wait for, budget, pool and cache,
    latencies, and tables. Positions are copied with a click and go into any command.
    """
    from tsviz.query.problem import QueryError
    from tsviz.report.library import NoPlotly, library
    from tsviz.report.page import page

    try:
        code = library()
    except NoPlotly as error:
        raise CliError(ExitCode.USAGE, str(error)) from None
    place = parse_place(trace)
    bundle, chosen = open_place(place)
    subject = subject_of(place, bundle, bundle.parts if place.node is None else [chosen], recorded_only)
    try:
        html = page(subject, code)
    except QueryError as error:
        raise CliError(ExitCode.QUERY_FAILED, f"{place.path}: {error.problem.message}") from error
    if out == _STANDARD_OUTPUT:
        sys.stdout.buffer.write(html.encode())
        return
    target = out or Path(f"{place.path.resolve().name}.html")
    _write(target, html)
    tell(f"{target}: {len(html.encode()) / 1e6:.2f} MB")


def subject_of(place: Place, bundle: Bundle, parts: Sequence[Part], recorded_only: bool) -> Subject:
    """Return what a report on these parts is made of, deriving decisions unless only recorded ones are wanted."""
    from tsviz.query.catalog import Catalog
    from tsviz.query.locked import Limits, Locked
    from tsviz.replay.overview import overview
    from tsviz.replay.reexecution.index import open_indexed
    from tsviz.report.subject import Subject
    from tsviz.version import __version__

    with unreadable():
        analysed = [_part(bundle, part, recorded_only) for part in parts]
        about = overview(bundle)
        opened = bundle if recorded_only else open_indexed(place.path)
        locked = Locked(Catalog([opened]), Limits(_MEMORY_BYTES, seconds=None, rows=None))
    return Subject(str(place.path), about, lambda sql: locked.query(sql)[0].to_pylist(), analysed, __version__)


def _part(bundle: Bundle, part: Part, recorded_only: bool) -> SubjectPart:
    from tsviz.report.subject import SubjectPart

    checked, read = check(bundle, part, recorded_only)
    facts = read()
    shares = []
    if facts is not None:
        from tsviz.replay.lost.blame import blame
        from tsviz.replay.lost.blame import shares as sums

        shares = sums(blame(facts), "cause")
    return SubjectPart(part.node, part.rank, checked, shares)


def _write(target: Path, html: str) -> None:
    """Write the file beside and put it in its place, so that nobody sees half of it; only a report is written over."""
    draft = target.with_name(target.name + ".part")
    try:
        if target.exists() and not _is_report(target):
            raise CliError(ExitCode.USAGE, f"{target}: expected a new file or a report, found another file")
        draft.write_text(html, encoding="utf-8", newline="\n")
        draft.replace(target)
    except OSError as error:
        with suppress(OSError):
            draft.unlink()
        raise CliError(ExitCode.USAGE, cannot_write(target, error)) from error


def _is_report(path: Path) -> bool:
    with path.open("rb") as file:
        return b"tsviz report</title>" in file.read(4096)
