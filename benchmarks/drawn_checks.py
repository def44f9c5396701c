"""Checks of drawn figures against expected ones, each with its interval."""

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
NORMAL = NormalDist()
LEVEL = 0.95


@dataclass(frozen=True)
class Check:
    """One row of the table.

    Attributes:
        rule: of the checklist, J3 to J17.
        what: is measured.
        expected: by the rule.
        measured: of what was drawn.
        low: of the 95 % interval around `measured`; `measured` itself if nothing is random.
        high: likewise.
        z: how many standard errors `measured` is from `expected`; 0 or infinite without chance.
        n: how many draws it is of.
    """

    rule: str
    what: str
    expected: float
    measured: float
    low: float
    high: float
    z: float
    n: int

    @property
    def is_in_interval(self) -> bool:
        """Whether the expectation is in the interval; of 20 true rules one is not, by chance."""
        return self.low <= self.expected <= self.high


def holds(check: Check, n_checks: int) -> bool:
    """Tell whether a check holds at a level at which all do together with 95 % (Bonferroni)."""
    return abs(check.z) <= NORMAL.inv_cdf(1.0 - (1.0 - LEVEL) / (2.0 * n_checks))


def _around(rule: str, what: str, expected: float, measured: float, error: float, n: int) -> Check:
    half = NORMAL.inv_cdf((1.0 + LEVEL) / 2.0) * error
    z = (measured - expected) / error if error > 0 else math.copysign(math.inf, measured - expected)
    z = 0.0 if measured == expected else z
    return Check(rule, what, expected, measured, measured - half, measured + half, z, n)


def share(rule: str, what: str, expected: float, found: Bools) -> Check:
    """Return a check of a share; its error is that of the expected one."""
    n = max(len(found), 1)
    error = math.sqrt(expected * (1.0 - expected) / n)
    return _around(rule, what, expected, float(np.mean(found)) if len(found) else -1.0, error, n)


def mean(rule: str, what: str, expected: float, values: Floats) -> Check:
    """Return a check of a mean."""
    n = max(len(values), 2)
    error = float(values.std(ddof=1)) / math.sqrt(n)
    return _around(rule, what, expected, float(values.mean()), error, n)


def never(rule: str, what: str, broken: Bools) -> Check:
    """Return a check of what no row may break, of rows of which there are some."""
    n_broken = int(np.sum(broken)) if len(broken) else 1
    return _around(rule, f"{what}: rows that break it", 0.0, float(n_broken), 0.0, len(broken))
