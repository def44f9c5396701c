"""Small scenarios that place instances of tasks on machines, drawn from a seed."""

import numpy as np

from sim import ClusterSpec, MachineSpec, Partition, Scenario, Workload
from sim.api import Tasks, TaskWork, Term, ThrottleWindow

LABELS = ({}, {"zone": "a"}, {"zone": "b", "eco": "true"})
TERMS = (
    (Term("zone", "In", ("a", "c")),),
    (Term("eco", "DoesNotExist"),),
    (Term("zone", "NotIn", ("b",)), Term("zone", "Exists")),
)
RESOURCES = ("nvidia.com/gpu", "amd.com/gpu")
CLASSES = ("cpu.compute_bound", "cpu.io_bound", "gpu.memory_bound", "gpu.mixed")


def machines(rng: np.random.Generator) -> ClusterSpec:
    """Draw one to three kinds of machines."""
    specs = [
        MachineSpec(
            f"m{kind}x",
            procs=int(rng.integers(1, 9)) if kind else int(rng.integers(4, 9)),
            count=int(rng.integers(1, 4)),
            mem_bytes=None if rng.random() < 0.3 else int(rng.integers(4, 17)),
            gpus=int(rng.integers(0, 5)) if kind else int(rng.integers(2, 5)),
            gpu_resource=RESOURCES[int(rng.integers(2)) if kind else 0],
            disk_bytes=None if rng.random() < 0.7 else int(rng.integers(2, 9)),
            labels=LABELS[int(rng.integers(len(LABELS))) if kind else 1],
            cpu_throttle=float(rng.choice([1.0, 0.8, 0.5])),
            gpu_throttle=float(rng.choice([1.0, 0.9, 0.3])),
        )
        for kind in range(int(rng.integers(1, 4)))
    ]
    return ClusterSpec((Partition.of_machines("main", specs),))


def tasks(rng: np.random.Generator, n_jobs: int, *, units: bool) -> Tasks:
    """Draw one to four tasks for each job; the later ones of some jobs have parents."""
    counts = rng.integers(1, 4, n_jobs)
    job = np.repeat(np.arange(n_jobs), counts)
    n = len(job)
    gang_job = rng.random(n_jobs) < 0.35
    gang = np.where(gang_job[job] & (rng.random(n) < 0.8), 1, 0)
    first = np.cumsum(counts) - counts
    parents: list[list[int]] = [[] for _ in range(n)]
    for j in np.flatnonzero(rng.random(n_jobs) < 0.5).tolist():
        if gang_job[j]:  # those of the gang come after a first task that is not of it
            gang[first[j]] = 0
            for t in range(int(first[j]) + 1, int(first[j] + counts[j])):
                parents[t] = [int(first[j])] if gang[t] or rng.random() < 0.5 else []
        else:
            for t in range(int(first[j]) + 1, int(first[j] + counts[j])):
                parents[t] = [p for p in range(int(first[j]), t) if rng.random() < 0.5]
    mgpu = rng.choice([0, 0, 0, 300, 500, 1000, 2000], n)
    mcpu = rng.choice([0, 500, 1000, 2500, 4000], n)
    work = None
    if units:
        mcpu = np.maximum(mcpu, 500)
        work = TaskWork(
            cpu_units=rng.integers(0, 40, n).astype(float),
            gpu_units=np.where(mgpu > 0, rng.integers(0, 30, n), 0).astype(float),
            cpu_sensitivity=rng.random(n),
            gpu_sensitivity=rng.random(n),
            cpu_class=rng.integers(-1, len(CLASSES), n),
            gpu_class=rng.integers(-1, len(CLASSES), n),
            profile=rng.random((n, 5)),
            classes=CLASSES,
        )
    mem_bytes, disk_bytes = rng.integers(0, 5, n), rng.choice([0, 0, 1], n)
    demand, gpu_resource = rng.choice([-1] * 8 + [0, 1, 2], n), rng.choice([-1] * 7 + [0, 0, 1], n)
    if rng.random() < 0.3:  # many need the same
        kind = rng.integers(0, 2, n)
        for column in (mcpu, mem_bytes, disk_bytes, demand, gpu_resource):
            column[:] = column[kind % n]
        mgpu = np.where(mgpu > 0, max(mgpu[0], 500), mgpu) if work is not None else mgpu[kind % n]
    return Tasks.from_arrays(
        job=job,
        runtime_s=rng.integers(0, 20, n),
        instances=rng.integers(1, 4, n),
        mcpu=mcpu,
        mem_bytes=mem_bytes,
        disk_bytes=disk_bytes,
        mgpu=mgpu,
        gang=gang,
        demand=demand,
        gpu_resource=gpu_resource,
        parents=parents,
        affinities=TERMS,
        gpu_resources=RESOURCES,
        work=work,
    )


def scenario_of_instances(seed: int) -> Scenario:
    """Draw a scenario, with units, throttle windows and gangs in some."""
    rng = np.random.default_rng(seed)
    n_jobs = int(rng.integers(2, 10))
    cluster = machines(rng)
    drawn = tasks(rng, n_jobs, units=rng.random() < 0.5)
    workload = Workload.from_arrays(
        submit_s=np.sort(rng.integers(0, 12, n_jobs)),
        runtime_s=rng.integers(1, 30, n_jobs),
        procs=rng.integers(1, 9, n_jobs),
        tasks=drawn,
    )
    names = cluster.machine_names
    windows = []
    for _ in range(int(rng.choice([0, 0, 1, 3]))):
        begins = float(rng.integers(0, 30))
        windows.append(
            ThrottleWindow(
                tuple(rng.choice(names, int(rng.integers(1, len(names) + 1)), replace=False)),
                begins,
                begins + float(rng.integers(1, 20)),
                cpu=float(rng.choice([1.0, 0.7, 0.25])),
                gpu=float(rng.choice([1.0, 0.6, 0.1])),
            )
        )
    options = {
        "all_or_nothing": int(rng.random() < 0.5),
        "even_shares": int(rng.random() < 0.3),
        "by_utilisation": int(rng.random() < 0.7),
        "cpu_unit_rate": float(rng.choice([1.0, 2.0])),
    }
    return Scenario(
        workload,
        cluster,
        order=str(rng.choice(["fcfs", "sjf", "ljf"])),
        backfill=str(rng.choice(["none", "greedy"])),
        too_wide="reject",
        allocation="instances",
        options=options,
        throttles=tuple(windows),
    )
