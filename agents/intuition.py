"""Intuition: which configurations an analyst tries of her own accord.

The paper's agent runs what Copperline does not suggest "based on the agent intuition"
(section 4.2). The order of the draws is written in `agents.analyst`.
"""

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
        self._taken = bytearray(truth.size)
        self._n_free = truth.size
        self._members = frozenset(() if subset is None else subset.members.tolist())
        self._free_members = len(self._members)
        self._wells: dict[int, Well] = {}

    @property
    def n_free(self) -> int:
        """Configurations without a run."""
        return self._n_free

    def take(self, index: int) -> None:
        """Take notice of a run, whoever wanted it."""
        if not self._taken[index]:
            self._taken[index] = 1
            self._n_free -= 1
            self._free_members -= index in self._members

    def draw(self) -> int | None:
        """Choose a configuration without a run, and take it; None if there is none."""
        if self._n_free == 0:
            return None
        well = self._choose_well()
        index = self._draw_from(well)
        if index is None:  # what the levels like best is used up
            well = "space"
            index = self._from_space()
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
        if well == "levels":
            return self._from_levels()
        return self._from_subset() if well == "subset" else self._from_space()

    def _from_subset(self) -> int:
        subset = self._subset
        assert subset is not None  # noqa: S101 - it has free members
        for _ in range(TRIES):
            target = self._rng.random() * float(subset.cumulative[-1])
            position = min(bisect_right(subset.cumulative, target), subset.members.size - 1)
            index = int(subset.members[position])
            if not self._taken[index]:
                return index
        free = [i for i, member in enumerate(subset.members.tolist()) if not self._taken[member]]
        weights = [float(subset.weights[i]) for i in free]
        return int(subset.members[free[pick(weights, self._rng.random())]])

    def _from_levels(self) -> int | None:
        assert self.weights is not None  # noqa: S101 - only a learner has levels
        for _ in range(TRIES):
            index = 0
            for weights in self.weights.levels:
                index = index * len(weights) + pick(weights, self._rng.random())
            if not self._taken[index]:
                return index
        return None

    def _from_space(self) -> int:
        for _ in range(TRIES):
            index = below(self._rng.random(), self._truth.size)
            if not self._taken[index]:
                return index
        place = below(self._rng.random(), self._n_free)
        free = (index for index, taken in enumerate(self._taken) if not taken)
        return next(index for position, index in enumerate(free) if position == place)


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
