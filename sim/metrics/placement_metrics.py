"""Metrics of the placement of instances: how well machines were filled, and fragmented GPUs.

Notation: an instance is submitted with its job at s, placed at b and ends at e; it requests c of a
resource of which the machines have C. T is the last submission.

======================  ====================================================================
placed share            sum(c (e - b)) / sum(c (e - s)): share of the requests, over the time in
                        which they exist, that is on a machine; an instance that no machine can
                        hold is left out, and its job counts as rejected
placed at the end       the same at T, over the instances that have not ended
allocation at the end   resources on machines in use at T, as a share of C
slowdown                of a job: (end - submission) / t, t the time of its longest chain of
                        tasks at full speed; jobs that take no time are left out
bounded slowdown        max(1, (end - submission) / max(t, 10 s)) (Feitelson)
fragmentation           share of all GPUs that is free and of no use: the mean from the first
                        submission to the last end, and at T
overcommitted share     where machines offer more processors than they have: share of the
                        held ones that do not exist, sum over machines of max(0, held - real)
======================  ====================================================================

Fragmentation: Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with
Fragmentation Gradient Descent", USENIX ATC 2023, section 3. Instances of kind m are a share p_m of
the workload and request D_m of GPUs. Machine n has free parts R_ng of its GPUs g.

    F_n(m) = sum over g of R_ng                         if n has no room for it, or D_m = 0
    F_n(m) = sum over g of R_ng [R_ng < min(D_m, 1)]    otherwise
    F_n    = sum over m of p_m F_n(m),                  F = sum over n of F_n

Room includes memory, disk and labels (`sim.model.admission`). A task without GPUs counts all free
GPUs as fragments, as in the paper. Free resources are sums along the events of a machine.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim.metrics.schedule_metrics import TAU_S, Distribution, distribution
from sim.model.admission import (
    WHOLE_GPU,
    Pace,
    PlacementProblem,
    capacity_of,
    placement_problem,
    tasks_of,
)
from sim.model.cluster import UNLIMITED
from sim.model.errors import ScenarioError
from sim.model.result import Instances, SimulationResult
from sim.model.scenario import Scenario
from sim.model.tasks import DEMANDS, Tasks

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


MOST_KINDS = 256
"""Maximum of kinds of instances that represent the workload, the most frequent ones."""

ROWS_AT_ONCE = 200_000
_GPU = DEMANDS.index("mgpu")


@dataclass(frozen=True, eq=False)
class TargetWorkload:
    """Most frequent kinds of task instances of a workload, with their shares.

    Attributes:
        demand: int64 [n_kinds, len(DEMANDS)], resources of an instance.
        suits: bool [n_kinds, n_machine_kinds], whether labels and GPUs satisfy the demand.
        share: float64 [n_kinds], share of all instances; sums to 1.
    """

    demand: Ints
    suits: Bools
    share: Floats

    @classmethod
    def of(cls, scenario: Scenario) -> "TargetWorkload":
        """Return the `MOST_KINDS` most frequent kinds of instances of a scenario.

        Raises `ScenarioError` if it places no instances.
        """
        return _target(scenario, placement_problem(scenario))


@dataclass(frozen=True, eq=False)
class Fragmentation:
    """Numbers of free and fragmented GPUs as step functions of time.

    Attributes:
        time_s: float64 [n_steps], strictly increasing; the first is the first submission.
        free: float64 [n_steps], free GPUs.
        fragmented: float64 [n_steps], GPUs, expected over the workload.
        n_gpus: GPUs of all machines.
    """

    time_s: Floats
    free: Floats
    fragmented: Floats
    n_gpus: int

    def at(self, times_s: Floats) -> tuple[Floats, Floats]:
        """Return the numbers of free and of fragmented GPUs at the given times."""
        step = np.maximum(np.searchsorted(self.time_s, times_s, side="right") - 1, 0)
        return self.free[step], self.fragmented[step]

    def means(self) -> tuple[float, float]:
        """Return the time-averaged numbers of free and of fragmented GPUs."""
        lasts_s = np.diff(self.time_s)
        if not lasts_s.sum():
            return float(self.free[-1]), float(self.fragmented[-1])
        free, fragmented = (
            float((column[:-1] * lasts_s).sum() / lasts_s.sum())
            for column in (self.free, self.fragmented)
        )
        return free, fragmented


def fragmentation(
    scenario: Scenario, result: SimulationResult, target: TargetWorkload | None = None
) -> Fragmentation | None:
    """Compute the numbers of free and fragmented GPUs over time, or None without GPUs.

    Args:
        scenario: simulated scenario with allocation ``instances``.
        result: its result.
        target: typical instances; None is the workload of the scenario.

    Raises:
        ScenarioError: the result has no instances.
    """
    instances, needs = result.instances, placement_problem(scenario)
    if instances is None:
        raise ScenarioError("the result has no instances; simulate with allocation='instances'.")
    n_gpus = int(needs.capacity[:, _GPU].sum()) // WHOLE_GPU
    if not n_gpus:
        return None
    target_workload = _target(scenario, needs) if target is None else target
    first_s = float(scenario.workload.submit_s.min())
    times, frees, lost = [], [], []
    for events in _chunks(_events(scenario, needs, instances, first_s), ROWS_AT_ONCE):
        free, fragments = _measured(events, needs, target_workload)
        times.append(events.time_s)
        frees.append(_changes(free.astype(np.float64), events.begins))
        lost.append(_changes(fragments, events.begins))
    time_s = np.concatenate(times)
    order = np.argsort(time_s, kind="stable")
    time_s = time_s[order]
    last = np.append(np.flatnonzero(np.diff(time_s)), len(time_s) - 1)
    free, fragments = (np.cumsum(np.concatenate(c)[order])[last] / WHOLE_GPU for c in (frees, lost))
    return Fragmentation(time_s[last], free, np.maximum(fragments, 0.0), n_gpus)


@dataclass(frozen=True, eq=False)
class _Events:
    """Allocations and releases by machine and time; the first row of a machine changes nothing.

    Attributes:
        machine: int64 [n], non-decreasing.
        time_s: float64 [n].
        begins: bool [n], whether it is the first row of a machine.
        sign: int64 [n], 1 allocates and -1 releases; 0 at the beginning.
        demand: int64 [n, len(DEMANDS)].
        device: int64 [n], GPU with a changed part; -1 is none.
    """

    machine: Ints
    time_s: Floats
    begins: Bools
    sign: Ints
    demand: Ints
    device: Ints

    def part(self, rows: slice) -> "_Events":
        return _Events(
            self.machine[rows], self.time_s[rows], self.begins[rows], self.sign[rows],
            self.demand[rows], self.device[rows],
        )  # fmt: skip


def _target(scenario: Scenario, needs: PlacementProblem) -> TargetWorkload:
    instances = tasks_of(scenario).instances
    counts = np.bincount(needs.of_task, weights=instances, minlength=len(needs.demand))
    kinds = np.argsort(-counts, kind="stable")[:MOST_KINDS]
    kinds = kinds[counts[kinds] > 0]
    return TargetWorkload(
        needs.demand[kinds], needs.suits[kinds] == 1, counts[kinds] / counts[kinds].sum()
    )


def _events(
    scenario: Scenario, needs: PlacementProblem, placed: Instances, first_s: float
) -> _Events:
    """Return the events on machines with GPUs, without instances that take no time."""
    tasks = tasks_of(scenario)
    has_gpu = needs.capacity[:, _GPU] > 0
    rows = np.flatnonzero((placed.machine >= 0) & (placed.end_s > placed.start_s))
    rows = rows[has_gpu[placed.machine[rows]]]
    task = np.repeat(np.arange(tasks.n_tasks), tasks.instances)[rows]
    demand, machine, n = tasks.demands[task], placed.machine[rows], len(rows)
    is_part = (demand[:, _GPU] > 0) & (demand[:, _GPU] < WHOLE_GPU)
    device = np.where(is_part, placed.device[rows], -1)
    hosts = np.flatnonzero(has_gpu)
    none = np.zeros((len(hosts), len(DEMANDS)), dtype=np.int64)
    time_s = np.concatenate(
        [np.full(len(hosts), first_s), placed.start_s[rows], placed.end_s[rows]]
    )
    where = np.concatenate([hosts, machine, machine])
    sign = np.repeat([0, 1, -1], [len(hosts), n, n])
    order = np.lexsort((sign != 0, time_s, where))
    where = where[order]
    return _Events(
        machine=where,
        time_s=time_s[order],
        begins=np.diff(where, prepend=-1) != 0,
        sign=sign[order],
        demand=np.concatenate([none, demand, demand])[order],
        device=np.concatenate([np.full(len(hosts), -1), device, device])[order],
    )


def _chunks(events: _Events, at_once: int) -> Iterator[_Events]:
    """Yield the events in chunks of whole machines."""
    edges = [*np.flatnonzero(events.begins).tolist(), len(events.machine)]
    begin = 0
    for i, edge in enumerate(edges[1:], start=1):
        if edge - begin >= at_once or i == len(edges) - 1:
            yield events.part(slice(begin, edge))
            begin = edge


def _measured(
    events: _Events, needs: PlacementProblem, target: TargetWorkload
) -> tuple[Ints, Floats]:
    """Return free and fragmented thousandths of GPUs of its machine after each event."""
    capacity = needs.capacity[events.machine]
    free = capacity - _along(events.sign[:, None] * events.demand, events.begins)
    gpu_demand = np.minimum(target.demand[:, _GPU], WHOLE_GPU)
    sizes, of_kind = np.unique(gpu_demand, return_inverse=True)
    n_whole, fits, too_small = _devices(events, capacity[:, _GPU], sizes)
    all_free, kind = free[:, _GPU], needs.machine_kind[events.machine]
    fragments = np.zeros(len(all_free))
    for m, share in enumerate(target.share):
        demand, s = target.demand[m], of_kind[m]
        if demand[_GPU] == 0:
            fragments += share * all_free
            continue
        has_room = (free[:, :_GPU] >= demand[:_GPU]).all(axis=1) & target.suits[m, kind]
        if demand[_GPU] >= WHOLE_GPU:
            has_room &= n_whole * WHOLE_GPU >= demand[_GPU]
        else:
            has_room &= (n_whole > 0) | (fits[:, s] > 0)
        fragments += share * np.where(has_room, too_small[:, s], all_free)
    return all_free, fragments


def _devices(events: _Events, mgpu: Ints, sizes: Ints) -> tuple[Ints, Ints, Ints]:
    """Return the free parts of the single GPUs after each event.

    int64 [n], entirely free GPUs; int64 [n, n_sizes], number of other GPUs with at least each size
    free; int64 [n, n_sizes], free thousandths of those with less.
    """
    is_part = np.flatnonzero(events.device >= 0)
    taken = events.sign * np.where(events.device >= 0, 0, events.demand[:, _GPU])
    order = is_part[np.argsort(events.device[is_part], kind="stable")]
    device = events.device[order]
    load = events.sign[order] * events.demand[order, _GPU]
    now = WHOLE_GPU - _along(load[:, None], np.diff(device, prepend=-1) != 0)[:, 0]
    before = now + load
    n = len(events.sign)
    n_shared = np.zeros(n, dtype=np.int64)
    n_shared[order] = (now < WHOLE_GPU).astype(np.int64) - (before < WHOLE_GPU)
    fits, too_small = (np.zeros((n, len(sizes)), dtype=np.int64) for _ in range(2))
    fits[order] = _fitting(now, sizes).astype(np.int64) - _fitting(before, sizes)
    too_small[order] = _lacking(now, sizes) - _lacking(before, sizes)
    n_not_free = _along(np.column_stack([taken // WHOLE_GPU, n_shared]), events.begins).sum(axis=1)
    return (
        mgpu // WHOLE_GPU - n_not_free,
        _along(fits, events.begins),
        _along(too_small, events.begins),
    )


def _fitting(free: Ints, sizes: Ints) -> Bools:
    return (free[:, None] >= sizes) & (free[:, None] < WHOLE_GPU)


def _lacking(free: Ints, sizes: Ints) -> Ints:
    return np.where(free[:, None] < sizes, free[:, None], 0)


def _along(changes: Ints, begins: Bools) -> Ints:
    """Return cumulative sums of columns within each group of rows."""
    if not len(changes):
        return changes
    sums = np.cumsum(changes, axis=0)
    firsts = np.flatnonzero(begins)
    before = sums[firsts] - changes[firsts]
    return sums - np.repeat(before, np.diff(np.append(firsts, len(changes))), axis=0)


def _changes(values: Floats, begins: Bools) -> Floats:
    """Return the difference of each value from the previous one in its group."""
    return np.where(begins, values, np.diff(values, prepend=0.0))


RESOURCE_NAMES = {"mcpu": "cpu", "mem_bytes": "memory", "disk_bytes": "disk", "mgpu": "gpu"}


@dataclass(frozen=True)
class PlacementMetrics:
    """Metrics of how well task instances were placed on machines.

    Attributes:
        placed, placed_at_end: placed share of the requests, overall and at the last submission, by
            resource: cpu, memory, disk, gpu. A resource without requests is missing.
        allocation_at_end: allocated share at the last submission; a resource is missing if a
            machine has it without limit, or none has any.
        slowdown: of jobs, a ratio; `bounded_slowdown` likewise.
        fragmented, fragmented_at_end: share of all GPUs that is fragments, mean and at the last
            submission; None without GPUs.
        fragmented_of_free: fragments as a share of the free GPUs, at the last submission; None if
            none is free.
    """

    placed: dict[str, float]
    placed_at_end: dict[str, float]
    allocation_at_end: dict[str, float]
    slowdown: Distribution
    bounded_slowdown: Distribution
    fragmented: float | None
    fragmented_at_end: float | None
    fragmented_of_free: float | None

    def flat(self) -> dict[str, float]:
        """Return the metrics as a flat mapping by name, such as ``gpu_placed``.

        Unknown measures have no key.
        """
        measures: dict[str, float | None] = {}
        for statistic, shares in (
            ("placed", self.placed),
            ("placed_at_end", self.placed_at_end),
            ("allocation_at_end", self.allocation_at_end),
        ):
            measures |= {f"{name}_{statistic}": share for name, share in shares.items()}
        measures |= {
            "mean_slowdown": self.slowdown.mean,
            "mean_bounded_slowdown": self.bounded_slowdown.mean,
            "gpu_fragmented": self.fragmented,
            "gpu_fragmented_at_end": self.fragmented_at_end,
            "free_gpu_fragmented_at_end": self.fragmented_of_free,
        }
        return {name: float(value) for name, value in measures.items() if value is not None}


def placement_metrics(
    scenario: Scenario,
    result: SimulationResult,
    pace: Pace,
    target: TargetWorkload | None = None,
) -> PlacementMetrics:
    """Compute how well the task instances of a simulation were placed.

    Raises:
        ScenarioError: the result has no instances.
    """
    tasks, instances = tasks_of(scenario), _instances_of(result)
    submit_s = scenario.workload.submit_s
    last_s = float(submit_s.max())
    ran = ~np.isnan(instances.start_s)
    task = np.repeat(np.arange(tasks.n_tasks), tasks.instances)[ran]
    start_s, end_s = instances.start_s[ran], instances.end_s[ran]
    asked_s = end_s - submit_s[tasks.job[task]]
    demand = tasks.demands[task].astype(np.float64)
    asks_then = end_s > last_s
    is_on = asks_then & (start_s <= last_s)
    slowdown, bounded = _slowdowns(scenario, result, pace)
    capacity = capacity_of(scenario.cluster)
    limited = {
        r: float(capacity[:, r].sum())
        for r in range(len(DEMANDS))
        if capacity[:, r].any() and (capacity[:, r] < UNLIMITED).all()
    }
    held_then = demand[is_on].sum(axis=0)
    fragments = fragmentation(scenario, result, target)
    return PlacementMetrics(
        placed=_shares((demand * (end_s - start_s)[:, None]).sum(axis=0), asked_s @ demand),
        placed_at_end=_shares(held_then, demand[asks_then].sum(axis=0)),
        allocation_at_end={
            RESOURCE_NAMES[DEMANDS[r]]: float(held_then[r]) / most for r, most in limited.items()
        },
        slowdown=slowdown,
        bounded_slowdown=bounded,
        **_fragments(fragments, last_s),
    )


def overcommitted_share(scenario: Scenario, result: SimulationResult, real_mcpu: Ints) -> float:
    """Return the share of allocated cores that exceeds the machines' real cores.

    `real_mcpu` is the thousandths of cores that each machine really has: int64 [n_machines].

    Raises:
        ScenarioError: the result has no instances.
    """
    tasks, instances = tasks_of(scenario), _instances_of(result)
    rows = np.flatnonzero((instances.machine >= 0) & (instances.end_s > instances.start_s))
    mcpu = np.repeat(tasks.mcpu, tasks.instances)[rows]
    where = np.concatenate([instances.machine[rows]] * 2)
    time_s = np.concatenate([instances.start_s[rows], instances.end_s[rows]])
    order = np.lexsort((time_s, where))
    where, time_s = where[order], time_s[order]
    held_mcpu = np.cumsum(np.concatenate([mcpu, -mcpu])[order])[:-1]  # each machine ends with 0
    lasts_s = np.where(np.diff(where) == 0, np.diff(time_s), 0.0)
    over = np.maximum(held_mcpu - real_mcpu[where[:-1]], 0)
    total = float((held_mcpu * lasts_s).sum())
    return float((over * lasts_s).sum()) / total if total else 0.0


def critical_paths_s(tasks: Tasks, lasts_s: Floats) -> Floats:
    """Return the time of the longest chain of tasks of each job: float64 [n_jobs].

    `lasts_s` is the time of each task: float64 [n_tasks].
    """
    ends_s = lasts_s.astype(np.float64)
    child = np.repeat(np.arange(tasks.n_tasks), np.diff(tasks.first_parent))
    changed = len(child) > 0
    while changed:  # once for each task of the longest chain
        latest_s = np.zeros(tasks.n_tasks)
        np.maximum.at(latest_s, child, ends_s[tasks.parent_task])
        later_s = latest_s + lasts_s
        changed = bool((later_s > ends_s).any())
        ends_s = later_s
    first = np.searchsorted(tasks.job, np.arange(tasks.n_jobs))
    return np.maximum.reduceat(ends_s, first)


def _instances_of(result: SimulationResult) -> Instances:
    if result.instances is None:
        raise ScenarioError("the result has no instances; simulate with allocation='instances'.")
    return result.instances


def _slowdowns(
    scenario: Scenario, result: SimulationResult, pace: Pace
) -> tuple[Distribution, Distribution]:
    tasks = tasks_of(scenario)
    least_s = critical_paths_s(
        tasks, np.maximum(pace.cpu_work / pace.cpu_rate, pace.gpu_work / pace.gpu_rate)
    )
    response_s = result.end_s - scenario.workload.submit_s
    ran = ~np.isnan(response_s)
    some = ran & (least_s > 0)
    bounded = np.maximum(response_s[ran] / np.maximum(least_s[ran], TAU_S), 1.0)
    return distribution(response_s[some] / least_s[some]), distribution(bounded)


def _shares(part: Floats, total: Floats) -> dict[str, float]:
    rows = zip(DEMANDS, part, total, strict=True)
    return {RESOURCE_NAMES[name]: float(some / all_) for name, some, all_ in rows if all_}


def _fragments(
    fragmentation_series: Fragmentation | None, last_s: float
) -> dict[str, float | None]:
    if fragmentation_series is None:
        return {"fragmented": None, "fragmented_at_end": None, "fragmented_of_free": None}
    free, fragmented = (float(column[0]) for column in fragmentation_series.at(np.array([last_s])))
    return {
        "fragmented": fragmentation_series.means()[1] / fragmentation_series.n_gpus,
        "fragmented_at_end": fragmented / fragmentation_series.n_gpus,
        "fragmented_of_free": fragmented / free if free else None,
    }
