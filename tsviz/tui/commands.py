"""The palette: every action of the screen that it lies over, by its help text."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from textual.command import DiscoveryHit, Hit, Hits, Provider

from tsviz.tui.keys import Key, display


class Actions(Provider):
    """Offers what the keys do to those who do not know the keys."""

    def _keys(self) -> Iterator[Key]:
        from tsviz.tui.screens.main import MainScreen
        from tsviz.tui.screens.over import Over
        from tsviz.tui.screens.pages import PagesScreen

        if isinstance(self.screen, MainScreen | Over | PagesScreen):
            yield from (key for key in self.screen.keys if key.id.rpartition(".")[2] not in ("palette", "quit"))

    async def discover(self) -> Hits:
        """Offer everything before anything is typed."""
        for key in self._keys():
            run = partial(self.screen.run_action, key.action)
            yield DiscoveryHit(key.help, run, help=f"{key.section}, key {display(key.keys)}")

    async def search(self, query: str) -> Hits:
        """Offer what matches."""
        matcher = self.matcher(query)
        for key in self._keys():
            score = matcher.match(key.help)
            if score > 0:
                run = partial(self.screen.run_action, key.action)
                yield Hit(score, matcher.highlight(key.help), run, help=f"{key.section}, key {display(key.keys)}")
