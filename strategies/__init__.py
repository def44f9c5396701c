"""How to choose configurations: spaces, observations and strategies, and nothing else.

>>> import numpy as np
>>> space = ParameterSpace((Parameter("procs", (1, 2, 4)), Parameter("order", ("fcfs", "sjf"))))
>>> strategy = make_strategy("grasp", beta=0.9)
>>> suggestions = strategy.suggest(3, Knowledge(space), np.random.default_rng(1))
>>> len({suggestion.configuration for suggestion in suggestions})
3
"""

from strategies.base import Strategy, Suggestion, SuggestionKind
from strategies.configuration import Configuration
from strategies.design import DesignModel, Expectation, Importance, LevelEffect
from strategies.errors import (
    ExclusionError,
    NotAllowedError,
    ObservationError,
    OptionError,
    SpaceError,
    StrategyError,
    TableError,
    UnknownLevelError,
    UnknownParameterError,
    UnknownStrategyError,
)
from strategies.exclusion import Exclusion
from strategies.grasp import Grasp
from strategies.knowledge import Knowledge, is_exhausted
from strategies.measured_table import MeasuredTable, Measurement
from strategies.observation import Failure, Observation, best, rank_key, responses
from strategies.parameter import Family, Kind, Level, Parameter
from strategies.random_search import RandomSearch
from strategies.registry import (
    ENTRY_POINT_GROUP,
    STRATEGIES,
    Option,
    OptionValue,
    StrategyEntry,
    make_strategy,
    strategy_entry,
    strategy_names,
)
from strategies.space import ParameterSpace

__all__ = [
    "ENTRY_POINT_GROUP",
    "STRATEGIES",
    "Configuration",
    "DesignModel",
    "Exclusion",
    "ExclusionError",
    "Expectation",
    "Failure",
    "Family",
    "Grasp",
    "Importance",
    "Kind",
    "Knowledge",
    "Level",
    "LevelEffect",
    "MeasuredTable",
    "Measurement",
    "NotAllowedError",
    "Observation",
    "ObservationError",
    "Option",
    "OptionError",
    "OptionValue",
    "Parameter",
    "ParameterSpace",
    "RandomSearch",
    "SpaceError",
    "Strategy",
    "StrategyEntry",
    "StrategyError",
    "Suggestion",
    "SuggestionKind",
    "TableError",
    "UnknownLevelError",
    "UnknownParameterError",
    "UnknownStrategyError",
    "best",
    "is_exhausted",
    "make_strategy",
    "rank_key",
    "responses",
    "strategy_entry",
    "strategy_names",
]
