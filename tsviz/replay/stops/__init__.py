"""The inside of a round: its phases and stops, and what was told at each (debugger.md, section 1)."""
