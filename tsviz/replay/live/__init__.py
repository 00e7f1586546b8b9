"""Live states: the scheduler object at one stop of one round, from a worker that re-executes (section 6)."""
