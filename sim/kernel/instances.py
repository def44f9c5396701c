"""Transitions of a fleet: the queue of tasks, and instances that take machines and release them.

A decision goes through the queue in order and places every task that has room. The placement rule
`choose` selects the machine: (fleet, need, start) to a machine or -1, where no machine before
`start` has room. It may also pick a GPU for an instance that needs a part of one (`PICKED` in
`Fleet.cursor`), and report the first machine that can have room (`FROM`).

Free resources only shrink within a decision. Therefore a need without room has none until something
is released, and then only those machines are examined first. Waiting tasks lie in binary heaps, the
smallest rank on top.
"""

from typing import Any

from sim.kernel.fleet import (
    AMOUNTS,
    AT_ONCE,
    BLOCKED,
    DECISION,
    DRAW_A,
    DRAW_B,
    FOLLOWS,
    FROM,
    GPU,
    N_CHANGED,
    N_CLASSES,
    N_DIRTY,
    N_ENDED,
    N_FREED,
    N_FRESH,
    N_KINDS,
    N_LIVE,
    NONE,
    PICKED,
    SHARES,
    WHOLE,
    Fleet,
)
from sim.kernel.jit import kernel, noinline


@kernel
def insert(fleet: Fleet, line: list[int], first: int, n: int, task: int) -> None:
    """Insert a task into the heap of n entries that starts at slot `first` of `line`."""
    rank, slot = fleet.tasks[task].rank, n
    while slot > 0:
        above = (slot - 1) >> 1
        if fleet.tasks[line[first + above]].rank < rank:
            break
        line[first + slot] = line[first + above]
        slot = above
    line[first + slot] = task


@kernel
def remove_first(fleet: Fleet, line: list[int], first: int, n: int) -> None:
    """Remove the first task from the heap of n + 1 entries that starts at slot `first`."""
    task, slot, below = line[first + n], 0, 1
    rank = fleet.tasks[task].rank
    while below < n:
        if below + 1 < n and (
            fleet.tasks[line[first + below + 1]].rank < fleet.tasks[line[first + below]].rank
        ):
            below += 1
        if fleet.tasks[line[first + below]].rank > rank:
            break
        line[first + slot] = line[first + below]
        slot, below = below, 2 * below + 1
    line[first + slot] = task


@kernel
def cpu_pace(fleet: Fleet, task: int, machine: int) -> float:
    """Return the units of CPU work per second that a task instance does on a machine."""
    speed, host = fleet.speeds[task], fleet.hosts[machine]
    rate = speed.cpu_rate * (1.0 - speed.cpu_feels * (1.0 - host.cpu_speed))
    if fleet.cursor[SHARES] == 1 and host.n_computing > 1:
        rate = rate / host.n_computing
    return rate


@kernel
def gpu_pace(fleet: Fleet, task: int, machine: int) -> float:
    """Return the units of GPU work per second that a task instance does on a machine."""
    speed, host = fleet.speeds[task], fleet.hosts[machine]
    rate = speed.gpu_rate * (1.0 - speed.gpu_feels * (1.0 - host.gpu_speed))
    return rate * (1.0 - speed.feed * (1.0 - host.cpu_speed))


@noinline
@kernel
def begin(fleet: Fleet, instance: int, now_s: float) -> None:
    """Start the computation of an instance that is on a machine."""
    fleet.begin_s[instance] = now_s
    task, machine = fleet.task_of[instance], fleet.machine[instance]
    speed = fleet.speeds[task]
    if fleet.cursor[FOLLOWS] == 0:
        lasts_s = max(
            speed.cpu_work / cpu_pace(fleet, task, machine),
            speed.gpu_work / gpu_pace(fleet, task, machine),
        )
        fleet.end_s[instance] = now_s + lasts_s
        _note(fleet, instance)
        return
    progress, host = fleet.progress[instance], fleet.hosts[machine]
    progress.cpu_left, progress.gpu_left, progress.since_s = speed.cpu_work, speed.gpu_work, now_s
    progress.cpu_rate = progress.gpu_rate = 0.0
    progress.before, progress.after = NONE, host.first
    if host.first != NONE:
        fleet.progress[host.first].before = instance
    host.first = instance
    host.n_computing += 1
    mark_dirty(fleet, machine)


@kernel
def leave(fleet: Fleet, instance: int) -> None:
    """Remove an instance from its machine's list of computing instances."""
    if fleet.cursor[FOLLOWS] == 0:
        return
    progress, machine = fleet.progress[instance], fleet.machine[instance]
    host = fleet.hosts[machine]
    if progress.before == NONE:
        host.first = progress.after
    else:
        fleet.progress[progress.before].after = progress.after
    if progress.after != NONE:
        fleet.progress[progress.after].before = progress.before
    host.n_computing -= 1
    mark_dirty(fleet, machine)


@kernel
def mark_dirty(fleet: Fleet, machine: int) -> None:
    """Mark a machine so that the speeds of its instances are computed again."""
    host = fleet.hosts[machine]
    if host.is_dirty == 0:
        host.is_dirty = 1
        fleet.dirty[fleet.cursor[N_DIRTY]] = machine
        fleet.cursor[N_DIRTY] += 1


@kernel
def throttle(fleet: Fleet, machine: int, cpu_speed: float, gpu_speed: float) -> None:
    """Set the speeds of a machine, as shares of full speed, from now on."""
    fleet.hosts[machine].cpu_speed, fleet.hosts[machine].gpu_speed = cpu_speed, gpu_speed
    mark_dirty(fleet, machine)


@noinline
@kernel
def settle(fleet: Fleet, now_s: float) -> int:
    """Update instance speeds at the end of an instant and count the changed end times.

    They are listed in `changed`.
    """
    for i in range(fleet.cursor[N_DIRTY]):
        machine = fleet.dirty[i]
        fleet.hosts[machine].is_dirty = 0
        instance = fleet.hosts[machine].first
        while instance != NONE:
            progress, task = fleet.progress[instance], fleet.task_of[instance]
            cpu, gpu = cpu_pace(fleet, task, machine), gpu_pace(fleet, task, machine)
            if cpu != progress.cpu_rate or gpu != progress.gpu_rate:
                passed_s = now_s - progress.since_s
                progress.cpu_left = max(0.0, progress.cpu_left - progress.cpu_rate * passed_s)
                progress.gpu_left = max(0.0, progress.gpu_left - progress.gpu_rate * passed_s)
                progress.cpu_rate, progress.gpu_rate, progress.since_s = cpu, gpu, now_s
                fleet.end_s[instance] = now_s + max(
                    progress.cpu_left / cpu, progress.gpu_left / gpu
                )
                _note(fleet, instance)
            instance = progress.after
    fleet.cursor[N_DIRTY] = 0
    return fleet.cursor[N_CHANGED]


@kernel
def _note(fleet: Fleet, instance: int) -> None:
    fleet.changed[fleet.cursor[N_CHANGED]] = instance
    fleet.cursor[N_CHANGED] += 1


NEVER_S = float("nan")


@kernel
def has_room(fleet: Fleet, need: int, machine: int) -> bool:
    """Return whether a machine now has enough free resources for a resource request."""
    at, wants = machine * AMOUNTS, need * AMOUNTS
    for r in range(GPU):
        if fleet.free[at + r] < fleet.demand[wants + r]:
            return False
    host = fleet.hosts[machine]
    if fleet.suits[need * fleet.cursor[N_KINDS] + host.kind] == 0:
        return False
    part = fleet.demand[wants + GPU]
    if part == 0 or part >= WHOLE or host.n_whole > 0:
        return host.n_whole * WHOLE >= part
    if fleet.free[at + GPU] >= part:
        for device in range(host.first_device, host.behind_device):
            if fleet.devices[device] >= part:
                return True
    return False


@noinline
@kernel
def take(fleet: Fleet, need: int, machine: int, instance: int) -> None:
    """Allocate the requested resources to an instance on a machine that has room.

    Its GPUs are the first that have room; for a part of a GPU it is the one that was picked.
    """
    at, wants = machine * AMOUNTS, need * AMOUNTS
    for r in range(AMOUNTS):
        fleet.free[at + r] -= fleet.demand[wants + r]
    fleet.machine[instance] = machine
    _count(fleet, need, machine, instance, 1)
    part, first = fleet.demand[wants + GPU], fleet.cursor[PICKED]
    fleet.cursor[PICKED] = NONE
    if part == 0:
        return
    host = fleet.hosts[machine]
    if first == NONE or part >= WHOLE:
        first = host.first_device
    for device in range(first, host.behind_device):
        if part >= WHOLE and fleet.devices[device] == WHOLE:
            fleet.holder[device] = instance
            fleet.devices[device] = 0
            host.n_whole -= 1
            part -= WHOLE
        elif 0 < part < WHOLE and fleet.devices[device] >= part:
            if fleet.devices[device] == WHOLE:
                host.n_whole -= 1
            fleet.devices[device] -= part
            part = 0
        else:
            continue
        if fleet.device[instance] == NONE:
            fleet.device[instance] = device
        if part == 0:
            break


@noinline
@kernel
def give_back(fleet: Fleet, need: int, instance: int) -> None:
    """Release the resources of an instance, but keep the record of its machine."""
    machine = fleet.machine[instance]
    at, wants = machine * AMOUNTS, need * AMOUNTS
    for r in range(AMOUNTS):
        fleet.free[at + r] += fleet.demand[wants + r]
    _count(fleet, need, machine, instance, -1)
    part = fleet.demand[wants + GPU]
    if part == 0:
        return
    host = fleet.hosts[machine]
    if part < WHOLE:
        device = fleet.device[instance]
        fleet.devices[device] += part
        if fleet.devices[device] == WHOLE:
            host.n_whole += 1
        return
    for device in range(fleet.device[instance], host.behind_device):
        if fleet.holder[device] == instance:
            fleet.holder[device] = NONE
            fleet.devices[device] = WHOLE
            host.n_whole += 1


@kernel
def _count(fleet: Fleet, need: int, machine: int, instance: int, more: int) -> None:
    """Update the counts of the resources in use."""
    gauges = fleet.gauges
    fleet.hosts[machine].version += 1
    if len(gauges.class_of) > 0 and gauges.class_of[need] != NONE:
        of_class = machine * fleet.cursor[N_CLASSES] + gauges.class_of[need]
        gauges.n_of_class[of_class] += more
    if len(gauges.group_of) > 0:
        holds = gauges.group_of[fleet.tasks[fleet.task_of[instance]].job] * AMOUNTS
        for r in range(AMOUNTS):
            gauges.group_usage[holds + r] += more * fleet.demand[need * AMOUNTS + r]


@noinline
@kernel
def submit(fleet: Fleet, job: int) -> None:
    """Submit a job by queuing its tasks that have no parents."""
    gang = fleet.gangs[job]
    for task in range(gang.first_task, gang.behind_task):
        if fleet.tasks[task].n_parents == 0:
            _let_wait(fleet, task)


@noinline
@kernel
def end(fleet: Fleet, instance: int) -> None:
    """Release the machine of a finished instance and queue tasks that became ready."""
    task = fleet.task_of[instance]
    task_row = fleet.tasks[task]
    give_back(fleet, task_row.need, instance)
    leave(fleet, instance)
    host, next_decision = fleet.hosts[fleet.machine[instance]], fleet.cursor[DECISION] + 1
    if host.freed_at != next_decision:
        host.freed_at = next_decision
        fleet.freed[fleet.cursor[N_FREED]] = fleet.machine[instance]
        fleet.cursor[N_FREED] += 1
    fleet.cursor[N_ENDED] += 1
    task_row.n_left -= 1
    if task_row.n_left > 0:
        return
    for i in range(fleet.first_child[task], fleet.first_child[task + 1]):
        child = fleet.child[i]
        fleet.tasks[child].n_parents -= 1
        if fleet.tasks[child].n_parents == 0:
            _let_wait(fleet, child)


@noinline
@kernel
def _let_wait(fleet: Fleet, task: int) -> None:
    """Queue a task that is ready, or its whole gang if that is placed at once."""
    if fleet.cursor[AT_ONCE] == 1 and fleet.tasks[task].is_gang == 1:
        gang = fleet.gangs[fleet.tasks[task].job]
        gang.n_unready -= 1
        if gang.n_unready > 0:
            return
        task = gang.leader
    index = fleet.tasks[task].queued_as
    need = fleet.needs[index]
    if need.n_waiting == 0:
        need.place = fleet.cursor[N_LIVE]
        fleet.live[fleet.cursor[N_LIVE]] = index
        fleet.fresh[fleet.cursor[N_FRESH]] = index
        fleet.cursor[N_LIVE] += 1
        fleet.cursor[N_FRESH] += 1
    insert(fleet, fleet.queue, need.first, need.n_waiting, task)
    need.n_waiting += 1
    need.n_unplaced += _size(fleet, task)
    blocked = fleet.cursor[BLOCKED]
    if blocked != NONE and fleet.tasks[task].rank < fleet.tasks[blocked].rank:
        fleet.needs[fleet.tasks[blocked].queued_as].is_stuck = 0
        fleet.cursor[BLOCKED] = NONE


@kernel
def _size(fleet: Fleet, task: int) -> int:
    """Return the number of unplaced instances that a task in the queue represents."""
    task_row = fleet.tasks[task]
    if fleet.needs[task_row.queued_as].is_gang == 1:
        return fleet.gangs[task_row.job].n_unplaced
    return task_row.behind - task_row.placed


@kernel
def _stop_waiting(fleet: Fleet, task: int) -> None:
    """Remove the first task of a need from the queue."""
    need = fleet.needs[fleet.tasks[task].queued_as]
    need.n_waiting -= 1
    remove_first(fleet, fleet.queue, need.first, need.n_waiting)
    if need.n_waiting == 0:
        forget_need(fleet, fleet.tasks[task].queued_as)


@kernel
def forget_need(fleet: Fleet, index: int) -> None:
    """Remove a resource request from the list of the requests that waiting tasks have."""
    place = fleet.needs[index].place
    fleet.cursor[N_LIVE] -= 1
    last = fleet.live[fleet.cursor[N_LIVE]]
    fleet.live[place] = last
    fleet.needs[last].place = place


@noinline
@kernel
def serve_in_turn(fleet: Fleet, choose: Any, now_s: float) -> int:
    """Place tasks strictly in queue order, and stop at the first instance without room.

    Everything that ends and is submitted at this time has been applied. Return how many instances
    got an end.
    """
    fleet.cursor[DECISION] += 1
    fleet.cursor[N_CHANGED] = 0
    while fleet.cursor[N_LIVE] > 0:
        task = fleet.cursor[BLOCKED]
        if task == NONE:
            task = _first_in_queue(fleet)
        if not _place_any(fleet, choose, task, now_s):
            fleet.cursor[BLOCKED] = task
            break
        fleet.cursor[BLOCKED] = NONE
        _stop_waiting(fleet, task)
    fleet.cursor[N_FREED] = 0
    fleet.cursor[N_FRESH] = 0
    return fleet.cursor[N_CHANGED]


@noinline
@kernel
def serve_whoever_fits(fleet: Fleet, choose: Any, now_s: float) -> int:
    """Place every task that has room, in queue order, skipping those without room."""
    fleet.cursor[DECISION] += 1
    fleet.cursor[N_CHANGED] = 0
    n = 0
    for i in range(fleet.cursor[N_FRESH]):
        need = fleet.needs[fleet.fresh[i]]
        insert(fleet, fleet.heads, 0, n, fleet.queue[need.first])
        n += 1
    if fleet.cursor[N_FREED] > 0:
        for i in range(fleet.cursor[N_LIVE]):
            need = fleet.needs[fleet.live[i]]
            if need.is_stuck == 1 and first_start(fleet, fleet.live[i]) != NONE:
                insert(fleet, fleet.heads, 0, n, fleet.queue[need.first])
                n += 1
    while n > 0:
        task = fleet.heads[0]
        n -= 1
        remove_first(fleet, fleet.heads, 0, n)
        if _place_any(fleet, choose, task, now_s):
            _stop_waiting(fleet, task)
            need = fleet.needs[fleet.tasks[task].queued_as]
            if need.n_waiting > 0:
                insert(fleet, fleet.heads, 0, n, fleet.queue[need.first])
                n += 1
    fleet.cursor[N_FREED] = 0
    fleet.cursor[N_FRESH] = 0
    return fleet.cursor[N_CHANGED]


@kernel
def _first_in_queue(fleet: Fleet) -> int:
    first = NONE
    for i in range(fleet.cursor[N_LIVE]):
        task = fleet.queue[fleet.needs[fleet.live[i]].first]
        if first == NONE or fleet.tasks[task].rank < fleet.tasks[first].rank:
            first = task
    return first


@kernel
def _place_any(fleet: Fleet, choose: Any, task: int, now_s: float) -> bool:
    """Place the instances that a task in the queue represents; return whether all are placed."""
    need = fleet.needs[fleet.tasks[task].queued_as]
    if need.is_gang == 1:
        is_placed = place_gang(fleet, choose, task, now_s)
    else:
        is_placed = _place(fleet, choose, task, now_s)
    need.is_stuck = 0 if is_placed else 1
    return is_placed


@kernel
def first_start(fleet: Fleet, index: int) -> int:
    """Return the first machine to search for room for a resource request; -1 if none has room."""
    need, decision = fleet.needs[index], fleet.cursor[DECISION]
    if need.seen_at == decision:
        return need.start
    need.seen_at, need.start = decision, 0
    if need.is_stuck == 1:
        need.start = NONE
        for i in range(fleet.cursor[N_FREED]):
            machine = fleet.freed[i]
            if (need.start == NONE or machine < need.start) and (
                need.is_gang == 1 or has_room(fleet, index, machine)
            ):
                need.start = machine
    return need.start


@kernel
def _place(fleet: Fleet, choose: Any, task: int, now_s: float) -> bool:
    """Place instances of a task while there is room; return whether all are placed."""
    task_row = fleet.tasks[task]
    while task_row.placed < task_row.behind and place_one(fleet, choose, task, now_s):
        pass
    return task_row.placed == task_row.behind


@kernel
def place_one(fleet: Fleet, choose: Any, task: int, now_s: float) -> bool:
    """Place the next instance of a task and return whether a machine had room."""
    task_row = fleet.tasks[task]
    start, need = first_start(fleet, task_row.need), fleet.needs[task_row.need]
    if start == NONE:
        return False
    fleet.cursor[FROM] = start
    machine = choose(fleet, task_row.need, start)
    if machine == NONE:
        need.start = NONE
        return False
    need.start = fleet.cursor[FROM]
    place_on(fleet, task, machine, now_s)
    return True


@kernel
def place_on(fleet: Fleet, task: int, machine: int, now_s: float) -> None:
    """Place the next instance of a task on a machine with room."""
    task_row = fleet.tasks[task]
    instance = task_row.placed
    take(fleet, task_row.need, machine, instance)
    fleet.start_s[instance] = now_s
    task_row.placed += 1
    fleet.needs[task_row.need].n_unplaced -= 1
    if task_row.is_gang == 0:
        begin(fleet, instance, now_s)
    else:
        gang = fleet.gangs[task_row.job]
        gang.n_unplaced -= 1
        if gang.n_unplaced == 0:
            _begin_gang(fleet, task_row.job, now_s)


@kernel
def place_gang(fleet: Fleet, choose: Any, leader: int, now_s: float) -> bool:
    """Place either all instances of a gang or none, and return whether they are placed."""
    if first_start(fleet, fleet.tasks[leader].queued_as) == NONE:
        return False
    job = fleet.tasks[leader].job
    gang = fleet.gangs[job]
    has_all, task = True, leader
    draw_a, draw_b = fleet.cursor[DRAW_A], fleet.cursor[DRAW_B]
    while has_all and task < gang.behind_task:
        task_row = fleet.tasks[task]
        fleet.cursor[FROM] = 0
        while has_all and task_row.is_gang == 1 and task_row.placed < task_row.behind:
            machine = choose(fleet, task_row.need, fleet.cursor[FROM])
            if machine == NONE:
                has_all = False
            else:
                take(fleet, task_row.need, machine, task_row.placed)
                fleet.start_s[task_row.placed] = now_s
                task_row.placed += 1
        task += 1
    if has_all:
        fleet.needs[fleet.tasks[leader].queued_as].n_unplaced -= gang.n_unplaced
        gang.n_unplaced = 0
        _begin_gang(fleet, job, now_s)
        return True
    fleet.cursor[DRAW_A], fleet.cursor[DRAW_B] = draw_a, draw_b
    for other in range(leader, task):
        task_row = fleet.tasks[other]
        first = task_row.behind - task_row.n_left
        while task_row.is_gang == 1 and task_row.placed > first:
            task_row.placed -= 1
            give_back(fleet, task_row.need, task_row.placed)
            fleet.machine[task_row.placed] = NONE
            fleet.device[task_row.placed] = NONE
            fleet.start_s[task_row.placed] = NEVER_S
    return False


@kernel
def _begin_gang(fleet: Fleet, job: int, now_s: float) -> None:
    gang = fleet.gangs[job]
    for task in range(gang.first_task, gang.behind_task):
        task_row = fleet.tasks[task]
        if task_row.is_gang == 1:
            for instance in range(task_row.behind - task_row.n_left, task_row.behind):
                begin(fleet, instance, now_s)
