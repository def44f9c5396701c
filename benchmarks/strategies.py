"""How many runs a strategy needs on measured tables, beside random search.

``python -m benchmarks.strategies --tables DIR`` steers every table of that folder (CSV, parameter
columns and ``objective``) with GRASP as in the paper, with its effects from factorial blocks and
from least squares, with the split of section 3.2, and at random: the same tables, seeds and
budget, batches of 5 after 10 random runs. A missing combination is a failed run. Printed is
the median number of runs until a result within 5 % of (median - best), not reached counting as
one more than the budget, and the ratio to random search.
"""

import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from agents import Follower
from assistant import Sla, open_session
from assistant.applications import Lookup
from assistant.executors import SerialExecutor
from assistant.store import MemoryStore
from benchmarks.harness import Record, guarded, parser, table

METHODS: dict[str, dict[str, Any]] = {
    "random": {"strategy": "random"},
    "grasp": {"strategy": "grasp"},
    "grasp, blocks": {"strategy": "grasp", "options": {"effects": "blocks"}},
    "grasp, least squares": {"strategy": "grasp", "options": {"effects": "least_squares"}},
    "grasp, exploitation 0.7": {"strategy": "grasp", "exploitation": 0.7},
}


def runs_to_goal(
    lookup: Lookup, method: Mapping[str, Any], goal: float, runs: int, seed: int
) -> int:
    """Return the run that first reached the goal, or one more than the budget."""
    session = open_session(lookup, store=MemoryStore(), sla=Sla(runs), seed=seed, **method)
    Follower().steer(session, SerialExecutor(lookup))
    reached = [
        run.id
        for run in session.experiment.runs
        if run.outcome is not None and run.outcome.value <= goal
    ]
    return min(reached, default=runs + 1)


def measure(path: Path, method: str, runs: int, seeds: list[int]) -> dict[str, Any]:
    """Measure one method on one table."""
    lookup = Lookup.read(path)
    values = np.array([m.objective for m in lookup.table.measurements.values()])
    best, median = float(values.min()), float(np.median(values))
    goal = best + 0.05 * (median - best)
    reached = [runs_to_goal(lookup, METHODS[method], goal, runs, seed) for seed in seeds]
    return {
        "runs": reached,
        "median": statistics.median(reached),
        "rows_within": int((values <= goal).sum()),
        "rows": len(values),
    }


def main() -> None:
    """Measure, print the table, write the JSON."""
    options_parser = parser(__doc__ or "")
    options_parser.add_argument("--tables", type=Path, required=True, help="folder of CSV tables")
    options_parser.add_argument("--runs", type=int, default=100)
    options_parser.add_argument("--seeds", type=int, default=10)
    options = options_parser.parse_args()
    paths = sorted(options.tables.glob("*.csv"))
    if not paths:
        options_parser.error(f"no CSV table in '{options.tables}'")
    runs, n_seeds = (12, 1) if options.quick else (options.runs, options.seeds)
    paths = paths[:2] if options.quick else paths
    record = Record("strategies", options, list(range(n_seeds)))
    rows = []
    for path in paths:
        found = {
            method: record.step(
                f"{path.stem}, {method}",
                lambda path=path, method=method: measure(path, method, runs, record.body["seeds"]),
            )
            for method in METHODS
        }
        within = f"{found['random']['rows_within']} of {found['random']['rows']:,}"
        rows.append([path.stem, within, *(f"{one['median']:g}" for one in found.values())])
        for method, one in found.items():
            record.figure(f"{path.stem}, {method}: median runs", one["median"])
    ratios = ["ratio of medians to random, geometric mean", ""]
    for method in METHODS:
        figures = record.body["figures"]
        logs = [
            np.log(figures[f"{p.stem}, {method}: median runs"])
            - np.log(figures[f"{p.stem}, random: median runs"])
            for p in paths
        ]
        ratio = float(np.exp(np.mean(logs)))
        record.figure(f"{method}: ratio to random", ratio)
        ratios.append(f"{ratio:.2f}")
    record.write()
    table(["table", "rows within 5 %", *METHODS], [*rows, ratios])


if __name__ == "__main__":
    guarded(main)
