"""Whether sweeps that miss their goal are warned early, and those that reach it left alone.

``python -m benchmarks.warned_sweeps --data DIR`` steers the sweeps of `SWEEPS` without a person,
with the default strategy. DIR holds measured tables (``tables``) and job logs (``swf``). A sweep
counts as missed or reached by what it did, not by its group. ``--look`` prints instead how the
results of each whole space lie; the goals of `SWEEPS` were chosen once from these numbers.
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from agents import Follower
from assistant import Sla, open_session
from assistant.applications.extensions.flood import Flood
from assistant.applications.extensions.maze import MazeRunner
from assistant.applications.lookup import Lookup
from assistant.applications.scheduling import Scheduling
from assistant.core.errors import RunError
from assistant.core.ports import Application
from assistant.core.sla import AutoSteering
from assistant.executors.serial import SerialExecutor
from assistant.store.event_store import MemoryStore
from benchmarks.harness import Record, guarded, parser, table
from sim import load_workload
from sim.generators import default_workload
from strategies import Level

FIRST_JOBS = 3_000
LOGS = {"gaia": "UniLu-Gaia-2014-1.swf.gz", "hpc2n": "alea-hpc2n-subset.swf.gz"}
LONG_WAIT_S = 150_000.0  # of small jobs, with a preset; with 3 h nothing is feasible on hpc2n
WARNED_BY = 0.7  # share of the budget
QUICK = ("flood 0.03", "maze 62")


@dataclass(frozen=True, slots=True)
class Sweep:
    """One sweep: what it runs, its budget and its goal (None: without), and its seed."""

    subject: str
    runs: int
    goal: float | None
    seed: int = 0

    @property
    def name(self) -> str:
        """The subject and the goal."""
        return f"{self.subject} {'without goal' if self.goal is None else f'{self.goal:g}'}"


BEYOND = (  # better than the best of the whole space; nothing is feasible on hpc2n
    Sweep("kt_conv_old_3090", 60, 0.50),
    Sweep("kt_convolution_a100", 60, 0.52),
    Sweep("kt_pnpoly_3090", 60, 7.0),
    Sweep("lrzip2", 50, 9_500.0),
    Sweep("mysql", 50, 55.0),
    Sweep("kt_hp_genetic", 40, -0.53),
    Sweep("built-in", 40, 3_000.0),
    Sweep("built-in", 60, 3_400.0, seed=1),
    Sweep("gaia", 50, 40_000.0),
    Sweep("hpc2n", 40, 14_000.0),
    Sweep("maze", 40, 46.0),
    Sweep("flood", 60, 0.03),
)
WITHIN = (  # the best 1 to 2 % of a table, 4 % of a testbed, 5 to 10 % of the policies of a log
    Sweep("kt_conv_old_3090", 60, 0.576),
    Sweep("kt_convolution_a100", 60, 0.823),
    Sweep("kt_pnpoly_3090", 60, 7.72),
    Sweep("lrzip2", 50, 10_188.0),
    Sweep("mysql", 50, 58.7),
    Sweep("kt_hp_genetic", 40, -0.473),
    Sweep("built-in", 60, 6_500.0),
    Sweep("hpc2n, policies", 40, 11_815.0),
    Sweep("built-in, policies", 40, 3_358.0),
    Sweep("maze", 40, 62.0),
    Sweep("flood", 60, 0.18),
    Sweep("flood", 40, 0.21, seed=1),
)
WITHOUT = (
    Sweep("kt_pnpoly_3090", 40, None),
    Sweep("built-in", 40, None),
    Sweep("flood", 40, None),
)
SWEEPS = {"beyond": BEYOND, "within": WITHIN, "without": WITHOUT}


def application_of(subject: str, data: Path) -> Application:
    """Build what a sweep runs: a built-in, a log or a table of the folder."""
    log, _, preset = subject.partition(", ")
    if subject == "maze":
        return MazeRunner()
    if subject == "flood":
        return Flood()
    if log in LOGS or log == "built-in":
        file = None if log == "built-in" else data / "swf" / LOGS[log]
        workload = default_workload() if file is None else load_workload(file, first=FIRST_JOBS)
        if preset:
            return Scheduling(workload, preset=preset, small_job_wait_s=LONG_WAIT_S)
        return Scheduling(workload)
    return Lookup.read(data / "tables" / f"{subject}.csv")


def steer(sweep: Sweep, data: Path) -> dict[str, Any]:
    """Steer one sweep without a person; return whether it reached its goal, and its warnings."""
    application = application_of(sweep.subject, data)
    session = open_session(
        application, store=MemoryStore(), sla=Sla(sweep.runs, goal=sweep.goal), seed=sweep.seed
    )
    defaults = AutoSteering()
    agent = Follower(defaults.initial, defaults.batch, warnings=defaults.warnings)
    reason = agent.steer(session, SerialExecutor(application))
    experiment = session.experiment
    return {
        "reached": experiment.goal_run is not None,
        "ended": experiment.n_ended,
        "reason": reason,
        "strategy": experiment.steering.strategy,
        "warnings": [
            {
                "executed": warning.forecast.executed,
                "basis": warning.basis,
                "title": warning.heading,
                "text": warning.text,
                "alternatives": [change.text for change in warning.alternatives],
            }
            for warning in experiment.warnings
        ],
    }


def look(subject: str, data: Path) -> dict[str, Any]:
    """Run the whole space of a subject and return how its feasible results lie."""
    application = application_of(subject, data)
    names = [parameter.name for parameter in application.space.parameters]
    levels = (parameter.levels for parameter in application.space.parameters)
    points = [dict(zip(names, point, strict=True)) for point in itertools.product(*levels)]
    outcomes = [_assessed(application, values) for values in points]
    values = [value for value in outcomes if value is not None]
    shares = (0.0, 0.01, 0.02, 0.05, 0.25, 0.5)
    return {
        "size": len(points),
        "feasible": len(values),
        **{f"{share:g}": float(np.quantile(values, share)) for share in shares if values},
    }


def _assessed(application: Application, values: Mapping[str, Level]) -> float | None:
    try:
        outcome = application.objective.assess(application.evaluate(values, 0))
    except RunError:
        return None
    return outcome.value if outcome.feasible else None


def main() -> None:
    """Steer every sweep and print when it was warned, or look at the spaces."""
    options_parser = parser(__doc__ or "")
    options_parser.add_argument("--data", type=Path, default=Path(), help="folder of the data")
    options_parser.add_argument("--look", action="store_true", help="look at the whole spaces")
    options = options_parser.parse_args()
    seeds = sorted({sweep.seed for group in SWEEPS.values() for sweep in group})
    record = Record("warned_sweeps", options, seeds)
    if options.look:
        _look(record, options.data)
        return
    rows, counts = [], {"missed": [0, 0, 0], "reached": [0, 0, 0], "without": [0, 0, 0]}
    for group, sweep in ((g, sweep) for g, sweeps in SWEEPS.items() for sweep in sweeps):
        if options.quick and sweep.name not in QUICK:
            continue
        result = record.step(
            f"{group}: {sweep.name}, seed {sweep.seed}",
            lambda sweep=sweep: steer(sweep, options.data),  # type: ignore[misc]
        )
        first = next(iter(result["warnings"]), None)
        end = "reached" if result["reached"] else "missed"
        early = first is not None and first["executed"] < WARNED_BY * sweep.runs
        count = counts["without" if sweep.goal is None else end]
        count[0] += 1
        count[1] += first is not None
        count[2] += result["ended"] < sweep.runs if sweep.goal is None else early
        rows.append(_row(group, sweep, result, "" if sweep.goal is None else end))
    table(["group", "sweep", "end", "runs", "first warning", "of", "basis", "title"], rows)
    (missed, _, early), (reached, warned, _) = counts["missed"], counts["reached"]
    without, warned_without, interrupted = counts["without"]
    figures = {
        "missed": missed, "missed and warned early": early,
        "reached": reached, "reached and warned": warned,
        "without goal": without, "without goal and warned": warned_without,
        "without goal and interrupted": interrupted,
    }  # fmt: skip
    for name, n in figures.items():
        record.figure(name, n)
    record.write()
    table(["figure", "sweeps"], [[name, str(n)] for name, n in figures.items()])


def _look(record: Record, data: Path) -> None:
    subjects = dict.fromkeys(s.subject for group in SWEEPS.values() for s in group)
    rows = [
        [subject, str(record.step(subject, lambda subject=subject: look(subject, data)))]  # type: ignore[misc]
        for subject in subjects
    ]
    table(["subject", "feasible results by share of the space"], rows)


def _row(group: str, sweep: Sweep, result: dict[str, Any], end: str) -> list[str]:
    first = next(iter(result["warnings"]), None)
    cells = ["none", "", "", ""]
    if first is not None:
        share = first["executed"] / sweep.runs
        cells = [f"run {first['executed']}", f"{share:.0%}", first["basis"], first["title"]]
    return [group, sweep.name, end, f"{result['ended']} of {sweep.runs}", *cells]


if __name__ == "__main__":
    guarded(main)
