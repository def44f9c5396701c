"""Seconds per suggestion: how long a strategy thinks, by the size of the space.

``python -m benchmarks.suggest`` asks every registered strategy (or ``--methods a,b``) for one
suggestion at a time, on one core, in spaces of 10^4, 10^6 and 10^12 configurations and of 125
switches, after 100 runs of which some failed: ten suggestions, each with the result of the one
before. Printed are mean and greatest CPU seconds, and those of a batch of ten.
"""

import argparse
import os
import time
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from benchmarks.harness import Record, guarded, parser, table
from strategies import (
    STRATEGIES,
    Configuration,
    Failure,
    Knowledge,
    Observation,
    Parameter,
    ParameterSpace,
    make_strategy,
)

SPACES = {"10^4": (4, 10), "10^6": (6, 10), "10^12": (12, 10), "2^125": (125, 2)}
"""Number of parameters and of their levels."""
N_RUNS = 100
N_SUGGESTIONS = 10


def loss(configuration: Configuration) -> float | None:
    """Return a smooth response with an interaction; None is a failed run, about one in seven."""
    levels = np.array(configuration.level_ids)
    if levels[0] + levels[1] > 13 or (len(levels) > 12 and levels[:3].sum() == 3):
        return None
    return float(np.sum((levels - 3) ** 2) + 2 * abs(levels[0] - levels[1]))


def measure(method: str, name: str, n_runs: int, n_suggestions: int, seed: int) -> dict[str, Any]:
    """Ask one strategy in a space of `SPACES`."""
    n_parameters, n_levels = SPACES[name]
    levels = tuple(range(n_levels))
    space = ParameterSpace(tuple(Parameter(f"p{i}", levels) for i in range(n_parameters)))
    rng = np.random.default_rng(seed)
    strategy = make_strategy(method)
    observations: list[Observation] = []
    failures: list[Failure] = []

    def run(configuration: Configuration) -> None:
        value = loss(configuration)
        if value is None:
            failures.append(Failure(configuration, "it failed"))
        else:
            observations.append(Observation(configuration, -value))

    taken: set[Configuration] = set()
    while len(taken) < n_runs:
        drawn = space.sample(rng, taken)
        assert drawn is not None
        taken.add(drawn)
        run(drawn)
    seconds = []
    for _ in range(n_suggestions):
        knowledge = Knowledge(space, tuple(observations), tuple(failures))
        started_s = time.process_time()
        suggestion = strategy.suggest(1, knowledge, rng)[0]
        seconds.append(time.process_time() - started_s)
        run(suggestion.configuration)
    knowledge = Knowledge(space, tuple(observations), tuple(failures))
    started_s = time.process_time()
    strategy.suggest(10, knowledge, rng)
    return {
        "mean_s": float(np.mean(seconds)),
        "greatest_s": max(seconds),
        "batch_of_10_s": time.process_time() - started_s,
        "failed": len(failures),
    }


def main() -> None:
    """Measure, print the table, write the JSON."""
    options_parser: argparse.ArgumentParser = parser(__doc__ or "")
    known = list(STRATEGIES)
    options_parser.add_argument("--methods", default=",".join(known), help="comma list")
    options = options_parser.parse_args()
    methods = options.methods.split(",")
    for method in methods:
        make_strategy(method)
    n_runs, n_suggestions = (20, 2) if options.quick else (N_RUNS, N_SUGGESTIONS)
    record = Record("suggest", options, [0])
    rows = []
    for method in methods:
        row = [method]
        for space in SPACES:
            found = record.step(
                f"{method}, {space}",
                lambda m=method, s=space: measure(m, s, n_runs, n_suggestions, 0),
            )
            for name in ("mean_s", "greatest_s", "batch_of_10_s"):
                record.figure(f"{method}, {space}: {name}", found[name])
            row.append(
                f"{found['mean_s']:.3f} / {found['greatest_s']:.3f} / {found['batch_of_10_s']:.2f}"
            )
        rows.append(row)
    record.write()
    head = [f"{space}: mean / greatest / batch of 10 (CPU s)" for space in SPACES]
    table([f"strategy, after {n_runs} runs", *head], rows)


if __name__ == "__main__":
    guarded(main)
