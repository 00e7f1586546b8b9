"""The main screen on a trace that is being written: it shows new rounds as they are committed, pauses, catches up."""

from __future__ import annotations

from dataclasses import replace

from tsviz.replay.follow_values import LIVE
from tsviz.replay.recorded.snapshot import TraceHead
from tsviz.tui import following
from tsviz.tui.clean import clean
from tsviz.tui.fetch import Renewed
from tsviz.tui.following import Follow, Follower, FollowLoop, Looked, Newer, ended_words
from tsviz.tui.screens.answers import Answered, Opened, opened
from tsviz.tui.screens.standing import stands
from tsviz.tui.screens.stepping import SteppingScreen
from tsviz.tui.strip import Window


class Following(SteppingScreen):
    """Follows a recording, if it was given one to follow."""

    _follower: Follower | None = None
    _loop: FollowLoop | None = None

    def follow(self, follower: Follower | None, *, running: bool) -> None:
        """Take what is followed, before the screen is mounted. `running`: show new rounds from the start."""
        self._follower = follower
        if follower is not None:
            self.scene = replace(self.scene, follow=Follow(running=running))

    def expect(self, name: str, *, follow: bool) -> None:
        """Say what is being opened, and whether its new rounds are wanted should it be written still."""
        self.scene = replace(self.scene, name=name)
        if follow and self._follower is None:
            self.scene = replace(self.scene, follow=Follow(running=True))

    def wait_for_part(self, what: str) -> None:
        """Say that nothing is recorded yet and what is waited for, and try to open it again soon."""
        self._put_follow(waiting=what)
        self.set_timer(following.LOOK_S, lambda: self.fetcher.do("open", opened))

    def on_unmount(self) -> None:
        """End the thread."""
        if self._loop is not None:
            self._loop.close()

    @property
    def follows(self) -> bool:
        """Whether a recording is followed that has not ended."""
        follow = self.scene.follow
        return follow is not None and (follow.look is None or follow.look.state == LIVE)

    def _put_follow(self, **changes: object) -> None:
        follow = replace(self.scene.follow or Follow(), **changes)  # type: ignore[arg-type]
        if follow != self.scene.follow:
            self.put(follow=follow)

    def on_answered(self, message: Answered) -> None:
        """Begin to look once the trace is open; show what a newer view has."""
        if not stands(self):
            return
        match message.result:
            case Opened(head) if self._follower is not None and self._loop is None:
                self._loop = FollowLoop(self._follower, self.post_message, head.rounds)
                self._loop.run(self.scene.follow is not None and self.scene.follow.running)
                self._loop.start()
            case Renewed(head):
                self._renewed(head)

    def _renewed(self, head: TraceHead) -> None:
        old, window, rounds = self.scene.rounds, self.scene.window, head.rounds
        self.scene = replace(self.scene, head=head)
        if head.first_round > old + 1:  # a ring, whose front passed what was shown
            self.say(f"Rounds {old + 1:,} to {head.first_round - 1:,} were dropped before they were shown.", "warn")
        if window.size and window.last == old and rounds > old:
            begin = head.first_round
            first = begin if window.first <= begin else max(rounds - window.size + 1, begin)
            self.scene = replace(self.scene, window=Window(first, rounds))
        follow = self.scene.follow
        if follow is not None and (follow.running or follow.catching_up):
            self.scene = replace(self.scene, follow=replace(follow, catching_up=False))
            self.go(rounds, message=self.scene.message)

    def on_looked(self, event: Looked) -> None:
        """Say how far the recording is, and how it ended."""
        if not stands(self):
            return None
        was = self.scene.follow.look if self.scene.follow is not None else None
        self._put_follow(look=event.look, error=event.error)
        if event.error:
            return self.say(f"The recording cannot be followed: {clean(event.error)}", "bad")
        look = event.look
        if look is not None and look.state != LIVE and (was is None or was.state == LIVE):
            self.say(*ended_words(look))
        return None

    def on_newer(self, event: Newer) -> None:
        """Answer from the newer view."""
        self.fetcher.renew(lambda: event.view)

    def go(self, round_: int, stop: int | None = None, **changes: object) -> None:
        """Move to a round; one that is not the last pauses."""
        if round_ < self.scene.rounds:
            self.pause()
        super().go(round_, stop, **changes)

    def pause(self) -> None:
        """Count new rounds and stay; nothing happens when nothing is followed."""
        if self._loop is not None and self.scene.follow is not None and self.scene.follow.running:
            self._loop.run(False)
            self._put_follow(running=False)

    def action_follow(self) -> None:
        """Pause, or catch up and follow."""
        follow = self.scene.follow
        if self._loop is None or follow is None:
            return self.say("This trace is not being written: there is nothing to follow.")
        if follow.look is not None and follow.look.state != LIVE:
            self._loop.run(True)
            return self.say(*ended_words(follow.look))
        if follow.running:
            self.pause()
            return self.say("Paused: new rounds are counted, F catches up.")
        self.stop_playing()
        self._loop.run(True)
        self._put_follow(running=True, catching_up=True)
        return self.go(max(self.scene.rounds, 1), message="")
