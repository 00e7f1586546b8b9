"""What a keeper does with a ring: triggers look, the oldest segment goes, what is kept is written out as a trace."""

from __future__ import annotations

import contextlib
import shutil
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tsviz.trace import layout
from tsviz.trace.drafts import draft
from tsviz.trace.endings import stopped_of
from tsviz.trace.errors import TraceError
from tsviz.trace.layout import RING_FILE
from tsviz.trace.reader import open_bundle
from tsviz.trace.ring import NOTHING_KEPT, TRIGGER_FILE, written_to
from tsviz.trace.whole import WholePart, write_whole

from .join import PartRing, behind_gaps
from .triggers import END, QueryError, Watching, watching

_DUTY = 4
"""Triggers look at most a fifth of the time."""


class Keeper:
    """Keeps one ring."""

    def __init__(self, home: Path) -> None:
        """Raises `TraceError` when there is no ring at `home`."""
        self.home, self.out = home, written_to(home)
        values = layout.read_json(home / RING_FILE)
        self._ring: dict[str, Any] = layout.field(home / RING_FILE, values, "ring", dict)
        self.triggers: list[str] = list(self._ring["triggers"]) or [END]
        """What makes it write, in words (`triggers.py`)."""
        self._watching: list[Watching] = watching(self.triggers)
        self._parts: dict[str, PartRing] = {}
        self._seen = 0
        self._looked, self._cost = 0.0, 0.0
        self.written: list[Path] = []
        self.problems: list[str] = []

    def step(self, *, last: bool = False) -> bool:
        """Do what there is to do; return whether there was anything. Raises `TraceError`, OSError."""
        parts = self.parts()
        did = False
        if (self.home / TRIGGER_FILE).exists() and not any(part.behind for part in parts):
            reason = (self.home / TRIGGER_FILE).read_text()[:200]
            (self.home / TRIGGER_FILE).unlink()
            self.write_out(reason)
            did = True
        rounds = sum(part.last_round() for part in parts)
        due = last or any(part.behind for part in parts) or time.monotonic() - self._looked > _DUTY * self._cost
        if self._watching and rounds > self._seen and due:
            self._seen = rounds
            self._look()
            did = True
        if self._seen >= rounds or not self._watching:
            did = self._drop(parts) or did
        return did

    def parts(self) -> list[PartRing]:
        """Return what is kept of every scheduler there is by now. Raises `TraceError`."""
        values = layout.read_json(self.home / RING_FILE)
        description = {name: value for name, value in values.items() if name != "ring"}
        names = layout.part_names(self.home, values) if values["parts"] else []
        seconds, limit = self._ring["seconds"], self._ring["bytes"]
        window = None if seconds is None else int(seconds * 1e9)
        share = None if limit is None else limit // max(1, len(names))
        for node, rank in names:
            directory = layout.part_directory(self.home, node, rank)
            if directory.name not in self._parts and (directory / layout.PART_FILE).exists():
                self._parts[directory.name] = PartRing(self.home, directory, description, window, share)
        return list(self._parts.values())

    @staticmethod
    def _drop(parts: list[PartRing]) -> bool:
        for part in parts:
            if part.droppable():
                part.advance()
                return True
        return False

    def _look(self) -> None:
        """Have the triggers look at what is kept, and write it out if one fires."""
        began = time.monotonic()
        with draft(self.home, "looking-", own=True) as place:
            parts = [part for part in self.parts() if part.last_round()]
            kept = [part.joined() for part in parts]
            planned = [
                part.with_plans(whole, place / part.name.replace("/", "."))
                for part, whole in zip(parts, kept, strict=True)
            ]
            write_whole(place / "bundle", parts[0].description, planned, self._end(""))
            opened = open_bundle(place / "bundle")
            reasons = []
            for trigger in self._watching:
                try:
                    reasons.append(trigger.fired(opened))
                except QueryError as error:
                    self._problem(str(error))
            fired = [reason for reason in reasons if reason]
            if fired:
                self._put(self._free(), parts[0].description, kept, "; ".join(fired))
        self._looked = time.monotonic()
        self._cost = self._looked - began

    def write_out(self, reason: str) -> Path | None:
        """Write what is kept as a trace, for a reason; None when nothing is there yet."""
        if not any(part.last_round() for part in self.parts()):
            return None
        path = self._free()
        self._write(path, reason)
        return path

    def _write(self, path: Path, reason: str) -> None:
        parts = [part for part in self.parts() if part.last_round()]
        self._put(path, parts[0].description, [part.joined() for part in parts], reason)

    def _put(self, path: Path, description: Mapping[str, Any], kept: list[WholePart], reason: str) -> None:
        """Write what is kept, with the state behind each gap in it."""
        with draft(self.home, "writing-", own=True) as place:
            whole = [behind_gaps(part, description, place / str(number)) for number, part in enumerate(kept)]
            write_whole(path, description, whole, self._end(reason))

    def _end(self, reason: str) -> dict[str, Any]:
        names = {part.name: {"reason": f"ring: {reason}"} for part in self._parts.values()}
        keyframes = [f"{part.name}: {part.said}" for part in self._parts.values() if part.said]
        told = [*self.problems, *(f"{words}: there is no keyframe, it cannot be re-executed" for words in keyframes)]
        return {"parts": names, "error": "; ".join(told) or None}

    def _free(self) -> Path:
        """Return where the next trace goes, making room among those that were written before."""
        while len(self.written) >= self._ring["keep"]:
            shutil.rmtree(self.written.pop(0), ignore_errors=True)
        number, path = 1, self.out
        while path.exists() or path in self.written:
            number += 1
            path = self.out.with_name(f"{self.out.name}.{number}")
        self.written.append(path)
        return path

    def _problem(self, words: str) -> None:
        if words not in self.problems:
            self.problems.append(words[:300])
            with contextlib.suppress(OSError):  # the log is on the disk that may be full
                print(words, file=sys.stderr, flush=True)

    def crash(self, *, closed: bool, status: int = 0) -> str:
        """Return why the end is a crash, empty for one that is none; `status` is the exit code of the program."""
        if not closed:
            stopped = stopped_of(self.home)
            return f"recording had to stop, {stopped}" if stopped else "the process ended without closing the recording"
        try:
            words = layout.read_json(self.home / layout.END_FILE).get("crash")
        except TraceError:
            words = "what says how the recording ended cannot be read"
        return str(words)[:200] if words else f"the program ended with {status}" if status else ""

    def waits_for_status(self) -> bool:
        """Return whether it matters how the program ended, whose recording was closed."""
        return END not in self.triggers and not self.crash(closed=True)

    def finish(self, crash: str) -> int:
        """Write out what is kept if the end, or a crash, is a reason to; take the ring away. Returns an exit code."""
        while self.step(last=True):
            pass
        code = 0
        if crash:
            code = 0 if self.write_out(f"crash: {crash}") is not None else NOTHING_KEPT
        elif END in self.triggers:
            self.write_out("the recording ended")
        elif self.problems and not self.written:  # what it was to look for nobody knows: better too much than nothing
            self.write_out(f"a trigger could not be asked: {self.problems[0]}")
        shutil.rmtree(self.home, ignore_errors=True)
        return code
