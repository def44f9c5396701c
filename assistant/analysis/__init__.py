"""Analysis: forecasts, warnings, effects and recommendations, as pure functions of an experiment.

Imports `assistant.core` and `strategies`; nothing here reads a clock, a store or an executor.
"""
