"""How instances compute: what they have left, how fast they go, when that changes.

Work that is left is reckoned up when a speed changes, and only then, so that it does not matter
how often anybody looks.
"""

from sim.kernel.fleet import FOLLOWS, N_CHANGED, N_DIRTY, NONE, SHARES, Fleet
from sim.kernel.text import apart, kernel


@kernel
def cpu_pace(fleet: Fleet, task: int, machine: int) -> float:
    """Return CPU units per second of an instance of a task on a machine."""
    speed, host = fleet.speeds[task], fleet.hosts[machine]
    rate = speed.cpu_rate * (1.0 - speed.cpu_feels * (1.0 - host.cpu_speed))
    if fleet.cursor[SHARES] == 1 and host.n_computing > 1:
        rate = rate / host.n_computing
    return rate


@kernel
def gpu_pace(fleet: Fleet, task: int, machine: int) -> float:
    """Return GPU units per second of an instance of a task on a machine."""
    speed, host = fleet.speeds[task], fleet.hosts[machine]
    rate = speed.gpu_rate * (1.0 - speed.gpu_feels * (1.0 - host.gpu_speed))
    return rate * (1.0 - speed.feed * (1.0 - host.cpu_speed))


@apart
@kernel
def begin(fleet: Fleet, instance: int, now_s: float) -> None:
    """Let an instance that is on a machine begin to compute."""
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
    one, host = fleet.progress[instance], fleet.hosts[machine]
    one.cpu_left, one.gpu_left, one.since_s = speed.cpu_work, speed.gpu_work, now_s
    one.cpu_rate = one.gpu_rate = 0.0
    one.before, one.after = NONE, host.first
    if host.first != NONE:
        fleet.progress[host.first].before = instance
    host.first = instance
    host.n_computing += 1
    soil(fleet, machine)


@kernel
def leave(fleet: Fleet, instance: int) -> None:
    """Take an instance out of those that compute on its machine."""
    if fleet.cursor[FOLLOWS] == 0:
        return
    one, machine = fleet.progress[instance], fleet.machine[instance]
    host = fleet.hosts[machine]
    if one.before == NONE:
        host.first = one.after
    else:
        fleet.progress[one.before].after = one.after
    if one.after != NONE:
        fleet.progress[one.after].before = one.before
    host.n_computing -= 1
    soil(fleet, machine)


@kernel
def soil(fleet: Fleet, machine: int) -> None:
    """Note that speeds on a machine may have to change."""
    host = fleet.hosts[machine]
    if host.is_dirty == 0:
        host.is_dirty = 1
        fleet.dirty[fleet.cursor[N_DIRTY]] = machine
        fleet.cursor[N_DIRTY] += 1


@kernel
def throttle(fleet: Fleet, machine: int, cpu_speed: float, gpu_speed: float) -> None:
    """Let a machine run at other shares of its full speed from now on."""
    fleet.hosts[machine].cpu_speed, fleet.hosts[machine].gpu_speed = cpu_speed, gpu_speed
    soil(fleet, machine)


@apart
@kernel
def settle(fleet: Fleet, now_s: float) -> int:
    """Change speeds where they have to change, at the end of an instant.

    Returns:
        How many instances have got a new end in this instant; they are listed in `changed`.
    """
    for i in range(fleet.cursor[N_DIRTY]):
        machine = fleet.dirty[i]
        fleet.hosts[machine].is_dirty = 0
        instance = fleet.hosts[machine].first
        while instance != NONE:
            one, task = fleet.progress[instance], fleet.task_of[instance]
            cpu, gpu = cpu_pace(fleet, task, machine), gpu_pace(fleet, task, machine)
            if cpu != one.cpu_rate or gpu != one.gpu_rate:
                passed_s = now_s - one.since_s
                one.cpu_left = max(0.0, one.cpu_left - one.cpu_rate * passed_s)
                one.gpu_left = max(0.0, one.gpu_left - one.gpu_rate * passed_s)
                one.cpu_rate, one.gpu_rate, one.since_s = cpu, gpu, now_s
                fleet.end_s[instance] = now_s + max(one.cpu_left / cpu, one.gpu_left / gpu)
                _note(fleet, instance)
            instance = one.after
    fleet.cursor[N_DIRTY] = 0
    return fleet.cursor[N_CHANGED]


@kernel
def _note(fleet: Fleet, instance: int) -> None:
    fleet.changed[fleet.cursor[N_CHANGED]] = instance
    fleet.cursor[N_CHANGED] += 1
