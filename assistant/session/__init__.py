"""Sessions: open an experiment, steer it, keep its event log and execute its runs.

Imports `assistant.core`, `assistant.analysis` and `strategies`.
"""
