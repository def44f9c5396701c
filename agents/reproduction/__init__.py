"""Reproduction of the Copper paper's evaluation; imports `analysts` and `studies`."""
