"""The terminal screens. The only room that imports textual; no scheduling or query logic in it."""
