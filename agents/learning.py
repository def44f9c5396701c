"""Learning: how likely each level is chosen next, after what intermediate results showed.

The paper (section 4.2): an agent that learns "increases the probability of selecting a given
parameter value if this value leads to good intermediate results and decreases the likelihood of
choosing a given value if this parameter value leads to bad results"; it does not say how much. Here
every level has a weight that is multiplied or divided by ``1 + rate``, between bounds (as in
the multiplicative weights method: Arora, Hazan & Kale 2012). Whether to believe the subset or the
levels is learned by the same rule.
"""

from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from agents.insight import Subset
from agents.truth import Truth
from assistant import AssistantError

Verdict = Literal["good", "bad"]


@dataclass(frozen=True, slots=True)
class Learning:
    """How an analyst learns.

    Args:
        rate: a level in a good result gains by the factor ``1 + rate``, in a bad one it loses by
            it; above 0.
        mass: share of the probability that is spread over all levels at first, from 0 to 1.
        bound: weights stay from 1 / bound to bound, where 1 is an even share; above 1.
        trust: probability at first that a learner with a subset draws from it, from 0 to 1.

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


class Memory:
    """Results seen so far, so that another one can be called good or bad.

    >>> memory = Memory()
    >>> [memory.judge(quality) for quality in (1.0, 3.0, 3.0, 2.0, None)]
    [None, 'good', None, 'bad', 'bad']
    """

    def __init__(self) -> None:
        self._seen: list[float] = []

    def judge(self, quality: float | None) -> Verdict | None:
        """Judge a result by those before it, then remember it.

        Of ``n`` earlier qualities in ascending order the one at position ``n // 2`` (from 0) is
        their median. Above it a result is good, below it bad, neither where they are equal or
        there is none before. A failed run (None) is bad, and is not remembered.
        """
        if quality is None:
            return "bad"
        seen = self._seen
        middle = seen[len(seen) // 2] if seen else quality
        insort(seen, quality)
        if quality == middle:
            return None
        return "good" if quality > middle else "bad"


class Weights:
    """The weights of the levels, and of subset against levels; one per episode.

    Args:
        learning: how they change.
        truth: for the shape of the space; its qualities are not looked at.
        subset: where the weights begin; even ones if None.
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

    def learn(self, level_ids: Sequence[int], verdict: Verdict, source: int | None) -> None:
        """Let the levels of a result gain or lose, and where it was drawn from.

        Args:
            level_ids: one per parameter.
            verdict: on the result.
            source: 0 for the subset, 1 for the levels; None if it was neither.
        """
        for weights, level_id in zip(self.levels, level_ids, strict=True):
            weights[level_id] = self._moved(weights[level_id], verdict)
        if source is not None:
            self.source[source] = self._moved(self.source[source], verdict)

    def _moved(self, weight: float, verdict: Verdict) -> float:
        factor = 1.0 + self._learning.rate
        return self._bounded(weight * factor if verdict == "good" else weight / factor)

    def _bounded(self, weight: float) -> float:
        return min(max(weight, 1.0 / self._learning.bound), self._learning.bound)
