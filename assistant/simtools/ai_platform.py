"""Views of an AI platform: fit to its logs, comparison of log and simulation, dashboards.

The comparison of a log with its simulation follows figure 12 of PipeSim; dashboards show
arrivals, load, waits and drift over time and over a day.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from assistant.applications.extensions.ai_platform import TODAY, AiPlatform
from assistant.core.errors import SettingsError
from assistant.core.objective import Measure
from assistant.presentation.charts.ai_platform import (
    HistogramBars,
    PlatformComparison,
    PlatformDrawing,
    PlatformPanel,
    Points,
    QuantileComparison,
    Rows,
    ScatterPoints,
    WeekBands,
    length,
)
from sim.aiops import (
    DAY_S,
    HOUR_S,
    WEEKS,
    DistributionComparison,
    Floats,
    HourlyBands,
    PlatformLogs,
    PlatformResult,
    PlatformScenario,
    SimulationAccuracy,
    SimulationMetadata,
    SpreadSummary,
    TraceSummary,
    accuracy,
    describe_fit,
    example_log,
    fit_statistics,
    read_logs,
    statistics_of,
    summarise,
    summarise_folder,
)
from sim.generators import Model, load_model
from strategies import Level

MOST_COMPONENTS = 200


@dataclass(frozen=True)
class FittedPlatform:
    """A statistical model of an AI platform, with sentences on its fit to the log."""

    model: Model
    sentences: tuple[str, ...]


def fit_platform(logs: PlatformLogs, name: str, *, components: int, seed: int) -> FittedPlatform:
    """Fit a statistical model to the logs of an AI platform.

    Raises:
        SettingsError: the number of components or the seed is out of range.
        SimError: the log has too little data.
    """
    if not 1 <= components <= MOST_COMPONENTS:
        raise SettingsError(
            f"--components {components}: allowed are whole numbers from 1 to {MOST_COMPONENTS}"
        )
    if not 0 <= seed < 2**32:
        raise SettingsError(f"--seed {seed}: allowed are whole numbers from 0 to {2**32 - 1}")
    source = f"fitted to {len(logs):,} executed tasks of {name}"
    statistics = fit_statistics(logs, source=source, components=components, seed=seed)
    return FittedPlatform(statistics.model(), describe_fit(logs, statistics))


USUAL_WEEKS = WEEKS


EXAMPLE = "built-in example"


def likeness(
    log: Path | None, model: Path | None = None, *, weeks: int = USUAL_WEEKS, seed: int = 0
) -> PlatformComparison:
    """Compare the log of an AI platform with a simulation of the platform.

    Args:
        log: file of executed tasks, CSV or Parquet; None for the built-in example.
        model: file of a model of statistics; None fits them to the log.
        weeks: simulated weeks.
        seed: seed of the simulation and of the starting points of the fit.

    Raises:
        SimError: a file cannot be read, or there is nothing to compare.
    """
    name = EXAMPLE if log is None else log.name
    logs = example_log() if log is None else read_logs(log)
    if model is None:
        statistics = fit_statistics(logs, source=f"fitted to {name}", seed=seed)
    else:
        statistics = statistics_of(load_model(model))
    return likeness_of(name, accuracy(logs, statistics, weeks=weeks, seed=seed))


def likeness_of(log: str, accuracy: SimulationAccuracy) -> PlatformComparison:
    """Convert the accuracy of a simulation to a comparison that can be drawn."""
    return PlatformComparison(
        log,
        accuracy.n_observed,
        accuracy.n_simulated,
        accuracy.weeks,
        accuracy.seed,
        accuracy.source,
        tuple(_quantiles(comparison, comparison.name) for comparison in accuracy.tasks),
        tuple(
            _quantiles(comparison, f"gaps, {profile}")
            for profile, comparison in accuracy.gaps.items()
        ),
        {profile: _bands(bands) for profile, bands in accuracy.hours.items()},
        tuple(
            ScatterPoints(
                one.name, one.x, one.y, *map(_points, (one.observed, one.simulated, one.curve))
            )
            for one in accuracy.scatters
        ),
        tuple(
            HistogramBars(one.name, *map(_numbers, (one.edges_s, one.observed, one.simulated)))
            for one in accuracy.histograms
        ),
    )


def _points(points: Floats) -> Points:
    return tuple((float(x), float(y)) for x, y in points)


def _numbers(values: Floats) -> tuple[float, ...]:
    return tuple(float(value) for value in values)


def as_table(result: PlatformComparison) -> Mapping[str, Any]:
    """Return a comparison of a log with its simulation as a JSON object."""
    return asdict(result)


def from_table(table: Mapping[str, Any]) -> PlatformComparison:
    """Return a comparison from the JSON object that `as_table` returns."""

    def frozen(value: Any) -> Any:
        return tuple(map(frozen, value)) if isinstance(value, list | tuple) else value

    def entries(rows: Any) -> Any:
        return [{name: frozen(value) for name, value in row.items()} for row in rows]

    parts = {
        name: tuple(kind(**entry) for entry in entries(table[name]))
        for name, kind in _KINDS.items()
    }
    bands = (WeekBands(**entry) for entry in entries(table["hours"].values()))
    hours = dict(zip(table["hours"], bands, strict=True))
    return PlatformComparison(**{**table, **parts, "hours": hours})


_KINDS: Mapping[str, Callable[..., Any]] = {
    "tasks": QuantileComparison, "gaps": QuantileComparison, "scatters": ScatterPoints,
    "histograms": HistogramBars,
}  # fmt: skip


def _quantiles(comparison: DistributionComparison, name: str) -> QuantileComparison:
    return QuantileComparison(
        name, comparison.observed, comparison.simulated,
        comparison.n_observed, comparison.n_simulated, comparison.ks,
        comparison.ks_critical, comparison.wasserstein, comparison.log_wasserstein,
    )  # fmt: skip


def _bands(bands: HourlyBands) -> WeekBands:
    return WeekBands(
        _numbers(bands.observed), _numbers(bands.simulated), _numbers(bands.low),
        _numbers(bands.high), bands.within,
    )  # fmt: skip


MOST_POINTS = 750
"""Most points of a series; longer simulations are shown as means of hours, days or weeks."""

STEPS_H = (1, 3, 6, 24, 168)

FULL_TRAINING: Mapping[str, Level] = {**TODAY, "training_capacity": 4}
"""The exploratory case of the PipeSim paper: training is full after the peak of arrivals."""

BUSY_KINDS = ("preprocess", "train", "evaluate")


@dataclass(frozen=True, eq=False)
class PlatformDashboard:
    """The dashboard of one simulated AI platform: drawings, tables and sentences."""

    title: str
    parameters: tuple[tuple[str, str], ...]
    summary: TraceSummary
    over_time: PlatformDrawing
    day: PlatformDrawing
    words: tuple[str, ...]
    tables: Mapping[str, Rows]


def simulated_dashboard(
    application: AiPlatform, values: Mapping[str, Level], folder: Path | None = None
) -> tuple[PlatformDashboard, Mapping[str, Measure]]:
    """Simulate one configuration, with a trace in ``folder``; return dashboard and measures."""
    scenario = application.scenario(values)
    result = application.simulate(values, folder)
    measures = application.measured(scenario, result)
    summary = summarise(scenario, result) if folder is None else summarise_folder(folder)
    setting = ", ".join(f"{name} {value}" for name, value in values.items())
    return dashboard(f"AI platform: {setting}", summary), measures


def trace_dashboard(folder: Path) -> PlatformDashboard:
    """Return the dashboard of the trace in a folder. Raises TraceError if it is invalid."""
    return dashboard(f"AI platform: trace {folder.name}", summarise_folder(folder))


def dashboard(title: str, summary: TraceSummary) -> PlatformDashboard:
    """Return the dashboard of an AI platform from the summary of its trace."""
    n = len(summary.hours["arrivals"])
    step = next((step_h for step_h in STEPS_H if n <= step_h * MOST_POINTS), STEPS_H[-1])
    start_h = 0 if summary.about is None else int(summary.about.start_s // HOUR_S)
    starts = np.arange(0, n, step)
    hours = np.diff(np.append(starts, n)).astype(float)

    def folded(series: Floats) -> Floats:
        return np.asarray(np.add.reduceat(series[:n], starts) / hours)

    day = _day_of(start_h, n)
    return PlatformDashboard(
        title,
        parameters(summary),
        summary,
        PlatformDrawing(title, _panels(summary, folded), start_h, step),
        PlatformDrawing(f"{title}; mean day", _day_panels(summary, day), 0, is_day=True),
        day_words(summary),
        tables(summary),
    )


def panels(scenario: PlatformScenario, result: PlatformResult) -> tuple[PlatformPanel, ...]:
    """Return drawing panels of a simulated AI platform over time, without a trace file."""
    return dashboard("", summarise(scenario, result)).over_time.panels


TIMES = ("n", "mean", "median", "90 %", "99 %")


def tables(summary: TraceSummary) -> dict[str, Rows]:
    """Return display tables of the execution and waiting times of tasks, by title."""

    def row(name: str, spread: SpreadSummary) -> tuple[str, ...]:
        return (name, f"{spread.n:,}", *map(length, (spread.mean_s, *spread.quantiles_s)))

    tasks = summary.tasks
    waited = [row(entry.name, entry.waited) for entry in tasks]
    waits = {**summary.waits, "pipeline, all its waits": summary.pipeline_wait}
    return {
        "Execution of tasks that ended": (
            ("task", *TIMES), [row(entry.name, entry.worked) for entry in tasks],
        ),
        "Wait of tasks that ended": (("task", *TIMES), waited),
        "Wait by resource": (("for", *TIMES), [row(name, entry) for name, entry in waits.items()]),
    }  # fmt: skip


class _DayMeans:
    """Means by hour of the day.

    Args:
        hours: int64 [h], hour of the day of each simulated hour.
    """

    def __init__(self, hours: np.ndarray[tuple[int], np.dtype[np.int64]]) -> None:
        self._hours = hours
        self._n = np.maximum(np.bincount(hours, minlength=24), 1)

    def __call__(self, series: Floats) -> Floats:
        n = len(self._hours)
        return np.asarray(np.bincount(self._hours, series[:n], minlength=24) / self._n)


def _day_of(start_h: int, n: int) -> _DayMeans:
    return _DayMeans((start_h + np.arange(n)) % 24)


def _capacity(about: SimulationMetadata | None) -> dict[str, int]:
    return {} if about is None else {name: capacity for name, capacity, _, _ in about.resources}


def _panels(summary: TraceSummary, folded: Callable[[Floats], Floats]) -> tuple[PlatformPanel, ...]:
    hours = {name: folded(series) for name, series in summary.hours.items()}
    drawn_panels = [
        PlatformPanel("pipelines that came, per hour", {"pipelines": _told(hours["arrivals"])}),
        _asked(hours, BUSY_KINDS),
        _used(summary, hours),
        _waiting(summary, hours),
        _waits(summary, hours),
        PlatformPanel(
            "network traffic, MB/s with TCP's headers",
            {"traffic": _told(hours["traffic_bytes"] / HOUR_S / 1e6)},
        ),
    ]
    if summary.fleet is None:
        return (*drawn_panels, _built(hours))
    fleet = {name: folded(_filled(series, summary)) for name, series in summary.fleet.items()}
    drawn_panels += [
        PlatformPanel(
            "performance of deployed models",
            {"mean": _told(fleet["performance"]), "worst 5 %": _told(fleet["performance_low"])},
        ),
        PlatformPanel(
            "staleness: lost share of the performance at build time",
            {"mean": _told(fleet["staleness"]), "worst 5 %": _told(fleet["staleness_high"])},
        ),
        PlatformPanel(
            "total potential improvement of deployed models",
            {"potential": _told(fleet["potential"])},
        ),
        PlatformPanel(
            "trainings of deployed models, per hour", {"trainings": _told(hours["renewed"])}
        ),
        PlatformPanel(
            "deployed models that lost more than the SLA allows", {"models": _told(fleet["late"])}
        ),
    ]
    return tuple(drawn_panels)


def _day_panels(summary: TraceSummary, day: _DayMeans) -> tuple[PlatformPanel, ...]:
    hours = {name: day(series) for name, series in summary.hours.items()}
    return (
        PlatformPanel("pipelines that came, per hour", {"pipelines": _told(hours["arrivals"])}),
        _asked(hours, ("preprocess", "evaluate")),
        _used(summary, hours),
        _waiting(summary, hours),
    )


def _asked(hours: Mapping[str, Floats], kinds: Sequence[str]) -> PlatformPanel:
    return PlatformPanel(
        "tasks that were ready, per hour", {kind: _told(hours[f"asked {kind}"]) for kind in kinds}
    )


def _used(summary: TraceSummary, hours: Mapping[str, Floats]) -> PlatformPanel:
    capacity = _capacity(summary.about)
    has_capacities = all(name in capacity for name in summary.resources)
    title = "share of the capacity in use" if has_capacities else "tasks at once (capacity unknown)"
    return PlatformPanel(
        title,
        {
            name: _told(hours[f"busy {name}"] / HOUR_S / (capacity[name] if has_capacities else 1))
            for name in summary.resources
        },
    )


def _waiting(summary: TraceSummary, hours: Mapping[str, Floats]) -> PlatformPanel:
    return PlatformPanel(
        "tasks that wait, on average",
        {name: _told(hours[f"waited {name}"] / HOUR_S) for name in summary.resources},
    )


def _waits(summary: TraceSummary, hours: Mapping[str, Floats]) -> PlatformPanel:
    series = {}
    for name in summary.resources:
        began, waited = hours[f"began {name}"], hours[f"waited for {name}"]
        mean = np.divide(waited, began, out=np.full(len(began), np.nan), where=began > 0)
        series[name] = _told(mean / 60)
    return PlatformPanel("wait of the tasks that begin, minutes on average", series)


def _built(hours: Mapping[str, Floats]) -> PlatformPanel:
    n = hours["built"]
    mean = np.divide(hours["built performance"], n, out=np.full(len(n), np.nan), where=n > 0)
    return PlatformPanel(
        "performance of the models that were deployed, mean", {"performance": _told(mean)}
    )


def _filled(series: Floats, summary: TraceSummary) -> Floats:
    """Return a series extended with its last value to the length of the hourly sums."""
    short = len(summary.hours["arrivals"]) - len(series)
    return np.concatenate([series, np.full(short, series[-1])]) if short > 0 else series


def _told(series: Floats) -> tuple[float | None, ...]:
    return tuple(None if math.isnan(value) else value for value in np.round(series, 6).tolist())


def parameters(summary: TraceSummary) -> tuple[tuple[str, str], ...]:
    """Return names and values of the simulation settings, or () if the trace has none."""
    about = summary.about
    if about is None:
        return ()
    pairs = [("simulated", f"{about.ended_s / DAY_S:g} days")]
    pairs += [
        (f"resource {name}", f"{capacity} at once, {discipline}, {cost:g} per hour for each")
        for name, capacity, discipline, cost in about.resources
    ]
    pairs += [
        ("arrivals", f"{about.profile}, gaps times {about.interarrival_factor:g}"),
        ("deployed models", f"{about.n_models:,}"),
    ]
    if about.n_models:
        rules = [_rule(kind, limit) for kind, limit in about.triggers]
        lost = f"a model may have lost more than {about.allowed_loss:g}"
        pairs += [
            ("retrained", " or ".join(rules) or "never"),
            ("SLA", f"{lost} for {about.allowed_share:.0%} of the time"),
            ("SLA missed by", f"{about.sla_misses:,} models"),
        ]
    gate = ", ".join(f"{name} {limit:g} at least" for name, limit in about.least)
    pairs += [("gate", gate or "none"), ("seed", str(about.seed)), ("statistics", about.source)]
    return tuple(pairs)


def _rule(kind: str, limit: float) -> str:
    return {
        "drift": f"loss above {limit:g}",
        "age": f"older than {limit / DAY_S:g} days",
        "data": f"new labelled rows above {limit:g} of the old",
        "schedule": f"every {limit / DAY_S:g} days",
    }[kind]


def day_words(summary: TraceSummary) -> tuple[str, ...]:
    """Return sentences on the busiest hours of the day for arrivals and for each resource."""
    n = len(summary.hours["arrivals"])
    if n < 24:
        return ()
    start_h = 0 if summary.about is None else int(summary.about.start_s // HOUR_S)
    day = _day_of(start_h, n)
    arrivals = day(summary.hours["arrivals"])
    sentences = [f"Most pipelines come at {_clock(arrivals)}: {arrivals.max():.3g} an hour."]
    capacity = _capacity(summary.about)
    for name in summary.resources:
        busy = day(summary.hours[f"busy {name}"]) / HOUR_S
        waiting = day(summary.hours[f"waited {name}"]) / HOUR_S
        full = f"{busy.max() / capacity[name]:.0%} in use" if name in capacity else (
            f"{busy.max():.3g} tasks at once"
        )  # fmt: skip
        text = f"{name.capitalize()} is busiest at {_clock(busy)}: {full}"
        if waiting.max() >= 0.05:
            text += f"; most tasks wait at {_clock(waiting)}: {waiting.max():.3g}"
        sentences.append(f"{text}.")
    ready = day(summary.hours["asked evaluate"])
    if ready.sum():
        evening = ready[18:].sum() / ready.sum()
        came = arrivals[18:].sum() / max(arrivals.sum(), 1e-9)
        late = 18 + int(np.argmax(ready[18:]))
        sentences.append(
            f"Most evaluations are ready at {_clock(ready)}, after 18:00 at {late:02d}:00; "
            f"{evening:.0%} of them, and {came:.0%} of the pipelines, come after 18:00."
        )
    return tuple(sentences)


def _clock(by_hour: Floats) -> str:
    return f"{int(np.argmax(by_hour)):02d}:00"
