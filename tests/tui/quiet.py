"""When a pilot goes on: as soon as nothing is left to be done, not when the process has slept for a while.

The toolkit's pilot sleeps 20 ms and more at every wait, and looks whether the process used the processor meanwhile,
which a thread that fetches, and a loaded machine, make longer and less certain.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from textual._context import active_app

_PATIENCE_S = 5.0
_A_MOMENT_S = 0.002


async def quiet(_min_sleep: float = 0.0, _max_sleep: float = 1.0) -> None:
    """Wait until the loop has nothing to run and the screen nothing to draw; takes what the toolkit's wait takes."""
    until = time.monotonic() + _PATIENCE_S
    await _nothing_ready(until)
    app = active_app.get(None)
    if app is not None and app.is_running and app.screen_stack:
        while app._resize_timer is not None and time.monotonic() < until:
            await asyncio.sleep(_A_MOMENT_S)
        app.screen._on_timer_update()  # what is drawn, and called after that, waits for a timer
        await _nothing_ready(until)


async def _nothing_ready(until: float) -> None:
    loop: Any = asyncio.get_running_loop()
    await asyncio.sleep(0)
    while loop._ready and time.monotonic() < until:
        await asyncio.sleep(0)
