"""How long jobs live, by boosted trees over what came before in the batch (quality ``trees``).

Every job tells of the bins up to its own (see `lifetimes`): at each it either ended or went on.
Trees are grown on these rows, with the features of the paper's network (section 2.3.3) that matter:
the flavour and the one before, size of the batch and place in it, what became of the three jobs
before, how long they have been alike, the bin itself, and how far it lies beyond the bins of the
jobs before. Rows that are the same are one row that counts so often, so a fit takes seconds.

Tables take all jobs before that lived long for one (`lifetimes`); trees are told their bins as they
are. Holding them for one costs likelihood here, and makes jobs that are drawn live too long.
"""

from dataclasses import dataclass, replace

import numpy as np

from sim.errors import WorkloadError
from sim.model.batches import CloudTrace
from sim.workloads.cloud.boosted import Boosted, grown
from sim.workloads.cloud.contexts import Ints
from sim.workloads.cloud.lifetimes import (
    ALMOST,
    SIZES,
    Floats,
    checked_lifetimes,
    ending_at,
    first_above,
    lagged,
    mass,
    size_class,
)

PLACES = (0, 1, 2, 3, 5, 8, 12, 20, 40)
"""Classes of places in a batch end at these; the last is open."""

MOST_ALIKE = 6
"""Jobs before that were alike; more count as so many."""

MOST_TAUGHT = 300_000
"""Jobs that trees are grown on, the last ones of a log."""

ROUNDS, RATE, LEAVES, DEPTH = 60, 0.2, 63, 8
N_FEATURES = 13
CONTEXTS_AT_ONCE = 4096


@dataclass(frozen=True, eq=False)
class LifetimeTrees:
    """Hazards by boosted trees.

    Attributes:
        trees: of `N_FEATURES` features, see `_columns`.
        n_bins: of lifetimes.
        n_flavours: of jobs.
        rate: factor on the rate at which jobs end (what if).
    """

    trees: Boosted
    n_bins: int
    n_flavours: int
    rate: float = 1.0

    def ending(self, rate: float) -> "LifetimeTrees":
        """Return the trees for jobs that end at another rate; see `lifetimes.ending_at`."""
        return replace(self, rate=self.rate * rate)

    def hazards(self, trace: CloudTrace) -> tuple[Floats, Ints]:
        """Return hazards of contexts, float64 [n, n_bins], and the row of each job, int64."""
        keys, rows = np.unique(contexts_of(trace), return_inverse=True)
        return self._of(keys), rows.reshape(-1)

    def draw(self, flavour: Ints, batch: Ints, n_flavours: int, rng: np.random.Generator) -> Ints:
        """Draw a bin for every job; see `lifetimes.draw_lifetimes`.

        What the trees say of a context is kept for as long as the draw lasts: they are asked once.
        """
        n_bins, n_jobs = self.n_bins, len(flavour)
        first = np.flatnonzero(np.concatenate([[True], np.diff(batch) > 0]))
        sizes = np.diff(np.append(first, n_jobs))
        order = np.argsort(-sizes, kind="stable")  # those that go on are the first ones, always
        begins, lengths = first[order], sizes[order]
        drawn = np.zeros(n_jobs, dtype=np.int64)
        none = np.full(len(first), 2 * n_bins, dtype=np.int64)
        states, alike = [none, none, none], np.zeros(len(first), dtype=np.int64)
        before = np.full(len(first), n_flavours, dtype=np.int64)
        known: dict[int, int] = {}
        sums = np.empty((0, n_bins))
        for step in range(int(lengths[0])):
            n = int(np.searchsorted(-lengths, -step, side="left"))
            jobs = begins[:n] + step
            states, alike, before = [one[:n] for one in states], alike[:n], before[:n]
            place: Ints = np.full(n, step, dtype=np.int64)
            keys = _packed(
                [flavour[jobs], before, size_class(lengths[:n]), _place_class(place), alike,
                 *states], n_bins, n_flavours,
            )  # fmt: skip
            asked, rows = np.unique(keys, return_inverse=True)
            new = [one for one in asked.tolist() if one not in known]
            if new:
                known.update(zip(new, range(len(known), len(known) + len(new)), strict=True))
                told = np.cumsum(mass(self._of(np.array(new))), axis=1)
                sums = np.concatenate([sums[: len(known) - len(new)], told])
            rows = np.array([known[one] for one in asked.tolist()])[rows.reshape(-1)]
            found = first_above(sums, rows, rng.random(n))
            drawn[jobs] = found
            alike = np.where(found == states[0], np.minimum(alike + 1, MOST_ALIKE), 0)
            states, before = [found, *states[:2]], flavour[jobs]
        return drawn

    def _of(self, keys: Ints) -> Floats:
        """Return the hazards of contexts: float64 [n, n_bins]."""
        found = np.empty((len(keys), self.n_bins))
        for begin in range(0, len(keys), CONTEXTS_AT_ONCE):
            some = _unpacked(keys[begin : begin + CONTEXTS_AT_ONCE], self.n_bins, self.n_flavours)
            n = len(some[0])
            at, bins = np.divmod(np.arange(n * self.n_bins), self.n_bins)
            logit = self.trees.sums(_columns(some, self.n_bins, at, bins))
            found[begin : begin + n] = (1.0 / (1.0 + np.exp(-logit))).reshape(n, self.n_bins)
        found = np.clip(found, ALMOST, 1 - ALMOST)
        return found if self.rate == 1 else ending_at(found, self.rate)


def contexts_of(trace: CloudTrace) -> Ints:
    """Return the context of every job of a trace, packed into one number: int64 [n_jobs]."""
    n_bins, n_flavours = trace.bins.n, len(trace.flavours)
    begins = trace.first_in_batch
    before = np.where(begins, n_flavours, np.concatenate([[n_flavours], trace.flavour[:-1]]))
    at = np.arange(trace.n_jobs)
    place = at - np.maximum.accumulate(np.where(begins, at, 0))
    states = [lagged(trace, steps, n_bins) for steps in (1, 2, 3)]
    # The last two jobs before were other than one another, or there are no two: counted from here.
    differs = (states[0] != states[1]) | (place < 2)
    alike = np.minimum(at - np.maximum.accumulate(np.where(differs, at, 0)), MOST_ALIKE)
    sizes = trace.batch_sizes[trace.batch - trace.batch[0]]
    return _packed(
        [trace.flavour, before, size_class(sizes), _place_class(place), alike, *states],
        n_bins, n_flavours,
    )  # fmt: skip


def fit_trees(trace: CloudTrace) -> LifetimeTrees:
    """Grow trees for the hazards of a trace.

    Raises:
        WorkloadError: lifetimes are unknown, or every job ended in the first bin.
    """
    checked_lifetimes(trace)
    n_bins, n_flavours = trace.bins.n, len(trace.flavours)
    last = slice(max(0, trace.n_jobs - MOST_TAUGHT), None)
    lifetime, censored = trace.lifetime[last], trace.censored[last]
    keys, row = np.unique(contexts_of(trace)[last], return_inverse=True)
    ended, last_seen = (
        np.bincount((row.reshape(-1) * n_bins + lifetime)[some], minlength=len(keys) * n_bins)
        .reshape(-1, n_bins)
        for some in (censored == 0, censored == 1)
    )  # fmt: skip
    at_risk = np.cumsum((ended + last_seen)[:, ::-1], axis=1)[:, ::-1] - last_seen
    went_on = at_risk - ended
    seen_ended, seen_going = np.nonzero(ended), np.nonzero(went_on)
    if len(seen_ended[0]) == 0 or len(seen_going[0]) == 0:
        raise WorkloadError(
            "all jobs of this log ended in the first bin of lifetimes, or none ended; trees learn "
            "nothing from that: fit quality 'tables'."
        )
    facts = _unpacked(keys, n_bins, n_flavours)
    columns = [_columns(facts, n_bins, *seen) for seen in (seen_ended, seen_going)]
    weight = np.concatenate([ended[seen_ended], went_on[seen_going]])
    trees = grown(
        np.concatenate(columns, axis=1).T,
        np.repeat([1, 0], [len(seen_ended[0]), len(seen_going[0])]),
        weight.astype(np.float64),
        rounds=ROUNDS,
        rate=RATE,
        leaves=LEAVES,
        depth=DEPTH,
    )
    return LifetimeTrees(trees, n_bins, n_flavours)


def _place_class(place: Ints) -> Ints:
    return np.searchsorted(PLACES, place, side="left").astype(np.int64)


def _radices(n_bins: int, n_flavours: int) -> tuple[int, ...]:
    states = (2 * n_bins + 1,) * 3
    return (n_flavours, n_flavours + 1, len(SIZES) + 1, len(PLACES) + 1, MOST_ALIKE + 1, *states)


def _packed(facts: list[Ints], n_bins: int, n_flavours: int) -> Ints:
    key: Ints = np.zeros(len(facts[0]), dtype=np.int64)
    for fact, radix in zip(facts, _radices(n_bins, n_flavours), strict=True):
        key = key * radix + fact
    return key


def _unpacked(key: Ints, n_bins: int, n_flavours: int) -> list[Ints]:
    facts: list[Ints] = []
    for radix in reversed(_radices(n_bins, n_flavours)):
        facts.append(key % radix)
        key = key // radix
    return facts[::-1]


def _columns(facts: list[Ints], n_bins: int, row: Ints, bins: Ints) -> Floats:
    """Return the features of some contexts at some bins: float64 [N_FEATURES, n].

    Of a job before: the bin in which it ended or was seen last, -1 if there is none; and whether it
    ended (0), was seen last (1) or is none (2).
    """
    *told, last, second, third = facts
    bin_of = [np.where(state == 2 * n_bins, -1, state % n_bins) for state in (last, second, third)]
    kind = [state // n_bins for state in (last, second)]
    told += [bin_of[0], kind[0], bin_of[1], kind[1], bin_of[2]]
    columns = [fact[row] for fact in told]
    columns += [bins, bins - columns[5], bins - columns[7]]
    found: Floats = np.array(columns, dtype=np.float64)
    return found
