"""Decision by a network that scores pairs of a task and a machine, for compiled simulations.

The kernel text of `sim.placement.learned`: the same features in the same order, the same network,
and the same choice. All that does not change in a simulation lies in one column, the options of the
fleet's gauges (`packed`). Within a decision a score is computed again only where a feature of its
pair may have changed, and machines in equal states share scores at its begin.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sim.kernel.fleet import AMOUNTS, DECISION, N_CHANGED, N_FREED, N_FRESH, N_LIVE, NONE, Fleet
from sim.kernel.instances import forget_need, has_room, insert, place_on, remove_first
from sim.kernel.jit import kernel, noinline

Floats = NDArray[np.float64]

SAME_SCORE = 1e-9
"""Scores that differ less are equal: sums of floats depend on the machine."""

FARTHEST = 5.0
"""Standard deviations from the mean at which a feature is cut."""

N_PAIRS, N_GRAPH, N_JOBS = 13, 17, 22
"""Numbers of features of the three sets; each begins with the one before."""

OF_TASK, OF_JOB = 5, 2
"""Columns of `NetworkTables.tasks` and `NetworkTables.jobs`."""

N_FEATURES, N_FIRST, N_SECOND, SCALE, LARGEST, TASKS, JOBS, WEIGHTS = 0, 1, 2, 3, 4, 8, 9, 10
HEAD = 11
"""Positions in the packed column: sizes of the layers, unit of times, largest amounts of a machine,
and where tasks, jobs and weights begin; behind them lie these."""


class NetworkTables(NamedTuple):
    """Everything that a network needs and that does not change in a simulation.

    Attributes:
        layers: numbers of features, and of units of both layers.
        scale_s: unit of times.
        largest: float64 [AMOUNTS], amounts of the largest machine; infinite where none has any.
        tasks: float64 [n_tasks, OF_TASK], logarithms of path to the end, depth, children and tasks
            behind, and seconds times share of the largest machine.
        jobs: float64 [n_jobs, OF_JOB], logarithm of the longest path, and submission.
        weights: mean and deviation of the features, the linear part, weights and biases of both
            layers, and the output, each flattened.
    """

    layers: tuple[int, int, int]
    scale_s: float
    largest: Floats
    tasks: Floats
    jobs: Floats
    weights: tuple[Floats, ...]


def packed(tables: NetworkTables) -> Floats:
    """Return the tables in one column: float64 [...]."""
    at_tasks, at_jobs = HEAD, HEAD + tables.tasks.size
    head = [*tables.layers, tables.scale_s, *tables.largest, at_tasks, at_jobs]
    parts = [
        np.array([*head, at_jobs + tables.jobs.size]), tables.tasks.ravel(), tables.jobs.ravel(),
        *(array.ravel() for array in tables.weights),
    ]  # fmt: skip
    return np.concatenate(parts).astype(np.float64)


@kernel
def read_task(fleet: Fleet, task: int, now_s: float, x: int) -> None:
    """Write the features of a ready task that are equal on all machines, from `x` on."""
    data, line, row = fleet.gauges.options, fleet.gauges.cached_scores, fleet.tasks[task]
    wants, scale_s = row.need * AMOUNTS, data[SCALE]
    for r in range(AMOUNTS):
        line[x + AMOUNTS + r] = fleet.demand[wants + r] / data[LARGEST + r]
    n = row.behind - (fleet.tasks[task - 1].behind if task > 0 else 0)
    n_waiting = row.behind - row.placed
    line[x + 9], line[x + 10] = math.log1p(n_waiting), math.log1p(n)
    line[x + 11], line[x + 12] = math.log1p(row.n_left - n_waiting), math.log1p(n - row.n_left)
    if data[N_FEATURES] == N_PAIRS:
        return
    at = int(data[TASKS]) + task * OF_TASK
    for i in range(N_GRAPH - N_PAIRS):
        line[x + N_PAIRS + i] = data[at + i]
    if data[N_FEATURES] == N_GRAPH:
        return
    gang, left_s, n_running = fleet.gangs[row.job], 0.0, 0
    for other in range(gang.first_task, gang.behind_task):
        one = fleet.tasks[other]
        left_s += one.n_left * data[int(data[TASKS]) + other * OF_TASK + OF_TASK - 1]
        n_running += one.n_left - (one.behind - one.placed)
    at, x = int(data[JOBS]) + row.job * OF_JOB, x + N_GRAPH
    line[x], line[x + 1] = math.log1p(left_s / scale_s), data[at]
    line[x + 2], line[x + 3] = (
        math.log1p(n_running),
        math.log1p((now_s - data[at + 1]) / scale_s),
    )


@kernel
def read_machine(fleet: Fleet, task: int, machine: int, x: int) -> None:
    """Write the features of a pair that depend on the machine, beside those of its task."""
    data, line, at = fleet.gauges.options, fleet.gauges.cached_scores, machine * AMOUNTS
    along = 0.0
    for r in range(AMOUNTS):
        line[x + r] = min(fleet.free[at + r] / data[LARGEST + r], 1.0)
        along += line[x + r] * line[x + AMOUNTS + r]
    speed, host = fleet.speeds[task], fleet.hosts[machine]
    cpu = speed.cpu_rate * (1.0 - speed.cpu_feels * (1.0 - host.cpu_speed))
    gpu = speed.gpu_rate * (1.0 - speed.gpu_feels * (1.0 - host.gpu_speed))
    gpu = gpu * (1.0 - speed.feed * (1.0 - host.cpu_speed))
    runs_s = max(speed.cpu_work / cpu, speed.gpu_work / gpu)
    line[x + 8] = math.log1p(runs_s / data[SCALE])
    if data[N_FEATURES] == N_JOBS:
        line[x + N_JOBS - 1] = along


@kernel
def score_of_features(data: list[float], line: list[float], x: int) -> float:
    """Return the score of the pair whose features begin at `line[x]`; its units lie behind them."""
    n, n_first, n_second = int(data[N_FEATURES]), int(data[N_FIRST]), int(data[N_SECOND])
    mean, first, second = int(data[WEIGHTS]), x + n, x + n + n_first
    deviation, direct, into_1 = mean + n, mean + 2 * n, mean + 3 * n
    bias_1 = into_1 + n * n_first
    into_2 = bias_1 + n_first
    bias_2 = into_2 + n_first * n_second
    out, score = bias_2 + n_second, 0.0
    for j in range(n_first):
        line[first + j] = data[bias_1 + j]
    for i in range(n):
        value = (line[x + i] - data[mean + i]) / data[deviation + i]
        value = min(max(value, -FARTHEST), FARTHEST)
        score += value * data[direct + i]
        for j in range(n_first):
            line[first + j] += value * data[into_1 + i * n_first + j]
    for k in range(n_second):
        line[second + k] = data[bias_2 + k]
    for j in range(n_first):
        value = math.tanh(line[first + j])
        for k in range(n_second):
            line[second + k] += value * data[into_2 + j * n_second + k]
    for k in range(n_second):
        score += math.tanh(line[second + k]) * data[out + k]
    return score


@kernel
def score_on(fleet: Fleet, task: int, machine: int, x: int) -> float:
    """Return the score of a pair, whose task's features were read."""
    read_machine(fleet, task, machine, x)
    return score_of_features(fleet.gauges.options, fleet.gauges.cached_scores, x)


@kernel
def is_like(fleet: Fleet, machine: int, other: int) -> bool:
    """Return whether two machines are of one kind and speed with the same resources free."""
    one, two = fleet.hosts[machine], fleet.hosts[other]
    if one.kind != two.kind or one.cpu_speed != two.cpu_speed or one.gpu_speed != two.gpu_speed:
        return False
    for r in range(AMOUNTS):
        if fleet.free[machine * AMOUNTS + r] != fleet.free[other * AMOUNTS + r]:
            return False
    if one.behind_device - one.first_device != two.behind_device - two.first_device:
        return False
    for i in range(one.behind_device - one.first_device):
        if fleet.devices[one.first_device + i] != fleet.devices[two.first_device + i]:
            return False
    return True


@kernel
def list_tasks(fleet: Fleet, heap: int) -> int:
    """List the waiting tasks by rank at the begin of `kept_at`, and return their number."""
    line, n = fleet.gauges.kept_at, 0
    for i in range(fleet.cursor[N_LIVE]):
        need = fleet.needs[fleet.live[i]]
        for slot in range(need.first, need.first + need.n_waiting):
            insert(fleet, line, heap, n, fleet.queue[slot])
            n += 1
    for i in range(n):
        line[i] = line[heap]
        remove_first(fleet, line, heap, n - 1 - i)
    return n


@kernel
def list_machines(fleet: Fleet, first: int, twin: int) -> int:
    """List the machines with room for a waiting task at `kept_at[first]`; return their number.

    At `twin` stands the place of the first machine in the list that is in the same state, or -1.
    """
    line, n = fleet.gauges.kept_at, 0
    for machine in range(len(fleet.hosts)):
        is_open = False
        for i in range(fleet.cursor[N_LIVE]):
            is_open = is_open or has_room(fleet, fleet.live[i], machine)
        if not is_open:
            continue
        line[first + n], line[twin + n], other = machine, NONE, 0
        while other < n and line[twin + n] == NONE:
            if line[twin + other] == NONE and is_like(fleet, machine, line[first + other]):
                line[twin + n] = other
            other += 1
        n += 1
    return n


@kernel
def stop_waiting(fleet: Fleet, task: int) -> None:
    """Remove any task from the queue of its need, which is no heap in these decisions."""
    index = fleet.tasks[task].need
    need = fleet.needs[index]
    need.n_waiting -= 1
    slot = need.first
    while fleet.queue[slot] != task:
        slot += 1
    fleet.queue[slot] = fleet.queue[need.first + need.n_waiting]
    if need.n_waiting == 0:
        forget_need(fleet, index)


@kernel
def part_twins(line: list[int], twin: int, n: int, place: int) -> int:
    """Let the first twin of a machine stand for the others, and return its place; -1 is none."""
    heir = NONE
    for other in range(place + 1, n):
        if line[twin + other] == place:
            line[twin + other] = heir
            heir = other if heir == NONE else heir
    return heir


@kernel
def score_row(fleet: Fleet, i: int, n_machines: int, now_s: float) -> None:
    """Compute the best score of a listed task, and where it is."""
    n_tasks, best, line = len(fleet.tasks), fleet.gauges.cached_scores, fleet.gauges.kept_at
    task, machines, twin = line[i], 2 * n_tasks, 2 * n_tasks + len(fleet.hosts)
    best[i], line[n_tasks + i] = -math.inf, NONE
    for place in range(n_machines):
        machine = line[machines + place]
        if line[twin + place] == NONE and has_room(fleet, fleet.tasks[task].need, machine):
            if line[n_tasks + i] == NONE:
                read_task(fleet, task, now_s, n_tasks)
            score = score_on(fleet, task, machine, n_tasks)
            if score > best[i]:
                best[i], line[n_tasks + i] = score, place


@kernel
def score_place(fleet: Fleet, i: int, place: int, heir: int, now_s: float) -> None:
    """Compute the score of a listed task on a machine that has changed.

    If that machine was its best place, the heir is now: it is in the state of before.
    """
    n_tasks, best, line = len(fleet.tasks), fleet.gauges.cached_scores, fleet.gauges.kept_at
    task, machine = line[i], line[2 * n_tasks + place]
    if line[n_tasks + i] == place:
        line[n_tasks + i] = heir
    if has_room(fleet, fleet.tasks[task].need, machine):
        read_task(fleet, task, now_s, n_tasks)
        score = score_on(fleet, task, machine, n_tasks)
        if score > best[i]:
            best[i], line[n_tasks + i] = score, place


@kernel
def score_all(fleet: Fleet, n: int, n_machines: int, last: int, heir: int, now_s: float) -> float:
    """Compute the scores that have changed, and return the least that is equal to the best.

    Args:
        fleet: the fleet.
        n: number of listed tasks.
        n_machines: number of listed machines.
        last: place in the list of the task that was placed last; -1 computes all scores.
        heir: place of the machine that is now as the last one was; -1 is none.
        now_s: present time.
    """
    n_tasks, best, line = len(fleet.tasks), fleet.gauges.cached_scores, fleet.gauges.kept_at
    sees_jobs, limit = fleet.gauges.options[N_FEATURES] == N_JOBS, -math.inf
    place = NONE if last == NONE else line[n_tasks + last]
    for i in range(n):
        row = fleet.tasks[line[i]]
        if row.placed == row.behind:
            best[i] = -math.inf
            continue
        is_stale = last in (NONE, i) or (line[n_tasks + i] == place and heir == NONE)
        if not is_stale and sees_jobs:
            is_stale = row.job == fleet.tasks[line[last]].job
        if is_stale:
            score_row(fleet, i, n_machines, now_s)
        elif line[n_tasks + i] != NONE:  # else it has no room, and gets none in this decision
            score_place(fleet, i, place, heir, now_s)
        limit = max(limit, best[i] - SAME_SCORE)
    return limit


@noinline
@kernel
def serve_by_network(fleet: Fleet, choose: Any, now_s: float) -> int:  # noqa: ARG001 - a decision
    """Place the instance of the pair with the best score, again and again while any has room.

    Of equal scores the first is taken, by the ranks of the tasks and then by the numbers of the
    machines. Return how many instances got an end.
    """
    fleet.cursor[DECISION] += 1
    fleet.cursor[N_CHANGED] = 0
    n_tasks, best, line = len(fleet.tasks), fleet.gauges.cached_scores, fleet.gauges.kept_at
    machines, twin = 2 * n_tasks, 2 * n_tasks + len(fleet.hosts)
    n, n_machines = list_tasks(fleet, n_tasks), list_machines(fleet, machines, twin)
    limit = -math.inf if n_machines == 0 else score_all(fleet, n, n_machines, NONE, NONE, now_s)
    while limit > -math.inf:
        i, place = 0, 0
        while best[i] < limit:
            i += 1
        task = line[i]
        read_task(fleet, task, now_s, n_tasks)
        while (
            line[twin + place] != NONE
            or not has_room(fleet, fleet.tasks[task].need, line[machines + place])
            or score_on(fleet, task, line[machines + place], n_tasks) < limit
        ):
            place += 1
        line[n_tasks + i] = place
        place_on(fleet, task, line[machines + place], now_s)
        if fleet.tasks[task].placed == fleet.tasks[task].behind:
            stop_waiting(fleet, task)
        heir = part_twins(line, twin, n_machines, place)
        limit = score_all(fleet, n, n_machines, i, heir, now_s)
    fleet.cursor[N_FREED] = 0
    fleet.cursor[N_FRESH] = 0
    return fleet.cursor[N_CHANGED]
