"""Core of the assistant: pure values and decisions about experiments, runs and events.

Imports only the standard library, NumPy and `strategies`; no store, executor or clock is used here.
"""
