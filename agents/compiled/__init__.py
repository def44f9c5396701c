"""Whole episodes of simulated analysts on measured tables, compiled: what a study runs in bulk."""
