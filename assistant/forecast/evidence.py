"""What a forecast looks at: how many runs are over, how large the space is, what the best gave."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean, median

LEAST_RUNS = 12
LEAST_RESULTS = 8
"""Below either nothing is said: the top results do not show a size of step yet."""

N_STEPS = 3
"""Results next to the best whose mean distance from it is the size of a step."""

LEAST_STEP = 0.02
"""A step is at least this share of the spread, where the top results are equal."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known of an experiment at one moment.

    Args:
        used: runs that are over, failed ones too.
        size: combinations of levels of the whole grid.
        losses: of distinct configurations with a feasible result, ascending; less is better.
    """

    used: int
    size: int
    losses: tuple[float, ...]

    @classmethod
    def of(cls, used: int, size: int, losses: Iterable[float]) -> Evidence:
        """Return the evidence of losses in any order, one for each distinct configuration."""
        return cls(used, size, tuple(sorted(losses)))

    @property
    def step(self) -> float:
        """The mean distance of the three results next to the best one; 0 if all are equal.

        At least 2 % of the spread, which is median - best, or a tenth of the range if that is 0.
        Raises `ValueError` with fewer than two results.
        """
        if len(self.losses) < 2:
            raise ValueError("a step needs two results")
        best = self.losses[0]
        spread = median(self.losses) - best
        if spread <= 0:
            spread = 0.1 * (self.losses[-1] - best)
        return max(fmean(self.losses[1 : 1 + N_STEPS]) - best, LEAST_STEP * spread)

    def steps_to(self, goal: float) -> float:
        """Return how many steps the goal (a loss) lies beyond the best; 0 or less if reached.

        Infinite where all results are equal: nothing shows how far a step goes.
        """
        away = self.losses[0] - goal
        if away <= 0:
            return away
        return away / self.step if self.step > 0 else math.inf

    @property
    def silence(self) -> str:
        """Say why it is too little for a forecast; empty if it is enough."""
        if self.used < LEAST_RUNS:
            return f"{_runs(self.used)} over, and a forecast needs {LEAST_RUNS}"
        if len(self.losses) < LEAST_RESULTS:
            n = len(self.losses)
            told = "1 configuration has" if n == 1 else f"{n} configurations have"
            return (
                f"{told} a result that meets every constraint, and a forecast needs {LEAST_RESULTS}"
            )
        if self.step <= 0:
            return "all results are equal, so that nothing shows how far a change goes"
        return ""


def _runs(n: int) -> str:
    return "1 run is" if n == 1 else f"{n} runs are"
