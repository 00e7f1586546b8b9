"""The real executor: models run on the scheduler's plans (`executor-rules.md`). The only room that imports torch."""
