"""The pages map of any round, and the life of a page (debugger.md, section 1)."""
