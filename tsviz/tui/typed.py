"""Keys as they are typed: each goes to where the one before it has led, and none is lost while the trace is opened.

The toolkit sends a key to what has the focus when the key arrives. Keys that arrive together (a fast typist, a script,
what was typed while the program started) would all go to the pane that has it now, though the first of them opens a
box. Here one is on its way at a time: a key that follows closely waits until a `Passed` has walked the way of the one
before it, twice, because what that one did (another screen, another focus) is itself a message.
"""

from __future__ import annotations

import time
from collections import deque

from textual import events
from textual.app import App
from textual.message import Message
from textual.timer import Timer

_CLOSELY_S = 0.1
_LOST_S = 1.0
"""After so long the next key goes without its `Passed`, which ends with a screen that is being taken down."""
_TURNS = 2


class Passed(Message):
    """Everything that was sent before it on its way has been handled."""

    def __init__(self, number: int, turn: int) -> None:
        super().__init__()
        self.number, self.turn = number, turn


class TypedApp(App[None]):
    """An application that answers keys one after another."""

    def __init__(self, *, ansi_color: bool | None = None) -> None:
        super().__init__(ansi_color=ansi_color)
        self._typed: deque[events.Key] = deque()
        self._kept: list[events.Key] = []
        self._number = 0
        """How many `Passed` were sent; the last one is on its way while `_waits`."""
        self._waits = False
        self._sent_s = 0.0
        """When the last key was sent on; 0 once it is known to have been answered."""
        self._guard: Timer | None = None

    def keeps(self, key: str, after: tuple[str, ...]) -> bool:
        """Whether a key waits until `release`, as those `after` which it comes do."""
        raise NotImplementedError

    def kept(self, keys: tuple[str, ...]) -> None:
        """Show which keys wait."""
        raise NotImplementedError

    def forget(self) -> None:
        """Do not answer the keys that wait."""
        self._kept.clear()
        self.kept(())

    async def release(self) -> None:
        """Answer the keys that wait, before those that were typed since."""
        self._typed.extendleft(reversed(self._kept))
        self.forget()
        await self._next()

    async def on_event(self, event: events.Event) -> None:
        """Take a key in its turn; anything else at once."""
        if not isinstance(event, events.Key) or event.is_forwarded:
            return await super().on_event(event)
        self._typed.append(event)
        return await self._next()

    async def _next(self) -> None:
        while self._typed and not self._waits:
            key = self._typed[0]
            if self.keeps(key.key, waiting := tuple(each.key for each in self._kept)):
                self._kept.append(self._typed.popleft())
                self.kept((*waiting, key.key))
            elif time.monotonic() < self._sent_s + _CLOSELY_S:
                self._waits = True
                self._number += 1
                self._guard = self.set_timer(_LOST_S, self._arrived)
                await self._send(Passed(self._number, 1))
            else:
                self._sent_s = time.monotonic()
                await super().on_event(self._typed.popleft())

    async def _send(self, passed: Passed) -> None:
        if not (self.focused or self.screen).post_message(passed):
            await self._arrived()

    async def on_passed(self, event: Passed) -> None:
        """Send it once more, or take the next key."""
        if event.number != self._number or not self._waits:
            return
        if event.turn < _TURNS:
            await self._send(Passed(event.number, event.turn + 1))
        else:
            await self._arrived()

    async def _arrived(self) -> None:
        self._waits, self._sent_s = False, 0.0
        if self._guard is not None:
            self._guard.stop()
            self._guard = None
        await self._next()
