"""From a trace to answers: any round of it, its calls made again, and what can be asked of them (architecture.md, section 6)."""
