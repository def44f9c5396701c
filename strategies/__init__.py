"""How to choose configurations: spaces, observations and strategies, and nothing else.

>>> import numpy as np
>>> space = ParameterSpace((Parameter("procs", (1, 2, 4)), Parameter("order", ("fcfs", "sjf"))))
>>> strategy = make_strategy("grasp", beta=0.9)
>>> suggestions = strategy.suggest(3, Knowledge(space), np.random.default_rng(1))
>>> len({suggestion.configuration for suggestion in suggestions})
3
"""

from strategies.anova import Anova, AnovaModel, Marginal, Prediction, Reach
from strategies.balanced import balanced_design
from strategies.base import Strategy, Suggestion, SuggestionKind
from strategies.blocks import Block, Effects, block_effects, find_blocks
from strategies.configuration import Configuration
from strategies.confirmation import Candidate, Choice, choose, confirmations
from strategies.design import (
    METHODS,
    DesignModel,
    Expectation,
    Importance,
    LevelEffect,
    Method,
)
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
from strategies.exploitation import Allocation, Exploiting, factors_of, home_of, split
from strategies.fractional_factorial import FractionalFactorial
from strategies.full_factorial import FullFactorial
from strategies.grasp import Grasp
from strategies.knowledge import Knowledge, is_exhausted
from strategies.latin_hypercube import LatinHypercube
from strategies.least_squares import least_squares_effects
from strategies.measured_table import MeasuredTable, Measurement
from strategies.noise import Noise, estimate_noise
from strategies.observation import Failure, Observation, best, rank_key, responses
from strategies.parameter import Family, Kind, Level, Parameter
from strategies.pareto import Scalarising, hypervolume, pareto_front
from strategies.particle_swarm import ParticleSwarm
from strategies.pattern_search import PatternSearch
from strategies.preference import Preferring
from strategies.random_search import RandomSearch
from strategies.regions import (
    PENDING_RULES,
    PendingRule,
    PendingRuns,
    Region,
    RegionRule,
    find_regions,
    pending_in_region,
)
from strategies.registry import (
    DEFAULT_STRATEGY,
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
from strategies.two_level import (
    PlackettBurman,
    RegularFraction,
    TwoLevelDesign,
    two_level_design,
)

__all__ = [
    "DEFAULT_STRATEGY",
    "ENTRY_POINT_GROUP",
    "METHODS",
    "PENDING_RULES",
    "STRATEGIES",
    "Allocation",
    "Anova",
    "AnovaModel",
    "Block",
    "Candidate",
    "Choice",
    "Configuration",
    "DesignModel",
    "Effects",
    "Exclusion",
    "ExclusionError",
    "Expectation",
    "Exploiting",
    "Failure",
    "Family",
    "FractionalFactorial",
    "FullFactorial",
    "Grasp",
    "Importance",
    "Kind",
    "Knowledge",
    "LatinHypercube",
    "Level",
    "LevelEffect",
    "Marginal",
    "MeasuredTable",
    "Measurement",
    "Method",
    "Noise",
    "NotAllowedError",
    "Observation",
    "ObservationError",
    "Option",
    "OptionError",
    "OptionValue",
    "Parameter",
    "ParameterSpace",
    "ParticleSwarm",
    "PatternSearch",
    "PendingRule",
    "PendingRuns",
    "PlackettBurman",
    "Prediction",
    "Preferring",
    "RandomSearch",
    "Reach",
    "Region",
    "RegionRule",
    "RegularFraction",
    "Scalarising",
    "SpaceError",
    "Strategy",
    "StrategyEntry",
    "StrategyError",
    "Suggestion",
    "SuggestionKind",
    "TableError",
    "TwoLevelDesign",
    "UnknownLevelError",
    "UnknownParameterError",
    "UnknownStrategyError",
    "balanced_design",
    "best",
    "block_effects",
    "choose",
    "confirmations",
    "estimate_noise",
    "factors_of",
    "find_blocks",
    "find_regions",
    "home_of",
    "hypervolume",
    "is_exhausted",
    "least_squares_effects",
    "make_strategy",
    "pareto_front",
    "pending_in_region",
    "rank_key",
    "responses",
    "split",
    "strategy_entry",
    "strategy_names",
    "two_level_design",
]
