"""Results of runs, as strategies use them: observations, failures, measured tables."""
