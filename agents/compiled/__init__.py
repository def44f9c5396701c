"""Compiled episodes of simulated analysts on measured tables; it imports `analysts`."""
