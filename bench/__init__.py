"""Benchmarks that print ratios; never part of the tests. `python -m bench [NAME...]`, see docs/performance.md."""
