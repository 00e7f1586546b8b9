"""Keyframes of an index: blocks of them in files beside the decided tables, and where each round's lies.

They are laid so that any round is a fraction of a second of re-execution away, unless that took more room than half
the trace: then they lie wider apart. Behind every gap there is one.
"""

from __future__ import annotations

import bisect
import time
from pathlib import Path

from tsviz.replay.keyframes.book import Keyframe
from tsviz.replay.keyframes.keyframe import Block, core_config, write_block
from tsviz.scheduler.config import Config
from tsviz.trace import layout
from tsviz.trace.errors import Damaged, TraceError
from tsviz.trace.reader import Part

from .run import Reexecution

FOLDER = "keyframes"
_LIST = "keyframes.json"
_SECONDS = 0.1
"""CPU time of re-execution, its decisions written, between two keyframes; more where keyframes are dear."""
_SHARE = 8
"""Keyframes take at most one part in so many of the time."""
_BLOCK_FRAMES, _BLOCK_PAGES = (16, 96), 4_000_000
"""Least and most keyframes of a block, and how many pages of pools it waits for: what they share is stored once."""
_FREE_BYTES = 16 << 20
_KEPT_BLOCKS = 4


class KeyframeWriter:
    """Writes keyframes while a part is re-executed."""

    def __init__(self, directory: Path, part: Part, *, every_rounds: int | None = None) -> None:
        """`directory`: that of the index. `every_rounds`: a fixed distance, instead of one that is measured."""
        self._directory, self._every = directory / FOLDER, every_rounds
        self._directory.mkdir()
        self._trace_bytes = sum(f.stat().st_size for f in part.directory.rglob("*") if f.is_file())
        self._rounds = max(1, part.last_round)
        pages = max(1, int(part.config["num_device_pages"]) + int(part.config["num_host_pages"]))
        self._block_frames = min(max(_BLOCK_PAGES // pages, _BLOCK_FRAMES[0]), _BLOCK_FRAMES[1])
        self._pending: list[Keyframe] = []
        self._blocks: list[list[int]] = []
        self._written = self._taken = 0
        self._spent = self._cost = 0.0
        self._apart = 0
        self._since = time.thread_time()
        self._last_round = 0

    def offer(self, execution: Reexecution, round_: int, *, now: bool = False) -> None:
        """Take a keyframe behind the plan of `round_` if it is time for one, or `now`. Raises OSError."""
        if now:
            pass
        elif self._every is None:
            if time.thread_time() - self._since < max(_SECONDS, _SHARE * self._cost):
                return
            if round_ - self._last_round < self._apart:
                return
        elif round_ - self._last_round < self._every:
            return
        began = time.thread_time()
        self._pending.append(execution.keyframe())
        self._last_round = round_
        self._taken += 1
        if len(self._pending) == self._block_frames:
            self._write()
        self._since = time.thread_time()
        self._spent += self._since - began
        self._cost = self._spent / self._taken

    def _write(self) -> None:
        data = write_block(self._pending)
        (self._directory / f"{len(self._blocks)}.block").write_bytes(data)
        self._blocks.append([frame.round for frame in self._pending])
        self._written += len(data)
        self._pending = []
        left = max(_FREE_BYTES, self._trace_bytes // 2) - self._written
        # Those to come are as large as the last ones: at the start, with little cached, they are far smaller.
        frames = max(1, left * self._block_frames // len(data))
        self._apart = max(0, self._rounds - self._last_round) // frames

    def close(self) -> None:
        """Write what is left, and the list of all. Raises OSError."""
        if self._pending:
            self._write()
        layout.write_json(self._directory / _LIST, {"blocks": self._blocks})


class KeyframeFiles:
    """The keyframes of an index, read one by one."""

    def __init__(self, directory: Path, part: Part) -> None:
        """`directory`: that of the index. Raises `TraceError`."""
        self._directory = layout.directory(directory / FOLDER)
        path = self._directory / _LIST
        found = layout.field(path, layout.read_json(path), "blocks", list)
        places = [(round_, block, at) for block, rounds in enumerate(found) for at, round_ in enumerate(rounds)]
        if any(type(round_) is not int for round_, _, _ in places) or places != sorted(places):
            raise Damaged(path, "blocks", "rounds that rise", repr(found)[:60])
        self._places = places
        self.rounds = [round_ for round_, _, _ in places]
        """Rounds that have one, rising."""
        self._config: Config = core_config(part)
        self._blocks: dict[int, Block] = {}

    def nearest(self, round_: int) -> int:
        """Return the last round at or in front of another that has a keyframe; 0 without one."""
        at = bisect.bisect_right(self.rounds, round_) - 1
        return self.rounds[at] if at >= 0 else 0

    def load(self, round_: int) -> Keyframe | None:
        """Return the keyframe of a round; None (and no second try) when it is damaged."""
        at = bisect.bisect_left(self.rounds, round_)
        _, block, index = self._places[at]
        try:
            if block not in self._blocks:
                path = layout.regular_file(self._directory / f"{block}.block")
                self._blocks[block] = Block(path, path.read_bytes())
                while len(self._blocks) > _KEPT_BLOCKS:
                    del self._blocks[next(iter(self._blocks))]
            found = self._blocks[block].keyframe(index, self._config, check=False)
            if found.round != round_:
                raise Damaged(self._directory, f"block {block}", f"round {round_}", f"round {found.round}")
        except (TraceError, OSError):
            del self.rounds[at], self._places[at]
            return None
        return found
