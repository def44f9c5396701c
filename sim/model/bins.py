"""Bins of lifetimes: where they end, which one a lifetime falls into, and the way back."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from sim.errors import WorkloadError

MINUTE_S, HOUR_S, DAY_S = 60.0, 3600.0, 86_400.0


@dataclass(frozen=True)
class Bins:
    """Consecutive bins of lifetimes; bin k holds what is above the end of bin k - 1, up to its own.

    Attributes:
        ends_s: where each but the last ends, in seconds, rising; the last has no end.
        longest_s: up to which lifetimes of the last bin are drawn.
    """

    ends_s: tuple[float, ...]
    longest_s: float

    def __post_init__(self) -> None:
        ends = (*self.ends_s, self.longest_s)
        rising = all(low < high for low, high in pairwise(ends))
        if not self.ends_s or self.ends_s[0] < 0 or not rising:
            raise WorkloadError("the ends of bins of lifetimes rise, from 0 s or later.")

    @property
    def n(self) -> int:
        """How many bins there are."""
        return len(self.ends_s) + 1

    def of(self, lifetime_s: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the bin of each lifetime: int64 [n]."""
        return np.searchsorted(np.array(self.ends_s), lifetime_s, side="left").astype(np.int64)

    @property
    def edges_s(self) -> NDArray[np.float64]:
        """Where each bin begins, and where the last one is taken to end: float64 [n + 1]."""
        return np.array([0.0, *self.ends_s, self.longest_s])

    def seconds(self, bins: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.float64]:
        """Draw a lifetime within each bin, evenly (the paper's CDI, section 2.4): float64 [n]."""
        edges = self.edges_s
        drawn: NDArray[np.float64] = (
            edges[bins] + (1.0 - rng.random(len(bins))) * np.diff(edges)[bins]
        )
        return drawn


PAPER = Bins(
    (
        *(300.0 * k for k in range(13)),
        *(HOUR_S * k for k in range(2, 25)),
        *(DAY_S * k for k in range(2, 11)),
        20 * DAY_S,
    ),
    30 * DAY_S,
)
"""The 47 bins of section 2.3.1, as the authors' published map has them: every 5 minutes up to an
hour (the first holds lifetimes of 0), every hour up to a day (the text says 10 hours), every day up
to 10 days, 10 to 20 days, longer."""
