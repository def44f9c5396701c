"""Placement: on which of the machines that have room an instance is placed.

A rule is kernel text: (fleet, need, start) to a machine that has room for the need, or -1 if none
has. No machine before `start` has room; a rule that looks at all may begin there.
"""

from collections.abc import Callable
from dataclasses import dataclass

from sim.errors import UnknownNameError
from sim.kernel.fleet import NONE, Fleet
from sim.kernel.placing import has_room
from sim.kernel.text import kernel
from sim.policies.kinds import Option, switch

ALL_OR_NOTHING = switch(
    "all_or_nothing", False, "a gang is placed in one decision, all of it or nothing"
)
BY_UTILISATION = switch(
    "by_utilisation", True, "units are done as fast as they were counted; 0 is as fast as asked for"
)
EVEN_SHARES = switch(
    "even_shares", False, "k instances on a machine do their CPU units at a k-th of their speed"
)
CPU_UNIT_RATE = Option(
    "cpu_unit_rate", 1.0, "CPU units that a core does", lowest=1e-9, highest=1e9, unit="1/s"
)
GPU_UNIT_RATE = Option(
    "gpu_unit_rate", 1.0, "GPU units that a GPU does", lowest=1e-9, highest=1e9, unit="1/s"
)
BY_TASK = switch("by_task", False, "an order of jobs ranks each task by its own run time and cores")

OPTIONS: tuple[Option, ...] = (
    ALL_OR_NOTHING, BY_TASK, BY_UTILISATION, EVEN_SHARES, CPU_UNIT_RATE, GPU_UNIT_RATE,
)  # fmt: skip
"""What every scenario that places instances can be told."""


@dataclass(frozen=True)
class PlacementRule:
    """A placement rule.

    Attributes:
        name: how a scenario calls it.
        summary: one line for people.
        choose: kernel text, see the head of this module.
    """

    name: str
    summary: str
    choose: Callable[[Fleet, int, int], int]


@kernel
def first_fit(fleet: Fleet, need: int, start: int) -> int:
    """Return the first machine that has room."""
    for machine in range(start, len(fleet.hosts)):
        if has_room(fleet, need, machine):
            return machine
    return NONE


FIRST_FIT = PlacementRule(
    "first_fit", "the first machine that has room, in the order of the cluster", first_fit
)

PLACEMENTS: tuple[PlacementRule, ...] = (FIRST_FIT,)


def placement_named(name: str) -> PlacementRule:
    """Return a registered placement rule.

    Raises:
        UnknownNameError: there is none of that name.
    """
    for rule in PLACEMENTS:
        if rule.name == name:
            return rule
    raise UnknownNameError("placement", name, (rule.name for rule in PLACEMENTS))
