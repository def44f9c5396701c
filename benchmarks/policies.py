"""What every order and every backfilling rule costs, and what it does to the jobs.

``python -m benchmarks.policies --logs DIR`` measures

* cost: CPU seconds of whole ``simulate()`` calls, warm, compiled, on one core, for every order
  under EASY and every rule under FCFS, as multiples of FCFS under EASY on the same log;
* machines: the same for rules over named machines, as multiples of EASY on whole machines; Theta is
  taken as machines of 20 of its nodes, Gaia as machines of 12 processors;
* quality: mean bounded slowdown (tau 10 s) and mean wait of every order with and without EASY;
* long: a queue of the size of RICC's, 450,000 jobs on 8,192 processors at load 0.9, drawn: 64
  built-in workloads side by side, with arrivals squeezed together, so that 31,000 jobs wait on
  average. Conservative backfilling, which moves every reservation again and again, gets the first
  50,000 jobs.

Figures are the least of several repeats.
"""

import argparse
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import Record, guarded, parser, table
from benchmarks.sim import cluster_of, read
from sim import ClusterSpec, Scenario, Workload, simulate
from sim.api import backfills_for, known_names, measures, offered_load, wait_for_compiler
from sim.generators import default_workload

COST_LOGS = ("theta_2022", "UniLu-Gaia-2014-1")
QUALITY_LOG = "lublin_256"
MACHINE_PROCS = {"theta_2022": 20, "UniLu-Gaia-2014-1": 12}
MACHINE_POLICIES: dict[str, dict[str, Any]] = {
    "easy, whole machines": {"backfill": "easy", "allocation": "whole_nodes"},
    "slurm, whole machines": {"backfill": "slurm", "allocation": "whole_nodes"},
    "slurm, shared machines": {"backfill": "slurm", "allocation": "shared_nodes"},
}
PARTS = ("cost", "machines", "quality", "long")
DEPTHS = (1, 4, 16)
COMPRESS_DEPTHS = (0, 20, 100)
N_SIDE, LONG_PROCS, LONG_LOAD = 64, 8_192, 0.9
LONG_FIRST = dict.fromkeys(
    ("fcfs, conservative", "fcfs, conservative 20", "fcfs, conservative 100"), 50_000
)
"""Jobs of the long queue for rules that would take hours."""
LIMIT_S = 120.0
"""A rule that takes longer over the long queue is not repeated, and told as it is."""


def policies() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what is measured: each order under EASY, each rule under FCFS."""
    names = known_names()
    for order in names["order"]:
        yield f"{order}, easy", {"order": order, "backfill": "easy"}
    for rule in backfills_for("processors"):
        if rule == "depth":
            for depth in DEPTHS:
                yield f"fcfs, depth {depth}", {"backfill": rule, "options": {"depth": depth}}
        elif rule == "conservative":
            for depth in COMPRESS_DEPTHS:
                policy = {"backfill": rule, "options": {"compress_depth": depth}}
                yield f"fcfs, conservative {depth}".removesuffix(" 0"), policy
        elif rule != "easy":
            yield f"fcfs, {rule}", {"backfill": rule}


def cost(
    workload: Workload,
    cluster: ClusterSpec,
    chosen: Iterable[tuple[str, dict[str, Any]]],
    repeats: int,
) -> dict[str, Any]:
    """Return CPU seconds and mean waits under each policy."""
    found = {}
    for name, policy in chosen:
        scenario = Scenario(workload, cluster, **policy)
        result = simulate(scenario, engine="compiled")
        found[name] = {
            "cpu_s": _least_cpu_s(lambda s=scenario: simulate(s, engine="compiled"), repeats),
            "mean_wait_s": measures(scenario, result)["mean_wait_s"],
        }
    return {"n_jobs": workload.n_jobs, "policies": found}


def _least_cpu_s(work: Callable[[], object], repeats: int) -> float:
    """Return the least CPU seconds of so many repeats, fewer if they take long."""
    found: list[float] = []
    while len(found) < repeats and sum(found) < LIMIT_S / 10:
        before_s = time.process_time()
        work()
        found.append(time.process_time() - before_s)
    return min(found)


def quality(workload: Workload) -> dict[str, Any]:
    """Return what each order does with and without EASY."""
    found = {}
    for order in known_names()["order"]:
        for rule in ("none", "easy"):
            scenario = Scenario(workload, cluster_of(workload), order=order, backfill=rule)
            told = measures(scenario, simulate(scenario, engine="compiled"))
            found[f"{order}, {rule}"] = {
                name: told[name] for name in ("mean_bounded_slowdown", "mean_wait_s")
            }
    return {"n_jobs": workload.n_jobs, "policies": found}


def long_queue(n_jobs: int) -> Workload:
    """Return so many jobs for 8,192 processors at load 0.9."""
    drawn = [default_workload(seed, n_jobs // N_SIDE) for seed in range(N_SIDE)]
    together = Workload.from_arrays(
        submit_s=np.concatenate([one.submit_s for one in drawn]),
        runtime_s=np.concatenate([one.runtime_s for one in drawn]),
        requested_s=np.concatenate([one.requested_s for one in drawn]),
        procs=np.concatenate([one.procs for one in drawn]),
        unsorted="sort",
    )
    load = offered_load(together, LONG_PROCS) or LONG_LOAD
    return Workload.from_arrays(
        submit_s=np.round(together.submit_s * load / LONG_LOAD),
        runtime_s=together.runtime_s,
        requested_s=together.requested_s,
        procs=together.procs,
        name="64 built-in workloads",
        max_procs=LONG_PROCS,
    )


def long_one(workload: Workload, policy: dict[str, Any]) -> dict[str, Any]:
    """Simulate the long queue once under one policy."""
    scenario = Scenario(workload, ClusterSpec.single(LONG_PROCS), **policy)
    before_s = time.process_time()
    result = simulate(scenario, engine="compiled")
    return {
        "n_jobs": workload.n_jobs,
        "cpu_s": time.process_time() - before_s,
        "mean_wait_s": measures(scenario, result)["mean_wait_s"],
    }


def main() -> None:
    """Measure what was asked for, print the tables, write the JSON."""
    options = parser(__doc__ or "")
    options.add_argument("--logs", type=Path, required=True, help="folder of SWF logs")
    options.add_argument("--first", type=int, default=10_000, help="jobs of each log")
    options.add_argument("--long", type=int, default=450_000, help="jobs of the long queue")
    options.add_argument("--part", choices=PARTS, action="append", help="only this; repeat it")
    options.add_argument("--repeats", type=int, default=5)
    chosen = options.parse_args()
    if chosen.quick:
        chosen.first, chosen.long, chosen.repeats = 300, 1_280, 1
    record = Record("policies", chosen, list(range(N_SIDE)), free=("part",))
    wait_for_compiler()
    measure(record, chosen)


def measure(record: Record, chosen: argparse.Namespace) -> None:
    """Take the steps that were asked for and print a table of each."""
    parts = chosen.part or PARTS
    if "cost" in parts:
        _costs(record, chosen, "cost", dict(policies()))
    if "machines" in parts:
        _costs(record, chosen, "machines", MACHINE_POLICIES)
    if "quality" in parts:
        told = record.step(
            "quality", lambda: quality(read(chosen.logs / f"{QUALITY_LOG}.swf.gz", chosen.first))
        )
        _table_of_quality(record, told["policies"])
    if "long" in parts:
        _long(record, chosen)
    record.write()


def _costs(
    record: Record, chosen: argparse.Namespace, part: str, given: dict[str, dict[str, Any]]
) -> None:
    """Measure what policies cost on each log, and print multiples of the EASY among them."""
    found = []
    for name in COST_LOGS:

        def measured(name: str = name) -> dict[str, Any]:
            workload = read(chosen.logs / f"{name}.swf.gz", chosen.first)
            cluster = cluster_of(workload)
            if part == "machines":
                cluster = cluster.in_machines_of(MACHINE_PROCS[name])
            return cost(workload, cluster, given.items(), chosen.repeats)

        found.append(record.step(f"{part} {name}", measured)["policies"])
    reference = next(name for name in ("fcfs, easy", "easy, whole machines") if name in given)
    rows = []
    for name in given:
        ratios = [one[name]["cpu_s"] / one[reference]["cpu_s"] for one in found]
        rows.append([name, *(f"{ratio:.2f}" for ratio in ratios)])
        record.figure(f"cost of {name} (times EASY, worst)", max(ratios))
    table(["policy", *(f"{name}, times EASY" for name in COST_LOGS)], rows)


def _table_of_quality(record: Record, told: dict[str, dict[str, float]]) -> None:
    rows = []
    for order in known_names()["order"]:
        cells = [told[f"{order}, {rule}"]["mean_bounded_slowdown"] for rule in ("none", "easy")]
        rows.append([order, *(f"{cell:,.1f}" for cell in cells)])
        record.figure(f"mean bounded slowdown of {order} under EASY", cells[1])
    table(["order", f"{QUALITY_LOG}, no backfilling", f"{QUALITY_LOG}, EASY"], rows)


def _long(record: Record, chosen: argparse.Namespace) -> None:
    workload = None
    rows = []
    for name, policy in _told_apart(policies()):
        if f"long {name}" not in record.body["steps"]:
            workload = workload or long_queue(chosen.long)
        first = min(LONG_FIRST.get(name, chosen.long), chosen.long)
        one = record.step(
            f"long {name}",
            lambda w=workload, p=policy, n=first: long_one(w.head(n), p),  # type: ignore[misc]
        )
        rows.append(
            [name, f"{one['n_jobs']:,}", f"{one['cpu_s']:.1f}", f"{one['mean_wait_s']:,.0f}"]
        )
        record.figure(f"long queue, {name} (s)", one["cpu_s"])
    table(["policy", "jobs", "CPU s", "mean wait s"], rows)


def _told_apart(
    given: Iterable[tuple[str, dict[str, Any]]],
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield policies whose cost may differ: static orders are ranked alike."""
    static = ("ljf", "saf", "laf", "f1", "f2", "f3", "f4")
    return ((name, policy) for name, policy in given if policy.get("order") not in static)


if __name__ == "__main__":
    guarded(main)
