"""The DuckDB catalog over bundles. Knows the trace only."""
