"""A flight recorder on the recorder's side: a recording in whole segments, of which somebody else drops the oldest.

Under `OUT.ring` every part has segments `000001`, `000002`, ... of hot tables, each a quarter of what is kept. One ends
behind a plan. Its tables have vocabularies of their own; submissions, rounds, calls and, with identity tokens, pages
are numbered through. What makes traces of segments is the keeper (`tsviz.replay.ring.keeper`), a process of its own:
the recorder never reads what it wrote.

    ring.json           what `bundle.json` is to a bundle, and the limits
    end.json            written when the recording closes
    trigger             made by whoever wants the kept part written out now; holds the reason
    parts/NODE.RANK/    part.json, 000001/, 000002/, ... (TABLE.arrows, commits.jsonl)
    kept/, keeper.*     the keeper's
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from . import entries as e
from .layout import RING_FILE
from .lock import ALIVE, holder_of
from .segments import HotSegments

TRIGGER_FILE = "trigger"
KEEPER_LOG, KEEPER_LOCK = "keeper.log", "keeper.lock"
KEPT = "kept"
SUFFIX = ".ring"
_QUARTERS = 4
_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_UNITS_BYTES = {"KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}
_SIZE = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)\s*(s|m|h|d|KB|MB|GB)")
_LOOK_SECONDS = 0.05
BACKLOG_SEGMENTS = 128
"""With so many segments that nobody has taken, the keeper is gone or far too slow, and the recording ends."""


@dataclass(frozen=True, slots=True)
class RingOptions:
    """How much is kept (time on the part's clock, or bytes), when it is written out, and how often at most."""

    seconds: float | None
    bytes: int | None
    triggers: tuple[str, ...] = ()
    keep: int = 8
    """How many written-out traces stay; older ones of the same recording are removed."""

    def values(self) -> dict[str, Any]:
        """Return the options as JSON-able data."""
        return {**asdict(self), "triggers": list(self.triggers)}

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> RingOptions:
        """Return options from what `values` gave. Raises KeyError, TypeError."""
        return cls(values["seconds"], values["bytes"], tuple(values["triggers"]), values["keep"])


def parse_ring(text: str) -> tuple[float | None, int | None]:
    """Return the seconds or the bytes that `60s`, `10m`, `2h`, `1d`, `200MB` or `1GB` say. Raises ValueError."""
    found = _SIZE.fullmatch(text.strip())
    if found is None or float(found[1]) <= 0:
        raise ValueError(f"expected a time such as 60s, 10m, 2h, or a size such as 200MB, 1GB, found {text!r}")
    number, unit = float(found[1]), found[2]
    if unit in _UNITS_S:
        return number * _UNITS_S[unit], None
    return None, int(number * _UNITS_BYTES[unit])


def ring_home(out: Path) -> Path:
    """Return where the segments of a ring lie whose traces are written to `out`."""
    return out.with_name(out.name + SUFFIX)


def written_to(home: Path) -> Path:
    """Return where the traces of a ring are written (`OUT`, `OUT.2`, ...): the other way round."""
    return home.with_name(home.name.removesuffix(SUFFIX))


def ring_at(path: Path) -> Path | None:
    """Return the ring that a path means: it is one, or what is written to it by one that has written nothing yet."""
    homes = (path,) if path.exists() else (ring_home(path),)
    return next((home for home in homes if (home / RING_FILE).is_file()), None)


def keeper_of(home: Path) -> str:
    """Return the keeper of a ring that lives, in words, with its process where that is known; empty for none."""
    lock = home / KEEPER_LOCK
    if holder_of(lock) != ALIVE:
        return ""
    try:
        told = lock.read_bytes()[:20].decode("ascii", "replace")
    except OSError:  # it has just ended
        told = ""
    return f"its keeper (process {told})" if told.isdecimal() else "its keeper"


def segment_directories(part: Path) -> list[Path]:
    """Return the segments of a part, oldest first."""
    return sorted(path for path in part.iterdir() if path.name.isdigit()) if part.is_dir() else []


class Rotation:
    """Says when a segment of one part ends, and where the next one lies. For the writer thread."""

    def __init__(self, options: RingOptions, part: Path, patience_s: float = 0.0) -> None:
        """`patience_s`: how long a keeper is waited for that takes nothing away; in a run that nobody serves."""
        self._patience_s = patience_s
        self._span_ns = None if options.seconds is None else int(options.seconds * 1e9 / _QUARTERS)
        self._bytes = None if options.bytes is None else max(1, options.bytes // _QUARTERS)
        self._part, self._number, self._began_ns = part, 0, -1

    def next(self) -> HotSegments:
        """Begin a segment. Raises OSError, with the number of those there are where nobody takes them away."""
        self._wait()
        self._number += 1
        self._began_ns = -1
        return HotSegments(self._part / f"{self._number:06d}")

    def _wait(self) -> None:
        there, since = len(segment_directories(self._part)), time.monotonic()
        while there >= BACKLOG_SEGMENTS:
            if time.monotonic() - since >= self._patience_s:
                raise OSError(f"{there} segments of the ring wait for its keeper, which is gone or too slow")
            time.sleep(_LOOK_SECONDS)
            if (now := len(segment_directories(self._part))) < there:
                there, since = now, time.monotonic()

    def due(self, entry: e.Entry | e.Decided, written_bytes: int) -> bool:
        """Return whether the segment ends behind this entry, a plan."""
        if not isinstance(entry, e.PlanEntry):
            return False
        if self._began_ns < 0:
            self._began_ns = entry.time_ns
        if self._span_ns is not None:
            return entry.time_ns - self._began_ns >= self._span_ns
        return self._bytes is not None and written_bytes >= self._bytes


NOTHING_KEPT = 3
"""A keeper's exit code: the recording crashed, and nothing had been committed."""
OTHER_KEEPER = 4
"""A keeper's exit code: another one keeps this ring."""
TOLD = "--told"
"""Has a keeper be told on its input how the program ended; without a word there, nobody knows."""


def start_keeper(home: Path, *, told: bool = False) -> subprocess.Popen[bytes]:
    """Start the keeper of a ring, in a session of its own: it outlives this process. Raises OSError.

    `told`: the exit code of the program is going to be written to its input, which is then closed.
    """
    environment = {name: value for name, value in os.environ.items() if name != "TSVIZ_RUN"}
    environment["PYTHONPATH"] = os.pathsep.join(str(Path(path).absolute()) for path in sys.path if path)
    with (home / KEEPER_LOG).open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "tsviz.replay.ring.keeper", str(home), *([TOLD] if told else [])],
            stdin=subprocess.PIPE if told else subprocess.DEVNULL,
            stdout=log, stderr=log, start_new_session=True, env=environment,
        )  # fmt: skip
