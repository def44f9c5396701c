"""Insight, learning and intuition of a simulated analyst: how it chooses its own runs.

Insight is the subset of the space in which an analyst believes that the optimum lies (section 4.2
of the paper: good, bad or none); its size and ranks, which the paper leaves open, are fields of
`Insight`. Learning changes the probability of each level after results. The paper: it "increases
the probability of selecting a given parameter value if this value leads to good intermediate
results and decreases the likelihood of choosing a given value if this parameter value leads to bad
results". Here a weight per level, and per trust in subset or levels, is multiplied or divided by
``1 + rate``, between bounds (the multiplicative weights method: Arora, Hazan & Kale 2012).
Intuition draws the analyst's own configurations, in the order written in `agents.analysts.analyst`.
"""

import itertools
import math
from bisect import bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from agents.analysts.episode import Truth, below
from assistant import AssistantError

Kind = Literal["good", "bad", "none"]
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True, slots=True)
class Insight:
    """Definition of the subset of the space in which an analyst expects the optimum.

    Of ``r`` measured configurations, best first (`Truth.ranked`; failed runs have no rank):
    ``good`` draws from the best ``max(least, ceil(best r))``, the first of all always among the
    members; ``bad`` from the worst ``ceil(worst r)``, optimal ones left out; ``none`` has no
    subset. There are ``max(least, ceil(members size))`` members, or all candidates if fewer.

    Args:
        kind: ``good``, ``bad`` or ``none``.
        members: size of the subset as a share of the space, above 0 to 1.
        best: ranks that a good insight is drawn from, as a share, above 0 to 1.
        worst: ranks that a bad insight is drawn from, as a share, above 0 to 1.
        least: least number of members.

    Raises:
        AssistantError: a field is out of range.
    """

    kind: Kind = "none"
    members: float = 0.05
    best: float = 0.10
    worst: float = 0.50
    least: int = 5

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise AssistantError(f"an insight is one of {', '.join(KINDS)}, not {self.kind!r}")
        for name in ("members", "best", "worst"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
                raise AssistantError(
                    f"{name} of an insight is a share above 0, up to 1, not {value!r}"
                )
        if type(self.least) is not int or self.least < 1:
            raise AssistantError(
                f"least of an insight is a whole number from 1 on, not {self.least!r}"
            )


@dataclass(frozen=True, slots=True, eq=False)
class Subset:
    """Weighted configurations among which an analyst expects the optimum."""

    members: NDArray[np.int64]  # int64 [m], distinct flat indices
    weights: NDArray[np.float64]  # float64 [m], in (0, 1]: relative frequency of each in draws
    # float64 [m], running sums of the weights from the first member on
    cumulative: NDArray[np.float64]


def candidates(insight: Insight, truth: Truth) -> NDArray[np.int64]:
    """Return the flat indices from which a subset is drawn, best first; empty without insight."""
    ranked = truth.ranked
    if insight.kind == "good":
        return ranked[: max(insight.least, math.ceil(insight.best * ranked.size))]
    if insight.kind == "bad":
        worst = ranked[ranked.size - math.ceil(insight.worst * ranked.size) :]
        return worst[truth.quality[worst] < truth.optimum]
    return ranked[:0]


def draw_subset(insight: Insight, truth: Truth, rng: np.random.Generator) -> Subset | None:
    """Draw a random weighted subset of configurations for an insight; None without insight.

    `agents.analysts.analyst` specifies the order of the draws.

    Raises:
        AssistantError: every measured configuration of the worst ranks is an optimal one.
    """
    if insight.kind == "none":
        return None
    pool = candidates(insight, truth)
    if pool.size == 0:
        raise AssistantError(
            f"a bad insight needs worse configurations than the optimum among the worst "
            f"{insight.worst:.0%} of application '{truth.application.name}', and there are none"
        )
    n = min(pool.size, max(insight.least, math.ceil(insight.members * truth.size)))
    places = np.arange(1 if insight.kind == "good" else 0, n)
    left = pool.size - places
    ahead = np.minimum((rng.random(places.size) * left).astype(np.int64), left - 1)
    members = pool.tolist()  # a list, because single draws from an array are slow
    for i, j in zip(places.tolist(), (places + ahead).tolist(), strict=True):
        members[i], members[j] = members[j], members[i]
    weights = 1.0 - rng.random(n)
    return Subset(np.array(members[:n], dtype=np.int64), weights, np.cumsum(weights))


ResultVerdict = Literal["good", "bad"]


@dataclass(frozen=True, slots=True)
class Learning:
    """Settings of how an analyst changes the weights of parameter levels after results.

    Args:
        rate: a level in a good result gains by the factor ``1 + rate``, in a bad one it loses by
            it; above 0.
        mass: share of the initial probability that is spread over all levels, from 0 to 1.
        bound: weights stay from 1 / bound to bound, where 1 is an even share; above 1.
        trust: initial probability that a learner with a subset draws from it, from 0 to 1.

    Raises:
        AssistantError: a field is out of range.
    """

    rate: float = 0.2
    mass: float = 0.1
    bound: float = 20.0
    trust: float = 0.8

    def __post_init__(self) -> None:
        allowed = {
            "rate": (self.rate > 0, "above 0"),
            "mass": (0 <= self.mass <= 1, "from 0 to 1"),
            "bound": (self.bound > 1, "above 1"),
            "trust": (0 <= self.trust <= 1, "from 0 to 1"),
        }
        for name, (fits, domain) in allowed.items():
            if not fits or not abs(getattr(self, name)) < float("inf"):
                raise AssistantError(
                    f"{name} of learning is a number {domain}, not {getattr(self, name)!r}"
                )


class ResultMemory:
    """Memory of earlier result qualities that compares each new result with their median.

    >>> memory = ResultMemory()
    >>> [memory.judge(quality) for quality in (1.0, 3.0, 3.0, 2.0, None)]
    [None, 'good', None, 'bad', 'bad']
    """

    def __init__(self) -> None:
        self._seen: list[float] = []

    def judge(self, quality: float | None) -> ResultVerdict | None:
        """Return ``good`` above the median of earlier results, ``bad`` below it; store the result.

        Of ``n`` earlier qualities in ascending order the one at position ``n // 2`` (from 0) is
        their median. Above it a result is good, below it bad, neither where they are equal or
        there is none before. A failed run (None) is bad, and is not stored.
        """
        if quality is None:
            return "bad"
        qualities = self._seen
        middle = qualities[len(qualities) // 2] if qualities else quality
        insort(qualities, quality)
        if quality == middle:
            return None
        return "good" if quality > middle else "bad"


class Weights:
    """Weights of parameter levels in random draws, and of the choice between subset and levels.

    They begin with the weights of the subset, or even without one; of the truth only the shape of
    the space is used.
    """

    def __init__(self, learning: Learning, truth: Truth, subset: Subset | None) -> None:
        self._learning = learning
        self.levels: list[list[float]] = []
        for parameter, n in enumerate(truth.n_levels):
            if subset is None:
                self.levels.append([1.0] * n)
                continue
            ids = truth.level_ids[subset.members, parameter]
            sums = np.bincount(ids, weights=subset.weights, minlength=n)
            total = float(subset.cumulative[-1])
            mass = learning.mass
            start = [n * ((1.0 - mass) * (float(s) / total) + mass / n) for s in sums]
            self.levels.append([self._bounded(weight) for weight in start])
        self.source = [self._bounded(2.0 * w) for w in (learning.trust, 1.0 - learning.trust)]

    def learn(self, level_ids: Sequence[int], verdict: ResultVerdict, source: int | None) -> None:
        """Raise the weights of a good result's levels and source, or lower those of a bad one.

        The source is 0 for the subset, 1 for the levels, None if it was neither.
        """
        for weights, level_id in zip(self.levels, level_ids, strict=True):
            weights[level_id] = self._moved(weights[level_id], verdict)
        if source is not None:
            self.source[source] = self._moved(self.source[source], verdict)

    def _moved(self, weight: float, verdict: ResultVerdict) -> float:
        factor = 1.0 + self._learning.rate
        return self._bounded(weight * factor if verdict == "good" else weight / factor)

    def _bounded(self, weight: float) -> float:
        return min(max(weight, 1.0 / self._learning.bound), self._learning.bound)


TRIES = 32  # Draws that may hit a configuration with a run, before a draw among the free ones

Well = Literal["subset", "levels", "space"]  # Source of an analyst's own configuration

_SOURCES: dict[Well, int | None] = {"subset": 0, "levels": 1, "space": None}


class FreeConfigurations:
    """Set of configurations that have not been run, by flat index from 0 to ``size`` - 1.

    >>> free = FreeConfigurations(3)
    >>> free.take(1); free.take(1)
    >>> free.n, [free[i] for i in range(3)]
    (2, [True, False, True])
    """

    def __init__(self, size: int) -> None:
        self._taken = bytearray(size)
        self.n = size

    def __getitem__(self, index: int) -> bool:
        return not self._taken[index]

    def take(self, index: int) -> None:
        """Remove a configuration from the set, as it has been run."""
        self.n -= not self._taken[index]
        self._taken[index] = 1

    def draw(self, rng: np.random.Generator) -> int:
        """Draw a flat index uniformly from the set, which must not be empty; do not remove it."""
        for _ in range(TRIES):
            index = below(rng.random(), len(self._taken))
            if not self._taken[index]:
                return index
        place = below(rng.random(), self.n)
        free = (index for index, taken in enumerate(self._taken) if not taken)
        return next(itertools.islice(free, place, None))


class Intuition:
    """Random chooser of an analyst's own configurations, by subset and learned weights.

    Of the truth only the shape of the space is used; ``subset`` is None without insight,
    ``learning`` None without learning, and ``rng`` is the stream "intuition" of the episode.
    """

    def __init__(
        self,
        truth: Truth,
        subset: Subset | None,
        learning: Learning | None,
        rng: np.random.Generator,
    ) -> None:
        self._truth, self._subset, self._rng = truth, subset, rng
        self.weights = None if learning is None else Weights(learning, truth, subset)
        self._memory = ResultMemory()
        self._free = FreeConfigurations(truth.size)
        self._members = frozenset(() if subset is None else subset.members.tolist())
        self._free_members = len(self._members)
        self._wells: dict[int, Well] = {}

    @property
    def n_free(self) -> int:
        """Number of configurations that have not been run."""
        return self._free.n

    def take(self, index: int) -> None:
        """Mark a configuration, given by its flat index, as run."""
        self._free_members -= self._free[index] and index in self._members
        self._free.take(index)

    def draw(self) -> int | None:
        """Choose a free configuration, mark it as run and return its index; None if all are run."""
        if self._free.n == 0:
            return None
        well = self._choose_well()
        index = self._draw_from(well)
        if index is None:
            well, index = "space", self._free.draw(self._rng)
        self._wells[index] = well
        self.take(index)
        return index

    def learn(self, index: int, quality: float | None) -> None:
        """Update the weights by the quality of a run, where None means a failed run."""
        if self.weights is None:
            return
        verdict = self._memory.judge(quality)
        if verdict is not None:
            well = self._wells.get(index)
            source = None if well is None else _SOURCES[well]
            self.weights.learn(self._truth.level_ids[index].tolist(), verdict, source)

    def _choose_well(self) -> Well:
        if self._free_members == 0:
            return "space" if self.weights is None else "levels"
        if self.weights is None:
            return "subset"
        return "subset" if pick(self.weights.source, self._rng.random()) == 0 else "levels"

    def _draw_from(self, well: Well) -> int | None:
        """Return a free configuration of a source; None for the space, or if all draws fail."""
        if well == "levels" and self.weights is not None:
            return self._from_levels(self.weights.levels)
        if well == "subset" and self._subset is not None:
            return self._from_subset(self._subset)
        return None

    def _from_subset(self, subset: Subset) -> int:
        total = float(subset.cumulative[-1])
        for _ in range(TRIES):
            position = bisect_right(subset.cumulative, self._rng.random() * total)
            index = int(subset.members[min(position, subset.members.size - 1)])
            if self._free[index]:
                return index
        free = [i for i, member in enumerate(subset.members.tolist()) if self._free[member]]
        weights = [float(subset.weights[i]) for i in free]
        return int(subset.members[free[pick(weights, self._rng.random())]])

    def _from_levels(self, levels: Sequence[Sequence[float]]) -> int | None:
        for _ in range(TRIES):
            index = 0
            for weights in levels:
                index = index * len(weights) + pick(weights, self._rng.random())
            if self._free[index]:
                return index
        return None


def pick(weights: Sequence[float], u: float) -> int:
    """Map a random number u in [0, 1) to a position in `weights`, in proportion to the weights.

    It is the first whose running sum exceeds ``u`` times the sum of all, both summed from the
    first weight on in float64; the last one if rounding leaves none.

    >>> pick([1.0, 2.0, 1.0], 0.2), pick([1.0, 2.0, 1.0], 0.25), pick([1.0, 2.0, 1.0], 0.75)
    (0, 1, 2)
    """
    total = 0.0
    for weight in weights:
        total += weight
    target, running = u * total, 0.0
    for position, weight in enumerate(weights):
        running += weight
        if running > target:
            return position
    return len(weights) - 1
