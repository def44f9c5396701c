"""Evaluation of cloud generators on the next time window (Bergsma et al., sections 5 and 6).

Stages are scored step by step with the real history before each step; then every generator draws
the window many times for comparison with the real one: arrivals, demand, reuse, lifetimes, sizes.
`DEFINITIONS` explains all values.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from sim.generators.cloud.batches import (
    CloudWindows,
    WindowJobs,
    cores_by_period,
    examples_of,
    generated_jobs,
)
from sim.generators.cloud.capacity import QuantileBand
from sim.generators.cloud.flavours import tokens_of
from sim.generators.cloud.lifetimes import fit_lifetimes
from sim.generators.cloud.model_parts import Hazards, model_parts_of, next_flavour_of
from sim.generators.cloud.report_values import (
    CLOUD_LEVELS,
    SHARE,
    BatchSample,
    CloudReport,
    DistributionDistance,
    FlavourRow,
    GeneratorReport,
    LifetimeRow,
    PackingReport,
    PredictionBand,
    WindowPacker,
    WindowPacking,
    WindowSpread,
    packing_plan,
)
from sim.generators.cloud.scores import (
    CENSORINGS,
    FlavourScore,
    LifetimeScore,
    baseline_flavours,
    exact_bins,
    kaplan_meier,
    repeat_lifetime_error,
    reuse_distances,
    score_coin_flip,
    score_flavours,
    score_hazards,
    survival_mse,
    total_variation,
    treat_censored,
)
from sim.generators.cloud.three_stage import (
    NAIVE_NAME,
    SIMPLE_BATCH_NAME,
    THREE_STAGE,
    THREE_STAGE_NAME,
    draw_batches,
    fit_batches,
)
from sim.generators.generator import Model, RandomStreams
from sim.model.cloud_trace import CloudTrace
from sim.model.errors import UnknownNameError, WorkloadError
from sim.policies.policy import knob_values

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


MOST_TIMES = 50_000  # limit of different lifetimes, above which there is no continuous estimate


def lifetime_rows(windows: CloudWindows, models: Mapping[str, Hazards]) -> tuple[LifetimeRow, ...]:
    """Score baselines and models by their predictions of test-window lifetimes.

    With censored training jobs, Kaplan-Meier estimates come in all forms (section 5.3); with known
    seconds, the overall one in continuous time too.

    Returns:
        nothing if no job of the test window ended.
    """
    test = windows.test
    ended = test.censored == 0
    if not ended.any():
        return ()
    some = bool((windows.lived.censored != 0).any())
    forms = [label for label in CENSORINGS if label == "counted" or some]
    learnt = {label: treat_censored(windows.lived, label) for label in forms}
    pooled = fit_lifetimes(windows.lived, 0)
    rows = [_coin_flip(windows, ended)]
    for form, lived in learnt.items():
        more = "" if form == "counted" else f", censored {form}"
        rows += [
            _row(f"Overall KM{more}", fit_lifetimes(lived, 0), windows, ended),
            _row(f"Per-flavour KM{more}", fit_lifetimes(lived, 1), windows, ended),
        ]
    rows += _continuous(windows, ended)
    rows.append(
        LifetimeRow("RepeatLifetime", None, None, repeat_lifetime_error(pooled, test), None)
    )
    rows += [_row(name, label, windows, ended) for name, label in models.items()]
    return tuple(rows)


def _row(name: str, model: Hazards, windows: CloudWindows, ended: NDArray[np.bool_]) -> LifetimeRow:
    hazard, row = model.hazards(windows.test)
    return _scored(name, score_hazards(hazard, row, windows.test), hazard, row, windows, ended)


def _coin_flip(windows: CloudWindows, ended: NDArray[np.bool_]) -> LifetimeRow:
    test = windows.test
    hazard, row = np.full((1, test.bins.n), 0.5), np.zeros(test.n_jobs, dtype=np.int64)
    return _scored("CoinFlip", score_coin_flip(test), hazard, row, windows, ended)


def _scored(
    name: str, score: LifetimeScore, hazard: Floats, row: Ints, windows: CloudWindows,
    ended: NDArray[np.bool_],
) -> LifetimeRow:  # fmt: skip
    bins, lived_s = windows.test.bins, windows.lived_s[ended]
    spread, stepped = (
        survival_mse(hazard, row[ended], bins, lived_s, stepped=how) for how in (False, True)
    )
    return LifetimeRow(
        name, float(score.bce), float(score.nll), float(score.error), float(score.masked_error),
        spread, stepped,
    )  # fmt: skip


def _continuous(windows: CloudWindows, ended: NDArray[np.bool_]) -> list[LifetimeRow]:
    taught_s, longest_s = windows.taught_s, windows.test.bins.longest_s
    if taught_s is None:
        return []
    n_times = len(np.unique(taught_s[(taught_s > 0) & (taught_s < longest_s)]))
    if not 0 < n_times <= MOST_TIMES:
        return []
    none = np.zeros(len(taught_s), dtype=np.int64)
    bins = exact_bins(taught_s, none, longest_s)
    hazard = kaplan_meier(bins.of(taught_s), none, bins.n)[None]
    lived_s = windows.lived_s[ended]
    error = survival_mse(
        hazard, np.zeros(len(lived_s), dtype=np.int64), bins, lived_s, stepped=True
    )
    return [LifetimeRow("Overall KM, continuous", None, None, None, None, None, error)]


CLOUD_GENERATORS: tuple[str, ...] = (THREE_STAGE_NAME, SIMPLE_BATCH_NAME, NAIVE_NAME)
"""Generators with batches, flavours and lifetimes, which can be evaluated."""

MOST_COMPARED = 40  # first windows, whose values are sorted for quantiles and distances

PICTURE_ROWS, PICTURE_JOBS = 28, 60
MOST_POINTS = 2048
ReportProgress = Callable[[str, int, int], None]  # stage, progress and total


def chosen_generators(name: str) -> tuple[str, ...]:
    """Return the names of the selected cloud generators; ``all`` selects every one.

    Raises:
        UnknownNameError: no such generator.
    """
    if name == "all":
        return CLOUD_GENERATORS
    if name not in CLOUD_GENERATORS:
        raise UnknownNameError("generator of clouds", name, (*CLOUD_GENERATORS, "all"))
    return (name,)


def cloud_knobs(settings: Mapping[str, float | str]) -> dict[str, float]:
    """Return all settings of the fit: the given values, and the defaults for the others.

    Raises:
        UnknownNameError: there is no such knob.
        ScenarioError: a value out of range.
    """
    return knob_values(THREE_STAGE.knobs, settings, "fitting clouds")


def fit_cloud_trace(
    name: str, trace: CloudTrace, knobs: Mapping[str, float | str] | None = None, *, of: str
) -> Model:
    """Fit a cloud generator to a trace of batches.

    Raises:
        WorkloadError: lifetimes are unknown.
        UnknownNameError, ScenarioError: no such generator, or see `knob_values`.
    """
    if name not in CLOUD_GENERATORS:
        raise UnknownNameError("generator of clouds", name, CLOUD_GENERATORS)
    return fit_batches(name, trace, examples_of(trace), cloud_knobs(knobs or {}), of=of)


def cloud_report(
    windows: CloudWindows,
    *,
    generators: Sequence[str] = CLOUD_GENERATORS,
    n_windows: int = 200,
    seed: int = 0,
    knobs: Mapping[str, float | str] | None = None,
    n_packings: int = 500,
    progress: ReportProgress | None = None,
) -> CloudReport:
    """Fit cloud generators to a training window and evaluate them on the test window.

    Args:
        windows: training and test window.
        generators: names from `CLOUD_GENERATORS`.
        n_windows: number of windows that each of them draws, 2 or more.
        seed: seed of the draws.
        knobs: knobs with other than default values; those of periods and flavours belong to the
            windows.
        n_packings: number of packings of the real window and by each generator; 0 leaves them out.
        progress: called with the progress; may raise to stop.

    Raises:
        WorkloadError: fewer than 2 windows, fewer than 0 packings, or a generator cannot be
            fitted.
        UnknownNameError, ScenarioError: see `knob_values`.
    """
    if n_windows < 2:
        raise WorkloadError(f"{n_windows} windows give no band; allowed are whole numbers from 2.")
    if n_packings < 0:
        raise WorkloadError(f"n_packings is {n_packings}; allowed are whole numbers from 0.")
    say = progress or _silent
    train, test = windows.train, windows.test
    values = cloud_knobs(knobs or {})
    models = {}
    for at, name in enumerate(generators):
        say("Fitting", at, len(generators))
        models[name] = fit_batches(
            name, train, windows.examples, values, of=windows.names[0], lived=windows.lived
        )
    say("Scoring", 0, 1)
    real = _WindowMeasures.of(test, windows.jobs)
    say("Packing the real window", 0, 1)
    plan = packing_plan(windows, n_packings, seed)
    generated = tuple(
        _report_generator(name, model, windows, real, plan, n_windows, seed, say)
        for name, model in models.items()
    )
    per_day = 86_400.0 / test.period_s
    return CloudReport(
        windows.names[0], windows.names[1], (train.n_jobs, test.n_jobs),
        (train.n_batches, test.n_batches), (train.n_periods / per_day, test.n_periods / per_day),
        test.period_s, n_windows, seed, tuple(flavour.name for flavour in test.flavours),
        np.array(test.bins.ends_s), windows.notes, _flavour_rows(windows, models),
        _lifetime_rows_of(windows, models), real.batches, real.jobs, real.cores, real.reuse,
        real.survival, picture_of(test), tuple(flavour for flavour, _ in generated),
        replace(plan, windows=(*plan.windows, *(p for _, p in generated if p is not None))),
    )  # fmt: skip


def _silent(_what: str, _done: int, _of: int) -> None:
    return None


def _flavour_rows(windows: CloudWindows, models: dict[str, Model]) -> tuple[FlavourRow, ...]:
    taught, tokens = tokens_of(windows.train), tokens_of(windows.test)
    rows = [_flavour_row(name, score) for name, score in baseline_flavours(taught, tokens).items()]
    model = models.get(THREE_STAGE_NAME)
    if model is not None:
        days = model_parts_of(model).arrivals.n_days
        table = next_flavour_of(model, len(windows.train.flavours), days)
        rows.append(_flavour_row(THREE_STAGE_NAME, score_flavours(table, tokens)))
    return tuple(rows)


def _flavour_row(name: str, score: FlavourScore) -> FlavourRow:
    return FlavourRow(name, _finite_or_none(score.nll), score.error)


def _lifetime_rows_of(windows: CloudWindows, models: dict[str, Model]) -> tuple[LifetimeRow, ...]:
    model = models.get(THREE_STAGE_NAME)
    hazards = {} if model is None else {THREE_STAGE_NAME: model_parts_of(model).lifetimes}
    return lifetime_rows(windows, hazards)


def _finite_or_none(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


@dataclass(frozen=True, eq=False)
class _WindowMeasures:
    n_jobs: int
    batches: Floats
    jobs: Floats
    cores: Floats
    reuse: Floats
    survival: Floats
    columns: dict[str, Floats]

    @classmethod
    def of(cls, trace: CloudTrace, jobs: WindowJobs) -> "_WindowMeasures":
        return cls(
            trace.n_jobs,
            trace.batches_by_period().astype(np.float64),
            trace.jobs_by_period().astype(np.float64),
            cores_by_period(jobs, trace.n_periods, trace.period_s),
            reuse_distances(trace.flavour, len(trace.flavours)),
            survival_of(trace),
            {
                "time between submissions": np.diff(jobs.start_s),
                "lifetime": jobs.lived_s[jobs.ended],
                "processors of a job": jobs.procs.astype(np.float64),
                "jobs of a batch": jobs.batch_size.astype(np.float64),
            },
        )


UNITS = {
    "time between submissions": "s",
    "lifetime": "s",
    "processors of a job": "processors",
    "jobs of a batch": "jobs",
}


def survival_of(trace: CloudTrace) -> Floats:
    """Return the Kaplan-Meier probability that a job outlives each bin: float64 [n_bins - 1]."""
    n_bins = trace.bins.n
    last_seen = np.bincount(trace.lifetime[trace.censored == 1], minlength=n_bins)
    ended = np.bincount(trace.lifetime[trace.censored == 0], minlength=n_bins)
    at_risk = np.cumsum((last_seen + ended)[::-1])[::-1] - last_seen
    hazard = np.where(at_risk > 0, ended / np.maximum(at_risk, 1), 0.0)
    outlived: Floats = np.cumprod(1.0 - hazard)[:-1].astype(np.float64)
    return outlived


@dataclass(eq=False)
class _GeneratedMeasures:
    n_jobs: list[int] = field(default_factory=list)
    courses: dict[str, list[NDArray[np.float32]]] = field(default_factory=dict)
    reuse: list[Floats] = field(default_factory=list)
    survival: list[Floats] = field(default_factory=list)
    quantiles: dict[str, list[Floats]] = field(default_factory=dict)
    distances: dict[str, list[tuple[float, float]]] = field(default_factory=dict)

    def add(self, window: _WindowMeasures) -> None:
        self.n_jobs.append(window.n_jobs)
        for name in ("batches", "jobs", "cores"):
            self.courses.setdefault(name, []).append(getattr(window, name).astype(np.float32))
        self.reuse.append(window.reuse)
        self.survival.append(window.survival)

    def compare(self, window: _WindowMeasures, points: dict[str, tuple[Floats, Floats]]) -> None:
        for column, (at, shares) in points.items():
            if len(window.columns[column]) == 0:
                continue
            values = np.sort(window.columns[column])
            self.quantiles.setdefault(column, []).append(
                np.quantile(values, CLOUD_LEVELS, method="inverted_cdf")
            )
            self.distances.setdefault(column, []).append(_distance(values, at, shares))


def _distance(values: Floats, points: Floats, shares: Floats) -> tuple[float, float]:
    """Return the KS and the Wasserstein distance of sorted values from a distribution."""
    low, high = float(values[0]), float(values[-1])
    outside = np.array([bound for bound in (low, high) if bound < points[0] or bound > points[-1]])
    every = np.unique(np.concatenate([points, outside]))
    real = np.concatenate([[0.0], shares])[np.searchsorted(points, every, side="right")]
    generated = np.searchsorted(values, every, side="right") / len(values)
    apart = np.abs(real - generated)
    return float(apart.max()), float(apart[:-1] @ np.diff(every))


def _points(values: Floats) -> tuple[Floats, Floats]:
    points = np.unique(values)
    if len(points) > MOST_POINTS:
        points = np.unique(
            np.quantile(values, np.linspace(0, 1, MOST_POINTS), method="inverted_cdf")
        )
    return points, np.searchsorted(np.sort(values), points, side="right") / len(values)


def _report_generator(
    name: str, model: Model, windows: CloudWindows, real: _WindowMeasures, plan: PackingReport,
    n_windows: int, seed: int, say: ReportProgress,
) -> tuple[GeneratorReport, WindowPacking | None]:  # fmt: skip
    test = windows.test
    gathered, picture = _GeneratedMeasures(), None
    packer = WindowPacker.of(name, plan, n_windows)
    points = {column: _points(of) for column, of in real.columns.items() if len(of)}
    for at in range(n_windows):
        say(f"Drawing windows of {name}", at, n_windows)
        streams = RandomStreams(seed + at).inside("report")
        generated_trace = draw_batches(model, test.first_period, test.n_periods, streams)
        if generated_trace is None:
            raise WorkloadError(
                f"a generated window of '{name}' has no jobs; {windows.names[1]} is too short for "
                "the fitted model."
            )
        jobs = generated_jobs(
            generated_trace, windows.examples, streams.of("lifetime_s"), streams.of("example")
        )
        window = _WindowMeasures.of(generated_trace, jobs)
        gathered.add(window)
        packer.add(at, jobs, test.n_periods * test.period_s)
        if at < MOST_COMPARED:
            gathered.compare(window, points)
        picture = picture or picture_of(generated_trace)
    say(f"Drawing windows of {name}", n_windows, n_windows)
    courses = {
        quantity: PredictionBand.of(np.stack(rows), getattr(real, quantity))
        for quantity, rows in gathered.courses.items()
    }
    reuse = np.mean(gathered.reuse, axis=0)
    tail = (1.0 - SHARE) / 2.0
    survival = QuantileBand(*np.quantile(gathered.survival, (tail, 0.5, 1.0 - tail), axis=0))
    assert picture is not None  # noqa: S101 - there are two windows or more
    generated = GeneratorReport(
        name, model.source, WindowSpread.of(np.array(gathered.n_jobs, dtype=np.float64)),
        courses["batches"], courses["jobs"], courses["cores"], reuse,
        total_variation(reuse, real.reuse), survival,
        float(np.abs(np.mean(gathered.survival, axis=0) - real.survival).max()),
        tuple(_likeness(column, gathered, real) for column in gathered.quantiles), picture,
    )  # fmt: skip
    return generated, packer.packed()


def _likeness(
    column: str, gathered: _GeneratedMeasures, real: _WindowMeasures
) -> DistributionDistance:
    tail = (1.0 - SHARE) / 2.0
    low, median, high = np.quantile(gathered.quantiles[column], (tail, 0.5, 1.0 - tail), axis=0)
    ks, wasserstein = np.array(gathered.distances[column]).T
    quantiles = np.quantile(real.columns[column], CLOUD_LEVELS, method="inverted_cdf")
    return DistributionDistance(
        column,
        UNITS[column],
        WindowSpread.of(ks),
        WindowSpread.of(wasserstein),
        quantiles,
        low,
        median,
        high,
    )


def picture_of(trace: CloudTrace) -> BatchSample:
    """Return the jobs of consecutive non-empty periods from mid-window, for a plot."""
    with_jobs = np.unique(trace.period)
    begin = min(int(np.searchsorted(with_jobs, trace.first_period + trace.n_periods // 2)),
                max(len(with_jobs) - PICTURE_ROWS, 0))  # fmt: skip
    periods = with_jobs[begin : begin + PICTURE_ROWS]
    parts: list[Ints] = []
    left_out = []
    for row, period in enumerate(periods.tolist()):
        low, high = np.searchsorted(trace.period, (period, period + 1)).tolist()
        job_range = slice(low, min(high, low + PICTURE_JOBS))
        left_out.append(high - job_range.stop)
        batch = trace.batch[job_range] - trace.batch[low]
        parts.append(
            np.stack(
                [
                    np.full(len(batch), row),
                    batch,
                    trace.flavour[job_range],
                    trace.lifetime[job_range],
                ]
            )
        )
    period, batch, flavour, lifetime = np.concatenate(parts, axis=1)
    return BatchSample(period, batch, flavour, lifetime, np.array(left_out, dtype=np.int64))
