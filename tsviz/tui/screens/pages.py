"""The pages screen: every page of every group at a round, one of them in the inspector (debugger.md, section 1)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.message import Message

from tsviz.replay.pages.values import DEVICE, HOST, PageLife, PagesMap
from tsviz.replay.recorded.snapshot import NotPrepared, Preparing, RecordedView, TraceHead
from tsviz.tui.clean import clean
from tsviz.tui.destination import Destination, NoDestination, ToRequest, ToRound
from tsviz.tui.fetch import Fetcher
from tsviz.tui.pages_keys import PAGES_KEYS, pages_bindings
from tsviz.tui.pages_scene import LivePages, Pages, PagesScene, PagesView, TieredPages, place
from tsviz.tui.panes.page_card import page_facts, page_life
from tsviz.tui.panes.pages import Drawn, geometry, pages_map, parent_at, summary, under
from tsviz.tui.panes.pages_edges import pages_bottom, pages_header
from tsviz.tui.panes.pages_sheets import pages_help, pages_legend
from tsviz.tui.panes.states import BY_COLUMNS, BY_ROWS, too_small
from tsviz.tui.scene import Scene
from tsviz.tui.screens.goto import GoTo
from tsviz.tui.screens.opaque import OpaqueScreen
from tsviz.tui.screens.sheet import Sheet
from tsviz.tui.screens.standing import stands
from tsviz.tui.widgets.grid_pane import GridPane
from tsviz.tui.widgets.pane import Pane

_COLUMNS_FOR_CARD = 100
_LIVE_REST_S, _LIVE_AGAIN_S, _LIVE_WAIT_S = 0.15, 0.4, 0.02
"""How long the cursor rests before the index is asked for, how long until it is asked again, how long a look takes."""
_FRAME_COLUMNS = 3
"""Border and scrollbar of the map where it has the whole width."""


@dataclass(frozen=True, slots=True)
class Left:
    """Where the pages screen was left: the round, and the request that was lit."""

    round: int
    submission: int | None
    request: str


class PagesScreen(OpaqueScreen[Left]):
    """Answers where it was left."""

    BINDINGS = pages_bindings()
    HORIZONTAL_BREAKPOINTS = BY_COLUMNS
    VERTICAL_BREAKPOINTS = BY_ROWS

    class Ready(Message):
        """The fetching thread has the map of a round (or how far what tells it is, or why there is none), the life of a
        page and the pages of a request.
        """

        def __init__(
            self, asked: tuple[object, ...], found: PagesMap | Preparing | str, life: PageLife | None,
            lit: tuple[frozenset[int], ...],
        ) -> None:  # fmt: skip
            super().__init__()
            self.asked, self.found, self.life, self.lit = asked, found, life, lit

    class Beyond(Message):
        """The round of an event that was looked for from round `here`, or in words why there is none."""

        def __init__(self, here: int, found: int | None, words: str) -> None:
            super().__init__()
            self.here, self.found, self.words = here, found, words

    class Live(Message):
        """The map with what is live in it, or why there is none; an empty text: not yet."""

        def __init__(self, asked: tuple[object, ...], found: PagesMap | str) -> None:
            super().__init__()
            self.asked, self.found = asked, found

    def __init__(
        self, fetcher: Fetcher, head: TraceHead, round_: int, lit: int | None, lit_name: str,
        keymap: dict[str, str] | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self._fetcher = fetcher
        self.keys = tuple(k._replace(keys=(keymap or {}).get(k.id, k.keys)) for k in PAGES_KEYS)
        self.scene = PagesScene(head, round_, lit=lit, lit_name=lit_name, keys=self.keys)
        self._drawn = Drawn()
        self._asked: tuple[object, ...] = ()
        self._live: LivePages | None = None

    def compose(self) -> ComposeResult:
        """Place the panes, and over them what is said where there is no room."""
        yield Pane(too_small, id="small")
        yield Pane(lambda _s, w, h: pages_header(self.scene, w, h), id="pages-header", wheel_steps=True)
        yield Pane(lambda _s, w, h: summary(self.scene, w, h), id="pages-summary")
        with Horizontal(id="pages-body"):
            yield GridPane(
                lambda _s, w, h: pages_map(self.scene, self._drawn, w, h), id="pages-map", title="Pages", focusable=True
            )
            with Vertical(id="page-card") as card:
                card.border_title = "Page"
                yield Pane(lambda _s, w, h: page_facts(self.scene, w, h), id="page-facts")
                yield Pane(lambda _s, w, h: page_life(self.scene, w, h), id="page-life")
        yield Pane(lambda _s, w, h: under(self.scene, w, h), id="pages-under")
        yield Pane(lambda _s, w, h: pages_bottom(self.scene, w, h), id="pages-bottom")

    def on_mount(self) -> None:
        """Ask for the map."""
        self._later = self.set_timer(_LIVE_REST_S, self._ask_live, pause=True)
        self.query_one("#pages-map").focus()
        self._ask()

    def on_resize(self) -> None:
        """Choose the layout for the size."""
        self.set_class(self.size.width < _COLUMNS_FOR_CARD, "-narrow")
        self.redraw()

    def redraw(self) -> None:
        """Show the scene."""
        if not stands(self):
            return
        if self.scene.map is not None:
            self.query_one("#pages-summary").styles.height = 1 + min(len(self.scene.map.groups), 4)
            per_line = geometry(self.scene.map, self.size.width - _FRAME_COLUMNS, self.size.height // 4).per_line
            lines = -(-(len(self.scene.map.parents) - 1) // per_line)
            most = self.size.height * 3 // 5 - 4
            self._map_pane.styles.height = min(lines + 2, most) if self.has_class("-narrow") else "1fr"
        for pane in self.query(Pane):
            pane.show(Scene())

    def put(self, **changes: object) -> None:
        """Replace parts of the scene and show it."""
        self.scene = replace(self.scene, **changes)  # type: ignore[arg-type]
        self.redraw()

    def _ask(self, **changes: object) -> None:
        self.scene = replace(self.scene, **{"message": "", **changes})  # type: ignore[arg-type]
        scene = self.scene
        asked = (scene.round, scene.parent, scene.child, scene.group, scene.lit, scene.tier)
        if asked != self._asked:
            self._asked = asked
            self._fetcher.do("pages", partial(self._fetch, scene, asked))
        self.redraw()

    def _fetch(self, scene: PagesScene, asked: tuple[object, ...], view: RecordedView) -> None:
        """Run on the fetching thread: read, and post what was found."""
        try:
            if not isinstance(view, PagesView):
                raise TypeError("this trace does not tell its pages")
            pages = _tier(view.pages, scene.tier)
            found = scene.map if scene.map is not None and scene.map.round == scene.round else pages.at(scene.round)
            where = place(found, scene.group, scene.parent, scene.child)
            known = scene.life if scene.life is not None and scene.life.tells(where, found.round) else None
            life = None if where is None else known or pages.life(*where, found.round)
            lit = () if scene.lit is None else pages.held(scene.lit, found.round)
        except NotPrepared as error:
            self.post_message(self.Ready(asked, error.preparing, None, ()))
            return
        except Exception as error:  # whatever a view raises is shown, and the screen lives on
            self.post_message(self.Ready(asked, f"{type(error).__name__}: {error}", None, ()))
            return
        self.post_message(self.Ready(asked, found, life, lit))

    def on_pages_screen_ready(self, event: Ready) -> None:
        """Show what was asked for last; what was overtaken is dropped."""
        if event.asked != self._asked:
            return
        if isinstance(event.found, str):
            self.put(error=event.found, loading=False)
        elif isinstance(event.found, Preparing):
            self.put(preparing=event.found)
            self._later.stop()
            self._later = self.set_timer(_LIVE_AGAIN_S, self._ask_again)
        else:
            self.put(map=event.found, life=event.life, lit_pages=event.lit, round=event.found.round, loading=False,
                     error="", preparing=None)  # fmt: skip
            self._asked = (event.found.round, *event.asked[1:])
            self._later.stop()
            self._later = self.set_timer(_LIVE_REST_S, self._ask_live)

    def _ask_again(self) -> None:
        """Ask once more for the same: the trace was being indexed."""
        self._asked = ()
        self._ask()

    def _ask_live(self) -> None:
        if self.scene.map is not None and self.scene.map.live is None:
            self._fetcher.do("pages live", partial(self._fetch_live, self.scene.map, self._asked))

    def _fetch_live(self, pages: PagesMap, asked: tuple[object, ...], view: RecordedView) -> None:
        """Run on the fetching thread: take what is re-executed by now, without making anybody wait for it."""
        if isinstance(view, PagesView):
            self._live = view.pages.live
            try:
                self.post_message(self.Live(asked, self._live.over(pages, _LIVE_WAIT_S)))
            except Exception as error:  # the recorded map stays, and says why it knows no more
                self.post_message(self.Live(asked, f"{type(error).__name__}: {error}"))

    def on_pages_screen_live(self, event: Live) -> None:
        """Show what is live, or ask again in a while."""
        if event.asked != self._asked:
            return
        if not isinstance(event.found, str):
            self.put(map=event.found, live_words="")
        elif event.found:
            self.put(live_words=event.found)
        else:
            self._later = self.set_timer(_LIVE_AGAIN_S, self._ask_live)

    def on_unmount(self) -> None:
        """Stop re-executing."""
        if self._live is not None:
            self._live.close()

    def go(self, round_: int) -> None:
        """Go to a round, held to the trace; at its ends a sentence says so."""
        rounds = self.scene.head.rounds
        held = min(max(round_, self.scene.head.first_round), max(rounds, 1))
        self._ask(round=held)
        if held != round_:
            self.put(message=f"Round {held:,} is {'the last' if round_ > rounds else 'the first'} round of this trace.")

    def action_step(self, rounds: int) -> None:
        """Step rounds."""
        self.go(self.scene.round + rounds)

    def action_first(self) -> None:
        """First round."""
        self.go(self.scene.head.first_round)

    def action_last(self) -> None:
        """Last round."""
        self.go(self.scene.head.rounds)

    def action_event(self, step: int) -> None:
        """Go to the next or previous round of this page's life."""
        life, here = self.scene.life, self.scene.round
        rounds = [] if life is None else sorted({event.round for event in life.events})
        behind = [r for r in rounds if r > here] if step > 0 else [r for r in rounds if r < here][::-1]
        if behind:
            return self.go(behind[0])
        if life is not None and any(life.rounds):
            self._fetcher.do("pages event", partial(self._fetch_beyond, life, self.scene.tier, here, step))
            return self.put(message="Looking through the rounds beyond …")
        return self.put(message=_nothing(here, step))

    def _fetch_beyond(self, life: PageLife, tier: str, here: int, step: int, view: RecordedView) -> None:
        """Run on the fetching thread: look for an event of a page outside the rounds that its life tells of."""
        if isinstance(view, PagesView):
            try:
                found = _tier(view.pages, tier).event_beyond(life.group, life.page, here, step)
            except Exception as error:  # whatever a view raises is shown, and the screen lives on
                self.post_message(self.Beyond(here, None, f"{type(error).__name__}: {error}"))
            else:
                self.post_message(self.Beyond(here, found, _nothing(here, step)))

    def on_pages_screen_beyond(self, event: Beyond) -> None:
        """Go to the event, unless another round was gone to meanwhile."""
        if event.here != self.scene.round:
            return
        if event.found is None:
            self.put(message=event.words)
        else:
            self.go(event.found)

    def action_goto(self) -> None:
        """Ask where to go."""
        head = self.scene.head
        self.app.push_screen(GoTo(head.rounds, f"{head.node}/{head.rank}"), self._gone)

    def _gone(self, destination: Destination | None) -> None:
        match destination:
            case ToRound(round_, _):
                self.go(round_)
            case ToRequest(request):
                self._light_named(request)
            case NoDestination(reason):
                self.put(message=f"Nowhere to go: {reason}.")

    def _light_named(self, request: str) -> None:
        names = {} if self.scene.map is None else self.scene.map.names
        found = next((submission for submission, name in names.items() if name == request), None)
        if found is None:
            return self.put(message=f"{clean(request)} holds no page in this round.")
        return self._ask(lit=found, lit_name=request)

    @property
    def _map_pane(self) -> GridPane:
        return self.query_one("#pages-map", GridPane)

    def _per_line(self) -> int:
        pages = self.scene.map
        return 1 if pages is None else geometry(pages, *self._map_pane.scrollable_content_region.size).per_line

    def action_move(self, across: int, down: int) -> None:
        """Move the cursor by pages and lines."""
        pages = self.scene.map
        if pages is None:
            return
        parent, child = self.scene.parent + down * self._per_line(), self.scene.child + across
        if not 0 <= child < self._packing(parent if down else self.scene.parent):
            parent += across
            child = 0 if across >= 0 else self._packing(parent) - 1
        if 1 <= parent < len(pages.parents):
            self._ask(parent=parent, child=min(child, self._packing(parent) - 1), hover=None)

    def _packing(self, parent: int) -> int:
        pages = self.scene.map
        if pages is None or not 1 <= parent < len(pages.parents):
            return 1
        group = pages.parents[parent]
        if group < 0:
            single = 0 if len(pages.groups) == 1 else self.scene.group
            return 1 if single is None else pages.groups[single].packing
        return pages.groups[group].packing

    def action_screenful(self, step: int) -> None:
        """Move by a screenful of lines, stopping at the ends."""
        pages = self.scene.map
        if pages is not None:
            lines, per_line = max(self._map_pane.size.height - 3, 1), self._per_line()
            wanted = self.scene.parent + step * lines * per_line
            last = len(pages.parents) - 1
            column = (self.scene.parent - 1) % per_line
            top, bottom = 1 + column, last - (last - 1 - column) % per_line
            self._ask(parent=min(max(wanted, top), bottom), child=0, hover=None)

    def action_light(self) -> None:
        """Light the pages of the request that holds this page, or put the light out."""
        scene, where = self.scene, self.scene.page
        if scene.map is None:
            return
        owner = -1 if where is None else scene.map.owners[where[0]][where[1]]
        if owner < 0 or owner == scene.lit:
            message = "" if owner >= 0 or scene.lit is not None else "No request holds this page."
            self._ask(lit=None, lit_name="", lit_pages=())
            self.put(message=message)
        else:
            self._ask(lit=owner, lit_name=scene.map.names.get(owner, ""))

    def action_lit(self, step: int) -> None:
        """Go to the next or previous page that is lit, around the ends."""
        pages, scene = self.scene.map, self.scene
        if pages is None or not any(scene.lit_pages):
            return self.put(message="No page is lit: enter lights those of the request that holds a page.")
        places = sorted(
            (pages.parent_of(g, page), (page - 1) % pages.groups[g].packing)
            for g, found in enumerate(scene.lit_pages) for page in found
        )  # fmt: skip
        here = (scene.parent, scene.child)
        behind = [p for p in places if p > here] if step > 0 else [p for p in places if p < here][::-1]
        parent, child = behind[0] if behind else places[0 if step > 0 else -1]
        return self._ask(parent=parent, child=child, hover=None)

    def action_group(self, step: int) -> None:
        """Draw one group only, or all."""
        pages = self.scene.map
        if pages is None or len(pages.groups) == 1:
            return self.put(message="This trace has one group.")
        order: list[int | None] = [None, *range(len(pages.groups))]
        return self._ask(group=order[(order.index(self.scene.group) + step) % len(order)], child=0)

    def action_tier(self) -> None:
        """Show the pages of the host tier, or those of the device again."""
        if not self.scene.head.host_pages:
            return self.put(message="This trace has no host tier.")
        tier = DEVICE if self.scene.tier == HOST else HOST
        words = self.scene.live_words if self.scene.live_words else "re-executing …"
        return self._ask(tier=tier, map=None, life=None, lit_pages=(), loading=True, parent=1, child=0, hover=None,
                         live_words=words)  # fmt: skip

    def action_copy(self) -> None:
        """Copy the query that tells the life of the page under the cursor."""
        pages, where = self.scene.map, self.scene.page
        if self.scene.tier == HOST:
            return self.put(message="Host pages have no query of their own: tables transfers and evictions tell them.")
        if pages is None or where is None:
            return self.put(message="No page is under the cursor.")
        name = pages.groups[where[0]].name.replace("'", "''")
        query = clean(f"FROM page_life('{name}', {where[1]})")
        self.app.copy_to_clipboard(query)
        return self.put(message=f"Copied: {query}")

    def action_legend(self) -> None:
        """Show what each glyph means."""
        self.app.push_screen(Sheet("Legend of the pages", pages_legend))

    def action_help(self) -> None:
        """Show every key."""
        self.app.push_screen(Sheet("Help for the pages", lambda width: pages_help(self.keys, width)))

    def action_leave(self) -> None:
        """Go back."""
        self.dismiss(Left(self.scene.round, self.scene.lit, self.scene.lit_name))

    def on_grid_pane_touched(self, event: GridPane.Touched) -> None:
        """Show what is under the pointer; a press moves the cursor there, a second one lights the owner."""
        size = self._map_pane.scrollable_content_region.size
        found = None if event.x is None else parent_at(self.scene, size, event.x, event.y)
        if event.pressed and found is not None:
            if found == (self.scene.parent, self.scene.child):
                return self.action_light()
            return self._ask(parent=found[0], child=found[1], hover=None)
        if found != self.scene.hover:
            self.scene = replace(self.scene, hover=found)
            self.query_one("#pages-under", Pane).show(Scene())
        return None

    async def on_pane_chosen(self, event: Pane.Chosen) -> None:
        """Do what was clicked."""
        match event.target:
            case ("round", int() as round_):
                self.go(round_)
            case ("step", int() as step):
                self.action_step(step)
            case ("light", int() as submission):
                names = {} if self.scene.map is None else self.scene.map.names
                self._ask(lit=submission, lit_name=names.get(submission, ""))
            case ("action", str() as action):
                await self.run_action(action)


def _tier(pages: TieredPages, tier: str) -> Pages:
    host = pages.host if tier == HOST else None
    return pages if host is None else host


def _nothing(here: int, step: int) -> str:
    return f"Nothing happened to this page {'after' if step > 0 else 'before'} round {here:,}."
