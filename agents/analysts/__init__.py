"""Simulated analysts and the episodes that they play."""
