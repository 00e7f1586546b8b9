"""Figures of a run and of its requests: what a diff and a what-if compare (debugger.md, sections 1 and 4)."""
