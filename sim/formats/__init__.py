"""Readers and writers of workload files; it may import `sim.model`."""
