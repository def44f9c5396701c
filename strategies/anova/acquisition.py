"""What a run is worth: expected improvement in logarithms.

Reference: Jones, Schonlau & Welch 1998, Efficient global optimization, equation 15; the
logarithm avoids that all far configurations are worth exactly 0 (Ament et al. 2023).
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import log_ndtr, ndtr

from strategies.anova.kernel import Floats

TAIL = -5.0
_LOG_ROOT_2PI = 0.5 * math.log(2.0 * math.pi)


def log_expected_improvement(mean: Floats, sd: Floats, best: float | Floats) -> Floats:
    """Return log E max(f - best, 0) for f ~ N(mean, sd^2), broadcast; sd > 0."""
    u = (mean - best) / sd
    inner = np.maximum(u, TAIL)
    density = np.exp(-0.5 * inner * inner - _LOG_ROOT_2PI)
    body = np.log(inner * ndtr(inner) + density)
    outer = np.minimum(u, TAIL)
    tail = -0.5 * outer * outer - _LOG_ROOT_2PI - 2.0 * np.log(-outer)
    found: Floats = np.where(u > TAIL, body, tail) + np.log(sd)
    return found


def chance_to_beat(mean: float, sd: float, best: float) -> float:
    """Return the probability that f ~ N(mean, sd^2) is greater than the best."""
    return float(np.exp(log_ndtr((mean - best) / sd)))
