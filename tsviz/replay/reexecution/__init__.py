"""The recorded calls made again in a fresh scheduler: verification, decided tables, the index (sections 2 and 5)."""
