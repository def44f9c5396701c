"""Optimisation of two qualities: Pareto front, hypervolume, and a search along the front.

`ScalarisedStrategy` lets any strategy search along the front, by giving every suggestion a weight
of its own, with which both qualities are combined into one number.

References: Knowles 2006, ParEGO: a hybrid algorithm with on-line landscape approximation for
expensive multiobjective optimization problems; Deb 2000 for constraints.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from strategies.data.observation import Observation
from strategies.doe.main_effects import Knowledge
from strategies.samplers.strategy import Strategy, Suggestion, require_count
from strategies.space.errors import ObservationError

RHO = 0.05  # Constant of the augmented Tchebycheff function (Knowles 2006, section II)

DIVISIONS = 10
"""The s of Knowles 2006 for two objectives: weights are multiples of 1 / s, 11 vectors."""


def pareto_front(observations: Iterable[Observation]) -> tuple[Observation, ...]:
    """Return the non-dominated observations, in decreasing order of the first quality.

    One dominates another if it is feasible and the other is not, if both are infeasible and it
    violates less (Deb 2000), or if it is at least as good in both qualities and better in one.
    Equal observations are all on the front.
    Raises `ObservationError` if a second quality is unknown.
    """
    pairs = [(observation, _second(observation)) for observation in observations]
    if any(observation.feasible for observation, _ in pairs):
        pairs = [pair for pair in pairs if pair[0].feasible]
    else:
        least = min((observation.violation for observation, _ in pairs), default=0.0)
        pairs = [pair for pair in pairs if pair[0].violation == least]
    front: list[tuple[Observation, float]] = []
    for observation, second in sorted(pairs, key=lambda pair: (-pair[0].quality, -pair[1])):
        equal = bool(front) and (observation.quality, second) == (
            front[-1][0].quality,
            front[-1][1],
        )
        if not front or second > front[-1][1] or equal:
            front.append((observation, second))
    return tuple(observation for observation, _ in front)


def hypervolume(points: Iterable[tuple[float, float]], reference: tuple[float, float]) -> float:
    """Return the exact area that points (pairs of qualities) dominate above a reference point.

    Points and reference are pairs of qualities, greater is better. A point that is dominated, or
    does not exceed the reference in both, adds nothing.

    Reference: Zitzler & Thiele 1998, Multiobjective optimization using evolutionary algorithms.
    """
    area, highest = 0.0, reference[1]
    for first, second in sorted(points, reverse=True):
        if first > reference[0] and second > highest:
            area += (first - reference[0]) * (second - highest)
            highest = second
    return area


@dataclass(frozen=True, slots=True)
class ScalarisedStrategy:
    """Strategy that searches the Pareto front of two qualities with random weights.

    For each suggestion a weight is drawn, both qualities are scaled to costs from 0 (best) to 1
    over the feasible observations (all, if none is), and the base is called for one suggestion
    with the negative augmented Tchebycheff function of the costs as quality:
    max(w_j c_j) + rho sum(w_j c_j). Its suggestion is pending for the next. Without an
    observation it is the base.

    Args:
        base: any strategy; this one has its name too.
        labels: names of the two qualities in reasons.
    Raises `ObservationError`, when it suggests, for an observation without a second quality.
    """

    base: Strategy
    labels: tuple[str, str] = ("the first measure", "the second")

    @property
    def name(self) -> str:
        """Registered name of the base strategy."""
        return self.base.name

    def suggest(
        self, n: int, knowledge: Knowledge, rng: np.random.Generator
    ) -> tuple[Suggestion, ...]:
        """Propose ``n`` configurations along the Pareto front, each with its own weight."""
        require_count(n)
        if not knowledge.observations:
            return self.base.suggest(n, knowledge, rng)
        suggestions: list[Suggestion] = []
        while len(suggestions) < n:
            weight = int(rng.integers(DIVISIONS + 1)) / DIVISIONS
            pending = knowledge.pending.union(s.configuration for s in suggestions)
            weighted_knowledge = replace(
                knowledge,
                observations=scalarised_observations(knowledge.observations, weight),
                pending=pending,
            )
            proposals = self.base.suggest(1, weighted_knowledge, rng)
            if not proposals:
                break
            suggestions.append(self._weighed(proposals[0], weight, knowledge))
        return tuple(suggestions)

    def _weighed(self, suggestion: Suggestion, weight: float, knowledge: Knowledge) -> Suggestion:
        """Add the weights to the reason, and predict the first measure."""
        first, second = self.labels
        expected = knowledge.model.expected(suggestion.configuration)
        reason = suggestion.reason
        if suggestion.kind != "initial":  # first runs follow a design, whatever the weights
            reason = f"By {weight:g} {first} to {1 - weight:g} {second}: {reason}"
        return replace(
            suggestion,
            reason=reason,
            expected=expected.value if expected else None,
            interval=None,
            chance=None,  # the base's chance is of the weighted cost
        )


def scalarised_observations(
    observations: Sequence[Observation], weight: float
) -> tuple[Observation, ...]:
    """Return the observations with both qualities combined into one by a weight.

    ``weight`` is that of the first quality, from 0 to 1; the second has the rest.
    Raises `ObservationError` if a second quality is unknown.
    """
    pairs = np.array(
        [(observation.quality, _second(observation)) for observation in observations],
        dtype=np.float64,
    )
    feasible = np.array([observation.feasible for observation in observations])
    compared = pairs[feasible] if feasible.any() else pairs
    best, spread = compared.max(axis=0), np.ptp(compared, axis=0)
    # costs of infeasible runs may lie outside 0 to 1, and are not used beside feasible ones
    costs = np.clip((best - pairs) / np.where(spread > 0, spread, 1.0), 0.0, 1.0)
    weighted = costs * np.array([weight, 1 - weight])
    chebyshev = weighted.max(axis=1) + RHO * weighted.sum(axis=1)
    return tuple(
        replace(observation, quality=-float(cost), second=None)
        for observation, cost in zip(observations, chebyshev, strict=True)
    )


def _second(observation: Observation) -> float:
    if observation.second is None:
        raise ObservationError(
            "an observation has no second quality; with two measures every run must give both."
        )
    return observation.second
