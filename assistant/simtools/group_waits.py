"""Mean waits by user and by partition: the best configuration of a sweep beside the current one."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from assistant.applications.scheduling import Scheduling
from assistant.core.experiment import Experiment
from assistant.core.ports import Application
from assistant.presentation.report.data import GroupTable, MeasureRow
from assistant.presentation.text.comparison import change_words
from assistant.presentation.text.number_format import quantity

MOST_ROWS = 10
GROUPS = ("user", "partition")
"""Columns of a workload by which its jobs are grouped."""


def group_tables(application: Application, experiment: Experiment) -> tuple[GroupTable, ...]:
    """Compare the waits of each user, and of each partition of the log, in two configurations.

    The current configuration and the best one are simulated again, with the jobs of the runs.

    Returns:
        A table for users and one for partitions, each if the log has several. None without a
            configuration that is better than the current one, or without a simulated cluster.

    Raises:
        RunError: a configuration cannot be simulated any more.
    """
    best, baseline = experiment.best, experiment.baseline
    if not isinstance(application, Scheduling) or best is None or baseline is None:
        return ()
    if best.configuration == baseline.configuration:
        return ()
    space, jobs = experiment.space, application.train
    results = (
        application.simulated(space.values(run.configuration), 0)[1] for run in (baseline, best)
    )
    current_s, best_s = (result.start_s - result.submissions_s(jobs) for result in results)
    tables = (_table(name, getattr(jobs, name), current_s, best_s) for name in GROUPS)
    return tuple(table for table in tables if table is not None)


def _table(
    name: str, group: NDArray[np.int64], current_s: NDArray[np.float64], best_s: NDArray[np.float64]
) -> GroupTable | None:
    """Return the groups whose jobs together gain or lose most; None with fewer than two groups."""
    counts = (group >= 0) & ~np.isnan(current_s) & ~np.isnan(best_s)
    numbers, place, n_jobs = np.unique(group[counts], return_inverse=True, return_counts=True)
    if len(numbers) < 2:
        return None
    before_s = np.bincount(place, current_s[counts]).astype(np.float64)
    after_s = np.bincount(place, best_s[counts]).astype(np.float64)
    by_change = np.argsort(-np.abs(after_s - before_s), kind="stable")[:MOST_ROWS].tolist()
    rows = tuple(
        MeasureRow(
            f"{name} {numbers[i]} ({n_jobs[i]:,} {'job' if n_jobs[i] == 1 else 'jobs'})",
            quantity(float(before_s[i] / n_jobs[i]), "s"),
            quantity(float(after_s[i] / n_jobs[i]), "s"),
            change_words(float(after_s[i]), float(before_s[i]), "s"),
        )
        for i in by_change
    )
    return GroupTable(name, rows, " ".join(_words(name, before_s, after_s, len(rows))))


def _words(
    name: str, before_s: NDArray[np.float64], after_s: NDArray[np.float64], n_rows: int
) -> Iterator[str]:
    n, less, more = len(before_s), int((after_s < before_s).sum()), int((after_s > before_s).sum())
    yield (
        f"Of {n:,} {name}s, {less:,} wait less on average with the best configuration, {more:,} "
        f"longer, and {n - less - more:,} the same."
    )
    shown = f"Shown are the {n_rows:,}" if n_rows < n else "They are"
    yield f"{shown} in order of the waiting time that their jobs gain or lose together."
    yield f"The number of a {name} is that of the log; only the jobs of the runs count."
