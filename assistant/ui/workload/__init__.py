"""Workload: what a job log holds, before anything is simulated."""
