"""The question of a job log on real logs: tuned on one part, tested on the jobs after it.

``python -m benchmarks.default_question --data DIR`` runs all configurations of the preset ``lanes``
(or of ``--preset``, such as those of Slurm) on each log in `DIR/swf`, and prints for three rules
what the configuration chosen on the first part does to the mean wait of that part and of the later
jobs, as shares of those under the current one: ``none`` minimises the mean wait alone, ``1.1`` lets
every class wait 10 % longer, and ``lanes`` is the preset's own rule. Printed, too, is whether the
bounds of ``lanes`` (1.1 and 1.25 of a class, 1.5 of the longest wait) hold for the later jobs. The
current configuration is first come, first served, with EASY or the rule whose options the preset
varies, as it is usual. ``--windows N`` cuts each log into N parts, and takes each pair of
neighbours as such a log; the last row is over all of them.
"""

import argparse
import math
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from assistant.applications.scheduling import CurrentPolicies, Scheduling
from assistant.applications.scheduling_presets import LOG_PRESET, preset_named, presets
from assistant.core.objective import Measure
from benchmarks.harness import Record, guarded, parser, table
from sim import Workload
from sim.api import load_workload

LOGS = (
    "UniLu-Gaia-2014-1", "theta_2022", "theta_2023", "LLNL-Atlas-2006-2.1-cln",
    "NASA-iPSC-1993-3.1-cln", "alea-hpc2n-subset", "CEA-Curie-2011-2.1-cln", "wagap-2013",
    "lublin_256",
)  # fmt: skip
QUESTIONS = tuple(preset.name for preset in presets() if preset.is_bounded and not preset.split)
MOST_JOBS = 50_000
QUICK = ("alea-hpc2n-subset", "theta_2022")
QUICK_JOBS = 4_000
PERMITTED: Mapping[str, tuple[float, float]] = {
    "none": (math.inf, math.inf), "1.1": (1.1, 1.5), "lanes": (1.0, 1.5),
}  # fmt: skip
"""By rule: the largest ratio of a class, and of the longest wait, to the current ones."""

Measures = Mapping[str, Measure]


def workload_of(path: Path, most: int) -> Workload:
    """Read the first ``most`` jobs of a log."""
    workload = load_workload(path)
    return workload.head(min(most, workload.n_jobs))


def outcomes(workload: Workload, preset: str = LOG_PRESET) -> dict[str, Any]:
    """Evaluate every configuration, and return what each rule chooses, as JSON."""
    size = max(workload.max_procs or 0, workload.widest_procs)
    asked = preset_named(preset)
    current = CurrentPolicies(backfill=asked.backfill or asked.usual_backfill)
    application = Scheduling(workload, procs=size, preset=preset, current_policies=current)
    space = application.space
    several = [space.values(one) for one in space.configurations()]
    runs = list(application.evaluate_many(several))
    now = next(measures for values, measures in runs if values == application.baseline)
    chosen = {rule: _chosen(runs, *bounds) for rule, bounds in PERMITTED.items()}
    return {
        "n_jobs": workload.n_jobs, "procs": size, "n_configurations": len(runs),
        "current_s": [now["mean_wait_s"], now["later_mean_wait_s"]],
        "chosen": {
            rule: {
                "values": dict(values),
                "in": _share(measures["mean_wait_s"], now["mean_wait_s"]),
                "out": measures["later_wait_ratio"],
                "interval": [measures[f"later_wait_ratio_{end}"] for end in ("low", "high")],
                "class": measures["later_class_wait_ratio"],
                "longest": measures["later_longest_wait_ratio"],
            }
            for rule, (values, measures) in chosen.items()
        },
    }  # fmt: skip


def _chosen(
    runs: list[tuple[Mapping[str, Any], Measures]], most_class: float, most_longest: float
) -> tuple[Mapping[str, Any], Measures]:
    """Return the shortest mean wait within the bounds; the current one is within each."""
    return min(
        (
            run
            for run in runs
            if _number(run[1]["class_wait_ratio"]) <= most_class
            and _number(run[1]["longest_wait_ratio"]) <= most_longest
        ),
        key=lambda run: _number(run[1]["mean_wait_s"]),
    )


def _number(value: Measure) -> float:
    return float(value) if isinstance(value, int | float) else math.inf


def _share(part: Measure, whole: Measure) -> float | None:
    return _number(part) / _number(whole) if _number(whole) >= 1 else None


def _step(path: Path, most: int, preset: str, windows: int, window: int) -> dict[str, Any]:
    workload = workload_of(path, most)
    if windows > 1:
        size = workload.n_jobs // windows
        workload = workload.part(window * size, (window + 2) * size)
    return outcomes(workload, preset)


def main() -> None:
    """Measure, print the table, write the JSON."""
    options = parser(__doc__ or "")
    options.add_argument("--data", type=Path, required=True, help="folder with swf")
    options.add_argument("--log", action="append", choices=LOGS, help="only this log")
    options.add_argument("--preset", choices=QUESTIONS, default=LOG_PRESET)
    options.add_argument("--jobs", type=int, default=MOST_JOBS, help="only the first of each log")
    options.add_argument("--windows", type=int, default=1, help="parts of each log")
    run(options.parse_args())


def run(options: argparse.Namespace) -> None:
    """Evaluate each log, and print one row for each and one for all."""
    record = Record("default_question", options, [0], free=("log",))
    names = options.log or (QUICK if options.quick else LOGS)
    most = QUICK_JOBS if options.quick else options.jobs
    steps: dict[str, dict[str, Any]] = {}
    for name in names:
        path = options.data / "swf" / f"{name}.swf.gz"
        for window in range(max(1, options.windows - 1)):
            key = name if options.windows == 1 else f"{name}, {window + 1}"
            steps[key] = record.step(
                key, partial(_step, path, most, options.preset, options.windows, window)
            )
    rows = [_row(key, step) for key, step in steps.items()]
    rows.append(_all(record, list(steps.values())))
    record.write()
    table(
        ["log", "jobs", "none: in, out", "1.1: in, out", "lanes: in, out", "95 %", "chosen",
         "class <= 1.1 / 1.25", "longest <= 1.5"],
        rows,
    )  # fmt: skip


def _row(name: str, step: dict[str, Any]) -> list[str]:
    chosen = step["chosen"]
    mine = chosen["lanes"]
    changes = ", ".join(str(value) for value in mine["values"].values())
    held = [_yes(mine["class"] is not None and mine["class"] <= most) for most in (1.1, 1.25)]
    return [
        name, f"{step['n_jobs']:,}",
        *(f"{_two(one['in'])} -> {_two(one['out'])}" for one in chosen.values()),
        " to ".join(map(_two, mine["interval"])), changes, " / ".join(held),
        _yes(mine["longest"] is not None and mine["longest"] <= 1.5),
    ]  # fmt: skip


def _all(record: Record, steps: list[dict[str, Any]]) -> list[str]:
    """Return the geometric means over the logs on whose parts both jobs wait."""
    cells, judged = [], [step for step in steps if _is_judged(step)]
    for rule in PERMITTED:
        means = [_mean([step["chosen"][rule][side] for step in judged]) for side in ("in", "out")]
        record.figure(f"{rule}: in", means[0])
        record.figure(f"{rule}: out", means[1])
        cells.append(f"{_two(means[0])} -> {_two(means[1])}")
    held = [
        sum(step["chosen"]["lanes"][name] <= most for step in judged)
        for name, most in (("class", 1.1), ("class", 1.25), ("longest", 1.5))
    ]
    wins = sum(step["chosen"]["lanes"]["in"] == 1 for step in judged)
    gains = sum(step["chosen"]["lanes"]["out"] < 0.9 for step in judged)
    record.figure("logs judged", len(judged))
    record.figure("the current configuration wins", wins)
    record.figure("gain of more than 10 %", gains)
    return [
        f"all, {len(judged)} judged", "", *cells, "",
        f"current wins {wins}, gain over 10 % in {gains}",
        f"{held[0]} / {held[1]}", str(held[2]),
    ]  # fmt: skip


def _is_judged(step: dict[str, Any]) -> bool:
    values = [one[side] for one in step["chosen"].values() for side in ("in", "out")]
    return all(value is not None and value > 0 for value in values)


def _mean(values: list[float]) -> float | None:
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None


def _two(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _yes(is_true: bool) -> str:
    return "yes" if is_true else "no"


if __name__ == "__main__":
    guarded(main)
