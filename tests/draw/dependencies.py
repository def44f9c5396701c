"""Draw small scenarios in which jobs follow others; ties and coincidences are likely."""

from dataclasses import replace

import numpy as np

from sim import ClusterSpec, Partition, Scenario, Workload
from sim.policies.backfills import rules_for
from sim.policies.orders import ORDERS

TIMES_S = (0.0, 0.0, 1.0, 1.0, 2.0, 3.0, 5.0, 0.1 + 0.2, 0.3, 7.0, 65.0)


def dependent_workload(rng: np.random.Generator, widest: int = 8) -> Workload:
    """Draw up to 20 jobs of three users, with preceding jobs, think times and recorded waits."""
    n_jobs = int(rng.integers(2, 21))
    ids = rng.permutation(np.arange(1, n_jobs + 1))
    submit_s = np.sort(rng.choice(TIMES_S, n_jobs))
    in_order = ids[np.lexsort((ids, submit_s))]
    of_row = [-1 if row == 0 else int(in_order[rng.integers(0, row)]) for row in range(n_jobs)]
    preceding = np.where(rng.random(n_jobs) < 0.6, of_row, rng.choice([-1, 99], n_jobs))
    preceding[-1] = max(preceding[-1], int(in_order[0]))  # some job must have one
    by_id = dict(zip(in_order.tolist(), preceding.tolist(), strict=True))
    return Workload.from_arrays(
        submit_s=submit_s,
        runtime_s=rng.choice(TIMES_S, n_jobs),
        requested_s=rng.choice(TIMES_S, n_jobs),
        procs=rng.integers(1, widest + 1, n_jobs),
        job_id=ids,
        user=[*rng.choice([-1, 1, 2], n_jobs - 1).tolist(), 1],
        logged_wait_s=rng.choice(TIMES_S, n_jobs),
        preceding_job=[by_id[job] for job in ids.tolist()],
        think_s=rng.choice([np.nan, 0.0, 0.0, 1.0, 2.0, 0.3, 70.0], n_jobs),
    )


def dependent_scenario(seed: int) -> Scenario:
    """Draw a scenario with dependencies under any policies that allow them."""
    rng = np.random.default_rng(seed)
    orders = [order.name for order in ORDERS if not order.uses_submission]
    last = Partition("last", 8 + int(rng.integers(0, 4)))
    short = Partition("short", int(rng.integers(1, 8)), float(rng.choice([0.5, 2.0, 6.0])))
    scenario = Scenario(
        dependent_workload(rng),
        ClusterSpec((short, last) if rng.random() < 0.5 else (last,)),
        order=str(rng.choice(orders)),
        backfill=str(rng.choice([rule.name for rule in rules_for("processors")])),
        overrun=str(rng.choice(["raise", "kill", "extend", "extend_at_events"])),  # type: ignore[arg-type]
        dependencies=str(rng.choice(["logged", "logged", "sessions"])),  # type: ignore[arg-type]
    )
    if scenario.order == "multifactor" and rng.random() < 0.5:
        return replace(scenario, options={"fairshare_weight": 5000.0})
    return scenario
