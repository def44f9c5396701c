"""Metrics of workloads and schedules; they import the model and no kernel, policy or engine."""
