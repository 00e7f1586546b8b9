"""The flight recorder's keeper: triggers, and the kept part as a trace that re-executes (architecture.md)."""
