"""The twin of the scheduler. Standard library and numpy only."""
