"""The main screen and what lies over it."""
