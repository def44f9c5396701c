"""What a forecast looks at: how many runs are over, how large the space is, what they gave."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

from strategies import Reach

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
        size: combinations of the levels that are open.
        losses: of distinct configurations with a feasible result, ascending; less is better.
        stale: share of the runs that came after the last improvement, 0 to 1, its own run counted.
        reach: what the model expects of the untried configurations; None if it cannot say.
    """

    used: int
    size: int
    losses: tuple[float, ...]
    stale: float
    reach: Reach | None

    @property
    def spread(self) -> float:
        """Median - best, or a tenth of the range where that is 0. Raises without a result."""
        best = self.losses[0]
        return (median(self.losses) - best) or 0.1 * (self.losses[-1] - best)

    @property
    def floor(self) -> float:
        """The least loss that is told: 0 where no result is below, as of times and errors."""
        return 0.0 if self.losses[0] >= 0 else -math.inf

    @property
    def tail(self) -> float:
        """How long the tail of bad results is: ln(0.01 + (worst - median) / spread).

        Where bad results are far worse than the usual one the good ones are many and alike.
        Raises `ValueError` if all results are equal.
        """
        if self.spread <= 0:
            raise ValueError("equal results have no tail")
        return math.log(0.01 + (self.losses[-1] - median(self.losses)) / self.spread)

    @property
    def step(self) -> float:
        """The mean distance of the three results next to the best one; 0 if all are equal.

        At least 2 % of the spread, which is median - best, or a tenth of the range if that is 0.
        Raises `ValueError` with fewer than two results.
        """
        if len(self.losses) < 2:
            raise ValueError("a step needs two results")
        away = fmean(self.losses[1 : 1 + N_STEPS]) - self.losses[0]
        return max(away, LEAST_STEP * self.spread)

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
        if self.reach is None:
            return "nothing is left to try"
        return ""


def _runs(n: int) -> str:
    return "1 run is" if n == 1 else f"{n} runs are"


def stale_share(losses: Sequence[float | None]) -> float:
    """Return the share of the runs since the last improvement, that run counted.

    Args:
        losses: of the runs in order of completion, None of one without a feasible result.

    >>> stale_share([5.0, None, 4.0, 4.5]), stale_share([])
    (0.5, 1.0)
    """
    last, best = 0, math.inf
    for i, loss in enumerate(losses):
        if loss is not None and loss < best:
            last, best = i, loss
    return (len(losses) - last) / len(losses) if losses else 1.0
