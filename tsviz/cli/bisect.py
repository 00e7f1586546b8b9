"""`tsviz bisect`: which version of the real package plans otherwise."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .exit_codes import CliError, ExitCode
from .output import tell
from .rows import format_option, print_rows
from .sheltered import load_sheltered_or_twin
from .traces import open_place, parse_place, unreadable

if TYPE_CHECKING:
    from tsviz.replay.bisect.search import Bisected, Compared


@click.command("bisect", short_help="Find the version of the real package that changed a plan.")
@click.argument("trace")
@click.option("--versions", metavar="A..B", help="From the recorded version to the newest without it.")
@click.option(
    "--set", "settings", multiple=True, metavar="NAME=NUMBER",
    help="A config field that other versions need; a version that does not know it goes without.",
)  # fmt: skip
@format_option
def command(trace: str, versions: str | None, settings: tuple[str, ...], form: str) -> None:
    """Make the run of TRACE on other versions of tokenspeed-scheduler and say where the plans change.

    Each version is installed by pip beside the others and runs in a process of its own: a closed loop if that makes the
    recorded plans, otherwise the recorded calls. If the trace has a finding, every version is also asked for it. A
    version that cannot make the run is named with the reason. TRACE@ROUND ends the run there. Needs the package index.

    \b
    tsviz bisect small.tsviz --versions 0.1.20..0.1.42
    tsviz bisect small.tsviz --set num_snapshot_pages=9
    """
    from tsviz.replay.bisect.runner import job_of
    from tsviz.replay.bisect.search import BadVersions, CannotBegin, bisect, chosen
    from tsviz.replay.bisect.versions import DISTRIBUTION, NoIndex, Versions, available_versions
    from tsviz.replay.repro.data import TooLong
    from tsviz.replay.repro.script import find, script_of
    from tsviz.replay.scenario.scenario import NotAScenario

    more = _settings(settings)
    place = parse_place(trace)
    _, part = open_place(place)
    if part.engine.get("name") != DISTRIBUTION:
        raise CliError(
            ExitCode.USAGE, f"{place.path}: expected a trace of {DISTRIBUTION}, found {part.engine.get('name')}"
        )
    base = str(part.engine.get("version"))
    module = load_sheltered_or_twin()
    try:
        with unreadable():
            finding = None if place.round is not None else find(part)
            rounds = place.round or (finding.shown_by if finding is not None else part.last_round)
            script, reason = script_of(part, module, max(1, min(rounds, part.last_round)))
        tell(reason)
        several = chosen(available_versions(), versions, base)
        script.settings.update(more)
        job = job_of(script, finding.name if finding is not None else None, part.config["max_scheduled_tokens"])
        with tempfile.TemporaryDirectory(prefix="tsviz-bisect-") as folder:
            result = bisect(several, base, Versions(Path(folder), job).run, _tell)
    except (BadVersions, TooLong, NotAScenario) as error:
        raise CliError(ExitCode.USAGE, f"{place.path}: {error}") from error
    except (NoIndex, CannotBegin) as error:
        raise CliError(ExitCode.QUERY_FAILED, str(error)) from error
    print_rows([_row(compared) for compared in result.versions], form)
    for sentence in _sentences(result, base, None if finding is None else finding.name):
        tell(sentence)


def _settings(texts: tuple[str, ...]) -> dict[str, int]:
    """Read NAME=NUMBER."""
    found = {}
    for text in texts:
        name, _, value = text.partition("=")
        if not name.isidentifier() or not value.isascii() or not value.isdigit():
            raise CliError(ExitCode.USAGE, f"--set: expected NAME=NUMBER, found {text!r}")
        found[name] = int(value)
    return found


def _tell(compared: Compared) -> None:
    where = "" if compared.round is None else f" in round {compared.round:,}"
    tell(f"{compared.version}: {compared.outcome}{where} {compared.note}".rstrip())


def _row(compared: Compared) -> dict[str, object]:
    return {
        "version": compared.version, "outcome": compared.outcome, "round": compared.round,
        "finding": None if compared.finding is None else ("there" if compared.finding else "gone"),
        "shows": compared.shows, "expected": compared.expected, "got": compared.got, "note": compared.note,
    }  # fmt: skip


def _sentences(result: Bisected, base: str, finding: str | None) -> list[str]:
    """Say in words what the table says, and how much of it is not known."""
    if result.first_changed is None:
        said = [f"no later version that could make the run plans otherwise than {base}"]
    else:
        said = [f"{result.first_changed} is the first later version that plans otherwise than {base}"]
    there = {c.version: c for c in result.versions}
    if finding is not None and result.first_without is None:
        last = [c.version for c in result.versions if c.finding][-1]
        said.append(f"{finding}: still there in every later version that could make the run, the last is {last}")
    elif finding is not None and result.first_without is not None:
        shows = there[result.first_without].shows
        said.append(f"{finding}: gone in {result.first_without}" + (f", which shows {shows} instead" if shows else ""))
    if failed := [c.version for c in result.versions if c.outcome == "cannot run"]:
        said.append(f"{len(failed)} of {len(there)} versions could not make the run: {', '.join(failed)}")
    return said
