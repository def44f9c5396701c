"""First, best, worst and busiest fit, and by lot."""

from sim.kernel.choosing import choose_by_lot, loosest_device, tightest_device
from sim.kernel.fleet import AMOUNTS, FROM, NONE, Fleet
from sim.kernel.placing import has_room
from sim.kernel.text import kernel
from sim.policies.kinds import Option
from sim.policies.placements.kinds import PlacementRule, by_score

WEIGHTS: tuple[Option, ...] = tuple(
    Option(f"{short}_weight", 1.0, f"how much {what} counts in the score", 0.0, 1e9)
    for short, what in (
        ("cpu", "cores"),
        ("mem", "memory"),
        ("disk", "disk"),
        ("gpu", "GPUs"),
    )
)
"""One for each of a machine's resources, in their order."""


@kernel
def first_fit(fleet: Fleet, need: int, start: int) -> int:
    """Return the first machine that has room."""
    for machine in range(start, len(fleet.hosts)):
        if has_room(fleet, need, machine):
            fleet.cursor[FROM] = machine
            return machine
    return NONE


@kernel
def left_over(fleet: Fleet, need: int, machine: int) -> float:
    """Return what a machine has left after an instance: sum of w_r (free_r - asked_r) / max_r.

    max_r is the most that any machine has. Weng et al., USENIX ATC 2023, section 6: best fit.
    What limits nobody is left out.
    """
    gauges, at, wants = fleet.gauges, machine * AMOUNTS, need * AMOUNTS
    total = 0.0
    for r in range(AMOUNTS):
        if gauges.capacity[at + r] > 0:
            left = fleet.free[at + r] - fleet.demand[wants + r]
            total += gauges.told[r] * (float(left) / gauges.largest[r])
    return total


@kernel
def taken_before(fleet: Fleet, need: int, machine: int) -> float:
    """Return minus what a machine has left after an instance, see `left_over`."""
    return -left_over(fleet, need, machine)


@kernel
def idle_share(fleet: Fleet, _need: int, machine: int) -> float:
    """Return the mean share of a machine's resources that nobody holds, before the instance."""
    gauges, at = fleet.gauges, machine * AMOUNTS
    total, n = 0.0, 0
    for r in range(AMOUNTS):
        if gauges.capacity[at + r] > 0:
            total += float(fleet.free[at + r]) / float(gauges.capacity[at + r])
            n += 1
    return total / n if n > 0 else 0.0


FIRST_FIT = PlacementRule(
    "first_fit", "the first machine that has room, in the order of the cluster", first_fit
)
BEST_FIT = by_score(
    "best_fit",
    "the machine that has least left then, in shares of the largest one (Weng et al. 2023)",
    left_over,
    tightest_device,
    options=WEIGHTS,
)
WORST_FIT = by_score(
    "worst_fit", "the machine that has most left then", taken_before, loosest_device,
    options=WEIGHTS,
)  # fmt: skip
RANDOM = PlacementRule(
    "random", "any machine that has room, each as likely; by the scenario's seed", choose_by_lot
)
BUSIEST_FIT = by_score(
    "busiest_fit",
    "the machine of which the largest share is held (Bergsma et al. 2021)",
    idle_share,
)
