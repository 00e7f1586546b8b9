"""The palette of commands: the toolkit's own, which breaks on a page key that comes before its list is laid out."""

from __future__ import annotations

from contextlib import suppress

from textual.command import CommandPalette


class Palette(CommandPalette):
    """Offers the commands; a key that moves in a list which has no lines yet does nothing."""

    def _action_command_list(self, action: str) -> None:
        with suppress(LookupError):  # options without lines: the toolkit looks for the line of the first one
            super()._action_command_list(action)
