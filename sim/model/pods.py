"""Pods: workloads of Kubernetes pods, as in files and generators of AI workloads.

One job is one logical workload (a training, an experiment); its tasks are its pods, one row each.
`Telemetry` holds measurements of pods that ran.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sim.model.columns import read_only_copy
from sim.model.errors import WorkloadError
from sim.model.tasks import Tasks, Term
from sim.model.workload import ReadingNote, Workload

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


KINDS: tuple[str, ...] = (
    "debug_eval", "single_gpu_training", "distributed_training", "parameter_server_training",
    "hpo_experiment", "cpu_preprocess", "cpu_analytics",
)  # fmt: skip
"""Families of logical workloads; group and queue of a job are an index into these."""

EPOCH_UNIX_S = 1704067200.0
"""Monday 2024-01-01 00:00 UTC: the midnight at which a trace without a date begins."""

GIB = 2**30
USUAL_GPU = "nvidia.com/gpu"
USUAL_NAMESPACE = "default"
NO_RECORD = "none"
"""Value in the texts "workloadRecord" if files have no record of a logical workload."""

LOGICAL_RESOURCE = "logicalGpuResource"
"""Key of the texts with the GPU resource that a retargeted logical workload had requested."""

POWER_PROFILE = "joulie.io/power-profile"
DRAINING = "joulie.io/draining"
INTENTS: Mapping[str, tuple[Term, ...]] = {
    "general": (),
    "performance": (Term(POWER_PROFILE, "NotIn", ("eco",)),),
    "eco": (Term(POWER_PROFILE, "In", ("eco",)), Term(DRAINING, "NotIn", ("true",))),
}
"""Demands on the machines of the pods of a workload, by its intent."""


def encode_names(
    names: Sequence[str], used: NDArray[np.int64]
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Convert indices into `names` to indices into the sorted names in use.

    `used` are indices into `names`; -1 and the empty name are none.
    """
    present = sorted({names[i] for i in np.unique(used) if i >= 0} - {""})
    place = {name: i for i, name in enumerate(present)}
    table = np.array([place.get(name, -1) for name in names] + [-1], dtype=np.int64)
    return table[used], tuple(present)


def encode_terms(
    terms: Sequence[tuple[Term, ...]], used: NDArray[np.int64]
) -> tuple[NDArray[np.int64], tuple[tuple[Term, ...], ...]]:
    """Convert indices into affinities to indices into the sorted affinities in use."""
    words = [repr(word) if word else "" for word in terms]
    codes, present = encode_names(words, used)
    of_words = dict(zip(words, terms, strict=True))
    return codes, tuple(of_words[word] for word in present)


def pods_workload(
    tasks: Tasks,
    *,
    offset_s: NDArray[np.float64],
    kind: NDArray[np.int64],
    job_id: NDArray[np.int64],
    name: str,
    epoch_unix_s: float = EPOCH_UNIX_S,
    time_zone: str | None = "UTC",
    notes: Iterable[ReadingNote] = (),
) -> Workload:
    """Build a workload in which each job is one logical workload and its tasks are pods.

    The run time of a job is that of its longest pod. Its processors are the cores of all pods,
    rounded up to whole ones; its memory is that of all pods, per such processor.

    Args:
        tasks: pods, one row each, in the order of the jobs.
        offset_s: float64 [n_jobs], submissions in seconds from `epoch_unix_s`.
        kind: int64 [n_jobs], index into `KINDS`; -1 is another kind.
        job_id: int64 [n_jobs].
        name: name for people.
        epoch_unix_s: Unix time of offset 0.
        time_zone: time zone in which that is a midnight.
        notes: notes of the reader.
    """
    first = np.searchsorted(tasks.job, np.arange(tasks.n_jobs))
    mcpu = np.add.reduceat(tasks.mcpu * tasks.instances, first)
    mem_bytes = np.add.reduceat(tasks.mem_bytes * tasks.instances, first)
    procs = np.maximum(-(-mcpu // 1000), 1)
    columns: dict[str, Any] = {
        "submit_s": offset_s,
        "runtime_s": np.maximum.reduceat(tasks.runtime_s, first),
        "procs": procs,
        "job_id": job_id,
        "group": kind,
        "queue": kind,
        "mem_bytes_per_proc": mem_bytes // procs,
    }
    return Workload.from_arrays(
        **columns,
        name=name,
        start_unix_s=epoch_unix_s + float(offset_s.min()),
        time_zone=time_zone,
        notes=notes,
        tasks=tasks,
        unsorted="sort",
    )


@dataclass(frozen=True, eq=False)
class Telemetry:
    """Measurements of executed pods, as columns of [n_rows].

    Attributes:
        workload: workload of the pods.
        task: int64, row of the workload's tasks; a task may have any number of measurements.
        duration_s: float64, seconds from start to end, above 0.
        cpu_utilisation: float64, mean share of the requested cores in use, 0 to 1; NaN is unknown.
            `gpu_utilisation` likewise.
        cpu_speed: float64, mean speed of the cores relative to no throttling, above 0 to 1.
            `gpu_speed` likewise.
    """

    workload: Workload
    task: Ints
    duration_s: Floats
    cpu_utilisation: Floats
    gpu_utilisation: Floats
    cpu_speed: Floats
    gpu_speed: Floats

    @classmethod
    def from_arrays(
        cls,
        workload: Workload,
        *,
        task: ArrayLike,
        duration_s: ArrayLike,
        cpu_utilisation: ArrayLike | None = None,
        gpu_utilisation: ArrayLike | None = None,
        cpu_speed: ArrayLike | None = None,
        gpu_speed: ArrayLike | None = None,
    ) -> Self:
        """Validate columns of measurements and return them as telemetry.

        Raises:
            WorkloadError: the workload has no work units, there is no measurement, a column has
                another length, or a value is impossible.
        """
        if workload.tasks is None or workload.tasks.work is None:
            raise WorkloadError(
                f"{workload.name} has no pods with work units, which telemetry needs."
            )
        rows = np.asarray(task, dtype=np.int64)
        n = len(rows)
        if n == 0:
            raise WorkloadError("telemetry needs 1 row or more; it is empty.")
        if rows.min() < 0 or rows.max() >= workload.tasks.n_tasks:
            raise WorkloadError(f"telemetry names tasks that {workload.name} does not have.")
        measurements = {
            "duration_s": (duration_s, np.inf),
            "cpu_utilisation": (
                np.full(n, np.nan) if cpu_utilisation is None else cpu_utilisation,
                1,
            ),
            "gpu_utilisation": (
                np.full(n, np.nan) if gpu_utilisation is None else gpu_utilisation,
                1,
            ),
            "cpu_speed": (np.ones(n) if cpu_speed is None else cpu_speed, 1),
            "gpu_speed": (np.ones(n) if gpu_speed is None else gpu_speed, 1),
        }
        columns: dict[str, Floats] = {}
        for name, (values, most) in measurements.items():
            column = np.asarray(values, dtype=np.float64)
            if column.shape != (n,):
                raise WorkloadError(f"telemetry: {name} has shape {column.shape}, not ({n},).")
            unknown = np.isnan(column) & name.endswith("utilisation")
            above_0 = (column > 0) | (name.endswith("utilisation") & (column == 0))
            bad = ~(unknown | (above_0 & (column <= most) & np.isfinite(column)))
            if bad.any():
                row = int(np.flatnonzero(bad)[0])
                upto = "" if most == np.inf else f" and at most {most}"
                raise WorkloadError(
                    f"telemetry: {name}, row {row}: {column[row]:.15g}; allowed are finite numbers "
                    f"above 0{upto}."
                )
            columns[name] = read_only_copy(column)
        return cls(workload, read_only_copy(rows), **columns)

    @property
    def n_rows(self) -> int:
        """Return the number of measurements."""
        return len(self.task)
