"""Draw small scenarios with moldable jobs; ties, coincidences and full machines are likely."""

from dataclasses import replace

import numpy as np

from sim import ClusterSpec, Partition, Scenario
from sim.model.moldable import Moldability
from sim.policies.orders import ORDERS
from tests.draw.dependencies import dependent_workload

RULES = ("none", "greedy", "easy", "easy")


def moldable_scenario(seed: int) -> Scenario:
    """Draw a scenario with moldable jobs under any policies that allow them."""
    rng = np.random.default_rng(seed)
    dependencies = str(rng.choice(["ignore", "ignore", "logged"]))
    orders = [o.name for o in ORDERS if dependencies == "ignore" or not o.uses_submission]
    last = Partition("last", 8 + int(rng.integers(0, 4)))
    short = Partition("short", int(rng.integers(1, 8)), float(rng.choice([0.5, 2.0, 6.0])))
    backfill = str(rng.choice(RULES))
    scenario = Scenario(
        dependent_workload(rng),
        ClusterSpec((short, last) if rng.random() < 0.3 else (last,)),
        order=str(rng.choice(orders)),
        backfill=backfill,
        overrun=str(rng.choice(["raise", "kill", "extend", "extend_at_events"])),  # type: ignore[arg-type]
        dependencies=dependencies,  # type: ignore[arg-type]
        moldable=Moldability(
            int(rng.integers(1, 4)),
            float(rng.choice([0.25, 0.5, 1.0, 1.0, 4.0])),
            float(rng.choice([0.0, 0.3, 1.0, 1.0, 1.7])),
        ),
    )
    options: dict[str, float] = {}
    if scenario.order == "multifactor" and rng.random() < 0.5:
        options["fairshare_weight"] = 5000.0
    if backfill == "easy":
        names = ("extra_processors", "reserve_anew", "actual_times")
        options |= {name: float(rng.integers(0, 2)) for name in names}
    return replace(scenario, options=options)
