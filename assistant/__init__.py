"""Copperline: steer a parameter sweep with the analyst in charge and the run budget in view.

The public API. What a person does in the UI, an agent in a script and a client elsewhere is the
same call on the same `Session`.
"""

from assistant.errors import AssistantError
from assistant.events import BatchSuggested, Fact
from assistant.experiment import Experiment
from assistant.objective import Constraint, Measure, Objective, Rmse, Value, WeightedSum
from assistant.ports import Application, Executor, Store
from assistant.run import Outcome, Run, RunState
from assistant.session import Session, load_session, open_session
from assistant.sla import Sla

__all__ = [
    "Application",
    "AssistantError",
    "BatchSuggested",
    "Constraint",
    "Executor",
    "Experiment",
    "Fact",
    "Measure",
    "Objective",
    "Outcome",
    "Rmse",
    "Run",
    "RunState",
    "Session",
    "Sla",
    "Store",
    "Value",
    "WeightedSum",
    "load_session",
    "open_session",
]
