"""Draw scenarios with queues on shared processors, limits, preemption and windows."""

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from sim import CapacityWindow, ClusterSpec, Partition, Scenario, Workload
from tests.draw.workloads import TIMES, scenarios


@st.composite
def windows(draw: st.DrawFn, cluster: ClusterSpec) -> tuple[CapacityWindow, ...]:
    """Draw up to 3 windows that a cluster can have."""
    own = [part for part in cluster.partitions if part.on is None]
    found: list[CapacityWindow] = []
    for _ in range(draw(st.integers(0, 3))):
        part = draw(st.sampled_from(own))
        from_s = draw(TIMES)
        window = CapacityWindow(
            part.name,
            draw(st.integers(1, part.procs)),
            from_s,
            from_s + draw(st.sampled_from([0.1, 1.0, 2.0, 5.0, 20.0])),
            draw(st.sampled_from(["planned", "drain", "failure"])),  # type: ignore[arg-type]
        )
        taken = sum(w.procs for w in found if w.partition == part.name)
        if taken + window.procs <= part.procs:
            found.append(window)
    return tuple(found)


@st.composite
def queues(draw: st.DrawFn) -> ClusterSpec:
    """Draw 1 or 2 sets of processors with up to 3 queues each; the last admits every job."""
    limit = st.one_of(st.none(), st.integers(1, 3))

    def terms(low: int) -> dict[str, object]:
        return {"running_per_user": draw(limit), "tier": draw(st.integers(low, low + 1))}

    parts = []
    if draw(st.booleans()):
        parts.append(Partition("other", draw(st.integers(1, 8)), draw(st.sampled_from([2.0, 7.0]))))
    parts.append(
        Partition(
            "small", on="main", max_procs=draw(st.integers(1, 8)),
            max_requested_s=draw(st.sampled_from([None, 1.0, 5.0])), **terms(2),  # type: ignore[arg-type]
        )
    )  # fmt: skip
    if draw(st.booleans()):
        parts.append(
            Partition(
                "best_effort", on="main", preemptible=True,
                max_requested_s=draw(st.sampled_from([3.0, 12.0])), **terms(0),  # type: ignore[arg-type]
            )
        )  # fmt: skip
    parts.append(Partition("main", draw(st.integers(8, 12)), **terms(2)))  # type: ignore[arg-type]
    return ClusterSpec.of(parts)


@st.composite
def capacity_scenarios(draw: st.DrawFn, *, most_jobs: int = 25) -> Scenario:
    """Draw a scenario of any policies, in which every job finds a place, and jobs have users."""
    scenario = draw(scenarios(most_jobs=most_jobs))
    n = scenario.workload.n_jobs
    user = draw(st.lists(st.integers(0, 2), min_size=n, max_size=n))
    workload = replace(scenario.workload, user=np.array(user, dtype=np.int64))
    cluster = draw(queues())
    told = replace(scenario, workload=workload, cluster=cluster, windows=draw(windows(cluster)))
    if told.windows:
        told = replace(told, options={k: v for k, v in told.options.items() if k == "depth"})
    if told.backfill == "conservative" and any(p.preemptible for p in cluster.partitions):
        told = replace(told, backfill="depth", options={})
    return told


def busy_scenario(seed: int, n_jobs: int = 150) -> Scenario:
    """Return a random scenario in which dozens of jobs wait, are killed, and wait again."""
    rng = np.random.default_rng(seed)
    runtime_s = rng.integers(1, 20, n_jobs).astype(float)
    workload = Workload.from_arrays(
        submit_s=np.sort(rng.integers(0, 2 * n_jobs, n_jobs)),
        runtime_s=runtime_s,
        requested_s=runtime_s + rng.choice([0.0, 0.0, 3.0, 10.0, -1.0], n_jobs),
        procs=rng.choice([1, 1, 2, 3, 5, 8], n_jobs),
        user=rng.integers(0, 4, n_jobs),
    )
    limits = [None, None, 1, 3, 8]
    best_effort = Partition(
        "best_effort", on="main", preemptible=True, max_requested_s=9.0, max_procs=5,
        running_per_user=limits[rng.integers(5)],
    )  # fmt: skip
    debug = Partition("debug", on="main", max_requested_s=4.0, tier=int(rng.integers(1, 4)))
    main = Partition("main", 10, tier=2, running_per_user=limits[rng.integers(5)])
    windows = []
    for _ in range(rng.integers(0, 12)):
        from_s = float(rng.integers(0, 3 * n_jobs))
        kind = str(rng.choice(["planned", "drain", "failure"]))
        length_s = float(rng.integers(1, 40))
        window = CapacityWindow("main", int(rng.integers(1, 4)), from_s, from_s + length_s, kind)  # type: ignore[arg-type]
        beside = [w for w in windows if w.from_s < window.until_s and from_s < w.until_s]
        if sum(w.procs for w in beside) + window.procs <= 10:
            windows.append(window)
    backfill = str(rng.choice(["none", "greedy", "easy", "depth", "conservative"]))
    order = str(rng.choice(["fcfs", "sjf", "wfp3", "lxf", "multifactor"]))
    priority = {"fairshare_weight": 5000.0, "half_life_s": float(rng.choice([0, 30, 300]))}
    parts = (debug, main) if backfill == "conservative" else (debug, best_effort, main)
    return Scenario(
        workload,
        ClusterSpec.of(parts),
        order=order,
        backfill=backfill,
        options=priority if order == "multifactor" else {},
        overrun=str(rng.choice(["raise", "kill", "extend"])),  # type: ignore[arg-type]
        windows=tuple(windows),
    )
