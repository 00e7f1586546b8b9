"""`tsviz run`: record a program that nobody edits."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .exit_codes import CliError, ExitCode
from .level import CALLS, PLANS, level_option
from .output import tell
from .params import OutputPath
from .retaining import retain_option, retention_of, tell_removed
from .ringing import Keepers, nothing_kept, ring_of, ring_options, signals_of

if TYPE_CHECKING:
    from tsviz.adapters.live import LiveOptions

_FINISH_SECONDS = 60.0
_BEGIN_SECONDS = 10.0
"""How long a writing process may take to begin; the program may have been killed before it had one."""


@click.command(
    "run", short_help="Record a program that drives the real scheduler.",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)  # fmt: skip
@click.option("--out", type=OutputPath(), required=True, help="Directory of the new bundle; a second process: OUT-2.")
@click.option(
    "--tokens", type=click.Choice(("full", "identity")), default="identity", show_default=True,
    help="identity keeps only which prefix pages are equal: no token and no hash of one.",
)  # fmt: skip
@level_option((CALLS, PLANS), f"Default: {PLANS}.")
@retain_option
@ring_options
@click.option("--quiet", is_flag=True, help="Say nothing at the end.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND [ARG]...")
def command(
    out: Path,
    tokens: str,
    level: str | None,
    retain: tuple[str, ...],
    ring: str | None,
    trigger: tuple[str, ...],
    keep: int,
    quiet: bool,
    command: tuple[str, ...],
) -> None:
    """Run COMMAND and record every scheduler of tokenspeed_scheduler that it, or a Python process under it, builds.

    Its output, input and exit code are its own, and signals reach it. Recording never stops it: what goes wrong is said
    on standard error. Prompts stay out of the trace unless --tokens full is given (docs/recording.md).

    \b
    tsviz run --out serving -- python serve.py --port 8000
    """
    from .passing import held, run_through, vanish

    with held() as mask:
        from tsviz.adapters.live import FAILED_VARIABLE, LiveOptions, bundle_paths

        for path in bundle_paths(out)[:2]:
            _check_free(path, ring=ring is not None)
        level = level or PLANS
        flight, keepers = ring_of(ring, trigger, keep, level), Keepers(told=True)
        limits = retention_of(retain, flight)
        options = LiveOptions(
            str(out.absolute()), tokens, level,
            None if flight is None else flight.values(), keeper=False,
            retention=None if limits is None else limits.values(),
        )  # fmt: skip
        failed = os.memfd_create("failed")  # there on a read-only disk too
        noted = {FAILED_VARIABLE: f"/proc/{os.getpid()}/fd/{failed}"}
        try:
            status = run_through(
                command, environment(options) | noted, mask=mask, ours=signals_of(flight),
                taken=lambda number: keepers.pull(f"signal {number.name}"),
                meanwhile=lambda: keepers.look(homes(out)) if flight is not None else None,
            )  # fmt: skip
        except OSError as error:
            raise CliError(ExitCode.USAGE, f"{command[0]}: {error.strerror or error}") from error
    rings, said = homes(out), list[str]()
    if flight is not None:
        for home in rings:
            _await(home)
        keepers.look(rings)
        said = keepers.wait(os.waitstatus_to_exitcode(status))
        for words in said:
            tell(f"tsviz: {words}")
    bundles = [path for name in bundle_paths(out) for path in (name, *later(name, keep)) if path.exists()]
    for path in bundles:
        _finish(path, quiet)
        if not quiet:
            tell_removed(path)
    if not bundles and not said and not quiet and not os.fstat(failed).st_size:
        tell(f"tsviz: {_nothing(rings)}")
    vanish(status)


def _check_free(out: Path, *, ring: bool) -> None:
    """Refuse a path at which something is, a link to nowhere too, and with a ring one of another ring. CliError."""
    from tsviz.trace.layout import RING_FILE
    from tsviz.trace.ring import ring_home

    for path in (out, ring_home(out)) if ring else (out,):
        if os.path.lexists(path):
            there = f"; it holds a flight recorder's segments: `tsviz repair {path} NEW` makes a trace of them"
            more = there if (path / RING_FILE).exists() else ""
            raise CliError(ExitCode.USAGE, f"{path}: expected a path that is free, found something there{more}")


def homes(out: Path) -> list[Path]:
    """Return the rings that processes of this command have begun."""
    from tsviz.adapters.live import bundle_paths
    from tsviz.trace.ring import ring_home

    found = []
    for path in bundle_paths(out):
        if not ring_home(path).is_dir() and not path.exists():
            break
        found += [ring_home(path)] if ring_home(path).is_dir() else []
    return found


def later(out: Path, keep: int) -> list[Path]:
    """Return where the keeper of a ring writes the traces behind its first one."""
    return [out.with_name(f"{out.name}.{number}") for number in range(2, keep + 2)]


def environment(options: LiveOptions) -> dict[str, str]:
    """Return this process's environment with what makes Python processes under it record."""
    import tsviz
    from tsviz.adapters import live

    package = Path(tsviz.__file__).resolve().parent
    paths = [str(package / "adapters" / "startup"), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {
        "PYTHONPATH": os.pathsep.join(paths),
        live.OPTIONS_VARIABLE: options.text(),
        live.PACKAGE_VARIABLE: str(package),
    }


def _nothing(rings: list[Path]) -> str:
    """Return why there is no trace at the end."""
    if not rings:
        return "no scheduler of tokenspeed_scheduler was built; nothing was recorded"
    return nothing_kept(rings)


def _await(path: Path) -> None:
    """Wait for what writes at `path`, a process of its own, which begins and ends a little later than the program."""
    from tsviz.trace import layout
    from tsviz.trace.layout import RING_FILE
    from tsviz.trace.lock import ALIVE, recorder_of

    began = time.monotonic()
    while not any((path / name).exists() for name in (layout.BUNDLE_FILE, RING_FILE)):
        if time.monotonic() - began > _BEGIN_SECONDS or not path.is_dir() or not os.statvfs(path).f_bavail:
            break
        time.sleep(0.05)
    while recorder_of(path) == ALIVE and time.monotonic() - began < _FINISH_SECONDS:
        time.sleep(0.05)


def _finish(path: Path, quiet: bool) -> None:
    """Compact a bundle whose process closed it, and say what is in it."""
    from tsviz.trace import compact, layout
    from tsviz.trace.errors import TraceError
    from tsviz.trace.lock import ALIVE, recorder_of
    from tsviz.trace.reader import open_bundle

    from .writing import not_compacted, rounds_of

    words: list[str]
    _await(path)
    try:
        bundle = open_bundle(path)
        words = [rounds_of(bundle)]
        if bundle.end is not None:
            try:
                for part in bundle.parts:
                    compact.compact_part(part.directory)
            except OSError as error:
                words.append(not_compacted(error))
        if recorder_of(path) == ALIVE:
            words.append("still being written")
        elif bundle.end is None:
            words.append("not closed (killed, or no room on the disk): complete up to its last commit")
    except (TraceError, OSError) as error:
        words = [str(error)]
        if not (path / layout.BUNDLE_FILE).exists():
            words = ["nothing was recorded: its process ended before the first call"]
    if not quiet:
        tell(f"tsviz: {path}: {'; '.join(words)}")
