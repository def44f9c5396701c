"""Copperline: steer a parameter sweep with the analyst in charge and the run budget in view.

The public API. What a person does in the UI, an agent in a script and a client elsewhere is the
same call on the same `Session`.
"""

from assistant.errors import AssistantError
from assistant.events import Advice, BatchSuggested, Fact
from assistant.experiment import Experiment
from assistant.forecasts import Forecast, PaperForecast
from assistant.objective import (
    Constraint,
    Measure,
    Objective,
    Rmse,
    Second,
    Value,
    WeightedSum,
)
from assistant.opening import load_session, open_session
from assistant.ports import Application, Executor, Store
from assistant.recommendation import Recommendation
from assistant.run import Outcome, Run, RunState
from assistant.session import Session
from assistant.sla import Sla, Steering, Tariff, Watch
from assistant.standing import Standing
from assistant.store.memory import MemoryStore

__all__ = [
    "Advice",
    "Application",
    "AssistantError",
    "BatchSuggested",
    "Constraint",
    "Executor",
    "Experiment",
    "Fact",
    "Forecast",
    "Measure",
    "MemoryStore",
    "Objective",
    "Outcome",
    "PaperForecast",
    "Recommendation",
    "Rmse",
    "Run",
    "RunState",
    "Second",
    "Session",
    "Sla",
    "Standing",
    "Steering",
    "Store",
    "Tariff",
    "Value",
    "Watch",
    "WeightedSum",
    "load_session",
    "open_session",
]
