"""Draw small workloads and clusters in which ties are likely."""

from collections.abc import Sequence
from dataclasses import replace
from typing import get_args

import numpy as np
from hypothesis import strategies as st

from sim import ClusterSpec, MachineSpec, Partition, Scenario, Workload
from sim.api import Overrun, PolicyOption
from sim.policies.backfills import rules_for
from sim.policies.orders import ORDERS
from sim.policies.policy import Backfill

WHOLE = st.integers(0, 12).map(float)
FRACTIONS = st.sampled_from([0.0, 0.1, 0.2, 0.1 + 0.2, 0.3, 0.7, 1.1, 1.3, 2.5, 3.9, 5.9, 23.8])
TIMES = st.one_of(WHOLE, FRACTIONS)
RULES = rules_for("processors")


@st.composite
def workloads(draw: st.DrawFn, *, widest: int = 8, most_jobs: int = 25) -> Workload:
    """Draw 1 to `most_jobs` jobs; times are few small numbers, so that instants coincide."""
    n_jobs = draw(st.integers(1, most_jobs))
    column = st.lists(TIMES, min_size=n_jobs, max_size=n_jobs)
    widths = st.lists(st.integers(1, widest), min_size=n_jobs, max_size=n_jobs)
    return Workload.from_arrays(
        submit_s=sorted(draw(column)),
        runtime_s=draw(column),
        requested_s=draw(column),
        procs=draw(widths),
        job_id=draw(st.permutations(range(1, n_jobs + 1))),
    )


@st.composite
def clusters(draw: st.DrawFn, *, widest: int = 8) -> ClusterSpec:
    """Draw 1 or 2 partitions; the last admits every job up to `widest` processors."""
    last = Partition("last", widest + draw(st.integers(0, 4)))
    if draw(st.booleans()):
        return ClusterSpec((last,))
    limit_s = draw(st.one_of(st.none(), st.floats(0.1, 12.0)))
    most = draw(st.one_of(st.none(), st.integers(1, widest)))
    return ClusterSpec((Partition("short", draw(st.integers(1, widest)), limit_s, most), last))


@st.composite
def told(draw: st.DrawFn, options: tuple[PolicyOption, ...]) -> dict[str, float]:
    """Draw values for some of the options of a policy."""
    values = {}
    for option in options:
        if draw(st.booleans()):
            most = min(option.highest, option.lowest + 6)
            one = st.integers(int(option.lowest), int(most)).map(float)
            if not option.is_whole:
                one = st.one_of(one, st.sampled_from([3.7, 97.0, 1000.0, 604800.0]))
            values[option.name] = draw(one)
    return values


@st.composite
def rich(draw: st.DrawFn, scenario: Scenario) -> Scenario:
    """Draw what Slurm's priority asks for beside what every scenario tells."""
    if scenario.order != "multifactor":
        return scenario
    n_jobs = scenario.workload.n_jobs
    column = st.lists(st.sampled_from([-1, 1, 1, 2, 3]), min_size=n_jobs, max_size=n_jobs)
    user, queue = (np.array(draw(column), dtype=np.int64) for _ in range(2))
    user[0] = queue[0] = 1  # somebody must be known
    parts = [
        replace(part, priority=draw(st.integers(0, 3))) for part in scenario.cluster.partitions
    ]
    priorities = st.dictionaries(st.sampled_from([-1, 1, 2, 5]), st.integers(0, 4), min_size=1)
    return replace(
        scenario,
        workload=replace(scenario.workload, user=user, queue=queue),
        cluster=ClusterSpec.of(parts),
        qos_priority=draw(priorities),
        shares=draw(st.dictionaries(st.integers(-1, 4), st.integers(1, 5), max_size=2)),
    )


@st.composite
def scenarios(
    draw: st.DrawFn, *, most_jobs: int = 25, rules: Sequence[Backfill] = RULES
) -> Scenario:
    """Draw a scenario under any order and some of the rules in which every job finds a place."""
    order, backfill = draw(st.sampled_from(ORDERS)), draw(st.sampled_from(rules))
    overrun = draw(st.sampled_from(get_args(Overrun)))
    grace_s = draw(st.sampled_from([0.0, 0.3, 2.0, 70.0])) if overrun == "kill" else 0.0
    scenario = Scenario(
        draw(workloads(most_jobs=most_jobs)),
        draw(clusters()),
        order=order.name,
        backfill=backfill.name,
        overrun=overrun,
        options=draw(told((*order.options, *backfill.options))),
        grace_s=grace_s,
    )
    return draw(rich(scenario))


@st.composite
def plain_scenarios(draw: st.DrawFn, *, most_jobs: int = 25) -> Scenario:
    """Draw a scenario as `scenarios` does, under the policies that are explained in full."""
    return replace(
        draw(scenarios(most_jobs=most_jobs)),
        order=draw(st.sampled_from(["fcfs", "sjf"])),
        backfill=draw(st.sampled_from(["none", "easy"])),
        overrun=draw(st.sampled_from(["raise", "kill"])),
        options={},
        grace_s=0.0,
    )


@st.composite
def scenarios_for_nodes(draw: st.DrawFn) -> Scenario:
    """Draw a scenario as `scenarios` does, under policies that can also allocate whole nodes."""
    able = [rule.name for rule in RULES if rule.decide_nodes is not None]
    return replace(draw(scenarios()), backfill=draw(st.sampled_from(able)), options={})


@st.composite
def machines(draw: st.DrawFn, *, name: str) -> Partition:
    """Draw a partition of 1 to 4 kinds of machines, some alike, some without known memory."""
    memory = st.sampled_from([None, 1, 4, 8, 12])
    kinds = draw(
        st.lists(st.tuples(st.integers(1, 5), st.integers(1, 3), memory), min_size=1, max_size=4)
    )
    specs = [
        MachineSpec(f"{name}-{kind}-", procs, count, mem_bytes)
        for kind, (procs, count, mem_bytes) in enumerate(kinds)
    ]
    limit_s = draw(st.one_of(st.none(), st.none(), st.floats(0.1, 12.0)))
    most = draw(st.one_of(st.none(), st.none(), st.integers(1, 8)))
    return Partition.of_machines(name, specs, limit_s, most)


@st.composite
def node_scenarios(draw: st.DrawFn, *, most_jobs: int = 25) -> Scenario:
    """Draw whole-node scenarios on unlike machines, with memory; what fits nowhere is rejected."""
    jobs = draw(workloads(widest=10, most_jobs=most_jobs))
    parts = [draw(machines(name="a"))] + ([draw(machines(name="b"))] if draw(st.booleans()) else [])
    if draw(st.booleans()):
        column = st.sampled_from([-1, 0, 1, 2, 3, 4, 9])
        memory = draw(st.lists(column, min_size=jobs.n_jobs, max_size=jobs.n_jobs))
        jobs = replace(jobs, mem_bytes_per_proc=np.array(memory, dtype=np.int64))
    order = draw(st.sampled_from(ORDERS))
    scenario = Scenario(
        jobs,
        ClusterSpec.of(parts),
        order=order.name,
        backfill=draw(st.sampled_from(["none", "easy", "easy"])),
        overrun=draw(st.sampled_from(get_args(Overrun))),
        too_wide="reject",
        allocation="whole_nodes",
        options=draw(told(order.options)),
    )
    return draw(rich(scenario))


def crowded_nodes(seed: int, *, n_jobs: int = 40) -> Scenario:
    """Return a whole-node scenario in which queues form on unlike machines, and times coincide.

    Half of them have a second partition for short jobs, whose events fall between those of the
    first: a decision must not leave anything to the next event of its own partition.
    """
    rng = np.random.default_rng(seed)
    specs = [
        MachineSpec(
            f"k{kind}-",
            int(rng.choice([1, 2, 4, 8])),
            int(rng.integers(1, 4)),
            [None, 4, 8, 16][rng.integers(4)],
        )
        for kind in range(rng.integers(2, 6))
    ]
    runtime_s = rng.integers(1, 20, n_jobs).astype(float)
    jobs = Workload.from_arrays(
        submit_s=np.sort(rng.integers(0, 3 * n_jobs, n_jobs)),
        runtime_s=runtime_s,
        requested_s=runtime_s + rng.choice([0.0, 0.0, 1.0, 5.0, -1.0], n_jobs),
        procs=rng.choice([1, 1, 1, 2, 4, 7, 10, 13], n_jobs),
        mem_bytes_per_proc=rng.choice([-1, 0, 0, 1, 2, 3, 4, 8], n_jobs),
    )
    parts = [Partition.of_machines("main", specs)]
    if seed % 2:
        short = (MachineSpec("s", 4, 2), MachineSpec("t", 1, 2, 4))
        parts.insert(0, Partition.of_machines("short", short, max_requested_s=5.0))
    return Scenario(
        jobs,
        ClusterSpec.of(parts),
        order=str(rng.choice(["fcfs", "sjf", "wfp3"])),
        backfill=str(rng.choice(["none", "easy", "easy", "easy"])),
        overrun=str(rng.choice(["raise", "kill", "extend"])),  # type: ignore[arg-type]
        too_wide="reject",
        allocation="whole_nodes",
    )


def slurm_options(draw: st.DrawFn) -> dict[str, float]:
    """Draw options of the rule `slurm`: small ones, so that they count in a small scenario."""
    drawn = {
        "bf_interval_s": st.sampled_from([0, 1, 5, 30]),
        "bf_max_job_test": st.sampled_from([1, 2, 5, 500]),
        "bf_window_s": st.sampled_from([0, 10, 40, 86400]),
        "bf_resolution_s": st.sampled_from([0, 1, 4, 60]),
        "bf_reserve": st.sampled_from([0, 1, 2]),
    }
    return {name: float(draw(values)) for name, values in drawn.items()}


@st.composite
def slurm_scenarios(draw: st.DrawFn) -> Scenario:
    """Draw scenarios with machines, whole or shared, under Slurm's rules or none."""
    scenario = draw(node_scenarios())
    backfill = draw(st.sampled_from(["slurm", "slurm", "slurm", "none"]))
    return replace(
        scenario,
        backfill=backfill,
        options={**scenario.options, **(slurm_options(draw) if backfill == "slurm" else {})},
        allocation=draw(st.sampled_from(["whole_nodes", "shared_nodes"]))
        if backfill == "slurm"
        else "shared_nodes",
    )


def crowded_slurm(seed: int) -> Scenario:
    """Return a scenario of `crowded_nodes` under Slurm's rules, on whole or shared machines."""
    rng = np.random.default_rng(seed)
    options = {
        "bf_interval_s": rng.choice([0, 1, 7, 30]),
        "bf_max_job_test": rng.choice([3, 10, 500]),
        "bf_window_s": rng.choice([20, 86400]),
        "bf_resolution_s": rng.choice([0, 1, 5, 60]),
        "bf_reserve": rng.choice([0, 0, 1, 3]),
    }
    scenario = contended(crowded_nodes(seed), seed) if seed % 4 == 0 else crowded_nodes(seed)
    return replace(
        scenario,
        backfill="slurm",
        options={**scenario.options, **{name: float(value) for name, value in options.items()}},
        allocation="shared_nodes" if seed % 3 else "whole_nodes",
    )


def contended(scenario: Scenario, seed: int) -> Scenario:
    """Return a scenario under Slurm's priority in which users, queues and ages compete."""
    rng = np.random.default_rng(seed)
    n_jobs = scenario.workload.n_jobs
    span_s = max(1.0, scenario.workload.span_s)
    return replace(
        scenario,
        workload=replace(
            scenario.workload,
            user=rng.choice([1, 1, 1, 2, 2, 3, 4], n_jobs),
            queue=rng.choice([-1, 1, 2, 3], n_jobs),
        ),
        order="multifactor",
        options={
            "age_weight": float(rng.choice([0, 100, 1000])),
            "age_max_s": float(rng.choice([span_s / 20, span_s])),
            "size_weight": float(rng.choice([0, 100, 1000])),
            "favor_small": float(rng.choice([0, 1])),
            "qos_weight": float(rng.choice([0, 100, 1000])),
            "fairshare_weight": float(rng.choice([100, 1000, 100_000])),
            "half_life_s": float(rng.choice([0, span_s / 50, span_s])),
        },
        qos_priority={1: 10, 2: 1, 3: float(rng.integers(0, 30))},
        shares={2: 3.0} if rng.integers(2) else {},
    )
