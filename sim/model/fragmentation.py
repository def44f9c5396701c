"""Fragmentation of GPUs: what is free, and of no use to what usually comes.

Source: Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation
Gradient Descent", USENIX ATC 2023, section 3. The workload is kinds of instances m with shares p_m
of all instances. Machine n has free parts R_ng of its GPUs g, D_m is what an instance of kind m
asks of GPUs, and what of machine n is a fragment to it is

    F_n(m) = sum over g of R_ng                         if n has no room for it, or D_m = 0
    F_n(m) = sum over g of R_ng [R_ng < min(D_m, 1)]    otherwise
    F_n    = sum over m of p_m F_n(m),                  F = sum over n of F_n

Room is as placing sees it (`sim.model.needs`): memory, disk and labels count beside processors and
GPUs. So a task that asks for no GPU counts all free GPUs as fragments, as in the paper.

Nothing is replayed: free resources after each event are sums along the events of a machine, and of
single GPUs only those matter of which somebody has a part.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim.errors import ScenarioError
from sim.model.needs import WHOLE_GPU, Needs, needs_of, tasks_of
from sim.model.result import Instances, SimulationResult
from sim.model.scenario import Scenario
from sim.model.tasks import DEMANDS

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

MOST_KINDS = 256
"""So many kinds of instances, the most frequent, stand for the workload."""

ROWS_AT_ONCE = 200_000
_GPU = DEMANDS.index("mgpu")


@dataclass(frozen=True, eq=False)
class Target:
    """What instances are usually like: kinds with their shares.

    Attributes:
        demand: int64 [n_kinds, len(DEMANDS)], what an instance takes.
        suits: bool [n_kinds, n_machine_kinds], whether labels and GPUs are as demanded.
        share: float64 [n_kinds], of all instances; sums to 1.
    """

    demand: Ints
    suits: Bools
    share: Floats

    @classmethod
    def of(cls, scenario: Scenario) -> "Target":
        """Return the kinds of instances of a scenario, the `MOST_KINDS` most frequent.

        Raises:
            ScenarioError: it places no instances.
        """
        return _target(scenario, needs_of(scenario))


@dataclass(frozen=True, eq=False)
class Fragmentation:
    """Free and fragmented GPUs over time: values hold from each time to the next.

    Attributes:
        time_s: float64 [n_steps], strictly increasing; the first is the first submission.
        free: float64 [n_steps], GPUs that nobody holds.
        fragmented: float64 [n_steps], GPUs, expected over the workload.
        n_gpus: of all machines.
    """

    time_s: Floats
    free: Floats
    fragmented: Floats
    n_gpus: int

    def at(self, times_s: Floats) -> tuple[Floats, Floats]:
        """Return free and fragmented GPUs at some times from the first on."""
        step = np.maximum(np.searchsorted(self.time_s, times_s, side="right") - 1, 0)
        return self.free[step], self.fragmented[step]

    def means(self) -> tuple[float, float]:
        """Return free and fragmented GPUs, on average over time; the last instant counts alone."""
        lasts_s = np.diff(self.time_s)
        if not lasts_s.sum():
            return float(self.free[-1]), float(self.fragmented[-1])
        free, fragmented = (
            float((column[:-1] * lasts_s).sum() / lasts_s.sum())
            for column in (self.free, self.fragmented)
        )
        return free, fragmented


def fragmentation(
    scenario: Scenario, result: SimulationResult, target: Target | None = None
) -> Fragmentation | None:
    """Return what was free and fragmented over time; None if no machine has a GPU.

    Args:
        scenario: what was simulated, with allocation ``instances``.
        result: what `simulate` returned for it.
        target: what usually comes; None is the workload of the scenario.

    Raises:
        ScenarioError: the result has no instances.
    """
    found, needs = result.instances, needs_of(scenario)
    if found is None:
        raise ScenarioError("the result has no instances; simulate with allocation='instances'.")
    n_gpus = int(needs.capacity[:, _GPU].sum()) // WHOLE_GPU
    if not n_gpus:
        return None
    told = _target(scenario, needs) if target is None else target
    first_s = float(scenario.workload.submit_s.min())
    times, frees, lost = [], [], []
    for events in _chunks(_events(scenario, needs, found, first_s), ROWS_AT_ONCE):
        free, fragments = _measured(events, needs, told)
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
    """What is taken and given back, by machine and time; the first of a machine changes nothing.

    Attributes:
        machine: int64 [n], never falling.
        time_s: float64 [n].
        begins: bool [n], the first row of a machine.
        sign: int64 [n], 1 takes and -1 gives back; 0 at the beginning.
        demand: int64 [n, len(DEMANDS)].
        device: int64 [n], of which a part is taken or given back; -1 is none.
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


def _target(scenario: Scenario, needs: Needs) -> Target:
    instances = tasks_of(scenario).instances
    counts = np.bincount(needs.of_task, weights=instances, minlength=len(needs.demand))
    kept = np.argsort(-counts, kind="stable")[:MOST_KINDS]
    kept = kept[counts[kept] > 0]
    return Target(needs.demand[kept], needs.suits[kept] == 1, counts[kept] / counts[kept].sum())


def _events(scenario: Scenario, needs: Needs, found: Instances, first_s: float) -> _Events:
    """Return the events on machines with GPUs; who holds something for no time is left out."""
    tasks = tasks_of(scenario)
    has_gpu = needs.capacity[:, _GPU] > 0
    rows = np.flatnonzero((found.machine >= 0) & (found.end_s > found.start_s))
    rows = rows[has_gpu[found.machine[rows]]]
    task = np.repeat(np.arange(tasks.n_tasks), tasks.instances)[rows]
    demand, machine, n = tasks.demands[task], found.machine[rows], len(rows)
    is_part = (demand[:, _GPU] > 0) & (demand[:, _GPU] < WHOLE_GPU)
    device = np.where(is_part, found.device[rows], -1)
    hosts = np.flatnonzero(has_gpu)
    none = np.zeros((len(hosts), len(DEMANDS)), dtype=np.int64)
    time_s = np.concatenate([np.full(len(hosts), first_s), found.start_s[rows], found.end_s[rows]])
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
    """Yield the events of some machines after another."""
    edges = [*np.flatnonzero(events.begins).tolist(), len(events.machine)]
    begin = 0
    for i, edge in enumerate(edges[1:], start=1):
        if edge - begin >= at_once or i == len(edges) - 1:
            yield events.part(slice(begin, edge))
            begin = edge


def _measured(events: _Events, needs: Needs, target: Target) -> tuple[Ints, Floats]:
    """Return free and fragmented thousandths of GPUs of its machine after each event."""
    capacity = needs.capacity[events.machine]
    free = capacity - _along(events.sign[:, None] * events.demand, events.begins)
    asked = np.minimum(target.demand[:, _GPU], WHOLE_GPU)
    sizes, of_kind = np.unique(asked, return_inverse=True)
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
    """Return what of the single GPUs is free after each event.

    Returns:
        GPUs of which nobody has anything, int64 [n]; of the others, for each size, how many have
        so much free, int64 [n, n_sizes]; and what those have free that have less, likewise.
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
    whole = _along(np.column_stack([taken // WHOLE_GPU, n_shared]), events.begins).sum(axis=1)
    return (
        mgpu // WHOLE_GPU - whole,
        _along(fits, events.begins),
        _along(too_small, events.begins),
    )


def _fitting(free: Ints, sizes: Ints) -> Bools:
    return (free[:, None] >= sizes) & (free[:, None] < WHOLE_GPU)


def _lacking(free: Ints, sizes: Ints) -> Ints:
    return np.where(free[:, None] < sizes, free[:, None], 0)


def _along(changes: Ints, begins: Bools) -> Ints:
    """Return sums of columns from the beginning of each group of rows on."""
    if not len(changes):
        return changes
    sums = np.cumsum(changes, axis=0)
    firsts = np.flatnonzero(begins)
    before = sums[firsts] - changes[firsts]
    return sums - np.repeat(before, np.diff(np.append(firsts, len(changes))), axis=0)


def _changes(values: Floats, begins: Bools) -> Floats:
    """Return by how much each value differs from the one before it in its group."""
    return np.where(begins, values, np.diff(values, prepend=0.0))
