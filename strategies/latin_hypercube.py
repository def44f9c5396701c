"""Latin hypercube sampling on a grid: balanced levels, spread out or uncorrelated.

McKay, Beckman and Conover's sample takes one value from each of n equal strata of every variable
and pairs them at random. Here the strata are levels, or groups of neighbouring ones where there
are more levels than points (`strategies.balanced`). A batch goes on where the runs before it
stopped: it takes the levels that have been used least.

Pairing at random may be unlucky, so the best of `DESIGNS` pairings is taken: by the least distance
between two runs (Morris & Mitchell 1995) or by the greatest correlation between two parameters
(Iman & Conover 1982), counting the runs there are. The two settle ties of each other.

References: McKay, Beckman & Conover 1979, A comparison of three methods for selecting values of
input variables in the analysis of output from a computer code; Morris & Mitchell 1995, Exploratory
designs for computational experiments; Iman & Conover 1982, A distribution-free approach to
inducing rank correlation among input variables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from strategies.balanced import balanced_design
from strategies.base import Suggestion
from strategies.batch import Batch
from strategies.configuration import Configuration
from strategies.errors import OptionError
from strategies.knowledge import Knowledge
from strategies.space import ParameterSpace

Criterion: TypeAlias = Literal["maximin", "correlation"]
CRITERIA: tuple[Criterion, ...] = get_args(Criterion)

DESIGNS = 20
"""Balanced designs of which the best is taken."""

COMPARED = 200
"""Largest batch for which designs are compared; beyond, pairing at random is even enough."""

ROOM = 0.1
"""Share of the combinations that must be free for it; below, there is little to choose from."""


@dataclass(frozen=True, slots=True)
class LatinHypercube:
    """Propose configurations whose levels are balanced with those run so far.

    Args:
        criterion: what makes a design the better one: ``maximin`` or ``correlation``.
    Raises `OptionError` for another criterion.
    """

    criterion: Criterion = "maximin"

    def __post_init__(self) -> None:
        if self.criterion not in CRITERIA:
            raise OptionError(
                f"latin_hypercube has criterion={self.criterion!r}; allowed are "
                f"{', '.join(CRITERIA)}."
            )

    @property
    def name(self) -> str:
        """Name under which it is registered."""
        return "latin_hypercube"

    def suggest(
        self, n: int, knowledge: Knowledge, rng: np.random.Generator
    ) -> tuple[Suggestion, ...]:
        """Propose ``n`` configurations; see `Strategy.suggest`."""
        batch = Batch(self.name, n, knowledge, rng)
        space, taken = knowledge.space, knowledge.taken
        compared = n <= COMPARED and _free_share(knowledge) >= ROOM
        merit = _Merit(space, self.criterion, sorted(taken))
        designs = [
            balanced_design(space, n, rng, taken, taken) for _ in range(DESIGNS if compared else 1)
        ]
        best = max(designs, key=merit.of) if compared else designs[0]
        chosen = ""
        if compared:
            most = "farthest apart" if self.criterion == "maximin" else "least correlated"
            chosen = f", the {most} of {DESIGNS} pairings"
        for number, configuration in enumerate(best, start=1):
            reason = (
                f"Point {number} of {len(best)} of a Latin hypercube that evens out how often "
                f"each level is run{chosen}."
            )
            batch.add(configuration, "design", reason)
        return batch.suggestions


def _free_share(knowledge: Knowledge) -> float:
    space = knowledge.space
    n_allowed = space.count_allowed()
    n_at_most = space.open_size if n_allowed is None else n_allowed
    return (n_at_most - len(knowledge.taken)) / space.open_size


class _Merit:
    """How good designs are beside the runs there are."""

    def __init__(
        self, space: ParameterSpace, criterion: Criterion, run: Sequence[Configuration]
    ) -> None:
        self._space = space
        self._criterion = criterion
        self._coordinates = space.coordinates(run)
        self._ranks = _ranks(space, run)

    def of(self, design: Sequence[Configuration]) -> tuple[float, float]:
        """Return the criterion, greater is better, and then the other one."""
        distance = least_distance(self._space.coordinates(design), self._coordinates)
        ranks = np.concatenate([_ranks(self._space, design), self._ranks])
        apart = -greatest_correlation(ranks)
        return (distance, apart) if self._criterion == "maximin" else (apart, distance)


def least_distance(points: NDArray[np.float64], others: NDArray[np.float64]) -> float:
    """Return the least Euclidean distance from a point to another one or to one of the others.

    Args:
        points: float64 [n, d].
        others: float64 [m, d].
    Infinity if there is nothing to be compared with.
    """
    everything = np.concatenate([points, others])
    if len(everything) < 2 or not len(points):
        return float("inf")
    found = cKDTree(everything).query(points, k=2)
    distances: NDArray[np.float64] = np.asarray(found[0], dtype=np.float64)
    # rounded, or equal distances would differ by how they were summed
    return float(np.round(distances[:, 1].min(), 12))


def greatest_correlation(ranks: NDArray[np.float64]) -> float:
    """Return the greatest absolute correlation between two columns of float64 [n, d].

    0 if fewer than two columns vary.
    """
    varying = ranks[:, np.ptp(ranks, axis=0) > 0] if len(ranks) else ranks
    if not len(ranks) or varying.shape[1] < 2:
        return 0.0
    correlations: NDArray[np.float64] = np.asarray(np.corrcoef(varying, rowvar=False))
    np.fill_diagonal(correlations, 0.0)
    return float(np.round(np.abs(correlations).max(), 12))


def _ranks(space: ParameterSpace, configurations: Sequence[Configuration]) -> NDArray[np.float64]:
    """Return ranks of the ordinal parameters, float64 [n, ordinal parameters]."""
    ordinal = [i for i, p in enumerate(space.parameters) if p.kind == "ordinal"]
    rows = [[space.parameters[i].ranks[c.level_ids[i]] for i in ordinal] for c in configurations]
    return np.array(rows, dtype=np.float64).reshape(len(rows), len(ordinal))
