"""What a forecast is measured beside: the paper's rule in its readings, bounds and lines.

The paper (section 3.2) compares the runs pending in regions of good results with those that are
left, whatever the goal; it leaves open what is good and what is pending. The regret bound says miss
where no untried configuration's optimistic value reaches the goal, as stopping rules do. The line
goes on from the best-so-far curve over the logarithm of the runs.

The rule counts as the product does: each configuration once, however many regions it lies in, and
nothing at all while there is no region or too many configurations to count; that is no forecast,
and scored as an even chance. The reading ``plan``, what is left of the range of values that the
analyst declared, cannot be had: no episode has a plan.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from assistant.analysis.paper_forecast import count_pending
from strategies import Knowledge, PendingRule, RegionRule, find_regions, pending_in_region
from strategies.steering.regions import good_configurations, step_coordinates

READINGS: Mapping[str, tuple[PendingRule, RegionRule | None]] = {
    "near the good ones": ("near", RegionRule()),
    "in the regions' boxes": ("box", RegionRule()),
    "near, wide regions": ("near", RegionRule(eps=2.0)),
    "boxes, eps by third neighbours": ("box", None),
    "waiting in the queue": ("queued", RegionRule()),
}
"""What counts as pending: allowed configurations without a run near a region's members, or in its
box; or runs that wait there, of which a sweep that asks one at a time has none. Regions are found
by a rule, or (None) with the median distance of good configurations from their third neighbour."""

NEIGHBOUR = 3

OPTIMISM = 2.0
"""Standard deviations that the regret bound gives to what is untried."""


def paper_shares(knowledge: Knowledge, readings: Mapping[str, object]) -> list[int | None]:
    """Return the pending runs by reading; None where they cannot be counted."""
    pending = []
    for name in readings:
        rule, fixed = READINGS[name]
        region_rule = _by_neighbours(knowledge) if fixed is None else fixed
        radius = region_rule.radius
        found = [
            pending_in_region(knowledge.space, region, knowledge, rule, radius)
            for region in find_regions(knowledge, region_rule)
        ]
        pending.append(count_pending(found))
    return pending


def _by_neighbours(knowledge: Knowledge) -> RegionRule:
    """Return the rule whose eps is the median distance of good ones from their third neighbour."""
    good = good_configurations(knowledge.observations, RegionRule())
    if len(good) <= NEIGHBOUR:
        return RegionRule()
    points = step_coordinates(knowledge.space, good)
    away = np.sort(np.linalg.norm(points[:, None] - points[None], axis=2), axis=1)
    return RegionRule(eps=float(np.median(away[:, NEIGHBOUR])))


def extrapolated(values: NDArray[np.float64], budget: int) -> float:
    """Return the best value at the end, on a line through the later half over ln(runs).

    Args:
        values: the objective so far, float64 [n], NaN where a run failed; one is a number.
        budget: runs in all.
    """
    best = np.fmin.accumulate(values)
    n = np.arange(1, len(best) + 1)
    half = (n > len(best) // 2) & ~np.isnan(best)
    if half.sum() < 2:
        return float(best[-1])
    slope = np.polyfit(np.log(n[half]), best[half], 1)[0]
    return float(best[-1] + min(slope, 0.0) * math.log(budget / len(best)))


def bounded(reach: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return 1.0 where even the optimistic value of everything untried misses the goal."""
    return np.where(reach < -OPTIMISM, 1.0, 0.0)


def names() -> Sequence[str]:
    """Return the readings of the paper's rule, in order."""
    return tuple(READINGS)
