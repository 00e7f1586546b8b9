"""The cache half of the scheduler: pools, tables, hashing, index, matching, admission, tiers."""
