"""Which of many contrasts stand out, without an estimate of the error: Lenth's margins.

Most contrasts of an experiment are noise about zero. Lenth takes the spread of the small ones as
the error, so a design without replicates, even a saturated one, can be judged.

Reference: Lenth 1989, Quick and easy analysis of unreplicated factorials, Technometrics 31;
Montgomery, Design and Analysis of Experiments, 8th ed., section 6.5; Daniel 1959, Use of
half-normal plots in interpreting factorial two-level experiments, Technometrics 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri, stdtrit

LEAST_CONTRASTS = 3
"""Fewer leave Lenth's t less than one degree of freedom."""


@dataclass(frozen=True, slots=True)
class Contrast:
    """One degree of freedom of a term, on a scale that all terms share.

    Args:
        name: such as ``procs linear x order``.
        parameters: names of the term's parameters.
        effect: 2 sqrt(sum of squares / runs), with the sign of the coefficient. For a parameter of
            two levels in a balanced design that is the difference of its level means.
        sum_squares: what leaving this contrast out adds to the residual sum of squares.
    """

    name: str
    parameters: tuple[str, ...]
    effect: float
    sum_squares: float


@dataclass(frozen=True, slots=True)
class Margins:
    """Lenth's pseudo standard error and margins, in the unit of the effects.

    Args:
        pse: the pseudo standard error; all None with ``reason``.
        margin: an effect beyond it stands out if it alone is looked at (95 %).
        simultaneous: an effect beyond it stands out among all (95 %).
        reason: why there are none, None if there are.
    """

    pse: float | None
    margin: float | None
    simultaneous: float | None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class HalfNormalPoint:
    """One contrast of a half-normal plot; noise lies on a line through the origin."""

    name: str
    size: float
    quantile: float


def lenth_margins(effects: Sequence[float]) -> Margins:
    """Return Lenth's margins of m effects of equal variance.

    s0 = 1.5 median |c|; PSE = 1.5 median of the |c| below 2.5 s0; margin = t(0.975, m/3) PSE;
    simultaneous margin = t((1 + 0.95^(1/m)) / 2, m/3) PSE.

    >>> margins = lenth_margins([1.0, -1.0, 2.0, 30.0])
    >>> margins.pse, round(margins.margin, 2)
    (1.5, 10.79)
    """
    sizes = np.abs(np.array(effects, dtype=np.float64))
    m = len(sizes)
    if m < LEAST_CONTRASTS:
        return Margins(
            None, None, None,
            f"Lenth's margins need {LEAST_CONTRASTS} contrasts or more that can be estimated, "
            f"there {'is' if m == 1 else 'are'} {m}.",
        )  # fmt: skip
    s0 = 1.5 * float(np.median(sizes))
    small = sizes[sizes < 2.5 * s0]
    pse = 1.5 * float(np.median(small)) if small.size else 0.0
    if pse == 0:
        return Margins(
            None, None, None,
            "Most contrasts are exactly 0, so there is no noise for Lenth's margins to measure.",
        )  # fmt: skip
    half, all_at_once = (0.975, (1 + 0.95 ** (1 / m)) / 2)
    return Margins(pse, pse * float(stdtrit(m / 3, half)), pse * float(stdtrit(m / 3, all_at_once)))


def half_normal(contrasts: Sequence[Contrast]) -> tuple[HalfNormalPoint, ...]:
    """Return the points of a half-normal plot, the smallest first.

    The i-th of m lies at the standard normal quantile of 0.5 + 0.5 (i - 0.5) / m.
    """
    ordered = sorted(contrasts, key=lambda contrast: abs(contrast.effect))
    m = len(ordered)
    return tuple(
        HalfNormalPoint(c.name, abs(c.effect), float(ndtri(0.5 + 0.5 * (i - 0.5) / m)))
        for i, c in enumerate(ordered, 1)
    )
