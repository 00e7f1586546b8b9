"""Rows of recorded tables: read as they are needed, as columns, and what follows from them alone."""
