"""The incidents of public trackers as small scenarios: what the scheduler does, and the decisions that show it."""
