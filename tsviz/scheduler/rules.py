"""Which version of the scheduler the twin equals, and the rules that vary between versions."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RuleSet:
    """The rules that vary between versions of the real scheduler, and those a what-if may change."""

    name: str = "0.1.24"
    """Version of the real package whose plans are reproduced."""
    safe_step_tokens: int = 4096
    """Headroom window of one admission, multiplied by 1 + retractions (seed 4)."""
    cut_remote_landings: bool = False
    """Cut a remote landing at a promotion boundary, a fault of the reference (`docs/conformance.md`)."""


RULES_0_1_24 = RuleSet()
"""The default: bit-equal to `tokenspeed_scheduler` 0.1.24."""

REFERENCE_0_1_24 = RuleSet(cut_remote_landings=True)
"""The real package with its fault: for re-executing what was recorded of it."""
