"""Reproduction of the paper's evaluation, with a verdict on each of its claims."""
