"""Simulated analysts and the episodes that they play; imports nothing else of `agents`."""
