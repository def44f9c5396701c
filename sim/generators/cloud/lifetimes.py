"""Lifetimes of jobs as hazards over bins: pooled (Kaplan-Meier), by context, or by boosted trees.

Bergsma et al., section 2.3. The hazard of a bin is the probability that a job that lived up to it
ends in it. A job that ended in bin k was at risk in the bins 0 ... k, a censored one last seen in
bin c in 0 ... c - 1. The table has levels of contexts: the flavour; the end of the previous job in
the batch; of the one before; the size of the batch; the third job before. Because long lives are
mostly censored, all lifetimes from half of the observation window on are one class, ended or not.
A level borrows rows at risk from the one above (`LEAN`): the more different ends a context has
seen, the more.

Trees (quality ``trees``) use features of the paper's network (section 2.3.3): the flavour and the
one before, size of the batch and place in it, ends of the three jobs before, how long they have
been equal, the bin itself, and its distance from the bins of the jobs before. scikit-learn grows
them on counted unique rows, so a fit takes seconds; NumPy evaluates them.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.generators.cloud.contexts import Contexts, observed_contexts
from sim.model.cloud_trace import CloudTrace
from sim.model.errors import WorkloadError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


LEAN = 8.0  # borrowed rows at risk per different bin that a context has seen

LEAN_ALONE = 0.5  # borrowed rows at risk of a flavour in the Kaplan-Meier estimate by flavour

LEAST_SEEN = 2
SIZES = (1, 2, 3, 4, 5, 7, 10, 15, 25, 50)
"""Ends of the classes of batch sizes, as in the authors' published map; the last is open."""


ALMOST = 1e-7  # least distance of hazards from 0 and 1


@dataclass(frozen=True, eq=False)
class LifetimeTable:
    """Hazards of lifetime bins by context (flavour, preceding jobs and batch size).

    Attributes:
        hazard: float64 [n_rows, n_bins], above 0 and below 1.
        long_bin: bin from which on lifetimes of previous jobs are one class.
    """

    contexts: Contexts
    hazard: Floats
    long_bin: int

    @property
    def n_bins(self) -> int:
        """Number of lifetime bins."""
        return int(self.hazard.shape[1])

    def hazards(self, trace: CloudTrace) -> tuple[Floats, Ints]:
        """Return hazards by context, float64 [n_rows, n_bins], and each job's row, int64."""
        return self.hazard, self.contexts.rows(lifetime_keys(trace, self.long_bin))

    def ending(self, rate: float) -> "LifetimeTable":
        """Return a table for jobs that end `rate` times as fast, with rescaled hazards."""
        return self if rate == 1 else replace(self, hazard=rescale_hazards(self.hazard, rate))

    def draw(
        self,
        flavour: Ints,
        batch: Ints,
        n_flavours: int,
        rng: np.random.Generator,
        day: Ints | None = None,  # noqa: ARG002 - signature of `Hazards`
        hour: Ints | None = None,  # noqa: ARG002
    ) -> Ints:
        """Draw a lifetime bin for every job: int64 [n_jobs]; day and hour have no effect."""
        return draw_lifetimes(self, flavour, batch, n_flavours, rng)


def state_of(lifetime: Ints, censored: Ints, long_bin: int, n_bins: int) -> Ints:
    """Return each job's state code: the lifetime bin if it ended, else n_bins + the bin last seen.

    From `long_bin` on both are that bin.
    """
    seen_or_ended = np.where(censored == 1, n_bins + lifetime, lifetime)
    return np.where(lifetime >= long_bin, long_bin, seen_or_ended)


def long_bin_of(trace: CloudTrace) -> int:
    """Return the lifetime bin that contains half of the trace's window length."""
    half_s = trace.n_periods * trace.period_s / 2.0
    return int(trace.bins.of(np.array([half_s]))[0])


def size_class(sizes: Ints) -> Ints:
    """Return the class of each batch size, numbered from 0."""
    return np.searchsorted(SIZES, sizes, side="left").astype(np.int64)


def keys_of(flavour: Ints, size: Ints, *states: Ints, n_bins: int, n_flavours: int) -> list[Ints]:
    """Return the integer keys of contexts for each level except 0: int64 [n] each.

    Args:
        flavour: int64 [n].
        size: int64 [n], size of the batch.
        states: states of the three previous jobs, int64 [n] each; 2 * n_bins for none in the
            batch.
        n_bins: number of bins of lifetimes.
        n_flavours: number of flavours.
    """
    many = 2 * n_bins + 1
    last, second, third = states
    by_last = last * n_flavours + flavour
    by_second = by_last * many + second
    by_size = by_second * (len(SIZES) + 1) + size_class(size)
    return [flavour, by_last, by_second, by_size, by_size * many + third]


def lagged_states(trace: CloudTrace, steps: int, long_bin: int) -> Ints:
    """Return the state of the job `steps` places earlier in each job's batch: int64 [n_jobs]."""
    state = state_of(trace.lifetime, trace.censored, long_bin, trace.bins.n)
    lagged_state = np.full(trace.n_jobs, 2 * trace.bins.n, dtype=np.int64)
    same = trace.batch[steps:] == trace.batch[:-steps]
    lagged_state[steps:][same] = state[:-steps][same]
    return lagged_state


def lifetime_keys(trace: CloudTrace, long_bin: int) -> list[Ints]:
    """Return the context keys of every job of a trace for each level: int64 [n_jobs] each."""
    sizes = trace.batch_sizes[trace.batch - trace.batch[0]]
    states = (lagged_states(trace, steps, long_bin) for steps in (1, 2, 3))
    n_bins, n_flavours = trace.bins.n, len(trace.flavours)
    return keys_of(trace.flavour, sizes, *states, n_bins=n_bins, n_flavours=n_flavours)


def checked_lifetimes(trace: CloudTrace) -> None:
    """Raise `WorkloadError` if a trace does not contain lifetimes."""
    if not trace.knows_lifetimes:
        raise WorkloadError("the lifetimes of this trace are unknown; fit a trace with lifetimes.")


def fit_lifetimes(trace: CloudTrace, levels: int = 5) -> LifetimeTable:
    """Fit a table of hazards by context to the lifetimes of a trace.

    Args:
        trace: trace with lifetimes.
        levels: levels of contexts: 0 is the Kaplan-Meier estimate for all jobs, 1 that for each
            flavour, 5 the whole table.

    Raises:
        WorkloadError: lifetimes are unknown.
    """
    checked_lifetimes(trace)
    long_bin = long_bin_of(trace)
    level_keys = lifetime_keys(trace, long_bin)[: max(levels, 1)]
    contexts, of_level = observed_contexts(level_keys, LEAST_SEEN)
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


def rescale_hazards(hazard: Floats, rate: float) -> Floats:
    """Return the hazards for which each survival probability is raised to the power `rate`."""
    hazards: Floats = np.clip(-np.expm1(rate * np.log1p(-hazard)), ALMOST, 1 - ALMOST)
    return hazards


def lifetime_probabilities(hazard: Floats) -> Floats:
    """Return the probability of each lifetime bin; the last bin takes the remainder."""
    survived = np.cumprod(1.0 - hazard, axis=-1)
    reached = np.concatenate([np.ones_like(survived[..., :1]), survived[..., :-1]], axis=-1)
    probabilities: Floats = reached * hazard
    probabilities[..., -1] = reached[..., -1]
    return probabilities


def draw_lifetimes(
    table: LifetimeTable, flavour: Ints, batch: Ints, n_flavours: int, rng: np.random.Generator
) -> Ints:
    """Draw a lifetime bin for every job, given flavours and batches: int64 [n_jobs].

    Batches are drawn together, as in `flavours.draw_flavours`; each job depends on those before
    it. Nothing is censored.
    """
    n_bins, n_jobs = table.n_bins, len(flavour)
    sums = np.cumsum(lifetime_probabilities(table.hazard), axis=1)
    first = np.flatnonzero(np.concatenate([[True], np.diff(batch) > 0]))
    sizes = np.diff(np.append(first, n_jobs))
    order = np.argsort(-sizes, kind="stable")  # so that those that go on are always the first ones
    begins, lengths = first[order], sizes[order]
    lifetime = np.zeros(n_jobs, dtype=np.int64)
    states = [np.full(len(first), 2 * n_bins, dtype=np.int64) for _ in range(3)]
    for step in range(int(lengths[0])):
        n = int(np.searchsorted(-lengths, -step, side="left"))
        jobs = begins[:n] + step
        level_keys = keys_of(
            flavour[jobs], lengths[:n], *(state[:n] for state in states), n_bins=n_bins,
            n_flavours=n_flavours,
        )  # fmt: skip
        rows = table.contexts.rows(level_keys)
        lifetime_bin = first_above(sums, rows, rng.random(n))
        lifetime[jobs] = lifetime_bin
        states = [np.minimum(lifetime_bin, table.long_bin), states[0][:n], states[1][:n]]
    return lifetime


def first_above(sums: Floats, rows: Ints, mark: Floats) -> Ints:
    """Return the first column of each row where cumulative `sums` exceed `mark`: int64 [n]."""
    low = np.zeros(len(rows), dtype=np.int64)
    high = np.full(len(rows), sums.shape[1] - 1, dtype=np.int64)
    for _ in range(int(np.ceil(np.log2(sums.shape[1])))):
        middle = (low + high) // 2
        above = sums[rows, middle] > mark
        high = np.where(above, middle, high)
        low = np.where(above, low, np.minimum(middle + 1, high))
    return high


AT_ONCE = 8192
"""Rows that pass the trees together, so that their places stay in the processor's cache."""

LEAF_REGULARISATION = 1.0
"""Regularisation of the curvature of leaves, because leaves of few jobs are uncertain. It is no
count of rows, since a row may stand for thousands of jobs."""


@dataclass(frozen=True, eq=False)
class BoostedTrees:
    """An ensemble of regression trees whose leaf values are added.

    Attributes:
        first: int64 [n_trees + 1], root of each tree, and the end of the last.
        feature: int64 [n_nodes], column of the test; 0 at leaves.
        threshold: float64 [n_nodes], upper bound of rows that go left; infinite at leaves.
        left: int64 [n_nodes], left child; a leaf points to itself, another node to a later one.
        right: int64 [n_nodes], right child; a leaf points to itself.
        value: float64 [n_nodes], value of a leaf.
        baseline: value to which the leaves are added.
    """

    first: Ints
    feature: Ints
    threshold: Floats
    left: Ints
    right: Ints
    value: Floats
    baseline: float

    @property
    def depths(self) -> Ints:
        """Depth of the deepest leaf of each tree: int64 [n_trees]."""
        depth = np.zeros(len(self.feature), dtype=np.int64)
        for node, (left, right) in enumerate(zip(self.left, self.right, strict=True)):
            if left != node:
                depth[[left, right]] = depth[node] + 1
        return np.maximum.reduceat(depth, self.first[:-1])

    def sums(self, columns: Floats) -> Floats:
        """Return the summed tree outputs, float64 [n], for features [n_features, n]."""
        depths = self.depths.tolist()
        sums = np.full(columns.shape[1], self.baseline)
        for begin in range(0, len(sums), AT_ONCE):
            some = np.ascontiguousarray(columns[:, begin : begin + AT_ONCE])
            n = some.shape[1]
            flat, at = some.ravel(), np.arange(n)
            for root, depth in zip(self.first[:-1].tolist(), depths, strict=True):
                node: Ints = np.full(n, root, dtype=np.int64)
                for _ in range(depth):
                    feature_value = flat[self.feature[node] * n + at]
                    node = np.where(
                        feature_value <= self.threshold[node], self.left[node], self.right[node]
                    )
                sums[begin : begin + n] += self.value[node]
        return sums


def grow_trees(
    rows: Floats, ended: Ints, weight: Floats, *, rounds: int, rate: float, leaves: int, depth: int
) -> BoostedTrees:
    """Fit boosted trees for the logit of a probability (gradient boosting over histograms).

    Rows, float64 [n, n_features], occurred `weight` times; `ended` is 1 where the event happened.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier

    library = HistGradientBoostingClassifier(
        max_iter=rounds, learning_rate=rate, max_leaf_nodes=leaves, max_depth=depth,
        l2_regularization=LEAF_REGULARISATION, min_samples_leaf=1, early_stopping=False,
        random_state=0,
    )  # fmt: skip
    return export_trees(library.fit(rows, ended, sample_weight=weight))


def export_trees(library: Any) -> BoostedTrees:
    """Convert a fitted scikit-learn HistGradientBoostingClassifier to `BoostedTrees`."""
    trees = [stage[0].nodes for stage in library._predictors]
    first = np.concatenate([[0], np.cumsum([len(tree) for tree in trees])]).astype(np.int64)
    nodes = np.concatenate(trees)
    node_number = np.arange(len(nodes))
    root = np.repeat(first[:-1], np.diff(first))
    is_leaf = nodes["is_leaf"].astype(bool)
    return BoostedTrees(
        first=first,
        feature=np.where(is_leaf, 0, nodes["feature_idx"]).astype(np.int64),
        threshold=np.where(is_leaf, np.inf, nodes["num_threshold"]),
        left=np.where(is_leaf, node_number, root + nodes["left"]).astype(np.int64),
        right=np.where(is_leaf, node_number, root + nodes["right"]).astype(np.int64),
        value=np.where(is_leaf, nodes["value"], 0.0),
        baseline=float(np.ravel(library._baseline_prediction)[0]),
    )


PLACES = (0, 1, 2, 3, 5, 8, 12, 20, 40)
"""Ends of the classes of places in a batch; the last is open."""

MOST_ALIKE = 6  # limit on the count of equal previous jobs

MOST_TAUGHT = 300_000  # last jobs of a log, for the fit of trees

ROUNDS, RATE, LEAVES, DEPTH = 60, 0.2, 63, 8
N_FEATURES = 13
CONTEXTS_AT_ONCE = 4096


@dataclass(frozen=True, eq=False)
class LifetimeTrees:
    """A model of the hazards of lifetime bins by boosted trees.

    Attributes:
        trees: trees over `N_FEATURES` features, see `_columns`.
        rate: factor on the rate at which jobs end (what if).
    """

    trees: BoostedTrees
    n_bins: int
    n_flavours: int
    rate: float = 1.0

    def ending(self, rate: float) -> "LifetimeTrees":
        """Return a model for jobs that end `rate` times as fast, with rescaled hazards."""
        return replace(self, rate=self.rate * rate)

    def hazards(self, trace: CloudTrace) -> tuple[Floats, Ints]:
        """Return hazards by context, float64 [n, n_bins], and each job's row, int64."""
        keys, rows = np.unique(tree_keys(trace), return_inverse=True)
        return self._of(keys), rows.reshape(-1)

    def draw(
        self,
        flavour: Ints,
        batch: Ints,
        n_flavours: int,
        rng: np.random.Generator,
        day: Ints | None = None,  # noqa: ARG002 - signature of `Hazards`
        hour: Ints | None = None,  # noqa: ARG002
    ) -> Ints:
        """Draw a lifetime bin for every job: int64 [n_jobs]; day and hour have no effect.

        The trees are evaluated once for each context.
        """
        n_bins, n_jobs = self.n_bins, len(flavour)
        first = np.flatnonzero(np.concatenate([[True], np.diff(batch) > 0]))
        sizes = np.diff(np.append(first, n_jobs))
        order = np.argsort(
            -sizes, kind="stable"
        )  # so that those that go on are always the first ones
        begins, lengths = first[order], sizes[order]
        lifetime = np.zeros(n_jobs, dtype=np.int64)
        none = np.full(len(first), 2 * n_bins, dtype=np.int64)
        states, alike = [none, none, none], np.zeros(len(first), dtype=np.int64)
        before = np.full(len(first), n_flavours, dtype=np.int64)
        row_of_key: dict[int, int] = {}
        sums = np.empty((0, n_bins))
        for step in range(int(lengths[0])):
            n = int(np.searchsorted(-lengths, -step, side="left"))
            jobs = begins[:n] + step
            states, alike, before = [entry[:n] for entry in states], alike[:n], before[:n]
            place: Ints = np.full(n, step, dtype=np.int64)
            keys = _packed(
                [flavour[jobs], before, size_class(lengths[:n]), _place_class(place), alike,
                 *states], n_bins, n_flavours,
            )  # fmt: skip
            unique_keys, rows = np.unique(keys, return_inverse=True)
            new = [entry for entry in unique_keys.tolist() if entry not in row_of_key]
            if new:
                row_of_key.update(
                    zip(new, range(len(row_of_key), len(row_of_key) + len(new)), strict=True)
                )
                new_sums = np.cumsum(lifetime_probabilities(self._of(np.array(new))), axis=1)
                sums = np.concatenate([sums[: len(row_of_key) - len(new)], new_sums])
            rows = np.array([row_of_key[entry] for entry in unique_keys.tolist()])[rows.reshape(-1)]
            lifetime_bin = first_above(sums, rows, rng.random(n))
            lifetime[jobs] = lifetime_bin
            alike = np.where(lifetime_bin == states[0], np.minimum(alike + 1, MOST_ALIKE), 0)
            states, before = [lifetime_bin, *states[:2]], flavour[jobs]
        return lifetime

    def _of(self, keys: Ints) -> Floats:
        hazards = np.empty((len(keys), self.n_bins))
        for begin in range(0, len(keys), CONTEXTS_AT_ONCE):
            some = _unpacked(keys[begin : begin + CONTEXTS_AT_ONCE], self.n_bins, self.n_flavours)
            n = len(some[0])
            at, bins = np.divmod(np.arange(n * self.n_bins), self.n_bins)
            logit = self.trees.sums(_columns(some, self.n_bins, at, bins))
            hazards[begin : begin + n] = (1.0 / (1.0 + np.exp(-logit))).reshape(n, self.n_bins)
        hazards = np.clip(hazards, ALMOST, 1 - ALMOST)
        return hazards if self.rate == 1 else rescale_hazards(hazards, self.rate)


def tree_keys(trace: CloudTrace) -> Ints:
    """Return every job's context as one integer, from which the trees' features follow."""
    n_bins, n_flavours = trace.bins.n, len(trace.flavours)
    begins = trace.first_in_batch
    before = np.where(begins, n_flavours, np.concatenate([[n_flavours], trace.flavour[:-1]]))
    at = np.arange(trace.n_jobs)
    place = at - np.maximum.accumulate(np.where(begins, at, 0))
    states = [lagged_states(trace, steps, n_bins) for steps in (1, 2, 3)]
    # Counting starts where the last two jobs differ, or where there are no two.
    differs = (states[0] != states[1]) | (place < 2)
    alike = np.minimum(at - np.maximum.accumulate(np.where(differs, at, 0)), MOST_ALIKE)
    sizes = trace.batch_sizes[trace.batch - trace.batch[0]]
    return _packed(
        [trace.flavour, before, size_class(sizes), _place_class(place), alike, *states],
        n_bins, n_flavours,
    )  # fmt: skip


def fit_trees(trace: CloudTrace) -> LifetimeTrees:
    """Fit boosted trees for the hazards of a trace's lifetimes.

    Raises:
        WorkloadError: lifetimes are unknown, or every job ended in the first bin.
    """
    checked_lifetimes(trace)
    n_bins, n_flavours = trace.bins.n, len(trace.flavours)
    last = slice(max(0, trace.n_jobs - MOST_TAUGHT), None)
    lifetime, censored = trace.lifetime[last], trace.censored[last]
    keys, row = np.unique(tree_keys(trace)[last], return_inverse=True)
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
            "all jobs of this log ended in the first bin of lifetimes, or none ended; trees cannot "
            "be fitted: use quality 'tables'."
        )
    facts = _unpacked(keys, n_bins, n_flavours)
    columns = [_columns(facts, n_bins, *cells) for cells in (seen_ended, seen_going)]
    weight = np.concatenate([ended[seen_ended], went_on[seen_going]])
    trees = grow_trees(
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
    """Return the features of contexts at bins: float64 [N_FEATURES, n].

    For a previous job: the bin in which it ended or was last seen, -1 if there is none; and
    whether it ended (0), was last seen (1) or is none (2).
    """
    *context_facts, last, second, third = facts
    bin_of = [np.where(state == 2 * n_bins, -1, state % n_bins) for state in (last, second, third)]
    kind = [state // n_bins for state in (last, second)]
    context_facts += [bin_of[0], kind[0], bin_of[1], kind[1], bin_of[2]]
    columns = [fact[row] for fact in context_facts]
    columns += [bins, bins - columns[5], bins - columns[7]]
    features: Floats = np.array(columns, dtype=np.float64)
    return features
