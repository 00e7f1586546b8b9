"""The terminal debugger: `run(view)` opens it, `DebuggerApp` is it.

It knows of a trace what `RecordedView` (replay/recorded/snapshot.py) says and nothing else; it imports neither the
catalog nor Arrow (debugger.md, sections 1, 2 and 6).
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path

from textual.app import App

from tsviz.replay.recorded.snapshot import RecordedView
from tsviz.tui.clean import clean
from tsviz.tui.commands import Actions
from tsviz.tui.desk import Desk
from tsviz.tui.following import Follower
from tsviz.tui.keymap import chosen_keys, keymap_of
from tsviz.tui.keys import rebound
from tsviz.tui.opening import Arrival, Opening, Others
from tsviz.tui.palette import Palette
from tsviz.tui.panes.states import BY_COLUMNS, BY_ROWS
from tsviz.tui.screens.main import MainScreen
from tsviz.tui.screens.sheet import Sheet
from tsviz.tui.terminal import require_terminal
from tsviz.tui.theme import DEFAULTS, THEMES, chosen_theme, next_theme
from tsviz.tui.typed import TypedApp


class Crashed(Exception):
    """The debugger broke: what was raised, and where."""


_SWITCH_S = 0.001
"""How long a thread that reads a trace may keep the screen's waiting: a key and its frame change hands several times.

With 5 ms, the default, an answer beside a busy thread took 11 to 13 ms (p95), with this 3 to 6 ms.
"""


class DebuggerApp(TypedApp):
    """The application.

    Args:
        view: The trace, or what opens it, with its desk and its follower, when the screen is there.
        start_round: Round to open at, 1-based; held to the trace. -1 is the last.
        start_stop: Stop in that round; None is the round as a whole.
        request: Request id to select, looked for in the whole trace.
        keymap: Keys in place of ours, by binding id (the help sheet lists them).
        follower: Says how far the recording is, for a trace that is being written.
        follow: Whether its new rounds are shown from the start.
        desk: What more can be asked about the trace; None where it is none on disk.
        compare: Another trace, to be compared with at once.
        name: What the trace is called before it is open.
        theme: Name of a theme; with NO_COLOR nothing is coloured whatever is named here.
        others: Returns what opens another part of the trace, by its name; None where there is no way to one.
    """

    CSS_PATH = "debugger.tcss"
    TITLE = "tsviz"
    HORIZONTAL_BREAKPOINTS = BY_COLUMNS
    VERTICAL_BREAKPOINTS = BY_ROWS
    DEFAULT_MODE = "opened"
    """The mode of the part that was opened first; those of the others have the names of their parts."""
    COMMANDS = App.COMMANDS | {Actions}

    def __init__(
        self,
        view: RecordedView | Opening,
        *,
        start_round: int = 1,
        start_stop: int | None = None,
        request: str | None = None,
        keymap: Mapping[str, str] | None = None,
        desk: Desk | None = None,
        compare: str = "",
        follower: Follower | None = None,
        follow: bool = False,
        name: str = "",
        theme: str = "tsviz-dark",
        others: Others | None = None,
    ) -> None:
        no_color = "NO_COLOR" in os.environ
        super().__init__(ansi_color=True if no_color else None)
        for each in THEMES:
            self.register_theme(each)
        self.theme = "tsviz-plain" if no_color else theme
        self._view = view
        self._start_round = start_round
        self._start_stop = start_stop
        self._request = request
        chosen = keymap_of(keymap or {})
        self._keys, self._key_problems = chosen.keys, chosen.problems
        self._desk = desk
        self._follower, self._follow = follower, follow
        self._compare, self._trace_name = compare, name
        self._others = others
        self._parts: dict[str, tuple[str, MainScreen]] = {}
        """The parts that were looked at, each a mode of its own: its name, and its main screen."""
        self.failed: Exception | None = None
        """Why the trace could not be opened, where that ended the application."""
        self.crash = ""
        """What broke the application, and where; empty while nothing did."""

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Give themes that are not ours the colours of our roles."""
        return DEFAULTS

    def get_default_screen(self) -> MainScreen:
        """Return the main screen."""
        screen = MainScreen(self._view, self._start_round, self._request, rebound(self._keys), self._start_stop)
        screen.attend(self._desk, self._keys, self._compare)
        screen.follow(self._follower, running=self._follow)
        screen.expect(self._trace_name, follow=self._follow)
        self.main = screen
        return screen

    def open_part(self, here: str, part: str, arrival: Arrival) -> bool:
        """Show another part of the trace than `here`, which stays as it is; False where there is no way to one."""
        if self._others is None:
            return False
        if not self._parts:
            self.add_mode(self.DEFAULT_MODE, self.get_default_screen)  # made already: it is named to come back to it
            self._parts[here] = (self.DEFAULT_MODE, self.main)
        if part not in self._parts:
            screen = MainScreen(self._others(part), 1, None, rebound(self._keys))
            screen.attend(None, self._keys)
            screen.expect(self._trace_name, follow=False)
            self._parts[part] = (part, screen)
            self.add_mode(part, lambda: screen)
        mode, self.main = self._parts[part]
        self.main.arrive(arrival)
        self.switch_mode(mode)
        return True

    def keeps(self, key: str, after: tuple[str, ...]) -> bool:
        """Whether a key waits until the trace is there."""
        return self.screen is self.main and self.main.keeps(key, after)

    def kept(self, keys: tuple[str, ...]) -> None:
        """Show which keys wait."""
        self.main.put(kept=keys)

    def fail(self, error: Exception) -> None:
        """End, because the trace cannot be opened."""
        self.failed = error
        self.exit()

    def action_next_theme(self) -> None:
        """Take the next theme: dark, light, both in two palettes more, plain; nothing changes where NO_COLOR is set."""
        if "NO_COLOR" not in os.environ:
            self.theme = next_theme(self.theme)

    def action_legend(self) -> None:
        """Show what each glyph means, over whatever screen."""
        from tsviz.tui.panes.sheets import legend_lines

        self.push_screen(Sheet("Legend", legend_lines))

    def action_command_palette(self) -> None:
        """Show the palette of commands."""
        if not isinstance(self.screen, Palette):
            self.push_screen(Palette(id="--command-palette"))

    def _fatal_error(self) -> None:
        """End, and keep what broke in a few words: values of variables are the user's, and no traceback shows them."""
        if not self.crash:
            self.crash = _crash_words(sys.exc_info()[1] or self._exception)
        self._close_messages_no_wait()

    def _come_back(self, _app: object) -> None:
        """Draw everything: behind a suspension (ctrl+z, `fg`) the terminal is empty, which the toolkit does not see."""
        self.refresh(layout=True)

    def on_mount(self) -> None:
        """Take the user's keys."""
        self.app_resume_signal.subscribe(self, self._come_back)
        self.set_keymap(self._keys)
        if self._key_problems:
            more = f" (and {len(self._key_problems) - 1} more)" if len(self._key_problems) > 1 else ""
            self.main.say(f"Keys: {self._key_problems[0]}{more}", "warn")


def _crash_words(error: BaseException | None) -> str:
    """Return what was raised and the places it went through last, innermost first."""
    if error is None:
        return "not known"
    frames = traceback.extract_tb(error.__traceback__)[-3:]
    places = ", ".join(f"{'/'.join(Path(f.filename).parts[-3:])}:{f.lineno}" for f in reversed(frames))
    return clean(f"{type(error).__name__}: {error} (at {places})")


def run(
    view: RecordedView | Opening,
    *,
    start_round: int = 1,
    start_stop: int | None = None,
    request: str | None = None,
    desk: Desk | None = None,
    compare: str = "",
    follower: Follower | None = None,
    follow: bool = False,
    name: str = "",
    theme: str | None = None,
    others: Others | None = None,
) -> None:
    """Open the debugger on a trace and return when the user leaves it.

    Raises what opening the trace raises, and:
        NoTerminal: stdin or stderr is not a terminal, or TERM cannot move a cursor.
        Crashed: Something broke, and the screen was closed.
    """
    require_terminal()
    sys.setswitchinterval(_SWITCH_S)
    app = DebuggerApp(
        view,
        start_round=start_round,
        start_stop=start_stop,
        request=request,
        desk=desk,
        keymap=chosen_keys(),
        compare=compare,
        follower=follower,
        follow=follow,
        name=name,
        theme=chosen_theme(theme),
        others=others,
    )
    app.run()
    if app.failed is not None:
        raise app.failed
    if app.return_code:
        raise Crashed(app.crash or "the terminal toolkit gave up")
