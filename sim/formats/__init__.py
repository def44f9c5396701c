"""Readers and writers of workload logs."""
