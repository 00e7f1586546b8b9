"""The one widget that draws: a document of lines, by the line, redrawing only lines that came out different."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.color import Color
from textual.filter import LineFilter
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.scrollbar import ScrollBar
from textual.strip import Strip
from textual.widget import Widget

from tsviz.tui.clean import clean
from tsviz.tui.lines import Document, Line, Lines, Target, target_at
from tsviz.tui.scene import Build, Scene
from tsviz.tui.theme import role_style
from tsviz.tui.widgets.kept import Bar, Kept

_role = attrgetter("role")
_KEPT_STRIPS = 512
_EMPTY = Line()


class Pane(Kept, ScrollView, can_focus=True, inherit_bindings=False):
    """Shows what `build` makes of the scene. Answers `Chosen` when something that has a target is clicked.

    Args:
        build: The pure function that this pane shows.
        id: Its id; panes that take the focus are named in `scene.PANES`.
        title: Fixed text in the upper border.
        focusable: Whether tab stops here.
        wheel_steps: Whether the wheel steps rounds instead of scrolling.
    """

    DEFAULT_CSS = "Pane { scrollbar-size-vertical: 1; scrollbar-size-horizontal: 0; overflow-x: hidden; }"

    class Chosen(Message):
        """A target was clicked (or the wheel turned over a pane that steps rounds)."""

        def __init__(self, pane: Pane, target: Target, cell: int = 0) -> None:
            super().__init__()
            self.pane = pane
            self.target = target
            self.cell = cell
            """The terminal cell of the pane that was meant."""

    class Resized(Message):
        """A pane that is drawn from what was fetched for its size has another one."""

    def __init__(
        self,
        build: Build,
        *,
        id: str,  # noqa: A002 - the toolkit's name
        title: str = "",
        focusable: bool = False,
        wheel_steps: bool = False,
    ) -> None:
        super().__init__(id=id)
        self.can_focus = focusable
        self.border_title = title or None
        self._build = build
        self._wheel_steps = wheel_steps
        self._scene = Scene()
        self._document: Document = Lines(())
        self._built_for = Size(0, 0)
        self._made: dict[int, Line] = {}
        self._sought_y = 0
        self._styles_of: dict[tuple[str, str], Style] = {}
        self._strips: dict[tuple[Line, int], Strip] = {}
        self._shown: dict[int, tuple[Line, Strip]] = {}
        self._filters: tuple[Sequence[LineFilter], Color] | None = None
        self.lines_drawn = 0
        """Lines that were drawn so far: what tests hold against the height."""

    @property
    def document(self) -> Document:
        """What is shown."""
        return self._document

    def show(self, scene: Scene) -> None:
        """Show `scene`: keep its selection in sight if it moved, and redraw the visible lines that differ."""
        self._scene = scene
        if self._displayed and self._area.width:
            self._update()
        else:
            self._built_for = Size(0, 0)

    @property
    def _displayed(self) -> bool:
        """Whether the pane is displayed at all (a hidden tab builds nothing)."""
        return all(node.display for node in self.ancestors_with_self if isinstance(node, Widget))

    @property
    def _area(self) -> Size:
        """The cells that lines are drawn into, without the scrollbar."""
        return self.scrollable_content_region.size

    def _update(self) -> None:
        area, before, old_height = self._area, self._document.focus, self._document.height
        document = self._build(self._scene, area.width, area.height)
        resized = self._built_for != area
        self._document, self._built_for = document, area
        drawn, self._made = self._made, {}
        if document.height != old_height or resized:
            self._reach(Size(area.width, document.height))
        focus = document.focus
        if focus is not None and (focus != before or resized):
            above = max(focus - 1, 0)  # a heading above the selection is kept in sight with it
            place = Region(0, above, 1, focus - above + 1)
            if resized and self.scroll_offset.y == self._sought_y:
                # Nobody scrolled since: where it ends does not depend on which came first, the size or the document.
                self.scroll_to(y=0, animate=False, force=True, immediate=True)
            self.scroll_to_region(place, animate=False, force=True, immediate=True, x_axis=False)
            self._sought_y = self.scroll_offset.y
        if resized:
            self.refresh()
            return
        top = self.scroll_offset.y
        differ = [y for y in range(area.height) if drawn.get(top + y) != self._line(top + y)]
        if differ:
            self.refresh(*(Region(0, y, area.width, 1) for y in differ))

    @property
    def vertical_scrollbar(self) -> ScrollBar:
        """The scrollbar, made when it is asked for first, as the toolkit makes its own."""
        if self._vertical_scrollbar is None:
            self._vertical_scrollbar = bar = Bar(name="vertical", thickness=self.scrollbar_size_vertical)
            bar.display = False
            self.app._start_widget(self, bar)
        return self._vertical_scrollbar

    def _reach(self, size: Size) -> None:
        """Scroll over `size` from now on, as `ScrollView` does it when its own size changes.

        Assigning `virtual_size` would lay out the whole screen and send all of it again, on every step that makes a
        list longer; the place of a pane does not depend on what is in it.
        """
        self.set_reactive(Pane.virtual_size, size)
        self._scroll_update(size)
        if self.show_vertical_scrollbar:
            self.vertical_scrollbar.position = self.scroll_y  # it hears nothing of scrolling while it is hidden

    def _line(self, number: int) -> Line:
        """Return a line of the document, made once for each document."""
        made = self._made.get(number)
        if made is None:
            made = self._document.line(number) if 0 <= number < self._document.height else Line()
            self._made[number] = made
        return made

    def on_resize(self) -> None:
        """Build for the new size."""
        self._update()
        if self._wheel_steps:
            self.post_message(self.Resized())

    def on_show(self) -> None:
        """Build what was not built while hidden."""
        if self._built_for != self._area:
            self._update()

    def notify_style_update(self) -> None:
        """Forget colours: the theme changed."""
        super().notify_style_update()
        self._styles_of.clear()
        self.forget_drawn()

    def forget_drawn(self) -> None:
        """Draw every line anew when it is seen next."""
        self._lines = None
        self._strips.clear()
        self._shown.clear()

    def draw_lines(self, crop: Region) -> list[Strip]:
        """Return the lines of a region; those that were drawn before are kept, with what the terminal is sent for them.

        The toolkit makes several strips of every line (edges, padding, colours), which is most of the CPU of a frame.
        A pane that has neither edge nor padding needs none of it.
        """
        if any(self.styles.gutter):
            return super().draw_lines(crop)
        width, area, top = self.outer_size.width, self._area, self.scroll_offset.y
        drawn = [
            self._strip(y, self._line(y + top) if 0 <= y < area.height else _EMPTY, width, area.width)
            for y in crop.line_range
        ]
        self._filters = None
        return drawn if crop.column_span == (0, width) else [strip.crop(*crop.column_span) for strip in drawn]

    def _strip(self, y: int, whole: Line, width: int, content: int) -> Strip:
        """Return line `y` as the terminal gets it: at a glance where it is the very line that was there before.

        `content` is the width of what is drawn, `width` that with the place of a scrollbar.
        """
        shown = self._shown.get(y)
        if shown is not None and shown[0] is whole and shown[1].cell_length == width:
            return shown[1]
        kept = self._strips.get((whole, width))
        if kept is None:
            segments = self._segments(whole, content)
            if width > content:
                segments.append(Segment(" " * (width - content), self._style("text", "")))
            if self._filters is None:
                self._filters = self.get_line_filters(), self.background_colors[1]
            filters, ground = self._filters
            for each in filters:
                segments = each.apply(segments, ground)
            kept = Strip(segments, width)
            if len(self._strips) >= _KEPT_STRIPS:
                self._strips.clear()
            self._strips[whole, width] = kept
        self._shown[y] = whole, kept
        return kept

    def render_line(self, y: int) -> Strip:
        """Return visible line `y` as a strip."""
        return Strip(self._segments(self._line(y + self.scroll_offset.y), self._area.width), self._area.width)

    def _segments(self, drawn: Line, width: int) -> list[Segment]:
        """Return a line in exactly `width` cells; the last door at which a string is cleaned.

        A strip of the toolkit costs more than all that is in it, so that none is made on the way.
        """
        self.lines_drawn += 1
        segments = [
            Segment(clean("".join([span.text for span in spans])), self._style(role, drawn.base))
            for role, spans in groupby(drawn.spans, _role)
        ]
        room = width - sum([cell_len(segment.text) for segment in segments])
        if room > 0:
            segments.append(Segment(" " * room, self._style("text", drawn.base)))
        return segments if room >= 0 else list(Strip(segments).adjust_cell_length(width))

    def _style(self, role: str, base: str) -> Style:
        style = self._styles_of.get((role, base))
        if style is None:
            style = self.rich_style
            for each in (base, role) if base else (role,):
                style += role_style(each, self.app.theme_variables, no_color=self.app.no_color)
            self._styles_of[role, base] = style
        return style

    def on_click(self, event: events.Click) -> None:
        """Choose what was clicked."""
        where = event.get_content_offset(self)
        if where is None:
            return
        target = target_at(self._line(where.y + self.scroll_offset.y), where.x)
        if target is not None:
            self.post_message(self.Chosen(self, target, where.x))

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Step a round where the wheel steps, with ctrl zoom, with shift pan; otherwise scroll as usual."""
        self._turned(event, 1)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Step a round back where the wheel steps, with ctrl zoom, with shift pan; otherwise scroll as usual."""
        self._turned(event, -1)

    def _turned(self, event: events.MouseScrollDown | events.MouseScrollUp, way: int) -> None:
        if not self._wheel_steps:
            return
        event.stop()
        event.prevent_default()
        target: Target = ("zoom", -way) if event.ctrl else (("pan", way) if event.shift else ("step", way))
        self.post_message(self.Chosen(self, target, event.x))
