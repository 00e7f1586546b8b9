"""From a trace to answers: any round of it, its calls made again, what can be asked (architecture.md, section 6)."""
