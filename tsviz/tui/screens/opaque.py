"""A screen that covers what is below it, and is not drawn while it is covered itself.

The toolkit takes the screen below the top one for seen whatever the top one is, and draws the top one whole, again and
again, for every change below it: an answer that came to the main screen cost a frame of the screen over it.
"""

from __future__ import annotations

from textual.app import ScreenStackError
from textual.screen import Screen, ScreenResultType


class OpaqueScreen(Screen[ScreenResultType]):
    """A screen of the whole terminal."""

    @property
    def is_current(self) -> bool:
        """Whether it is seen: at the top, or below boxes that let it shine through."""
        try:
            stack = self.app.screen_stack
        except ScreenStackError:
            return False
        return self in stack and all(above.styles.background.a < 1 for above in stack[stack.index(self) + 1 :])
