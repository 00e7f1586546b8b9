"""Shrinking a scenario while it still shows what is looked for (debugger.md, section 5)."""
