"""Sweeps of 60 runs over real logs: the best configuration found against the current one.

``python -m benchmarks.sweeps --logs DIR`` sweeps three logs of that folder (the whole of
alea-hpc2n-subset, the first 5,000 jobs of theta_2022 and of UniLu-Gaia-2014-1), or ``--log FILE``
any other (``--first N``). Each log is swept twice: over the paper's three parameters, and with
the queue order as a fourth. Each sweep is what ``copperline sweep`` does.
"""

import argparse
import time
from pathlib import Path
from typing import Any

from agents import Follower
from assistant import Sla, open_session
from assistant.applications.scheduling import Scheduling
from assistant.executors.serial import SerialExecutor
from assistant.presentation.report.data import collect
from assistant.presentation.report.html import write_report
from assistant.store.event_store import MemoryStore
from benchmarks.harness import Record, guarded, parser, table
from sim import load_workload

LOGS = (("alea-hpc2n-subset", None), ("theta_2022", 5000), ("UniLu-Gaia-2014-1", 5000))
SPACES: dict[str, dict[str, tuple[str, ...]]] = {
    "paper": {},
    "paper + order": {"order": ("fcfs", "sjf")},
}


def sweep(
    log: Path, first: int | None, space: str, runs: int, seed: int, reports: Path | None
) -> dict[str, Any]:
    """Steer one sweep and return what came of it."""
    application = Scheduling(load_workload(log, first=first), levels=SPACES[space])
    name = f"{log.name.split('.')[0]}, {space}"
    session = open_session(
        application, store=MemoryStore(), sla=Sla(max_runs=runs), seed=seed, name=name
    )
    started_s = time.perf_counter()
    session.finish(Follower().steer(session, SerialExecutor(application)))
    wall_s = time.perf_counter() - started_s
    data = collect(session.experiment)
    if reports is not None:
        write_report(data, reports / f"{session.id.rsplit('-', 1)[0]}.html")
    best, baseline = session.experiment.best, session.experiment.baseline
    if best is None or baseline is None or best.outcome is None or baseline.outcome is None:
        return {"verdict": data.answer.verdict, "wall_s": wall_s}
    return {
        "verdict": data.answer.verdict,
        "headline": data.answer.headline,
        "baseline_s": baseline.outcome.value,
        "baseline_feasible": baseline.outcome.feasible,
        "best_s": best.outcome.value,
        "best_feasible": best.outcome.feasible,
        "best_run": best.id,
        "best": application.space.values(best.configuration),
        "n_feasible": sum(bool(run.feasible) for run in data.runs),
        "wall_s": wall_s,
    }


def main() -> None:
    """Sweep, print the table, write the JSON."""
    options_parser = parser(__doc__ or "")
    options_parser.add_argument("--logs", type=Path, help="folder that holds the three logs")
    options_parser.add_argument("--log", type=Path, action="append", help="another log")
    options_parser.add_argument("--first", type=int, help="jobs of each --log")
    options_parser.add_argument("--runs", type=int, default=60)
    options_parser.add_argument("--seed", type=int, default=0)
    options_parser.add_argument("--reports", type=Path, help="write the HTML reports here")
    options = options_parser.parse_args()
    chosen = _chosen(options)
    if not chosen:
        options_parser.error("name the data: --logs DIR or --log FILE")
    runs = 8 if options.quick else options.runs
    record = Record("sweeps", options, [options.seed])
    rows = []
    for log, first in chosen:
        for space in SPACES:
            name = f"{log.name.split('.')[0]}, {space}"
            found = record.step(
                name,
                lambda log=log, first=first, space=space: sweep(
                    log, first, space, runs, options.seed, options.reports
                ),
            )
            rows.append(_row(name, found))
            for figure in ("baseline_s", "best_s", "wall_s"):
                record.figure(f"{name}: {figure}", found.get(figure))
    record.write()
    header = ["log, parameters", "current response", "best", "feasible runs", "finding", "wall"]
    table(header, rows)


def _chosen(options: argparse.Namespace) -> list[tuple[Path, int | None]]:
    chosen: list[tuple[Path, int | None]] = []
    if options.logs is not None:
        small = 300 if options.quick else None
        chosen = [(options.logs / f"{name}.swf.gz", small or first) for name, first in LOGS]
    return chosen + [(log, options.first) for log in options.log or []]


def _row(name: str, found: dict[str, Any]) -> list[str]:
    if "best_s" not in found:
        return [name, "unknown", "unknown", "0", found["verdict"], f"{found['wall_s']:.0f} s"]
    violated = {True: "", False: " (violates)"}
    return [
        name,
        f"{found['baseline_s']:,.0f} s{violated[found['baseline_feasible']]}",
        f"{found['best_s']:,.0f} s{violated[found['best_feasible']]}",
        str(found["n_feasible"]),
        found["headline"],
        f"{found['wall_s']:.1f} s",
    ]


if __name__ == "__main__":
    guarded(main)
