"""GRASP with DOE estimates: Algorithms 1 to 3 of the Copper paper, as published.

The paper's names and order of steps are kept, with its line numbers beside the steps. The
paper leaves five points open; the choices here are:

- A level without a known q(e) is a candidate too, or it would never be tried.
- Closed levels are not listed, and q_min and q_max are taken over the listed levels.
- A solution that is excluded or taken is not proposed again; its nearest free neighbours are.
- Before the first observation there is no model, so the first suggestions are drawn at random,
  as `initialEvaluation()` of its Figure 3 allows.
- The paper's model is of full factorials, "whenever part of the search space has enough evaluated
  samples": the option ``effects="blocks"``. The default takes the level means of all runs.

Main effects of its own greedy sample are a weak guide where parameters interact;
``python -m benchmarks.search`` compares it with random search and other packages.

References: Silva, Netto et al., Copper (sections 2.2 and 3.1, Algorithms 1-3); Feo & Resende
1995 for GRASP itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Container, Iterator
from dataclasses import dataclass

import numpy as np

from strategies.doe.main_effects import METHODS, DesignModel, Knowledge, Method, require_method
from strategies.samplers.strategy import (
    StrategyEntry,
    StrategyOption,
    Suggestion,
    SuggestionKind,
    construction_reason,
    neighbour_reason,
    require_count,
)
from strategies.space.errors import OptionError
from strategies.space.parameter import show_values
from strategies.space.parameter_space import Configuration, ParameterSpace

DEFAULT_BETA = 0.7
DEFAULT_NEIGHBOURS = 4
SEARCH_BOUND = 200  # Nearest combinations that a local search examines

ROUNDS = 4  # Rounds of Algorithm 1 without a free configuration before a random one is suggested


def sampling(
    model: DesignModel,
    space: ParameterSpace,
    beta: float,
    n: int,
    *,
    rng: np.random.Generator,
    unavailable: Container[Configuration] = frozenset(),
) -> tuple[Configuration, ...]:
    """Return a greedy random solution and up to n free neighbours (Copper paper, Algorithm 1).

    The solution comes first; it is left out if it is not free (excluded or in ``unavailable``).
    There are fewer neighbours if no more are free nearby.
    """
    solution = construction(model, space, beta, rng)  # line 1
    samples = local_search(space, n, solution, rng, unavailable)  # line 2
    if _is_free(space, solution, unavailable):
        return (solution, *samples)  # line 3; "including the initial solution"
    return samples


def construction(
    model: DesignModel, space: ParameterSpace, beta: float, rng: np.random.Generator
) -> Configuration:
    """Draw a random good level for every parameter (Copper paper, Algorithm 2).

    The result has open levels only, but may be excluded.
    """
    solution: list[int] = []  # line 1
    for parameter in space.names:  # line 2
        candidates = reduced_candidate_list(model, space, parameter, beta)  # line 3
        solution.append(candidates[int(rng.integers(len(candidates)))])  # line 4
    return space.canonical(tuple(solution))  # line 6


def reduced_candidate_list(
    model: DesignModel, space: ParameterSpace, parameter: str, beta: float
) -> tuple[int, ...]:
    """Return level ids e with q(e) >= q_min + beta (q_max - q_min): Copper paper, Algorithm 2.

    Levels of unknown quality are candidates too. Never empty.
    """
    listed = list_values(space, parameter)
    quality = {level_id: model.quality(parameter, level_id) for level_id in listed}
    qualities = [q for q in quality.values() if q is not None]
    if not qualities:
        return listed
    q_min, q_max = min(qualities), max(qualities)
    # near beta = 1 rounding may lift the threshold above q_max and leave no candidate, or lower it
    threshold = q_max if beta == 1 else min(q_min + beta * (q_max - q_min), q_max)
    return tuple(e for e in listed if (q := quality[e]) is None or q >= threshold)


def list_values(space: ParameterSpace, parameter: str) -> tuple[int, ...]:
    """Return the ids of the open levels of a parameter: listValues(p, M) of the Copper paper."""
    return space.open_ids[space.names.index(parameter)]


def local_search(
    space: ParameterSpace,
    n: int,
    solution: Configuration,
    rng: np.random.Generator,
    unavailable: Container[Configuration] = frozenset(),
) -> tuple[Configuration, ...]:
    """Return up to n free neighbours of a solution, nearest first (Copper paper, Algorithm 3)."""
    neighbours = get_neighbor(space, solution, rng, unavailable)
    solutions: list[Configuration] = []  # line 1
    for _ in range(n):  # line 2
        neighbour = next(neighbours, None)
        if neighbour is None:
            break
        solutions.append(neighbour)  # line 3
    return tuple(solutions)  # line 5


def get_neighbor(
    space: ParameterSpace,
    solution: Configuration,
    rng: np.random.Generator,
    unavailable: Container[Configuration] = frozenset(),
) -> Iterator[Configuration]:
    """Yield free configurations near a solution, nearest first (Copper paper's getNeighbor).

    Only the `SEARCH_BOUND` nearest combinations of open levels are examined.
    """
    nearest = itertools.islice(space.open_by_distance(solution, rng), SEARCH_BOUND)
    return (candidate for candidate in nearest if _is_free(space, candidate, unavailable))


def _is_free(
    space: ParameterSpace, configuration: Configuration, unavailable: Container[Configuration]
) -> bool:
    return configuration not in unavailable and space.is_allowed(configuration)


@dataclass(frozen=True, slots=True)
class Copper:
    """Strategy that follows GRASP with DOE estimates (Copper paper, Algorithms 1 to 3).

    Args:
        beta: greediness from 0 (any level) to 1 (only the best level seen, and untried ones).
        neighbours: neighbours per construction, n of Algorithm 1.
        effects: method for q(e): level means, complete factorial blocks or least squares; see
            `strategies.doe.main_effects`.
    Raises `OptionError` for values out of bounds.
    """

    beta: float = DEFAULT_BETA
    neighbours: int = DEFAULT_NEIGHBOURS
    effects: Method = "means"

    def __post_init__(self) -> None:
        if type(self.beta) not in (int, float) or not 0 <= self.beta <= 1:
            raise OptionError(f"copper has beta={self.beta!r}; it must be from 0 to 1.")
        if type(self.neighbours) is not int or self.neighbours < 0:
            raise OptionError(
                f"copper has neighbours={self.neighbours!r}; it must be a whole number from 0 on."
            )
        require_method(self.effects)

    @property
    def name(self) -> str:
        """Registered name of the strategy."""
        return "copper"

    @property
    def is_compiled(self) -> bool:
        """Whether whole episodes can be played as compiled code, which has level means only."""
        return self.effects == "means"

    def suggest(
        self, n: int, knowledge: Knowledge, rng: np.random.Generator
    ) -> tuple[Suggestion, ...]:
        """Propose ``n`` configurations by rounds of GRASP's Algorithm 1."""
        require_count(n)
        batch = _CopperBatch(self, knowledge, rng)
        fill = batch.add_rounds if knowledge.observations else batch.add_random
        while len(batch.suggestions) < n and (fill() or batch.add_random()):
            pass
        return tuple(batch.suggestions[:n])


class _CopperBatch:
    def __init__(self, copper: Copper, knowledge: Knowledge, rng: np.random.Generator) -> None:
        self.suggestions: list[Suggestion] = []
        self._copper = copper
        self._knowledge = knowledge
        self._rng = rng
        self._model = knowledge.model_by(copper.effects)
        self._unavailable = set(knowledge.taken)

    def add_rounds(self) -> bool:
        """Add a round with a free configuration in up to `ROUNDS` attempts; return success."""
        return any(self.add_round() for _ in range(ROUNDS))

    def add_round(self) -> bool:
        """Add one round of Algorithm 1 and return whether any configuration was free."""
        space, model, beta = self._knowledge.space, self._model, self._copper.beta
        solution = construction(model, space, beta, self._rng)
        free = _is_free(space, solution, self._unavailable)
        if free:
            self._add(solution, "construction", construction_reason(model, solution, beta))
            near_text = f"suggestion {len(self.suggestions)}"
        else:
            state = "run or pending already" if solution in self._unavailable else "excluded"
            near_text = f"the construction {show_values(space.values(solution))}, which is {state}"
        n = self._copper.neighbours if free else max(self._copper.neighbours, 1)
        neighbours = local_search(space, n, solution, self._rng, self._unavailable)
        for neighbour in neighbours:
            reason = neighbour_reason(space, neighbour, solution, near_text)
            self._add(neighbour, "neighbour", reason, solution)
        return free or bool(neighbours)

    def add_random(self) -> bool:
        """Add one random allowed configuration and return whether any was left."""
        configuration = self._knowledge.space.sample(self._rng, self._unavailable)
        if configuration is None:
            return False
        if self._knowledge.observations:
            reason = "Drawn at random, since no configuration near the constructions is free."
            self._add(configuration, "random", reason)
        else:
            reason = "Drawn at random, since no run has completed yet and no level is known."
            self._add(configuration, "initial", reason)
        return True

    def _add(
        self,
        configuration: Configuration,
        kind: SuggestionKind,
        reason: str,
        near: Configuration | None = None,
    ) -> None:
        expected = self._model.expected(configuration)
        value = expected.value if expected else None
        name = self._copper.name
        self._unavailable.add(configuration)
        self.suggestions.append(Suggestion(configuration, name, reason, kind, value, near=near))


COPPER = StrategyEntry(
    "copper",
    "The Copper paper's default: greedy randomised constructions from main effects, with "
    "their neighbours.",
    Copper,
    (
        StrategyOption(
            "beta", float, DEFAULT_BETA, 0.0, 1.0,
            "greediness: 0 takes any level, 1 only the best seen and untried ones",
        ),
        StrategyOption(
            "neighbours", int, DEFAULT_NEIGHBOURS, 0.0, None,
            "neighbours suggested with every construction",
        ),
        StrategyOption(
            "effects", str, "means",
            summary="how the quality of a level is estimated",
            choices=METHODS,
        ),
    ),
    batch=DEFAULT_NEIGHBOURS + 1,
)  # fmt: skip
