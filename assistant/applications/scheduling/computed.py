"""Levels of the paper's three parameters, computed from a workload.

Section 4.1.1 and figure 5 of the Copper paper: 22 sizes of the small partition, 20 requested times
and 20 numbers of processors up to which a job goes there.
"""

import itertools
import math

import numpy as np

from sim.api import TooWide, Workload
from strategies import Level

SMALL_PROCS = "small_procs"
SMALL_MAX_REQUESTED = "small_max_requested_s"
SMALL_MAX_PROCS = "small_max_procs"
COMPUTED = (SMALL_PROCS, SMALL_MAX_REQUESTED, SMALL_MAX_PROCS)

N_SPLITS, N_TIMES, N_WIDTHS = 22, 20, 20


def computed_levels(
    workload: Workload, cluster_procs: int, too_wide: TooWide, machine_procs: int = 1
) -> dict[str, tuple[Level, ...]]:
    """Return the levels of each of `COMPUTED`, ascending.

    Args:
        workload: the jobs.
        cluster_procs: processors of the cluster.
        too_wide: unless such jobs are clipped, the main partition keeps room for the widest one.
        machine_procs: of which every partition has a multiple.
    """
    room = max(cluster_procs - workload.widest_procs, 0)
    if too_wide == "clip":
        room = max(room, cluster_procs // 2)
    n_machines = np.linspace(0, room // machine_procs, N_SPLITS).round().astype(int)
    splits = np.unique(n_machines) * machine_procs
    requested_s, procs = workload.requested_s, workload.procs
    return {
        SMALL_PROCS: tuple(splits.tolist()),
        SMALL_MAX_REQUESTED: times(float(requested_s.min()), float(requested_s.max())),
        SMALL_MAX_PROCS: widths(int(procs.min()), int(procs.max())),
    }


_ROUND_TIMES_S = tuple(
    size * count
    for size, counts in (
        (60, (1, 2, 5, 10, 15, 20, 30, 45)),
        (3_600, (1, 1.5, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20)),
        (86_400, (1, 1.5, 2, 3, 4, 5, 7, 10, 14, 21, 30, 60, 120, 365)),
    )
    for count in counts
)


def times(least_s: float, most_s: float) -> tuple[Level, ...]:
    """Return up to 20 round durations from the shortest request to one that admits the longest."""
    inside = [int(t) for t in _ROUND_TIMES_S if least_s <= t < most_s]
    last = next((int(t) for t in _ROUND_TIMES_S if t >= most_s), int(-(-most_s // 60)) * 60)
    if len(inside) > N_TIMES - 1:
        picked = np.linspace(0, len(inside) - 1, N_TIMES - 1).round().astype(int)
        inside = [inside[i] for i in picked]
    return filled([*inside, last], N_TIMES, step=60)


def widths(least: int, most: int) -> tuple[Level, ...]:
    """Return up to 20 numbers of processors, evenly on a log scale, the last the widest job's."""
    raw = np.unique(np.geomspace(least, most, N_WIDTHS).round().astype(int)).tolist()
    return filled(raw, N_WIDTHS, step=1)


def filled(levels: list[int], count: int, step: int) -> tuple[Level, ...]:
    """Add multiples of ``step`` in the widest gaps (by ratio) until there are ``count`` levels.

    Fewer come back only if there is no room between the first and the last.
    """
    chosen = sorted(set(levels))
    while len(chosen) < count:
        gaps = [(b / a, a, b) for a, b in itertools.pairwise(chosen) if b - a >= 2 * step]
        if not gaps:
            break
        _, low, high = max(gaps)
        middle = round(math.sqrt(low * high) / step) * step
        chosen = sorted({*chosen, min(max(middle, low + step), high - step)})
    return tuple(chosen)
