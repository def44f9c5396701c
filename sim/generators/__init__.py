"""Generators of workloads; it may import `sim.model`, `sim.metrics` and `sim.policies`."""
