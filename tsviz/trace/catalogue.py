"""All tables of a bundle, recorded and decided: one catalogue for writing, reading, SQL and the reference."""

from __future__ import annotations

from .decided import DECIDED
from .tables import RECORDED

TABLES = RECORDED | DECIDED
"""Every table by name."""

CALLS, PLANS, DECISIONS = "calls", "plans", "decisions"
LEVELS = (CALLS, PLANS, DECISIONS)
"""What is recorded: calls with the digest of every plan, the plans as well, or also the decisions behind them."""

PLAN_TABLES = ("operations", "table_changes", "zeroed", "transfers")
"""What a plan says, which level `calls` leaves out: re-execution makes it again, and the digests prove it."""
