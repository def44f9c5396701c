"""Seconds per what-if: how long a person waits for the answer to "and if I did this instead?".

``python -m benchmarks.what_if`` asks a session under each of some changes, on one core, in a space
of 10^4 configurations after 200 results, strategy `grasp`. Printed are CPU seconds: the median and
the greatest of five. The aim is at most 1 s.
"""

import argparse
import os
import time
from collections.abc import Mapping
from statistics import median
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from assistant import Fact, Objective, Session, SingleMeasure, Sla, open_session
from assistant.store.event_store import MemoryStore
from benchmarks.harness import Record, guarded, parser, table
from strategies import Level, Parameter, ParameterSpace

SPACE = ParameterSpace(tuple(Parameter(f"p{i}", tuple(range(10))) for i in range(4)))
N_RESULTS = 200
N_TIMES = 5
CHANGES: Mapping[str, dict[str, Any]] = {
    "40 more runs": {"max_runs": 340},
    "70 % inside regions": {"exploitation": 0.7},
    "an easier goal": {"goal": 3.0},
    "two levels closed": {"close": [("p0", 9), ("p1", 0)]},
    "all of these": {
        "max_runs": 340, "exploitation": 0.7, "goal": 3.0, "close": [("p0", 9), ("p1", 0)],
    },
}  # fmt: skip


class Smooth:
    """A bowl with an interaction; the best is 1 at p0 = ... = 3."""

    baseline: Mapping[str, Level] | None = None
    name = "smooth"
    space = SPACE
    objective = Objective(SingleMeasure("loss"), "minimise")
    facts: tuple[Fact, ...] = ()


def loss(values: Mapping[str, Level]) -> float:
    """Return 1 + squared distance from 3 + twice the difference of the first two."""
    levels = np.array([float(value) for value in values.values()])
    return float(1.0 + np.sum((levels - 3) ** 2) + 2 * abs(levels[0] - levels[1]))


def session_of(n_results: int) -> Session:
    """Return a session with results at random configurations, none of them as good as the goal."""
    session = open_session(
        Smooth(),  # type: ignore[arg-type]
        store=MemoryStore(),
        sla=Sla(n_results + 100, goal=0.5),
        strategy="grasp",
    )
    rng, taken = np.random.default_rng(0), set[Any]()
    while len(taken) < n_results:
        drawn = SPACE.sample(rng, taken)
        assert drawn is not None
        taken.add(drawn)
    results = [(SPACE.values(one), {"loss": loss(SPACE.values(one))}) for one in sorted(taken)]
    session.import_results(results)
    return session


def measure(change: dict[str, Any], n_results: int, n_times: int) -> dict[str, float]:
    """Ask for one change, a few times."""
    session, seconds = session_of(n_results), []
    for _ in range(n_times):
        started_s = time.process_time()
        session.what_if(**change)
        seconds.append(time.process_time() - started_s)
    return {"median_s": median(seconds), "greatest_s": max(seconds)}


def main() -> None:
    """Measure, print the table, write the JSON."""
    options_parser: argparse.ArgumentParser = parser(__doc__ or "")
    options = options_parser.parse_args()
    n_results, n_times = (30, 2) if options.quick else (N_RESULTS, N_TIMES)
    record = Record("what_if", options, [0])
    rows = []
    for name, change in CHANGES.items():
        found = record.step(name, lambda c=change: measure(c, n_results, n_times))
        for kind in ("median_s", "greatest_s"):
            record.figure(f"{name}: {kind}", found[kind])
        rows.append([name, f"{found['median_s']:.3f}", f"{found['greatest_s']:.3f}"])
    record.write()
    table([f"what-if after {n_results} results", "median CPU s", "greatest"], rows)


if __name__ == "__main__":
    guarded(main)
