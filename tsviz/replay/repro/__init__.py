"""A script that shows a finding on the real package alone (debugger.md, section 5)."""
