"""tsviz: a visual debugger and trace replayer for the scheduler of an LLM inference engine."""

__version__ = "0.1.0"
