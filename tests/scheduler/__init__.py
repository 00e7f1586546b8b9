"""Tests of the twin alone; against the real package see `tests/conformance`."""
