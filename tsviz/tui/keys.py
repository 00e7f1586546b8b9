"""Every key of the main screen, once: bindings, help sheet, palette and bottom line are made from it."""

from __future__ import annotations

from typing import NamedTuple

from textual.binding import Binding, BindingType

_NOT_RECORDED = "needs decisions: not recorded at this level"


class Key(NamedTuple):
    """One action: its id for rebinding, its keys, what it does (a sentence), the help section, a word for the line."""

    id: str
    keys: str
    action: str
    help: str
    section: str
    word: str = ""


KEYS: tuple[Key, ...] = (
    Key("round.next", "n,right", "step(1)", "One round forward", "Moving", "next"),
    Key("round.back", "p,left", "step(-1)", "One round back", "Moving", "back"),
    Key("round.next10", "N,shift+right", "step(10)", "Ten rounds forward", "Moving"),
    Key("round.back10", "P,shift+left", "step(-10)", "Ten rounds back", "Moving"),
    Key("round.first", "home", "first", "First round", "Moving"),
    Key("round.last", "end", "last", "Last round (of a live trace: the last one written so far)", "Moving"),
    Key("round.goto", "g", "goto", "Go to a round, round.stop, percent or request id", "Moving", "go to"),
    Key("mark.next", "]", "mark(1)", "Next round in which the selected request was scheduled", "Moving", "mark"),
    Key("mark.back", "[", "mark(-1)", "Previous round in which the selected request was scheduled", "Moving"),
    Key("play", "space", "play", "Play forward, or stop playing", "Moving", "play"),
    Key("play.faster", "+", "speed(1)", "Play faster", "Moving"),
    Key("play.slower", "-", "speed(-1)", "Play slower", "Moving"),
    Key("row.down", "down,j", "move(1)", "Select the next request (in Block tables: scroll)", "Panes"),
    Key("row.up", "up,k", "move(-1)", "Select the previous request (in Block tables: scroll)", "Panes"),
    Key("page.down", "pagedown", "page(1)", "One screenful down", "Panes"),
    Key("page.up", "pageup", "page(-1)", "One screenful up", "Panes"),
    Key("pane.next", "tab", "pane(1)", "Next pane", "Panes", "pane"),
    Key("pane.back", "shift+tab", "pane(-1)", "Previous pane", "Panes"),
    Key("pane.requests", "1", "focus_pane('requests')", "Requests", "Panes"),
    Key("pane.round", "2", "focus_pane('round')", "Round", "Panes"),
    Key("pane.tables", "t,3", "focus_pane('tables')", "Block tables of the selected request", "Panes", "tables"),
    Key("pane.zoom", "z", "zoom", "Give the whole screen to the focused pane, or take it back", "Panes"),
    Key("filter", "/", "filter", "Filter requests by words of their id or state", "Panes", "filter"),
    Key("order", "o", "order", "Next order of the requests (state, arrival, age, pages, retractions, id)", "Panes"),
    Key("up", "escape", "up", "Leave the filter, clear it, or take the zoom back", "Panes"),
    Key("copy", "y", "copy", "Copy the position (trace@round) to the clipboard", "Other"),
    Key("retry", "r", "retry", "Read this round again", "Other"),
    Key("legend", "L", "legend", "Legend: what each glyph means", "Other", "legend"),
    Key("help", "?", "help", "This help", "Other", "help"),
    Key("theme", "ctrl+t", "theme", "Dark or light", "Other"),
    Key("palette", "ctrl+p", "app.command_palette", "Palette with every action", "Other", "palette"),
    Key("quit", "q,ctrl+q", "app.quit", "Quit", "Other", "quit"),
    Key("later.why", "w", "later('why')", "Why is the selected request not scheduled", "Needs decisions"),
    Key("later.victims", "v", "later('victims')", "Victims of a retraction", "Needs decisions"),
    Key("later.stop", "s", "later('stops')", "One stop forward inside the round", "Needs decisions"),
    Key("later.stop.back", "S", "later('stops')", "One stop back inside the round", "Needs decisions"),
    Key("later.continue", "c", "later('breakpoints')", "Continue to the next breakpoint", "Needs decisions"),
    Key("later.continue.back", "C", "later('breakpoints')", "Back to the previous breakpoint", "Needs decisions"),
    Key("later.break", "b", "later('breakpoints')", "Breakpoint here", "Needs decisions"),
    Key("later.findings", "f", "later('findings')", "Findings of this trace", "Needs decisions"),
    Key("later.pages", "m", "later('pages')", "Map of all pages", "Needs decisions"),
)

LATER: dict[str, str] = {
    "why": f"Why {_NOT_RECORDED}.",
    "victims": f"Victims {_NOT_RECORDED}.",
    "stops": f"A stop inside a round {_NOT_RECORDED}.",
    "breakpoints": f"A breakpoint {_NOT_RECORDED}.",
    "findings": f"Findings {_NOT_RECORDED}.",
    "pages": f"The pages map {_NOT_RECORDED}.",
}
"""What the keys of things that this screen cannot know yet answer."""

_DISPLAY = {
    "left": "←", "right": "→", "up": "↑", "down": "↓", "shift+right": "shift+→", "shift+left": "shift+←",
    "escape": "esc", "pagedown": "pgdn", "pageup": "pgup",
}  # fmt: skip


def bindings() -> list[BindingType]:
    """Return the bindings of the main screen, with help text and an id for rebinding each."""
    return [Binding(k.keys, k.action, k.help, id=k.id, tooltip=k.help, show=bool(k.word)) for k in KEYS]


def display(keys: str) -> str:
    """Return keys as people write them: `n →`."""
    return " ".join(_DISPLAY.get(key.strip(), key.strip()) for key in keys.split(","))


def rebound(keymap: dict[str, str]) -> tuple[Key, ...]:
    """Return the keys with those of `keymap` (binding id to keys) in place of ours."""
    return tuple(key._replace(keys=keymap.get(key.id, key.keys)) for key in KEYS)
