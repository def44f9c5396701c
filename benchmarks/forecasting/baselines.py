"""What a forecast is measured beside: the paper's rule in its readings, bounds and lines.

The paper (section 3.2) compares the runs pending in regions of good results with those that are
left, whatever the goal; it leaves open what is good and what is pending. The regret bound says miss
where no untried configuration's optimistic value reaches the goal, as stopping rules do. The line
goes on from the best-so-far curve over the logarithm of the runs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from strategies import Knowledge, PendingRule, RegionRule, find_regions, pending_in_region

READINGS: Mapping[str, tuple[PendingRule, RegionRule]] = {
    "near the good ones": ("near", RegionRule()),
    "in the regions' boxes": ("box", RegionRule()),
    "near, wide regions": ("near", RegionRule(eps=2.0)),
    "waiting in the queue": ("queued", RegionRule()),
}
"""What counts as pending: allowed configurations without a run near a region's members, or in its
box; or runs that wait there, of which a sweep that asks one at a time has none."""

OPTIMISM = 2.0
"""Standard deviations that the regret bound gives to what is untried."""


def paper_shares(knowledge: Knowledge, readings: Mapping[str, object]) -> list[int | None]:
    """Return the pending runs by reading; None where they cannot be counted."""
    pending = []
    for name in readings:
        rule, region_rule = READINGS[name]
        regions = find_regions(knowledge, region_rule)
        counts = [
            pending_in_region(knowledge.space, region, knowledge, rule, region_rule.radius).count
            for region in regions
        ]
        known = [count for count in counts if count is not None]
        pending.append(sum(known) if len(known) == len(counts) else None)
    return pending


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
