"""The state `nodes`: named machines with several resources, with its transitions.

It contains a pool and the machines of each job. A job takes whole machines, in machine order, until
their processors suffice; where machines are shared, it takes processors of machines
(`sim.kernel.node_selection`). A machine *suits* a job if it has enough of every other resource for
the processes of the job there: one per processor of the machine, but at most one per processor of
the job. Neighbouring equal machines are a *kind*.

Resources are whole numbers in flat columns: machine i has ``capacity[i * R + r]`` of resource r,
and ``free[i * R + r]`` of it is free. A reservation marks idle machines with its number; machines
of running jobs need no mark. `Reservations` lasts for one decision only.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sim.kernel.fair_share import charge
from sim.kernel.jit import kernel
from sim.kernel.pool import Pool, release, sort_running, start
from sim.kernel.records import field, rows


class NodeReservation:
    """Reservation of machines for a waiting job, as a row of a table.

    Attributes:
        end_s: end; a job that needs one of the machines before this time is in the way.
        first, n: first slot of the machines in `Reservations.booked`, and their number.
        is_on: 1 if they are off limits for the current job.
    """

    __slots__ = ("end_s", "first", "is_on", "n", "start_s")
    start_s: float
    end_s: float
    first: int
    n: int
    is_on: int


class ReservationScratch:
    """Counters for the reservations and the job that is being placed.

    Attributes:
        n_bookings: number of reservations.
        n_records: number of times at which the reserved machines change, plus 1, as Slurm counts
            them.
        n_taken: machines in the last choice.
        procs_off, free_off: processors of the machines that are off limits, and how many of them
            are free.
        n_near: reservations that begin before the current job would end.
        n_begun: reservations that begin no later than it.
        n_over: reservations that end no later than it begins.
        n_bounds: rows of `StartBound` in use.
        n_ended: running jobs that have ended in `Reservations.later`; -1 if it is not filled.
        freed, freed_off: processors free there, and how many of them are off limits.
    """

    __slots__ = (
        "free_off", "freed", "freed_off", "n_begun", "n_bookings", "n_bounds", "n_ended", "n_near",
        "n_over", "n_records", "n_taken", "procs_off",
    )  # fmt: skip
    n_bookings: int
    n_records: int
    n_taken: int
    procs_off: int
    free_off: int
    n_near: int
    n_begun: int
    n_over: int
    n_bounds: int
    n_ended: int
    freed: int
    freed_off: int


class MachineRun:
    """Neighbouring machines with room for a job: the first one, and the processors of all."""

    __slots__ = ("first", "procs")
    first: int
    procs: int


class StartBound:
    """Lower bound on the start of jobs that are at least as wide and as long as one before them.

    Attributes:
        procs, length_s: processors and estimate of that job.
        from_s: too few machines are free and not reserved for it before this time.
    """

    __slots__ = ("from_s", "length_s", "procs")
    procs: int
    length_s: float
    from_s: float


class Reservations(NamedTuple):
    """Machine reservations of one scheduling decision, with scratch arrays.

    Attributes:
        writing: [1] row of `ReservationScratch`.
        bookings: rows of `NodeReservation`.
        bounds: rows of `StartBound`, as many.
        by_start, by_end: int64 [...], reservations by start, and by end.
        booked: int64 [...], their machines.
        off: int64 [n_machines], number of reservations that put the machine off limits.
        later: int64 [n_machines * R], free resources after the first running jobs have ended. Where
            machines are not shared, only the processors are those.
        room: int64 [n_machines], processors that a job could take.
        runs: rows of `MachineRun`, as many as could be needed.
        taken, taken_procs: int64 [n_machines], machines in the last choice, and the processors of
            each.
    """

    writing: Sequence[ReservationScratch]
    bookings: Sequence[NodeReservation]
    bounds: Sequence[StartBound]
    runs: Sequence[MachineRun]
    by_start: list[int]
    by_end: list[int]
    booked: list[int]
    off: list[int]
    later: list[int]
    room: list[int]
    taken: list[int]
    taken_procs: list[int]


def empty_reservations(
    most: NDArray[np.int64], capacity: NDArray[np.int64], n_bookings: int, *, is_used: bool
) -> Reservations:
    """Return arrays for machine reservations, initially empty.

    Args:
        most: int64 [n_jobs], the most machines that each job can get.
        capacity: int64 [n_machines, R].
        n_bookings: maximum at a time.
        is_used: whether a rule needs the scratch space.
    """
    n_machines, n_resources = capacity.shape if is_used else (0, 0)
    n = min(n_bookings, len(most))
    columns: list[Any] = [
        *(np.empty(n, dtype=np.int64) for _ in range(2)),
        np.empty(int(np.sort(most)[len(most) - n :].sum()), dtype=np.int64),
        np.zeros(n_machines, dtype=np.int64),
        np.empty(n_machines * n_resources, dtype=np.int64),
        *(np.empty(n_machines, dtype=np.int64) for _ in range(3)),
    ]
    return Reservations(
        rows(ReservationScratch, 1), rows(NodeReservation, n), rows(StartBound, n),  # type: ignore[arg-type]
        rows(MachineRun, (n_machines + 1) // 2),  # type: ignore[arg-type]
        *columns,
    )  # fmt: skip


class NodeAllocation:
    """A job's needs besides processors, and the machines allocated to the job.

    Attributes:
        first_place: its first slot in `Nodes.places`; there are enough for the most machines that
            it can get.
        n_places: number of its machines.
        waste: processors of these beyond its need.
        is_choosy: 1 if it demands anything except processors.
    """

    __slots__ = ("first_place", "is_choosy", "n_places", "waste")
    first_place: int
    n_places: int
    waste: int
    is_choosy: int


class PartitionNodes:
    """State of the machines of one partition.

    Attributes:
        first_machine, behind_machine: its first machine, and the end of its machines.
        is_shared: 1 if several jobs may hold the same machine.
        first_kind, behind_kind: its first kind, and the end of its kinds.
        reservation: number of its latest reservation, from 1.
        kept: processors of the idle machines that this reservation names.
        procs: of all its machines.
    """

    __slots__ = (
        "behind_kind", "behind_machine", "first_kind", "first_machine", "is_shared", "kept",
        "procs", "reservation",
    )  # fmt: skip
    first_machine: int
    behind_machine: int
    is_shared: int
    first_kind: int
    behind_kind: int
    reservation: int
    kept: int
    procs: int


class NodeKind:
    """Neighbouring machines with equal resources.

    Attributes:
        first, procs: its first machine, and the processors of each.
        n_idle, n_kept: number of idle machines, and how many of these the latest reservation names.
        lowest: no machine of this kind before this one is idle.
    """

    __slots__ = ("first", "lowest", "n_idle", "n_kept", "procs")
    first: int
    procs: int
    n_idle: int
    n_kept: int
    lowest: int


class NodeMachine:
    """State of one machine: its kind and the number of jobs on it.

    Attributes:
        kind: row of its `NodeKind`.
        n_holders: jobs that hold some of it: 0 if it is idle.
        kept_for: number of the last reservation that named it while it was idle; 0 is none.
    """

    __slots__ = ("kept_for", "kind", "n_holders")
    kind: int
    n_holders: int
    kept_for: int


class Nodes(NamedTuple):
    """State of a simulation with named machines, containing the pool of jobs.

    Attributes:
        pool: queues and running jobs; free processors are those of idle machines, and `extra` of a
            partition those that suit the head and are idle at the shadow time beyond its need.
        claims: [n_jobs] rows of `NodeAllocation`.
        stocks: [n_partitions] rows of `PartitionNodes`.
        kinds: [n_kinds] rows of `NodeKind`.
        machines: [n_machines] rows of `NodeMachine`, those of a partition side by side.
        capacity, free: int64 [n_machines * R].
        demand: int64 [n_jobs * R], need of one process of a job for each resource.
        places, shares: int64 [...], machines of each job in the order in which it took them (see
            `NodeAllocation`), and the number of processors of each, where machines are shared.
        book: reservations of machines, for a rule that makes them.
    """

    pool: Pool
    claims: Sequence[NodeAllocation]
    stocks: Sequence[PartitionNodes]
    kinds: Sequence[NodeKind]
    machines: Sequence[NodeMachine]
    capacity: list[int]
    free: list[int]
    demand: list[int]
    places: list[int]
    shares: list[int]
    book: Reservations


def empty_nodes(
    pool: Pool,
    procs: NDArray[np.int64],
    partition: NDArray[np.int64],
    demand: NDArray[np.int64],
    capacity: NDArray[np.int64],
    machine_partition: NDArray[np.int64],
    *,
    is_shared: bool = False,
    n_bookings: int = 0,
) -> Nodes:
    """Return the initial state of machines and jobs, before the first event, as arrays.

    Args:
        pool: an empty pool; a partition of it has the processors of all its machines.
        procs: int64 [n_jobs].
        partition: int64 [n_jobs], partition of each job; -1 takes no part. Machines that suit a job
            must have enough processors for it there.
        demand: int64 [n_jobs, R - 1], need of a process for each resource except processors.
        capacity: int64 [n_machines, R], processors (1 or more) in the first column.
        machine_partition: int64 [n_machines], non-decreasing; every partition has a machine.
        is_shared: whether several jobs may hold the same machine.
        n_bookings: maximum of reservations that the rule makes in one decision.
    """
    n_jobs, n_machines = len(procs), len(capacity)
    like = np.column_stack([machine_partition, capacity])
    firsts = np.flatnonzero(np.concatenate([[True], (like[1:] != like[:-1]).any(axis=1)]))
    counts = np.diff(np.append(firsts, n_machines))
    kinds, machines = rows(NodeKind, len(firsts)), rows(NodeMachine, n_machines)
    kinds["first"] = kinds["lowest"] = firsts
    kinds["procs"], kinds["n_idle"] = capacity[firsts, 0], counts
    machines["kind"] = np.repeat(np.arange(len(firsts)), counts)
    stocks = rows(PartitionNodes, len(pool.partitions))
    numbers = np.arange(len(stocks))
    stocks["first_kind"] = np.searchsorted(machine_partition[firsts], numbers, side="left")
    stocks["behind_kind"] = np.searchsorted(machine_partition[firsts], numbers, side="right")
    stocks["reservation"] = 1
    stocks["first_machine"] = np.searchsorted(machine_partition, numbers, side="left")
    stocks["behind_machine"] = np.searchsorted(machine_partition, numbers, side="right")
    stocks["is_shared"] = is_shared
    stocks["procs"] = pool.partitions["free"]  # type: ignore[call-overload]
    if is_shared:
        n_there = (stocks["behind_machine"] - stocks["first_machine"])[partition]
        most = np.where(partition >= 0, np.minimum(procs, n_there), 0)
    else:
        most = _most_machines(procs, partition, capacity[:, 0], machine_partition)
    claims = rows(NodeAllocation, n_jobs)
    claims["first_place"] = np.cumsum(most) - most
    claims["is_choosy"] = (demand > 0).any(axis=1)
    columns: list[Any] = [
        capacity.flatten(),
        capacity.flatten(),
        np.column_stack([np.ones(n_jobs, dtype=np.int64), demand]).flatten(),
        np.empty(int(most.sum()), dtype=np.int64),
        np.empty(int(most.sum()) if is_shared else 0, dtype=np.int64),
    ]
    book = empty_reservations(most, capacity, n_bookings, is_used=is_shared or n_bookings > 0)
    return Nodes(pool, claims, stocks, kinds, machines, *columns, book=book)  # type: ignore[arg-type, misc]


def _most_machines(
    procs: NDArray[np.int64],
    partition: NDArray[np.int64],
    machine_procs: NDArray[np.int64],
    machine_partition: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return the most machines that each job can get: the smallest first, until they suffice."""
    most = np.zeros(len(procs), dtype=np.int64)
    for k in np.unique(partition[partition >= 0]):
        reached = np.cumsum(np.sort(machine_procs[machine_partition == k]))
        here = partition == k
        most[here] = np.searchsorted(reached, procs[here], side="left") + 1
    return most


def places_of(nodes: Nodes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the machines of each job from a state of arrays or of lists.

    int64 [n_jobs + 1], where the machines of each job begin, and the end of the last; int64 [...],
    machines, those of a job in the order in which it took them.
    """
    n_places = np.array(field(nodes.claims, "n_places"), dtype=np.int64)
    first_place = np.array(field(nodes.claims, "first_place"), dtype=np.int64)
    ends = np.cumsum(n_places)
    first = np.concatenate([np.zeros(1, dtype=np.int64), ends])
    skipped = np.repeat(first_place - first[:-1], n_places)
    slots = np.arange(first[-1]) + skipped
    return first, np.asarray(nodes.places, dtype=np.int64)[slots]


@kernel
def suits(nodes: Nodes, kind: int, job: int) -> bool:
    """Return whether a kind of machine has enough of all other resources for a job."""
    if nodes.claims[job].is_choosy == 0:
        return True
    n_resources = len(nodes.capacity) // len(nodes.machines)
    has, wants = nodes.kinds[kind].first * n_resources, job * n_resources
    n_processes = min(nodes.kinds[kind].procs, nodes.pool.jobs[job].procs)
    for r in range(1, n_resources):
        if nodes.demand[wants + r] > nodes.capacity[has + r] // n_processes:
            return False
    return True


@kernel
def idle_procs(nodes: Nodes, k: int, job: int, kept_too: bool) -> int:
    """Count the processors of the idle machines of partition k that suit a job.

    With `kept_too`, machines that the latest reservation names count too.
    """
    stock = nodes.stocks[k]
    if nodes.claims[job].is_choosy == 0:
        free = nodes.pool.partitions[k].free
        return free if kept_too else free - stock.kept
    procs = 0
    for i in range(stock.first_kind, stock.behind_kind):
        if suits(nodes, i, job):
            kind = nodes.kinds[i]
            procs += kind.procs * (kind.n_idle if kept_too else kind.n_idle - kind.n_kept)
    return procs


@kernel
def start_on(
    nodes: Nodes, k: int, job: int, now_s: float, n_started: int, kept_first: bool
) -> None:
    """Start a waiting job on the first idle machines of partition k that suit the job.

    `idle_procs` must have shown that they suffice. As with `start`, the decision removes the job
    from the queue. With `kept_first`, it takes machines of the latest reservation first; else none
    of them. This decision has started `n_started` jobs before.
    """
    stock, claim = nodes.stocks[k], nodes.claims[job]
    missing = nodes.pool.jobs[job].procs
    for turn in range(2):
        from_reserved = kept_first and turn == 0
        for i in range(stock.first_kind, stock.behind_kind):
            kind = nodes.kinds[i]
            left = kind.n_kept if from_reserved else kind.n_idle - kind.n_kept
            if left > 0 and missing > 0 and suits(nodes, i, job):
                machine = lowest_idle(nodes, i)
                while left > 0 and missing > 0:
                    node = nodes.machines[machine]
                    if (
                        node.n_holders == 0
                        and (node.kept_for == stock.reservation) == from_reserved
                    ):
                        nodes.places[claim.first_place + claim.n_places] = machine
                        claim.n_places += 1
                        hold_whole(nodes, machine, 1)
                        missing -= kind.procs
                        left -= 1
                        if from_reserved:
                            kind.n_kept -= 1
                            stock.kept -= kind.procs
                    machine += 1
    claim.waste = -missing
    start(nodes.pool, k, job, now_s, n_started)
    nodes.pool.partitions[k].free -= claim.waste
    if len(nodes.pool.fair.users) > 0:
        charge(nodes.pool.fair, job, claim.waste, now_s)


@kernel
def lowest_idle(nodes: Nodes, kind: int) -> int:
    """Return the first idle machine of a kind that has at least one idle machine."""
    machine = nodes.kinds[kind].lowest
    while nodes.machines[machine].n_holders > 0:
        machine += 1
    nodes.kinds[kind].lowest = machine
    return machine


@kernel
def hold_whole(nodes: Nodes, machine: int, holders: int) -> None:
    """Allocate all resources of an idle machine (`holders` 1) or release them (-1)."""
    n_resources = len(nodes.capacity) // len(nodes.machines)
    for at in range(machine * n_resources, (machine + 1) * n_resources):
        nodes.free[at] -= holders * nodes.capacity[at]
    node = nodes.machines[machine]
    node.n_holders += holders
    nodes.kinds[node.kind].n_idle -= holders


@kernel
def hold_share(nodes: Nodes, machine: int, job: int, n_processes: int) -> None:
    """Allocate a machine's resources to processes of a job, or release a negative number."""
    n_resources = len(nodes.capacity) // len(nodes.machines)
    for r in range(n_resources):
        needed = n_processes * nodes.demand[job * n_resources + r]
        nodes.free[machine * n_resources + r] -= needed
    nodes.machines[machine].n_holders += 1 if n_processes > 0 else -1


@kernel
def release_machines(nodes: Nodes, k: int, job: int, now_s: float) -> None:
    """Release the machines of a job that ends in partition k, but keep the list of them."""
    claim = nodes.claims[job]
    is_shared = nodes.stocks[k].is_shared == 1
    for place in range(claim.first_place, claim.first_place + claim.n_places):
        machine = nodes.places[place]
        if is_shared:
            hold_share(nodes, machine, job, -nodes.shares[place])
        else:
            hold_whole(nodes, machine, -1)
            kind = nodes.kinds[nodes.machines[machine].kind]
            kind.lowest = min(kind.lowest, machine)
    release(nodes.pool, k, job, now_s)
    nodes.pool.partitions[k].free += claim.waste
    if len(nodes.pool.fair.users) > 0:
        charge(nodes.pool.fair, job, -claim.waste, now_s)


@kernel
def drop_reservation(nodes: Nodes, k: int) -> None:
    """Remove all machines from the latest reservation of partition k."""
    stock = nodes.stocks[k]
    stock.reservation += 1
    stock.kept = 0
    for i in range(stock.first_kind, stock.behind_kind):
        nodes.kinds[i].n_kept = 0


@kernel
def reserve_machines(nodes: Nodes, k: int, job: int) -> None:
    """Reserve the machines that become idle earliest for a job that cannot start now.

    The shadow time is when enough machines that suit it are idle by the estimates of the running
    jobs; all jobs that end at the shadow time count. The reservation first names those that are not
    idle now but then, in machine order, and then as many idle ones as the job also needs.
    """
    drop_reservation(nodes, k)
    pool = nodes.pool
    here = pool.partitions[k]
    sort_running(pool, k)
    missing = pool.jobs[job].procs - idle_procs(nodes, k, job, True)
    given_up = 0
    shadow_s = 0.0
    for slot in range(here.first, here.first + here.n_listed):
        holder = pool.running[slot]
        end_s = pool.jobs[holder].estimated_end_s
        if given_up >= missing and end_s != shadow_s:
            break
        shadow_s = end_s
        given_up += procs_held(nodes, holder, job)
    here.shadow_s = shadow_s
    here.extra = given_up - missing
    _keep(nodes, k, job, pool.jobs[job].procs - given_up)


@kernel
def procs_held(nodes: Nodes, holder: int, job: int) -> int:
    """Count the processors on one running job's machines that suit another job."""
    claim = nodes.claims[holder]
    if nodes.claims[job].is_choosy == 0:
        return nodes.pool.jobs[holder].procs + claim.waste
    procs = 0
    for place in range(claim.first_place, claim.first_place + claim.n_places):
        kind = nodes.machines[nodes.places[place]].kind
        if suits(nodes, kind, job):
            procs += nodes.kinds[kind].procs
    return procs


@kernel
def _keep(nodes: Nodes, k: int, job: int, missing: int) -> None:
    """Mark idle machines that suit a job, in machine order, until their processors suffice."""
    stock = nodes.stocks[k]
    for i in range(stock.first_kind, stock.behind_kind):
        if missing <= 0:
            break
        kind = nodes.kinds[i]
        if kind.n_idle > 0 and suits(nodes, i, job):
            machine = lowest_idle(nodes, i)
            while kind.n_kept < kind.n_idle and missing > 0:
                if nodes.machines[machine].n_holders == 0:
                    nodes.machines[machine].kept_for = stock.reservation
                    kind.n_kept += 1
                    stock.kept += kind.procs
                    missing -= kind.procs
                machine += 1
