"""The cursor: one round, one selected request, and how both move. Draws nothing: it replaces the scene.

Every move is answered at once (the position and the cursor bar move, "loading" stands in the header) and completed when
the frame arrives; a frame that is no longer wanted when it arrives is dropped.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from textual.screen import Screen

from tsviz.replay.snapshot import RecordedView
from tsviz.tui.clean import shorten
from tsviz.tui.fetch import Failure, Fetcher
from tsviz.tui.frame import LAST, ORDERS, Ask, Frame
from tsviz.tui.scene import Scene
from tsviz.tui.screens.answers import Answered, Found, History, Marked, Opened, found, history, marked, opened

SPEEDS_ROUNDS_PER_SECOND = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
_FASTEST_TICK_S = 0.1


class SteppingScreen(Screen[None]):
    """Holds the scene and the fetcher; subclasses draw (`redraw`) and turn keys into moves."""

    def __init__(self, view: RecordedView, start_round: int, request: str | None) -> None:
        super().__init__()
        self.scene = Scene(round=start_round)
        self.fetcher = Fetcher(view, self._deliver)
        self._first_request = request
        self._asked: Ask | None = None
        self._speed = 3

    def _deliver(self, result: object) -> None:
        self.post_message(Answered(result))

    def redraw(self) -> None:
        """Show the scene."""
        raise NotImplementedError

    def on_mount(self) -> None:
        """Open the trace; nothing waits for it."""
        self._player = self.set_interval(1.0, self._tick, pause=True)
        self.fetcher.start()
        self.fetcher.do("open", opened)

    def on_unmount(self) -> None:
        """Let the fetching thread end."""
        self.fetcher.close()

    def put(self, **changes: object) -> None:
        """Replace parts of the scene and show it."""
        self.scene = replace(self.scene, **changes)  # type: ignore[arg-type]
        self.redraw()

    def say(self, message: str, role: str = "message") -> None:
        """Show a sentence in the last line until the next key."""
        self.put(message=message, message_role=role)

    def go(self, round_: int, **changes: object) -> None:
        """Move to a round, held to the trace; at its ends a sentence says so."""
        scene, rounds = self.scene, self.scene.rounds
        if rounds == 0:
            return self.say("This trace has no rounds." if scene.head else "The trace is still being opened.")
        if round_ > rounds and scene.head is not None and scene.head.live:
            return self.want(Ask(LAST, scene.selected, scene.filter, scene.order), **changes)
        held = min(max(round_, 1), rounds)
        if held != round_ and "message" not in changes:
            words = "the last" if round_ > rounds else "the first"
            changes |= {"message": f"Round {held:,} is {words} round of this trace.", "message_role": "message"}
            self.stop_playing()
        scene = replace(scene, round=held, **changes)  # type: ignore[arg-type]
        return self.want(Ask(held, scene.selected, scene.filter, scene.order), **changes)

    def want(self, ask: Ask, **changes: object) -> None:
        """Ask for a frame and show what can be shown before it comes."""
        self._asked = ask
        frame = self.fetcher.ask(ask)
        changes |= {"error": ""}
        if ask.round != LAST:
            changes |= {"round": ask.round}
        if frame is None:
            self.put(loading=True, selected=ask.selected, filter=ask.filter, order=ask.order, **changes)
        else:
            self.scene = replace(self.scene, filter=ask.filter, order=ask.order, **changes)  # type: ignore[arg-type]
            self._show(frame)

    def select(self, submission: int, request: str) -> None:
        """Select a request: the cursor bar moves now, its tables come with the frame."""
        scene = self.scene
        self.want(Ask(scene.round, submission, scene.filter, scene.order), selected_id=request)

    def list_requests(self, filter_: str | None = None, order: str | None = None) -> None:
        """Filter or order the list of requests anew."""
        scene = self.scene
        filter_ = scene.filter if filter_ is None else filter_
        order = scene.order if order is None else order
        if scene.rounds == 0:
            return self.put(filter=filter_, order=order)
        return self.want(Ask(scene.round, scene.selected, filter_, order), message="")

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

    def seek_history(self, buckets: int) -> None:
        """Fetch the pool strip for so many columns."""
        self.fetcher.do("history", partial(history, buckets=buckets))

    def on_answered(self, message: Answered) -> None:
        """Take what the fetching thread found."""
        match message.result:
            case Frame() as frame if frame.ask == self._asked:
                self._show(frame)
            case Opened(head):
                self.put(head=head, loading=head.rounds > 0)
                if self._first_request is not None:
                    self.seek_request(self._first_request)
                if head.rounds:
                    start = self.scene.round
                    self.go(head.rounds if start == LAST else start)
            case History(occupied):
                self.put(pool_history=occupied)
            case Marked(None, step):
                self.say(f"No {'later' if step > 0 else 'earlier'} round schedules the selected request.")
            case Marked(int() as round_, _):
                self.go(round_, message="")
            case Found() as result:
                self._arrive(result)
            case Failure(wish, error) if wish == self._asked or wish == "open":
                self.stop_playing()
                self.put(loading=False, error=error)
            case Failure(str() as kind, error):
                self.say(f"{_FAILED.get(kind, kind)}: {error}", "bad")

    def _show(self, frame: Frame) -> None:
        snapshot, scene = frame.snapshot, self.scene
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
        if speed and not self.scene.loading:
            self.go(self.scene.round + max(1, round(speed * _FASTEST_TICK_S)))


_FAILED = {"mark": "The next mark could not be read", "find": "The request could not be looked for",
           "history": "The pool over time could not be read"}  # fmt: skip
