"""The future of an experiment, as pure functions of the journal and the time."""

from assistant.forecast.paper import paper_forecast

__all__ = ["paper_forecast"]
