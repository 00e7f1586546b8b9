"""Recording a program that runs in the field, from inside it: in the background, and never in its way.

`install` puts recorded classes in the place of `Scheduler` and `ExecutionEvent` in the package that the program
imports. Whatever goes wrong with recording is said once on standard error, and the program goes on without it.
`tsviz run` does this for a program that nobody edits (`adapters/startup/sitecustomize.py`); docs/recording.md.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace, TracebackType
from typing import Any

from tsviz.trace.apart import ApartWriter
from tsviz.trace.api_events import event_reader
from tsviz.trace.backlog import MOST_WAITING
from tsviz.trace.catalogue import PLANS
from tsviz.trace.config import describe_config
from tsviz.trace.endings import CRASHED, ENDED
from tsviz.trace.recorder import Recorder, drop
from tsviz.trace.retention import Retention
from tsviz.trace.ring import SUFFIX, RingOptions, start_keeper
from tsviz.trace.tokens import IDENTITY
from tsviz.version import __version__

from .tokenspeed import RULE_SET, engine_of, recording_module

OPTIONS_VARIABLE = "TSVIZ_RUN"
PACKAGE_VARIABLE = "TSVIZ_RUN_PACKAGE"
FAILED_VARIABLE = "TSVIZ_RUN_FAILED"
"""A file in the memory of `tsviz run`, which is not empty once a process has said that it is not recorded."""
_NODES = {"FUSED": "F", "P": "P", "D": "D"}
_BUNDLES = 1000
_PATIENCE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class LiveOptions:
    """What is recorded of a live program, and where."""

    out: str
    """Directory of the bundle; the second process that builds a scheduler takes `out-2`, and so on."""
    tokens: str = IDENTITY
    level: str = PLANS
    """`calls` or `plans`: the real scheduler does not say why it decides."""
    ring: dict[str, Any] | None = None
    """`RingOptions` as data, for a flight recorder: segments go to `out.ring`, `out-2.ring`, ..."""

    retention: dict[str, Any] | None = None
    """`Retention` as data: how long this recording, and older ones beside it that were made with limits, stay."""

    keeper: bool = True
    """Whether this process starts the keeper of its ring; `tsviz run` has its own."""

    def text(self) -> str:
        """Return the options as `from_text` takes them."""
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> LiveOptions:
        """Return options from what `text` wrote. Raises ValueError, TypeError."""
        return cls(**json.loads(text))


class Live:
    """The recording of this process: one bundle, made when its first scheduler is built, a part a scheduler."""

    def __init__(self, options: LiveOptions) -> None:
        self._options = options
        self._writer: ApartWriter | None = None
        self._ranks: dict[str, int] = {}
        self._failed = False
        self._crash = ""

    def open(self, module: Any, config: Any) -> Recorder:
        """Return the recorder of a scheduler that was built; one that forgets everything where recording fails."""
        try:
            if not self._failed:
                return self._open(module, config)
        except Exception as error:
            self._failed = True
            _tell(f"not recorded: {type(error).__name__}: {error}")
            note_failed()
        recorder = Recorder(time.monotonic_ns)
        recorder.append = drop
        return recorder

    def _open(self, module: Any, config: Any) -> Recorder:
        described = describe_config(config)
        node = _NODES.get(described["role"].upper(), "F")
        writer = self._writer
        if writer is None:
            writer = self._writer = self._create()
        rank = self._ranks.get(node, -1) + 1
        recorder = writer.recorder(
            node=node, rank=rank, config=described, engine=engine_of(module), event_reader=event_reader(module),
            now_ns=time.monotonic_ns, clock="monotonic", rule_set=RULE_SET,
            level=self._options.level,
        )  # fmt: skip
        self._ranks[node] = rank
        return recorder

    def _create(self) -> ApartWriter:
        meta = {
            "tool": f"tsviz {__version__}",
            "command": ["tsviz", "run", "--", Path(sys.argv[0] if sys.argv else "").name],
            "scheduler": "real",
            "workload": {"kind": "live", "process": os.getpid()},
            "options": {},
        }
        ring = None if self._options.ring is None else RingOptions.of(self._options.ring)
        limits = None if self._options.retention is None else Retention.of(self._options.retention)
        path = claim(Path(self._options.out), "" if ring is None else SUFFIX)
        writer = ApartWriter(
            path, meta=meta, tokens=self._options.tokens, ring=ring, most_waiting=MOST_WAITING,
            retention=limits,
        )  # fmt: skip
        if ring is not None and self._options.keeper:
            start_keeper(path)
        atexit.register(self.close)
        self._watch_crashes()
        if (util := sys.modules.get("multiprocessing.util")) is not None:
            util.Finalize(None, self.close, exitpriority=-100)  # its processes end without atexit
        return writer

    def close(self) -> None:
        """Write what is left and close the bundle, uncompacted: the program is about to end and does not wait."""
        if self._writer is not None:
            crash = self._crash or _crash(sys.exc_info()[1])  # a process of multiprocessing ends while it is raised
            reason = {"reason": CRASHED if crash else ENDED}
            parts = {f"{node}/{rank}": reason for node, last in self._ranks.items() for rank in range(last + 1)}
            end = {"parts": parts, "error": None, **reason} | ({"crash": crash} if crash else {})
            try:
                self._writer.close(end, compacted=False, patience_seconds=_PATIENCE_SECONDS)
            except Exception as error:
                _tell(f"{self._writer.path}: recording stopped early: {error}")
            except KeyboardInterrupt:  # the program ends as it would; what writes is a process of its own
                _tell(f"{self._writer.path}: interrupted: not waited for; what was sent by then is written")

    def _watch_crashes(self) -> None:
        """Note an exception that nobody catches, in front of what the program does with it."""
        theirs = sys.excepthook

        def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
            self._crash = _crash(error)
            theirs(kind, error, trace)

        sys.excepthook = hook

    def forked(self) -> None:
        """Begin anew in a child process: the bundle and what was built before are the parent's."""
        if self._writer is not None:
            self._writer.abandon()
        self._writer, self._ranks, self._failed, self._crash = None, {}, False, ""


def claim(out: Path, suffix: str = "") -> Path:
    """Make and return the first directory of `out`, `out-2`, ... (with a suffix) that is free. Raises OSError."""
    out.parent.mkdir(parents=True, exist_ok=True)
    for free in bundle_paths(out):
        path = free.with_name(free.name + suffix)
        try:
            path.mkdir()
        except FileExistsError:
            continue
        return path
    raise FileExistsError(f"{out}: expected a free path among {_BUNDLES}, found none")


def bundle_paths(out: Path) -> list[Path]:
    """Return the paths that processes of one run take, in order."""
    return [out, *(out.with_name(f"{out.name}-{number}") for number in range(2, _BUNDLES))]


def install(module: ModuleType, options: LiveOptions) -> Live:
    """Have every scheduler recorded that is built from now on of `module`, the package that the program imported."""
    names = {name: getattr(module, name) for name in dir(module) if not name.startswith("_")}
    original = SimpleNamespace(**names | {"__name__": module.__name__})
    live = Live(options)
    recorded = recording_module(original, lambda config: live.open(original, config))
    for holder in (module, *(value for value in names.values() if isinstance(value, ModuleType))):
        for name in ("Scheduler", "ExecutionEvent"):
            if getattr(holder, name, None) is names[name]:
                setattr(holder, name, getattr(recorded, name))
    os.register_at_fork(after_in_child=live.forked)
    return live


def install_from_environment(module: ModuleType) -> Live:
    """Install with the options that `tsviz run` left in the environment. Raises ValueError, TypeError, KeyError."""
    return install(module, LiveOptions.from_text(os.environ[OPTIONS_VARIABLE]))


def note_failed() -> None:
    """Tell `tsviz run` that a scheduler was built, and that it was said why it is not recorded."""
    with contextlib.suppress(OSError, KeyError):
        Path(os.environ[FAILED_VARIABLE]).write_bytes(b"1")


def _crash(error: BaseException | None) -> str:
    """Return why an exception that ends the process is a crash, without its words; empty where it is none."""
    if isinstance(error, SystemExit):
        return f"the process ended with {error.code}" if isinstance(error.code, int) and error.code else ""
    return "" if error is None else f"uncaught {type(error).__name__}"


def _tell(words: str) -> None:
    shown = "".join(each if each.isprintable() else "\ufffd" for each in words)  # a path may hold anything
    try:
        sys.stderr.write(f"tsviz: {shown}\n")
    except Exception:
        return
