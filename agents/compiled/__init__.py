"""Compiled episodes of simulated analysts on measured tables, for large studies."""
