"""Results of runs for strategies: observations, failures, measured tables; imports `space`."""
