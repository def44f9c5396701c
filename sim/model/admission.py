"""Admission of jobs to partitions or machines, and the job data that the scheduler gets.

Tasks with equal requests form one *need*. GPUs are single devices: an instance that needs less than
1,000 thousandths takes them of one device, which others may share; others take whole devices.

The speed of an instance follows the formulas in the public source of Joulie's simulator; c and g
are the speeds of processors and GPUs of its machine, as shares of full speed:

    CPU units per second  cores x u x rate x (1 - s w b (1 - c)),
                          b = 0.60 U + 0.25 (1 - M) + 0.15 (1 - I)
    GPU units per second  GPUs x u' x rate x (1 - s' w' (1 - g)) x (1 - s F (1 - c))

U, M, I, F are CPU utilisation, memory, IO and CPU feed intensity of its profile, s and s' its
sensitivities, w and w' the weights of its classes (`CLASS_WEIGHTS`, which are ours). u and u' are
its utilisations, at least 0.1, with which units were counted, so that its run time is the original
one without throttling; in Joulie's own simulator they are 1. It ends when the units of both are
done. Without units it computes for its run time at full speed, with c, or with g if it has a GPU.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sim.model.cluster import UNLIMITED, ClusterSpec, MachineSpec, Partition
from sim.model.columns import read_only_copy, read_only_view
from sim.model.errors import ScenarioError
from sim.model.result import SimulationResult
from sim.model.scenario import Scenario
from sim.model.tasks import DEMANDS, SIGNALS, Tasks, TaskWork
from sim.model.units import format_duration, format_size
from sim.model.workload import UNKNOWN, Workload

NOWHERE = -1


@dataclass(frozen=True, eq=False)
class Admission:
    """Read-only columns [n_jobs] of the jobs as the scheduler receives them after routing.

    Attributes:
        partition: int64, index of the partition; -1 for a rejected job.
        place: int64, index of the partition whose processors the job takes: another one if
            `partition` is a queue on those; -1 for a rejected job.
        procs: int64, processors, after clipping.
        runtime_s: float64, seconds for which the job holds its resources: its run time after
            clipping and killing, and the cleanup after that.
        estimate_s: float64, seconds that the scheduler plans with, a boot of nodes included; below
            that and `runtime_s` only if `may_overrun`.
        requested_s: float64, the request after clipping.
        killed: bool, the run is cut at its request, or at the end of the grace period.
        demand: int64 [n_jobs, len(RESOURCES) - 1], need per processor of every resource except
            processors, as far as known; None if counted processors are allocated.
        may_overrun: whether some job may outlive its estimate.
        ran_s: float64, `runtime_s` without the cleanup.
    """

    partition: NDArray[np.int64]
    place: NDArray[np.int64]
    procs: NDArray[np.int64]
    runtime_s: NDArray[np.float64]
    estimate_s: NDArray[np.float64]
    requested_s: NDArray[np.float64]
    killed: NDArray[np.bool_]
    ran_s: NDArray[np.float64]
    demand: NDArray[np.int64] | None = None
    may_overrun: bool = False


def route(workload: Workload, cluster: ClusterSpec) -> NDArray[np.int64]:
    """Return the index of the first partition that admits each job, -1 if none: int64 [n_jobs]."""
    return _route(workload.procs, workload.requested_s, cluster)


def admit(scenario: Scenario) -> Admission:
    """Route each job to a partition and apply the settings `too_wide` and `overrun`.

    With whole nodes, a partition admits a job only if its machines with enough memory for the job
    have enough processors; with shared nodes, if all its machines together can hold the processes
    of the job. Unknown memory counts as none.

    Raises:
        ScenarioError: a job fits nowhere and `too_wide` is ``refuse``; or a job without known user
            is routed to a partition that limits the running jobs per user; or instances of tasks
            are placed.
    """
    if scenario.allocation == "instances":
        raise ScenarioError(
            "allocation is 'instances', which places tasks and admits no jobs; measure "
            "such a schedule with summarise_instances."
        )
    workload, cluster = scenario.workload, scenario.cluster
    procs, runtime_s = workload.procs, workload.runtime_s
    requested_s = workload.requested_s
    if scenario.too_wide == "clip":
        width = np.int64(cluster.widest_procs(cluster.widest))
        stretch = np.maximum(procs, width) / width
        procs = np.minimum(procs, width)
        runtime_s, requested_s = runtime_s * stretch, requested_s * stretch
    demand = None if scenario.allocation == "processors" else demands(workload)
    is_shared = scenario.allocation == "shared_nodes"
    partition = _route(procs, requested_s, cluster, demand, is_shared=is_shared)
    if scenario.too_wide != "reject" and (partition == NOWHERE).any():
        row = int(np.flatnonzero(partition == NOWHERE)[0])
        n_others = int((partition == NOWHERE).sum()) - 1
        raise ScenarioError(_no_partition_message(scenario, row, procs, requested_s, n_others))
    _check_users(scenario, partition)
    killed = np.zeros(workload.n_jobs, dtype=np.bool_)
    estimate_s = np.maximum(requested_s, runtime_s)
    if scenario.overrun == "kill":
        longest_s = requested_s + scenario.grace_s
        killed = (runtime_s > longest_s) & (partition != NOWHERE)
        runtime_s = np.minimum(runtime_s, longest_s)
    if scenario.overrun != "raise":
        estimate_s = requested_s
    ran_s = runtime_s
    if scenario.cleanup_s > 0:
        runtime_s, estimate_s = runtime_s + scenario.cleanup_s, estimate_s + scenario.cleanup_s
    longest_s = runtime_s
    if scenario.boot_s > 0:
        longest_s, estimate_s = scenario.boot_s + runtime_s, scenario.boot_s + estimate_s
    return Admission(
        partition=read_only_view(partition),
        place=read_only_view(_places(partition, cluster)),
        procs=read_only_view(procs),
        runtime_s=read_only_view(runtime_s),
        estimate_s=read_only_view(estimate_s),
        requested_s=read_only_view(requested_s),
        killed=read_only_view(killed),
        demand=demand,
        may_overrun=bool((longest_s > estimate_s).any()),
        ran_s=read_only_view(ran_s),
    )


def admit_as_ran(scenario: Scenario, result: SimulationResult) -> Admission:
    """Return the admission of a simulated scenario with the processors on which each job ran.

    Run times, estimates and requests of moldable jobs are those on these processors.
    """
    admission = admit(scenario)
    if scenario.moldable is None or result.procs is None:
        return admission
    stretch = scenario.moldable.stretch(admission.procs, result.procs)
    return replace(
        admission,
        procs=result.procs,
        runtime_s=read_only_copy(admission.runtime_s * stretch),
        estimate_s=read_only_copy(admission.estimate_s * stretch),
        requested_s=read_only_copy(admission.requested_s * stretch),
        ran_s=read_only_copy(admission.ran_s * stretch),
    )


def demands(workload: Workload) -> NDArray[np.int64]:
    """Return what each job needs per processor of every resource other than processors.

    int64 [n_jobs, len(RESOURCES) - 1]; unknown needs are 0.
    """
    mem_bytes = np.maximum(workload.mem_bytes_per_proc, 0).reshape(-1, 1)
    mem_bytes.setflags(write=False)
    return mem_bytes


def n_unknown_demands(scenario: Scenario) -> int:
    """Count jobs of unknown memory need; return 0 if no machine's memory is known."""
    if all(m.mem_bytes is None for part in scenario.cluster.partitions for m in part.machines):
        return 0
    return int((scenario.workload.mem_bytes_per_proc == UNKNOWN).sum())


def _places(partition: NDArray[np.int64], cluster: ClusterSpec) -> NDArray[np.int64]:
    """Return the index of the partition whose processors each job takes: int64 [n_jobs]."""
    if all(part.on is None for part in cluster.partitions):
        return partition
    return read_only_copy(np.where(partition == NOWHERE, NOWHERE, cluster.hosts()[partition]))


def _route(
    procs: NDArray[np.int64],
    requested_s: NDArray[np.float64],
    cluster: ClusterSpec,
    demand: NDArray[np.int64] | None = None,
    *,
    is_shared: bool = False,
) -> NDArray[np.int64]:
    partition_index = np.full(len(procs), NOWHERE, dtype=np.int64)
    for index in reversed(range(len(cluster.partitions))):
        partition = cluster.partitions[index]
        admitted = procs <= cluster.widest_procs(partition)
        if partition.max_requested_s is not None:
            admitted &= requested_s <= partition.max_requested_s
        if demand is not None and demand.any():
            holds = _most_processes if is_shared else _suitable_procs
            admitted &= procs <= holds(procs, demand, cluster.host(partition))
        partition_index[admitted] = index
    return partition_index


def _check_users(scenario: Scenario, partition: NDArray[np.int64]) -> None:
    workload = scenario.workload
    for k, part in enumerate(scenario.cluster.partitions):
        if part.running_per_user is None:
            continue
        unknown = np.flatnonzero((partition == k) & (workload.user == UNKNOWN))
        if len(unknown):
            raise ScenarioError(
                f"job {workload.job_id[unknown[0]]} of '{workload.name}' has no known user, "
                f"and partition '{part.name}' limits the jobs of each user ({len(unknown):,} such "
                f"job{'' if len(unknown) == 1 else 's'}); use a log with users, or leave out "
                "running_per_user."
            )


def _suitable_procs(
    procs: NDArray[np.int64], demand: NDArray[np.int64], partition: Partition
) -> NDArray[np.int64]:
    """Return the processors of the machines of a partition that suit each job: int64 [n_jobs].

    A job has one process per processor of a machine, up to its number of processors; each process
    needs the demand of the job.
    """
    suitable_procs = np.zeros(len(procs), dtype=np.int64)
    for machine in partition.machines:
        n_processes = np.minimum(procs, machine.procs)
        share = np.array(machine.capacity[1:], dtype=np.int64) // n_processes[:, None]
        suitable_procs[(demand <= share).all(axis=1)] += machine.procs * machine.count
    return suitable_procs


def _most_processes(
    procs: NDArray[np.int64], demand: NDArray[np.int64], partition: Partition
) -> NDArray[np.int64]:
    """Return the number of processes of each job that fit on idle machines: int64 [n_jobs].

    Each process needs one processor and the demand of the job.
    """
    n_processes = np.zeros(len(procs), dtype=np.int64)
    for machine in partition.machines:
        room = np.array(machine.capacity[1:], dtype=np.int64) // np.maximum(demand, 1)
        room[demand == 0] = machine.procs
        n_processes += np.minimum(machine.procs, room.min(axis=1)) * machine.count
    return n_processes


def _no_partition_message(
    scenario: Scenario,
    row: int,
    procs: NDArray[np.int64],
    requested_s: NDArray[np.float64],
    n_others: int,
) -> str:
    workload, cluster = scenario.workload, scenario.cluster
    job, width = int(workload.job_id[row]), int(workload.procs[row])
    more_jobs = f" (and {n_others} more jobs fit nowhere)" if n_others else ""
    widest, most = cluster.widest, cluster.widest_procs(cluster.widest)
    if scenario.too_wide == "refuse" and width > most:
        return (
            f"job {job} of '{workload.name}' needs {width} processors and the widest partition, "
            f"'{widest.name}', gives a job {most}{more_jobs}; make that partition "
            "wider, or choose too_wide='reject' or too_wide='clip'."
        )
    row_slice = slice(row, row + 1)
    if _route(procs[row_slice], requested_s[row_slice], cluster)[0] != NOWHERE:
        return (
            f"job {job} of '{workload.name}' needs {int(procs[row])} processors with "
            f"{format_size(int(workload.mem_bytes_per_proc[row]))} of memory each, and no "
            f"partition that admits it has machines with as much{more_jobs}; give them more "
            "memory, or choose too_wide='reject'."
        )
    request_text = format_duration(float(requested_s[row]))
    wide_enough = [p for p in cluster.partitions if cluster.widest_procs(p) >= min(width, most)]
    limits = ", ".join(_limit(partition) for partition in wide_enough)
    return (
        f"job {job} of '{workload.name}' ({width} processors) requests {request_text}, above the "
        f"time limit of every partition that is wide enough ({limits}){more_jobs}; raise "
        "max_requested_s there, or choose too_wide='reject'."
    )


def _limit(partition: Partition) -> str:
    return f"'{partition.name}': {format_duration(partition.max_requested_s)}"


CLASS_WEIGHTS: dict[str, float] = {
    "compute_bound": 1.0,
    "mixed": 0.75,
    "memory_bound": 0.5,
    "bandwidth_bound": 0.5,
    "io_bound": 0.25,
}
"""Sensitivity to throttling by the class after the dot in a class name; other classes have 1.

The values are ours."""

LEAST_UTILISATION = 0.1
"""Lower bound of the utilisation when units are counted, as in Joulie's generator."""

WHOLE_GPU = 1000


@dataclass(frozen=True, eq=False)
class PlacementProblem:
    """Resource needs of tasks and capacities of machines, as arrays for placing instances.

    Attributes:
        of_task: int64 [n_tasks], index of the need of each task.
        demand: int64 [n_needs, len(DEMANDS)].
        suits: int64 [n_needs, n_kinds], 1 if labels and GPUs of a kind of machines satisfy the
            need.
        machine_kind: int64 [n_machines].
        capacity: int64 [n_machines, len(DEMANDS)].
        takes_part: bool [n_jobs]; False for a job with an instance that is too large for every
            machine.
    """

    of_task: NDArray[np.int64]
    demand: NDArray[np.int64]
    suits: NDArray[np.int64]
    machine_kind: NDArray[np.int64]
    capacity: NDArray[np.int64]
    takes_part: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Pace:
    """Work and computing speed of one instance of each task, as columns of [n_tasks].

    Attributes:
        cpu_work, gpu_work: float64, units.
        cpu_rate: float64, units per second on a machine of full speed; `gpu_rate` likewise.
        cpu_feels, gpu_feels: float64, share of the slowdown of the processors that its CPU work
            feels, and of the slowdown of the GPUs that its GPU work feels, 0 to 1.
        feed: float64, share of the slowdown of the processors that its GPU work feels.
        cpu_unit_rate, gpu_unit_rate: units per second of a core, and of a GPU, of full speed.
    """

    cpu_work: NDArray[np.float64]
    gpu_work: NDArray[np.float64]
    cpu_rate: NDArray[np.float64]
    gpu_rate: NDArray[np.float64]
    cpu_feels: NDArray[np.float64]
    gpu_feels: NDArray[np.float64]
    feed: NDArray[np.float64]
    cpu_unit_rate: float = 1.0
    gpu_unit_rate: float = 1.0


def tasks_of(scenario: Scenario) -> Tasks:
    """Return a scenario's tasks; raise `ScenarioError` unless it allocates by instances."""
    tasks = scenario.workload.tasks
    if scenario.allocation != "instances" or tasks is None:
        raise ScenarioError(
            f"allocation is '{scenario.allocation}'; instances of tasks are placed with "
            "allocation='instances' only."
        )
    return tasks


def capacity_of(cluster: ClusterSpec) -> NDArray[np.int64]:
    """Return each machine's total resources: int64 [n_machines, len(DEMANDS)]."""
    rows = [_amounts(spec) for spec in _specs(cluster)]
    return np.array(rows, dtype=np.int64).reshape(-1, len(DEMANDS))


def placement_problem(scenario: Scenario) -> PlacementProblem:
    """Return what each task of a scenario needs, and which machines suit that need.

    Raises:
        ScenarioError: more than one GPU and not a whole number of them; or a job that no machine
            can hold and `too_wide` is ``refuse``; or gangs that would wait for themselves.
    """
    tasks, cluster = tasks_of(scenario), scenario.cluster
    _check_gpus(tasks)
    _check_gangs(scenario, tasks)
    rows = np.column_stack([tasks.demands, tasks.demand, tasks.gpu_resource])
    rows[tasks.mgpu == 0, -1] = -1
    need_rows, of_task = _same_rows(rows)
    specs = _specs(cluster)
    kinds = {(tuple(sorted(spec.labels.items())), spec.gpu_resource): 0 for spec in specs}
    kinds = {kind: number for number, kind in enumerate(kinds)}
    machine_kind = np.array(
        [kinds[tuple(sorted(spec.labels.items())), spec.gpu_resource] for spec in specs],
        dtype=np.int64,
    )
    constraint_rows, of_need = _same_rows(need_rows[:, len(DEMANDS) :])
    suits = np.array(
        [[_suits(tasks, row, kind) for kind in kinds] for row in constraint_rows.tolist()]
    )
    suits = suits[of_need]
    demand, capacity = need_rows[:, : len(DEMANDS)], capacity_of(cluster)
    holds = np.zeros(len(need_rows), dtype=np.bool_)
    for *amounts, kind in _same_rows(np.column_stack([capacity, machine_kind]))[0].tolist():
        holds |= (demand <= np.array(amounts)).all(axis=1) & (suits[:, kind] == 1)
    takes_part = np.ones(scenario.workload.n_jobs, dtype=np.bool_)
    takes_part[tasks.job[~holds[of_task]]] = False
    if scenario.too_wide != "reject" and not takes_part.all():
        raise ScenarioError(_no_machine_message(scenario, tasks, int(np.argmin(holds[of_task]))))
    return PlacementProblem(of_task, demand, suits, machine_kind, capacity, takes_part)


def pace_of(tasks: Tasks, *, by_utilisation: bool, cpu_rate: float, gpu_rate: float) -> Pace:
    """Return the CPU and GPU work and the speeds of one instance of each task.

    Args:
        tasks: tasks, with units or without.
        by_utilisation: units are done at the rate of the task's utilisation, as they were counted.
        cpu_rate: units per second of a core of full speed.
        gpu_rate: units per second of a GPU of full speed.

    Raises:
        ScenarioError: units for processors or GPUs that a task does not request.
    """
    n, work = tasks.n_tasks, tasks.work
    none, ones = np.zeros(n), np.ones(n)
    if work is None:
        has_gpu = tasks.mgpu > 0
        cpu_work = np.where(has_gpu, 0.0, tasks.runtime_s)
        gpu_work = np.where(has_gpu, tasks.runtime_s, 0.0)
        return Pace(cpu_work, gpu_work, ones, ones, ones, ones, none)
    _check_units(tasks, work)
    signal = dict(zip(SIGNALS, work.profile.T, strict=True))
    used, gpu_used = ones, ones
    if by_utilisation:
        used = np.maximum(signal["cpu_utilisation"], LEAST_UTILISATION)
        gpu_used = np.maximum(signal["gpu_utilisation"], LEAST_UTILISATION)
    impact = (
        0.60 * signal["cpu_utilisation"]
        + 0.25 * (1.0 - signal["memory_intensity"])
        + 0.15 * (1.0 - signal["io_intensity"])
    )
    cpu_speed = tasks.mcpu / 1000.0 * used * cpu_rate
    gpu_speed = tasks.mgpu / 1000.0 * gpu_used * gpu_rate
    return Pace(
        cpu_work=work.cpu_units,
        gpu_work=work.gpu_units,
        cpu_rate=np.where(work.cpu_units > 0, cpu_speed, 1.0),
        gpu_rate=np.where(work.gpu_units > 0, gpu_speed, 1.0),
        cpu_feels=np.minimum(
            work.cpu_sensitivity * _weights(work.classes, work.cpu_class) * impact, 1.0
        ),
        gpu_feels=work.gpu_sensitivity * _weights(work.classes, work.gpu_class),
        feed=work.cpu_sensitivity * signal["cpu_feed_intensity"],
        cpu_unit_rate=cpu_rate,
        gpu_unit_rate=gpu_rate,
    )


def _same_rows(rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the distinct rows of a table, and the index of the distinct row of each row.

    Ten times as fast as `numpy.unique` along an axis, which sorts rows.
    """
    of_row = np.zeros(len(rows), dtype=np.int64)
    for column in rows.T:
        values, of_value = np.unique(column, return_inverse=True)
        of_row = np.unique(of_row * len(values) + of_value, return_inverse=True)[1]
    firsts = np.unique(of_row, return_index=True)[1]
    return rows[firsts], of_row.astype(np.int64)


def _weights(classes: tuple[str, ...], of_task: NDArray[np.int64]) -> NDArray[np.float64]:
    weights = [CLASS_WEIGHTS.get(name.rpartition(".")[2], 1.0) for name in classes]
    return np.array([*weights, 1.0])[of_task]  # the last is for -1


def _specs(cluster: ClusterSpec) -> list[MachineSpec]:
    """Return the specification of each machine."""
    return [
        spec for part in cluster.partitions for spec in part.machines for _ in range(spec.count)
    ]


def _amounts(spec: MachineSpec) -> tuple[int, ...]:
    return (
        spec.procs * 1000,
        UNLIMITED if spec.mem_bytes is None else spec.mem_bytes,
        UNLIMITED if spec.disk_bytes is None else spec.disk_bytes,
        spec.gpus * WHOLE_GPU,
    )


def _suits(tasks: Tasks, row: list[int], kind: tuple[tuple[tuple[str, str], ...], str]) -> int:
    labels, gpu_resource = dict(kind[0]), kind[1]
    if row[-1] >= 0 and tasks.gpu_resources[row[-1]] != gpu_resource:
        return 0
    terms = tasks.affinities[row[-2]] if row[-2] >= 0 else ()
    return int(all(term.allows(labels) for term in terms))


def _check_gpus(tasks: Tasks) -> None:
    odd = (tasks.mgpu > WHOLE_GPU) & (tasks.mgpu % WHOLE_GPU != 0)
    if odd.any():
        row = int(np.flatnonzero(odd)[0])
        raise ScenarioError(
            f"task {row} asks for {tasks.mgpu[row]} thousandths of a GPU; allowed are up to 1,000, "
            "of one device, or multiples of 1,000, for whole devices."
        )


def _check_gangs(scenario: Scenario, tasks: Tasks) -> None:
    """Raise an error if a task of a gang depends on other tasks of it, which wait for it."""
    if not len(tasks.parent_task) or not tasks.gang.any():
        return
    after = np.zeros(tasks.n_tasks, dtype=np.bool_)
    child = np.repeat(np.arange(tasks.n_tasks), np.diff(tasks.first_parent))
    n_known = -1
    while after.sum() != n_known:
        n_known = int(after.sum())
        comes_after = after[tasks.parent_task] | (tasks.gang[tasks.parent_task] == 1)
        after[child[comes_after]] = True
    stuck = after & (tasks.gang == 1)
    if stuck.any():
        row = int(np.flatnonzero(stuck)[0])
        raise ScenarioError(
            f"task {row} of the gang of job {scenario.workload.job_id[tasks.job[row]]} "
            "comes after another task of the gang; tasks of a gang cannot be parents of each "
            "other."
        )


def _check_units(tasks: Tasks, work: TaskWork) -> None:
    for units, requested, device in (
        (work.cpu_units, tasks.mcpu, "processors"),
        (work.gpu_units, tasks.mgpu, "GPUs"),
    ):
        idle = (units > 0) & (requested == 0)
        if idle.any():
            row = int(np.flatnonzero(idle)[0])
            raise ScenarioError(
                f"task {row} has {units[row]:g} units for {device} but requests none; give it "
                "some, or no units."
            )


def _no_machine_message(scenario: Scenario, tasks: Tasks, row: int) -> str:
    job = int(scenario.workload.job_id[tasks.job[row]])
    wants = ", ".join(
        f"{amount:,} {name}" for name in DEMANDS if (amount := int(getattr(tasks, name)[row]))
    )
    of_gpu = int(tasks.gpu_resource[row])
    kind = f" of '{tasks.gpu_resources[of_gpu]}'" if of_gpu >= 0 and tasks.mgpu[row] else ""
    demand = int(tasks.demand[row])
    terms = tasks.affinities[demand] if demand >= 0 else ()
    labels = f", labels {' and '.join(f'{t.key} {t.operator}' for t in terms)}" if terms else ""
    return (
        f"job {job}: no machine can hold an instance of its task {row}, which needs "
        f"{wants or 'nothing'}{kind}{labels}; change the machines, or choose too_wide='reject'."
    )
