"""How much results vary when nothing is changed: replicates and their pooled variance.

Replicates are runs of one configuration. Their spread is pure error: it owes nothing to any model
of the parameters.

Reference: Montgomery, Design and Analysis of Experiments, 8th ed., sections 6.8 and 11.4 (pure
error), 2.6 (interval of a variance).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scipy.special import chdtri, stdtrit

from strategies.configuration import Configuration
from strategies.observation import Observation

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Noise:
    """The pooled variance of replicates.

    Args:
        variance: sum of squared deviations within configurations over the degrees of freedom, in
            squared units of the quality.
        df: degrees of freedom, the number of replicates beyond the first of each configuration.
        interval: 95% chi-square interval of the variance, for normal errors of equal variance.
    """

    variance: float
    df: int
    interval: tuple[float, float]

    @property
    def sd(self) -> float:
        """Standard deviation of one run."""
        return math.sqrt(self.variance)

    def half_width(self, n: float) -> float:
        """Return half the 95% t interval of a mean of ``n`` runs; ``n`` may be a fraction.

        For the difference of two means of a and b runs it is that of n = 1 / (1/a + 1/b).
        """
        return float(stdtrit(self.df, 0.5 + CONFIDENCE / 2)) * math.sqrt(self.variance / n)


def replicates(
    observations: Iterable[Observation],
) -> dict[Configuration, tuple[Observation, ...]]:
    """Return the runs of each configuration, both in the order of their first occurrence."""
    runs: dict[Configuration, list[Observation]] = {}
    for observation in observations:
        runs.setdefault(observation.configuration, []).append(observation)
    return {configuration: tuple(own) for configuration, own in runs.items()}


def mean(numbers: Sequence[float]) -> float:
    """Return the mean of at least one number; of equal numbers it is exactly that number.

    >>> mean([0.1, 0.1, 0.1])
    0.1
    """
    first = numbers[0]
    return first + math.fsum(number - first for number in numbers) / len(numbers)


def mean_of(runs: Sequence[Observation]) -> Observation:
    """Return the runs of one configuration as one: mean qualities and violation.

    It is feasible if all of them are. Measures, duration and seed are of no single run, and empty.
    """
    violation = mean([run.violation for run in runs])
    seconds = [run.second for run in runs if run.second is not None]
    return Observation(
        runs[0].configuration,
        mean([run.quality for run in runs]),
        violation == 0,
        violation,
        second=mean(seconds) if len(seconds) == len(runs) else None,
    )


def estimate_noise(observations: Iterable[Observation]) -> Noise | None:
    """Return the noise of the qualities, None if no configuration was run twice."""
    squares, df = 0.0, 0
    for own in replicates(observations).values():
        centre = mean([run.quality for run in own])
        squares += math.fsum((run.quality - centre) ** 2 for run in own)
        df += len(own) - 1
    if df == 0:
        return None
    tail = (1 - CONFIDENCE) / 2
    low, high = squares / float(chdtri(df, tail)), squares / float(chdtri(df, 1 - tail))
    return Noise(squares / df, df, (low, high))
