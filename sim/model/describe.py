"""What a workload looks like, before anything is simulated."""

from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from sim.model.columns import checked_machine
from sim.model.metrics import SIZE_CLASSES
from sim.model.workload import UNKNOWN, Workload

QUANTILES: tuple[float, ...] = (0.1, 0.25, 0.5, 0.75, 0.9, 0.99)


@dataclass(frozen=True)
class ColumnSummary:
    """Mean and quantiles of a column; quantiles are at `QUANTILES`, linearly interpolated.

    Attributes:
        mean: arithmetic mean.
        least: smallest value.
        most: largest value.
        quantiles: ``"0.5"`` to the median and so on.
    """

    mean: float
    least: float
    most: float
    quantiles: dict[str, float]


@dataclass(frozen=True)
class WorkloadDescription:
    """A workload in numbers.

    Attributes:
        name: its name.
        digest: its digest.
        n_jobs: jobs.
        n_users: distinct known users; None if no user is known.
        span_s: seconds from the first to the last submission.
        max_procs: processors of the machine it comes from; None where unknown.
        widest_procs: processors of the widest job.
        offered_load: processor-seconds submitted per processor-second of the span on `max_procs`;
            None if the machine is unknown or the span is 0.
        procs: summary, processors.
        runtime_s: summary, seconds.
        requested_s: summary, seconds.
        interarrival_s: summary, seconds between submissions; None for a single job.
        size_classes: name of the class to number of jobs.
        requested_is_runtime: some requests are the run times themselves (clairvoyant).
        notes: what the reading rules did, as sentences.
    """

    name: str
    digest: str
    n_jobs: int
    n_users: int | None
    span_s: float
    max_procs: int | None
    widest_procs: int
    offered_load: float | None
    procs: ColumnSummary
    runtime_s: ColumnSummary
    requested_s: ColumnSummary
    interarrival_s: ColumnSummary | None
    size_classes: dict[str, int]
    requested_is_runtime: bool
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, object]:
        """Return plain dictionaries, lists, texts and numbers, ready for JSON."""
        return {**asdict(self), "notes": list(self.notes)}


def offered_load(workload: Workload, procs: int) -> float | None:
    """Return processor-seconds submitted per processor-second between first and last submission.

    Args:
        workload: the jobs.
        procs: processors of the machine, 1 to 2**53.

    Returns:
        A ratio; above 1 no machine of that size keeps up. None if all jobs come at one instant.

    Raises:
        WorkloadError: no machine has so many processors.
    """
    procs = checked_machine(procs)
    if workload.span_s == 0:
        return None
    return float((workload.procs * workload.runtime_s).sum() / (procs * workload.span_s))


def describe(workload: Workload) -> WorkloadDescription:
    """Describe a workload in numbers."""
    users = np.unique(workload.user[workload.user != UNKNOWN])
    gaps_s = np.diff(workload.submit_s)
    procs = workload.procs
    return WorkloadDescription(
        name=workload.name,
        digest=workload.digest,
        n_jobs=workload.n_jobs,
        n_users=len(users) or None,
        span_s=workload.span_s,
        max_procs=workload.max_procs,
        widest_procs=workload.widest_procs,
        offered_load=offered_load(workload, workload.max_procs) if workload.max_procs else None,
        procs=summary_of(procs.astype(np.float64)),
        runtime_s=summary_of(workload.runtime_s),
        requested_s=summary_of(workload.requested_s),
        interarrival_s=summary_of(gaps_s) if len(gaps_s) else None,
        size_classes={
            name: int(((procs >= least) & (procs <= most)).sum())
            for name, least, most in SIZE_CLASSES
        },
        requested_is_runtime=workload.requested_is_runtime,
        notes=tuple(note.sentence for note in workload.notes),
    )


def summary_of(values: NDArray[np.float64]) -> ColumnSummary:
    """Return mean and quantiles of a column, float64 [n] with n at least 1."""
    return ColumnSummary(
        mean=float(values.mean()),
        least=float(values.min()),
        most=float(values.max()),
        quantiles={
            f"{q:g}": float(value)
            for q, value in zip(QUANTILES, np.quantile(values, QUANTILES), strict=True)
        },
    )
