"""`tsviz`: commands are imported when they are called, so `--help` costs what click costs."""

from __future__ import annotations

import sys

try:
    import importlib
    import os
    import signal
    import threading
    from types import FrameType
    from typing import Any, Self

    import click

    from tsviz.version import __version__

    from .exit_codes import CliError, ExitCode
    from .output import clean, quiet_pipe, tell
except KeyboardInterrupt:  # ctrl-C before `main` can answer it
    print("interrupted", file=sys.stderr)
    raise SystemExit(130) from None

COMMANDS = {
    "record": "Run a workload through a scheduler and record every round.",
    "run": "Record a program that drives the real scheduler.",
    "info": "Say what is in a trace.",
    "sql": "Ask a trace with SQL.",
    "hits": "List the positions at which an SQL predicate holds.",
    "export": "Write a trace as files that other tools read.",
    "index": "Derive why: re-execute a trace in the twin and keep its decisions.",
    "why": "Say why a request has no row in a round.",
    "blame": "Say where the time to first token and between tokens went.",
    "findings": "Say what is wrong in a trace, with numbers and positions.",
    "report": "Write one offline HTML file about a trace.",
    "verify": "Re-execute a trace and compare every round.",
    "whatif": "Run a trace again with a knob turned.",
    "diff": "Compare two traces, or the ranks of one.",
    "redact": "Write a trace without what its prompts say.",
    "repair": "Write what is left of a damaged or unfinished trace as a sound one.",
    "merge": "Make one trace of those of several nodes, ranks or runs.",
    "pack": "Write a trace as one file.",
    "unpack": "Make a trace of a packed file.",
    "slice": "Cut some rounds out of a trace.",
    "minimize": "Shrink a trace while something still happens in it.",
    "repro": "Write a script that shows it on the real package alone.",
    "bisect": "Find the version of the real package that changed a plan.",
    "open": "Step through a trace on the terminal.",
    "serve": "Step through a trace in a browser.",
    "demo": "Open a recorded incident.",
}
"""Command names and what they do; each lives in the module of its name (`open` in `open_`)."""


class LazyGroup(click.Group):
    """A group whose commands live in modules that are imported on use, and end with 0 when their reader has left."""

    def make_context(self, *arguments: Any, **extra: Any) -> click.Context:
        """Parse the command line; `--help` is written here."""
        with quiet_pipe():
            return super().make_context(*arguments, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; click itself would end with 1 where standard output is closed."""
        with quiet_pipe():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 (click's signature)
        """Return the names of all commands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 (click's signature)
        """Import and return a command; None for an unknown name, as click wants it."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"tsviz.cli.{'open_' if cmd_name == 'open' else cmd_name}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 (click's signature)
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="tsviz")
def cli() -> None:
    """A debugger for the scheduler of an LLM inference engine: record every round, step through it, ask it with SQL.

    Exit codes: 0 ok, 1 query failed, 2 usage, 3 trace unreadable, 4 timeout, 5 divergence, 6 invariant breach,
    130 interrupted.
    """


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with the code of debugger.md, section 7."""
    _open_streams()
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    with _Interrupts() as interrupts:
        try:
            code: Any = cli.main(arguments, prog_name="tsviz", standalone_mode=False, obj=arguments)
            sys.stdout.flush()
        except BaseException as error:
            # Libraries make other errors of an interrupt (DuckDB a RuntimeError): what follows one is taken for it.
            code = _interrupted(error) if interrupts.asked else _ended(error)
    sys.exit(int(code or 0))


def _ended(error: BaseException) -> Any:
    """Say what ended a command, and return its exit code; raises what is a fault of ours."""
    if isinstance(error, BrokenPipeError):
        # Whoever read our output has left; say nothing, and keep the interpreter from saying it at exit.
        _discard_output()
        return ExitCode.OK
    if isinstance(error, click.exceptions.Exit):
        return error.exit_code
    if isinstance(error, click.Abort):
        return _interrupted(error)
    if isinstance(error, click.ClickException):
        if not isinstance(error, CliError):
            error.message = "\n".join(map(clean, error.message.split("\n")))  # type: ignore[misc]  # choices: lines
        error.show()
        return error.exit_code if isinstance(error, CliError) else ExitCode.USAGE
    if isinstance(error, OSError):
        # Whatever a command reads, it answers for itself; what is left is what it writes.
        tell(f"error: {error.filename or 'standard output'}: {error.strerror or error}")
        _discard_output()
        return ExitCode.QUERY_FAILED
    raise error


def _interrupted(error: BaseException) -> ExitCode:
    """Say that a command was interrupted, in its own words where it has some."""
    if isinstance(error, CliError) and error.exit_code == ExitCode.INTERRUPTED:
        error.show()
    elif not isinstance(error, click.exceptions.Exit | SystemExit):
        click.echo("interrupted", err=True)
    return ExitCode.INTERRUPTED


def _discard_output() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _Interrupts:
    """Notes ctrl-C, which raises KeyboardInterrupt as ever; where it means something else already, it stays that."""

    def __init__(self) -> None:
        self.asked = False
        self._before: Any = None

    def __enter__(self) -> Self:
        ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if ours and threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._ask)
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _ask(self, _number: int, _frame: FrameType | None) -> None:
        self.asked = True
        raise KeyboardInterrupt


def _open_streams() -> None:
    """Put something in the place of standard streams that were closed by whoever called."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115, PTH123 (open until the end)
