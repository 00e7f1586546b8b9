"""A whole screen over the main one: a title, documents, the keys; leaving it may say where the cursor shall go.

What it shows is made by pure functions of frozen values (`panes/`); this holds the cursor in the list and the keys.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from tsviz.tui.key import Key
from tsviz.tui.lines import Line, Lines, Span, clip
from tsviz.tui.panes.bottom import key_line, named
from tsviz.tui.panes.sheets import key_lines
from tsviz.tui.panes.states import BY_COLUMNS, BY_ROWS, too_small
from tsviz.tui.scene import Scene
from tsviz.tui.screens.opaque import OpaqueScreen
from tsviz.tui.screens.sheet import Sheet
from tsviz.tui.screens.standing import stands
from tsviz.tui.widgets.pane import Pane

_ALWAYS = 2
"""Help and the way back are offered however narrow the screen is."""


@dataclass(frozen=True, slots=True)
class Jump:
    """Where the one cursor shall go: a round, and a request by name or submission if it is about one."""

    round: int
    request: str = ""
    submission: int | None = None
    message: str = ""
    stop: int | None = None
    part: str = ""
    """The part (`node/rank`) that the round is of; empty: the one on the screen."""
    view: str = ""
    """The inspector's view that says more: `why` of what a request waits for or keeps others from; empty: as it is."""


def keys_of(screen: str, *own: Key) -> tuple[Key, ...]:
    """Return the keys of a list screen: its own, then those that all share."""
    return (
        *own,
        Key(f"{screen}.down", "down,j", "move(1)", "One line down", "Moving"),
        Key(f"{screen}.up", "up,k", "move(-1)", "One line up", "Moving"),
        Key(f"{screen}.page.down", "pagedown", "page(1)", "One screenful down", "Moving"),
        Key(f"{screen}.page.up", "pageup", "page(-1)", "One screenful up", "Moving"),
        Key(f"{screen}.first", "home", "end(-1)", "First line", "Moving"),
        Key(f"{screen}.last", "end", "end(1)", "Last line", "Moving"),
        Key(f"{screen}.legend", "l", "app.legend", "Legend: what each glyph means", "Other"),
        Key(f"{screen}.theme", "ctrl+t", "app.next_theme", "Next theme", "Other"),
        Key(f"{screen}.palette", "ctrl+p", "app.command_palette", "Palette with every action of the screen", "Other"),
        Key(
            f"{screen}.suspend",
            "ctrl+z",
            "app.suspend_process",
            "Suspend: `fg` comes back (edited text: undo)",
            "Other",
        ),
        Key(f"{screen}.help", "?", "help", "This help", "Other", "help"),
        Key(f"{screen}.leave", "escape", "leave", "Back to where you were", "Other", "back"),
    )


def bindings_of(keys: Iterable[Key]) -> list[BindingType]:
    """Return the bindings of keys, with help text and an id for rebinding each."""
    return [Binding(k.keys, k.action, k.help, id=k.id, tooltip=k.help, show=bool(k.word)) for k in keys]


class Over(OpaqueScreen[Jump | None]):
    """A screen over the main one. Subclasses name their keys and place `Pane`s; `redraw` shows them anew."""

    HORIZONTAL_BREAKPOINTS = BY_COLUMNS
    VERTICAL_BREAKPOINTS = BY_ROWS
    KEYS: ClassVar[tuple[Key, ...]] = ()
    NAME: ClassVar[str] = ""

    DEFAULT_CSS = """
    Over { background: $ground; color: $role-text; }
    Over .over-head { height: 2; background: $raised; }
    Over .over-keys { height: 1; background: $raised; }
    Over .over-box {
        border: round $border-blurred; border-title-color: $role-heading; border-subtitle-color: $role-dim;
        background: $ground; scrollbar-gutter: stable;
    }
    Over .over-box:focus { border: round $border; border-title-color: $role-title; border-title-style: bold; }
    """

    def __init__(self, keymap: dict[str, str] | None = None) -> None:
        super().__init__()
        self.cursor = 0
        self.message = ""
        self.message_role = "message"
        self.keys = tuple(k._replace(keys=(keymap or {}).get(k.id, k.keys)) for k in self.KEYS)

    def compose(self) -> ComposeResult:
        """Place title, body and keys, and over them what is said where there is no room."""
        yield Pane(too_small, id="small")
        yield Pane(lambda _s, width, _h: Lines(self.head(width)), id="over-head").add_class("over-head")
        yield from self.body()
        yield Pane(lambda _s, width, _h: Lines((self.last_line(width),)), id="over-keys").add_class("over-keys")

    def body(self) -> ComposeResult:
        """Place what is between title and keys."""
        raise NotImplementedError

    def head(self, width: int) -> Iterable[Line]:
        """Return the lines of the title: two, or more where something is wrong."""
        raise NotImplementedError

    def height(self) -> int:
        """Return how many lines the cursor can stand on."""
        raise NotImplementedError

    def redraw(self) -> None:
        """Show everything anew; panes redraw what differs."""
        if not stands(self):
            return
        self.cursor = min(max(self.cursor, 0), max(self.height() - 1, 0))
        if self.size.width:
            self.query_one("#over-head").styles.height = max(len(tuple(self.head(self.size.width))), 2)
        for pane in self.query(Pane):
            pane.show(Scene())

    def say(self, message: str, role: str = "message") -> None:
        """Show a sentence in the last line until the next key."""
        self.message, self.message_role = message, role
        self.redraw()

    def last_line(self, width: int) -> Line:
        """Return the message, otherwise the keys that fit; each is a button."""
        if self.message:
            return clip(Line((Span(f" {self.message}", self.message_role),)), width)
        offered = [named(key) for key in self.keys if self.offers(key)]
        return key_line(offered, [action for *_, action in offered[-_ALWAYS:]], width)

    def offers(self, key: Key) -> bool:
        """Return whether the last line names a key: it has a word, and does something here and now."""
        return bool(key.word)

    def on_mount(self) -> None:
        """Show what is there."""
        self.redraw()

    def on_resize(self) -> None:
        """Show it for the new size."""
        self.call_after_refresh(self.redraw)

    def on_key(self) -> None:
        """A message lasts until the next key."""
        if self.message:
            self.say("")

    async def on_pane_chosen(self, event: Pane.Chosen) -> None:
        """Do what was clicked: `("line", n)` puts the cursor there, and chooses it where it stood there already."""
        match event.target:
            case ("line", int() as line):
                if line == self.cursor:
                    await self.run_action("choose")
                else:
                    self.cursor = line
                    self.moved()
            case ("action", str() as action):
                await self.run_action(action)

    def moved(self) -> None:
        """The cursor stands on another line."""
        self.redraw()

    def action_choose(self) -> None:
        """Go where the line under the cursor is about."""

    def action_move(self, step: int) -> None:
        """Put the cursor some lines down."""
        self.cursor = min(max(self.cursor + step, 0), max(self.height() - 1, 0))
        self.moved()

    def action_page(self, step: int) -> None:
        """Put the cursor a screenful down."""
        self.action_move(step * max(self.query_one(".over-list", Pane).size.height - 1, 1))

    def action_end(self, side: int) -> None:
        """Put the cursor on the first or last line."""
        self.action_move(side * self.height())

    def action_help(self) -> None:
        """Show the keys of this screen."""
        self.app.push_screen(Sheet(f"Help: {self.NAME}", lambda width: key_lines(self.keys, width)))

    def action_leave(self) -> None:
        """Go back."""
        self.dismiss(None)
