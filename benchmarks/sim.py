"""How fast the simulator is, beside AccaSim and plain SimPy in the same run, in CPU seconds.

``python -m benchmarks.sim --log FILE`` (repeat it, or ``--logs DIR``) measures, for each log:

* speed: jobs per CPU second of whole ``simulate()`` calls with their result, warm, on one core;
  beside a scheduler written with SimPy alone, one written with Numba alone, and AccaSim where it is
  installed (extra ``bench``). Engines and peers take turns, and figures are medians of the turns.
  The benchmark stops if the engine ``process`` takes more than 1.5 times as long as plain SimPy;
* grid: all 22 x 20 x 20 configurations of the scheduling application under EASY, with measures,
  without kept results, reading the log excluded;
* whole: the whole log once, with measures, in a process of its own, with its peak memory;
* cold: the first answer in a new process with an empty code cache, and with a full one
  (not with ``--quick``, since it compiles everything anew).

The schedules of our engines and of the plain ones must be equal, or the benchmark stops; AccaSim's
FIFO must agree in its mean wait. AccaSim's backfilling is not EASY (see `benchmarks.peers`), so
only its speed is compared.
"""

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from assistant.applications.scheduling import Scheduling
from assistant.applications.scheduling_parameters import (
    N_SPLITS,
    SMALL_MAX_PROCS,
    SMALL_MAX_REQUESTED,
    SMALL_PROCS,
)
from benchmarks.harness import (
    Record,
    guarded,
    interleaved_cpu_s,
    median_ratio,
    parser,
    table,
)
from benchmarks.peers import accasim, plain_numba, plain_simpy
from sim import ClusterSpec, Partition, Scenario, SimError, Workload, load_workload, simulate
from sim.api import TooWide, measures, simulate_many, wait_for_compiler
from sim.engines import process
from sim.formats import rules_from_texts

LOGS = ("theta_2022", "UniLu-Gaia-2014-1", "LLNL-Atlas-2006-2.1-cln", "lublin_256")
PARTS = ("speed", "grid", "whole", "cold")
SIZES = (5_000, 10_000)
ACCASIM_LIMIT_S = 120.0
ROUNDS = 9
TURN_S = 0.05
"""Least CPU seconds of a turn: shorter calls are repeated."""
LEAST_OF_SIMPY = 0.67
"""The engine `process` must make so many jobs in the time in which plain SimPy makes one."""

_CHILD = """
import json, resource, sys, time
began = time.perf_counter()
from pathlib import Path
from benchmarks.sim import cluster_of, read
from sim import Scenario, simulate
from sim.api import measures
path, first, wait = Path(sys.argv[1]), int(sys.argv[2]) or None, sys.argv[3] == "wait"
workload = read(path, first)
scenario = Scenario(workload, cluster_of(workload))
if wait:
    from sim.api import wait_for_compiler
    wait_for_compiler()
    simulate(Scenario(workload.head(10), scenario.cluster))
read_s = time.perf_counter()
before_s = time.process_time()
result = simulate(scenario)
answer_s = time.perf_counter()
told = measures(scenario, result)
print(json.dumps({
    "n_jobs": workload.n_jobs,
    "engine": result.engine,
    "answer_wall_s": answer_s - read_s,
    "from_start_wall_s": answer_s - began,
    "with_measures_cpu_s": time.process_time() - before_s,
    "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    "mean_wait_s": told["mean_wait_s"],
}))
"""


def read(path: Path, first: int | None) -> Workload:
    """Read a log; by the default rules, or where they refuse it by those that repair it."""
    try:
        return load_workload(path, first=first)
    except SimError:
        repairs = rules_from_texts(
            {
                "unsorted": "sort", "machine_size": "max_nodes", "extra_columns": "drop",
                "negative": "unknown",
            }
        )  # fmt: skip
        return load_workload(path, rules=repairs, first=first)


def cluster_of(workload: Workload) -> ClusterSpec:
    """Return one partition with the processors of the log's machine."""
    return ClusterSpec.single(max(workload.max_procs or 1, workload.widest_procs))


def speed(workload: Workload, rounds: int, with_accasim: bool) -> dict[str, Any]:
    """Measure every engine and every peer on one workload."""
    cluster, n_jobs = cluster_of(workload), workload.n_jobs
    procs = cluster.total_procs
    found: dict[str, Any] = {"n_jobs": n_jobs}
    for backfill, policy in (("easy", "easy"), ("none", "fcfs")):
        scenario = Scenario(workload, cluster, backfill=backfill)
        expected = simulate(scenario, engine="compiled")
        for kernel in ("compiled", "interpreted"):
            if process.run(scenario, kernel=kernel) != expected:
                raise SystemExit(f"{workload.name}: SimPy with {kernel} policies differs")
        for peer in (plain_simpy, plain_numba):
            if getattr(peer, policy)(workload, procs) != expected.start_s.tolist():
                raise SystemExit(f"{workload.name}: {peer.__name__} gives another schedule")
        works: dict[str, Callable[[], object]] = {
            "compiled": partial(simulate, scenario, engine="compiled"),
            "process": partial(process.run, scenario, kernel="compiled"),
            "process interpreted": partial(process.run, scenario, kernel="interpreted"),
            "interpreted": partial(simulate, scenario, engine="interpreted"),
            "plain SimPy": partial(getattr(plain_simpy, policy), workload, procs),
            "plain Numba": partial(
                plain_numba.columns, workload, procs, backfills=backfill == "easy"
            ),
        }
        times_s = interleaved_cpu_s(works, rounds, TURN_S)
        for name, turns_s in times_s.items():
            found[f"{name}, {backfill}"] = n_jobs / statistics.median(turns_s)
        for peer_name, engine in (("plain SimPy", "process"), ("plain Numba", "compiled")):
            ratio = median_ratio(times_s, peer_name, engine)
            found[f"{engine} over {peer_name}, {backfill}"] = ratio
        if rounds > 1 and found[f"process over plain SimPy, {backfill}"] < LEAST_OF_SIMPY:
            raise SystemExit(
                f"{workload.name}: the engine 'process' is far slower than plain SimPy"
            )
        if with_accasim:
            found |= _accasim(workload, procs, backfill, measures(scenario, expected))
    return found


def _accasim(
    workload: Workload, procs: int, backfill: str, ours: dict[str, float]
) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        policy: accasim.Policy = "easy" if backfill == "easy" else "fifo"
        told = accasim.run(workload, procs, policy, Path(folder), ACCASIM_LIMIT_S)
    theirs_s, ours_s = told.mean_wait_s, ours["mean_wait_s"]
    if theirs_s is not None and backfill == "none" and abs(theirs_s - ours_s) > 0.01:
        raise SystemExit(
            f"{workload.name}: AccaSim's FIFO waits {theirs_s} s in the mean, ours {ours_s} s"
        )
    return {
        f"AccaSim main process, {backfill}": told.n_jobs / told.cpu_s,
        f"AccaSim with its writers, {backfill}": told.n_jobs / told.all_cpu_s,
        f"AccaSim finished, {backfill}": told.finished,
    }


def grid(workload: Workload, levels: int | None) -> dict[str, Any]:
    """Simulate and measure every configuration of the scheduling application."""
    cluster = cluster_of(workload)
    too_wide: TooWide = "reject"
    scheduling = Scheduling(workload, procs=cluster.total_procs)
    if len(scheduling.space.parameters[0].levels) < N_SPLITS:  # a job is as wide as the machine
        too_wide = "clip"
        scheduling = Scheduling(workload, procs=cluster.total_procs, too_wide=too_wide)
    taken = [parameter.levels[:levels] for parameter in scheduling.space.parameters]

    def scenarios() -> Iterator[Scenario]:
        names = (SMALL_PROCS, SMALL_MAX_REQUESTED, SMALL_MAX_PROCS)
        for combination in itertools.product(*taken):
            told = dict(zip(names, combination, strict=True))
            small = int(told[SMALL_PROCS])
            if small == 0:
                yield Scenario(workload, cluster)
                continue
            narrow = Partition(
                "small", small, float(told[SMALL_MAX_REQUESTED]),
                min(int(told[SMALL_MAX_PROCS]), small),
            )  # fmt: skip
            main = Partition("main", cluster.total_procs - small)
            yield Scenario(workload, ClusterSpec((narrow, main)), too_wide=too_wide)

    found: dict[str, Any] = {"n_jobs": workload.n_jobs, "levels": [len(part) for part in taken]}
    waits: dict[int, list[float]] = {}
    cores = os.cpu_count() or 1
    for threads in dict.fromkeys((1, cores)):
        cpu_s, wall_s = time.process_time(), time.perf_counter()
        told = simulate_many(scenarios(), each=measures, threads=threads, engine="compiled")
        waits[threads] = [one["mean_wait_s"] for one in told]
        found[f"{threads} threads: CPU s"] = time.process_time() - cpu_s
        found[f"{threads} threads: wall s"] = time.perf_counter() - wall_s
    if any(one != waits[1] for one in waits.values()):
        raise SystemExit(f"{workload.name}: the number of threads changes the measures")
    found["n_configurations"] = len(waits[1])
    found["median of mean waits, s"] = statistics.median(waits[1])
    return found


def child(path: Path, first: int | None, cache: str | None, *, wait: bool) -> dict[str, Any]:
    """Simulate in a new process."""
    environment = dict(os.environ)
    if cache is not None:
        environment["COPPERLINE_CACHE_DIR"] = cache
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, str(path), str(first or 0), "wait" if wait else "now"],
        capture_output=True, text=True, check=False, env=environment,
    )  # fmt: skip
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def cold(path: Path, first: int) -> dict[str, Any]:
    """Answer in a new process without any compiled code, then with it."""
    with tempfile.TemporaryDirectory() as cache:
        told = child(path, first, cache, wait=False)
        child(path, 10, cache, wait=True)
        warm = child(path, first, cache, wait=False)
    if (told["engine"], warm["engine"]) != ("interpreted", "compiled"):
        raise SystemExit(f"cold and warm were answered by {told['engine']} and {warm['engine']}")
    return {"cold": told, "warm": warm}


def measure(path: Path, parts: list[str], options: argparse.Namespace, record: Record) -> None:
    """Measure one log and note its figures."""
    name, quick = path.name.split(".")[0], bool(options.quick)
    wait_for_compiler()
    workload = read(path, None)
    for size in (300,) if quick else SIZES:
        some = workload.head(size)
        if "speed" in parts and some.n_jobs == size:
            told = record.step(
                f"{name}: speed {size}",
                partial(speed, some, 1 if quick else ROUNDS, options.accasim),
            )
            for key, value in told.items():
                record.figure(f"{name}, {size} jobs: {key}", value)
    if "grid" in parts:
        some = workload.head(100 if quick else options.first)
        told = record.step(f"{name}: grid", lambda: grid(some, 2 if quick else None))
        for key, value in told.items():
            if key != "levels":
                record.figure(f"{name}, grid: {key}", value)
    if "whole" in parts:
        told = record.step(
            f"{name}: whole", lambda: child(path, 300 if quick else None, None, wait=True)
        )
        for key in ("n_jobs", "with_measures_cpu_s", "peak_mb"):
            record.figure(f"{name}, whole: {key}", told[key])
    if "cold" in parts:
        told = record.step(f"{name}: cold", lambda: cold(path, options.first))
        for state in ("cold", "warm"):
            for key in ("answer_wall_s", "from_start_wall_s"):
                record.figure(f"{name}, {state}: {key}", told[state][key])


def print_tables(record: Record) -> None:
    """Print what was measured, ready for the README."""
    steps = record.body["steps"]
    rows = []
    for step, told in steps.items():
        if ": speed" not in step:
            continue
        for backfill, policy in (("easy", "EASY"), ("none", "FCFS")):
            ours = told[f"compiled, {backfill}"]
            cells = [told.get(f"{key}, {backfill}") for key in _COLUMNS]
            ratios = [None if cell is None else ours / cell for cell in cells]
            rows.append(
                [step.split(":")[0], f"{told['n_jobs']:,}", policy, f"{ours:,.0f}"]
                + [
                    "-" if cell is None or ratio is None else f"{cell:,.0f} ({ratio:,.1f}x)"
                    for cell, ratio in zip(cells, ratios, strict=True)
                ]
            )
    if rows:
        table(["log", "jobs", "policy", "compiled, jobs/s", *_COLUMNS], rows)
    rows = [
        [step.split(":")[0], step.split(": ")[1], ", ".join(_brief(told))]
        for step, told in steps.items()
        if ": speed" not in step
    ]
    if rows:
        table(["log", "part", "figures"], rows)


_COLUMNS = (
    "plain Numba", "process", "process interpreted", "interpreted", "plain SimPy",
    "AccaSim main process",
    "AccaSim with its writers",
)  # fmt: skip


def _brief(told: dict[str, Any]) -> Iterator[str]:
    for key, value in told.items():
        if isinstance(value, dict):
            yield f"{key}: {'; '.join(_brief(value))}"
        elif isinstance(value, float):
            yield f"{key} {value:.2f}"
        else:
            yield f"{key} {value}"


def main() -> None:
    """Measure, print the tables, write the JSON."""
    options_parser = parser(__doc__ or "")
    options_parser.add_argument("--logs", type=Path, help="folder that holds the logs")
    options_parser.add_argument("--log", type=Path, action="append", help="a log; repeat it")
    options_parser.add_argument("--first", type=int, default=5_000, help="jobs of grid and cold")
    options_parser.add_argument("--part", choices=PARTS, action="append", help="only this part")
    options = options_parser.parse_args()
    chosen = list(options.log or [])
    if options.logs is not None:
        chosen += [options.logs / f"{name}.swf.gz" for name in LOGS]
    if not chosen:
        options_parser.error("name the data: --logs DIR or --log FILE")
    options.accasim = accasim.is_installed() and not options.quick
    record = Record("sim", options, [])
    parts = options.part or list(PARTS)
    for path in chosen:
        measure(path, [p for p in parts if p != "cold" or not options.quick], options, record)
    record.write()
    print_tables(record)
    if not options.accasim and not options.quick:
        sys.stdout.write("AccaSim is not installed here: pip install 'copperline[bench]'\n")


if __name__ == "__main__":
    guarded(main)
