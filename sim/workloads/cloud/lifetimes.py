"""How long jobs live: hazards over bins, pooled (Kaplan-Meier) or by context.

Bergsma et al., section 2.3. The hazard of a bin is the probability that a job that lived up to it
ends in it. A job that ended in bin k tells of the bins 0 ... k, one that was seen last in bin c
(censored) of 0 ... c - 1; everything is estimated from such rows at risk, as by Kaplan and Meier.

Where the paper's network is given features, the table has levels of contexts: the flavour; what
became of the job before it in the batch; of the one before that; the size of the batch; and the
third job before. Jobs that live long are mostly seen unended: all that lived for half of the
window of observation or longer are one, whether they ended or not, so that what follows them can be
learnt at all. A level of few rows leans on the one above: so many rows at risk of the hazard
above are added as `LEAN` says: the more different ends a context has seen, the less it is trusted.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sim.errors import WorkloadError
from sim.model.batches import CloudTrace
from sim.workloads.cloud.contexts import Contexts, Ints, seen

LEAN = 8.0
"""Times the different bins that a context has seen: so many rows at risk it borrows."""

LEAN_ALONE = 0.5
"""Rows at risk that a flavour borrows in the estimate by flavour, which is Kaplan and Meier's."""

LEAST_SEEN = 2
SIZES = (1, 2, 3, 4, 5, 7, 10, 15, 25, 50)
"""Classes of batch sizes end at these, as the authors' published map has them; the last is open."""

Floats = NDArray[np.float64]


ALMOST = 1e-7
"""Hazards are at least so far from 0 and 1."""


@dataclass(frozen=True, eq=False)
class LifetimeTable:
    """Hazards by context.

    Attributes:
        contexts: in levels, see `keys_of`; only level 0 in the pooled estimate.
        hazard: float64 [n_rows, n_bins], above 0 and below 1.
        long_bin: jobs before that lived in this bin or a later one are taken for alike.
    """

    contexts: Contexts
    hazard: Floats
    long_bin: int

    @property
    def n_bins(self) -> int:
        """Bins of lifetimes."""
        return int(self.hazard.shape[1])

    def hazards(self, trace: CloudTrace) -> tuple[Floats, Ints]:
        """Return hazards of contexts, float64 [n, n_bins], and the row of each job, int64."""
        return self.hazard, self.contexts.rows(contexts_of(trace, self.long_bin))

    def ending(self, rate: float) -> "LifetimeTable":
        """Return the table for jobs that end at another rate; see `ending_at`."""
        return self if rate == 1 else replace(self, hazard=ending_at(self.hazard, rate))

    def draw(self, flavour: Ints, batch: Ints, n_flavours: int, rng: np.random.Generator) -> Ints:
        """Draw a bin for every job; see `draw_lifetimes`."""
        return draw_lifetimes(self, flavour, batch, n_flavours, rng)


def state_of(lifetime: Ints, censored: Ints, long_bin: int, n_bins: int) -> Ints:
    """Return what became of each job: its bin, or n_bins + the bin in which it was seen last.

    From `long_bin` on both are that bin.
    """
    seen_or_ended = np.where(censored == 1, n_bins + lifetime, lifetime)
    return np.where(lifetime >= long_bin, long_bin, seen_or_ended)


def long_bin_of(trace: CloudTrace) -> int:
    """Return the bin of half of the window of a trace."""
    half_s = trace.n_periods * trace.period_s / 2.0
    return int(trace.bins.of(np.array([half_s]))[0])


def size_class(sizes: Ints) -> Ints:
    """Return the class of each size of a batch, from 0."""
    return np.searchsorted(SIZES, sizes, side="left").astype(np.int64)


def keys_of(flavour: Ints, size: Ints, *states: Ints, n_bins: int, n_flavours: int) -> list[Ints]:
    """Return the keys of the levels of contexts.

    Args:
        flavour: int64 [n].
        size: int64 [n], of the batch.
        states: of the job before, of the one before that, and so on: three int64 [n]; 2 * n_bins
            where there is none in the batch.
        n_bins: of lifetimes.
        n_flavours: of jobs.
    """
    many = 2 * n_bins + 1
    last, second, third = states
    by_last = last * n_flavours + flavour
    by_second = by_last * many + second
    by_size = by_second * (len(SIZES) + 1) + size_class(size)
    return [flavour, by_last, by_second, by_size, by_size * many + third]


def lagged(trace: CloudTrace, steps: int, long_bin: int) -> Ints:
    """Return what became of the job so many steps before, in the same batch."""
    state = state_of(trace.lifetime, trace.censored, long_bin, trace.bins.n)
    found = np.full(trace.n_jobs, 2 * trace.bins.n, dtype=np.int64)
    same = trace.batch[steps:] == trace.batch[:-steps]
    found[steps:][same] = state[:-steps][same]
    return found


def contexts_of(trace: CloudTrace, long_bin: int) -> list[Ints]:
    """Return the keys of the contexts of every job of a trace, see `LifetimeTable.long_bin`."""
    sizes = trace.batch_sizes[trace.batch - trace.batch[0]]
    states = (lagged(trace, steps, long_bin) for steps in (1, 2, 3))
    n_bins, n_flavours = trace.bins.n, len(trace.flavours)
    return keys_of(trace.flavour, sizes, *states, n_bins=n_bins, n_flavours=n_flavours)


def checked_lifetimes(trace: CloudTrace) -> None:
    """Raise `WorkloadError` if the lifetimes of a trace are unknown."""
    if not trace.knows_lifetimes:
        raise WorkloadError("the lifetimes of this trace are unknown; fit one that tells them.")


def fit_lifetimes(trace: CloudTrace, levels: int = 5) -> LifetimeTable:
    """Fit hazards to the lifetimes of a trace.

    Args:
        trace: with lifetimes.
        levels: of contexts: 0 is Kaplan and Meier's estimate for all jobs, 1 the same for each
            flavour, 5 the whole table.

    Raises:
        WorkloadError: lifetimes are unknown.
    """
    checked_lifetimes(trace)
    long_bin = long_bin_of(trace)
    told = contexts_of(trace, long_bin)[: max(levels, 1)]
    contexts, of_level = seen(told, LEAST_SEEN)
    if levels == 0:
        contexts, of_level = Contexts(contexts.keys[:1], contexts.parent[:1]), of_level[:1]
    n_rows, n_bins = contexts.n_rows, trace.bins.n
    counts = np.zeros((2, n_rows * n_bins))
    for rows in of_level:
        place = rows * n_bins + trace.lifetime
        for censored in (0, 1):
            of = place[(rows >= 0) & (trace.censored == censored)]
            counts[censored] += np.bincount(of, minlength=n_rows * n_bins)
    ended, last_seen = counts.reshape(2, n_rows, n_bins)
    at_risk = np.cumsum((ended + last_seen)[:, ::-1], axis=1)[:, ::-1] - last_seen
    hazard = np.empty((n_rows, n_bins))
    hazard[0] = (ended[0] + 0.5) / (at_risk[0] + 1.0)
    for level in range(1, len(contexts.keys)):
        first, stop = contexts.first_row(level), contexts.first_row(level + 1)
        above = hazard[contexts.parent[first:stop]]
        kinds = (ended[first:stop] > 0).sum(axis=1, keepdims=True)
        lean = LEAN * np.maximum(kinds, 1) if levels > 1 else np.full_like(above[:, :1], LEAN_ALONE)
        hazard[first:stop] = (ended[first:stop] + lean * above) / (at_risk[first:stop] + lean)
    return LifetimeTable(contexts, np.clip(hazard, 1e-7, 1 - 1e-7), long_bin)


def ending_at(hazard: Floats, rate: float) -> Floats:
    """Return the hazards under which survival to each bin is what it was to the power of a rate."""
    found: Floats = np.clip(-np.expm1(rate * np.log1p(-hazard)), ALMOST, 1 - ALMOST)
    return found


def mass(hazard: Floats) -> Floats:
    """Return the probability of each bin: float64 [..., n_bins]; the last one has what is left."""
    survived = np.cumprod(1.0 - hazard, axis=-1)
    reached = np.concatenate([np.ones_like(survived[..., :1]), survived[..., :-1]], axis=-1)
    found: Floats = reached * hazard
    found[..., -1] = reached[..., -1]
    return found


def draw_lifetimes(
    table: LifetimeTable, flavour: Ints, batch: Ints, n_flavours: int, rng: np.random.Generator
) -> Ints:
    """Draw a bin for every job, given flavours in batches: int64 [n_jobs].

    Batches are drawn side by side, as in `flavours.draw_flavours`; each job is given what became of
    those before it. Nothing is censored.
    """
    n_bins, n_jobs = table.n_bins, len(flavour)
    sums = np.cumsum(mass(table.hazard), axis=1)
    first = np.flatnonzero(np.concatenate([[True], np.diff(batch) > 0]))
    sizes = np.diff(np.append(first, n_jobs))
    order = np.argsort(-sizes, kind="stable")  # those that go on are the first ones, always
    begins, lengths = first[order], sizes[order]
    drawn = np.zeros(n_jobs, dtype=np.int64)
    states = [np.full(len(first), 2 * n_bins, dtype=np.int64) for _ in range(3)]
    for step in range(int(lengths[0])):
        n = int(np.searchsorted(-lengths, -step, side="left"))
        jobs = begins[:n] + step
        told = keys_of(
            flavour[jobs], lengths[:n], *(state[:n] for state in states), n_bins=n_bins,
            n_flavours=n_flavours,
        )  # fmt: skip
        rows = table.contexts.rows(told)
        found = first_above(sums, rows, rng.random(n))
        drawn[jobs] = found
        states = [np.minimum(found, table.long_bin), states[0][:n], states[1][:n]]
    return drawn


def first_above(sums: Floats, rows: Ints, mark: Floats) -> Ints:
    """Return the first column of each row whose sum is above a mark, by bisection: int64 [n]."""
    low = np.zeros(len(rows), dtype=np.int64)
    high = np.full(len(rows), sums.shape[1] - 1, dtype=np.int64)
    for _ in range(int(np.ceil(np.log2(sums.shape[1])))):
        middle = (low + high) // 2
        above = sums[rows, middle] > mark
        high = np.where(above, middle, high)
        low = np.where(above, low, np.minimum(middle + 1, high))
    return high
