"""Every key of the main screen, once: bindings, help sheet, palette and bottom line are made from it."""

from __future__ import annotations

from textual.binding import Binding, BindingType

from tsviz.tui.key import Key as Key
from tsviz.tui.keys_elsewhere import ELSEWHERE_KEYS

_LATER = "Not on this screen yet"


KEYS: tuple[Key, ...] = (
    Key("round.next", "n,right", "step(1)", "One round forward", "Moving", "next"),
    Key("round.back", "p,left", "step(-1)", "One round back", "Moving", "back"),
    Key("round.next10", "N,shift+right", "step(10)", "Ten rounds forward", "Moving"),
    Key("round.back10", "P,shift+left", "step(-10)", "Ten rounds back", "Moving"),
    Key("round.first", "home", "first", "First round", "Moving"),
    Key("round.last", "end", "last", "Last round (of a live trace: the last when it was opened)", "Moving"),
    Key("round.goto", "g", "goto", "Go to a round, round.stop, percent or request id", "Moving", "go to"),
    Key("mark.next", "]", "mark(1)", "Next mark of the request: it has a row, or its state changes", "Moving", "mark"),
    Key("mark.back", "[", "mark(-1)", "Previous mark of the request", "Moving"),
    Key("play", "space", "play", "Play forward, or stop playing", "Moving", "play"),
    Key("play.faster", ">,+", "speed(1)", "Play faster", "Moving"),
    Key("play.slower", "<,-", "speed(-1)", "Play slower", "Moving"),
    Key("row.down", "down,j", "move(1)", "Select the next request (in Block tables: scroll)", "Panes"),
    Key("row.up", "up,k", "move(-1)", "Select the previous request (in Block tables: scroll)", "Panes"),
    Key("page.down", "pagedown", "page(1)", "One screenful down", "Panes"),
    Key("page.up", "pageup", "page(-1)", "One screenful up", "Panes"),
    Key("pane.next", "tab", "pane(1)", "Next pane", "Panes", "pane"),
    Key("pane.back", "shift+tab", "pane(-1)", "Previous pane", "Panes"),
    Key("pane.requests", "1", "focus_pane('requests')", "Requests", "Panes"),
    Key("pane.round", "2", "focus_pane('round')", "Round", "Panes"),
    Key("pane.tables", "t,3", "focus_pane('tables')", "Block tables of the selected request", "Panes", "tables"),
    Key("why", "w", "why", "Why the selected request is scheduled or not, in one sentence", "Panes"),
    Key("pane.zoom", "z", "zoom", "Give the whole screen to the focused pane, or take it back", "Panes"),
    Key("filter", "/", "filter", "Filter requests by words of their id or state", "Panes", "filter"),
    Key("order", "o", "order", "Next order of the requests (state, arrival, age, pages, retractions, id)", "Panes"),
    Key("up", "escape", "up", "Leave the filter, clear it, or take the zoom back", "Panes"),
    *ELSEWHERE_KEYS,
    Key("copy", "y", "copy", "Copy the position (trace@round) to the clipboard", "Other"),
    Key("retry", "r", "retry", "Read this round again", "Other"),
    Key("legend", "l", "legend", "Legend: what each glyph means", "Other", "legend"),
    Key("help", "?", "help", "This help", "Other", "help"),
    Key("theme", "ctrl+t", "theme", "Dark or light", "Other"),
    Key("palette", "ctrl+p", "app.command_palette", "Palette with every action", "Other", "palette"),
    Key("quit", "ctrl+q", "app.quit", "Quit", "Other", "quit"),
    Key("later.victims", "v", "later('victims')", "Victims of a retraction", _LATER),
    Key("later.stop", "s", "later('stops')", "One stop forward inside the round", _LATER),
    Key("later.stop.back", "S", "later('stops')", "One stop back inside the round", _LATER),
    Key("later.continue", "c", "later('breakpoints')", "Continue to the next breakpoint", _LATER),
    Key("later.continue.back", "C", "later('breakpoints')", "Back to the previous breakpoint", _LATER),
    Key("later.break", "b", "later('breakpoints')", "Breakpoint here", _LATER),
    Key("later.pages", "m", "later('pages')", "Map of all pages", _LATER),
)

WHY_UNKNOWN = "Why needs decisions, which are not recorded at this level: tsviz index derives them."

LATER: dict[str, str] = {
    "victims": "Victims are not on this screen yet. They are a table: tsviz sql TRACE 'from victims'.",
    "stops": "Stops inside a round are not on this screen yet. They are tables: tsviz sql TRACE --tables.",
    "breakpoints": "Breakpoints are not on this screen yet. tsviz sql finds rounds by predicate.",
    "pages": "The pages map is not on this screen yet. tsviz sql tells a page's life: from page_life('full', 7).",
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
