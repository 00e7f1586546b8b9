"""Widgets that change seldom and are asked for all their lines at every frame: they keep them.

The toolkit asks each widget that lies between the first and the last change for all its lines, a box for any line
inside it: with three boxes and a scrollbar that was a third of the CPU of a key.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rich.segment import Segment
from rich.style import Style
from textual.containers import Vertical
from textual.geometry import Region
from textual.scrollbar import ScrollBar, ScrollBarRender
from textual.strip import Strip
from textual.widget import Widget

_EIGHTHS = 8
_A_LITTLE = 1e-6
"""So that what was rounded down stays where it is when it is rounded down again."""
if TYPE_CHECKING:
    _Base = Widget
else:
    _Base = object  # as a widget its styles would be taken for those of what it is mixed into


class Kept(_Base):
    """Keeps the lines of a widget until it is refreshed, or has another size."""

    _lines: tuple[Region, list[Strip]] | None = None

    def render_lines(self, crop: Region) -> list[Strip]:
        """Return the lines of a region."""
        if self._lines is None or self._lines[0] != crop:
            self._lines = crop, self.draw_lines(crop)
        return self._lines[1]

    def draw_lines(self, crop: Region) -> list[Strip]:
        """Draw the lines of a region."""
        return super().render_lines(crop)

    def _set_dirty(self, *regions: Region) -> None:
        self._lines = None
        super()._set_dirty(*regions)

    def notify_style_update(self) -> None:
        """Draw anew: the theme changed."""
        self._lines = None
        super().notify_style_update()


class Box(Kept, Vertical):
    """A border around panes."""


class Bar(Kept, ScrollBar):
    """A vertical scrollbar that is drawn when its thumb is seen to move, which is an eighth of a cell."""

    def validate_position(self, position: float) -> float:
        """Return the position at which the thumb looks the same."""
        cells, hidden = self.size.height, self.window_virtual_size - self.window_size
        if not cells or hidden <= 0:
            return position
        thumb = max(1.0, self.window_size * cells / self.window_virtual_size)
        step = hidden / max((cells - thumb) * _EIGHTHS, 1.0)
        return min((math.floor(position / step + _A_LITTLE) + _A_LITTLE) * step, hidden)

    def draw_lines(self, crop: Region) -> list[Strip]:
        """Draw it as the toolkit does, each of its few different cells once."""
        bar, cells = self.render(), self.size.height
        if not isinstance(bar, ScrollBarRender) or not isinstance(bar.style, Style):
            return super().draw_lines(crop)
        look = bar.style
        assert look.bgcolor is not None
        assert look.color is not None
        drawn = bar.render_bar(
            size=cells, virtual_size=bar.virtual_size, window_size=bar.window_size, position=bar.position,
            thickness=bar.thickness, vertical=True, back_color=look.bgcolor, bar_color=look.color,
        )  # fmt: skip
        filters, ground, base = self.get_line_filters(), self.background_colors[1], self.rich_style
        strips: dict[int, Strip] = {}
        for segment in drawn.segments:
            if id(segment) not in strips:
                shown = [Segment(segment.text, base + segment.style)]
                for each in filters:
                    shown = each.apply(shown, ground)
                strips[id(segment)] = Strip(shown, bar.thickness)
        return [strips[id(segment)] for segment in drawn.segments[crop.y : crop.bottom]]
