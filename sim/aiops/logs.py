"""Logs of executed tasks, one row per task (CSV or Parquet), and the fit of platform statistics.

Needed columns: `task` (`preprocess`, `train`, `evaluate`, `deploy`, `monitor`) and `seconds` (of
pure computing). Optional, and may be null: `submitted` (arrival of the pipeline, as
2026-11-02T08:15:00) or `submit_s` (seconds since a Monday midnight), `framework`, `estimator`,
`rows`, `columns`, `bytes`, `performance` (0 to 1). Quantities without data keep their published
values. Fits follow section V-A of the PipeSim paper.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.aiops.distributions import (
    FAMILIES,
    Mixture,
    PositiveDistribution,
    PreprocessingCurve,
    family_named,
)
from sim.aiops.platform import TASKS
from sim.aiops.platform_statistics import (
    CELLS,
    GRID,
    HOUR_S,
    PipelineArrivals,
    PlatformStatistics,
    published_statistics,
)
from sim.model.errors import SetupError, TraceError

Floats = NDArray[np.float64]


LEAST_GAP_S = 0.5  # value that replaces a gap of 0 s, in a log of whole seconds

LEAST_PER_CELL = 30  # gaps that an hour of the week needs for its own distribution

COMPONENTS = 50  # components of the mixture of data assets, as in the paper

MOST_PER_CELL = 4_000
MOST_FOR_MIXTURE = 40_000
"""Largest number of observations in a fit; of more, every n-th in order of size is used."""

PUNCTUAL = 1e-3  # standard deviation of the logarithms of gaps that are all equal

MOST_OFF = 1.5
"""Largest factor between the means of a distribution and of its data; others are rejected."""

_HISTOGRAM_BINS = 50


def fit_law(family: str, gaps: Floats) -> PositiveDistribution:
    """Fit a distribution of this family to gaps in seconds by maximum likelihood.

    Raises:
        UnknownNameError: no such family.
        SetupError: too few observations, some not above 0, or all equal.
    """
    x = np.sort(np.asarray(gaps, dtype=float))
    if len(x) < 2 or not np.all(np.isfinite(x)) or x[0] <= 0 or x[0] == x[-1]:
        raise SetupError("a law needs two or more observations, above 0 and not all equal.")
    return PositiveDistribution(family, *family_named(family).fit(x))


def sum_of_squares(law: PositiveDistribution, gaps: Floats) -> float:
    """Return the summed squared differences of the binned densities of data and fit.

    The bins are equally wide and end at the 99th percentile, because one long gap would otherwise
    put all others into the first bin.
    """
    edges = np.linspace(float(np.min(gaps)), float(np.quantile(gaps, 0.99)), _HISTOGRAM_BINS + 1)
    if edges[0] == edges[-1]:
        return math.inf
    counts = np.histogram(gaps, edges)[0]
    off = counts / len(gaps) - np.diff(law.cdf(edges))
    return float(np.sum((off / np.diff(edges)) ** 2))


def best_law(gaps: Floats) -> PositiveDistribution:
    """Fit all three distribution families to gaps and return the best by `sum_of_squares`.

    A family whose mean is far from that of the data is rejected: a Pareto distribution may fit the
    many short gaps best and have so heavy a tail that almost nothing arrives.
    """
    mean = float(np.mean(gaps))
    laws = [fit_law(family.name, gaps) for family in FAMILIES]
    near = [law for law in laws if 1 / MOST_OFF < law.mean / mean < MOST_OFF]
    return min(near or laws[:1], key=lambda law: sum_of_squares(law, gaps))


def fit_arrivals(
    times_s: Floats, *, start_s: float = 0.0, least_per_cell: int = LEAST_PER_CELL
) -> PipelineArrivals:
    """Fit one distribution to all arrival gaps, and the best family to each hour of the week.

    A gap belongs to the hour in which it begins. An hour with too few gaps takes the fit of the
    same hour over all days; if these are too few as well, the fit of all gaps.

    Args:
        times_s: times of arrival, in any order.
        start_s: seconds since Monday midnight at time 0.
        least_per_cell: number of gaps that an own distribution needs.

    Raises:
        SetupError: fewer than three arrivals, or all at one time.
    """
    times = np.sort(np.asarray(times_s, dtype=float))
    if len(times) < 3 or not np.all(np.isfinite(times)):
        raise SetupError("arrivals need three or more times, all of them finite.")
    gaps = np.maximum(np.diff(times), LEAST_GAP_S)
    if gaps.min() == gaps.max():  # regular arrivals
        everywhere = PositiveDistribution("lognorm", (PUNCTUAL,), float(gaps[0]))
    else:
        everywhere = fit_law("exponweib", _thinned(gaps, MOST_FOR_MIXTURE))
    cell = ((times[:-1] + start_s) // HOUR_S).astype(int) % CELLS
    of_cell = [
        _law_or_none(gaps[cell == cell_index], least_per_cell) for cell_index in range(CELLS)
    ]
    missing = {cell_index % 24 for cell_index in range(CELLS) if of_cell[cell_index] is None}
    of_hour = {hour: _law_or_none(gaps[cell % 24 == hour], least_per_cell) for hour in missing}
    cells = [
        law or of_hour[cell_index % 24] or everywhere for cell_index, law in enumerate(of_cell)
    ]
    recorded = tuple((times - times[0]).tolist())
    return PipelineArrivals(everywhere, tuple(cells), recorded)


def _law_or_none(gaps: Floats, least: int) -> PositiveDistribution | None:
    if len(gaps) < max(least, 2) or gaps.min() == gaps.max():
        return None
    return best_law(_thinned(gaps, MOST_PER_CELL))


def fit_mixture(
    values: Floats,
    *,
    components: int,
    seed: int = 0,
    bounds: tuple[Sequence[float], Sequence[float]] | None = None,
) -> Mixture:
    """Fit a Gaussian mixture with full covariances to the logarithms of values.

    Args:
        values: float64 [n, d], above 0.
        components: largest number of components; at most one for every ten observations.
        seed: seed of the start of the search.
        bounds: lowest and highest value per dimension; None takes those of the data.

    Raises:
        SetupError: fewer than two observations, or one that is not above 0.
    """
    from sklearn.mixture import GaussianMixture

    x = np.asarray(values, dtype=float)
    if x.ndim != 2 or len(x) < 2 or not np.all(np.isfinite(x)) or x.min() <= 0:
        raise SetupError("a mixture needs two or more observations, all above 0.")
    lowest, highest = bounds if bounds is not None else (x.min(axis=0), x.max(axis=0))
    learnt = np.log(x[np.argsort(x[:, 0], kind="stable")])
    learnt = learnt[_even(len(learnt), MOST_FOR_MIXTURE)]
    model = GaussianMixture(
        n_components=max(1, min(components, len(x) // 10)),
        covariance_type="full",
        random_state=seed,
        reg_covar=1e-4,
        max_iter=300,
    )
    model.fit(learnt)
    return Mixture(
        model.weights_, model.means_, model.covariances_, np.asarray(lowest), np.asarray(highest)
    )


def fit_curve(cells: Floats, seconds: Floats) -> PreprocessingCurve:
    """Fit a b^x + c on x = ln(cells) by least squares, and a lognormal to the residuals.

    The residuals above the rising part of the curve are lognormal above some constant c; c is
    found because the median of a lognormal is the geometric mean of any two opposite quantiles.

    Raises:
        SetupError: fewer than ten observations, or one that is not above 0.
    """
    from scipy.optimize import least_squares

    x, y = np.log(np.asarray(cells, dtype=float)), np.asarray(seconds, dtype=float)
    if len(x) < 10 or len(x) != len(y) or not np.all(np.isfinite(x)) or not np.all(y > 0):
        raise SetupError("a curve needs ten or more observations, all above 0.")
    middle = float(x.mean())
    rise = max(float(np.quantile(y, 0.9) - np.quantile(y, 0.1)), 1e-6)

    def off(coefficients: Floats) -> Floats:
        return np.asarray(
            math.exp(coefficients[0]) * np.exp(coefficients[1] * (x - middle)) + coefficients[2] - y
        )

    start = (math.log(rise / 2), 0.3, float(np.quantile(y, 0.1)))
    solution = least_squares(
        off, start, loss="soft_l1", f_scale=max(rise / 5, 1e-6),
        bounds=([-60.0, -5.0, -np.inf], [60.0, 5.0, np.inf]),
    ).x  # fmt: skip
    left = y - np.exp(solution[0] + solution[1] * (x - middle))
    c = _floor_of(left)
    noise = fit_law("lognorm", np.maximum(left - c, 1e-6))
    a = math.exp(solution[0] - solution[1] * middle)
    return PreprocessingCurve(a, math.exp(solution[1]), max(c, 0.0), noise)


def _floor_of(left: Floats) -> float:
    q = np.quantile(left, (0.02, 0.5, 0.98))
    below, above = float(q[0]), float(q[2])
    middle = float(q[1])
    bent = below + above - 2 * middle
    least = max(float(left.min()) - 1e-3 * (above - below), 0.0)
    if bent <= 0:
        return 0.0
    return float(min(max((below * above - middle * middle) / bent, 0.0), least))


def _thinned(x: Floats, most: int) -> Floats:
    return np.asarray(np.sort(x)[_even(len(x), most)])


def _even(n: int, most: int) -> NDArray[np.intp]:
    if n <= most:
        return np.arange(n)
    return np.linspace(0, n - 1, most).astype(np.intp)


NEEDED = ("task", "seconds")
TEXTS = ("task", "framework", "estimator")
NUMBERS = ("seconds", "submit_s", "rows", "columns", "bytes", "performance")

LEAST_ROWS, LEAST_COLUMNS = 50, 2
LEAST_TASKS = 20  # executions that a distribution of a task needs

TASK_COMPONENTS = 8  # components of the mixture of durations of a task

_DAY_S, _WEEK_S = 86_400.0, 604_800.0
_FIRST_MONDAY_S = 4 * _DAY_S  # the Unix epoch began on a Thursday


@dataclass(frozen=True, eq=False)
class PlatformLogs:
    """A log of executed tasks, as columns; unknown texts are empty, unknown numbers are NaN."""

    texts: Mapping[str, NDArray[np.str_]]
    numbers: Mapping[str, Floats]

    def __len__(self) -> int:
        return len(self.texts["task"])


def read_logs(path: Path) -> PlatformLogs:
    """Read a log of executed tasks from a CSV or Parquet file.

    Raises:
        TraceError: the file cannot be read, is empty, lacks a column, or a column holds no
            numbers.
    """
    import pyarrow as pa
    from pyarrow import csv, parquet

    try:
        table = parquet.read_table(path) if path.suffix == ".parquet" else csv.read_csv(path)
    except FileNotFoundError:
        raise TraceError(path, expected="there is no such file.") from None
    except (OSError, pa.ArrowException) as error:
        raise TraceError(path, expected=f"it is not a log of tasks ({error}).") from None
    for name in NEEDED:
        if name not in table.column_names:
            raise TraceError(
                path, expected=f"a column '{name}' is needed; see docs/howto/ai-platform.md."
            )
    if not table.num_rows:
        raise TraceError(path, expected="it contains no tasks.")
    numbers = {name: _numbers(table, name, path) for name in NUMBERS}
    if "submitted" in table.column_names and "submit_s" not in table.column_names:
        numbers["submit_s"] = _dates(table, path)
    return PlatformLogs({name: _texts(table, name, path) for name in TEXTS}, numbers)


def _dates(table: Any, path: Path) -> Floats:
    """Return dates as seconds since the Monday midnight before the first of them."""
    import pyarrow as pa

    try:
        microseconds = (
            table.column("submitted").cast(pa.timestamp("us")).cast(pa.int64()).cast("float64")
        )
    except pa.ArrowException as error:
        raise TraceError(
            path, field="submitted", expected=f"dates with times are expected ({error})."
        ) from None
    seconds = np.asarray(microseconds.to_numpy(), dtype=float) / 1e6 - _FIRST_MONDAY_S
    finite = seconds[np.isfinite(seconds)]
    return seconds - np.floor(finite.min() / _WEEK_S) * _WEEK_S if len(finite) else seconds


def _texts(table: Any, name: str, path: Path) -> NDArray[np.str_]:
    import pyarrow as pa

    if name not in table.column_names:
        return np.full(table.num_rows, "", dtype=np.str_)
    try:
        values = table.column(name).cast(pa.string()).to_pylist()
    except pa.ArrowException as error:
        raise TraceError(path, field=name, expected=f"texts are expected ({error}).") from None
    return np.array([text or "" for text in values], dtype=np.str_)


def _numbers(table: Any, name: str, path: Path) -> Floats:
    import pyarrow as pa

    if name not in table.column_names:
        return np.full(table.num_rows, np.nan)
    try:
        values = table.column(name).cast(pa.float64()).to_numpy()
    except pa.ArrowException as error:
        raise TraceError(path, field=name, expected=f"numbers are expected ({error}).") from None
    return np.asarray(values, dtype=float)


def fit_statistics(
    logs: PlatformLogs, *, source: str = "", components: int = COMPONENTS, seed: int = 0
) -> PlatformStatistics:
    """Fit the statistics of a platform to a log of its executed tasks.

    Raises:
        SetupError: too few training jobs with seconds above 0.
    """
    usual = published_statistics()
    train, mix = _training(logs, seed)
    estimators, performance = _models(logs, tuple(mix))
    return replace(
        usual,
        assets=_assets(logs, components, seed) or usual.assets,
        preprocess=_preprocess(logs) or usual.preprocess,
        train=train,
        seconds={
            name: _seconds(_of(logs, logs.texts["task"] == name), seed) or law
            for name, law in usual.seconds.items()
        },
        mix=mix,
        estimators=estimators,
        performance=performance,
        arrivals=_arrivals(logs),
        source=source or f"fitted to {len(logs):,} executed tasks",
    )


def describe_fit(logs: PlatformLogs, fitted: PlatformStatistics) -> tuple[str, ...]:
    """Return sentences on which statistics were fitted to a log and which were not."""
    usual, tasks = published_statistics(), logs.texts["task"]
    kinds, counts = np.unique(tasks, return_counts=True)
    tasks_by_kind = dict(zip(kinds.tolist(), counts.tolist(), strict=True))
    parts = [f"{tasks_by_kind.get(kind, 0):,} of {kind}" for kind in TASKS if kind in tasks_by_kind]
    sentences = [f"{len(logs):,} executed tasks: {', '.join(parts)}."]
    shares = (f"{share:.1%} {name}" for name, share in sorted(fitted.mix.items(), key=_largest))
    sentences.append(f"Training by framework: {', '.join(shares)}.")
    medians = (f"{name} {law.median():.3g} s" for name, law in sorted(fitted.train.items()))
    sentences.append(f"Median training times: {', '.join(medians)}.")
    if fitted.arrivals is not usual.arrivals:
        gap_s = 3600 / float(fitted.arrivals.hourly().mean())
        sentences.append(f"A pipeline comes every {gap_s:.4g} s on average.")
    published_parts = [
        name
        for name, fitted_part, other in (
            ("the sizes of data sets", fitted.assets, usual.assets),
            ("the time of preprocess", fitted.preprocess, usual.preprocess),
            *(
                (f"the time of {kind}", law, usual.seconds[kind])
                for kind, law in fitted.seconds.items()
            ),
            ("arrivals", fitted.arrivals, usual.arrivals),
        )
        if fitted_part is other
    ]
    if published_parts:
        sentences.append(
            f"Published values, because the log has too few data: {', '.join(published_parts)}."
        )
    unknown_kinds = sorted(set(tasks_by_kind) - set(TASKS))
    if unknown_kinds:
        n = sum(tasks_by_kind[name] for name in unknown_kinds)
        quoted_kinds = ", ".join(f"'{name}'" for name in unknown_kinds[:5])
        sentences.append(
            f"{n:,} rows have an unknown task ({quoted_kinds}); known are {', '.join(TASKS)}."
        )
    return tuple(sentences)


def _largest(entry: tuple[str, float]) -> tuple[float, str]:
    return -entry[1], entry[0]


def _of(logs: PlatformLogs, which: NDArray[np.bool_]) -> Floats:
    seconds = logs.numbers["seconds"][which]
    return np.asarray(seconds[np.isfinite(seconds) & (seconds > 0)])


def _seconds(seconds: Floats, seed: int) -> Any:
    if len(seconds) < LEAST_TASKS:
        return None
    return fit_mixture(seconds[:, None], components=TASK_COMPONENTS, seed=seed)


def _training(logs: PlatformLogs, seed: int) -> tuple[dict[str, Any], dict[str, float]]:
    is_train = logs.texts["task"] == "train"
    frameworks = np.where(logs.texts["framework"] == "", "other", logs.texts["framework"])
    together = _of(logs, is_train)
    if len(together) < LEAST_TASKS:
        raise SetupError(
            f"the log has {len(together)} training jobs with seconds above 0; {LEAST_TASKS} are "
            "needed."
        )
    names, counts = np.unique(frameworks[is_train], return_counts=True)
    train = {
        str(name): _seconds(_of(logs, is_train & (frameworks == name)), seed)
        or _seconds(together, seed)
        for name in names
    }
    total = counts.sum()
    return train, {str(n): float(c / total) for n, c in zip(names, counts, strict=True)}


def _models(
    logs: PlatformLogs, frameworks: tuple[str, ...]
) -> tuple[dict[str, dict[str, float]], dict[str, Floats]]:
    usual = published_statistics()
    performance = dict(usual.performance)
    estimator_names, quality = logs.texts["estimator"], logs.numbers["performance"]
    is_known = (estimator_names != "") & (quality >= 0) & (quality <= 1)
    for name in np.unique(estimator_names[is_known]):
        observed = quality[is_known & (estimator_names == name)]
        if len(observed) >= LEAST_TASKS:
            performance[str(name)] = np.quantile(observed, GRID)
    estimators = {}
    for framework in frameworks:
        names, counts = np.unique(
            estimator_names[
                (logs.texts["framework"] == framework) & np.isin(estimator_names, list(performance))
            ],
            return_counts=True,
        )
        shares = {str(n): float(c / counts.sum()) for n, c in zip(names, counts, strict=True)}
        estimators[framework] = shares or dict(usual.estimators.get(framework, {"network": 1.0}))
    return estimators, performance


def _assets(logs: PlatformLogs, components: int, seed: int) -> Any:
    sizes = np.column_stack([logs.numbers[name] for name in ("rows", "columns", "bytes")])
    sizes = sizes[np.all(np.isfinite(sizes), axis=1)]
    sizes = sizes[(sizes[:, 0] >= LEAST_ROWS) & (sizes[:, 1] >= LEAST_COLUMNS) & (sizes[:, 2] > 0)]
    sizes = np.unique(sizes, axis=0)
    if len(sizes) < LEAST_TASKS:
        return None
    return fit_mixture(sizes, components=components, seed=seed)


def _preprocess(logs: PlatformLogs) -> Any:
    cells = logs.numbers["rows"] * logs.numbers["columns"]
    seconds = logs.numbers["seconds"]
    which = (logs.texts["task"] == "preprocess") & (cells > 0) & (seconds > 0)
    return fit_curve(cells[which], seconds[which]) if which.sum() >= LEAST_TASKS else None


def _arrivals(logs: PlatformLogs) -> Any:
    """Return the arrivals of training jobs, which stand for those of pipelines, as in the paper."""
    times = logs.numbers["submit_s"][logs.texts["task"] == "train"]
    times = times[np.isfinite(times)]
    if len(times) < LEAST_TASKS:
        return published_statistics().arrivals
    return fit_arrivals(times)
