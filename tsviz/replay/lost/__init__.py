"""Lost time: where the time to first token and between tokens went, by cause (debugger.md, section 1)."""
