"""Keyframes: the whole state of a re-execution between two calls, as a value and as bytes (section 6)."""
