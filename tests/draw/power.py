"""Draw scenarios whose idle nodes are switched off, with many ties."""

from dataclasses import replace

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

from sim import ClusterSpec, NodePower, Partition, Scenario, Workload
from tests.differential.naive import RULES
from tests.draw.workloads import scenarios


@st.composite
def node_powers(draw: st.DrawFn, node_procs: int) -> NodePower:
    """Draw nodes whose delays coincide with the times of jobs."""
    boot_s = draw(st.sampled_from([0.0, 0.3, 1.0, 2.0, 5.0]))
    delays = [0.0, 0.1, 1.0, 2.0, 7.0]
    if node_procs > 1:
        delays = [boot_s, boot_s + 1.0, 7.0]
    return NodePower(
        busy_w=300.0, idle_w=130.0, off_w=draw(st.sampled_from([0.0, 9.0])), boot_w=170.0,
        node_procs=node_procs, off_after_s=draw(st.sampled_from(delays)), boot_s=boot_s,
    )  # fmt: skip


@st.composite
def power_scenarios(draw: st.DrawFn, *, most_jobs: int = 25) -> Scenario:
    """Draw a scenario under policies that the naive reference has."""
    scenario = draw(scenarios(most_jobs=most_jobs))
    assume(scenario.backfill in RULES and scenario.order != "multifactor")
    node_procs = draw(st.sampled_from([1, 1, 2, 4]))
    parts = [
        replace(part, procs=-(-part.procs // node_procs) * node_procs)
        for part in scenario.cluster.partitions
    ]
    return replace(scenario, cluster=ClusterSpec.of(parts), power=draw(node_powers(node_procs)))


def busy_power_scenario(seed: int, n_jobs: int = 120) -> Scenario:
    """Return a random scenario in which nodes boot dozens of times."""
    rng = np.random.default_rng(seed)
    runtime_s = rng.integers(0, 20, n_jobs).astype(float)
    workload = Workload.from_arrays(
        submit_s=np.sort(rng.integers(0, [4, 6, 8][seed % 3] * n_jobs, n_jobs)),
        runtime_s=runtime_s,
        requested_s=np.maximum(1.0, runtime_s + rng.choice([0.0, 0.0, 3.0, 10.0, -2.0], n_jobs)),
        procs=rng.choice([1, 1, 2, 3, 5, 8], n_jobs),
    )
    node_procs = int(rng.choice([1, 1, 2, 4]))
    boot_s = [3.0, 6.0, 1.0, 0.0][seed // 2 % 4]
    off_after_s = boot_s + float(rng.choice([0, 1, 4]))
    short = Partition("short", 4, max_requested_s=4.0)
    return Scenario(
        workload,
        ClusterSpec.of((short, Partition("main", 12))),
        order=str(rng.choice(["fcfs", "sjf", "wfp3", "lxf"])),
        backfill=("easy", "conservative", "depth", "easy", "greedy", "none")[seed % 6],
        overrun=("extend", "raise", "extend", "kill")[seed % 4],  # type: ignore[arg-type]
        power=NodePower(
            200.0, 90.0, 4.0, 110.0, node_procs=node_procs, off_after_s=off_after_s, boot_s=boot_s
        ),
    )
