"""Simulated against recorded waits of real logs, under first come first served with EASY.

``python -m benchmarks.backtest --data DIR`` replays the logs of `LOGS` (`DIR/swf`) and the sample
of Eagle (`DIR/eagle`) and writes for each the agreement of the waits, by partition, width, user and
week, what in the log explains the gap, and whether another capacity, chosen on the first half of
the log, agrees better on the second. A log that records no waits says so. The policies of the sites
are not in the logs; first come first served with EASY stands for them.
"""

import argparse
import csv
import gzip
from dataclasses import asdict
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.harness import Record, guarded, parser, table
from sim import ClusterSpec, Scenario, Workload, simulate
from sim.api import load_workload
from sim.formats import rules_from_texts
from sim.metrics.recorded_waits import backtest, can_correct, corrected_replays, has_recorded_waits

LOGS = (
    "UniLu-Gaia-2014-1", "theta_2022", "theta_2023", "LLNL-Atlas-2006-2.1-cln",
    "CEA-Curie-2011-2.1-cln", "alea-hpc2n-subset",
)  # fmt: skip
EAGLE = "eagle"
EAGLE_PROCS = 2_114 * 36
"""Nodes and processors of each of NREL's Eagle; its table does not state them."""

QUICK_JOBS = 2_000


def workload_of(name: str, data: Path, first: int | None) -> Workload:
    """Read a log, with rows in any order, or its first jobs only."""
    if name == EAGLE:
        workload = read_eagle(data / "eagle" / "sample_eagle_data.csv.gz")
    else:
        path = data / "swf" / f"{name}.swf.gz"
        workload = load_workload(path, rules=rules_from_texts({"unsorted": "sort"}))
    return workload if first is None else workload.head(first)


def read_eagle(path: Path) -> Workload:
    """Read the table of Eagle, with partitions numbered by name; jobs that never ran are left out.

    Raises:
        OSError: there is no such file.
    """
    with gzip.open(path, "rt", newline="") as stream:
        rows = [row for row in csv.DictReader(stream) if row["start_time"] and row["run_time"]]
    names = sorted({row["partition"] for row in rows})
    submit, start = (
        [datetime.fromisoformat(row[f"{when}_time"]).timestamp() for row in rows]
        for when in ("submit", "start")
    )
    users = sorted({row["user"] for row in rows})
    return Workload.from_arrays(
        submit_s=submit,
        runtime_s=[float(row["run_time"]) for row in rows],
        procs=[max(int(float(row["processors_req"])), 1) for row in rows],
        requested_s=[float(row["wallclock_req"]) for row in rows],
        logged_wait_s=[max(b - s, 0.0) for s, b in zip(submit, start, strict=True)],
        user=[users.index(row["user"]) for row in rows],
        partition=[names.index(row["partition"]) for row in rows],
        name=EAGLE,
        max_procs=EAGLE_PROCS,
        unsorted="sort",
    )


def tested(workload: Workload) -> dict[str, Any]:
    """Return the backtest of one log as JSON."""
    size = max(workload.max_procs or 0, workload.widest_procs)
    scenario = Scenario(workload, ClusterSpec.single(size))
    result = simulate(scenario)
    about: dict[str, Any] = {"n_jobs": workload.n_jobs, "procs": size, "backtest": None}
    if not has_recorded_waits(workload, result):
        return about
    done = backtest(scenario, result)
    about |= {"sentence": done.agreement.sentence, "backtest": asdict(done)}
    if can_correct(scenario):
        corrected = corrected_replays(scenario, simulate)
        about["corrected"] = {"sentence": corrected.sentence, **asdict(corrected)}
    return about


def _step(name: str, data: Path, first: int | None) -> dict[str, Any]:
    return tested(workload_of(name, data, first))


def main() -> None:
    """Measure what was asked for, print the table, write the JSON."""
    options = parser(__doc__ or "")
    options.add_argument("--data", type=Path, required=True, help="folder with swf and eagle")
    options.add_argument("--log", action="append", choices=(*LOGS, EAGLE), help="only this log")
    run(options.parse_args())


def run(options: argparse.Namespace) -> None:
    """Replay each log, and print one row of the table for each."""
    record = Record("backtest", options, [], free=("log",))
    names = options.log or ((LOGS[0], LOGS[3], EAGLE) if options.quick else (*LOGS, EAGLE))
    first = QUICK_JOBS if options.quick else None
    rows = []
    for name in names:
        step = record.step(name, partial(_step, name, options.data, first))
        rows.append(_row(record, name, step))
    record.write()
    table(
        ["log", "jobs", "recorded s", "simulated s", "ratio", "rank", "first with room",
         "weeks within 7 %", "capacity", "first half", "second half"],
        rows,
    )  # fmt: skip


def _row(record: Record, name: str, step: dict[str, Any]) -> list[str]:
    begin = [name, f"{step['n_jobs']:,}"]
    if step["backtest"] is None:
        return [*begin, "none", *["-"] * 8]
    agreement, groups = step["backtest"]["agreement"], step["backtest"]["groups"]
    for key in ("ratio", "rank"):
        record.figure(f"{name}: {key}", agreement[key])
    shares = {cause["kind"]: cause["wait_share"] for cause in step["backtest"]["causes"]}
    weeks = [g["agreement"]["ratio"] for g in groups if g["kind"] == "week"]
    known = [ratio for ratio in weeks if ratio is not None]
    row = [
        *begin,
        *(f"{agreement[side]['mean_s']:,.0f}" for side in ("recorded", "simulated")),
        *(_two(agreement[key]) for key in ("ratio", "rank")),
        f"{100 * shares.get('first_with_room', 0.0):.1f} %",
        f"{sum(abs(ratio - 1) <= 0.07 for ratio in known)} of {len(known)}",
    ]
    if "corrected" not in step:
        return [*row, *["-"] * 3]
    replays, chosen = step["corrected"]["replays"], step["corrected"]["chosen"]
    record.figure(f"{name}: ratio, second half", replays[0]["tested"]["ratio"])
    record.figure(f"{name}: ratio, second half, corrected", chosen["tested"]["ratio"])
    halves = (
        f"{_two(replays[0][half]['ratio'])} -> {_two(chosen[half]['ratio'])}"
        for half in ("tuned", "tested")
    )
    return [*row, chosen["name"], *halves]


def _two(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


if __name__ == "__main__":
    guarded(main)
