"""Finding a place where runs succeed, before there are results to learn from.

A configuration is worth log p + 0.5 log(D + 0.001): D is its distance to the nearest tried one (a
sum over parameters of differences of positions), and p the chance of success near it, the share of
successes weighted by exp(-2 D^2), with 0.15 of 0.5 runs from nowhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from strategies.anova.kernel import Axis, Floats, Ints
from strategies.configuration import Configuration
from strategies.knowledge import Knowledge


@dataclass(frozen=True, slots=True, eq=False)
class Scouting:
    """What was tried, and what came of it.

    Args:
        axes: one per parameter.
        tried: level ids of what succeeded, failed or is under way [n, d].
        ended: whether each has ended, [n].
        succeeded: whether each gave a result, [n].
    """

    axes: tuple[Axis, ...]
    tried: Ints
    ended: Floats
    succeeded: Floats

    @classmethod
    def of(cls, knowledge: Knowledge, ongoing: Sequence[Configuration]) -> Scouting:
        """Return what is known; ``ongoing`` is under way or about to be proposed."""
        done = [o.configuration for o in knowledge.observations]
        failed = [f.configuration for f in knowledge.failures]
        tried = [*done, *failed, *ongoing]
        ids = np.array([c.level_ids for c in tried], dtype=np.int64)
        ended = np.array([1.0] * (len(done) + len(failed)) + [0.0] * len(ongoing))
        succeeded = np.array([1.0] * len(done) + [0.0] * (len(tried) - len(done)))
        axes = tuple(Axis.of(parameter) for parameter in knowledge.space.parameters)
        return cls(axes, ids.reshape(len(tried), len(axes)), ended, succeeded)

    def worth(self, ids: Ints) -> Floats:
        """Return the worth [m] of level ids [m, d]; all 0 before anything was tried."""
        if not len(self.tried):
            return np.zeros(len(ids))
        nearest = np.full(len(ids), np.inf)
        good, all_near = np.zeros(len(ids)), np.zeros(len(ids))
        for row, ended, succeeded in zip(self.tried, self.ended, self.succeeded, strict=True):
            distance = np.zeros(len(ids))
            for i, axis in enumerate(self.axes):
                distance += axis.distances(ids[:, i], row[i])
            np.minimum(nearest, distance, out=nearest)
            near = np.exp(-2.0 * distance * distance)
            good += succeeded * near
            all_near += ended * near
        found: Floats = np.log((good + 0.15) / (all_near + 0.5)) + 0.5 * np.log(nearest + 1e-3)
        return found
