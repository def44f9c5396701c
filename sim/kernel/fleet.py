"""The state `fleet`: machines, and the tasks whose instances are placed on them.

Tasks of the same *need* request the same resources, so a result for one holds for all
(`sim.model.admission`). Waiting tasks of a need are a heap by rank: while the first has no room, no
other has; the queue is all waiting tasks by rank. An instance is *placed* on a machine, *begins* to
compute at once or when all its gang is placed, and *ends*.

All resources are whole numbers in flat columns of four: thousandths of cores, bytes of memory,
bytes of disk, thousandths of GPUs. GPUs are single devices too: machine i has those from
`first_device` on. Where speeds can change, a computing instance records its remaining work and its
speed, and each machine lists its instances; otherwise its end is known when it begins. `Gauges`
holds the input of placement rules.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sim.kernel.records import rows

NO_CLASS = -1

SHARE = 0
"""The class of GPUs of a need that takes a part of one; each number of whole ones is a class."""


class Gauges(NamedTuple):
    """Quantities from which placement rules compute the scores of machines.

    Attributes:
        options: float64 [...], option values of the placement rule, in declared order.
        capacity: int64 [n_machines * AMOUNTS], 0 for a missing or unlimited resource.
        largest, total: float64 [AMOUNTS], maximum and sum of these over the machines.
        class_of: int64 [n_needs], class of GPUs of a need; -1 is none. Empty if unused.
        n_of_class: int64 [n_machines * n_classes], instances on a machine by class.
        typical, popular: int64 [n_typical], needs for whose instances room should be kept, and the
            number of such instances.
        cached_scores: float64 [n_needs * n_machines], earlier scores; empty if none are cached.
        kept_at: int64 [n_needs * n_machines], the `Host.version` of each; -1 is none.
        score, pile: float64 and int64 [n_machines], scores and machines that have room for the
            current need.
        group_of: int64 [n_jobs], user or job whose usage includes the job; empty if unused.
        group_usage: int64 [n_groups * AMOUNTS], resources that each of them holds.
        runtime_s: float64 [n_tasks], seconds that an instance takes at full speed.
    """

    options: list[float]
    capacity: list[int]
    largest: list[float]
    total: list[float]
    class_of: list[int]
    n_of_class: list[int]
    typical: list[int]
    popular: list[int]
    cached_scores: list[float]
    kept_at: list[int]
    score: list[float]
    pile: list[int]
    group_of: list[int]
    group_usage: list[int]
    runtime_s: list[float]


class GaugeSettings(NamedTuple):
    """Settings, as arrays, from which `new_gauges` builds the input of placement rules.

    Attributes:
        limited: bool [n_machines, AMOUNTS], whether the resource of a machine is a limit.
        typical: int64 [n_typical], see `Gauges`; `popular` likewise.
        keeps: whether scores are cached.
        group_of: int64 [n_jobs] or [0], see `Gauges`.
        draws: two int64 from 1, seed of the random numbers.
    """

    options: NDArray[np.float64]
    limited: NDArray[np.bool_]
    classes: bool
    typical: NDArray[np.int64]
    popular: NDArray[np.int64]
    keeps: bool
    group_of: NDArray[np.int64]
    runtime_s: NDArray[np.float64]
    draws: tuple[int, int]


def gpu_classes(mgpu: NDArray[np.int64], mgpu_per_device: int) -> tuple[NDArray[np.int64], int]:
    """Return the GPU class of each resource request by its number of GPUs, and the class count."""
    amount = np.where(mgpu < mgpu_per_device, SHARE, mgpu // mgpu_per_device)
    classes, of_need = np.unique(np.concatenate([[SHARE], amount]), return_inverse=True)
    return np.where(mgpu == 0, NO_CLASS, of_need[1:]).astype(np.int64), len(classes)


def new_gauges(
    settings: GaugeSettings,
    capacity: NDArray[np.int64],
    demand: NDArray[np.int64],
    mgpu_per_device: int,
) -> tuple[Gauges, int]:
    """Return the initial input of placement rules, and the number of GPU classes.

    Args:
        settings: settings of the gauges.
        capacity: int64 [n_machines, AMOUNTS].
        demand: int64 [n_needs, AMOUNTS].
        mgpu_per_device: thousandths of a GPU.
    """
    n_machines, n_needs, n_amounts = len(capacity), len(demand), capacity.shape[1]
    limits = np.where(settings.limited, capacity, 0)
    none = np.zeros(0, dtype=np.int64)
    class_of, n_classes = gpu_classes(demand[:, -1], mgpu_per_device)
    n_kept = n_needs * n_machines if settings.keeps else 0
    n_groups = int(settings.group_of.max()) + 1 if len(settings.group_of) else 0
    columns: list[Any] = [
        settings.options,
        limits.flatten(),
        limits.max(axis=0).astype(np.float64),
        limits.sum(axis=0).astype(np.float64),
        class_of if settings.classes else none,
        np.zeros(n_machines * n_classes if settings.classes else 0, dtype=np.int64),
        settings.typical,
        settings.popular,
        np.zeros(n_kept),
        np.full(n_kept, -1),
        np.zeros(n_machines),
        np.zeros(n_machines, dtype=np.int64),
        settings.group_of,
        np.zeros(n_groups * n_amounts, dtype=np.int64),
        settings.runtime_s,
    ]
    return Gauges(*columns), n_classes


AMOUNTS = 4

GPU = 3

WHOLE = 1000

NONE = -1

(
    DECISION, N_FREED, N_DIRTY, N_CHANGED, N_LIVE, N_FRESH, BLOCKED, N_ENDED, FOLLOWS, SHARES,
    AT_ONCE, N_KINDS, FROM, PICKED, PILE_NEED, PILE_DECISION, N_PILE, PILE_AT, DRAW_A, DRAW_B,
    N_CLASSES,
) = range(21)  # fmt: skip
"""Positions in `Fleet.cursor`.

In order: number of the decision; machines released since the last one, and machines whose speeds
must be checked; instances with a new end; needs with waiting tasks, and those of them that are not
examined yet; the task behind which none is examined, or -1; ended instances; 1 if speeds can
change, if instances share the processors of a machine evenly, and if a gang is placed at once or
not at all; kinds of machines; the first machine that can have room, from the placement rule; the
GPU that it picked, or -1; need and decision of the pile of machines, its size, and the slot of the
last choice; the state of the random numbers; classes of GPUs."""


class FleetTask:
    """State of a task: a group of identical instances that are placed one by one.

    Attributes:
        need: need of each instance.
        queued_as: need in the queue: its own, or that of its whole gang.
        placed, behind: its next instance to be placed, and the end of its instances.
        n_left, n_parents: its instances, and its parent tasks, that have not ended.
        is_gang: 1 if it belongs to the gang of its job.
        rank: place in the order.
        after: next task in the queue; `before` the previous one.
    """

    __slots__ = (
        "after", "before", "behind", "is_gang", "job", "n_left", "n_parents", "need", "placed",
        "queued_as", "rank",
    )  # fmt: skip
    job: int
    need: int
    queued_as: int
    placed: int
    behind: int
    n_left: int
    n_parents: int
    is_gang: int
    rank: int


class Gang:
    """State of a job, including its gang: the tasks that must start computing together.

    Attributes:
        first_task, behind_task: its first task, and the end of its tasks.
        n_unplaced: instances of its gang that are on no machine.
        n_unready: tasks of its gang that are not submitted or whose parents have not ended.
        leader: task that represents the whole gang in the queue, if it is placed at once; else -1.
    """

    __slots__ = ("behind_task", "first_task", "leader", "n_unplaced", "n_unready")
    first_task: int
    behind_task: int
    n_unplaced: int
    n_unready: int
    leader: int


class Need:
    """State of a distinct resource request that one or more tasks share.

    Attributes:
        first: begin of its waiting tasks in `Fleet.queue`.
        n_waiting: number of these.
        place: its slot in `Fleet.live`, while some wait.
        is_stuck: 1 if no machine had room in the last decision, and all later ones examined it.
        seen_at, start: number of a decision, and the machine before which none has room in it; -1
            if none has.
        is_gang: 1 if it is the total of a gang.
        n_unplaced: waiting instances of its tasks.
    """

    __slots__ = (
        "first", "is_gang", "is_stuck", "n_unplaced", "n_waiting", "place", "seen_at", "start",
    )  # fmt: skip
    first: int
    n_unplaced: int
    n_waiting: int
    place: int
    is_stuck: int
    seen_at: int
    start: int
    is_gang: int


class Host:
    """State of a machine in a fleet.

    Attributes:
        kind: its kind, as in `Fleet.suits`.
        first_device, behind_device: its first GPU, and the end of its GPUs.
        n_whole: its GPUs that are entirely free.
        freed_at: number of the decision before its last release of resources.
        n_computing, first: number of instances that compute on it (0 if speeds never change), and
            the first of these; -1 is none.
        is_dirty: 1 if their speeds may have to change.
        version: number of times that resources were taken or released.
        cpu_speed: speed of its processors as a share of full speed; `gpu_speed` likewise.
    """

    __slots__ = (
        "behind_device", "cpu_speed", "first", "first_device", "freed_at", "gpu_speed", "is_dirty",
        "kind", "n_computing", "n_whole", "version",
    )  # fmt: skip
    kind: int
    first_device: int
    behind_device: int
    n_whole: int
    freed_at: int
    n_computing: int
    first: int
    is_dirty: int
    version: int
    cpu_speed: float
    gpu_speed: float


class InstanceSpeed:
    """Work and computing speeds of one instance of a task, as a row of a table."""

    __slots__ = (
        "cpu_feels", "cpu_rate", "cpu_work", "feed", "gpu_feels", "gpu_rate", "gpu_work",
    )  # fmt: skip
    cpu_work: float
    gpu_work: float
    cpu_rate: float
    gpu_rate: float
    cpu_feels: float
    gpu_feels: float
    feed: float


class InstanceProgress:
    """Remaining work and present speed of an instance.

    Attributes:
        cpu_left, gpu_left: units at `since_s`.
        cpu_rate, gpu_rate: units per second since then, 0 before it begins.
        since_s: time of the last change of its speed.
        after: next instance that computes on the same machine; -1 is none; `before` the previous
            one.
    """

    __slots__ = ("after", "before", "cpu_left", "cpu_rate", "gpu_left", "gpu_rate", "since_s")
    cpu_left: float
    gpu_left: float
    cpu_rate: float
    gpu_rate: float
    since_s: float
    after: int
    before: int


class Fleet(NamedTuple):
    """Complete state of a simulation that places task instances on machines.

    Attributes:
        tasks: [n_tasks] rows of `FleetTask`.
        gangs: [n_jobs] rows of `Gang`.
        needs: [n_needs] rows of `Need`; behind those of tasks, one for each gang if gangs are
            placed at once.
        hosts: [n_machines] rows of `Host`.
        speeds: [n_tasks] rows of `InstanceSpeed`.
        progress: [n_instances] rows of `InstanceProgress`; none if speeds cannot change.
        free, devices: int64 [n_machines * AMOUNTS] and [n_gpus], free resources, and free
            thousandths of each GPU.
        demand: int64 [n_needs * AMOUNTS].
        suits: int64 [n_needs * n_kinds], 1 where machines of a kind satisfy the need.
        first_child, child: int64 [n_tasks + 1] and [...], where the children of each task begin,
            and the children.
        task_of: int64 [n_instances].
        machine: int64 [n_instances], -1 until it is placed.
        device: int64 [n_instances], the GPU of which it has a part, or the first of its whole ones;
            -1 is none.
        holder: int64 [n_gpus], instance that has it whole; -1 is none.
        start_s, begin_s, end_s: float64 [n_instances], times of placement, of the begin of
            computation, and of the end, which is known from the begin on; NaN until then.
        queue: int64 [n_tasks], waiting tasks, a heap for each need.
        live, fresh: int64 [n_needs], needs with waiting tasks, and those of them that are not
            examined yet.
        heads: int64 [n_needs], scratch heap of tasks for decisions.
        freed, dirty: int64 [n_machines], machines with a release since the last decision, and
            machines whose speeds must be checked.
        changed: int64 [n_instances], instances that have a new end.
        cursor: int64 [21], see `DECISION`.
        gauges: input of placement rules and orders.
    """

    tasks: Sequence[FleetTask]
    gangs: Sequence[Gang]
    needs: Sequence[Need]
    hosts: Sequence[Host]
    speeds: Sequence[InstanceSpeed]
    progress: Sequence[InstanceProgress]
    free: list[int]
    devices: list[int]
    demand: list[int]
    suits: list[int]
    first_child: list[int]
    child: list[int]
    task_of: list[int]
    machine: list[int]
    device: list[int]
    holder: list[int]
    start_s: list[float]
    begin_s: list[float]
    end_s: list[float]
    queue: list[int]
    live: list[int]
    fresh: list[int]
    heads: list[int]
    freed: list[int]
    dirty: list[int]
    changed: list[int]
    cursor: list[int]
    gauges: Gauges


class MachineTable(NamedTuple):
    """Properties of the machines of a fleet, as columns of [n_machines].

    Attributes:
        capacity: int64 [n_machines, AMOUNTS]; GPUs are whole ones.
        kind: int64.
        cpu_speed: float64, share of full speed; `gpu_speed` likewise.
    """

    capacity: NDArray[np.int64]
    kind: NDArray[np.int64]
    cpu_speed: NDArray[np.float64]
    gpu_speed: NDArray[np.float64]


class TaskTable(NamedTuple):
    """Properties of the tasks of a fleet, as columns of [n_tasks].

    Attributes:
        job: int64, non-decreasing, from 0 on.
        instances, need: int64.
        gang: int64, 1 if it belongs to the gang of its job.
        rank: int64, all different.
        first_parent, parent: int64 [n_tasks + 1] and [...], as `first_parent` and `parent_task` of
            `sim.model.tasks.Tasks`.
        demand: int64 [n_needs, AMOUNTS].
        suits: int64 [n_needs, n_kinds].
        speeds: float64 [n_tasks, 7], the fields of `InstanceSpeed` in their order.
    """

    job: NDArray[np.int64]
    instances: NDArray[np.int64]
    need: NDArray[np.int64]
    gang: NDArray[np.int64]
    rank: NDArray[np.int64]
    first_parent: NDArray[np.int64]
    parent: NDArray[np.int64]
    demand: NDArray[np.int64]
    suits: NDArray[np.int64]
    speeds: NDArray[np.float64]


def empty_fleet(
    plant: MachineTable, orders: TaskTable, settings: GaugeSettings, *,
    follows: bool = False, shares: bool = False, at_once: bool = False,
) -> Fleet:  # fmt: skip
    """Return the initial state of a fleet, before the first event, as arrays.

    Args:
        plant: machines.
        orders: tasks.
        settings: settings of the gauges.
        follows: whether speeds can change.
        shares: whether computing instances share the processors of a machine evenly, so that speeds
            change.
        at_once: whether all instances of a gang are placed in one decision or not at all.
    """
    n_tasks, n_instances = len(orders.job), int(orders.instances.sum())
    behind = np.cumsum(orders.instances)
    tasks = rows(FleetTask, n_tasks)
    tasks["job"], tasks["need"], tasks["is_gang"] = orders.job, orders.need, orders.gang
    tasks["queued_as"] = orders.need
    tasks["placed"], tasks["behind"] = behind - orders.instances, behind
    tasks["n_left"], tasks["rank"] = orders.instances, orders.rank
    tasks["n_parents"] = np.diff(orders.first_parent)
    n_jobs = int(orders.job[-1]) + 1
    gangs = rows(Gang, n_jobs)
    numbers = np.arange(n_jobs)
    gangs["first_task"] = np.searchsorted(orders.job, numbers, side="left")
    gangs["behind_task"] = np.searchsorted(orders.job, numbers, side="right")
    is_gang = orders.gang == 1
    np.add.at(gangs["n_unplaced"], orders.job[is_gang], orders.instances[is_gang])
    np.add.at(gangs["n_unready"], orders.job[is_gang], 1)
    gangs["leader"] = NONE
    n_needs = len(orders.demand)
    if at_once:
        leaders = np.flatnonzero(is_gang)
        jobs, firsts = np.unique(orders.job[leaders], return_index=True)
        gangs["leader"][jobs] = leaders[firsts]
        needs = rows(Need, n_needs + len(jobs))
        needs["is_gang"][n_needs:] = 1
        tasks["queued_as"][leaders[firsts]] = n_needs + np.arange(len(jobs))
    else:
        needs = rows(Need, n_needs)
    n_queued = np.bincount(tasks["queued_as"], minlength=len(needs))
    needs["first"] = np.cumsum(n_queued) - n_queued
    n_gpus = plant.capacity[:, GPU] // WHOLE
    hosts = rows(Host, len(plant.kind))
    hosts["kind"], hosts["n_whole"], hosts["first"] = plant.kind, n_gpus, NONE
    hosts["behind_device"] = np.cumsum(n_gpus)
    hosts["first_device"] = hosts["behind_device"] - n_gpus
    hosts["cpu_speed"], hosts["gpu_speed"] = plant.cpu_speed, plant.gpu_speed
    speeds = rows(InstanceSpeed, n_tasks)
    for name, column in zip(InstanceSpeed.__annotations__, orders.speeds.T, strict=True):
        speeds[name] = column
    child_of = np.repeat(np.arange(n_tasks), np.diff(orders.first_parent))
    by_parent = np.argsort(orders.parent, kind="stable")
    n_children = np.bincount(orders.parent, minlength=n_tasks)
    cursor = np.zeros(21, dtype=np.int64)
    cursor[FOLLOWS], cursor[SHARES], cursor[AT_ONCE] = follows or shares, shares, at_once
    cursor[BLOCKED] = NONE
    cursor[N_KINDS] = orders.suits.shape[1]
    cursor[PICKED] = cursor[PILE_NEED] = NONE
    cursor[DRAW_A], cursor[DRAW_B] = settings.draws
    gauges, cursor[N_CLASSES] = new_gauges(settings, plant.capacity, orders.demand, WHOLE)
    nowhere, never = np.full(n_instances, NONE), np.full(n_instances, np.nan)
    columns: list[Any] = [
        tasks,
        gangs,
        needs,
        hosts,
        speeds,
        rows(InstanceProgress, n_instances if follows or shares else 0),
        plant.capacity.flatten(),
        np.full(int(n_gpus.sum()), WHOLE),
        orders.demand.flatten(),
        orders.suits.flatten(),
        np.concatenate([[0], np.cumsum(n_children)]),
        child_of[by_parent],
        np.repeat(np.arange(n_tasks), orders.instances),
        nowhere,
        nowhere.copy(),
        np.full(int(n_gpus.sum()), NONE),
        never,
        never.copy(),
        never.copy(),
        np.zeros(n_tasks, dtype=np.int64),
        np.zeros(len(needs), dtype=np.int64),
        np.zeros(len(needs), dtype=np.int64),
        np.zeros(len(needs), dtype=np.int64),
        np.zeros(len(hosts), dtype=np.int64),
        np.zeros(len(hosts), dtype=np.int64),
        np.zeros(n_instances, dtype=np.int64),
        cursor,
        gauges,
    ]
    return Fleet(*columns)
