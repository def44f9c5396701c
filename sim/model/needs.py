"""What the instances of tasks need of machines, and at which speed they compute there.

Tasks that need the same, of machines of the same kind, have one *need*: what has no room for one
of them has none for another. A machine has thousandths of cores, bytes of memory and of disk,
which are not handed out beyond what there is, and GPUs, which are single devices: an instance that
asks for less than 1,000 thousandths takes them of one device, which others may share, and one that
asks for more takes whole devices.

The speed of an instance (formulas only, from the public source of Joulie's simulator: the weights
0.60, 0.25 and 0.15 and the feed of GPUs; c and g are the shares of full speed at which processors
and GPUs of its machine run):

    CPU units per second  cores x u x rate x (1 - s w b (1 - c)),
                          b = 0.60 U + 0.25 (1 - M) + 0.15 (1 - I)
    GPU units per second  GPUs x u' x rate x (1 - s' w' (1 - g)) x (1 - s F (1 - c))

U, M, I, F are CPU utilisation, memory, IO and CPU feed intensity of its profile, s and s' its
sensitivities, w and w' the weights of its classes (`CLASS_WEIGHTS`, which are ours). u and u' are
its utilisations, 0.1 at least, with which units were counted, so that it runs as long as it was to
where nothing is throttled; in Joulie's own simulator they are 1. It ends when the units of both are
done. Without units it computes for its run time at full speed, with c, or with g if it has a GPU.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim.errors import ScenarioError
from sim.model.cluster import UNLIMITED, ClusterSpec, MachineSpec
from sim.model.scenario import Scenario
from sim.model.tasks import DEMANDS, SIGNALS, Tasks, Work

CLASS_WEIGHTS: dict[str, float] = {
    "compute_bound": 1.0,
    "mixed": 0.75,
    "memory_bound": 0.5,
    "bandwidth_bound": 0.5,
    "io_bound": 0.25,
}
"""How much of a throttling a class feels, by what follows the dot in its name; others feel all.

The values are ours."""

LEAST_UTILISATION = 0.1
"""As in Joulie's generator, which counts no fewer units."""

WHOLE_GPU = 1000
"""Thousandths of a GPU."""


@dataclass(frozen=True, eq=False)
class Needs:
    """Tasks and machines as placing sees them.

    Attributes:
        of_task: int64 [n_tasks], index of its need.
        demand: int64 [n_needs, len(DEMANDS)].
        suits: int64 [n_needs, n_kinds], 1 if labels and GPUs of a kind of machines are as demanded.
        machine_kind: int64 [n_machines].
        capacity: int64 [n_machines, len(DEMANDS)].
        takes_part: bool [n_jobs]; a job that has an instance for which no machine is large enough
            takes no part.
    """

    of_task: NDArray[np.int64]
    demand: NDArray[np.int64]
    suits: NDArray[np.int64]
    machine_kind: NDArray[np.int64]
    capacity: NDArray[np.int64]
    takes_part: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Pace:
    """Work and speed of an instance of each task. Columns have shape [n_tasks].

    Attributes:
        cpu_work: float64, units; `gpu_work` likewise.
        cpu_rate: float64, units per second on a machine of full speed; `gpu_rate` likewise.
        cpu_feels: float64, by how much of what the processors of its machine lack its CPU work
            slows down, 0 to 1.
        gpu_feels: float64, by how much of what the GPUs lack its GPU work does.
        feed: float64, by how much of what the processors lack its GPU work does.
        cpu_unit_rate: units that a core of full speed does per second.
        gpu_unit_rate: units that a GPU does.
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
    """Return the tasks of a scenario that places instances.

    Raises:
        ScenarioError: it does not.
    """
    tasks = scenario.workload.tasks
    if scenario.allocation != "instances" or tasks is None:
        raise ScenarioError(
            f"allocation is '{scenario.allocation}'; instances of tasks are placed with "
            "allocation='instances' only."
        )
    return tasks


def capacity_of(cluster: ClusterSpec) -> NDArray[np.int64]:
    """Return what each machine has: int64 [n_machines, len(DEMANDS)]."""
    rows = [_amounts(spec) for spec in _specs(cluster)]
    return np.array(rows, dtype=np.int64).reshape(-1, len(DEMANDS))


def needs_of(scenario: Scenario) -> Needs:
    """Return what the tasks of a scenario need, and which machines will do.

    Raises:
        ScenarioError: more than one GPU and not a whole number of them; or a job that no machine
            can hold, and `too_wide` does not say what to do with it; or gangs that would wait for
            themselves.
    """
    tasks, cluster = tasks_of(scenario), scenario.cluster
    _check_gpus(tasks)
    _check_gangs(scenario, tasks)
    rows = np.column_stack([tasks.demands, tasks.demand, tasks.gpu_resource])
    rows[tasks.mgpu == 0, -1] = -1
    found, of_task = _same_rows(rows)
    specs = _specs(cluster)
    kinds = {(tuple(sorted(spec.labels.items())), spec.gpu_resource): 0 for spec in specs}
    kinds = {kind: number for number, kind in enumerate(kinds)}
    machine_kind = np.array(
        [kinds[tuple(sorted(spec.labels.items())), spec.gpu_resource] for spec in specs],
        dtype=np.int64,
    )
    asked, of_need = _same_rows(found[:, len(DEMANDS) :])
    suits = np.array([[_suits(tasks, row, kind) for kind in kinds] for row in asked.tolist()])
    suits = suits[of_need]
    demand, capacity = found[:, : len(DEMANDS)], capacity_of(cluster)
    holds = np.zeros(len(found), dtype=np.bool_)
    for *amounts, kind in _same_rows(np.column_stack([capacity, machine_kind]))[0].tolist():
        holds |= (demand <= np.array(amounts)).all(axis=1) & (suits[:, kind] == 1)
    takes_part = np.ones(scenario.workload.n_jobs, dtype=np.bool_)
    takes_part[tasks.job[~holds[of_task]]] = False
    if scenario.too_wide != "reject" and not takes_part.all():
        raise ScenarioError(_why_nowhere(scenario, tasks, int(np.argmin(holds[of_task]))))
    return Needs(of_task, demand, suits, machine_kind, capacity, takes_part)


def pace_of(tasks: Tasks, *, by_utilisation: bool, cpu_rate: float, gpu_rate: float) -> Pace:
    """Return work and speed of an instance of each task; see the head of this module.

    Args:
        tasks: with units or without.
        by_utilisation: units are done as fast as its utilisation says, as they were counted.
        cpu_rate: units that a core of full speed does per second.
        gpu_rate: units that a GPU does.

    Raises:
        ScenarioError: units for processors or GPUs that a task does not ask for.
    """
    n, work = tasks.n_tasks, tasks.work
    none, one = np.zeros(n), np.ones(n)
    if work is None:
        has_gpu = tasks.mgpu > 0
        cpu_work = np.where(has_gpu, 0.0, tasks.runtime_s)
        gpu_work = np.where(has_gpu, tasks.runtime_s, 0.0)
        return Pace(cpu_work, gpu_work, one, one, one, one, none)
    _check_units(tasks, work)
    signal = dict(zip(SIGNALS, work.profile.T, strict=True))
    used, gpu_used = one, one
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
    """Return the different rows of a table, and for each row which of them it is.

    As `numpy.unique` along an axis does, which sorts rows and takes ten times as long.
    """
    of_row = np.zeros(len(rows), dtype=np.int64)
    for column in rows.T:
        values, of_value = np.unique(column, return_inverse=True)
        of_row = np.unique(of_row * len(values) + of_value, return_inverse=True)[1]
    firsts = np.unique(of_row, return_index=True)[1]
    return rows[firsts], of_row.astype(np.int64)


def _weights(classes: tuple[str, ...], of_task: NDArray[np.int64]) -> NDArray[np.float64]:
    known = [CLASS_WEIGHTS.get(name.rpartition(".")[2], 1.0) for name in classes]
    return np.array([*known, 1.0])[of_task]  # the last is for -1


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
            "of one device, or a multiple of 1,000, whole devices."
        )


def _check_gangs(scenario: Scenario, tasks: Tasks) -> None:
    """Refuse tasks of a gang that come after others of it, which wait for them."""
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
            f"task {row} is of the gang of job {scenario.workload.job_id[tasks.job[row]]} and "
            "comes after another task of it, which waits for the whole gang; tasks of a gang "
            "cannot be parents of each other."
        )


def _check_units(tasks: Tasks, work: Work) -> None:
    for units, asked, what in (
        (work.cpu_units, tasks.mcpu, "processors"),
        (work.gpu_units, tasks.mgpu, "GPUs"),
    ):
        idle = (units > 0) & (asked == 0)
        if idle.any():
            row = int(np.flatnonzero(idle)[0])
            raise ScenarioError(
                f"task {row} has {units[row]:g} units for {what} and asks for none; give it some, "
                "or no units."
            )


def _why_nowhere(scenario: Scenario, tasks: Tasks, row: int) -> str:
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
