"""What if a knob had stood elsewhere: closed-loop runs against a re-timed baseline (debugger.md, section 4)."""
