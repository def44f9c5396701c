"""How fast logs are read and simulated, in jobs per CPU second, beside a plain pure-Python loop.

``python -m benchmarks.simulator --logs DIR`` measures the SimPy engine, warm, over logs of that
folder (or ``--log FILE``), FCFS with EASY and without backfilling. The peer in the same run is
a plain event loop over `heapq` without SimPy and without Numba, FCFS without backfilling: what
one would write in an afternoon. Figures are CPU seconds, the best of several repeats.
"""

import heapq
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.harness import Record, guarded, parser, table
from sim import ClusterSpec, Scenario, Workload, load_workload, simulate
from sim.api import warm_up

LOGS = ("alea-hpc2n-subset", "theta_2022", "UniLu-Gaia-2014-1")
REPEATS = 3


def plain_fcfs(workload: Workload, procs: int) -> list[float]:
    """Return start times under FCFS without backfilling, by the shortest possible program."""
    free, clock_s = procs, 0.0
    running: list[tuple[float, int]] = []
    starts = []
    jobs = zip(
        workload.submit_s.tolist(),
        workload.runtime_s.tolist(),
        workload.procs.tolist(),
        strict=True,
    )
    for submit_s, runtime_s, n in jobs:
        clock_s = max(clock_s, submit_s)
        while running and (running[0][0] <= clock_s or free < n):
            end_s, released = heapq.heappop(running)
            clock_s = max(clock_s, end_s)
            free += released
        starts.append(clock_s)
        heapq.heappush(running, (clock_s + runtime_s, n))
        free -= n
    return starts


def cpu_s(work: Callable[[], Any], repeats: int) -> float:
    """Return the least CPU seconds of several repeats."""
    best = float("inf")
    for _ in range(repeats):
        before = time.process_time()
        work()
        best = min(best, time.process_time() - before)
    return best


def measure(path: Path, first: int | None, repeats: int) -> dict[str, Any]:
    """Measure one log; the peer must give the same schedule."""
    reading_s = cpu_s(lambda: load_workload(path), 1)
    workload = load_workload(path, first=first)
    procs = workload.max_procs or workload.widest_procs
    cluster = ClusterSpec.single(max(procs, workload.widest_procs))
    warm_up()
    found: dict[str, Any] = {"n_jobs": workload.n_jobs, "reading_cpu_s": reading_s}
    for backfill in ("none", "easy"):
        scenario = Scenario(workload, cluster, backfill=backfill)
        found[f"{backfill}_jobs_per_s"] = workload.n_jobs / cpu_s(
            lambda scenario=scenario: simulate(scenario), repeats
        )
    ours = simulate(Scenario(workload, cluster, backfill="none")).start_s.tolist()
    if ours != plain_fcfs(workload, cluster.total_procs):
        raise SystemExit(f"{path.name}: the two schedules differ")
    found["plain_loop_jobs_per_s"] = workload.n_jobs / cpu_s(
        lambda: plain_fcfs(workload, cluster.total_procs), repeats
    )
    return found


def main() -> None:
    """Measure, print the table, write the JSON."""
    options_parser = parser(__doc__ or "")
    options_parser.add_argument("--logs", type=Path, help="folder that holds the logs")
    options_parser.add_argument("--log", type=Path, action="append", help="another log")
    options_parser.add_argument("--first", type=int, help="only the first jobs")
    options = options_parser.parse_args()
    chosen = list(options.log or [])
    if options.logs is not None:
        chosen += [options.logs / f"{name}.swf.gz" for name in LOGS]
    if not chosen:
        options_parser.error("name the data: --logs DIR or --log FILE")
    record = Record("simulator", options, [])
    first, repeats = (300, 1) if options.quick else (options.first, REPEATS)
    rows = []
    for path in chosen:
        name = path.name.split(".")[0]
        found = record.step(name, lambda path=path: measure(path, first, repeats))
        for figure, value in found.items():
            record.figure(f"{name}: {figure}", value)
        ratio = found["none_jobs_per_s"] / found["plain_loop_jobs_per_s"]
        record.figure(f"{name}: none / plain loop", ratio)
        cells = [found[f"{key}_jobs_per_s"] for key in ("easy", "none", "plain_loop")]
        rows.append([name, f"{found['n_jobs']:,}", *(f"{cell:,.0f}" for cell in cells)])
        rows[-1] += [f"{ratio:.2f}", f"{found['reading_cpu_s']:.2f} s"]
    record.write()
    header = ["log", "jobs", "EASY jobs/s", "FCFS jobs/s", "plain loop jobs/s"]
    table([*header, "FCFS / plain loop", "reading the whole log"], rows)


if __name__ == "__main__":
    guarded(main)
