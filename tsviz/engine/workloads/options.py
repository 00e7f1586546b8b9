"""How a workload is cut, scaled and sped up, and what its generator is told. Everything here goes into `meta`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tsviz.engine.workloads.errors import Place

SECOND_NS = 1_000_000_000

MaxNew = Literal["declared", "undeclared"] | int
"""What the scheduler is told of an output: its length, nothing, or the same number for every request."""

_PLACE = Place("workload options", "option")

_SMALLEST, _LARGEST = 1e-9, 1e9
_COUNT = 10_000_000
_TOKENS = 1 << 23
_WHOLE = {
    "scale": (1, _TOKENS),
    "rows": (1, 1 << 62),
    "seed": (0, (1 << 63) - 1),
    "requests": (1, _COUNT),
    "prompt_tokens": (1, _TOKENS),
    "output_tokens": (1, _TOKENS),
    "burst": (1, _COUNT),
    "prefixes": (1, _COUNT),
    "prefix_tokens": (0, _TOKENS),
    "sessions": (1, _COUNT),
    "turns": (1, _COUNT),
    "tail_tokens": (0, _TOKENS),
}


@dataclass(frozen=True, slots=True)
class WorkloadOptions:
    """Options of every importer and generator; a kind reads those that concern it.

    Raises `WorkloadError` for a value that makes no sense.
    """

    scale: int = 1
    """Lengths in tokens are divided by this (at least 1 token stays)."""
    speed: float = 1.0
    """Arrivals and think times are divided by this: 4.0 makes requests come four times as fast."""
    rows: int | None = None
    """Take only the first so many input rows, before any is skipped. None: all."""
    max_new: MaxNew = "declared"
    """`declared`: the (scaled) length of the output. `undeclared`: 0. A number: that number, unscaled."""
    seed: int = 0
    """Seed of whatever is drawn."""
    start_s: float | None = None
    """Take only rows from this trace time on (seconds, before `speed`); it becomes time 0. None: the beginning."""
    window_s: float | None = None
    """Take only rows less than this many seconds after `start_s`. None: to the end (servegen: one window)."""
    session_gap_s: float = 10.0
    """weka: seconds between the starts of two sessions, which the trace does not say."""
    share_system: bool = False
    """weka: invent that the leading tool and system blocks are the same in all sessions."""
    requests: int = 100
    """Generators: how many requests (agent_sessions: `sessions` x `turns` instead)."""
    rate: float = 4.0
    """Generators: arrivals (agent_sessions: session starts) a second on average."""
    prompt_tokens: int = 1024
    """Generators: mean length of the part of a prompt that nothing else shares (agent_sessions: of the first)."""
    output_tokens: int = 128
    """Generators: mean length of an output."""
    spread: float = 0.5
    """Generators: lengths are uniform in mean x (1 - spread) .. mean x (1 + spread); 0: always the mean."""
    burst: int = 16
    """bursts: how many requests arrive at the same time."""
    prefixes: int = 8
    """shared_prefixes: how many different leading parts there are; number k is chosen with weight 1 / k."""
    prefix_tokens: int = 512
    """shared_prefixes: length of each leading part. agent_sessions: of the one that all sessions share (may be 0)."""
    sessions: int = 10
    """agent_sessions: how many sessions."""
    turns: int = 8
    """agent_sessions: turns in each session."""
    tail_tokens: int = 256
    """agent_sessions: mean length of what is new in the prompt of every turn but the first."""
    think_s: float = 2.0
    """agent_sessions: mean think time (exponential) between the end of a turn and the arrival of the next."""

    def __post_init__(self) -> None:
        for name, (least, most) in _WHOLE.items():
            value = getattr(self, name)
            if not (name == "rows" and value is None):
                _require_whole(name, value, least, most)
        if self.max_new not in ("declared", "undeclared"):
            _require_whole("max_new", self.max_new, 1, _TOKENS)
        for name in ("speed", "rate"):
            _require_number(name, getattr(self, name), zero=False)
        for name in ("session_gap_s", "think_s", "spread"):
            _require_number(name, getattr(self, name), zero=True)
        if self.start_s is not None:
            _require_number("start_s", self.start_s, zero=True)
        if self.window_s is not None:
            _require_number("window_s", self.window_s, zero=False)
        if self.spread > 1:
            raise _PLACE.error("spread", "a number from 0 to 1", self.spread)

    @property
    def start_ns(self) -> int:
        """Trace time that becomes time 0."""
        return round((self.start_s or 0.0) * SECOND_NS)

    def scaled(self, length_tokens: int) -> int:
        """Return a length of the input in tokens of this workload: divided by `scale`, rounded down, at least 1."""
        return max(1, length_tokens // self.scale)

    def max_new_tokens(self, output_tokens: int) -> int:
        """Return what the scheduler is told for an output of so many (scaled) tokens; 0 is undeclared."""
        if self.max_new == "declared":
            return output_tokens
        if self.max_new == "undeclared":
            return 0
        return self.max_new


def parse_max_new(text: str) -> MaxNew:
    """Return `declared`, `undeclared` or a number from its text; raises `WorkloadError` otherwise."""
    if text == "declared":
        return "declared"
    if text == "undeclared":
        return "undeclared"
    try:
        return int(text)
    except ValueError:
        raise _PLACE.error("max_new", "declared, undeclared or a whole number", text) from None


def parse_option(name: str, text: str) -> int | float:
    """Return the value of a numeric option from its text (as in `poisson:rate=2`); raises `WorkloadError`."""
    whole = isinstance(getattr(DEFAULTS, name), int)
    try:
        return int(text) if whole else float(text)
    except ValueError:
        raise _PLACE.error(name, "a whole number" if whole else "a number", text) from None


def _require_whole(name: str, value: object, least: int, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise _PLACE.error(name, f"a whole number from {least} to {most}", value)


def _require_number(name: str, value: object, *, zero: bool) -> None:
    least = 0 if zero else _SMALLEST
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= _LARGEST:
        raise _PLACE.error(name, f"a number from {least:g} to {_LARGEST:g}", value)


DEFAULTS = WorkloadOptions()
