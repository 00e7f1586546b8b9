"""Every key of the main screen, once: bindings, help sheet, palette and bottom line are made from it."""

from __future__ import annotations

from textual.binding import Binding, BindingType

from tsviz.tui.key import Key as Key
from tsviz.tui.keys_elsewhere import ELSEWHERE_KEYS

KEYS: tuple[Key, ...] = (
    Key("round.next", "n,right", "step(1)", "One round forward", "Moving", "next"),
    Key("round.back", "p,left", "step(-1)", "One round back", "Moving", "back"),
    Key("round.next10", "N,shift+right", "step(10)", "Ten rounds forward", "Moving"),
    Key("round.back10", "P,shift+left", "step(-10)", "Ten rounds back", "Moving"),
    Key("round.first", "home", "first", "First round", "Moving"),
    Key(
        "round.last",
        "end",
        "last",
        "Last round (of a trace that is being written: the last that is shown, F follows)",
        "Moving",
    ),
    Key(
        "round.goto",
        "g",
        "goto",
        "Go to a round, round.stop, percent, time, request id or finding (#2)",
        "Moving",
        "go to",
    ),
    Key("stop.next", "s", "stop(1)", "One stop forward, on into the next round", "Moving", "stop"),
    Key("stop.back", "S", "stop(-1)", "One stop back, on into the round before", "Moving"),
    Key("mark.next", "]", "mark(1)", "Next mark of the request: it has a row, or its state changes", "Moving", "mark"),
    Key("mark.back", "[", "mark(-1)", "Previous mark of the request", "Moving"),
    Key("play", "space", "play", "Play forward, or stop playing", "Moving", "play"),
    Key("play.faster", ">", "speed(1)", "Play faster", "Moving"),
    Key("play.slower", "<", "speed(-1)", "Play slower", "Moving"),
    Key("zoom.in", "plus,equals_sign", "zoom_rounds(1)", "Timeline: fewer rounds, around the cursor", "Timeline"),
    Key("zoom.out", "minus", "zoom_rounds(-1)", "Timeline: more rounds", "Timeline"),
    Key("zoom.all", "0", "zoom_all", "Timeline: the whole trace", "Timeline"),
    Key("pan.right", "right_curly_bracket,ctrl+right", "pan(1)", "Timeline: later rounds", "Timeline"),
    Key("pan.left", "left_curly_bracket,ctrl+left", "pan(-1)", "Timeline: earlier rounds", "Timeline"),
    Key("lanes.order", "O", "lane_order", "Next order of the lanes (arrival, at the cursor, longest, id)", "Timeline"),
    Key("lanes.group", "G", "lane_group", "Next groups of the lanes (none, class, state at the cursor)", "Timeline"),
    Key("pool.group", "K", "pool_group", "Pool of the timeline: of one group, of the next, of all", "Timeline"),
    Key("axis", "T", "axis", "Axis of the timeline: rounds, or time", "Timeline"),
    Key("order.reverse", "R", "reverse", "Turn the order of the requests round (in the timeline: lanes)", "Timeline"),
    Key("pin", "asterisk", "pin", "Pin the selected request: first in the list and the lanes", "Timeline"),
    Key("pane.timeline", "4", "focus_pane('timeline')", "Timeline (as tabs, the whole screen)", "Timeline"),
    Key("row.down", "down,j", "move(1)", "Next request (in the round: candidate; in the inspector: scroll)", "Panes"),
    Key("row.up", "up,k", "move(-1)", "Previous request (in the round: candidate; in the inspector: scroll)", "Panes"),
    Key("page.down", "pagedown", "page(1)", "One screenful down", "Panes"),
    Key("page.up", "pageup", "page(-1)", "One screenful up", "Panes"),
    Key("pane.next", "tab", "pane(1)", "Next pane", "Panes", "pane"),
    Key("pane.back", "shift+tab", "pane(-1)", "Previous pane", "Panes"),
    Key("pane.requests", "1", "focus_pane('requests')", "Requests", "Panes"),
    Key("pane.round", "2", "focus_pane('round')", "Round", "Panes"),
    Key("pane.inspector", "3", "focus_pane('inspector')", "Inspector of the selected request", "Panes"),
    Key("fold", "enter", "fold", "Open or close the candidate at the cursor of the round", "Panes"),
    Key("view.why", "w", "view('why')", "Why the selected request is scheduled or not", "Inspector", "why"),
    Key("view.waits", "W", "waits", "Who waits longest in this round, and why; again: the next", "Inspector", "waits"),
    Key("view.request", "i", "view('request')", "The selected request: lengths, pages, reserve", "Inspector"),
    Key("view.tables", "t", "view('tables')", "Its block tables, and what this round changed", "Inspector", "tables"),
    Key("view.retraction", "v", "view('retraction')", "Victims of this round: rank, size, exemption", "Inspector"),
    Key("view.admission", "a", "view('admission')", "Its admission: need, supply and deficit", "Inspector"),
    Key("view.transfers", "x", "view('transfers')", "Transfers between the tiers", "Inspector"),
    Key("view.device", "d", "view('device')", "What the device took for this round", "Inspector"),
    Key("view.raw", "e", "view('raw')", "The recorded rows of this round and request", "Inspector"),
    Key("view.next", "full_stop", "next_view(1)", "Next view", "Inspector"),
    Key("view.back", "comma", "next_view(-1)", "Previous view", "Inspector"),
    Key("pane.zoom", "z", "zoom", "Give the whole screen to the focused pane, or take it back", "Panes"),
    Key("filter", "/", "filter", "Filter requests by words of their id or state", "Panes", "filter"),
    Key("order", "o", "order", "Next order of the requests (state, arrival, age, pages, retractions, id)", "Panes"),
    Key("up", "escape", "up", "Leave the filter, clear it, or take the zoom back", "Panes"),
    *ELSEWHERE_KEYS,
    Key("copy", "y", "copy", "Copy the position (trace@round) to the clipboard", "Other"),
    Key("retry", "r", "retry", "Read this round again", "Other"),
    Key("legend", "l", "legend", "Legend: what each glyph means", "Other", "legend"),
    Key("help", "?", "help", "This help", "Other", "help"),
    Key(
        "theme", "ctrl+t", "theme", "Next theme: dark, light, both for deuteranopia and for tritanopia, plain", "Other"
    ),
    Key("palette", "ctrl+p", "app.command_palette", "Palette with every action of the screen", "Other", "palette"),
    Key("suspend", "ctrl+z", "app.suspend_process", "Suspend: the shell comes back, and `fg` brings this", "Other"),
    Key("quit", "ctrl+q", "app.quit", "Quit", "Other", "quit"),
)

_DISPLAY = {
    "left": "←", "right": "→", "up": "↑", "down": "↓", "shift+right": "shift+→", "shift+left": "shift+←",
    "escape": "esc", "full_stop": ".", "comma": ",",
    "plus": "+", "minus": "-", "equals_sign": "=", "right_curly_bracket": "}", "left_curly_bracket": "{",
    "asterisk": "*", "question_mark": "?",
    "ctrl+right": "ctrl+→", "ctrl+left": "ctrl+←", "pagedown": "pgdn", "pageup": "pgup",
}  # fmt: skip


AT_ONCE = frozenset({"up", "theme", "app.command_palette", "app.suspend_process", "app.quit", "quit"})
"""Actions that are done whatever the trace; all others wait for one that is being opened. `quit` is the toolkit's own
binding of ctrl+q, which has priority over ours."""
FIRST_AT_ONCE = frozenset({"help", "legend"})
"""Actions that are done before there is a trace too, unless a key waits that may open a box for what is typed next."""


def bindings() -> list[BindingType]:
    """Return the bindings of the main screen, with help text and an id for rebinding each."""
    return [Binding(k.keys, k.action, k.help, id=k.id, tooltip=k.help, show=bool(k.word)) for k in KEYS]


def display(keys: str) -> str:
    """Return keys as people write them: `n →`."""
    return " ".join(_DISPLAY.get(key.strip(), key.strip()) for key in keys.split(","))


_OFFERED = (
    "round.next", "round.back", "round.goto", "view.why", "view.waits", "findings", "stop.next", "mark.next",
    "pane.next", "pages", "lost", "sql", "filter", "view.tables", "break", "play",
)  # fmt: skip
"""The keys that the last line offers first where there is not room for all."""


def offered_first(keys: tuple[Key, ...]) -> list[Key]:
    """Return the keys that have a word for the last line: those that lead to a cause first."""
    worded = [key for key in keys if key.word]
    return sorted(worded, key=lambda key: _OFFERED.index(key.id) if key.id in _OFFERED else len(_OFFERED))


def rebound(keymap: dict[str, str]) -> tuple[Key, ...]:
    """Return the keys with those of `keymap` (binding id to keys) in place of ours."""
    return tuple(key._replace(keys=keymap.get(key.id, key.keys)) for key in KEYS)
