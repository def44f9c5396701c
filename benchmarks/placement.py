"""Placement rules on real jobs: what each costs, and what becomes of the jobs.

``python -m benchmarks.placement --part speed`` simulates the whole job file of CloudSimPy
(2,551,075 instances of 5,216 jobs) on 1,000 machines of 64 cores with every rule, first fit on 100
to 10,000 machines and with parts of the file, and the 8,152 pods of openb on its 1,213 nodes with
GPUs. Times are CPU seconds of one core, compiled, without reading and compiling.

``--part heuristics`` tells makespan, average completion and average slowdown of the file with every
rule, with room for all at once (1,000 machines) and with too little (``--scarce`` machines).
"""

import os
from argparse import Namespace
from collections.abc import Callable
from functools import cache
from pathlib import Path
from time import process_time
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from benchmarks.harness import Record, guarded, parser, table
from sim import ClusterSpec, MachineSpec, Partition, Scenario, Workload, simulate
from sim.api import backfills_for, known_names, read_machines
from sim.formats import read_cloudsimpy, read_openb

CORES, MACHINE_BYTES = 64, 2**40
"""Of a machine as CloudSimPy has it, whose memory is 1."""

FIRST, IN_TURN = "first_fit", "greedy"
COSTS_OF = (100, 300, 1000, 3000, 10_000)
PARTS_OF = (1 / 16, 1 / 4, 1.0)
QUICK_JOBS = 40


@cache
def jobs_of(path: Path, n_jobs: int | None) -> Workload:
    """Return the first jobs of a job file of CloudSimPy."""
    workload = read_cloudsimpy(path, machine_bytes=MACHINE_BYTES)
    return workload if n_jobs is None else workload.head(n_jobs)


def on_machines(workload: Workload, n_machines: int, placement: str, rule: str) -> Scenario:
    """Return the scenario of jobs on machines such as CloudSimPy has."""
    spec = MachineSpec("m", CORES, count=n_machines, mem_bytes=MACHINE_BYTES)
    cluster = ClusterSpec((Partition.of_machines("main", [spec]),))
    return Scenario(
        workload, cluster, "fcfs", rule, allocation="instances", placement=placement
    )  # fmt: skip


def timed(scenario: Scenario) -> dict[str, Any]:
    """Return what simulating takes, the second time, when all is compiled; and what comes of it."""
    tasks = scenario.workload.tasks
    assert tasks is not None
    simulate(_head(scenario), engine="compiled")
    begin_s = process_time()
    result = simulate(scenario, engine="compiled")
    took_s = process_time() - begin_s
    found = result.instances
    assert found is not None
    first = found.first[:-1]
    start_s = np.minimum.reduceat(found.start_s, first)
    end_s = np.maximum.reduceat(found.end_s, first)
    ran = ~np.isnan(start_s)
    submit_s = scenario.workload.submit_s
    completion_s = (end_s - start_s)[ran]
    some = tasks.runtime_s[ran] > 0
    return {
        "cpu_s": took_s,
        "n_instances": tasks.n_instances,
        "makespan_s": float(np.nanmax(end_s) - submit_s[0]),
        "completion_s": float(completion_s.mean()),
        "slowdown": float((completion_s[some] / tasks.runtime_s[ran][some]).mean()),
        "response_s": float((end_s - submit_s[tasks.job])[ran].mean()),
        "wait_s": float((start_s - submit_s[tasks.job])[ran].mean()),
    }


def _head(scenario: Scenario) -> Scenario:
    """Return the scenario with its first job only, which compiles what it needs."""
    workload = scenario.workload
    assert workload.tasks is not None
    head = Workload.from_arrays(
        submit_s=workload.submit_s[:1],
        runtime_s=workload.runtime_s[:1],
        procs=workload.procs[:1],
        tasks=workload.tasks.of_jobs(0, 1),
    )
    return Scenario(
        head, scenario.cluster, scenario.order, scenario.backfill, allocation="instances",
        placement=scenario.placement, too_wide="reject",
    )  # fmt: skip


def speed(record: Record, told: Namespace) -> None:
    """Measure what every rule costs."""
    n_jobs, n_machines = (QUICK_JOBS, 20) if told.quick else (None, 1000)
    file, rows = told.data / "cloudsimpy" / "cloudsimpy_jobs.csv.gz", []

    def of_jobs(name: str, n: int, placement: str, rule: str, some: int | None) -> None:
        detail = record.step(
            f"{name}: {n} machines, {placement}, {rule}",
            lambda: timed(on_machines(jobs_of(file, some), n, placement, rule)),
        )
        record.figure(f"{name}_{n}_{placement}_{rule}_cpu_s", detail["cpu_s"])
        count = f"{detail['n_instances']:,}"
        rows.append([name, f"{n:,}", count, placement, rule, f"{detail['cpu_s']:.2f}"])

    for placement in _some(known_names()["placement"], told.quick):
        of_jobs("file", n_machines, placement, IN_TURN, n_jobs)
    for rule in _some(backfills_for("instances"), told.quick):
        of_jobs("file", n_machines, FIRST, rule, n_jobs)
    for n in () if told.quick else COSTS_OF:
        of_jobs("file", n, FIRST, IN_TURN, n_jobs)
        of_jobs("file", n, "best_fit", IN_TURN, n_jobs)
    for part in () if told.quick else PARTS_OF:
        of_jobs(f"{part:.4g} of the jobs", n_machines, FIRST, IN_TURN, int(5216 * part))
    for placement in _some(known_names()["placement"], told.quick):
        detail = record.step(
            f"openb: {placement}", lambda placement=placement: timed(_pods(told, placement))
        )
        record.figure(f"openb_{placement}_cpu_s", detail["cpu_s"])
        count = f"{detail['n_instances']:,}"
        rows.append(["openb", "1,213", count, placement, IN_TURN, f"{detail['cpu_s']:.2f}"])
    table(["jobs", "machines", "instances", "placement", "rule", "CPU s"], rows)


def _some(names: tuple[str, ...], is_quick: bool) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*names[:2], names[-1]))) if is_quick else names


def _pods(told: Namespace, placement: str) -> Scenario:
    folder = told.data / "openb"
    pods = read_openb(folder / "openb_pod_list_default.csv.gz", pending="keep")
    nodes = read_machines(folder / "openb_node_list_gpu_node.csv.gz")
    return Scenario(
        pods, ClusterSpec((Partition.of_machines("main", nodes),)), "fcfs", IN_TURN,
        allocation="instances", placement=placement, too_wide="reject",
    )  # fmt: skip


def heuristics(record: Record, told: Namespace) -> None:
    """Tell what becomes of the jobs of the file under every rule."""
    n_jobs, sizes = (QUICK_JOBS, (20,)) if told.quick else (None, (1000, told.scarce))
    file, rows = told.data / "cloudsimpy" / "cloudsimpy_jobs.csv.gz", []
    pairs = [(placement, IN_TURN) for placement in _some(known_names()["placement"], told.quick)]
    pairs += [(FIRST, rule) for rule in _some(backfills_for("instances"), told.quick)]
    pairs += [] if told.quick else [("tetris", "least_work")]
    for n in sizes:
        for placement, rule in dict.fromkeys(pairs):
            detail = record.step(
                f"what becomes: {n} machines, {placement}, {rule}",
                lambda n=n, placement=placement, rule=rule: timed(
                    on_machines(jobs_of(file, n_jobs), n, placement, rule)
                ),
            )
            name = f"{n}_{placement}_{rule}"
            for key in ("makespan_s", "completion_s", "slowdown"):
                record.figure(f"{name}_{key}", detail[key])
            told_of = [f"{detail[k]:,.1f}" for k in ("makespan_s", "completion_s")]
            told_of += [f"{detail['slowdown']:.3f}", f"{detail['response_s']:,.1f}"]
            rows.append([f"{n:,}", placement, rule, *told_of, f"{detail['cpu_s']:.2f}"])
    header = ["machines", "placement", "rule", "makespan [s]", "completion [s]", "slowdown"]
    table([*header, "since submission [s]", "CPU s"], rows)


PARTS: dict[str, Callable[[Record, Namespace], None]] = {"speed": speed, "heuristics": heuristics}


def main() -> None:
    """Measure and print one part, or both one after the other."""
    options = parser(__doc__ or "")
    options.add_argument("--part", choices=(*PARTS, "all"), default="all")
    options.add_argument(
        "--data", type=Path, default=Path("../shared/data"), help="folder with cloudsimpy and openb"
    )
    options.add_argument("--scarce", type=int, default=100, help="machines that are too few")
    told = options.parse_args()
    record = Record("placement", told, seeds=[0], free=("part",))
    for name, part in PARTS.items():
        if told.part in (name, "all"):
            part(record, told)
    record.write()


if __name__ == "__main__":
    guarded(main)
