"""Validation of a simulation against the log that it was fitted to.

Distributions are compared by quantiles, Kolmogorov-Smirnov and Wasserstein distance, arrivals by
hour of the week (section VI-B and figure 12 of the PipeSim paper). Data sets, preprocessing and
training are also given as the samples that figures 8, 9(a) and 9(b) show.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim.aiops.engine import run_platform
from sim.aiops.logs import LEAST_GAP_S, LEAST_TASKS, NUMBERS, PlatformLogs
from sim.aiops.platform import TASKS
from sim.aiops.platform_statistics import (
    CELLS,
    HOUR_S,
    PipelineArrivals,
    PlatformStatistics,
    arrival_blocks,
)
from sim.aiops.synthesis import PlatformScenario
from sim.aiops.trace import PlatformResult
from sim.generators.generator import RandomStreams
from sim.model.errors import SetupError

Floats = NDArray[np.float64]


PROBABILITIES = tuple(float(p) for p in np.linspace(0.005, 0.995, 100))


@dataclass(frozen=True, slots=True)
class DistributionComparison:
    """Comparison of the distributions of an observed and a simulated sample.

    Attributes:
        n_observed, n_simulated: sizes of the samples.
        observed, simulated: quantiles at `PROBABILITIES`.
        ks: largest distance between the two empirical distribution functions, 0 to 1.
        ks_critical: value that `ks` exceeds in one of twenty cases if both samples have one
            continuous distribution (Smirnov's asymptotic 1.358 sqrt((n + m) / nm)).
        wasserstein: mean distance between the two quantile functions, in the unit of the samples.
        log_wasserstein: the same for logarithms; 0.1 is about 10 percent.
    """

    name: str
    n_observed: int
    n_simulated: int
    observed: tuple[float, ...]
    simulated: tuple[float, ...]
    ks: float
    ks_critical: float
    wasserstein: float
    log_wasserstein: float


def compare(name: str, observed: Floats, simulated: Floats) -> DistributionComparison:
    """Compare the distributions of an observed and a simulated sample of positive numbers.

    Raises:
        SetupError: one sample is empty or has a value that is not finite and above 0.
    """
    for which, sample in (("observed", observed), ("simulated", simulated)):
        if not len(sample) or not np.all(np.isfinite(sample)) or np.min(sample) <= 0:
            raise SetupError(f"the {which} sample of '{name}' needs numbers, all above 0.")
    n, m = len(observed), len(simulated)
    return DistributionComparison(
        name,
        n,
        m,
        tuple(float(q) for q in np.quantile(observed, PROBABILITIES)),
        tuple(float(q) for q in np.quantile(simulated, PROBABILITIES)),
        ks_distance(observed, simulated),
        1.358 * float(np.sqrt((n + m) / (n * m))),
        wasserstein_distance(observed, simulated),
        wasserstein_distance(np.log(observed), np.log(simulated)),
    )


def ks_distance(first: Floats, second: Floats) -> float:
    """Return the largest distance between two empirical distribution functions."""
    places = np.concatenate([first, second])
    return float(np.max(np.abs(_share_below(first, places) - _share_below(second, places))))


def wasserstein_distance(first: Floats, second: Floats) -> float:
    """Return the area between two empirical distribution functions."""
    places = np.sort(np.concatenate([first, second]))
    apart = np.abs(_share_below(first, places) - _share_below(second, places))
    return float(np.sum(apart[:-1] * np.diff(places)))


def _share_below(sample: Floats, places: Floats) -> Floats:
    return np.searchsorted(np.sort(sample), places, side="right") / len(sample)


@dataclass(frozen=True, eq=False)
class HourlyBands:
    """Observed and simulated arrivals by hour of the week, with 95 percent intervals.

    Attributes:
        observed, simulated: float64 [168], mean arrivals in that hour.
        low, high: float64 [168], 95 percent interval of simulated means around the observed ones,
            from the variance between weeks.
        within: share of the hours whose simulated mean lies in the interval.
    """

    observed: Floats
    simulated: Floats
    low: Floats
    high: Floats
    within: float


def validate(logs: PlatformLogs, result: PlatformResult) -> tuple[DistributionComparison, ...]:
    """Compare a log with a simulation: task durations, trainings by framework, arrival gaps.

    Raises:
        SetupError: the trace was written to a folder, or log and simulation share no task.
    """
    if "tasks" not in result.tables:
        raise SetupError("only a trace in memory can be compared; simulate without a folder.")
    pairs = _durations(logs, result)
    times = logs.numbers["submit_s"][logs.texts["task"] == "train"]
    arrived = np.sort(result.tables["pipelines"]["arrived_s"])
    pairs.append(("gaps between arrivals", _gaps(times), _gaps(arrived)))
    positive_pairs = [
        (name, _above(observed), _above(simulated)) for name, observed, simulated in pairs
    ]
    compared = tuple(
        compare(name, observed, simulated)
        for name, observed, simulated in positive_pairs
        if len(observed) >= LEAST_TASKS and len(simulated) >= LEAST_TASKS
    )
    if not compared:
        raise SetupError("log and simulation share no task that is frequent enough to compare.")
    return compared


Pair = tuple[str, Floats, Floats]
"""Name of a sample, its values in the log, and its simulated values."""


def _durations(logs: PlatformLogs, result: PlatformResult) -> list[Pair]:
    """Return the seconds of each kind of task, and of training by framework."""
    tasks, pipelines = result.tables["tasks"], result.tables["pipelines"]
    seconds = tasks["ended_s"] - tasks["started_s"]
    place = np.searchsorted(pipelines["pipeline"], tasks["pipeline"])
    framework = np.array(result.texts["framework"])[pipelines["framework"][place]]
    prototype = np.array(result.texts["prototype"])[pipelines["prototype"][place]]
    pairs: list[Pair] = []
    for kind, name in enumerate(TASKS):
        observed = logs.texts["task"] == name
        # a hierarchical pipeline trains twice, once in part
        simulated = (tasks["task"] == kind) & ((name != "train") | (prototype != "hierarchical"))
        pairs.append((name, logs.numbers["seconds"][observed], seconds[simulated]))
        if name == "train":
            for framework_name in result.texts["framework"]:
                of_it = observed & (logs.texts["framework"] == framework_name)
                label = f"train {framework_name}"
                pairs.append(
                    (
                        label,
                        logs.numbers["seconds"][of_it],
                        seconds[simulated & (framework == framework_name)],
                    )
                )
    return pairs


MOST_POINTS = 200  # points of each side of a scatter plot
HISTOGRAM_BINS = 40
LARGEST_SHOWN = 0.99  # quantile of the log at which a histogram ends, as in figure 9(b)
MOST_HISTOGRAMS = 2  # frameworks, as in figure 9(b)


@dataclass(frozen=True, eq=False)
class SampleScatter:
    """Two quantities of the log and of the simulation: a subsample of points of each.

    Attributes:
        name: name of the y axis over that of the x axis.
        x, y: names of the quantities.
        observed, simulated: float64 [n, 2], all above 0.
        curve: float64 [n, 2], a fitted function of x; empty if there is none.
    """

    name: str
    x: str
    y: str
    observed: Floats
    simulated: Floats
    curve: Floats


@dataclass(frozen=True, eq=False)
class DurationHistogram:
    """Durations of the log and of the simulation up to a quantile of the log.

    Attributes:
        edges_s: float64 [n + 1], equally wide bins from 0.
        observed, simulated: float64 [n], share of all durations in each bin.
    """

    name: str
    edges_s: Floats
    observed: Floats
    simulated: Floats


def scatters(
    logs: PlatformLogs, result: PlatformResult, statistics: PlatformStatistics, seed: int = 0
) -> tuple[SampleScatter, ...]:
    """Return the dimensions of data sets (figure 8) and preprocessing by size (figure 9(a)).

    Data sets are de-duplicated, as in the paper. A scatter without points on a side is left out.
    """
    rng = np.random.default_rng(seed)
    tasks, pipelines = result.tables["tasks"], result.tables["pipelines"]
    quantities = ("rows", "columns", "bytes")
    of_log = np.column_stack([logs.numbers[name] for name in quantities])
    of_simulation = np.column_stack([pipelines[name].astype(float) for name in quantities])
    place = np.searchsorted(pipelines["pipeline"], tasks["pipeline"])
    is_done = [
        logs.texts["task"] == "preprocess", tasks["task"] == TASKS.index("preprocess"),
    ]  # fmt: skip
    seconds = [logs.numbers["seconds"], tasks["ended_s"] - tasks["started_s"]]
    assets = [_distinct(of_log), _distinct(of_simulation)]
    cells = [of_log[:, :2].prod(axis=1), of_simulation[place, :2].prod(axis=1)]
    several = [
        ("rows over columns", "columns", "rows", [one[:, [1, 0]] for one in assets]),
        (
            "bytes over cells", "cells", "bytes",
            [np.column_stack([one[:, :2].prod(axis=1), one[:, 2]]) for one in assets],
        ),
        (
            "preprocessing over cells", "cells", "seconds",
            [
                np.column_stack([size, spent])[done]
                for size, spent, done in zip(cells, seconds, is_done, strict=True)
            ],
        ),
    ]  # fmt: skip
    found = []
    for name, x, y, sides in several:
        observed, simulated = (_subsample(side, rng) for side in sides)
        if len(observed) and len(simulated):
            curve = np.empty((0, 2))
            if y == "seconds":
                size = np.geomspace(observed[:, 0].min(), observed[:, 0].max(), 60)
                curve = np.column_stack([size, statistics.preprocess.expected(size)])
            found.append(SampleScatter(name, x, y, observed, simulated, curve))
    return tuple(found)


def _distinct(assets: Floats) -> Floats:
    return np.unique(assets[np.isfinite(assets).all(axis=1)], axis=0)


def _subsample(points: Floats, rng: np.random.Generator) -> Floats:
    usable = points[(np.isfinite(points) & (points > 0)).all(axis=1)]
    if len(usable) <= MOST_POINTS:
        return usable
    return usable[rng.choice(len(usable), MOST_POINTS, replace=False)]


def histograms(logs: PlatformLogs, result: PlatformResult) -> tuple[DurationHistogram, ...]:
    """Return training times of the frameworks with most trainings in the log (figure 9(b))."""
    pairs = [
        (name, _above(observed), _above(simulated))
        for name, observed, simulated in _durations(logs, result)
        if name.startswith("train ")
    ]
    enough = [pair for pair in pairs if min(map(len, pair[1:])) >= LEAST_TASKS]
    enough.sort(key=lambda pair: -len(pair[1]))
    return tuple(_histogram(*pair) for pair in enough[:MOST_HISTOGRAMS])


def _histogram(name: str, observed: Floats, simulated: Floats) -> DurationHistogram:
    edges_s = np.linspace(0.0, float(np.quantile(observed, LARGEST_SHOWN)), HISTOGRAM_BINS + 1)
    shares = [np.histogram(side, edges_s)[0] / len(side) for side in (observed, simulated)]
    return DurationHistogram(name, edges_s, *shares)


def hourly_bands(observed_s: Floats, simulated_s: Floats, start_s: float = 0.0) -> HourlyBands:
    """Compare observed and simulated arrivals by hour of the week over whole weeks.

    Observed times count from a Monday midnight, and the simulation begins `start_s` after one.

    Raises:
        SetupError: one side spans less than two weeks, so that there is no variance between weeks.
    """
    counts = [_weeks(observed_s), _weeks(simulated_s + start_s)]
    if any(len(weeks) < 2 for weeks in counts):
        raise SetupError("arrivals by hour need two or more whole weeks on each side.")
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
    """Return the arrivals by week and hour, float64 [weeks, 168], of the whole weeks."""
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


WEEK_S = 7 * 86_400.0
WEEKS = 4  # simulated weeks, as in the paper

COMPARED = ("random", "realistic", "calendar")
"""Compared arrival profiles; the first two are those of the paper."""

GAPS = "gaps between arrivals"


@dataclass(frozen=True, eq=False)
class SimulationAccuracy:
    """Comparison of a log with a simulation whose statistics were fitted to the log.

    Attributes:
        n_observed, n_simulated: executed tasks of the log, simulated pipelines.
        tasks: comparisons by kind of task, and of training by framework.
        gaps: comparisons of gaps between arrivals, by profile; empty if the log has no times.
        hours: arrivals by hour of the week, by profile; empty if one side has less than two weeks.
        scatters: data sets and preprocessing; empty if the log has no sizes.
        histograms: training times of the two most frequent frameworks.
    """

    n_observed: int
    n_simulated: int
    weeks: int
    seed: int
    source: str
    tasks: tuple[DistributionComparison, ...]
    gaps: Mapping[str, DistributionComparison]
    hours: Mapping[str, HourlyBands]
    scatters: tuple[SampleScatter, ...]
    histograms: tuple[DurationHistogram, ...]


def accuracy(
    logs: PlatformLogs, statistics: PlatformStatistics, *, weeks: int = WEEKS, seed: int = 0
) -> SimulationAccuracy:
    """Simulate a platform from fitted statistics and compare the result with a log.

    Raises:
        SetupError: no weeks, or log and simulation share no task.
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
    tasks = tuple(comparison for comparison in validate(logs, result) if comparison.name != GAPS)
    times = logs.numbers["submit_s"][logs.texts["task"] == "train"]
    observed = np.sort(times[np.isfinite(times)])
    gaps: dict[str, DistributionComparison] = {}
    hours: dict[str, HourlyBands] = {}
    if len(observed) >= LEAST_TASKS:
        for profile in profiles:
            came = _arrived(statistics.arrivals, profile, weeks, seed)
            gaps[profile] = compare(profile, _observed_gaps(observed), _observed_gaps(came))
            try:
                hours[profile] = hourly_bands(observed, came)
            except SetupError:  # less than two whole weeks
                hours.clear()
    return SimulationAccuracy(
        len(logs), result.n_pipelines, weeks, seed, statistics.source, tasks, gaps, hours,
        scatters(logs, result, statistics, seed), histograms(logs, result),
    )  # fmt: skip


def log_of(result: PlatformResult) -> PlatformLogs:
    """Return the log that a real platform would have written for this simulation.

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
    return PlatformLogs(texts, numbers)


def example_log(weeks: int = WEEKS, seed: int = 7) -> PlatformLogs:
    """Simulate a platform with the published statistics and return its log of `weeks` weeks."""
    scenario = PlatformScenario(
        profile="calendar", interarrival_factor=2.0, duration_s=weeks * WEEK_S, drain=True,
        seed=seed,
    )  # fmt: skip
    return log_of(run_platform(scenario))


def _arrived(arrivals: PipelineArrivals, profile: str, weeks: int, seed: int) -> Floats:
    streams = RandomStreams(seed).inside("arrivals")
    blocks = arrival_blocks(arrivals, streams, profile=profile, until_s=weeks * WEEK_S)
    return np.concatenate([np.empty(0), *blocks])


def _observed_gaps(times_s: Floats) -> Floats:
    return np.maximum(np.diff(times_s), LEAST_GAP_S)
