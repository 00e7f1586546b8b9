"""When a run counts as live-locked: one number for figures and findings."""

from __future__ import annotations

STUCK_ROUNDS = 100
"""So many rounds with rows, none of which got any request further, are called a live-lock."""
