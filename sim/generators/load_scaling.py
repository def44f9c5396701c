"""Changes of a workload's load: scaled gaps, shifted submit times, or jobs drawn to fill GPUs.

Scaling multiplies the times between submissions, which keeps jobs and their order but also
stretches days and weeks; prefer a generator's `scale` where days count (Feitelson, "Workload
Modeling for Computer Systems Performance Evaluation", 2015). Shaking adds small random shifts to
submit times, to see how much a result depends on the accidents of one log: Tsafrir and Feitelson,
"Instability in parallel job scheduling simulation: the role of workload flurries", IPDPS 2006;
Tsafrir, Ouaknine and Feitelson, "Reducing performance evaluation sensitivity and variability by
input shaking", MASCOTS 2007. Inflation submits pods drawn with replacement, which never leave,
until they request a share of the GPUs: Weng et al., "Beware of Fragmentation", USENIX ATC 2023,
section 6.
"""

from dataclasses import fields, replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from sim.generators.generator import MOST_JOBS, RandomStreams, checked_number
from sim.metrics.workload_profile import offered_load
from sim.model.admission import capacity_of
from sim.model.cluster import ClusterSpec
from sim.model.columns import read_only_copy
from sim.model.errors import UnknownNameError, WorkloadError
from sim.model.tasks import DEMANDS
from sim.model.workload import UNKNOWN, ReadingNote, Workload

Unit = Literal["jobs", "sessions", "users"]

SESSION_GAP_S = 1200.0
"""Gap without submissions after which a user's new session begins (Zilber et al. 2005)."""

ANEW = ("submit_s", "logged_wait_s", "notes", "start_unix_s")
"""Fields that are made anew; logged waits belong to other submit times."""


def scale_load(
    workload: Workload,
    factor: float | None = None,
    *,
    load: float | None = None,
    procs: int | None = None,
) -> Workload:
    """Return the same jobs with all times between submissions multiplied by a factor.

    Args:
        workload: jobs. Whole seconds stay whole.
        factor: factor on the times between submissions: 0.5 doubles the load.
        load: target of the offered load, instead of a factor.
        procs: processors of the machine for `load`; those of the log by default.

    Raises:
        WorkloadError: neither or both of `factor` and `load`, one that is not finite and above 0,
            no known machine, or a log without load.
    """
    if (factor is None) == (load is None):
        raise WorkloadError("give either a factor of the times between submissions, or a load.")
    if load is not None:
        factor = _factor_for(workload, _above_zero("load", load), procs)
    multiplier = _above_zero("factor", 0.0 if factor is None else factor)
    submit_s = workload.submit_s * multiplier
    if (workload.submit_s % 1 == 0).all():
        submit_s = np.round(submit_s)
    sentence = f"the times between submissions were multiplied by {multiplier:.6g}."
    note = ReadingNote("scale_load", workload.n_jobs, sentence)
    return _submitted_at(workload, submit_s, note)


def shake(
    workload: Workload,
    seed: int | RandomStreams,
    *,
    spread_s: float = 300.0,
    by: Unit = "jobs",
    session_gap_s: float = SESSION_GAP_S,
) -> Workload:
    """Return the same jobs with random shifts of their submit times.

    Args:
        workload: jobs. Whole seconds stay whole.
        seed: a whole number from 0, or streams.
        spread_s: bound of the uniform shifts, from -spread_s to spread_s.
        by: unit that is shifted together: jobs, sessions of users, or users with all their jobs. A
            job of an unknown user is shifted alone.
        session_gap_s: gap without submissions after which a user's new session begins.

    Raises:
        WorkloadError: a spread or gap that is not finite and from 0, or another seed.
        UnknownNameError: no such unit.
    """
    if by not in get_args(Unit):
        raise UnknownNameError("unit of shaking", by, get_args(Unit))
    spread = checked_number("spread_s", spread_s, 0.0)
    gap = checked_number("session_gap_s", session_gap_s, 0.0)
    streams = seed if isinstance(seed, RandomStreams) else RandomStreams(seed)
    unit = units(workload, by, gap)
    shift_s = streams.of("shake").uniform(-spread, spread, int(unit.max()) + 1)[unit]
    if (workload.submit_s % 1 == 0).all():
        shift_s = np.round(shift_s)
    sentence = f"submit times were shifted by up to {spread:g} s, whole {by} together."
    note = ReadingNote("shake", workload.n_jobs, sentence)
    return _submitted_at(workload, workload.submit_s + shift_s, note)


def units(workload: Workload, by: Unit, session_gap_s: float) -> NDArray[np.int64]:
    """Return the index of the unit (job, session or user) with which each job is shifted."""
    n_jobs = workload.n_jobs
    if by == "jobs":
        return np.arange(n_jobs, dtype=np.int64)
    order = np.argsort(workload.user, kind="stable")
    user, submit_s = workload.user[order], workload.submit_s[order]
    begins = np.ones(n_jobs, dtype=np.bool_)
    begins[1:] = (user[1:] != user[:-1]) | (user[1:] == UNKNOWN)
    if by == "sessions":
        begins[1:] |= np.diff(submit_s) > session_gap_s
    numbers = np.empty(n_jobs, dtype=np.int64)
    numbers[order] = np.cumsum(begins) - 1
    return numbers


def _factor_for(workload: Workload, load: float, procs: int | None) -> float:
    machine = workload.max_procs if procs is None else procs
    if machine is None:
        raise WorkloadError(
            f"the machine of {workload.name} is unknown; give its processors to scale to a load."
        )
    offered = offered_load(workload, machine)
    if not offered:
        raise WorkloadError(
            f"the jobs of {workload.name} come all at once or compute nothing; no factor changes "
            "their load."
        )
    return offered / load


def _above_zero(name: str, value: float) -> float:
    if checked_number(name, value, 0.0) == 0:
        raise WorkloadError(f"{name} is {value!r}; allowed are finite numbers above 0.")
    return float(value)


def _submitted_at(workload: Workload, submit_s: NDArray[np.float64], note: ReadingNote) -> Workload:
    rest: dict[str, Any] = {
        column.name: getattr(workload, column.name)
        for column in fields(workload)
        if column.name not in ANEW
    }
    first_s, start = float(submit_s.min()), workload.start_unix_s
    return Workload.from_arrays(
        submit_s=submit_s - first_s,
        start_unix_s=None if start is None else start + first_s,
        notes=(*workload.notes, note),
        unsorted="sort",
        **rest,
    )


_GPU = DEMANDS.index("mgpu")


def inflate_workload(
    workload: Workload, cluster: ClusterSpec, *, load: float = 1.3, seed: int = 0
) -> Workload:
    """Draw jobs from a workload until they request the share `load` of a cluster's GPUs.

    All jobs end at the same time, twice as late as the last submission, so that nothing is
    released before.

    Args:
        workload: jobs with tasks, some of which request GPUs.
        cluster: cluster with GPUs.
        load: least share of the GPUs that the jobs request together; above 0.
        seed: seed of the draw.

    Raises:
        WorkloadError: no job requests a GPU, the cluster has none, or the load is invalid.
    """
    most = checked_number("load", load, 0.0) * float(capacity_of(cluster)[:, _GPU].sum())
    tasks = workload.tasks
    if tasks is None or not tasks.mgpu.any() or not most:
        raise WorkloadError(
            f"'{workload.name}' cannot fill the GPUs of the cluster: its tasks request none, or "
            "there are none; use pods and machines with GPUs, and a load above 0."
        )
    job_mgpu = np.bincount(tasks.job, weights=tasks.mgpu * tasks.instances).astype(np.int64)
    rng = RandomStreams(seed).of("inflation")
    rows = np.zeros(0, dtype=np.int64)
    while job_mgpu[rows].sum() < most:
        n_more = max(int(1.1 * (most - job_mgpu[rows].sum()) / job_mgpu.mean()), 100)
        if len(rows) + n_more > MOST_JOBS:
            raise WorkloadError(
                f"load is {load:g}, which needs more than {MOST_JOBS:,} jobs; give a smaller one."
            )
        rows = np.concatenate([rows, rng.integers(0, workload.n_jobs, n_more)])
    rows = rows[: int(np.searchsorted(np.cumsum(job_mgpu[rows]), most)) + 1]
    submit_s = np.arange(len(rows), dtype=np.float64)
    runtime_s = 2.0 * len(rows) - submit_s
    theirs = tasks.ordered(rows)
    sentence = f"drawn with replacement until they request {load:.0%} of the GPUs; none ends."
    return Workload.from_arrays(
        submit_s=submit_s,
        runtime_s=runtime_s,
        procs=workload.procs[rows],
        mem_bytes_per_proc=workload.mem_bytes_per_proc[rows],
        name=f"{workload.name}, inflated to {load:.0%}",
        notes=[ReadingNote("inflated", len(rows), sentence)],
        tasks=replace(
            theirs,
            runtime_s=read_only_copy(runtime_s[theirs.job]),
            parent_task=theirs.parent_task[:0],
            first_parent=read_only_copy(np.zeros(theirs.n_tasks + 1, dtype=np.int64)),
            work=None,
        ),
    )
