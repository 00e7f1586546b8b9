"""`tsviz export`: a trace as files that other tools read."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .exit_codes import CliError, ExitCode
from .level import not_recorded
from .output import tell
from .params import OutputPath
from .rows import format_option, print_rows
from .sql import end_without
from .traces import Place, open_place, traces_or_parts, unreadable
from .writing import writing

if TYPE_CHECKING:
    from tsviz.query.locked import Locked


_MEMORY_BYTES = 2 << 30


@click.command("export", short_help="Write a trace as files that other tools read.")
@click.argument("traces", nargs=-1, required=True, metavar="TRACE...")
@click.option(
    "--parquet",
    "directory",
    type=OutputPath(file_okay=False),
    metavar="DIR",
    help="Write a Parquet dataset into this directory, which must be new or empty.",
)
@click.option(
    "--csv",
    "csv",
    type=OutputPath(file_okay=False),
    metavar="DIR",
    help="Write a CSV file a table into this directory, which must be new or empty.",
)
@click.option(
    "--perfetto",
    "perfetto",
    type=OutputPath(dir_okay=False),
    metavar="FILE",
    help="Write one trace as a file that the Perfetto UI opens.",
)
@click.option(
    "--otel",
    "otel",
    type=OutputPath(dir_okay=False),
    metavar="FILE",
    help="Write the requests of one trace as OpenTelemetry spans (OTLP JSON).",
)
@click.option("--table", "tables", multiple=True, metavar="NAME", help="Only this table; may be given again.")
@format_option
def command(
    traces: tuple[str, ...],
    directory: Path | None,
    csv: Path | None,
    perfetto: Path | None,
    otel: Path | None,
    tables: tuple[str, ...],
    form: str,
) -> None:
    """Write TRACE (bundles, folders, patterns; TRACE@NODE/RANK: a part) as a dataset, as CSV, for Perfetto or as spans.

    A bundle of a folder or pattern that cannot be read is named and left out, and the command ends with code 3.

    Parquet: one folder a table, partitioned by trace, node and rank, sorted, for DuckDB, Spark, Trino, Daft or pandas;
    decided tables too where they are recorded or indexed. docs/export.md has the statements that read it.

    \b
    tsviz export run.tsviz --parquet run.parquet
    duckdb -c "SELECT count(*) FROM read_parquet('run.parquet/rounds/**/*.parquet', hive_partitioning = true)"
    tsviz export run.tsviz --csv run.csv
    tsviz export run.tsviz --perfetto run.pftrace     open it at ui.perfetto.dev
    tsviz export run.tsviz --otel run.otlp.jsonl      a span a request, with what was decided about it
    """
    from tsviz.query.export import exported_tables
    from tsviz.query.opening import open_several, open_with_tables
    from tsviz.query.paths import bundles_of, unnamed
    from tsviz.replay.reexecution.index import open_indexed
    from tsviz.trace.errors import TraceError

    if sum(target is not None for target in (directory, csv, perfetto, otel)) != 1:
        raise CliError(ExitCode.USAGE, "expected one of --parquet, --csv, --perfetto and --otel")
    if unknown := sorted(set(tables) - set(exported_tables())):
        raise CliError(ExitCode.USAGE, f"no table {unknown[0]}", "there are " + ", ".join(exported_tables()))
    given = traces_or_parts(traces, "a round is WHERE round = {round} in what reads it")
    paths = bundles_of(given)
    with unreadable():
        if perfetto is not None or otel is not None:
            _derive(paths)
        bundles: list[Any]
        try:
            bundles, left_out = open_several(
                lambda path: open_with_tables(open_indexed, path),
                paths,
                unnamed(paths, given),
                (TraceError, LookupError),
            )
        except LookupError as error:
            raise CliError(ExitCode.TRACE_UNREADABLE, str(error)) from None
    target = next(path for path in (directory, csv, perfetto, otel) if path is not None)
    try:
        with writing(target):
            if directory is not None:
                rows = _parquet(bundles, directory, tables)
            elif csv is not None:
                rows = _csv(bundles, csv, tables)
            elif tables or len(bundles) != 1:
                raise CliError(ExitCode.USAGE, f"--{'otel' if otel else 'perfetto'} takes one trace, and no --table")
            elif perfetto is not None:
                rows = [_perfetto(bundles, paths[0], perfetto)]
            else:
                rows = [_otel(bundles, paths[0], otel)]
    except TraceError as error:
        raise CliError(ExitCode.TRACE_UNREADABLE, str(error)) from error
    except OSError as error:
        raise CliError(ExitCode.USAGE, str(error), "a file must be new, a directory new or empty") from error
    print_rows(rows, form)
    for words in not_recorded(paths):
        tell(words)
    end_without([str(one) for one in left_out])


def _derive(paths: list[str]) -> None:
    """Derive what was decided: without it there are no waits and no flows."""
    from tsviz.query.paths import split_part

    from .why import decisions_of

    for path, chosen in map(split_part, paths):
        for part in open_place(Place(Path(path)))[0].parts:
            if chosen in (None, (part.node, part.rank)):
                decisions_of(part)


def _parquet(bundles: list[Any], directory: Path, tables: tuple[str, ...]) -> list[dict[str, Any]]:
    from tsviz.query.export import export_parquet

    return [asdict(one) for one in export_parquet(bundles, directory, tables)]


def _csv(bundles: list[Any], directory: Path, tables: tuple[str, ...]) -> list[dict[str, Any]]:
    from tsviz.query.export import exported_tables, new_directory

    from .output import Format, write

    locked, rows = _locked(bundles), []
    with new_directory(directory) as draft:
        for table in tables or exported_tables():
            file = draft / f"{table}.csv"
            with locked.stream(f'FROM "{table}"') as stream, file.open("wb") as out:
                write(stream, Format.CSV, out)
            assert stream.total is not None
            rows.append({"table": table, "rows": stream.total.rows, "bytes": file.stat().st_size})
    return rows


def _perfetto(bundles: list[Any], path: str, file: Path) -> dict[str, Any]:
    from tsviz.adapters.perfetto import NoPerfetto, write_perfetto
    from tsviz.query.paths import split_part

    from .perfetto_rows import rows_of

    if file.exists():
        raise FileExistsError(f"{file}: expected a new file")
    draft = file.with_name(file.name + ".part")
    try:
        with draft.open("wb") as out:
            written = write_perfetto(rows_of(_locked(bundles), Path(split_part(path)[0])), out)
        draft.replace(file)
    except NoPerfetto as error:
        raise CliError(ExitCode.USAGE, str(error)) from None
    finally:
        draft.unlink(missing_ok=True)
    return {
        "file": str(file), "bytes": file.stat().st_size, "requests": written.request_tracks, "flows": written.flows,
        "counter_values": written.counter_values, **{f"{name}s": n for name, n in written.events.items()},
    }  # fmt: skip


def _otel(bundles: list[Any], path: str, file: Path | None) -> dict[str, Any]:
    from tsviz.adapters.otel import write_otlp
    from tsviz.replay.identity import identity
    from tsviz.trace.reader import open_bundle
    from tsviz.version import __version__

    from .otel_rows import spans_of

    assert file is not None
    if file.exists():
        raise FileExistsError(f"{file}: expected a new file")
    bundle = open_bundle(path)
    draft = file.with_name(file.name + ".part")
    try:
        with draft.open("wb") as out:
            seed = identity(bundle, bundle.parts[0])
            written = write_otlp(spans_of(_locked(bundles), bundle), seed, out, __version__)
        draft.replace(file)
    finally:
        draft.unlink(missing_ok=True)
    return {"file": str(file), "bytes": file.stat().st_size, "spans": written.spans, "events": written.events.total()}


def _locked(bundles: list[Any]) -> Locked:
    from tsviz.query.catalog import Catalog
    from tsviz.query.locked import Limits, Locked

    return Locked(Catalog(bundles), Limits(_MEMORY_BYTES, seconds=None, rows=None))
