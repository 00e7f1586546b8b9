"""Why a request has no row: cause, chain to the root, who holds the pages, who takes turns (debugger.md, section 3)."""
