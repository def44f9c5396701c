"""Kaplan and Meier's estimate in all the forms that Bergsma et al. compare, and Survival-MSE.

Section 5.3 and Table 4: jobs that had not ended (censored) are ignored, or taken to have ended when
they were seen last, or counted for as long as they were seen; time is cut into few bins, many, or
not at all; within a bin jobs end evenly spread (CDI, section 2.4) or all at its end (stepped).

Survival-MSE (Kvamme and Borgan, Lifetime Data Analysis 27, 2021) is the mean over the jobs that
ended, and over time up to a horizon, of the squared difference between the survival function
foreseen, S(t), and the true one, which is 1 until the job ends and 0 from there on.
"""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sim.errors import WorkloadError
from sim.model.batches import CloudTrace
from sim.model.bins import Bins
from sim.workloads.cloud.contexts import Ints

Floats = NDArray[np.float64]
Censoring = Literal["counted", "ignored", "ended"]
CENSORINGS: tuple[Censoring, ...] = ("counted", "ignored", "ended")


def with_censored(trace: CloudTrace, how: Censoring) -> CloudTrace:
    """Return a trace whose censored jobs are treated in another way.

    Args:
        trace: with lifetimes.
        how: ``counted`` leaves them as they are, ``ignored`` leaves them out, ``ended`` takes them
            to have ended in the bin in which they were seen last.

    Raises:
        WorkloadError: no job ended, and the others are ignored.
    """
    if how == "counted":
        return trace
    if how == "ended":
        return replace(trace, censored=np.zeros_like(trace.censored))
    kept = trace.censored == 0
    if not kept.any():
        raise WorkloadError("no job of this trace had ended; censored ones cannot be ignored.")
    columns = {name: getattr(trace, name)[kept] for name in ("period", "flavour", "lifetime")}
    batch = trace.batch[kept]
    return replace(
        trace,
        **columns,
        batch=np.cumsum(np.diff(batch, prepend=batch[0]) > 0),
        censored=np.zeros(int(kept.sum()), dtype=np.int64),
    )


def kaplan_meier(lifetime: Ints, censored: Ints, n_bins: int) -> Floats:
    """Return the hazards of bins as counted: float64 [n_bins], 0 where nobody was at risk.

    Args:
        lifetime: int64 [n], the bin in which each job ended or was seen last.
        censored: int64 [n], 1 for the latter: it was at risk in the bins before only.
        n_bins: of lifetimes.
    """
    ended = np.bincount(lifetime[censored == 0], minlength=n_bins)
    last_seen = np.bincount(lifetime[censored == 1], minlength=n_bins)
    at_risk = np.cumsum((ended + last_seen)[::-1])[::-1] - last_seen
    return ended / np.maximum(at_risk, 1)


@dataclass(frozen=True, eq=False)
class Survival:
    """Survival functions over continuous time, linear within each bin.

    Attributes:
        edges_s: float64 [n_bins + 1], where each bin begins and the last one ends, rising.
        begins: float64 [n, n_bins], S at the begin of each bin.
        ends: float64 [n, n_bins], S just before its end.
    """

    edges_s: Floats
    begins: Floats
    ends: Floats

    def mse(self, lived_s: Floats, row: Ints) -> float:
        """Return the Survival-MSE of some jobs, up to the end of the last bin.

        Args:
            lived_s: float64 [n_jobs], how long each lived; above the horizon counts as the horizon.
            row: int64 [n_jobs], its survival function.
        """
        edges = self.edges_s
        width = np.diff(edges)
        missed = _squares(1.0 - self.begins, 1.0 - self.ends, width)
        wrong = _squares(self.begins, self.ends, width)
        none = np.zeros((len(missed), 1))
        missed_until = np.concatenate([none, np.cumsum(missed, axis=1)], axis=1)
        wrong_until = np.concatenate([none, np.cumsum(wrong, axis=1)], axis=1)
        lived_s = np.minimum(lived_s, edges[-1])
        k = np.clip(np.searchsorted(edges, lived_s, side="left") - 1, 0, len(width) - 1)
        inside = lived_s - edges[k]
        begin, end = self.begins[row, k], self.ends[row, k]
        share = np.divide(inside, width[k], out=np.zeros_like(inside), where=width[k] > 0)
        there = begin + (end - begin) * share
        before = missed_until[row, k] + _squares(1.0 - begin, 1.0 - there, inside)
        after = wrong_until[row, -1] - wrong_until[row, k] - _squares(begin, there, inside)
        return float((before + after).mean() / edges[-1])


def _squares(begin: Floats, end: Floats, width: Floats) -> Floats:
    """Return the integral of the square of a straight line over a width."""
    found: Floats = width * (begin**2 + begin * end + end**2) / 3.0
    return found


def survival_of(hazard: Floats, bins: Bins, *, stepped: bool) -> Survival:
    """Return survival functions over continuous time.

    Args:
        hazard: float64 [n, n_bins]; what is left after the last bin ends with it.
        bins: of lifetimes.
        stepped: all that end in a bin end at its end; otherwise they are spread evenly.
    """
    after = np.cumprod(1.0 - hazard, axis=1).astype(np.float64)
    begins = np.concatenate([np.ones_like(after[:, :1]), after[:, :-1]], axis=1)
    after[:, -1] = 0.0
    return Survival(bins.edges_s, begins, begins if stepped else after)


def survival_mse(
    hazard: Floats, row: Ints, bins: Bins, lived_s: Floats, *, stepped: bool, at_once: int = 100_000
) -> float:
    """Return the Survival-MSE of hazards, some jobs at a time.

    Args:
        hazard: float64 [n, n_bins].
        row: int64 [n_jobs], whose hazards each job has.
        bins: of lifetimes.
        lived_s: float64 [n_jobs], how long each lived.
        stepped: see `survival_of`.
        at_once: jobs whose curves are held in memory.
    """
    total = 0.0
    for begin in range(0, len(row), at_once):
        some, own = np.unique(row[begin : begin + at_once], return_inverse=True)
        curves = survival_of(hazard[some], bins, stepped=stepped)
        lived = lived_s[begin : begin + at_once]
        total += curves.mse(lived, own) * len(lived)
    return total / len(row)


def exact_bins(lived_s: Floats, censored: Ints, longest_s: float) -> Bins:
    """Return bins that end where a job ended, by which Kaplan and Meier's estimate is continuous.

    Args:
        lived_s: float64 [n].
        censored: int64 [n].
        longest_s: the horizon.

    Raises:
        WorkloadError: no job ended before the horizon.
    """
    times_s = np.unique(lived_s[(censored == 0) & (lived_s > 0)])
    return Bins(tuple(times_s[times_s < longest_s].tolist()), longest_s)
