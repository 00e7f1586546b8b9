"""The cursor: one round, one selected request, and how both move. Draws nothing: it replaces the scene.

Every move is answered at once (the position and the cursor bar move, "loading" stands in the header) and completed when
the frame arrives; a frame that is no longer wanted when it arrives is dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from textual.timer import Timer

from tsviz.replay.recorded.snapshot import RecordedView
from tsviz.replay.stops.story import RoundStory
from tsviz.tui.clean import shorten
from tsviz.tui.fetch import Failure, Fetcher, Renewed
from tsviz.tui.frame import LAST, ORDERS, Ask, Frame
from tsviz.tui.opening import NothingYet, Opening
from tsviz.tui.scene import Detail, Scene
from tsviz.tui.screens.answers import (
    LOOKED_UP,
    Answered,
    Found,
    Marked,
    Opened,
    detail,
    found,
    marked,
    opened,
)
from tsviz.tui.screens.opaque import OpaqueScreen
from tsviz.tui.screens.standing import stands
from tsviz.tui.strip import Lane, Strip, StripAsk, Window
from tsviz.tui.strips import fetch_strip

FIRST_STOP, LAST_STOP = 0, -1
"""Wishes for a stop that is known only when the round has come: its first, its last."""
SPEEDS_ROUNDS_PER_SECOND = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
_FASTEST_TICK_S = 0.1
_LOOK_AGAIN_S = 0.5
"""How often a round is read again while its trace is being indexed."""
_MOVED = ("header", "requests", "bottom")
"""The panes that show a move before its frame is there."""
_SOON_S = 0.05
"""How long the others wait for the frame: most come sooner, and are drawn once."""
_REST_S = 0.12
"""How long the cursor stands still before an answer that takes its time is looked for."""


class SteppingScreen(OpaqueScreen[None]):
    """Holds the scene and the fetcher; subclasses draw (`redraw`) and turn keys into moves."""

    def __init__(
        self, view: RecordedView | Opening, start_round: int, request: str | None, start_stop: int | None
    ) -> None:
        super().__init__()
        self.scene = Scene(round=start_round)
        self.fetcher = Fetcher(view, self._deliver)
        self._first_request = request
        self._first_stop = start_stop
        self._asked: Ask | None = None
        self._stop_wish: int | None = None
        self._strip_asked: StripAsk | None = None
        self._strip_stale = False
        """Whether the strip that is shown is of a view that is looked at no more."""
        self._behind: list[Callable[[], None]] = []
        self._speed = 3
        self._soon: Timer | None = None

    def _deliver(self, result: object) -> None:
        self.post_message(Answered(result))

    def redraw(self, *panes: str) -> None:
        """Show the scene: in the panes named, or in all."""
        raise NotImplementedError

    def show_view(self, view: str) -> None:
        """Open a view in the inspector, and as tabs the inspector: nobody who follows a finding has to ask for it."""
        raise NotImplementedError

    def on_mount(self) -> None:
        """Open the trace; nothing waits for it."""
        self._player = self.set_interval(1.0, self._tick, pause=True)
        self._rest = self.set_timer(_REST_S, self._ask_detail, pause=True)
        self.fetcher.do("open", opened)
        self.call_after_refresh(self.fetcher.start)  # what is drawn first does not wait for a thread that imports

    def on_unmount(self) -> None:
        """Let the fetching thread end."""
        self.fetcher.close()

    def put(self, *panes: str, **changes: object) -> None:
        """Replace parts of the scene and show it: in the panes named, which alone depend on them, or in all."""
        self.scene = replace(self.scene, **changes)  # type: ignore[arg-type]
        self.redraw(*panes)

    def say(self, message: str, role: str = "message") -> None:
        """Show a sentence in the last line until the next key."""
        self.put(message=message, message_role=role)

    @property
    def no_round(self) -> str:
        """Why no round is shown."""
        empty = self.scene.head is not None and self.scene.rounds == 0
        return "This trace has no rounds." if empty else "The trace is still being opened."

    def go(self, round_: int, stop: int | None = None, **changes: object) -> None:
        """Move to a round, and to a stop in it, held to the trace; at its ends a sentence says so."""
        self._stop_wish = stop
        changes |= {"stop": None, "folds": frozenset()}
        scene, rounds = self.scene, self.scene.rounds
        if rounds == 0:
            return self.say(self.no_round)
        if round_ > rounds and scene.head is not None and scene.head.live and scene.follow is None:
            return self.want(self._ask_for(LAST), **changes)
        held = min(max(round_, scene.whole.first), rounds)
        if held != round_ and "message" not in changes:
            words = "the last" if round_ > rounds else "the first"
            changes |= {"message": f"Round {held:,} is {words} round of this trace.", "message_role": "message"}
            self.stop_playing()
        return self.want(self._ask_for(held), **changes)

    def _ask_for(self, round_: int) -> Ask:
        scene = self.scene
        return Ask(round_, scene.selected, scene.filter, scene.order, scene.pinned, scene.reverse)

    def want(self, ask: Ask, **changes: object) -> None:
        """Ask for a frame and show what can be shown before it comes."""
        self._asked = ask
        frame = self.fetcher.ask(ask)
        changes |= {"error": ""}
        if ask.round != LAST:
            changes |= {"round": ask.round}
        self.scene = replace(self.scene, filter=ask.filter, order=ask.order, reverse=ask.reverse)
        self.scene = replace(self.scene, **changes)  # type: ignore[arg-type]
        if frame is not None:
            return self._show(frame)
        self.scene = replace(self.scene, loading=True, selected=ask.selected)
        self.redraw(*_MOVED)
        if self._soon is None:
            self._soon = self.set_timer(_SOON_S, self._still_waiting)
        return None

    def when_there(self, act: Callable[[], None]) -> None:
        """Act on the round that the cursor is at: at once, or when it has come, if it is still on its way."""
        frame = self.scene.frame
        if self.scene.loading and frame is not None and frame.snapshot.round != self.scene.round:
            self._behind.append(act)
        else:
            act()

    def _still_waiting(self) -> None:
        self._soon = None
        if self.scene.loading and stands(self):
            self.redraw()

    def step_stop(self, step: int) -> None:
        """Go to the next (1) or previous (-1) stop, on to the next round behind the last one."""
        scene = self.scene
        if scene.frame is None or scene.loading:
            return self.go(scene.round, stop=FIRST_STOP if step > 0 else LAST_STOP)
        story = scene.frame.story
        if not isinstance(story, RoundStory):
            return self.say(f"{story.words}{f' {story.command} derives it.' if story.command else ''}")
        number = story.step(scene.stop, step) if scene.stop is not None or step > 0 else None
        if number is not None:
            return self.put_stop(number)
        if not scene.whole.first <= scene.round + step <= scene.rounds:
            return self.go(scene.round + step, stop=scene.stop)
        return self.go(scene.round + step, stop=FIRST_STOP if step > 0 else LAST_STOP, message="")

    def put_stop(self, number: int) -> None:
        """Put the cursor on a stop of the round that is shown, and select the request it is about."""
        frame = self.scene.frame
        story = frame.story if frame is not None else None
        if frame is None or not isinstance(story, RoundStory):
            return None
        stop = story.at(number)
        if stop is None:
            last = max((each.end for each in story.stops()), default=0)
            return self.say(f"Round {story.round:,} has stops 1 to {last:,}.", "bad")
        self.scene = replace(self.scene, stop=number, folds=frozenset())
        found = next((r for r in frame.snapshot.requests if r.submission == stop.submission), None)
        if found is None and stop.request:
            found = next((r for r in reversed(frame.snapshot.requests) if r.request == stop.request), None)
        if found is not None and found.submission != self.scene.selected:
            return self.select(found.submission, found.request)
        return self.put()

    def seek_detail(self) -> None:
        """Look up what the open view of the inspector needs; an answer that takes its time waits for a rest."""
        self._rest.stop()
        if self.scene.view == "why":
            self._rest = self.set_timer(_REST_S, self._ask_detail)
        else:
            self._ask_detail()

    def _ask_detail(self) -> None:
        scene = self.scene
        if scene.frame is None or scene.view not in LOOKED_UP or scene.answer_for(scene.view) is not None:
            return
        round_ = scene.frame.snapshot.round
        job = partial(detail, name=scene.view, round_=round_, submission=scene.selected)
        self.fetcher.do("detail", job)

    def select(self, submission: int, request: str) -> None:
        """Select a request: the cursor bar moves now, its tables come with the frame."""
        self.want(replace(self._ask_for(self.scene.round), selected=submission), selected_id=request)

    def list_requests(self, filter_: str | None = None, order: str | None = None, *, turn: bool = False) -> None:
        """Filter or order the list of requests anew, or turn its order round; another order begins as it is named."""
        scene = self.scene
        filter_ = scene.filter if filter_ is None else filter_
        order = scene.order if order is None else order
        reverse = scene.reverse != turn and order == scene.order
        if scene.rounds == 0:
            return self.put(filter=filter_, order=order, reverse=reverse)
        ask = replace(self._ask_for(scene.round), filter=filter_, order=order, reverse=reverse)
        return self.want(ask, message="")

    def next_order(self) -> None:
        """Order the requests in the next of the known ways."""
        names = list(ORDERS)
        self.list_requests(order=names[(names.index(self.scene.order) + 1) % len(names)])

    def seek_mark(self, step: int) -> None:
        """Look for the next round in which the selected request was scheduled."""
        if self.scene.selected is None:
            return self.say("No request is selected.")
        return self.fetcher.do(
            "mark", partial(marked, round_=self.scene.round, submission=self.scene.selected, step=step)
        )

    def seek_request(self, request: str) -> None:
        """Look for a request by its id."""
        self.say(f"Looking for {shorten(request, 40)} …")
        self.fetcher.do("find", partial(found, request=request, round_=max(self.scene.round, 1)))

    def seek_strip(self, *, follow: bool = False) -> None:
        """Fetch the timeline for its window, unless it is there; `follow` moves the window to the cursor."""
        scene = self.scene
        cells, lanes = self.strip_size
        if not scene.rounds or cells < 1:
            return
        window = scene.window if scene.window.size else scene.whole
        if follow:
            window = window.with_round(min(max(scene.round, scene.whole.first), scene.rounds), scene.whole)
        if window != scene.window:
            self.scene = scene = replace(scene, window=window)
        here = scene.round if scene.lane_order == "here" or scene.lane_group == "state" else 0
        ask = StripAsk(window, cells, lanes, scene.selected, scene.filter, scene.lane_order, scene.pinned, here,
                       scene.lane_group, scene.lane_reverse, scene.axis, scene.pool_group)  # fmt: skip
        if ask == self._strip_asked:
            return
        shown = scene.strip
        known = shown is not None and not self._strip_stale
        if known and shown is not None and replace(shown.ask, selected=ask.selected) == ask and self._in_sight(shown):
            return
        self._strip_asked = ask
        self.fetcher.do("strip", partial(fetch_strip, ask=ask))

    def _in_sight(self, strip: Strip) -> bool:
        """Whether the selected request has a lane, or can have none."""
        lanes = [lane.submission for lane in strip.lanes if isinstance(lane, Lane)]
        return not lanes or self.scene.selected in lanes

    def put_window(self, window: Window) -> None:
        """Show other rounds in the timeline."""
        self.put(window=window)
        self.seek_strip()

    @property
    def strip_size(self) -> tuple[int, int]:
        """Cells of rounds and lanes that the timeline has room for."""
        raise NotImplementedError

    def on_answered(self, message: Answered) -> None:
        """Take what the fetching thread found."""
        if not stands(self):
            return
        match message.result:
            case Frame() as frame if frame.ask == self._asked:
                self._show(frame)
            case Opened(head):
                self.put(head=head, loading=head.rounds > 0)
                if self._first_request is not None:
                    self.seek_request(self._first_request)
                if head.rounds:
                    start = self.scene.round if self.scene.round != 1 else head.first_round
                    stop, self._first_stop = self._first_stop, None
                    self.go(head.rounds if start == LAST else start, stop=stop)
            case Renewed(head):
                self._strip_asked, self._strip_stale = None, True
                self.put(head=head, detail=None)
                if self._asked is not None:
                    self.want(self._asked)
            case Detail() as found:
                self.put("inspector", detail=found)
            case Strip() as strip if strip.ask == self._strip_asked:
                self._strip_stale = False
                self.put("timeline", strip=strip)
            case Marked(None, step):
                self.say(f"No {'later' if step > 0 else 'earlier'} round schedules the selected request.")
            case Marked(int() as round_, _):
                self.go(round_, message="")
            case Found() as result:
                self._arrive(result)
            case Failure("open", _, NothingYet()):
                pass  # no fault: who follows asks again (`Following.wait_for_part`)
            case Failure(wish, error) if wish == self._asked or wish == "open":
                self.stop_playing()
                self._behind.clear()
                self.put(loading=False, error=error)
                self.seek_strip()  # the other rounds may be readable
            case Failure(str() as kind, error):
                self.say(f"{_FAILED.get(kind, kind)}: {error}", "bad")

    def _show(self, frame: Frame) -> None:
        if self._soon is not None:
            self._soon.stop()
            self._soon = None
        snapshot, scene = frame.snapshot, self.scene
        moved = scene.frame is None or scene.frame.snapshot.round != snapshot.round
        selected = frame.ask.selected if frame.ask.selected is not None else snapshot.selected
        request = frame.request(selected)
        message = scene.message
        if frame.ask.round == LAST and scene.frame and scene.frame.snapshot.round == snapshot.round:
            message = "This was the last round when the trace was opened; open it again to see more."
        self.put(
            frame=frame,
            head=snapshot.head,
            round=snapshot.round,
            selected=selected,
            selected_id=request.request if request else scene.selected_id,
            loading=False,
            error="",
            message=message,
        )
        self._settle_stop(frame)
        if snapshot.preparing is not None:
            if not snapshot.preparing.error and not snapshot.preparing.words:
                self.set_timer(_LOOK_AGAIN_S, self._look_again)
        elif scene.frame is not None and scene.frame.snapshot.preparing is not None:
            self._strip_asked = None  # what the timeline shows was not known when it was asked for
            self.scene = replace(self.scene, strip=None)
        self.seek_strip(follow=moved)
        self.seek_detail()
        behind, self._behind = self._behind, []
        for act in behind:
            act()

    def _look_again(self) -> None:
        """Ask once more for the round that is shown: its trace was being indexed."""
        frame = self.scene.frame
        if frame is not None and frame.snapshot.preparing is not None and self._asked is not None:
            self.fetcher.ask(self._asked)

    def _settle_stop(self, frame: Frame) -> None:
        """Put the cursor on the stop that was wished for when the round was not there yet."""
        wish, self._stop_wish = self._stop_wish, None
        if wish is None:
            return None
        story = frame.story
        if not isinstance(story, RoundStory):
            return self.say(f"{story.words}{f' {story.command} derives it.' if story.command else ''}")
        number = story.step(None, 1 if wish == FIRST_STOP else -1) if wish in (FIRST_STOP, LAST_STOP) else wish
        return self.say(f"Round {story.round:,} has no stops.") if number is None else self.put_stop(number)

    def _arrive(self, result: Found) -> None:
        name = shorten(result.request, 40)
        if result.submission is None:
            where = "this trace" if result.everywhere else "this round, and this trace cannot be searched for it"
            return self.say(f"No request {name} in {where}.", "bad")
        round_ = self.scene.round if result.round is None else result.round
        self.scene = replace(self.scene, selected=result.submission, selected_id=result.request)
        return self.go(round_, message=f"{name} is submission {result.submission}.", message_role="message")

    def play_or_stop(self) -> None:
        """Start to play forward, or stop."""
        if self.scene.play_rounds_per_second:
            return self.stop_playing()
        if self.scene.rounds == 0:
            return self.say("This trace has no rounds.")
        return self._play(SPEEDS_ROUNDS_PER_SECOND[self._speed])

    def change_speed(self, step: int) -> None:
        """Play faster or slower."""
        self._speed = min(max(self._speed + step, 0), len(SPEEDS_ROUNDS_PER_SECOND) - 1)
        speed = SPEEDS_ROUNDS_PER_SECOND[self._speed]
        if self.scene.play_rounds_per_second:
            self._play(speed)
        else:
            self.say(f"Play at {speed:,} rounds/s.")

    def _play(self, speed: int) -> None:
        self._player.stop()
        self._player = self.set_interval(max(1 / speed, _FASTEST_TICK_S), self._tick)
        self.put(play_rounds_per_second=speed)

    def stop_playing(self) -> None:
        """Stop playing; nothing happens when nothing plays."""
        self._player.pause()
        if self.scene.play_rounds_per_second:
            self.put(play_rounds_per_second=0)

    def _tick(self) -> None:
        speed = self.scene.play_rounds_per_second
        if speed and not self.scene.loading and stands(self):
            self.go(self.scene.round + max(1, round(speed * _FASTEST_TICK_S)))


_FAILED = {"mark": "The next mark could not be read", "find": "The request could not be looked for",
           "renew": "The trace could not be opened anew", "strip": "The timeline could not be read",
           "detail": "What this view shows could not be read"}  # fmt: skip
