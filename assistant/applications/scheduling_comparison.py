"""Waits by class of jobs, and beside those of the current configuration.

A policy that shortens the mean wait may do so at the expense of some jobs. Jobs are therefore
classed twice, by width and by requested time, and the mean wait of every class is compared with
that under the current configuration. The jobs of a log that come after those of the runs check a
configuration: their waits are compared with a paired bootstrap over consecutive blocks of jobs
(Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapters 8 and 13).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from sim.api import Scenario, SimulationResult

Waits = NDArray[np.float64]

WIDTH_CLASSES = ("narrow_jobs", "medium_jobs", "wide_jobs")
"""At most 1/64 of the processors, at most 1/8, and more."""

REQUEST_CLASSES = ("short_jobs", "middle_jobs", "long_jobs")
"""Requested at most one hour, at most six hours, and more."""

OF_CLASSES = tuple(f"{name}_mean_wait_s" for name in (*WIDTH_CLASSES, *REQUEST_CLASSES))

WORK_WEIGHTED = "work_weighted_wait_s"
CLASS_RATIO, LONGEST_RATIO = "class_wait_ratio", "longest_wait_ratio"
LATER_MEAN, LATER_RATIO = "later_mean_wait_s", "later_wait_ratio"
LATER_LOW, LATER_HIGH = "later_wait_ratio_low", "later_wait_ratio_high"
LATER_CLASS, LATER_LONGEST = f"later_{CLASS_RATIO}", f"later_{LONGEST_RATIO}"

COMPARED = (*OF_CLASSES, WORK_WEIGHTED, CLASS_RATIO, LONGEST_RATIO)
"""Measures of every run."""

LATER = (LATER_MEAN, LATER_RATIO, LATER_LOW, LATER_HIGH, LATER_CLASS, LATER_LONGEST)
"""Measures of the later jobs, where runs simulate only the first part of a log."""

SLACK_S = 300.0
"""A mean or longest wait may grow by this without counting as worse."""

_HOUR_S = 3_600.0
_LEAST_WAIT_S = 1.0  # A ratio to a shorter wait would say nothing
_BLOCKS, _DRAWS = 10, 2_000


def _weights() -> NDArray[np.float64]:
    """Return how often each block is drawn in each of the bootstrap samples."""
    draws = np.random.default_rng(0).integers(0, _BLOCKS, (_DRAWS, _BLOCKS))
    weights: Waits = (draws[:, :, None] == np.arange(_BLOCKS)).sum(axis=1).astype(np.float64)
    return weights


_WEIGHTS = _weights()


@dataclass(frozen=True)
class WaitProfile:
    """The waits of some consecutive jobs of a schedule.

    Args:
        by_class: mean wait of each class that has jobs, in seconds, by the name of its measure.
        mean_s, longest_s: of all jobs, in seconds.
        work_weighted_s: mean wait weighted by processors times run time, in seconds.
        block_sums_s, block_sizes: sum of the waits and number of jobs of each of ten blocks.
    """

    by_class: dict[str, float]
    mean_s: float
    longest_s: float
    work_weighted_s: float
    block_sums_s: Waits
    block_sizes: Waits

    @classmethod
    def of(cls, scenario: Scenario, result: SimulationResult, first: int = 0) -> Self | None:
        """Return the waits of the jobs from row ``first`` on that ran, or None if none did."""
        jobs = scenario.workload
        wait_s = (result.start_s - result.submissions_s(jobs))[first:]
        ran = ~np.isnan(wait_s)
        if not ran.any():
            return None
        wait_s = wait_s[ran]
        procs, requested_s = jobs.procs[first:][ran], jobs.requested_s[first:][ran]
        width = np.digitize(64 * procs / scenario.cluster.total_procs, (1, 8), right=True)
        request = np.digitize(requested_s, (_HOUR_S, 6 * _HOUR_S), right=True)
        work = procs * jobs.runtime_s[first:][ran]
        blocks = np.arange(len(wait_s)) * _BLOCKS // len(wait_s)
        total_work = float(work.sum())
        return cls(
            {
                name: mean_s
                for names, classes in ((OF_CLASSES[:3], width), (OF_CLASSES[3:], request))
                for name, mean_s in _means(names, classes, wait_s)
            },
            float(wait_s.mean()),
            float(wait_s.max()),
            float((work * wait_s).sum()) / total_work if total_work else 0.0,
            np.bincount(blocks, wait_s, _BLOCKS).astype(np.float64),
            np.bincount(blocks, minlength=_BLOCKS).astype(np.float64),
        )

    def ratio_to(self, current: Self) -> float | None:
        """Return the mean wait as a share of the current one; None if that is below a second."""
        return self.mean_s / current.mean_s if current.mean_s >= _LEAST_WAIT_S else None

    def ratio_interval_to(self, current: Self) -> tuple[float, float] | None:
        """Return the 95 % interval of `ratio_to`, or None where there are too few jobs.

        The blocks of both schedules are drawn together, so that what is common to both cancels.
        """
        if self.block_sizes.min() < 1 or current.mean_s < _LEAST_WAIT_S:
            return None
        mine, others = _WEIGHTS @ self.block_sums_s, _WEIGHTS @ current.block_sums_s
        ratios = mine[others > 0] / others[others > 0]
        if len(ratios) < _DRAWS // 2:
            return None
        low, high = np.quantile(ratios, (0.025, 0.975))
        return float(low), float(high)

    def class_ratio_to(self, current: Self) -> float:
        """Return the largest ratio, over the classes, of the mean wait to the current one."""
        return max(
            _ratio(wait_s, current.by_class.get(name, wait_s))
            for name, wait_s in self.by_class.items()
        )

    def longest_ratio_to(self, current: Self) -> float:
        """Return the ratio of the longest wait to the current one."""
        return _ratio(self.longest_s, current.longest_s)


def compared(mine: WaitProfile | None, current: WaitProfile | None) -> dict[str, float | None]:
    """Return the measures `COMPARED` of one schedule; None where there are no jobs."""
    if mine is None or current is None:
        return dict.fromkeys(COMPARED)
    return {
        **dict.fromkeys(OF_CLASSES),
        **mine.by_class,
        WORK_WEIGHTED: mine.work_weighted_s,
        CLASS_RATIO: mine.class_ratio_to(current),
        LONGEST_RATIO: mine.longest_ratio_to(current),
    }


def compared_later(
    mine: WaitProfile | None, current: WaitProfile | None
) -> dict[str, float | None]:
    """Return the measures `LATER` of the later jobs; None where there are none."""
    if mine is None or current is None:
        return dict.fromkeys(LATER)
    low, high = mine.ratio_interval_to(current) or (None, None)
    return {
        LATER_MEAN: mine.mean_s,
        LATER_RATIO: mine.ratio_to(current),
        LATER_LOW: low,
        LATER_HIGH: high,
        LATER_CLASS: mine.class_ratio_to(current),
        LATER_LONGEST: mine.longest_ratio_to(current),
    }


def _ratio(wait_s: float, current_s: float) -> float:
    """Return a wait, less the slack, as a share of the current one.

    It is at most r exactly if the wait is at most r times the current one and the slack.
    """
    return max(0.0, wait_s - SLACK_S) / max(current_s, _LEAST_WAIT_S)


def _means(
    names: Sequence[str], classes: NDArray[np.intp], wait_s: Waits
) -> Iterator[tuple[str, float]]:
    sums, counts = np.bincount(classes, wait_s, 3), np.bincount(classes, minlength=3)
    for name, total_s, n in zip(names, sums, counts, strict=True):
        if n:
            yield name, float(total_s / n)
