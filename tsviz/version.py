"""The version, by itself: rooms may know it without knowing the package's front door."""

__version__ = "0.1.0"
"""The version of tsviz."""
