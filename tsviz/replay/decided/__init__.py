"""Decided tables at a round, and the named causes in words (debugger.md, section 3)."""
