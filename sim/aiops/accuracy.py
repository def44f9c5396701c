"""Figure 12 of the PipeSim paper of one's own logs: is what is simulated like what was observed?

The statistics are simulated for some weeks; every kind of task, training by framework and the gaps
between arrivals of every profile are compared by their quantiles, and arrivals by the hour of the
week.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim.aiops.arrivals import Arrivals, arrival_blocks
from sim.aiops.collecting import PlatformResult
from sim.aiops.compare import Comparison, compare
from sim.aiops.engine import run_platform
from sim.aiops.fitting import LEAST_GAP_S
from sim.aiops.graph import TASKS
from sim.aiops.logs import LEAST_TASKS, NUMBERS, Logs
from sim.aiops.scenario import PlatformScenario
from sim.aiops.statistics import Statistics
from sim.aiops.validation import HourlyBands, hourly_bands, validate
from sim.errors import SetupError
from sim.workloads.streams import Streams

Floats = NDArray[np.float64]

WEEK_S = 7 * 86_400.0
WEEKS = 4
"""Simulated, as in the paper."""

COMPARED = ("random", "realistic", "calendar")
"""Profiles of arrivals; the first two are the paper's."""

GAPS = "gaps between arrivals"


@dataclass(frozen=True, eq=False)
class Accuracy:
    """A log beside what its statistics simulate.

    Attributes:
        n_observed: executed tasks of the log.
        n_simulated: pipelines that were simulated.
        weeks: that were simulated.
        seed: of the simulation.
        source: of the statistics.
        tasks: each kind of task, and training by framework.
        gaps: between arrivals, by profile; none if the log tells no times.
        hours: arrivals by hour of the week, by profile; none if either side has less than two
            whole weeks.
    """

    n_observed: int
    n_simulated: int
    weeks: int
    seed: int
    source: str
    tasks: tuple[Comparison, ...]
    gaps: Mapping[str, Comparison]
    hours: Mapping[str, HourlyBands]


def accuracy(logs: Logs, statistics: Statistics, *, weeks: int = WEEKS, seed: int = 0) -> Accuracy:
    """Simulate statistics and compare them with a log.

    Args:
        logs: of executed tasks, `submit_s` from a Monday midnight.
        statistics: fitted to it, or others.
        weeks: simulated.
        seed: of the simulation.

    Raises:
        SetupError: no weeks, or log and simulation have nothing in common.
    """
    if weeks < 1:
        raise SetupError(f"{weeks} weeks cannot be simulated; allowed are whole numbers from 1.")
    profiles = COMPARED if statistics.arrivals.cells else COMPARED[:1]
    scenario = PlatformScenario(
        statistics=statistics,
        profile=profiles[-1],
        duration_s=weeks * WEEK_S,
        drain=True,
        seed=seed,
    )
    result = run_platform(scenario)
    tasks = tuple(one for one in validate(logs, result) if one.name != GAPS)
    times = logs.numbers["submit_s"][logs.texts["task"] == "train"]
    observed = np.sort(times[np.isfinite(times)])
    gaps: dict[str, Comparison] = {}
    hours: dict[str, HourlyBands] = {}
    if len(observed) >= LEAST_TASKS:
        for profile in profiles:
            came = _arrived(statistics.arrivals, profile, weeks, seed)
            gaps[profile] = compare(profile, _gaps(observed), _gaps(came))
            try:
                hours[profile] = hourly_bands(observed, came)
            except SetupError:  # less than two whole weeks
                hours.clear()
    return Accuracy(
        len(logs), result.n_pipelines, weeks, seed, statistics.source, tasks, gaps, hours
    )


def log_of(result: PlatformResult) -> Logs:
    """Return the log that a platform would have written, of a simulation that kept its tables.

    The second training of a hierarchical pipeline, which is part of one, is left out.
    """
    tasks, of = result.tables["tasks"], result.tables["pipelines"]
    place = np.searchsorted(of["pipeline"], tasks["pipeline"])
    part = (of["prototype"][place] == result.texts["prototype"].index("hierarchical")) & (
        tasks["task"] == TASKS.index("train")
    )
    place, kinds = place[~part], tasks["task"][~part]
    numbers = {name: np.full(len(place), np.nan) for name in NUMBERS}
    numbers["seconds"] = (tasks["ended_s"] - tasks["started_s"])[~part]
    numbers["submit_s"] = of["arrived_s"][place]
    for name in ("rows", "columns", "bytes"):
        numbers[name] = of[name][place].astype(float)
    texts = {
        "task": np.array(TASKS)[kinds],
        "framework": np.array(result.texts["framework"])[of["framework"][place]],
        "estimator": np.array(result.texts["estimator"])[of["estimator"][place]],
    }
    return Logs(texts, numbers)


def example_log(weeks: int = WEEKS, seed: int = 7) -> Logs:
    """Return a log of a platform with the published laws, of some weeks."""
    scenario = PlatformScenario(
        profile="calendar", interarrival_factor=2.0, duration_s=weeks * WEEK_S, drain=True,
        seed=seed,
    )  # fmt: skip
    return log_of(run_platform(scenario))


def _arrived(arrivals: Arrivals, profile: str, weeks: int, seed: int) -> Floats:
    """Return times of arrival, as a simulation with that seed would have them."""
    streams = Streams(seed).inside("arrivals")
    blocks = arrival_blocks(arrivals, streams, profile=profile, until_s=weeks * WEEK_S)
    return np.concatenate([np.empty(0), *blocks])


def _gaps(times_s: Floats) -> Floats:
    return np.maximum(np.diff(times_s), LEAST_GAP_S)
