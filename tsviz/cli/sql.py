"""`tsviz sql`: one query over one or several traces, in a process of its own (debugger.md, section 7)."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .exit_codes import CliError, ExitCode
from .following import Novelty, follow_option, grown, require_lines
from .level import not_recorded, without_decisions, without_rounds
from .output import BINARY, Format, Held, clean, quiet_pipe, tell, write
from .params import seconds_option
from .traces import traces_or_parts

if TYPE_CHECKING:
    from tsviz.query.problem import Problem
    from tsviz.query.reference import Described

OPENER = "tsviz.replay.reexecution.index:open_indexed"
"""What the query process opens a trace with: decided tables are recorded, or come from the user's index."""
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_LEAST_MEMORY_BYTES = 64 << 20
_MOST_MEMORY_BYTES = 1 << 40
_MOST_QUERY_BYTES = 4 << 20
_LINE_WIDTH = 100


def _bytes(_context: click.Context, _option: click.Parameter, text: str) -> int:
    """Read a size such as 512MiB, 2GiB or 2G."""
    found = re.fullmatch(r"(\d+)\s*([KMG]?)(?:i?B)?", text, re.IGNORECASE)
    if found is None:
        raise click.BadParameter(f"expected a size such as 512MiB or 2GiB, found {text!r}")
    size = int(found[1]) * _UNITS[found[2].upper()]
    if size < _LEAST_MEMORY_BYTES:
        raise click.BadParameter(f"at least {_LEAST_MEMORY_BYTES >> 20} MiB are needed, found {text!r}")
    return size


@click.command("sql")
@click.argument("arguments", nargs=-1, metavar="TRACE... [QUERY]")
@click.option("-f", "--file", "file", type=click.Path(exists=True, dir_okay=False), help="Read the query from a file.")
@click.option("--format", "form", type=click.Choice([f.value for f in Format]), default="table", show_default=True)
@click.option("--limit", type=click.IntRange(min=0), default=10_000, show_default=True, help="Rows; 0 is all.")
@seconds_option("--timeout", 60.0, "Seconds until the query is stopped.")
@click.option(
    "--memory",
    metavar="SIZE",
    callback=_bytes,
    default="1GiB",
    show_default=True,
    help="Memory of the query engine; its process is held to twice that.",
)
@follow_option
@click.option("--tables", is_flag=True, help="List tables, views and macros, and end.")
@click.option("--schema", metavar="NAME", help="List the columns of one of them, and end.")
@click.option("--opener", hidden=True, default=OPENER)
@click.pass_context
def command(
    context: click.Context,
    arguments: tuple[str, ...],
    file: str | None,
    form: str,
    limit: int,
    timeout: float,
    memory: int,
    follow: bool,
    tables: bool,
    schema: str | None,
    opener: str,
) -> None:
    """Ask traces with SQL.

    TRACE is a bundle, a folder of bundles, or a quoted pattern such as "runs/*"; the column `trace` tells them apart.
    TRACE@NODE/RANK is one part of it.
    The query is the last argument, or comes from --file or standard input. Data goes to standard output, everything
    else to standard error. `--tables` and `--schema NAME` need no trace; docs/sql.md has the whole reference.

    \b
    tsviz sql run.tsviz "SELECT request, ttft_ns FROM requests ORDER BY ttft_ns DESC LIMIT 10"
    tsviz sql run.tsviz "FROM block_table('r17', 1204)"
    tsviz sql runs/ "SELECT trace, p99_ns / 1e6 AS p99_ms FROM ttft"
    tsviz sql a.tsviz b.tsviz --format csv -f query.sql > result.csv
    tsviz sql serving --follow "SELECT round, retracted_requests FROM rounds WHERE retracted_requests > 0"

    A folder stands for the bundles right in it. Of these, and of a pattern's, one that cannot be read is named on
    standard error and left out, and the answer, which is of the others, ends with code 3.

    Exit codes: 0 ok, 1 query failed, 2 usage, 3 trace unreadable, 4 timeout, 130 interrupted.
    """
    kind = Format(form)
    if kind in BINARY and sys.stdout.isatty():
        raise CliError(ExitCode.USAGE, f"{kind.value} is no text for a terminal", "redirect standard output to a file")
    try:
        with quiet_pipe():
            if tables:
                _list_tables(kind)
            elif schema is not None:
                _list_columns(schema, kind)
            else:
                paths, sql = _split(arguments, file)
                answer = _follow if follow else _run
                given = traces_or_parts(paths, "in the query: WHERE round = {round}")
                answer(given, sql, kind, limit or None, timeout, memory, opener)
    except KeyboardInterrupt:
        context.exit(ExitCode.INTERRUPTED)


def _split(arguments: Sequence[str], file: str | None) -> tuple[list[str], str]:
    """Tell traces from the query: with --file all are traces; else the last is the query unless it is a path."""
    paths = list(arguments)
    if file is not None:
        try:
            sql = _read(Path(file))
        except UnicodeDecodeError as error:
            found = f"byte {error.object[error.start]:02x} at {error.start}"
            raise CliError(ExitCode.USAGE, f"{file}: expected UTF-8, found {found}") from None
    elif len(paths) > 1 and (not paths[-1] or not _exists(paths[-1])):
        sql = typed(paths.pop())
    elif sys.stdin.isatty():
        raise CliError(ExitCode.USAGE, "no query", "give it behind the trace, with --file, or on standard input")
    else:
        sql = sys.stdin.read()
    if not paths:
        raise CliError(ExitCode.USAGE, "no trace", "tsviz sql TRACE... [QUERY]")
    if not sql.strip():
        raise CliError(ExitCode.USAGE, "the query is empty")
    return paths, sql


def _read(file: Path) -> str:
    """Return the query in a file. Raises CliError for one that is no plain file, cannot be read, or is too long."""
    try:
        if not file.is_file():
            raise CliError(ExitCode.USAGE, f"{file}: expected a plain file, found something else")
        with file.open("rb") as stream:
            found = stream.read(_MOST_QUERY_BYTES + 1)
    except OSError as error:
        raise CliError(ExitCode.USAGE, f"{file}: {error.strerror or error}") from None
    if len(found) > _MOST_QUERY_BYTES:
        raise CliError(ExitCode.USAGE, f"{file}: expected a query of at most {_MOST_QUERY_BYTES:,} bytes, found more")
    return found.decode()


def typed(argument: str) -> str:
    """Return an argument as it was typed: UTF-8, whatever the locale made of it."""
    try:
        return os.fsencode(argument).decode()
    except UnicodeError:
        shown = argument.encode(errors="replace").decode()
        raise CliError(ExitCode.USAGE, f"expected UTF-8, found {shown!r}") from None


def _exists(path: str) -> bool:
    try:
        return Path(path).exists()
    except (OSError, ValueError):
        return False


def _run(paths: list[str], sql: str, form: Format, limit: int | None, timeout: float, memory: int, opener: str) -> None:
    import pyarrow as pa

    from tsviz.query.child import ask
    from tsviz.query.locked import Limits
    from tsviz.query.paths import bundles_of, unnamed
    from tsviz.query.problem import QueryError
    from tsviz.query.views import decided_in, rounds_asked

    limits = Limits(memory_bytes=memory, seconds=timeout, rows=limit)
    bundles = bundles_of(paths)
    try:
        with ask(bundles, sql, limits, opener, optional=unnamed(bundles, paths)) as answer:
            notes = write(answer, form, sys.stdout.buffer, width=terminal_width())
            total, left_out, columns = answer.total, answer.left_out, answer.schema.names
    except QueryError as error:
        raise failure(error.problem, sql) from error
    except pa.ArrowException as error:
        raise CliError(ExitCode.QUERY_FAILED, f"{form.value} cannot hold the result: {error}", "cast it") from error
    assert total is not None
    cut = total.of > total.rows or not total.exact
    if form is Format.TABLE or cut:
        tell(f"{total}" + ("; --limit 0 gives all" if cut else ""))
    named = decided_in(sql, columns)
    lacking = (*without_decisions(bundles, named), *without_rounds(bundles, rounds_asked(sql)))
    for note in (*notes, *not_recorded(bundles), *lacking):
        tell(note)
    end_without([problem.message for problem in left_out])


def _follow(
    paths: list[str], sql: str, form: Format, limit: int | None, timeout: float, memory: int, opener: str
) -> None:
    """Ask whenever more is committed, and write the rows that were not in the answer before."""
    import pyarrow as pa

    from tsviz.query.child import ask
    from tsviz.query.locked import Limits
    from tsviz.query.problem import QueryError

    require_lines(form)
    novelty = Novelty(form, sys.stdout.buffer, terminal_width())
    limits = Limits(memory_bytes=memory, seconds=timeout, rows=limit)
    for now in grown(paths):
        try:
            with ask([str(now.bundle.path)], sql, limits, opener) as answer:
                novelty.write(pa.Table.from_batches(list(answer), answer.schema))
                total = answer.total
        except QueryError as error:
            raise failure(error.problem, sql) from error
        if total is not None and (total.of > total.rows or not total.exact):
            tell(f"{total}; --limit 0 gives all")
        if now.ended:
            tell(", ".join(f"{name}: {look.state}, {look.rounds:,} rounds" for name, look in now.looks.items()))


def end_without(left_out: Sequence[str]) -> None:
    """Name the bundles that the answer is without; raises CliError if there are any."""
    for reason in left_out:
        tell(f"warning: left out: {reason}")
    if left_out:
        count = f"{len(left_out)} trace" + ("" if len(left_out) == 1 else "s")
        raise CliError(ExitCode.TRACE_UNREADABLE, f"{count} could not be read; the answer is of the others")


def failure(problem: Problem, sql: str) -> CliError:
    """Return a problem as the end of a command, pointing at its place in the text that was asked."""
    from tsviz.query.problem import Kind

    codes = {
        Kind.TRACE: ExitCode.TRACE_UNREADABLE,
        Kind.TIMEOUT: ExitCode.TIMEOUT,
        Kind.CANCELLED: ExitCode.INTERRUPTED,
    }
    hints = {
        Kind.TIMEOUT: "give it longer with --timeout",
        Kind.MEMORY: "give it more with --memory, or ask for less",
        Kind.REFUSED: "tsviz sql reads and nothing else",
    }
    # The engine says some things in lines; of a trace there is one, which may name a path that has lines.
    message, _, below = (problem.message, "", "") if problem.kind is Kind.TRACE else problem.message.partition("\n")
    if problem.at is not None:
        below = "\n".join(filter(None, (below, caret(sql, *problem.at))))
    hint = "did you mean " + ", ".join(problem.candidates) if problem.candidates else hints.get(problem.kind, "")
    return CliError(codes.get(problem.kind, ExitCode.QUERY_FAILED), message, hint, below)


def caret(sql: str, first: int, length: int) -> str:
    """Return the line of the query in which the error is, and a line that points at it."""
    start = sql.rfind("\n", 0, first) + 1
    end = sql.find("\n", first)
    line, column = sql[start : end if end >= 0 else len(sql)], first - start
    skip = max(0, column - _LINE_WIDTH // 2)
    shown = clean(line[skip : skip + _LINE_WIDTH])
    label = f"line {sql.count(chr(10), 0, start) + 1}: "
    marks = "^" * max(1, min(length, len(shown) - (column - skip)))
    return f"{label}{shown}\n{' ' * (len(label) + column - skip)}{marks}"


def _list_tables(form: Format) -> None:
    import pyarrow as pa

    from tsviz.query.reference import described

    rows = [
        {"kind": d.kind, "name": d.signature, "columns": [c[0] for c in d.columns], "doc": d.doc, "example": d.example}
        for d in described()
    ]
    if form is not Format.TABLE:
        write(Held(pa.Table.from_pylist(rows)), form, sys.stdout.buffer)
        return
    for kind in ("table", "view", "macro"):
        click.echo(f"{kind}s")
        for relation in described():
            if relation.kind == kind:
                click.echo(f"  {relation.signature}\n      {relation.doc}")
    tell("tsviz sql --schema NAME lists columns")


def _list_columns(name: str, form: Format) -> None:
    import pyarrow as pa

    relation = _find(name)
    fields = ("column", "type", "doc")
    rows = [dict(zip(fields, column, strict=True)) for column in relation.columns]
    width = None if form is Format.TABLE else terminal_width()
    write(Held(pa.Table.from_pylist(rows)), form, sys.stdout.buffer, width=width)
    if form is Format.TABLE:
        tell(f"{relation.kind} {relation.signature}: {relation.doc}")
        tell(f"example: {relation.example}")


def _find(name: str) -> Described:
    from difflib import get_close_matches

    from tsviz.query.reference import described

    relations = {d.name: d for d in described()}
    if name not in relations:
        near = get_close_matches(name, relations)
        raise CliError(
            ExitCode.USAGE, f"no table, view or macro {name}", "did you mean " + ", ".join(near) if near else ""
        )
    return relations[name]


def terminal_width() -> int | None:
    """Return the width of the terminal on standard output; None where there is none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None
