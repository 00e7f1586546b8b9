"""Whether a screen can be drawn on: mounted, on the stack, and its application running.

Answers of workers and of timers come when they like, also while a screen is being taken down: its widgets go before
it does, so that a look-up by name fails on a screen that still says it is mounted.
"""

from __future__ import annotations

from typing import Any

from textual.screen import Screen


def stands(screen: Screen[Any]) -> bool:
    """Return whether the widgets of a screen are there and stay until the next message."""
    return screen.is_mounted and screen.app.is_running and any(one is screen for one in screen.app.screen_stack)
