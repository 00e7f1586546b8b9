"""Snapshots come from one thread of their own: newest wish first, older wishes of the same kind forgotten.

One thread, because a view need not be thread-safe, and because a wish that is overtaken must not compete with the one
that overtook it. Nothing the screen calls here waits: `ask` looks into a dictionary, `ask` and `do` leave a
wish in a mailbox. When the mailbox is empty the neighbours of the last frame are fetched: a step finds its frame ready.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from tsviz.replay.recorded.snapshot import RecordedView, RequestLine, Snapshot, TraceHead
from tsviz.replay.stops.story import NotKnown, RoundStory
from tsviz.tui.frame import LAST, Ask, Frame, Listing, make_listing
from tsviz.tui.opening import Opening, Subject
from tsviz.tui.view import StoryTeller

_KEPT_SNAPSHOTS = 8
_KEPT_REQUESTS = 400_000
"""Request lines that cached snapshots may hold together; above it only the newest snapshots are kept."""
_KEPT_LISTINGS = 4
_NO_STORIES = NotKnown("not_recorded", "This trace does not tell what stands behind its plans.")

_ListingKey = tuple[int, str, str, frozenset[int], bool]
Result = object
"""A Frame, a Failure, or what a `do` job returned."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A wish that the view could not fulfil: what was wanted (a key), the error in words, and the error itself."""

    wish: object
    error: str
    raised: Exception | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Renewed:
    """More is known of the trace than when it was opened."""

    head: TraceHead


class Fetcher:
    """Owns the thread that talks to the view. `deliver` is called on that thread, once for each wish fulfilled."""

    def __init__(self, view: RecordedView | Opening, deliver: Callable[[Result], None]) -> None:
        """Talk to a view, or to one that is opened when the first wish is fulfilled."""
        self._opening = view if callable(view) else None
        self.subject: Subject | None = None
        """What was opened."""
        self._opened: RecordedView | None = None if callable(view) else view
        self._deliver = deliver
        self._wishes: OrderedDict[object, Callable[[], Result]] = OrderedDict()
        self._changed = threading.Condition()
        self._neighbours: list[Ask] = []
        self._snapshots: OrderedDict[tuple[int, int | None], Snapshot] = OrderedDict()
        self._stories: OrderedDict[int, RoundStory | NotKnown] = OrderedDict()
        self._frames: OrderedDict[Ask, Frame] = OrderedDict()
        self._listings: OrderedDict[_ListingKey, tuple[tuple[RequestLine, ...], Listing]] = OrderedDict()
        self._closed = False
        self._busy = False
        self._thread = threading.Thread(target=self._serve, name="tsviz-fetch", daemon=True)

    @property
    def opens_late(self) -> bool:
        """Whether the trace is opened by the thread."""
        return self._opening is not None

    @property
    def _view(self) -> RecordedView:
        """The view; the fetching thread alone asks for it."""
        if self._opened is None:
            assert self._opening is not None
            self.subject = self._opening()
            self._opened = self.subject.view
        return self._opened

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close(self) -> None:
        """Let the thread end after what it is doing; nothing is delivered any more. Does not wait."""
        with self._changed:
            self._closed = True
            self._wishes.clear()
            self._changed.notify()

    @property
    def idle(self) -> bool:
        """Whether nothing is wished, running or being prefetched."""
        with self._changed:
            return not (self._wishes or self._busy or self._neighbours)

    def ask(self, ask: Ask) -> Frame | None:
        """Return the frame for `ask` if it is ready; otherwise wish for it, and it is delivered.

        Either way an older wish for a frame that has not begun is dropped, and the neighbours are fetched afterwards.
        """
        with self._changed:
            frame = self._frames.get(ask)
            if frame is not None:
                self._wishes.pop("frame", None)
        if frame is None:
            self._wish("frame", lambda: self._frame(ask), ask)
        else:
            self._plan_ahead(frame)
        return frame

    def do(self, kind: str, job: Callable[[RecordedView], Result]) -> None:
        """Wish for `job(view)`, newest of its kind only."""
        self._wish(kind, lambda: job(self._view), kind)

    def renew(self, open_view: Callable[[], RecordedView]) -> None:
        """Look at another view from now on; its head is delivered as `Renewed`."""
        self._wish("renew", lambda: self._renew(open_view()), "renew")

    def _renew(self, view: RecordedView) -> Renewed:
        head = view.head
        with self._changed:
            self._opened = view
            self._frames.clear()
            self._neighbours.clear()
        for kept in (self._snapshots, self._stories, self._listings):
            kept.clear()
        return Renewed(head)

    def _wish(self, kind: str, job: Callable[[], Result], name: object) -> None:
        def guarded() -> Result:
            try:
                return job()
            except Exception as error:  # whatever a view raises is shown, and the screen lives on
                return Failure(name, f"{type(error).__name__}: {error}", error)

        with self._changed:
            self._wishes[kind] = guarded
            self._neighbours.clear()
            self._changed.notify()

    def _serve(self) -> None:
        while True:
            with self._changed:
                self._busy = False
                while not (self._wishes or self._neighbours or self._closed):
                    self._changed.wait()
                if self._closed:
                    return
                self._busy = True
                job = self._wishes.popitem(last=False)[1] if self._wishes else None
                ahead = self._neighbours.pop(0) if job is None else None
            if ahead is not None:
                self._look_ahead(ahead)
            elif job is not None:
                result = job()
                with self._changed:
                    if self._closed:
                        return
                self._deliver(result)
                if isinstance(result, Frame) and result.snapshot.preparing is None:
                    self._plan_ahead(result)

    def _plan_ahead(self, frame: Frame) -> None:
        shown = frame.snapshot.round
        ask = replace(frame.ask, selected=frame.snapshot.selected)
        asks = [
            replace(ask, round=r)
            for r in (shown + 1, shown - 1)
            if frame.snapshot.head.first_round <= r <= frame.snapshot.head.rounds
        ]
        with self._changed:
            if not self._wishes:
                self._neighbours = [each for each in asks if each not in self._frames]
                self._changed.notify()

    def _look_ahead(self, ask: Ask) -> None:
        try:
            self._frame(ask)
        except Exception:  # nobody asked yet; the error is shown when somebody does
            return

    def _frame(self, ask: Ask) -> Frame:
        round_ = self._view.head.rounds if ask.round == LAST else ask.round
        snapshot = self._snapshot(round_, ask.selected)
        if ask.selected is None:
            first = snapshot.rows[0].submission if snapshot.rows else None
            if first is None and snapshot.requests:
                first = snapshot.requests[0].submission
            if first is not None:
                snapshot = self._snapshot(round_, first)
        scheduled = {r.submission: r for r in snapshot.requests if r.scheduled}
        frame = Frame(snapshot, self._listing(snapshot, ask), ask, scheduled, self._story(snapshot.round))
        if snapshot.preparing is not None:  # soon there is more to show: nothing of it is kept
            return frame
        with self._changed:
            settled = replace(ask, round=snapshot.round, selected=snapshot.selected)
            for key in {ask, settled} if ask.round == snapshot.round else {settled}:
                self._frames[key] = replace(frame, ask=key)
                self._frames.move_to_end(key)
            self._forget()
        return frame

    def _snapshot(self, round_: int, selected: int | None) -> Snapshot:
        snapshot = self._snapshots.get((round_, selected))
        if snapshot is None:
            snapshot = self._view.snapshot(round_, selected)
            if snapshot.round == round_ and snapshot.preparing is None:
                self._snapshots[round_, selected] = snapshot
        return snapshot

    def _story(self, round_: int) -> RoundStory | NotKnown:
        if not isinstance(self._view, StoryTeller):
            return _NO_STORIES
        story = self._stories.get(round_)
        if story is None:
            story = self._stories[round_] = self._view.story(round_)
            while len(self._stories) > _KEPT_SNAPSHOTS:
                self._stories.popitem(last=False)
        return story

    def _listing(self, snapshot: Snapshot, ask: Ask) -> Listing:
        key = (snapshot.round, ask.filter, ask.order, ask.pinned, ask.reverse)
        known = self._listings.get(key)
        if known is not None and (known[0] is snapshot.requests or known[0] == snapshot.requests):
            return known[1]
        listing = make_listing(snapshot.requests, ask.filter, ask.order, ask.pinned, ask.reverse)
        self._listings[key] = (snapshot.requests, listing)
        while len(self._listings) > _KEPT_LISTINGS:
            self._listings.popitem(last=False)
        return listing

    def _forget(self) -> None:
        while len(self._snapshots) > 1 and (
            len(self._snapshots) > _KEPT_SNAPSHOTS
            or sum(len(s.requests) for s in self._snapshots.values()) > _KEPT_REQUESTS
        ):
            self._snapshots.popitem(last=False)
        kept = {id(s) for s in self._snapshots.values()}
        newest = next(reversed(self._frames))
        for key in [k for k, f in self._frames.items() if id(f.snapshot) not in kept and k != newest]:
            del self._frames[key]
