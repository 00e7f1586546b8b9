"""All tables of a bundle, recorded and decided: one catalogue for writing, reading, SQL and the reference."""

from __future__ import annotations

from .decided import DECIDED
from .tables import RECORDED

TABLES = RECORDED | DECIDED
"""Every table by name."""

LEVELS = ("plans", "decisions")
"""What is recorded: plans, or plans and the decisions behind them."""
