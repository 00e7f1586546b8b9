"""Which version of the real package changed a plan (debugger.md, section 5)."""
