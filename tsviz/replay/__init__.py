"""Session over a trace: recorded state, verification."""
