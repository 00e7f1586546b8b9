"""Going from the main screen to the pages screen, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tsviz.tui.screens.stepping import SteppingScreen

if TYPE_CHECKING:
    from tsviz.tui.screens.pages import Left


def open_pages(main: SteppingScreen, keymap: dict[str, str]) -> None:
    """Open the map of all pages at the round of the main screen; coming back, take its round and request."""
    scene = main.scene
    if scene.head is None:
        return main.say("The trace is still being opened.")

    def back(left: Left | None) -> None:
        if left is not None and left.submission is not None and left.submission != scene.selected:
            main.select(left.submission, left.request)
        if left is not None and left.round != scene.round:
            main.go(left.round)

    from tsviz.tui.screens.pages import PagesScreen

    pages = PagesScreen(main.fetcher, scene.head, scene.round, scene.selected, scene.selected_id, keymap)
    main.app.push_screen(pages, back)
    return None
