"""What a model is made of, and which cache groups its layers need (`executor-rules.md` sections 7 and 8)."""

from __future__ import annotations

from dataclasses import dataclass

from tsviz.engine.configs import GroupKind, GroupOptions

KINDS = {"F": "full", "S": "sliding", "M": "state", "R": "replay"}
"""Layer letters and the cache group that all layers of a letter share."""


class BadModel(ValueError):
    """A model that cannot be built or run; the message says what was expected and what was found."""


@dataclass(frozen=True, slots=True)
class ModelShape:
    """A decoder: one letter a layer (F full, S sliding, M gated state, R replayable sliding) and its sizes.

    `window` is what an S layer sees and `replay_window` what an R layer sees, in tokens, itself included.
    `short_replay` declares R's window too short on purpose: stacked layers then see a truncated history. `narrow`: its
    last R layers are run over a prompt's last window only.
    """

    pattern: str
    hidden: int = 32
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 8
    intermediate: int = 64
    vocabulary: int = 97
    window: int = 12
    replay_window: int = 4
    rope_theta: float = 10_000.0
    eps: float = 1e-5
    tied: bool = True
    max_positions: int = 4096
    rope_factor: tuple[float, float, float, int] | None = None
    short_replay: bool = False
    narrow: bool = False

    def __post_init__(self) -> None:
        """Check the sizes. Raises BadModel."""
        if not self.pattern or set(self.pattern) - KINDS.keys():
            raise BadModel(f"pattern: expected letters of {''.join(KINDS)}, found {self.pattern!r}")
        if "R" in self.pattern and "M" in self.pattern:
            raise BadModel("pattern: replayable layers cannot be combined with state layers")
        if self.narrow and not self.pattern.endswith("R"):
            raise BadModel(f"pattern: a narrowed decoder ends with replayable layers, found {self.pattern!r}")
        if self.heads % self.kv_heads:
            raise BadModel(f"heads: expected a multiple of kv_heads {self.kv_heads}, found {self.heads}")
        if self.head_dim % 2:
            raise BadModel(f"head_dim: expected an even number, found {self.head_dim}")

    @property
    def narrow_from(self) -> int:
        """First layer that sees a prompt's last window only; the number of layers where none does."""
        return len(self.pattern.rstrip("R")) if self.narrow else len(self.pattern)

    @property
    def declared_replay(self) -> int:
        """Window that the replayable group declares: n stacked layers of window w need n * (w - 1) + 1."""
        layers = 1 if self.short_replay else self.pattern.count("R")
        return layers * (self.replay_window - 1) + 1 if "R" in self.pattern else 0

    @property
    def declared_window(self) -> int:
        """Window that the sliding group declares: re-fed rows query it below the hit's lookback."""
        return self.window + self.declared_replay

    def groups_in_order(self) -> tuple[str, ...]:
        """Return the names of the cache groups, in the order of the config."""
        return tuple(name for letter, name in KINDS.items() if letter in self.pattern)

    def layers_of(self, group: str) -> tuple[int, ...]:
        """Return the layers that keep something in a group."""
        return tuple(i for i, letter in enumerate(self.pattern) if KINDS[letter] == group)

    def group_options(self, name: str, granularity: int, packing: int) -> GroupOptions:
        """Return the group as the scheduler is told of it."""
        if name == "full":
            return GroupOptions(GroupKind.FULL, granularity, name, packing=packing)
        if name == "state":
            return GroupOptions(GroupKind.STATE, granularity, name, packing=packing)
        window = self.declared_window if name == "sliding" else self.declared_replay
        return GroupOptions(
            GroupKind.SLIDING, granularity, name, window_tokens=window, replayable=name == "replay", packing=packing
        )


PRESETS = {
    "tiny": ModelShape("FF"),
    "tiny-sliding": ModelShape("FS"),
    "tiny-state": ModelShape("FSM"),
    "tiny-state-2": ModelShape("FSMFSM", hidden=48, heads=4, head_dim=12),
    "tiny-replay": ModelShape("FRF"),
    "tiny-replay-2": ModelShape("FRSR"),
    "tiny-narrow": ModelShape("FSRR", narrow=True),
    "tiny-replay-short": ModelShape("FRRF", replay_window=6, short_replay=True),
}
"""Seeded models by name; `tiny-replay-short` truncates what replayed layers see, to show it diverge."""
LARGER = {
    "smollm2-shape": ModelShape(
        "F" * 30, hidden=576, heads=9, kv_heads=3, head_dim=64, intermediate=1536, vocabulary=49_152,
        rope_theta=100_000.0, max_positions=8192,
    ),
}  # fmt: skip
"""Seeded models of a real size: SmolLM2's, where its weights cannot be had."""
