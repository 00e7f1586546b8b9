"""A trace without what its prompts say, and what of them survives (architecture.md, section 7)."""
