"""The chance that a run succeeds, from which runs did and which failed.

Failures say nothing about quality, so they are kept out of the model of quality and have one of
their own: the same kernel on labels +1 (a result) and -1 (none) less m, their mean with one more
run of each kind, and

    p = Phi((mu + m) / sqrt(0.15 + sd^2)), kept within [0.01, 0.99].

Reference: least-squares classification, Rasmussen & Williams 2006, section 6.5; probability of
feasibility as a weight of expected improvement, Gardner et al. 2014, Bayesian optimization with
inequality constraints.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import ndtr

from strategies.anova.fit import Prior, learn, n_learnt
from strategies.anova.kernel import Axis, Floats, Ints
from strategies.anova.posterior import Posterior

PRIOR = Prior(main=1 / 3, product=1 / 3, noise=0.05)
SOFTNESS = 0.15
ITERATIONS = 12
LEAST = 0.01


class Validity:
    """The chance of success over the grid.

    Args:
        axes: d axes.
        succeeded: level ids of the runs with a result [n, d].
        failed: level ids of the runs without [m, d], m at least 1.
    """

    def __init__(self, axes: Sequence[Axis], succeeded: Ints, failed: Ints) -> None:
        self._mean = 2.0 * (len(succeeded) + 1) / (len(succeeded) + len(failed) + 2) - 1.0
        few = [runs[: n_learnt(len(runs))] for runs in (succeeded, failed)]
        hyperparameters = learn(axes, *self._labelled(*few), PRIOR, ITERATIONS)
        labelled = self._labelled(succeeded, failed)
        self._posterior = Posterior(tuple(axes), hyperparameters, *labelled)

    def _labelled(self, succeeded: Ints, failed: Ints) -> tuple[Ints, Floats]:
        """Return the level ids of all runs, and their targets."""
        labels = np.concatenate([np.ones(len(succeeded)), -np.ones(len(failed))])
        return np.concatenate([succeeded, failed]), labels - self._mean

    def chance(self, ids: Ints) -> Floats:
        """Return the chance of success [m] of level ids [m, d]."""
        mean, sd = self._posterior.predict(ids)
        p = ndtr((mean + self._mean) / np.sqrt(SOFTNESS + sd * sd))
        found: Floats = np.clip(p, LEAST, 1.0 - LEAST)
        return found
