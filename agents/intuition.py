"""Intuition: which configurations an analyst tries of her own accord.

The paper's agent runs what Copperline does not suggest "based on the agent intuition"
(section 4.2). The order of the draws is written in `agents.analyst`.
"""

import itertools
from bisect import bisect_right
from collections.abc import Sequence
from typing import Literal

import numpy as np

from agents.insight import Subset
from agents.learning import Learning, Memory, Weights
from agents.streams import below
from agents.truth import Truth

TRIES = 32
"""Draws that may meet a configuration that has a run already, before one is made among the free."""

Well = Literal["subset", "levels", "space"]
"""Where a configuration was drawn from."""

_SOURCES: dict[Well, int | None] = {"subset": 0, "levels": 1, "space": None}


class Free:
    """The configurations without a run, by flat index from 0 to ``size`` - 1.

    >>> free = Free(3)
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
        """Take notice of a run."""
        self.n -= not self._taken[index]
        self._taken[index] = 1

    def draw(self, rng: np.random.Generator) -> int:
        """Draw uniformly among them, of which there is one at least; it stays free."""
        for _ in range(TRIES):
            index = below(rng.random(), len(self._taken))
            if not self._taken[index]:
                return index
        place = below(rng.random(), self.n)
        free = (index for index, taken in enumerate(self._taken) if not taken)
        return next(itertools.islice(free, place, None))


class Intuition:
    """What an analyst would try next, and what she makes of results; one per episode.

    Args:
        truth: for the shape of the space; its qualities are not looked at.
        subset: what she believes in; None without insight.
        learning: None if she does not learn.
        rng: the stream "intuition" of the episode.
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
        self._memory = Memory()
        self._free = Free(truth.size)
        self._members = frozenset(() if subset is None else subset.members.tolist())
        self._free_members = len(self._members)
        self._wells: dict[int, Well] = {}

    @property
    def n_free(self) -> int:
        """Configurations without a run."""
        return self._free.n

    def take(self, index: int) -> None:
        """Take notice of a run, whoever wanted it."""
        self._free_members -= self._free[index] and index in self._members
        self._free.take(index)

    def draw(self) -> int | None:
        """Choose a configuration without a run, and take it; None if there is none."""
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
        """See a result; None is a failed run. One who does not learn is not moved by it."""
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
        """Return a free configuration; None of the space, or if what the levels like is used up."""
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
    """Return the position that a draw from [0, 1) stands for, by weight.

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
