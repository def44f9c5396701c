"""Steering of an experiment: regions, exploitation, preferences, Pareto fronts, confirmation."""
