"""Moldable jobs: jobs that may start on fewer processors than they request, and run longer there.

The run time on n processors is that on the requested ones times S(requested) / S(n), and so is the
estimate. S is the speedup of A. B. Downey, A model for speedup of parallel programs, report
UCB/CSD-97-933, 1997. A log has no run times on other processors, so the average parallelism A and
its variance are assumptions.

The size is chosen when a job is first in the queue and does not fit: it starts at once on fewer
processors if it ends earlier there, by the estimates, than if it waited for its reservation. Cirne
and Berman choose by the earliest end, too, but at submission (Using moldability to improve the
performance of supercomputer jobs, JPDC 62(10), 2002). When and how to choose is the subject of S.
Srinivasan, S. Krishnamoorthy, P. Sadayappan, A robust scheduling strategy for moldable scheduling
of parallel jobs, Cluster 2003.
"""

from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sim.model.errors import ScenarioError

Floats = NDArray[np.float64]

MOST_HALVINGS = 20
MOST_PARALLELISM = 1e6
MOST_VARIANCE = 1e3


def speedup(n: ArrayLike, parallelism: ArrayLike, cv2: ArrayLike) -> Floats:
    """Return the speedup on n processors by Downey's model (1997), with broadcasting.

    Args:
        n: processors, from 1.
        parallelism: average parallelism A, from 1; the speedup never exceeds it.
        cv2: variance of parallelism (sigma), from 0. Up to 1 the parallelism is A most of the
            time; above, it has a tail.
    """
    n, a, c = np.broadcast_arrays(*(np.asarray(x, dtype=np.float64) for x in (n, parallelism, cv2)))
    below = a * n / (a + c / 2 * (n - 1))
    with np.errstate(divide="ignore", invalid="ignore"):
        beyond = a * n / (c * (a - 0.5) + n * (1 - c / 2))
    low = np.where(n <= a, below, np.where(n <= 2 * a - 1, beyond, a))
    tail = n * a * (c + 1) / (c * (n + a - 1) + a)
    high = np.where(n <= a + a * c - c, tail, a)
    values: Floats = np.where(c <= 1, low, high)
    return values


@dataclass(frozen=True)
class Moldability:
    """How far jobs may start on fewer processors than they request, and how their speedup falls.

    Attributes:
        halvings: how often the requested processors may be halved, each time rounded up; 0 is
            never, as if jobs were rigid.
        parallelism: average parallelism A of a job per requested processor. Where A is at most 1,
            no processor beyond the first makes a job faster.
        variance: variance of parallelism (sigma). 0 is a linear speedup up to A.
    """

    halvings: int
    parallelism: float = 1.0
    variance: float = 1.0

    def __post_init__(self) -> None:
        if type(self.halvings) is not int or not 0 <= self.halvings <= MOST_HALVINGS:
            raise ScenarioError(
                f"moldable jobs: halvings is {self.halvings!r}; allowed are whole numbers from 0 "
                f"to {MOST_HALVINGS}."
            )
        if not 0.0 < self.parallelism <= MOST_PARALLELISM:
            raise ScenarioError(
                f"moldable jobs: parallelism is {self.parallelism!r}; allowed are numbers above 0 "
                f"to {MOST_PARALLELISM:g}."
            )
        if not 0.0 <= self.variance <= MOST_VARIANCE:
            raise ScenarioError(
                f"moldable jobs: variance is {self.variance!r}; allowed are numbers from 0 to "
                f"{MOST_VARIANCE:g}."
            )

    def values(self) -> dict[str, float]:
        """Return the settings by name, as plain values for a digest."""
        return asdict(self)

    def smaller_procs(self, procs: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the processors after 1, 2, ... halvings of each request: int64 [n, halvings]."""
        halved = np.empty((len(procs), self.halvings), dtype=np.int64)
        for i in range(self.halvings):
            halved[:, i] = procs = (procs + 1) // 2
        return halved

    def stretch(
        self, requested: NDArray[np.int64] | np.int64, procs: NDArray[np.int64] | np.int64
    ) -> Floats:
        """Return run times on `procs` as multiples of those on the requested ones.

        Both are int64 and broadcast against each other.
        """
        parallelism = self.parallelism * requested
        ratio: Floats = speedup(requested, parallelism, self.variance) / speedup(
            procs, parallelism, self.variance
        )
        return ratio
