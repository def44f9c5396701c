"""Steering of strategies: regions, exploitation, preferences, Pareto fronts and confirmation.

It imports `space`, `data`, `doe` and `samplers`.
"""
