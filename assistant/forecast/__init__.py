"""The future of an experiment, as pure functions of the journal and the time."""

from assistant.forecast.paper import executed_runs, paper_forecast
from assistant.forecast.whole import forecast

__all__ = ["executed_runs", "forecast", "paper_forecast"]
