"""Rules by the shape of what is asked for and of what is free: angles and products of vectors.

All are shares: of a machine's own capacity, or of the largest machine's where that is said. What
limits nobody is left out.
"""

import math

from sim.kernel.choosing import tightest_device
from sim.kernel.fleet import AMOUNTS, Fleet
from sim.kernel.text import kernel
from sim.policies.placements.kinds import by_score


@kernel
def away_from(fleet: Fleet, need: int, machine: int) -> float:
    """Return minus the cosine of the angle between what is asked for and what is free.

    -(sum d_r f_r) / (|d| |f|), d_r and f_r being shares of the machine; 0 if either has no length.
    """
    gauges, at, wants = fleet.gauges, machine * AMOUNTS, need * AMOUNTS
    along = asked = free = 0.0
    for r in range(AMOUNTS):
        if gauges.capacity[at + r] > 0:
            whole = float(gauges.capacity[at + r])
            d, f = float(fleet.demand[wants + r]) / whole, float(fleet.free[at + r]) / whole
            along += d * f
            asked += d * d
            free += f * f
    lengths = asked * free
    return -(along / math.sqrt(lengths)) if lengths > 0.0 else 0.0


@kernel
def off_diagonal(fleet: Fleet, machine: int, need: int, times: float) -> float:
    """Return how far a machine's used shares are from being all the same.

    The distance of the vector u from the diagonal, sqrt(sum (u_r - mean u)^2), with an instance
    of a need so many times more.
    """
    gauges, at, wants = fleet.gauges, machine * AMOUNTS, need * AMOUNTS
    total, n = 0.0, 0
    for r in range(AMOUNTS):
        if gauges.capacity[at + r] > 0:
            more = times * float(fleet.demand[wants + r])
            total += (float(fleet.free[at + r]) - more) / float(gauges.capacity[at + r])
            n += 1
    if n == 0:
        return 0.0
    mean, squares = total / n, 0.0
    for r in range(AMOUNTS):
        if gauges.capacity[at + r] > 0:
            more = times * float(fleet.demand[wants + r])
            off = (float(fleet.free[at + r]) - more) / float(gauges.capacity[at + r]) - mean
            squares += off * off
    return math.sqrt(squares)


@kernel
def further_off(fleet: Fleet, need: int, machine: int) -> float:
    """Return by how much an instance takes a machine away from using as much of everything."""
    return off_diagonal(fleet, machine, need, 1.0) - off_diagonal(fleet, machine, need, 0.0)


@kernel
def against(fleet: Fleet, need: int, machine: int) -> float:
    """Return minus the alignment of Tetris: -(sum d_r f_r), shares of the machine."""
    gauges, at, wants = fleet.gauges, machine * AMOUNTS, need * AMOUNTS
    along = 0.0
    for r in range(AMOUNTS):
        if gauges.capacity[at + r] > 0:
            whole = float(gauges.capacity[at + r])
            along += (float(fleet.demand[wants + r]) / whole) * (float(fleet.free[at + r]) / whole)
    return -along


@kernel
def product(fleet: Fleet, need: int, machine: int) -> float:
    """Return sum d_r f_r, both as shares of the most that any machine has."""
    gauges, at, wants = fleet.gauges, machine * AMOUNTS, need * AMOUNTS
    along = 0.0
    for r in range(AMOUNTS):
        if gauges.capacity[at + r] > 0:
            most = gauges.largest[r]
            along += (float(fleet.demand[wants + r]) / most) * (float(fleet.free[at + r]) / most)
    return along


COSINE = by_score(
    "cosine_similarity",
    "the machine whose free resources point where the request does (as in Bergsma et al. 2021)",
    away_from,
)
PERP_DISTANCE = by_score(
    "perp_distance",
    "the machine whose use stays, or becomes, most even over its resources (delta perp-distance, "
    "as in Bergsma et al. 2021)",
    further_off,
)
TETRIS = by_score(
    "tetris",
    "the machine with the largest product of request and free resources (Grandl et al. 2014)",
    against,
)
DOT_PRODUCT = by_score(
    "dot_product",
    "the machine with the smallest such product, as the baseline DotProd of Weng et al. 2023",
    product,
    tightest_device,
)
