"""Holds the Python twin equal to the real scheduler: worked examples, random lifetimes, fatal cases.

Everything here speaks to a *module* (the real package or the twin) only through its public names, and
turns what it answers into plain data, so that the two can be compared without knowing one another.
"""
