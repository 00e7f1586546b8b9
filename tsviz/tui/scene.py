"""The scene: everything the screen shows, in one frozen value. Panes are pure functions of it.

The screen replaces the scene and hands it to the panes; each pane redraws the lines that came out different.
"""

from __future__ import annotations

from dataclasses import dataclass

from tsviz.replay.snapshot import TraceHead
from tsviz.tui.frame import Frame

PANES = ("requests", "round", "tables")
"""The panes that take the focus, in tab order."""


@dataclass(frozen=True, slots=True)
class Scene:
    """What is shown (`frame`), what was asked for (`round`, `selected`), and what the screen itself has to say."""

    frame: Frame | None = None
    head: TraceHead | None = None
    round: int = 1
    selected: int | None = None
    selected_id: str = ""
    """Request id of `selected` as last seen, for rounds in which it is not listed."""
    filter: str = ""
    order: str = "state"
    loading: bool = True
    error: str = ""
    message: str = ""
    message_role: str = "message"
    play_rounds_per_second: int = 0
    focus: str = "requests"
    tabs: bool = False
    """Whether panes are tabs (narrow terminal, or one pane zoomed)."""
    badge: tuple[str, str] = ("", "dim")
    """What the header says of the findings, and its role."""
    pool_history: tuple[int, ...] | None = None
    """Most occupied pages by bucket over the whole trace; None: the view does not offer it."""
    keys: tuple[tuple[str, str, str], ...] = ()
    """What the bottom line offers: (key, word, action)."""

    @property
    def rounds(self) -> int:
        """Number of rounds of the trace as far as it is known."""
        return self.head.rounds if self.head else 0
