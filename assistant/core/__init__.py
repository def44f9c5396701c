"""Core of the assistant: types of experiments, runs and events, and the rules that change them.

Imports only the standard library, NumPy and `strategies`; no store, executor or clock is used here.
"""
