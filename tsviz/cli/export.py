"""`tsviz export`: a trace as files that other tools read."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from .exit_codes import CliError, ExitCode
from .params import OutputPath
from .rows import format_option, print_rows
from .traces import unreadable


@click.command("export", short_help="Write a trace as files that other tools read.")
@click.argument("traces", nargs=-1, required=True, metavar="TRACE...")
@click.option(
    "--parquet", "directory", required=True, type=OutputPath(file_okay=False), metavar="DIR",
    help="Write a Parquet dataset into this directory, which must be new or empty.",
)  # fmt: skip
@click.option("--table", "tables", multiple=True, metavar="NAME", help="Only this table; may be given again.")
@format_option
def command(traces: tuple[str, ...], directory: Path, tables: tuple[str, ...], form: str) -> None:
    """Write TRACE (bundles, folders of bundles, patterns) as a dataset for DuckDB, Spark, Trino, Daft or pandas.

    One folder a table, partitioned by trace, node and rank, sorted; decided tables too where they are recorded or
    indexed. docs/export.md has the statements that read it.

    \b
    tsviz export run.tsviz --parquet run.parquet
    duckdb -c "SELECT count(*) FROM read_parquet('run.parquet/rounds/**/*.parquet', hive_partitioning = true)"
    """
    from tsviz.query.export import export_parquet, exported_tables
    from tsviz.query.paths import bundles_of
    from tsviz.replay.index import open_indexed
    from tsviz.trace.errors import TraceError

    if unknown := sorted(set(tables) - set(exported_tables())):
        raise CliError(ExitCode.USAGE, f"no table {unknown[0]}", "there are " + ", ".join(exported_tables()))
    with unreadable():
        bundles = [open_indexed(path) for path in bundles_of(traces)]
    try:
        written = export_parquet(bundles, directory, tables)
    except TraceError as error:
        raise CliError(ExitCode.TRACE_UNREADABLE, str(error)) from error
    except OSError as error:
        raise CliError(ExitCode.USAGE, str(error), "--parquet names a directory that is new or empty") from error
    print_rows([asdict(one) for one in written], form)
