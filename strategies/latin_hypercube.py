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
        # in a fixed order: sums of floats over a set would depend on its hashes
        run = sorted(taken)
        compared = n <= COMPARED and _free_share(knowledge) >= ROOM
        n_designs = DESIGNS if compared else 1
        designs = [balanced_design(space, n, rng, taken, run) for _ in range(n_designs)]
        best = max(designs, key=lambda design: self._merit(space, design, run))
        aim = (
            "far from the other runs" if self.criterion == "maximin" else "parameters uncorrelated"
        )
        for number, configuration in enumerate(best, start=1):
            reason = (
                f"Point {number} of {len(best)} of a Latin hypercube that evens out how often "
                f"each level is run, {aim}."
            )
            batch.add(configuration, "design", reason)
        return batch.suggestions

    def _merit(
        self,
        space: ParameterSpace,
        design: Sequence[Configuration],
        run: Sequence[Configuration],
    ) -> tuple[float, float]:
        merits = (least_distance(space, design, run), -greatest_correlation(space, design, run))
        return merits if self.criterion == "maximin" else (merits[1], merits[0])


def _free_share(knowledge: Knowledge) -> float:
    space = knowledge.space
    n_allowed = space.count_allowed()
    n_at_most = space.open_size if n_allowed is None else n_allowed
    return (n_at_most - len(knowledge.taken)) / space.open_size


def least_distance(
    space: ParameterSpace, design: Sequence[Configuration], run: Sequence[Configuration] = ()
) -> float:
    """Return the least distance from a point of the design to another one, or to a run.

    Euclidean, of the coordinates in [0, 1]; infinity if there is nothing to be compared with.
    """
    points = space.coordinates([*design, *run])
    if len(points) < 2 or not design:
        return float("inf")
    found = cKDTree(points).query(points[: len(design)], k=2)
    distances: NDArray[np.float64] = np.asarray(found[0], dtype=np.float64)
    # rounded, or equal distances would differ by how they were summed
    return float(np.round(distances[:, 1].min(), 12))


def greatest_correlation(
    space: ParameterSpace, design: Sequence[Configuration], run: Sequence[Configuration] = ()
) -> float:
    """Return the greatest absolute rank correlation between two ordinal parameters.

    0 if fewer than two ordinal parameters vary.
    """
    ranks = _ranks(space, [*design, *run])
    varying = ranks[:, ranks.min(axis=0) < ranks.max(axis=0)] if len(ranks) else ranks
    if varying.shape[1] < 2:
        return 0.0
    correlations: NDArray[np.float64] = np.asarray(np.corrcoef(varying, rowvar=False))
    np.fill_diagonal(correlations, 0.0)
    return float(np.round(np.abs(correlations).max(), 12))


def _ranks(space: ParameterSpace, configurations: Sequence[Configuration]) -> NDArray[np.float64]:
    """Return ranks of the ordinal parameters, float64 [n, ordinal parameters]."""
    ordinal = [i for i, p in enumerate(space.parameters) if p.kind == "ordinal"]
    rows = [[space.parameters[i].ranks[c.level_ids[i]] for i in ordinal] for c in configurations]
    return np.array(rows, dtype=np.float64).reshape(len(rows), len(ordinal))
