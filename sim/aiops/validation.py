"""Whether a simulation is like what it was fitted to (section VI-B of the PipeSim paper)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim.aiops.arrivals import CELLS, HOUR_S
from sim.aiops.collecting import PlatformResult
from sim.aiops.compare import Comparison, compare
from sim.aiops.fitting import LEAST_GAP_S
from sim.aiops.graph import TASKS
from sim.aiops.logs import LEAST_TASKS, Logs
from sim.errors import SetupError

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class HourlyBands:
    """Arrivals by hour of the week, observed and simulated.

    Attributes:
        observed: float64 [168], mean arrivals in that hour.
        simulated: float64 [168], likewise.
        low: float64 [168], where 95 percent of the simulated means would lie around the observed
            ones, from how much the hours of different weeks differ in the simulation.
        high: float64 [168].
        within: share of the hours whose simulated mean lies there.
    """

    observed: Floats
    simulated: Floats
    low: Floats
    high: Floats
    within: float


def validate(logs: Logs, result: PlatformResult) -> tuple[Comparison, ...]:
    """Compare a log with a simulation: each task, training by framework, gaps between arrivals.

    Args:
        logs: what the statistics of the simulation were fitted to.
        result: a simulation that kept its tables in memory.

    Raises:
        SetupError: the trace was written to a folder, or log and simulation have nothing in common.
    """
    if "tasks" not in result.tables:
        raise SetupError("a simulation is compared if it kept its trace in memory (no folder).")
    tasks, pipelines = result.tables["tasks"], result.tables["pipelines"]
    seconds = tasks["ended_s"] - tasks["started_s"]
    place = np.searchsorted(pipelines["pipeline"], tasks["pipeline"])
    framework = np.array(result.texts["framework"])[pipelines["framework"][place]]
    prototype = np.array(result.texts["prototype"])[pipelines["prototype"][place]]
    found = []
    for kind, name in enumerate(TASKS):
        told = logs.texts["task"] == name
        # a hierarchical pipeline trains twice, once in part
        made = (tasks["task"] == kind) & ((name != "train") | (prototype != "hierarchical"))
        found.append((name, logs.numbers["seconds"][told], seconds[made]))
        if name == "train":
            for one in result.texts["framework"]:
                of_it = told & (logs.texts["framework"] == one)
                label = f"train {one}"
                found.append(
                    (label, logs.numbers["seconds"][of_it], seconds[made & (framework == one)])
                )
    times = logs.numbers["submit_s"][logs.texts["task"] == "train"]
    arrived = np.sort(pipelines["arrived_s"])
    found.append(("gaps between arrivals", _gaps(times), _gaps(arrived)))
    kept = [(name, _above(told), _above(made)) for name, told, made in found]
    compared = tuple(
        compare(name, told, made)
        for name, told, made in kept
        if len(told) >= LEAST_TASKS and len(made) >= LEAST_TASKS
    )
    if not compared:
        raise SetupError("log and simulation have no task in common often enough to compare.")
    return compared


def hourly_bands(observed_s: Floats, simulated_s: Floats, start_s: float = 0.0) -> HourlyBands:
    """Compare arrivals by hour of the week over whole weeks.

    Args:
        observed_s: times of arrival since a Monday midnight.
        simulated_s: times of arrival of the simulation.
        start_s: seconds since Monday midnight at which the simulation begins.

    Raises:
        SetupError: either spans less than two weeks, so that weeks cannot be told apart.
    """
    counts = [_weeks(observed_s), _weeks(simulated_s + start_s)]
    if any(len(weeks) < 2 for weeks in counts):
        raise SetupError("arrivals by hour are compared over two whole weeks or more on each side.")
    observed, simulated = (weeks.mean(axis=0) for weeks in counts)
    variance = sum(weeks.var(axis=0, ddof=1) / len(weeks) for weeks in counts)
    pooled = sum(
        (w.var(axis=0, ddof=1) / np.maximum(w.mean(axis=0), 1e-9)).mean() * w.mean(axis=0) / len(w)
        for w in counts
    )
    half = 1.96 * np.sqrt(np.maximum(variance, pooled))
    inside = np.abs(simulated - observed) <= half
    return HourlyBands(observed, simulated, observed - half, observed + half, float(inside.mean()))


def _weeks(times_s: Floats) -> Floats:
    """Return arrivals by week and hour, float64 [weeks, 168], of the whole weeks."""
    times = times_s[np.isfinite(times_s)]
    if not len(times):
        return np.empty((0, CELLS))
    hours = (times // HOUR_S).astype(np.int64)
    first = -(-int(hours.min()) // CELLS) if hours.min() % CELLS > 1 else int(hours.min()) // CELLS
    last = (int(hours.max()) + 2) // CELLS
    inside = (hours >= first * CELLS) & (hours < last * CELLS)
    n = max(last - first, 0)
    counts = np.bincount(hours[inside] - first * CELLS, minlength=n * CELLS)
    return counts.reshape(n, CELLS).astype(float)


def _gaps(times_s: Floats) -> Floats:
    return np.maximum(np.diff(np.sort(times_s[np.isfinite(times_s)])), LEAST_GAP_S)


def _above(sample: Floats) -> Floats:
    return np.asarray(sample[np.isfinite(sample) & (sample > 0)])
