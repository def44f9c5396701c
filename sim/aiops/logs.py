"""A user's own logs: one row per executed task, CSV or Parquet, and statistics fitted to them.

Columns: `task` (`preprocess`, `train`, `evaluate`, `deploy`, `monitor`) and `seconds` (of pure
computing) are needed; `submitted` (arrival of the pipeline, a date with a time, as
2026-11-02T08:15:00) or `submit_s` (seconds since a Monday midnight), `framework`, `estimator`,
`rows`, `columns`, `bytes` and `performance` (0 to 1) are used where they stand and not null. What a
log says nothing of stays as published.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.aiops.defaults import published
from sim.aiops.fitting import COMPONENTS, Floats, fit_arrivals, fit_curve, fit_mixture
from sim.aiops.graph import TASKS
from sim.aiops.statistics import GRID, Statistics
from sim.errors import SetupError, TraceError

NEEDED = ("task", "seconds")
TEXTS = ("task", "framework", "estimator")
NUMBERS = ("seconds", "submit_s", "rows", "columns", "bytes", "performance")

LEAST_ROWS, LEAST_COLUMNS = 50, 2
LEAST_TASKS = 20
"""Executions that a law of a task needs."""

TASK_COMPONENTS = 8
"""Of the mixture of durations of a task."""

_DAY_S, _WEEK_S = 86_400.0, 604_800.0
_FIRST_MONDAY_S = 4 * _DAY_S
"""Of the Unix epoch, which began on a Thursday."""


@dataclass(frozen=True, eq=False)
class Logs:
    """Executed tasks in columns of one length.

    Attributes:
        texts: of str, by name; empty where unknown.
        numbers: float64, by name; not a number where unknown.
    """

    texts: Mapping[str, NDArray[np.str_]]
    numbers: Mapping[str, Floats]

    def __len__(self) -> int:
        return len(self.texts["task"])


def read_logs(path: Path) -> Logs:
    """Read a log of executed tasks.

    Raises:
        TraceError: it cannot be read, is empty, lacks a column, or one holds no numbers.
    """
    import pyarrow as pa
    from pyarrow import csv, parquet

    try:
        table = parquet.read_table(path) if path.suffix == ".parquet" else csv.read_csv(path)
    except FileNotFoundError:
        raise TraceError(path, expected="there is no such file.") from None
    except (OSError, pa.ArrowException) as error:
        raise TraceError(path, expected=f"it is no log of tasks ({error}).") from None
    for name in NEEDED:
        if name not in table.column_names:
            raise TraceError(path, expected=f"a column '{name}' is needed; see the guide.")
    if not table.num_rows:
        raise TraceError(path, expected="there is no task in it.")
    numbers = {name: _numbers(table, name, path) for name in NUMBERS}
    if "submitted" in table.column_names and "submit_s" not in table.column_names:
        numbers["submit_s"] = _dates(table, path)
    return Logs({name: _texts(table, name, path) for name in TEXTS}, numbers)


def _dates(table: Any, path: Path) -> Floats:
    """Return dates as seconds since the Monday midnight before the first of them."""
    import pyarrow as pa

    try:
        told = table.column("submitted").cast(pa.timestamp("us")).cast(pa.int64()).cast("float64")
    except pa.ArrowException as error:
        raise TraceError(
            path, field="submitted", expected=f"dates with times are expected ({error})."
        ) from None
    seconds = np.asarray(told.to_numpy(), dtype=float) / 1e6 - _FIRST_MONDAY_S
    known = seconds[np.isfinite(seconds)]
    return seconds - np.floor(known.min() / _WEEK_S) * _WEEK_S if len(known) else seconds


def _texts(table: Any, name: str, path: Path) -> NDArray[np.str_]:
    import pyarrow as pa

    if name not in table.column_names:
        return np.full(table.num_rows, "", dtype=np.str_)
    try:
        told = table.column(name).cast(pa.string()).to_pylist()
    except pa.ArrowException as error:
        raise TraceError(path, field=name, expected=f"texts are expected ({error}).") from None
    return np.array([text or "" for text in told], dtype=np.str_)


def _numbers(table: Any, name: str, path: Path) -> Floats:
    import pyarrow as pa

    if name not in table.column_names:
        return np.full(table.num_rows, np.nan)
    try:
        told = table.column(name).cast(pa.float64()).to_numpy()
    except pa.ArrowException as error:
        raise TraceError(path, field=name, expected=f"numbers are expected ({error}).") from None
    return np.asarray(told, dtype=float)


def fit_statistics(
    logs: Logs, *, source: str = "", components: int = COMPONENTS, seed: int = 0
) -> Statistics:
    """Fit the statistics of a platform to its logs.

    Args:
        logs: of executed tasks.
        source: what they are, for people.
        components: of the mixture of data sets, at most.
        seed: of where searches begin.

    Raises:
        SetupError: no training job with seconds above 0.
    """
    usual = published()
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


def told_by(logs: Logs, fitted: Statistics) -> tuple[str, ...]:
    """Return what statistics took from a log, and what they did not, a sentence each."""
    usual, tasks = published(), logs.texts["task"]
    kinds, counts = np.unique(tasks, return_counts=True)
    found = dict(zip(kinds.tolist(), counts.tolist(), strict=True))
    parts = [f"{found.get(kind, 0):,} of {kind}" for kind in TASKS if kind in found]
    sentences = [f"{len(logs):,} executed tasks: {', '.join(parts)}."]
    shares = (f"{share:.1%} {name}" for name, share in sorted(fitted.mix.items(), key=_largest))
    sentences.append(f"Training by framework: {', '.join(shares)}.")
    medians = (f"{name} {law.median():.3g} s" for name, law in sorted(fitted.train.items()))
    sentences.append(f"Half of the trainings take less than: {', '.join(medians)}.")
    if fitted.arrivals is not usual.arrivals:
        gap_s = 3600 / float(fitted.arrivals.hourly().mean())
        sentences.append(f"A pipeline comes every {gap_s:.4g} s on average.")
    kept = [
        name
        for name, own, other in (
            ("the sizes of data sets", fitted.assets, usual.assets),
            ("the time of preprocess", fitted.preprocess, usual.preprocess),
            *(
                (f"the time of {kind}", law, usual.seconds[kind])
                for kind, law in fitted.seconds.items()
            ),
            ("arrivals", fitted.arrivals, usual.arrivals),
        )
        if own is other
    ]
    if kept:
        sentences.append(f"As published, for the log tells too little: {', '.join(kept)}.")
    others = sorted(set(found) - set(TASKS))
    if others:
        n = sum(found[name] for name in others)
        named = ", ".join(f"'{name}'" for name in others[:5])
        sentences.append(
            f"{n:,} rows are of no task that is known ({named}); known are {', '.join(TASKS)}."
        )
    return tuple(sentences)


def _largest(entry: tuple[str, float]) -> tuple[float, str]:
    return -entry[1], entry[0]


def _of(logs: Logs, which: NDArray[np.bool_]) -> Floats:
    seconds = logs.numbers["seconds"][which]
    return np.asarray(seconds[np.isfinite(seconds) & (seconds > 0)])


def _seconds(seconds: Floats, seed: int) -> Any:
    if len(seconds) < LEAST_TASKS:
        return None
    return fit_mixture(seconds[:, None], components=TASK_COMPONENTS, seed=seed)


def _training(logs: Logs, seed: int) -> tuple[dict[str, Any], dict[str, float]]:
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
    logs: Logs, frameworks: tuple[str, ...]
) -> tuple[dict[str, dict[str, float]], dict[str, Floats]]:
    usual = published()
    performance = dict(usual.performance)
    told, quality = logs.texts["estimator"], logs.numbers["performance"]
    is_known = (told != "") & (quality >= 0) & (quality <= 1)
    for name in np.unique(told[is_known]):
        found = quality[is_known & (told == name)]
        if len(found) >= LEAST_TASKS:
            performance[str(name)] = np.quantile(found, GRID)
    estimators = {}
    for framework in frameworks:
        names, counts = np.unique(
            told[(logs.texts["framework"] == framework) & np.isin(told, list(performance))],
            return_counts=True,
        )
        shares = {str(n): float(c / counts.sum()) for n, c in zip(names, counts, strict=True)}
        estimators[framework] = shares or dict(usual.estimators.get(framework, {"network": 1.0}))
    return estimators, performance


def _assets(logs: Logs, components: int, seed: int) -> Any:
    sizes = np.column_stack([logs.numbers[name] for name in ("rows", "columns", "bytes")])
    sizes = sizes[np.all(np.isfinite(sizes), axis=1)]
    sizes = sizes[(sizes[:, 0] >= LEAST_ROWS) & (sizes[:, 1] >= LEAST_COLUMNS) & (sizes[:, 2] > 0)]
    sizes = np.unique(sizes, axis=0)
    if len(sizes) < LEAST_TASKS:
        return None
    return fit_mixture(sizes, components=components, seed=seed)


def _preprocess(logs: Logs) -> Any:
    cells = logs.numbers["rows"] * logs.numbers["columns"]
    seconds = logs.numbers["seconds"]
    which = (logs.texts["task"] == "preprocess") & (cells > 0) & (seconds > 0)
    return fit_curve(cells[which], seconds[which]) if which.sum() >= LEAST_TASKS else None


def _arrivals(logs: Logs) -> Any:
    """Return arrivals of training jobs, as in the paper, which stand for those of pipelines."""
    times = logs.numbers["submit_s"][logs.texts["task"] == "train"]
    times = times[np.isfinite(times)]
    if len(times) < LEAST_TASKS:
        return published().arrivals
    return fit_arrivals(times)
