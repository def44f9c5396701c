"""From responses to what the model is fitted to, and back.

The model sees z = standardised(A + B): A are normal scores of the ranks, B the standardised
logarithm of the distance from the best response. Ranks are robust to outliers, the logarithm keeps
the resolution near the best. Both are monotone, so a prediction goes back to a response, and a
chance to beat the best is the same on both scales.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from strategies.anova.kernel import Floats


@dataclass(frozen=True, slots=True, eq=False)
class Targets:
    """Responses as targets, greater is better in both.

    Args:
        z: targets [n], mean 0 and standard deviation 1 (or all 0).
        knots: distinct targets, ascending.
        responses: the response of each knot, ascending.
    """

    z: Floats
    knots: Floats
    responses: Floats

    @classmethod
    def of(cls, responses: Floats) -> Targets:
        """Return the targets of responses [n], greater is better."""
        n = responses.size
        if n == 0:
            empty = np.zeros(0)
            return cls(empty, empty, empty)
        ranks = (mean_ranks(responses) - 0.5) / n
        losses = responses.max() - responses
        scale = float(np.median(losses)) or float(losses.max())
        logs = np.log1p(losses / (0.5 * scale)) if scale > 0 else losses
        z = _standardised(_standardised(ndtri(ranks)) - _standardised(logs))
        knots, first = np.unique(z, return_index=True)
        return cls(z, knots, responses[first])

    def response(self, z: float) -> float:
        """Return the response at a target, linear between the observed ones and beyond."""
        return float(self.responses_at(np.float64(z)))

    def responses_at(self, z: Floats | np.float64) -> Floats:
        """Return the responses at targets of any shape; see `response`."""
        knots, responses = self.knots, self.responses
        if knots.size < 2:
            return np.full(np.shape(z), responses[0])
        i = np.clip(np.searchsorted(knots, z), 1, knots.size - 1)
        slope = (responses[i] - responses[i - 1]) / (knots[i] - knots[i - 1])
        found: Floats = responses[i] + slope * (z - knots[i])
        return found


def _standardised(values: Floats) -> Floats:
    spread = float(values.std())
    shifted: Floats = values - values.mean()
    return shifted / spread if spread > 0 else np.zeros_like(values)


def mean_ranks(values: Floats) -> Floats:
    """Return the ranks of numbers from 1, float64 [n]; equal ones share the mean of theirs.

    As `scipy.stats.rankdata` does, whose import would cost every start a quarter of a second.

    >>> mean_ranks(np.array([3.0, 1.0, 3.0])).tolist()
    [2.5, 1.0, 2.5]
    """
    _, which, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks: Floats = (np.cumsum(counts) - (counts - 1) / 2)[which]
    return ranks
