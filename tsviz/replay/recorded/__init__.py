"""Recorded state: any round from tables or compact bases, without re-execution (architecture.md, sections 5 and 6)."""
