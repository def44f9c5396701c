"""An AI platform as it is drawn: what came, ran, waited and drifted, over time and over a day."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from assistant.applications.ai_platform import TODAY, AiPlatform
from assistant.charts_platform import Panel, PlatformDrawing, Rows, length
from assistant.objective import Measure
from sim.aiops.arrivals import HOUR_S, Floats
from sim.aiops.collecting import PlatformResult
from sim.aiops.fleet import DAY_S
from sim.aiops.scenario import PlatformScenario
from sim.aiops.summary import About, Spread, Summary, summarise, summarise_folder
from strategies import Level

MOST_POINTS = 750
"""Of a series; a longer simulation is shown by means of hours, days or weeks."""

STEPS_H = (1, 3, 6, 24, 168)

FULL_TRAINING: Mapping[str, Level] = {**TODAY, "training_capacity": 4}
"""The exploratory case of the PipeSim paper: arrivals peak, and training is full behind them."""

BUSY_KINDS = ("preprocess", "train", "evaluate")
"""Of the tasks whose coming is drawn: before, in and behind the training cluster."""


@dataclass(frozen=True, eq=False)
class Dashboard:
    """What is shown of a finished run of a platform.

    Attributes:
        title: what was simulated.
        parameters: name and value, as far as they are known.
        summary: tasks, waits and counts.
        over_time: from the beginning to the end.
        day: means by hour of the day.
        words: what the day says.
        tables: tasks and waits, by title.
    """

    title: str
    parameters: tuple[tuple[str, str], ...]
    summary: Summary
    over_time: PlatformDrawing
    day: PlatformDrawing
    words: tuple[str, ...]
    tables: Mapping[str, Rows]


def platform_drawing(
    application: AiPlatform, values: Mapping[str, Level]
) -> tuple[PlatformDrawing, Mapping[str, Measure]]:
    """Simulate one configuration and return how it went, with its measures."""
    board, measures = played(application, values)
    return board.over_time, measures


def played(
    application: AiPlatform, values: Mapping[str, Level], folder: Path | None = None
) -> tuple[Dashboard, Mapping[str, Measure]]:
    """Simulate one configuration and return what is shown of it, with its measures.

    Args:
        application: with the future.
        values: a level of every parameter.
        folder: where the whole trace is written; None writes none.
    """
    scenario = application.scenario(values)
    result = application.simulate(values, folder)
    measures = application.measured(scenario, result)
    summary = summarise(scenario, result) if folder is None else summarise_folder(folder)
    setting = ", ".join(f"{name} {value}" for name, value in values.items())
    return dashboard(f"AI platform: {setting}", summary), measures


def traced(folder: Path) -> Dashboard:
    """Return what is shown of a trace in a folder.

    Raises:
        TraceError: it is none.
    """
    return dashboard(f"AI platform: trace {folder.name}", summarise_folder(folder))


def dashboard(title: str, summary: Summary) -> Dashboard:
    """Return what is shown of a simulation."""
    n = len(summary.hours["arrivals"])
    step = next((one for one in STEPS_H if n <= one * MOST_POINTS), STEPS_H[-1])
    start_h = 0 if summary.about is None else int(summary.about.start_s // HOUR_S)
    starts = np.arange(0, n, step)
    hours = np.diff(np.append(starts, n)).astype(float)

    def folded(series: Floats) -> Floats:
        return np.asarray(np.add.reduceat(series[:n], starts) / hours)

    day = _day_of(start_h, n)
    return Dashboard(
        title,
        parameters(summary),
        summary,
        PlatformDrawing(title, _panels(summary, folded), start_h, step),
        PlatformDrawing(f"{title}; mean day", _day_panels(summary, day), 0, is_day=True),
        day_words(summary),
        tables(summary),
    )


def panels(scenario: PlatformScenario, result: PlatformResult) -> tuple[Panel, ...]:
    """Return what the dashboard shows over time of a simulation that kept its trace in memory."""
    return dashboard("", summarise(scenario, result)).over_time.panels


TIMES = ("n", "mean", "median", "90 %", "99 %")


def tables(summary: Summary) -> dict[str, Rows]:
    """Return tasks and waits as tables for people."""

    def row(name: str, one: Spread) -> tuple[str, ...]:
        return (name, f"{one.n:,}", *map(length, (one.mean_s, *one.quantiles_s)))

    tasks = summary.tasks
    waited = [row(one.name, one.waited) for one in tasks]
    waits = {**summary.waits, "pipeline, all its waits": summary.pipeline_wait}
    return {
        "Execution of tasks that ended": (
            ("task", *TIMES), [row(one.name, one.worked) for one in tasks],
        ),
        "Wait of tasks that ended": (("task", *TIMES), waited),
        "Wait by resource": (("for", *TIMES), [row(name, one) for name, one in waits.items()]),
    }  # fmt: skip


class _Days:
    """Means by hour of the day.

    Args:
        hours: int64 [h], hour of the day of each hour of a simulation.
    """

    def __init__(self, hours: np.ndarray[tuple[int], np.dtype[np.int64]]) -> None:
        self._hours = hours
        self._n = np.maximum(np.bincount(hours, minlength=24), 1)

    def __call__(self, series: Floats) -> Floats:
        n = len(self._hours)
        return np.asarray(np.bincount(self._hours, series[:n], minlength=24) / self._n)


def _day_of(start_h: int, n: int) -> _Days:
    return _Days((start_h + np.arange(n)) % 24)


def _capacity(about: About | None) -> dict[str, int]:
    return {} if about is None else {name: capacity for name, capacity, _, _ in about.resources}


def _panels(summary: Summary, folded: Callable[[Floats], Floats]) -> tuple[Panel, ...]:
    hours = {name: folded(series) for name, series in summary.hours.items()}
    shown = [
        Panel("pipelines that came, an hour", {"pipelines": _told(hours["arrivals"])}),
        _asked(hours, BUSY_KINDS),
        _used(summary, hours),
        _waiting(summary, hours),
        _waits(summary, hours),
        Panel(
            "network traffic, MB/s with TCP's headers",
            {"traffic": _told(hours["traffic_bytes"] / HOUR_S / 1e6)},
        ),
    ]
    if summary.fleet is None:
        return (*shown, _built(hours))
    fleet = {name: folded(_filled(series, summary)) for name, series in summary.fleet.items()}
    shown += [
        Panel(
            "performance of deployed models",
            {"mean": _told(fleet["performance"]), "worst 5 %": _told(fleet["performance_low"])},
        ),
        Panel(
            "staleness: share of the performance when built that is lost",
            {"mean": _told(fleet["staleness"]), "worst 5 %": _told(fleet["staleness_high"])},
        ),
        Panel(
            "total potential improvement of deployed models",
            {"potential": _told(fleet["potential"])},
        ),
        Panel("trainings of deployed models, an hour", {"trainings": _told(hours["renewed"])}),
        Panel("deployed models that lost more than was agreed", {"models": _told(fleet["late"])}),
    ]
    return tuple(shown)


def _day_panels(summary: Summary, day: _Days) -> tuple[Panel, ...]:
    hours = {name: day(series) for name, series in summary.hours.items()}
    return (
        Panel("pipelines that came, an hour", {"pipelines": _told(hours["arrivals"])}),
        _asked(hours, ("preprocess", "evaluate")),
        _used(summary, hours),
        _waiting(summary, hours),
    )


def _asked(hours: Mapping[str, Floats], kinds: Sequence[str]) -> Panel:
    return Panel(
        "tasks that were ready, an hour", {kind: _told(hours[f"asked {kind}"]) for kind in kinds}
    )


def _used(summary: Summary, hours: Mapping[str, Floats]) -> Panel:
    capacity = _capacity(summary.about)
    known = all(name in capacity for name in summary.resources)
    title = "share of the capacity in use" if known else "tasks at once (capacity unknown)"
    return Panel(
        title,
        {
            name: _told(hours[f"busy {name}"] / HOUR_S / (capacity[name] if known else 1))
            for name in summary.resources
        },
    )


def _waiting(summary: Summary, hours: Mapping[str, Floats]) -> Panel:
    return Panel(
        "tasks that wait, on average",
        {name: _told(hours[f"waited {name}"] / HOUR_S) for name in summary.resources},
    )


def _waits(summary: Summary, hours: Mapping[str, Floats]) -> Panel:
    """Return the mean wait of the tasks that begin in a stretch; nothing where none does."""
    series = {}
    for name in summary.resources:
        began, waited = hours[f"began {name}"], hours[f"waited for {name}"]
        mean = np.divide(waited, began, out=np.full(len(began), np.nan), where=began > 0)
        series[name] = _told(mean / 60)
    return Panel("wait of the tasks that begin, minutes on average", series)


def _built(hours: Mapping[str, Floats]) -> Panel:
    n = hours["built"]
    mean = np.divide(hours["built performance"], n, out=np.full(len(n), np.nan), where=n > 0)
    return Panel("performance of the models that were deployed, mean", {"performance": _told(mean)})


def _filled(series: Floats, summary: Summary) -> Floats:
    """Return a course of models as long as the sums by hour; its last value goes on."""
    short = len(summary.hours["arrivals"]) - len(series)
    return np.concatenate([series, np.full(short, series[-1])]) if short > 0 else series


def _told(series: Floats) -> tuple[float | None, ...]:
    return tuple(None if math.isnan(value) else value for value in np.round(series, 6).tolist())


def parameters(summary: Summary) -> tuple[tuple[str, str], ...]:
    """Return what was simulated by name; nothing if the trace does not tell."""
    about = summary.about
    if about is None:
        return ()
    told = [("simulated", f"{about.ended_s / DAY_S:g} days")]
    told += [
        (f"resource {name}", f"{capacity} at once, {discipline}, {cost:g} an hour for each")
        for name, capacity, discipline, cost in about.resources
    ]
    told += [
        ("arrivals", f"{about.profile}, gaps times {about.interarrival_factor:g}"),
        ("deployed models", f"{about.n_models:,}"),
    ]
    if about.n_models:
        rules = [_rule(kind, limit) for kind, limit in about.triggers]
        lost = f"a model may have lost more than {about.allowed_loss:g}"
        told += [
            ("trained again", " or ".join(rules) or "never"),
            ("agreed", f"{lost} for {about.allowed_share:.0%} of the time"),
            ("broke that", f"{about.sla_misses:,} models"),
        ]
    gate = ", ".join(f"{name} {limit:g} at least" for name, limit in about.least)
    told += [("gate", gate or "none"), ("seed", str(about.seed)), ("statistics", about.source)]
    return tuple(told)


def _rule(kind: str, limit: float) -> str:
    return {
        "drift": f"loss above {limit:g}",
        "age": f"older than {limit / DAY_S:g} days",
        "data": f"new labelled rows above {limit:g} of the old",
        "schedule": f"every {limit / DAY_S:g} days",
    }[kind]


def day_words(summary: Summary) -> tuple[str, ...]:
    """Say when most comes, when resources are fullest, and when what is behind them is ready."""
    n = len(summary.hours["arrivals"])
    if n < 24:
        return ()
    start_h = 0 if summary.about is None else int(summary.about.start_s // HOUR_S)
    day = _day_of(start_h, n)
    arrivals = day(summary.hours["arrivals"])
    told = [f"Most pipelines come at {_clock(arrivals)}: {arrivals.max():.3g} an hour."]
    capacity = _capacity(summary.about)
    for name in summary.resources:
        busy = day(summary.hours[f"busy {name}"]) / HOUR_S
        waiting = day(summary.hours[f"waited {name}"]) / HOUR_S
        full = f"{busy.max() / capacity[name]:.0%} of it" if name in capacity else (
            f"{busy.max():.3g} tasks at once"
        )  # fmt: skip
        text = f"{name.capitalize()} is fullest at {_clock(busy)}: {full}"
        if waiting.max() >= 0.05:
            text += f"; most wait for it at {_clock(waiting)}, {waiting.max():.3g} tasks"
        told.append(f"{text}.")
    ready = day(summary.hours["asked evaluate"])
    if ready.sum():
        evening = ready[18:].sum() / ready.sum()
        came = arrivals[18:].sum() / max(arrivals.sum(), 1e-9)
        late = 18 + int(np.argmax(ready[18:]))
        told.append(
            f"Most evaluations are ready at {_clock(ready)}, after 18:00 at {late:02d}:00; "
            f"{evening:.0%} of them, and {came:.0%} of the pipelines, come after 18:00."
        )
    return tuple(told)


def _clock(by_hour: Floats) -> str:
    return f"{int(np.argmax(by_hour)):02d}:00"
