"""Backfilling as Slurm does it: reservations of named machines, made again at every pass.

It follows `sched/backfill` of Slurm 22.05 with `select/cons_tres`, as far as a schedule shows it:

- The main scheduler starts jobs in queue order until one does not fit.
- Every `bf_interval_s` a pass goes through the queue. A job starts if machines are free that no
  reservation needs before its end; a machine reserved from the exact time of its end is off limits
  too. Otherwise its start is computed and its machines are reserved.
- For this, running jobs that hold relevant machines are assumed to end by their estimates: first
  those within 30 s of the first, then within 60 s of the next, and so on; the job starts at the end
  of the last of them. So reservations are late rather than early.
- A reservation is of whole machines by name, even if the job needs few of their processors, and of
  idle machines too. Therefore surplus processors let another job overtake only if they are on other
  machines.

Sources: the manual pages slurm.conf(5) and sched_config, and the measured schedules that
`benchmarks.slurm_fidelity` compares with.
"""

import math
from collections.abc import Mapping

from sim.kernel.jit import kernel, noinline
from sim.kernel.node_selection import choose, start_chosen, start_heads
from sim.kernel.nodes import Nodes
from sim.kernel.plan import LEAST_S
from sim.kernel.pool import BLOCK, BLOCK_BITS, sort_running
from sim.policies.policy import Backfill, PolicyOption

INTERVAL_S, MAX_JOB_TEST, WINDOW_S, RESOLUTION_S, RESERVE = 0, 1, 2, 3, 4
"""Positions of the options."""

TOGETHER_S = 30.0
"""Window in seconds within which running jobs are assumed to end together; it doubles each time."""

NEVER = -1.0

MARK = 1 << 40


@kernel
def slurm(nodes: Nodes, k: int, now_s: float) -> int:
    """Start jobs by Slurm's main and backfill schedulers, with reservations by machine."""
    here = nodes.pool.partitions[k]
    n_started = start_heads(nodes, k, now_s)
    if here.head >= here.tail:
        return n_started
    every_s = nodes.pool.options[INTERVAL_S]
    if every_s > 0.0:
        due_s = math.ceil(now_s / every_s) * every_s
        if due_s > now_s:
            here.wake_s = due_s
            return n_started
    here.wake_s = math.inf
    return n_started + _pass_through(nodes, k, now_s, n_started)


@kernel
def _pass_through(nodes: Nodes, k: int, now_s: float, n_before: int) -> int:
    """Go through the queue: start or reserve for each job, and return how many started.

    It ends behind the last job that is narrow enough for the free processors, because reservations
    for later jobs would block none.
    """
    pool, here, writing = nodes.pool, nodes.pool.partitions[k], nodes.book.writing[0]
    most = pool.options[MAX_JOB_TEST]
    writing.n_bookings, writing.n_records, writing.n_bounds, writing.n_ended = 0, 1, 0, -1
    sort_running(pool, k)
    n_started, n_tested, slot = n_before, 0, here.head
    behind = _behind_last(nodes, k, slot)
    while slot < behind and n_tested < most and writing.n_records < most:
        job = pool.queue[slot]
        if job >= 0:
            n_tested += 1
            if _may_start(nodes, k, job, now_s):
                start_chosen(nodes, k, slot, now_s, n_started)
                sort_running(pool, k)
                writing.n_ended = -1
                n_started += 1
                behind = _behind_last(nodes, k, slot)
        slot += 1
    for i in range(writing.n_bookings):
        _put_off(nodes, i, 0)
    return n_started - n_before


@kernel
def _behind_last(nodes: Nodes, k: int, slot: int) -> int:
    """Return the slot after the last job from a slot on that fits in the free processors.

    Return the slot itself if there is none.
    """
    pool, here = nodes.pool, nodes.pool.partitions[k]
    behind = here.tail
    while behind > slot:
        if pool.blocks[(behind - 1) >> BLOCK_BITS].procs > here.free:
            behind = max(slot, (behind - 1) & ~(BLOCK - 1))
            continue
        job = pool.queue[behind - 1]
        if job >= 0 and pool.jobs[job].procs <= here.free:
            break
        behind -= 1
    return behind


@noinline
@kernel
def _may_start(nodes: Nodes, k: int, job: int, now_s: float) -> bool:
    """Return whether a job can start now on the machines then chosen; otherwise reserve for it.

    It is tried from now, and then from every begin or end of a reservation. Where the next such
    time comes before the possible start, its machines are not computed. Up to the first time at
    which enough of them are free, no job can start that is as wide and as long and is later in the
    queue, because reservations and starts only take machines.
    """
    options, length_s = nodes.pool.options, nodes.pool.jobs[job].estimate_s
    procs, last_s = nodes.pool.jobs[job].procs, now_s + options[WINDOW_S]
    bound_s = _bound_s(nodes, procs, length_s, now_s)
    from_s = bound_s
    _open_book(nodes, from_s, length_s)
    is_bounded = False
    while True:
        next_s = _next_s(nodes, last_s)
        if next_s < math.inf and not _has_room_by(nodes, k, procs, next_s):
            from_s = next_s
            _turn_to(nodes, from_s, length_s)
            continue
        if not is_bounded and from_s > bound_s:
            _set_bound(nodes, procs, length_s, from_s)
        is_bounded = True
        start_s = _earliest(nodes, k, job, now_s, next_s)
        if start_s == NEVER and next_s == math.inf:
            return False
        start_s = max(start_s, from_s) if start_s != NEVER else math.inf
        if start_s <= now_s:
            return True
        if next_s < start_s:
            from_s = next_s
            _turn_to(nodes, from_s, length_s)
            continue
        if start_s > last_s:
            return False
        begin_s = _rounded(start_s, options[RESOLUTION_S])
        end_s = _rounded(start_s + length_s, options[RESOLUTION_S])
        if not _overlaps(nodes, begin_s, end_s):
            _book(nodes, begin_s, end_s)
            return False
        if start_s == from_s:
            return False
        from_s = start_s
        _turn_to(nodes, from_s, length_s)


@kernel
def _bound_s(nodes: Nodes, procs: int, length_s: float, now_s: float) -> float:
    """Return the latest time before which no job of this width and length can start."""
    book, bound_s = nodes.book, now_s
    for i in range(book.writing[0].n_bounds):
        bound = book.bounds[i]
        if bound.from_s > bound_s and bound.procs <= procs and bound.length_s <= length_s:
            bound_s = bound.from_s
    return bound_s


@kernel
def _set_bound(nodes: Nodes, procs: int, length_s: float, from_s: float) -> None:
    """Keep the bound on the start of a job for later ones, while there is room."""
    book, writing = nodes.book, nodes.book.writing[0]
    if writing.n_bounds < len(book.bounds):
        bound = book.bounds[writing.n_bounds]
        bound.procs, bound.length_s, bound.from_s = procs, length_s, from_s
        writing.n_bounds += 1


@kernel
def _rounded(time_s: float, to_s: float) -> float:
    """Return a time at the resolution of reservations."""
    return math.floor(time_s / to_s) * to_s if to_s > 0.0 else time_s


@kernel
def _open_book(nodes: Nodes, from_s: float, length_s: float) -> None:
    """Put the machines reserved during a job that starts at a time off limits, and no others."""
    book, writing = nodes.book, nodes.book.writing[0]
    writing.n_near, writing.n_begun, writing.n_over = 0, 0, 0
    for i in range(writing.n_bookings):
        booking = book.bookings[i]
        is_over, is_near = booking.end_s <= from_s, booking.start_s <= from_s + length_s
        writing.n_over += 1 if is_over else 0
        writing.n_near += 1 if is_near else 0
        writing.n_begun += 1 if booking.start_s <= from_s else 0
        _put_off(nodes, i, 1 if is_near and not is_over else 0)


@kernel
def _turn_to(nodes: Nodes, from_s: float, length_s: float) -> None:
    """Continue with a later start of the job: update the machines that are off limits."""
    book, writing = nodes.book, nodes.book.writing[0]
    n = writing.n_bookings
    while writing.n_over < n and book.bookings[book.by_end[writing.n_over]].end_s <= from_s:
        _put_off(nodes, book.by_end[writing.n_over], 0)
        writing.n_over += 1
    while writing.n_begun < n and book.bookings[book.by_start[writing.n_begun]].start_s <= from_s:
        writing.n_begun += 1
    while writing.n_near < n:
        i = book.by_start[writing.n_near]
        if book.bookings[i].start_s > from_s + length_s:
            break
        if book.bookings[i].end_s > from_s:
            _put_off(nodes, i, 1)
        writing.n_near += 1


@kernel
def _next_s(nodes: Nodes, last_s: float) -> float:
    """Return the next begin or end of a reservation; infinite if not before the last one."""
    book, writing = nodes.book, nodes.book.writing[0]
    next_s = last_s
    if writing.n_begun < writing.n_bookings:
        next_s = min(next_s, book.bookings[book.by_start[writing.n_begun]].start_s)
    if writing.n_over < writing.n_bookings:
        next_s = min(next_s, book.bookings[book.by_end[writing.n_over]].end_s)
    return next_s if next_s < last_s else math.inf


@kernel
def _put_off(nodes: Nodes, booking: int, is_on: int) -> None:
    """Put the machines of a reservation off limits (1), or undo that (0)."""
    book, reservation, writing = nodes.book, nodes.book.bookings[booking], nodes.book.writing[0]
    if reservation.is_on == is_on:
        return
    n_resources = len(nodes.capacity) // len(nodes.machines)
    step = is_on - reservation.is_on
    for slot in range(reservation.first, reservation.first + reservation.n):
        machine = book.booked[slot]
        before = book.off[machine]
        book.off[machine] = before + step
        if before == 0 or before + step == 0:
            writing.procs_off += step * nodes.capacity[machine * n_resources]
            writing.free_off += step * nodes.free[machine * n_resources]
            writing.freed_off += step * book.later[machine * n_resources]
    reservation.is_on = is_on


@kernel
def _earliest(nodes: Nodes, k: int, job: int, now_s: float, next_s: float) -> float:
    """Return when a job could start on machines that are not off limits, and choose them.

    Jobs past their estimate are assumed to end within 1 s. The result is `NEVER` if the end of all
    running jobs gives no room, and `NEVER` or infinite, without a choice, if the start is after
    ``next_s``, when other machines are off limits.
    """
    pool, stock, book = nodes.pool, nodes.stocks[k], nodes.book
    procs = pool.jobs[job].procs
    if stock.procs - book.writing[0].procs_off < procs:
        return NEVER
    here = pool.partitions[k]
    open_procs = here.free - book.writing[0].free_off
    if open_procs >= procs and choose(nodes, k, job, nodes.free):
        return now_s
    together_s, until_s, end_s, n_ended = TOGETHER_S, 0.0, NEVER, 0
    for slot in range(here.first, here.first + here.n_listed):
        holder = pool.running[slot]
        holder_end_s = pool.jobs[holder].estimated_end_s
        if holder_end_s > next_s and (n_ended == 0 or holder_end_s > until_s):
            break
        opened = _procs_opened(nodes, k, holder)
        if opened == 0:
            continue
        if n_ended > 0 and holder_end_s > until_s:
            if open_procs >= procs and _choose_at(nodes, k, job, end_s):
                return max(end_s, now_s + LEAST_S)
            together_s *= 2.0
            n_ended = 0
        if holder_end_s > next_s:
            return math.inf
        end_s = holder_end_s
        if n_ended == 0:
            until_s = end_s + together_s
        n_ended += 1
        open_procs += opened
    if n_ended > 0 and open_procs >= procs and _choose_at(nodes, k, job, end_s):
        return max(end_s, now_s + LEAST_S)
    return NEVER


@kernel
def _procs_opened(nodes: Nodes, k: int, holder: int) -> int:
    """Return the processors that a running job holds on machines that are not off limits."""
    claim, procs = nodes.claims[holder], 0
    n_resources = len(nodes.capacity) // len(nodes.machines)
    for place in range(claim.first_place, claim.first_place + claim.n_places):
        machine = nodes.places[place]
        if nodes.book.off[machine] == 0:
            if nodes.stocks[k].is_shared == 1:
                procs += nodes.shares[place]
            else:
                procs += nodes.capacity[machine * n_resources]
    return procs


@kernel
def _choose_at(nodes: Nodes, k: int, job: int, time_s: float) -> bool:
    """Select machines for a job among those free at a time, and return whether they suffice."""
    _turn_later_to(nodes, k, time_s)
    return choose(nodes, k, job, nodes.book.later)


@kernel
def _has_room_by(nodes: Nodes, k: int, procs: int, time_s: float) -> bool:
    """Return whether so many processors are not off limits and free by a time, by the estimates."""
    writing = nodes.book.writing[0]
    if nodes.stocks[k].procs - writing.procs_off < procs:
        return False
    _turn_later_to(nodes, k, time_s)
    return writing.freed - writing.freed_off >= procs


@kernel
def _turn_later_to(nodes: Nodes, k: int, time_s: float) -> None:
    """Make the later resources those free at a time, by the estimates of the running jobs.

    Only the jobs that end between this time and the previous one are considered.
    """
    pool, book, writing = nodes.pool, nodes.book, nodes.book.writing[0]
    here = pool.partitions[k]
    if writing.n_ended < 0:
        writing.n_ended, writing.freed, writing.freed_off = 0, here.free, writing.free_off
        stock, n_resources = nodes.stocks[k], len(nodes.capacity) // len(nodes.machines)
        for i in range(stock.first_machine * n_resources, stock.behind_machine * n_resources):
            book.later[i] = nodes.free[i]
    while writing.n_ended < here.n_listed:
        holder = pool.running[here.first + writing.n_ended]
        if pool.jobs[holder].estimated_end_s > time_s:
            break
        _give_back(nodes, k, holder, 1)
        writing.n_ended += 1
    while writing.n_ended > 0:
        holder = pool.running[here.first + writing.n_ended - 1]
        if pool.jobs[holder].estimated_end_s <= time_s:
            break
        _give_back(nodes, k, holder, -1)
        writing.n_ended -= 1


@kernel
def _give_back(nodes: Nodes, k: int, holder: int, sign: int) -> None:
    """Release the resources of a running job in the later ones (`sign` 1), or undo that (-1)."""
    claim, book, writing = nodes.claims[holder], nodes.book, nodes.book.writing[0]
    n_resources = len(nodes.capacity) // len(nodes.machines)
    for place in range(claim.first_place, claim.first_place + claim.n_places):
        machine = nodes.places[place]
        at = machine * n_resources
        procs = sign * nodes.capacity[at]
        if nodes.stocks[k].is_shared == 1:
            procs = sign * nodes.shares[place]
            for r in range(1, n_resources):
                book.later[at + r] += procs * nodes.demand[holder * n_resources + r]
        book.later[at] += procs
        writing.freed += procs
        if book.off[machine] > 0:
            writing.freed_off += procs


@kernel
def _overlaps(nodes: Nodes, begin_s: float, end_s: float) -> bool:
    """Return whether a chosen machine is reserved at a time in between.

    It is not by a reservation whose machines are off limits.
    """
    book, writing = nodes.book, nodes.book.writing[0]
    for i in range(writing.n_taken):
        book.off[book.taken[i]] += MARK
    overlaps = False
    for i in range(writing.n_bookings):
        booking = book.bookings[i]
        is_meanwhile = booking.end_s > begin_s and booking.start_s < end_s
        if is_meanwhile and booking.is_on == 0 and not overlaps:
            for slot in range(booking.first, booking.first + booking.n):
                if book.off[book.booked[slot]] >= MARK:
                    overlaps = True
                    break
    for i in range(writing.n_taken):
        book.off[book.taken[i]] -= MARK
    return overlaps


@kernel
def _book(nodes: Nodes, begin_s: float, end_s: float) -> None:
    """Reserve the chosen machines, unless enough jobs have a reservation."""
    book, writing = nodes.book, nodes.book.writing[0]
    reserve = nodes.pool.options[RESERVE]
    if 0.0 < reserve <= writing.n_bookings or writing.n_bookings >= len(book.bookings):
        return
    n = writing.n_bookings
    booking = book.bookings[n]
    booking.start_s, booking.end_s, booking.first, booking.n, booking.is_on = (
        begin_s,
        end_s,
        0,
        writing.n_taken,
        0,
    )
    begins, ends = 1, 1 if end_s != begin_s else 0
    for i in range(n):
        other = book.bookings[i]
        booking.first = other.first + other.n
        if begin_s in (other.start_s, other.end_s):
            begins = 0
        if end_s in (other.start_s, other.end_s):
            ends = 0
    for i in range(writing.n_taken):
        book.booked[booking.first + i] = book.taken[i]
    slot = n
    while slot > 0 and book.bookings[book.by_start[slot - 1]].start_s > begin_s:
        book.by_start[slot] = book.by_start[slot - 1]
        slot -= 1
    book.by_start[slot] = n
    slot = n
    while slot > 0 and book.bookings[book.by_end[slot - 1]].end_s > end_s:
        book.by_end[slot] = book.by_end[slot - 1]
        slot -= 1
    book.by_end[slot] = n
    writing.n_bookings = n + 1
    writing.n_records += begins + ends


def _most_bookings(values: Mapping[str, float]) -> int:
    most = values["bf_max_job_test"]
    return int(min(most, values["bf_reserve"] or most))


SLURM = Backfill(
    "slurm",
    "a job overtakes if it needs no machine booked for an earlier job (Slurm 22.05)",
    decide_nodes=slurm,
    decide_shared=slurm,
    options=(
        PolicyOption(
            "bf_interval_s", 30, "time between passes; 0 is a pass at every event", unit="s"
        ),
        PolicyOption("bf_max_job_test", 500, "most jobs per pass", 1, 10**6, is_whole=True),
        PolicyOption("bf_window_s", 86400, "time for which machines are booked ahead", unit="s"),
        PolicyOption("bf_resolution_s", 60, "multiple at which bookings begin and end", unit="s"),
        PolicyOption("bf_reserve", 0, "most booked jobs per partition; 0 is all", is_whole=True),
    ),
    wakes=True,
    n_bookings=_most_bookings,
)
