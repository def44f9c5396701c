"""How far the model sees beyond the best run: whether a goal lies within what is untried.

A Gaussian process is too sure of itself below the best value that was seen, so its probabilities
are not taken for what they are: a forecast takes the standardised distance as one number of
several and is calibrated on what came of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from strategies.anova.kernel import Floats, Ints
from strategies.anova.model import AnovaModel
from strategies.anova.pool import free_ids
from strategies.anova.targets import Targets
from strategies.knowledge import Knowledge

DRAWN = 4096
"""Configurations that stand for a space with more than can be listed ..."""

CENTRES = 8
"""... with the neighbours of its best runs."""

TOP = 3
"""Results next to the best whose mean slope carries the scale of targets beyond it."""

MOST = 6.0
"""Standard deviations of the targets beyond the best run that are told apart."""


@dataclass(frozen=True, slots=True, eq=False)
class Reach:
    """The predictions for what is untried, on the scale of the model's targets.

    Args:
        mean: expected targets, float64 [m].
        deviation: their standard deviations, with the model's doubt, float64 [m], above 0.
        targets: the scale.
    """

    mean: Floats
    deviation: Floats
    targets: Targets

    @classmethod
    def of(cls, knowledge: Knowledge) -> Reach | None:
        """Return it for what is known; None without two distinct results or anything untried."""
        model = AnovaModel.of(knowledge)
        if model is None or model.targets.knots.size < 2:
            return None
        ids = _untried(knowledge)
        if not len(ids):
            return None
        mean, deviation = model.posterior.predict(model.reduced(ids))
        return cls(mean, np.maximum(deviation * model.doubt, 1e-9), model.targets)

    def beyond(self, response: float) -> float:
        """Return the greatest (mean - goal) / deviation over what is untried.

        Args:
            response: the goal, greater is better.
        """
        goal = self._target(response)
        return float(((self.mean - goal) / self.deviation).max())

    def _target(self, response: float) -> float:
        """Return the target of a response at or beyond the best one, at most `MOST` beyond."""
        knots, responses = self.targets.knots, self.targets.responses
        i = max(0, knots.size - 1 - TOP)
        slope = (knots[-1] - knots[i]) / (responses[-1] - responses[i])
        return min(float(knots[-1] + slope * (response - responses[-1])), float(knots[-1]) + MOST)


def _untried(knowledge: Knowledge) -> Ints:
    """Return level ids [m, parameters] of all that is untried, or of a sample of it."""
    tried = {o.configuration for o in knowledge.observations}
    tried |= {failure.configuration for failure in knowledge.failures}
    listed = free_ids(knowledge, tried)
    if listed is not None:
        return listed
    space, rng = knowledge.space, np.random.default_rng(0)
    best = sorted(knowledge.observations, key=lambda o: (-o.violation, o.quality))[-CENTRES:]
    rows = [
        (*one.configuration.level_ids[:i], level, *one.configuration.level_ids[i + 1 :])
        for one in best
        for i, levels in enumerate(space.open_ids)
        for level in levels
    ]
    drawn = np.stack([rng.choice(levels, DRAWN) for levels in space.open_ids], axis=1)
    taken = {configuration.level_ids for configuration in tried}
    near = [row for row in rows if row not in taken]
    return np.concatenate([np.array(near, dtype=np.int64).reshape(len(near), -1), drawn])
