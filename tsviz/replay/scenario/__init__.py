"""A scenario, which makes a run without its course, and what a run shows (debugger.md, section 5)."""
