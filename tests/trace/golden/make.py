"""Makes the golden bundles of the current schema: `python -m tests.trace.golden.make`, once per schema MINOR.

A golden bundle is never made again: it is what a release wrote, and every later reader must open and verify it.
"""

from __future__ import annotations

from pathlib import Path

from tests.trace.lives import record
from tsviz.adapters.tokenspeed import load_real
from tsviz.trace.layout import schema_version

HERE = Path(__file__).parent
LIVES = {"fused-hot": (103, "Fused", "full", False), "fused-cold": (103, "Fused", "full", True),
         "d-identity-hot": (103, "D", "identity", False), "d-identity-cold": (103, "D", "identity", True)}  # fmt: skip
"""Name -> seed, role, token mode, whether it is compacted."""


def main() -> None:
    """Write each golden bundle that is not there yet."""
    for name, (seed, role, tokens, compacted) in LIVES.items():
        target = HERE / schema_version() / name
        if not target.exists():
            target.parent.mkdir(exist_ok=True)
            record(load_real(), target, seed, role=role, tokens=tokens, steps=120, compacted=compacted)


if __name__ == "__main__":
    main()
