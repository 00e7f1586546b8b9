"""Two recordings side by side, and several on one time axis (debugger.md, sections 1 and 4)."""
