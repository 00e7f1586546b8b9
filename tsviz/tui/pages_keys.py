"""Every key of the pages screen, once."""

from __future__ import annotations

from textual.binding import Binding, BindingType

from tsviz.tui.key import Key

PAGES_KEYS: tuple[Key, ...] = (
    Key("pages.round.next", "n", "step(1)", "One round forward", "Moving", "next"),
    Key("pages.round.back", "p", "step(-1)", "One round back", "Moving", "back"),
    Key("pages.round.next10", "N", "step(10)", "Ten rounds forward", "Moving"),
    Key("pages.round.back10", "P", "step(-10)", "Ten rounds back", "Moving"),
    Key("pages.round.first", "home", "first", "First round", "Moving"),
    Key("pages.round.last", "end", "last", "Last round", "Moving"),
    Key("pages.round.goto", "g", "goto", "Go to a round or a share of the trace", "Moving", "go to"),
    Key("pages.event.next", "]", "event(1)", "Next event in the life of this page", "Moving", "its life"),
    Key("pages.event.back", "[", "event(-1)", "Previous event in the life of this page", "Moving"),
    Key("pages.left", "left", "move(-1, 0)", "Page to the left", "Pages"),
    Key("pages.right", "right", "move(1, 0)", "Page to the right", "Pages"),
    Key("pages.down", "down,j", "move(0, 1)", "One line down", "Pages"),
    Key("pages.up", "up,k", "move(0, -1)", "One line up", "Pages"),
    Key("pages.page.down", "pagedown", "screenful(1)", "One screenful down", "Pages"),
    Key("pages.page.up", "pageup", "screenful(-1)", "One screenful up", "Pages"),
    Key("pages.light", "enter,space", "light", "Light all pages of the request that holds this page", "Pages", "light"),
    Key("pages.lit.next", "full_stop", "lit(1)", "Next page that is lit", "Pages"),
    Key("pages.lit.back", "comma", "lit(-1)", "Previous page that is lit", "Pages"),
    Key("pages.group", "tab", "group(1)", "Draw the next group only, then all again", "Pages", "group"),
    Key("pages.group.back", "shift+tab", "group(-1)", "Draw the previous group only", "Pages"),
    Key("pages.tier", "H", "tier", "Pages of the host tier, or those of the device again", "Pages", "host"),
    Key("pages.copy", "y", "copy", "Copy the query that tells this page's life", "Other"),
    Key("pages.legend", "l", "legend", "Legend: what each glyph means", "Other", "legend"),
    Key("pages.help", "question_mark", "help", "This help", "Other", "help"),
    Key("pages.theme", "ctrl+t", "app.next_theme", "Next theme", "Other"),
    Key("pages.palette", "ctrl+p", "app.command_palette", "Palette with every action of the screen", "Other"),
    Key("pages.suspend", "ctrl+z", "app.suspend_process", "Suspend: `fg` comes back", "Other"),
    Key("pages.leave", "escape,m", "leave", "Back to the round, at this round and this request", "Other", "back"),
    Key("pages.quit", "ctrl+q", "app.quit", "Quit", "Other"),
)


def pages_bindings() -> list[BindingType]:
    """Return the bindings of the pages screen, with help text and an id for rebinding each."""
    return [Binding(k.keys, k.action, k.help, id=k.id, tooltip=k.help, show=bool(k.word)) for k in PAGES_KEYS]
