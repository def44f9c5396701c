"""*Space*: every configuration on one map, what was measured or is expected there, and the runs."""
