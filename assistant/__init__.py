"""Public API of Copperline: steer a parameter sweep under a budget, with the analyst in charge.

The UI, scripts, agents and HTTP clients all make the same calls on a `Session`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from assistant.analysis.recommendation import Recommendation
    from assistant.core.errors import AssistantError
    from assistant.core.events import BatchSuggested, Fact, MissWarning
    from assistant.core.experiment import Experiment
    from assistant.core.forecast import Forecast, PaperForecast
    from assistant.core.objective import (
        Constraint,
        Measure,
        Objective,
        Rmse,
        SecondObjective,
        SingleMeasure,
        WeightedSum,
    )
    from assistant.core.ports import Application, Executor, Store
    from assistant.core.run import ConfigurationSummary, Outcome, Run, RunState
    from assistant.core.sla import Sla, Steering, Tariff, WarningPolicy
    from assistant.session.opening import load_session, open_session
    from assistant.session.session import Session
    from assistant.store.event_store import MemoryStore

__all__ = [
    "Application",
    "AssistantError",
    "BatchSuggested",
    "ConfigurationSummary",
    "Constraint",
    "Executor",
    "Experiment",
    "Fact",
    "Forecast",
    "Measure",
    "MemoryStore",
    "MissWarning",
    "Objective",
    "Outcome",
    "PaperForecast",
    "Recommendation",
    "Rmse",
    "Run",
    "RunState",
    "SecondObjective",
    "Session",
    "SingleMeasure",
    "Sla",
    "Steering",
    "Store",
    "Tariff",
    "WarningPolicy",
    "WeightedSum",
    "load_session",
    "open_session",
]

_MODULES = {
    "Application": "assistant.core.ports",
    "AssistantError": "assistant.core.errors",
    "BatchSuggested": "assistant.core.events",
    "ConfigurationSummary": "assistant.core.run",
    "Constraint": "assistant.core.objective",
    "Executor": "assistant.core.ports",
    "Experiment": "assistant.core.experiment",
    "Fact": "assistant.core.events",
    "Forecast": "assistant.core.forecast",
    "Measure": "assistant.core.objective",
    "MemoryStore": "assistant.store.event_store",
    "MissWarning": "assistant.core.events",
    "Objective": "assistant.core.objective",
    "Outcome": "assistant.core.run",
    "PaperForecast": "assistant.core.forecast",
    "Recommendation": "assistant.analysis.recommendation",
    "Rmse": "assistant.core.objective",
    "Run": "assistant.core.run",
    "RunState": "assistant.core.run",
    "SecondObjective": "assistant.core.objective",
    "Session": "assistant.session.session",
    "SingleMeasure": "assistant.core.objective",
    "Sla": "assistant.core.sla",
    "Steering": "assistant.core.sla",
    "Store": "assistant.core.ports",
    "Tariff": "assistant.core.sla",
    "WarningPolicy": "assistant.core.sla",
    "WeightedSum": "assistant.core.objective",
    "load_session": "assistant.session.opening",
    "open_session": "assistant.session.opening",
}


def __getattr__(name: str) -> Any:
    """Import the module of a public name at its first use (PEP 562)."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
