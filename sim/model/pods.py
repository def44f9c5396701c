"""Workloads of pods, as generators of AI workloads draw them and files of such hold them.

One job is one logical workload (a training, an experiment); its tasks are its pods, one row each.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.model.tasks import Tasks, Term
from sim.model.workload import ReadingNote, Workload

KINDS: tuple[str, ...] = (
    "debug_eval", "single_gpu_training", "distributed_training", "parameter_server_training",
    "hpo_experiment", "cpu_preprocess", "cpu_analytics",
)  # fmt: skip
"""Families of logical workloads; group and queue of a job are its index."""

EPOCH_UNIX_S = 1704067200.0
"""Monday 2024-01-01 00:00 UTC: the midnight from which a trace without a date counts."""

GIB = 2**30
USUAL_GPU = "nvidia.com/gpu"
USUAL_NAMESPACE = "default"
NO_RECORD = "none"
"""In the texts "workloadRecord": files have no record of this logical workload."""

LOGICAL_RESOURCE = "logicalGpuResource"
"""The texts that say as what a logical workload asked for its GPUs, if its pods were retargeted."""

POWER_PROFILE = "joulie.io/power-profile"
DRAINING = "joulie.io/draining"
INTENTS: Mapping[str, tuple[Term, ...]] = {
    "general": (),
    "performance": (Term(POWER_PROFILE, "NotIn", ("eco",)),),
    "eco": (Term(POWER_PROFILE, "In", ("eco",)), Term(DRAINING, "NotIn", ("true",))),
}
"""What a workload's intent demands of the machines of its pods."""


def coded(
    names: Sequence[str], used: NDArray[np.int64]
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Return indices into the names that are in use, which are sorted, and these names.

    Args:
        names: any; the empty one is none.
        used: indices into `names`, -1 is none.
    """
    present = sorted({names[i] for i in np.unique(used) if i >= 0} - {""})
    place = {name: i for i, name in enumerate(present)}
    table = np.array([place.get(name, -1) for name in names] + [-1], dtype=np.int64)
    return table[used], tuple(present)


def coded_terms(
    terms: Sequence[tuple[Term, ...]], used: NDArray[np.int64]
) -> tuple[NDArray[np.int64], tuple[tuple[Term, ...], ...]]:
    """Return indices into the affinities that are in use, in the order of their words."""
    words = [repr(one) if one else "" for one in terms]
    codes, present = coded(words, used)
    of_words = dict(zip(words, terms, strict=True))
    return codes, tuple(of_words[one] for one in present)


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
    """Return the workload of logical workloads whose pods are known.

    The run time of a job is the longest of its pods, its processors are the cores of all pods
    together, in whole ones, and its memory is that of all pods, per such processor.

    Args:
        tasks: pods, a row each, in the order of the jobs.
        offset_s: float64 [n_jobs], submissions in seconds from `epoch_unix_s`.
        kind: int64 [n_jobs], index into `KINDS`, -1 for another.
        job_id: int64 [n_jobs].
        name: for people.
        epoch_unix_s: Unix time.
        time_zone: where that is a midnight.
        notes: of reading.
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
