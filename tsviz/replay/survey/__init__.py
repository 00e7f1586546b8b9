"""What is asked about a trace as a whole, in a process of its own (architecture.md, section 6)."""
