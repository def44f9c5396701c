"""Search spaces, observations and strategies that choose configurations, without input or output.

It imports nothing of this project.

>>> import numpy as np
>>> from strategies import Knowledge, Parameter, ParameterSpace, make_strategy
>>> space = ParameterSpace((Parameter("procs", (1, 2, 4)), Parameter("order", ("fcfs", "sjf"))))
>>> strategy = make_strategy("grasp", beta=0.9)
>>> suggestions = strategy.suggest(3, Knowledge(space), np.random.default_rng(1))
>>> len({suggestion.configuration for suggestion in suggestions})
3
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from strategies.data.measured_table import MeasuredTable, Measurement
    from strategies.data.observation import Failure, Observation, best, rank_key, responses
    from strategies.doe.factorial_block import Effects, FactorialBlock, block_effects, find_blocks
    from strategies.doe.linear_model import least_squares_effects
    from strategies.doe.main_effects import (
        METHODS,
        DesignModel,
        ExpectedResponse,
        Importance,
        Knowledge,
        LevelEffect,
        Method,
        is_exhausted,
    )
    from strategies.doe.two_level import (
        PlackettBurman,
        RegularFraction,
        TwoLevelDesign,
        two_level_design,
    )
    from strategies.gp.anova_model import AnovaModel, Marginal, RunPrediction, UntriedPredictions
    from strategies.registry import (
        DEFAULT_STRATEGY,
        ENTRY_POINT_GROUP,
        STRATEGIES,
        OptionValue,
        StrategyEntry,
        StrategyOption,
        make_strategy,
        strategy_entry,
        strategy_names,
    )
    from strategies.samplers.anova_search import Anova
    from strategies.samplers.factorial import FractionalFactorial, FullFactorial
    from strategies.samplers.grasp import Grasp
    from strategies.samplers.latin_hypercube import LatinHypercube, balanced_design
    from strategies.samplers.particle_swarm import ParticleSwarm
    from strategies.samplers.pattern_search import PatternSearch
    from strategies.samplers.strategy import RandomSearch, Strategy, Suggestion, SuggestionKind
    from strategies.space.errors import (
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
    from strategies.space.exclusion import Exclusion
    from strategies.space.parameter import Family, Kind, Level, Parameter
    from strategies.space.parameter_space import Configuration, ParameterSpace
    from strategies.steering.confirmation import (
        Candidate,
        Choice,
        Noise,
        choose,
        confirmations,
        estimate_noise,
    )
    from strategies.steering.exploitation import (
        Allocation,
        ExploitationStrategy,
        PreferenceStrategy,
        factors_of,
        region_index,
        split,
    )
    from strategies.steering.pareto import ScalarisedStrategy, hypervolume, pareto_front
    from strategies.steering.regions import (
        PENDING_RULES,
        PendingRule,
        PendingRuns,
        Region,
        RegionRule,
        find_regions,
        pending_in_region,
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
    "Candidate",
    "Choice",
    "Configuration",
    "DesignModel",
    "Effects",
    "Exclusion",
    "ExclusionError",
    "ExpectedResponse",
    "ExploitationStrategy",
    "FactorialBlock",
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
    "OptionError",
    "OptionValue",
    "Parameter",
    "ParameterSpace",
    "ParticleSwarm",
    "PatternSearch",
    "PendingRule",
    "PendingRuns",
    "PlackettBurman",
    "PreferenceStrategy",
    "RandomSearch",
    "Region",
    "RegionRule",
    "RegularFraction",
    "RunPrediction",
    "ScalarisedStrategy",
    "SpaceError",
    "Strategy",
    "StrategyEntry",
    "StrategyError",
    "StrategyOption",
    "Suggestion",
    "SuggestionKind",
    "TableError",
    "TwoLevelDesign",
    "UnknownLevelError",
    "UnknownParameterError",
    "UnknownStrategyError",
    "UntriedPredictions",
    "balanced_design",
    "best",
    "block_effects",
    "choose",
    "confirmations",
    "estimate_noise",
    "factors_of",
    "find_blocks",
    "find_regions",
    "hypervolume",
    "is_exhausted",
    "least_squares_effects",
    "make_strategy",
    "pareto_front",
    "pending_in_region",
    "rank_key",
    "region_index",
    "responses",
    "split",
    "strategy_entry",
    "strategy_names",
    "two_level_design",
]

_MODULES = {
    "Allocation": "strategies.steering.exploitation",
    "Anova": "strategies.samplers.anova_search",
    "AnovaModel": "strategies.gp.anova_model",
    "Candidate": "strategies.steering.confirmation",
    "Choice": "strategies.steering.confirmation",
    "Configuration": "strategies.space.parameter_space",
    "DEFAULT_STRATEGY": "strategies.registry",
    "DesignModel": "strategies.doe.main_effects",
    "ENTRY_POINT_GROUP": "strategies.registry",
    "Effects": "strategies.doe.factorial_block",
    "Exclusion": "strategies.space.exclusion",
    "ExclusionError": "strategies.space.errors",
    "ExpectedResponse": "strategies.doe.main_effects",
    "ExploitationStrategy": "strategies.steering.exploitation",
    "FactorialBlock": "strategies.doe.factorial_block",
    "Failure": "strategies.data.observation",
    "Family": "strategies.space.parameter",
    "FractionalFactorial": "strategies.samplers.factorial",
    "FullFactorial": "strategies.samplers.factorial",
    "Grasp": "strategies.samplers.grasp",
    "Importance": "strategies.doe.main_effects",
    "Kind": "strategies.space.parameter",
    "Knowledge": "strategies.doe.main_effects",
    "LatinHypercube": "strategies.samplers.latin_hypercube",
    "Level": "strategies.space.parameter",
    "LevelEffect": "strategies.doe.main_effects",
    "METHODS": "strategies.doe.main_effects",
    "Marginal": "strategies.gp.anova_model",
    "MeasuredTable": "strategies.data.measured_table",
    "Measurement": "strategies.data.measured_table",
    "Method": "strategies.doe.main_effects",
    "Noise": "strategies.steering.confirmation",
    "NotAllowedError": "strategies.space.errors",
    "Observation": "strategies.data.observation",
    "ObservationError": "strategies.space.errors",
    "OptionError": "strategies.space.errors",
    "OptionValue": "strategies.registry",
    "PENDING_RULES": "strategies.steering.regions",
    "Parameter": "strategies.space.parameter",
    "ParameterSpace": "strategies.space.parameter_space",
    "ParticleSwarm": "strategies.samplers.particle_swarm",
    "PatternSearch": "strategies.samplers.pattern_search",
    "PendingRule": "strategies.steering.regions",
    "PendingRuns": "strategies.steering.regions",
    "PlackettBurman": "strategies.doe.two_level",
    "PreferenceStrategy": "strategies.steering.exploitation",
    "RandomSearch": "strategies.samplers.strategy",
    "Region": "strategies.steering.regions",
    "RegionRule": "strategies.steering.regions",
    "RegularFraction": "strategies.doe.two_level",
    "RunPrediction": "strategies.gp.anova_model",
    "STRATEGIES": "strategies.registry",
    "ScalarisedStrategy": "strategies.steering.pareto",
    "SpaceError": "strategies.space.errors",
    "Strategy": "strategies.samplers.strategy",
    "StrategyEntry": "strategies.registry",
    "StrategyError": "strategies.space.errors",
    "StrategyOption": "strategies.registry",
    "Suggestion": "strategies.samplers.strategy",
    "SuggestionKind": "strategies.samplers.strategy",
    "TableError": "strategies.space.errors",
    "TwoLevelDesign": "strategies.doe.two_level",
    "UnknownLevelError": "strategies.space.errors",
    "UnknownParameterError": "strategies.space.errors",
    "UnknownStrategyError": "strategies.space.errors",
    "UntriedPredictions": "strategies.gp.anova_model",
    "balanced_design": "strategies.samplers.latin_hypercube",
    "best": "strategies.data.observation",
    "block_effects": "strategies.doe.factorial_block",
    "choose": "strategies.steering.confirmation",
    "confirmations": "strategies.steering.confirmation",
    "estimate_noise": "strategies.steering.confirmation",
    "factors_of": "strategies.steering.exploitation",
    "find_blocks": "strategies.doe.factorial_block",
    "find_regions": "strategies.steering.regions",
    "hypervolume": "strategies.steering.pareto",
    "is_exhausted": "strategies.doe.main_effects",
    "least_squares_effects": "strategies.doe.linear_model",
    "make_strategy": "strategies.registry",
    "pareto_front": "strategies.steering.pareto",
    "pending_in_region": "strategies.steering.regions",
    "rank_key": "strategies.data.observation",
    "region_index": "strategies.steering.exploitation",
    "responses": "strategies.data.observation",
    "split": "strategies.steering.exploitation",
    "strategy_entry": "strategies.registry",
    "strategy_names": "strategies.registry",
    "two_level_design": "strategies.doe.two_level",
}


def __getattr__(name: str) -> Any:
    """Import the module of a public name when it is first used (PEP 562)."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
