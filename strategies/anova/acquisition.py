"""What a run is worth: expected improvement in logarithms.

Reference: Jones, Schonlau & Welch 1998, Efficient global optimization, equation 15; the
logarithm avoids that all far configurations are worth exactly 0 (Ament et al. 2023).
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import erfcx, ndtr

from strategies.anova.kernel import Floats

MIDDLE, FAR = -1.0, -1e3
_LOG_ROOT_2PI = 0.5 * math.log(2.0 * math.pi)
_ROOT_HALF_PI = math.sqrt(math.pi / 2.0)


def log_expected_improvement(mean: Floats, sd: Floats, best: float | Floats) -> Floats:
    """Return log E max(f - best, 0) for f ~ N(mean, sd^2), broadcast; sd > 0.

    With u = (mean - best) / sd it is log sd + log(u Phi(u) + phi(u)); below -1 as
    log phi(u) + log(1 + u Phi(u) / phi(u)), the ratio by the scaled complementary error function,
    and below -1000 by its limit log phi(u) - 2 log|u|.
    """
    u = (mean - best) / sd
    near = np.maximum(u, MIDDLE)
    log_density = -0.5 * u * u - _LOG_ROOT_2PI
    body = np.log(near * ndtr(near) + np.exp(-0.5 * near * near - _LOG_ROOT_2PI))
    middle = np.clip(u, FAR, MIDDLE)
    ratio = _ROOT_HALF_PI * erfcx(-middle / math.sqrt(2.0))
    tail = log_density + np.log1p(middle * ratio)
    limit = log_density - 2.0 * np.log(-np.minimum(u, FAR))
    found: Floats = np.where(u > MIDDLE, body, np.where(u > FAR, tail, limit)) + np.log(sd)
    return found
