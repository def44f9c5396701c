"""Bounded sample of ended runs: what models are fitted to where an experiment has very many runs.

Up to `LEARNT_RUNS` ended runs are all used, unchanged. Of more than that a sample is used, which
depends on the runs alone. It always holds, in this order:

1. the failures in their share of all ended runs, evenly spread over the time, the newest included;
2. the runs of the current configuration;
3. the best configurations (a tenth of the sample), by feasibility and mean quality;
4. the newest configurations (a tenth);
5. others, evenly spread over the time.

A configuration comes with its replicates, at most the newest `MOST_REPLICATES`, so that means and
noise stay what they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from strategies.data.observation import Failure, Observation
from strategies.space.parameter_space import Configuration

LEARNT_RUNS = 5_000  # Most ended runs that models are fitted to
SHARE = 10  # One part in so many is for the best configurations, and one for the newest
MOST_REPLICATES = 20  # Most runs of one configuration, the newest

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class LearningSample:
    """Ended runs that models are fitted to, and what is left out of them.

    Args:
        observations: completed runs, in the order in which they were given.
        failures: failed runs, likewise.
        left_out: configurations of ended runs of which no run is in the sample.
        n_left_out: number of ended runs that are not in the sample.
    """

    observations: tuple[Observation, ...]
    failures: tuple[Failure, ...]
    left_out: frozenset[Configuration] = frozenset()
    n_left_out: int = 0

    @classmethod
    def of(
        cls,
        observations: Sequence[Observation],
        failures: Sequence[Failure] = (),
        always: Iterable[Configuration] = (),
        most: int = LEARNT_RUNS,
    ) -> LearningSample:
        """Return the sample of at most ``most`` ended runs; all of them if they are no more.

        ``always`` are configurations that it holds if they have a completed run.
        """
        n = len(observations) + len(failures)
        if n <= most:
            return cls(tuple(observations), tuple(failures))
        failed = _spread(len(failures), -(-most * len(failures) // n))
        taken_failures = tuple(failures[i] for i in failed)
        positions = sample_positions(observations, most - len(failed), always=always)
        taken = tuple(observations[i] for i in positions)
        inside = {o.configuration for o in taken} | {f.configuration for f in taken_failures}
        ended = {o.configuration for o in observations} | {f.configuration for f in failures}
        return cls(
            taken, taken_failures, frozenset(ended - inside), n - len(taken) - len(taken_failures)
        )


def sample_positions(
    observations: Sequence[Observation],
    most: int,
    *,
    n_best: int | None = None,
    always: Iterable[Configuration] = (),
) -> Sequence[int]:
    """Return the positions of at most ``most`` observations to learn from, ascending.

    ``n_best`` is the number of runs for the best configurations, a tenth if None. An analysis of
    effects takes few of them, because a choice by the response would bias its estimates.
    """
    if len(observations) <= most:
        return range(len(observations))
    groups = _Groups(observations)
    groups.take(np.array([groups.numbers[c] for c in always if c in groups.numbers], int), most)
    groups.take(groups.by_rank, min(most // SHARE if n_best is None else n_best, groups.room(most)))
    groups.take(groups.by_age, min(max(most // SHARE, 1), groups.room(most)))
    groups.take_spread(groups.room(most))
    return groups.positions()


def _spread(n: int, k: int) -> list[int]:
    """Return up to k of the places 0 to n - 1, evenly spread, the last included."""
    if k >= n:
        return list(range(n))
    return [n - 1 - i * n // k for i in reversed(range(k))]


class _Groups:
    """Observations grouped by configuration, of which whole groups are taken."""

    def __init__(self, observations: Sequence[Observation]) -> None:
        self.numbers: dict[Configuration, int] = {}
        number_of = self.numbers
        self._group: Ints = np.array(
            [number_of.setdefault(o.configuration, len(number_of)) for o in observations],
            dtype=np.int64,
        )
        self._counts = np.bincount(self._group)
        self._sizes = np.minimum(self._counts, MOST_REPLICATES)
        self._taken = np.zeros(len(self._counts), dtype=np.bool_)
        quality = self._means([o.quality for o in observations])
        violation = self._means([o.violation for o in observations])
        self.by_rank: Ints = np.lexsort((-quality, violation))  # stable: the earlier on a tie
        last = np.zeros(len(self._counts), dtype=np.int64)
        np.maximum.at(last, self._group, np.arange(len(observations)))
        self.by_age: Ints = np.argsort(-last, kind="stable")

    def _means(self, values: Sequence[float]) -> NDArray[np.float64]:
        means: NDArray[np.float64] = (
            np.bincount(self._group, weights=np.array(values, dtype=np.float64)) / self._counts
        )
        return means

    def room(self, most: int) -> int:
        """Return how many more runs may be taken."""
        return most - int(self._sizes[self._taken].sum())

    def take(self, order: Ints, most: int) -> None:
        """Take the first groups of an order that have at most so many runs together."""
        free = order[~self._taken[order]]
        self._taken[free[np.cumsum(self._sizes[free]) <= most]] = True

    def take_spread(self, most: int) -> None:
        """Take at most so many runs of the groups that are left, evenly spread over the time."""
        free = np.flatnonzero(~self._taken)
        n_runs = int(self._sizes[free].sum())
        if n_runs:
            self.take(free[_spread(len(free), most * len(free) // n_runs)], most)

    def positions(self) -> list[int]:
        """Return the positions of the newest runs of each group that was taken."""
        order = np.argsort(self._group, kind="stable")
        group = self._group[order]
        starts = np.cumsum(self._counts) - self._counts
        from_end = self._counts[group] - (np.arange(len(order)) - starts[group])
        newest = order[self._taken[group] & (from_end <= MOST_REPLICATES)]
        return [int(i) for i in np.sort(newest)]
