"""Placement: on which of the machines that have room an instance is placed.

The rules themselves are in `sim.policies.placements`. Which task is next is not theirs: that is up
to the order.
"""

from sim.errors import ScenarioError, UnknownNameError
from sim.kernel.text import is_kernel
from sim.policies.kinds import Option, switch
from sim.policies.placements.fits import BEST_FIT, BUSIEST_FIT, FIRST_FIT, RANDOM, WORST_FIT
from sim.policies.placements.gpus import FGD, GPU_CLUSTERING, GPU_PACKING
from sim.policies.placements.kinds import PlacementRule
from sim.policies.placements.shapes import COSINE, DOT_PRODUCT, PERP_DISTANCE, TETRIS

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

OPTIONS: tuple[Option, ...] = (
    ALL_OR_NOTHING, BY_UTILISATION, EVEN_SHARES, CPU_UNIT_RATE, GPU_UNIT_RATE,
)  # fmt: skip
"""What every scenario that places instances can be told."""


PLACEMENTS: tuple[PlacementRule, ...] = (
    FIRST_FIT, BEST_FIT, WORST_FIT, RANDOM, BUSIEST_FIT, COSINE, PERP_DISTANCE, TETRIS, DOT_PRODUCT,
    GPU_PACKING, GPU_CLUSTERING, FGD,
)  # fmt: skip

_others: dict[str, PlacementRule] = {}


def register_placement(rule: PlacementRule) -> None:
    """Make a rule of one's own known to this process, by its name, in all engines.

    Its choice is one function marked with `sim.kernel.text.kernel`, which calls nothing but kernel
    functions of Copperline; every process that simulates with it registers it.

    Raises:
        ScenarioError: the name is taken, or the choice is not marked.
    """
    if rule.name in {known.name for known in PLACEMENTS}:
        raise ScenarioError(f"placement '{rule.name}' is one of Copperline's; take another name.")
    if not is_kernel(rule.choose):
        raise ScenarioError(
            f"the choice of placement '{rule.name}' is no kernel function; mark it with @kernel."
        )
    _others[rule.name] = rule


def placement_named(name: str) -> PlacementRule:
    """Return a registered placement rule.

    Raises:
        UnknownNameError: there is none of that name.
    """
    known = {rule.name: rule for rule in PLACEMENTS} | _others
    if name not in known:
        raise UnknownNameError("placement", name, known)
    return known[name]
