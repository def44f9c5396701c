"""A log of a platform beside what its statistics simulate, as it is told (figure 12 of PipeSim)."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from assistant.charts_platform import Likeness, Quantiles, WeekBands
from sim.aiops.accuracy import WEEKS, Accuracy, accuracy, example_log
from sim.aiops.compare import Comparison
from sim.aiops.logs import fit_statistics, read_logs
from sim.aiops.statistics import statistics_of
from sim.aiops.validation import HourlyBands
from sim.api import load_model

USUAL_WEEKS = WEEKS


EXAMPLE = "built-in example"


def likeness(
    log: Path | None, model: Path | None = None, *, weeks: int = USUAL_WEEKS, seed: int = 0
) -> Likeness:
    """Compare a log with what is simulated.

    Args:
        log: of executed tasks, CSV or Parquet; None is a built-in example.
        model: of statistics; None fits them to the log.
        weeks: simulated.
        seed: of the simulation, and of where a fit begins.

    Raises:
        SimError: a file that cannot be read, or nothing to compare.
    """
    name = EXAMPLE if log is None else log.name
    logs = example_log() if log is None else read_logs(log)
    if model is None:
        statistics = fit_statistics(logs, source=f"fitted to {name}", seed=seed)
    else:
        statistics = statistics_of(load_model(model))
    return told(name, accuracy(logs, statistics, weeks=weeks, seed=seed))


def told(log: str, found: Accuracy) -> Likeness:
    """Return a comparison as it is drawn."""
    return Likeness(
        log,
        found.n_observed,
        found.n_simulated,
        found.weeks,
        found.seed,
        found.source,
        tuple(_quantiles(one, one.name) for one in found.tasks),
        tuple(_quantiles(one, f"gaps, {profile}") for profile, one in found.gaps.items()),
        {profile: _bands(bands) for profile, bands in found.hours.items()},
    )


def as_table(found: Likeness) -> Mapping[str, Any]:
    """Return a comparison as one JSON object."""
    return asdict(found)


def from_table(table: Mapping[str, Any]) -> Likeness:
    """Return a comparison from what `as_table` gave."""
    lists = ("observed", "simulated", "low", "high")

    def frozen(row: Mapping[str, Any]) -> dict[str, Any]:
        return {name: tuple(value) if name in lists else value for name, value in row.items()}

    parts = {
        "tasks": tuple(Quantiles(**frozen(one)) for one in table["tasks"]),
        "gaps": tuple(Quantiles(**frozen(one)) for one in table["gaps"]),
        "hours": {name: WeekBands(**frozen(one)) for name, one in table["hours"].items()},
    }
    return Likeness(**{**table, **parts})


def _quantiles(one: Comparison, name: str) -> Quantiles:
    return Quantiles(
        name, one.observed, one.simulated, one.n_observed, one.n_simulated, one.ks,
        one.ks_critical, one.wasserstein, one.log_wasserstein,
    )  # fmt: skip


def _bands(one: HourlyBands) -> WeekBands:
    observed, simulated, low, high = (
        tuple(float(value) for value in column)
        for column in (one.observed, one.simulated, one.low, one.high)
    )
    return WeekBands(observed, simulated, low, high, one.within)
