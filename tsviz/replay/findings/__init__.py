"""Checks of a whole trace, each with a threshold, evidence and positions (debugger.md, section 1)."""
