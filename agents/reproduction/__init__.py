"""Reproduction of the paper's evaluation, with verdicts; imports `analysts` and `studies`."""
