"""Draw small workloads and clusters in which ties are likely."""

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from sim import ClusterSpec, MachineSpec, Partition, Scenario, Workload

WHOLE = st.integers(0, 12).map(float)
FRACTIONS = st.sampled_from([0.0, 0.1, 0.2, 0.1 + 0.2, 0.3, 0.7, 1.1, 1.3, 2.5, 3.9, 5.9, 23.8])
TIMES = st.one_of(WHOLE, FRACTIONS)


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
def scenarios(draw: st.DrawFn, *, most_jobs: int = 25) -> Scenario:
    """Draw a scenario in which every job finds a place."""
    return Scenario(
        draw(workloads(most_jobs=most_jobs)),
        draw(clusters()),
        order=draw(st.sampled_from(["fcfs", "sjf"])),
        backfill=draw(st.sampled_from(["none", "easy"])),
        overrun=draw(st.sampled_from(["raise", "kill"])),
    )


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
    return Scenario(
        jobs,
        ClusterSpec.of(parts),
        order=draw(st.sampled_from(["fcfs", "sjf"])),
        backfill=draw(st.sampled_from(["none", "easy", "easy"])),
        overrun=draw(st.sampled_from(["raise", "kill"])),
        too_wide="reject",
        allocation="whole_nodes",
    )


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
        order=str(rng.choice(["fcfs", "sjf"])),
        backfill=str(rng.choice(["none", "easy", "easy", "easy"])),
        overrun=str(rng.choice(["raise", "kill"])),  # type: ignore[arg-type]
        too_wide="reject",
        allocation="whole_nodes",
    )
