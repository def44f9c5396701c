"""GPUs shared by pods of openb: how much finds room, and how much is left in fragments.

``python -m benchmarks.openb --data DIR --seeds 10`` repeats the inflation of Weng et al. (USENIX
ATC 2023, section 6): pods are drawn from the trace, with replacement, until they ask for 130 % of
the GPUs of the 1,213 nodes that have some. They come one by one and none ever leaves; one for
which there is no room is turned away. Measured is over the load that has come, as a share of the
GPUs of the cluster: the GPUs that are held (allocation), and the fragments among the others.
"""

import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import Record, guarded, parser, table
from sim.api import ClusterSpec, Partition, Scenario, Workload, read_machines, simulate
from sim.formats import read_openb
from sim.generators import inflate_workload
from sim.metrics import TargetWorkload, fragmentation

PODS, NODES = "openb_pod_list_default.csv.gz", "openb_node_list_gpu_node.csv.gz"
RULES = ("random", "dot_product", "gpu_packing", "gpu_clustering", "best_fit", "fgd")
LOAD, LOADS = 1.3, (0.5, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3)
QUICK_NODES, QUICK_SEEDS = 40, 2
N_RESAMPLES, CONFIDENCE = 2000, 0.95


def main() -> None:
    """Measure every rule with every seed and print Markdown tables."""
    options = parser(__doc__ or "")
    options.add_argument("--data", type=Path, required=True, metavar="DIR", help="openb's tables")
    options.add_argument("--seeds", type=int, default=10, help="draws of pods, 10 if not given")
    options.add_argument("--rule", action="append", choices=RULES, help="all if not given")
    chosen = options.parse_args()
    seeds = list(range(QUICK_SEEDS if chosen.quick else chosen.seeds))
    record = Record("openb", chosen, seeds, free=("rule", "seeds"))
    pods = read_openb(chosen.data / PODS, pending="keep")
    nodes = read_machines(chosen.data / NODES)
    nodes = nodes[:QUICK_NODES] if chosen.quick else nodes
    cluster = ClusterSpec.of([Partition.of_machines("main", nodes)])
    usual = Scenario(pods, cluster, allocation="instances", too_wide="reject")
    target = TargetWorkload.of(usual)
    rules = chosen.rule or list(RULES)
    found: dict[str, list[dict[str, Any]]] = {rule: [] for rule in rules}
    for seed in seeds:
        for rule in rules:

            def measure(seed: int = seed, rule: str = rule) -> dict[str, Any]:
                return _one(pods, cluster, target, rule, seed)

            found[rule].append(record.step(f"{rule} {seed}", measure))
    _tables(record, found)
    record.write()


def _one(
    pods: Workload, cluster: ClusterSpec, target: TargetWorkload, rule: str, seed: int
) -> dict[str, Any]:
    """Return what one rule made of one draw of pods."""
    workload = inflate_workload(pods, cluster, load=LOAD, seed=seed)
    scenario = Scenario(
        workload,
        cluster,
        backfill="greedy",
        allocation="instances",
        placement=rule,
        seed=seed,
        too_wide="reject",
    )
    begin_s = time.process_time()
    result = simulate(scenario)
    took_s = time.process_time() - begin_s
    fragments = fragmentation(scenario, result, target)
    tasks = workload.tasks
    if fragments is None or tasks is None:
        raise AssertionError("the nodes have GPUs and the pods are tasks")
    load = np.cumsum(tasks.mgpu) / 1000 / fragments.n_gpus
    rows = np.minimum(np.searchsorted(load, LOADS), workload.n_jobs - 1)
    free, lost = fragments.at(workload.submit_s[rows])
    return {
        "pods": workload.n_jobs,
        "turned_away": int((result.start_s > workload.submit_s[-1]).sum()),
        "load": load[rows].tolist(),
        "allocation": (1 - free / fragments.n_gpus).tolist(),
        "fragments": (lost / fragments.n_gpus).tolist(),
        "cpu_seconds": took_s,
    }


def _tables(record: Record, found: dict[str, list[dict[str, Any]]]) -> None:
    final = []
    for rule, steps in found.items():
        allocation, fragments = (
            np.array([step[what][-1] for step in steps]) for what in ("allocation", "fragments")
        )
        record.figure(f"{rule} allocation", float(allocation.mean()))
        record.figure(f"{rule} fragments", float(fragments.mean()))
        turned = float(np.mean([step["turned_away"] / step["pods"] for step in steps]))
        took_s = float(np.median([step["cpu_seconds"] for step in steps]))
        final.append(
            [f"`{rule}`", _shown(allocation), _shown(fragments), f"{turned:.1%}", f"{took_s:.2f}"]
        )
    table(["placement", "GPUs held", "GPUs in fragments", "turned away", "CPU s"], final)
    for what, title in (("allocation", "held"), ("fragments", "in fragments")):
        header = [f"{title}, at load", *(f"{load:.0%}" for load in LOADS)]
        rows = []
        for rule, steps in found.items():
            means = np.array([step[what] for step in steps]).mean(axis=0)
            rows.append([f"`{rule}`", *(f"{mean:.1%}" for mean in means)])
        table(header, rows)


def _shown(values: np.ndarray[Any, Any]) -> str:
    """Return a mean with its 95 % interval, by resampling the seeds (fixed seed)."""
    rng = np.random.default_rng(0)
    means = rng.choice(values, (N_RESAMPLES, len(values))).mean(axis=1)
    low, high = np.quantile(means, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return f"{values.mean():.2%} ({low:.2%} to {high:.2%})"


if __name__ == "__main__":
    guarded(main)
