"""The selection of machines as Slurm does it by default: best fit of neighbours, in machine order.

Neighbouring machines with room for a job form a run. The smallest run with enough processors is
taken from its first machine on; if none has enough, the largest is taken whole, and the rest is
found among the others. (Slurm 22.05, `select/cons_tres` without topology and with equal node
weights.) A whole machine has room if it is idle and suits the job; a shared one has as many
processors as are free and as the other resources allow.
"""

from sim.kernel.fair_share import charge
from sim.kernel.jit import kernel, noinline
from sim.kernel.nodes import Nodes, hold_share, hold_whole, suits
from sim.kernel.pool import start, take, take_head


@kernel
def _room_on(
    nodes: Nodes, k: int, machine: int, n_resources: int, job: int, free: list[int]
) -> int:
    """Return how many processors of a machine of partition k a job could take.

    `free` is the free resources, as in `Nodes.free`, `n_resources` of each machine.
    """
    at, wants = machine * n_resources, job * n_resources
    room = free[at]
    if nodes.stocks[k].is_shared == 0:
        if room < nodes.capacity[at] or not suits(nodes, nodes.machines[machine].kind, job):
            return 0
        return room
    if nodes.claims[job].is_choosy == 1:
        for r in range(1, n_resources):
            if nodes.demand[wants + r] > 0:
                room = min(room, free[at + r] // nodes.demand[wants + r])
    return room


@noinline
@kernel
def choose(nodes: Nodes, k: int, job: int, free: list[int]) -> bool:
    """Select machines of partition k for a job, and return whether there is enough room.

    They are listed in `Reservations.taken`. `free` is the free resources, as in `Nodes.free`.
    Return whether there is enough room.
    """
    stock, book, missing = nodes.stocks[k], nodes.book, nodes.pool.jobs[job].procs
    n_resources = len(nodes.capacity) // len(nodes.machines)
    total, n_runs, is_run = 0, 0, False
    for machine in range(stock.first_machine, stock.behind_machine):
        room = 0
        if book.off[machine] == 0:
            room = _room_on(nodes, k, machine, n_resources, job, free)
        book.room[machine] = room
        if room > 0:
            if not is_run:
                book.runs[n_runs].first, book.runs[n_runs].procs = machine, 0
                n_runs += 1
            book.runs[n_runs - 1].procs += room
            total += room
        is_run = room > 0
    book.writing[0].n_taken = 0
    if total < missing:
        return False
    while missing > 0:
        missing = _take_run(nodes, k, n_runs, missing)
    return True


@kernel
def _take_run(nodes: Nodes, k: int, n_runs: int, missing: int) -> int:
    """Take the best run of machines with room and return how many processors are still missing."""
    stock, book, writing = nodes.stocks[k], nodes.book, nodes.book.writing[0]
    best, best_procs = -1, 0
    for i in range(n_runs):
        procs = book.runs[i].procs
        is_better = best_procs < procs
        if procs >= missing:
            is_better = best_procs < missing or procs < best_procs
        if is_better:
            best, best_procs = i, procs
    machine = book.runs[best].first
    book.runs[best].procs = 0
    while missing > 0 and machine < stock.behind_machine and book.room[machine] > 0:
        taken_procs = min(book.room[machine], missing)
        if stock.is_shared == 0:
            taken_procs = book.room[machine]
        book.taken[writing.n_taken], book.taken_procs[writing.n_taken] = machine, taken_procs
        writing.n_taken += 1
        missing -= taken_procs
        machine += 1
    return missing


@noinline
@kernel
def start_chosen(nodes: Nodes, k: int, slot: int, now_s: float, n_started: int) -> None:
    """Start the job in a queue slot on the selected machines and remove it from the queue."""
    job = nodes.pool.queue[slot]
    stock, book, claim = nodes.stocks[k], nodes.book, nodes.claims[job]
    here = nodes.pool.partitions[k]
    taken_procs = 0
    for i in range(book.writing[0].n_taken):
        machine, procs = book.taken[i], book.taken_procs[i]
        nodes.places[claim.first_place + claim.n_places] = machine
        if stock.is_shared == 1:
            nodes.shares[claim.first_place + claim.n_places] = procs
            hold_share(nodes, machine, job, procs)
        else:
            hold_whole(nodes, machine, 1)
        claim.n_places += 1
        taken_procs += procs
    claim.waste = taken_procs - nodes.pool.jobs[job].procs
    start(nodes.pool, k, job, now_s, n_started)
    here.free -= claim.waste
    if len(nodes.pool.fair.users) > 0:
        charge(nodes.pool.fair, job, claim.waste, now_s)
    if slot == here.head:
        take_head(nodes.pool, k)
    else:
        take(nodes.pool, k, slot)


@kernel
def _fits(nodes: Nodes, k: int, job: int) -> bool:
    """Choose machines for a job that are free now; return whether they suffice."""
    if nodes.pool.jobs[job].procs > nodes.pool.partitions[k].free:
        return False
    return choose(nodes, k, job, nodes.free)


@kernel
def start_heads(nodes: Nodes, k: int, now_s: float) -> int:
    """Start jobs of partition k in queue order until one has no room, and count them."""
    here = nodes.pool.partitions[k]
    n_started = 0
    while here.head < here.tail and _fits(nodes, k, nodes.pool.queue[here.head]):
        start_chosen(nodes, k, here.head, now_s, n_started)
        n_started += 1
    return n_started
