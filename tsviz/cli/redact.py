"""`tsviz redact`: a trace that can be given away."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from .exit_codes import CliError, ExitCode
from .output import tell
from .params import OutputPath
from .rows import format_option, print_rows
from .traces import open_recorded, parse_place, unreadable, whole_traces
from .writing import writing


@click.command("redact", short_help="Write a trace without what its prompts say.")
@click.argument("trace")
@click.argument("out", type=OutputPath(), required=False)
@click.option("--check", is_flag=True, help="Write nothing: say what is in TRACE; exit code 1 if it is private.")
@format_option
def command(trace: str, out: Path | None, check: bool, form: str) -> None:
    """Write TRACE to OUT without tokens, hashes of them, free text, the date, and with request ids renamed.

    What survives: lengths, times between things, which prefix pages are equal, what was decided, the scheduler's config
    and the names of its cache groups. OUT re-executes to the same structural digests; a slice with
    tokens in full does not, since its keyframe goes, which is said: redact the whole trace and slice that. Then OUT is
    looked through, and what stands in it is listed; `--check` does that alone, with any trace.

    \b
    tsviz redact serving shared && tsviz pack shared shared.tsviz
    """
    from tsviz.replay.redaction.redact import write_redacted
    from tsviz.replay.redaction.survives import survey
    from tsviz.trace.errors import CannotRecord
    from tsviz.trace.reader import open_bundle

    if check == (out is not None):
        raise CliError(ExitCode.USAGE, "expected either OUT or --check")
    place = parse_place(whole_traces([trace])[0])
    bundle, _ = open_recorded(place)
    if out is not None:
        try:
            with unreadable(), writing(out):
                said = write_redacted(bundle, out)
        except CannotRecord as error:
            raise CliError(ExitCode.USAGE, str(error)) from error
        for words in said:
            tell(f"left out: {words}")
    with unreadable():
        left = survey(open_bundle(out) if out is not None else bundle)
    print_rows([asdict(row) for row in left], form)
    private = sum(row.private for row in left)
    if private:
        raise CliError(ExitCode.QUERY_FAILED, f"{out or place.path}: {private} places may tell something private")
