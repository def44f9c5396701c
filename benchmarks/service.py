"""How fast the queue is: runs per second, the wait for a claim, and for the first after a start.

``python -m benchmarks.service --part store`` measures the queue on its file, without HTTP:

* claims and results per second with 1 and with 8 processes that open the file at once. "normal"
  and "full" say what the end of a result waits for (`Durability`); claims never wait for the disk;
* beside it, in the same minutes, asks and tells per second of Optuna's relational storage on SQLite
  as it comes and with WAL and NORMAL, where Optuna is installed (`[bench]`, or another interpreter
  by ``--optuna-python``). A trial there is four parameters and a value, a run here a
  configuration, a lease, a token and its journal rows: compare orders of magnitude;
* the wait for a claim with 10 and with 100,000 runs in the queue;
* a start on a journal of 100,000 runs: from opening the file, and from starting the interpreter.

``--part http`` measures the same through a service in a process of its own, with what a person's
decision waits meanwhile; see `benchmarks.service_http`. ``--part big`` measures one experiment of
100,000 finished runs; see `benchmarks.service_big`. ``--part capacity`` measures what each kind of
request costs a service, for `benchmarks.service_model`; see `benchmarks.service_capacity`.

All figures depend on the disk and on what else it does: the load of the machine is noted.
"""

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import quantiles
from typing import Any

from assistant import Objective, SingleMeasure, Sla
from assistant.core.events import Event, ExperimentOpened, RunCompleted, RunStarted, RunSubmitted
from assistant.core.run import Outcome
from assistant.core.sla import Steering, WarningPolicy
from assistant.store.event_store import Durability, SqliteStore
from assistant.store.queue import RunQueue
from benchmarks.harness import Record, guarded, parser, table
from benchmarks.service_big import measure_big
from benchmarks.service_capacity import measure_capacity
from benchmarks.service_http import append_in_parts, measure_http
from strategies import Configuration, Parameter, ParameterSpace

NAME = "runs"
SPACE = ParameterSpace(tuple(Parameter(f"p{i}", tuple(range(20))) for i in range(4)))
LEASE_S = 600.0
DURABILITIES: Sequence[Durability] = ("normal", "full")
PROCESSES = (1, 8)
CHILD = Path(__file__).with_name("peers") / "queue_child.py"


def store_with(path: Path, n_queued: int, n_completed: int = 0) -> SqliteStore:
    """Return a store with one active experiment: runs that are over, then runs that wait."""
    store = SqliteStore(path)
    objective = Objective(SingleMeasure("loss"), "minimise")
    opened = ExperimentOpened(
        0.0,
        NAME,
        NAME,
        NAME,
        (),
        SPACE,
        objective,
        Sla(),
        Steering("random"),
        WarningPolicy(),
        1,
        0,
        None,
        "",
    )
    events: list[Event] = [opened]
    for number in range(1, n_completed + n_queued + 1):
        levels = tuple(number // 20**i % 20 for i in range(4))
        configuration = Configuration(levels, SPACE.lineage)
        events.append(RunSubmitted(0.0, number, configuration, "analyst", number, "", None))
        if number <= n_completed:
            outcome = Outcome({"loss": 1.0}, 1.0, -1.0, True, 0.0)
            events += [RunStarted(0.0, number), RunCompleted(0.0, number, outcome, 1.0)]
    append_in_parts(store, NAME, events)
    return store


def work(path: Path, results: Durability, ready: Any, ends: Any) -> None:
    """Claim and complete until nothing waits; one process."""
    queue = RunQueue(SqliteStore(path), results=results)
    ready.wait()
    began_s, n_done = time.monotonic(), 0
    while (lease := queue.lease("worker", LEASE_S)) is not None:
        queue.complete(lease.token, {"loss": float(lease.run_id)}, None, 0.001)
        n_done += 1
    ends.put((n_done, began_s, time.monotonic()))


def throughput(folder: Path, n_runs: int, n_processes: int, results: Durability) -> dict[str, Any]:
    """Let processes empty a queue."""
    path = folder / f"{results}-{n_processes}.db"
    store_with(path, n_runs).close()
    context = multiprocessing.get_context("spawn")
    ready, ends = context.Barrier(n_processes), context.Queue()
    workers = [
        context.Process(target=work, args=(path, results, ready, ends)) for _ in range(n_processes)
    ]
    for one in workers:
        one.start()
    counts, began, ended = zip(*(ends.get() for _ in workers), strict=True)
    for one in workers:
        one.join()
    seconds = max(ended) - min(began)
    return {
        "n": sum(counts), "s": seconds, "per_s": sum(counts) / seconds,
        "by_process": sorted(counts), "load": os.getloadavg()[0],
    }  # fmt: skip


def optuna_throughput(
    folder: Path, python: str, n_processes: int, wal: bool, seconds: float
) -> dict[str, Any]:
    """Let Optuna ask and tell; ``missing`` where it is not installed."""
    command = [python, str(CHILD), str(folder / f"optuna-{n_processes}-{wal}.db")]
    command += ["--processes", str(n_processes), "--seconds", str(seconds)]
    done = subprocess.run(
        [*command, *(["--wal"] if wal else [])], capture_output=True, text=True, check=False
    )
    if done.returncode:
        return {"missing": done.stderr.strip().splitlines()[-1]}
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    if "n" in told:
        told |= {"per_s": told["n"] / told["s"], "load": os.getloadavg()[0]}
    return told


def latency(folder: Path, n_queued: int, n_claims: int) -> dict[str, float]:
    """Claim and give back, so that the queue stays as long as it is; time the claims."""
    store = store_with(folder / f"queued-{n_queued}.db", n_queued)
    queue, waits = RunQueue(store), []
    for _ in range(n_claims):
        began_s = time.perf_counter()
        lease = queue.lease("worker", LEASE_S)
        waits.append(time.perf_counter() - began_s)
        assert lease is not None
        queue.give_back(lease.token, "")
    store.close()
    cuts = quantiles(waits, n=20)
    return {"p50_ms": 1e3 * cuts[9], "p95_ms": 1e3 * cuts[18]}


FIRST_CLAIM = """
import sys, time
from pathlib import Path
from assistant.store import SqliteStore
from assistant.store.queue import RunQueue
began_s = time.perf_counter()
queue = RunQueue(SqliteStore(Path(sys.argv[1])))
queue.rearm()
assert queue.lease("worker", 60.0) is not None
print(time.perf_counter() - began_s)
"""


def restart(folder: Path, n_runs: int) -> dict[str, float]:
    """Start a process on a long journal, half of it over; three times, the greatest counts."""
    path = folder / "long.db"
    store = store_with(path, n_runs - n_runs // 2, n_runs // 2)
    n_events = store.length(NAME)
    store.close()
    opened, started = [], []
    for _ in range(3):
        began_s = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-c", FIRST_CLAIM, str(path)],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        started.append(time.perf_counter() - began_s)
        opened.append(float(done.stdout))
    return {"n_events": n_events, "open_s": max(opened), "process_s": max(started)}


def measure_store(options: argparse.Namespace, record: Record, folder: Path) -> None:
    """Measure the queue on its file; print the tables."""
    n_runs, n_long, n_claims, optuna_s = (
        (300, 600, 60, 0.3) if options.quick else (20_000, 100_000, 1_000, 10.0)
    )
    rows = []
    for durability in DURABILITIES:
        wal = durability == "normal"
        for n in PROCESSES:
            own = record.step(
                f"own, {durability}, {n} processes",
                lambda n=n, d=durability: throughput(folder, n_runs, n, d),
            )
            other = record.step(
                f"optuna, {durability}, {n} processes",
                lambda n=n, w=wal: optuna_throughput(folder, options.optuna_python, n, w, optuna_s),
            )
            theirs = other.get("per_s")
            ratio = None if not theirs else own["per_s"] / theirs
            record.figure(f"{durability}, {n} processes: runs per second", own["per_s"])
            record.figure(f"{durability}, {n} processes: optuna, trials per second", theirs)
            record.figure(f"{durability}, {n} processes: ratio", ratio)
            told = "not installed" if theirs is None else f"{theirs:.1f}"
            rows.append(
                [
                    f"{durability}, {n}", f"{own['per_s']:.0f}", told,
                    "" if ratio is None else f"{ratio:.0f}", f"{own['load']:.1f}",
                ]
            )  # fmt: skip
    table(
        ["durability, processes", "runs per second", "Optuna RDB, trials per second", "ratio",
         "load"],
        rows,
    )  # fmt: skip
    rows = []
    for n_queued in (10, n_long):
        found = record.step(f"claim of {n_queued}", lambda n=n_queued: latency(folder, n, n_claims))
        for kind in ("p50_ms", "p95_ms"):
            record.figure(f"claim of {n_queued}: {kind}", found[kind])
        rows.append([f"{n_queued:,}", f"{found['p50_ms']:.2f}", f"{found['p95_ms']:.2f}"])
    table(["runs in the queue", "claim, median ms", "95 %"], rows)
    found = record.step(f"restart on {n_long}", lambda: restart(folder, n_long))
    for kind in ("open_s", "process_s"):
        record.figure(f"restart on {n_long}: {kind}", found[kind])
    table(
        ["runs in the journal", "events", "opening to first claim, s", "with the interpreter, s"],
        [[f"{n_long:,}", f"{found['n_events']:,}", f"{found['open_s']:.3f}",
          f"{found['process_s']:.2f}"]],
    )  # fmt: skip


PARTS = ("store", "http", "big", "capacity")


def main() -> None:
    """Measure, print the tables, write the JSON."""
    options_parser: argparse.ArgumentParser = parser(__doc__ or "")
    options_parser.add_argument("--part", action="append", choices=PARTS, help="all if not given")
    options_parser.add_argument(
        "--optuna-python", default=sys.executable, help="an interpreter that has Optuna"
    )
    options_parser.add_argument("--folder", type=Path, help="on the disk that shall be measured")
    options = options_parser.parse_args()
    record = Record("service", options, [], free=("part", "optuna_python", "folder"))
    parts = options.part or PARTS
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        if "store" in parts:
            measure_store(options, record, Path(name))
        if "http" in parts:
            measure_http(options, record, Path(name), store_with)
        if "big" in parts:
            measure_big(options, record, Path(name))
        if "capacity" in parts:
            measure_capacity(options, record, Path(name), store_with)
    record.write()


if __name__ == "__main__":
    guarded(main)
