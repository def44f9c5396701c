"""A slow, plain reference for jobs of tasks on machines, in the manner of CloudSimPy.

It shares nothing with the product: plain lists of objects, and who waits is thought out anew at
every poll. A poll asks `choose(machines, tasks, now)` for a machine and a task again and again,
until one of them is None, and places one instance of the task each time. Polls are at every tick,
or, without one, at every time at which something ended or came. What ends or comes at the very
time of a poll is seen by it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from heapq import heappop, heappush
from math import inf

from sim import Scenario

AMOUNTS = ("mcpu", "mem_bytes", "disk_bytes")


@dataclass(eq=False)
class NaiveMachine:
    """A machine and who is on it."""

    number: int
    has: dict[str, float]
    free: dict[str, float] = field(default_factory=dict)
    instances: dict[int, "NaiveInstance"] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.free = dict(self.has)

    def accommodates(self, task: "NaiveTask") -> bool:
        free, takes = self.free, task.takes
        return (
            free["mcpu"] >= takes["mcpu"]
            and free["mem_bytes"] >= takes["mem_bytes"]
            and free["disk_bytes"] >= takes["disk_bytes"]
        )

    def come(self, one: "NaiveInstance") -> None:
        self.instances[id(one)] = one
        for amount in AMOUNTS:
            self.free[amount] -= one.task.takes[amount]

    def leave(self, one: "NaiveInstance") -> None:
        del self.instances[id(one)]
        for amount in AMOUNTS:
            self.free[amount] += one.task.takes[amount]


@dataclass(eq=False)
class NaiveTask:
    """A task; its instances begin in the order in which they are listed."""

    number: int
    job: int
    submit_s: float
    runtime_s: float
    takes: dict[str, float]
    n_instances: int
    parents: list["NaiveTask"]
    of_job: list["NaiveTask"]
    instances: list["NaiveInstance"] = field(default_factory=list)
    n_over: int = 0

    @cached_property
    def asks(self) -> tuple[float, ...]:
        return tuple(self.takes.values())

    def is_finished(self) -> bool:
        return self.n_over == self.n_instances

    def is_waiting(self, now: float) -> bool:
        return (
            self.submit_s <= now
            and len(self.instances) < self.n_instances
            and all(parent.is_finished() for parent in self.parents)
        )


@dataclass(eq=False)
class NaiveInstance:
    """An instance on a machine."""

    task: NaiveTask
    machine: NaiveMachine
    start_s: float

    @property
    def end_s(self) -> float:
        return self.start_s + self.task.runtime_s


Choose = Callable[
    [list[NaiveMachine], list[NaiveTask], float], tuple[NaiveMachine | None, NaiveTask | None]
]


def first_fit(
    machines: list[NaiveMachine], tasks: list[NaiveTask], now: float
) -> tuple[NaiveMachine | None, NaiveTask | None]:
    """Return the first task that has room anywhere, and the first machine that has it."""
    nowhere = set()
    for task in tasks:
        if task.asks in nowhere:
            continue
        for machine in machines:
            if machine.accommodates(task):
                return machine, task
        nowhere.add(task.asks)
    return None, None


def first_fit_of_cloudsimpy(
    machines: list[NaiveMachine], tasks: list[NaiveTask], now: float
) -> tuple[NaiveMachine | None, NaiveTask | None]:
    """Return what CloudSimPy's own first fit does: it leaves the inner loop only.

    So it is the last machine that has room for any task, and the first task for it.
    """
    found: tuple[NaiveMachine | None, NaiveTask | None] = (None, None)
    for machine in machines:
        for task in tasks:
            if machine.accommodates(task):
                found = machine, task
                break
    return found


def tasks_of(scenario: Scenario) -> list[NaiveTask]:
    workload, told = scenario.workload, scenario.workload.tasks
    assert told is not None
    assert told.work is None
    assert not told.gang.any()
    assert not told.mgpu.any()
    made: list[NaiveTask] = []
    for t in range(told.n_tasks):
        job = int(told.job[t])
        takes = {amount: int(getattr(told, amount)[t]) for amount in AMOUNTS}
        made.append(
            NaiveTask(t, job, float(workload.submit_s[job]), float(told.runtime_s[t]), takes,
                      int(told.instances[t]), [], [])
        )  # fmt: skip
    for t, task in enumerate(made):
        task.parents = [
            made[p] for p in told.parent_task[told.first_parent[t] : told.first_parent[t + 1]]
        ]
    of_jobs: dict[int, list[NaiveTask]] = {}
    for task in made:
        task.of_job = of_jobs.setdefault(task.job, [])
        task.of_job.append(task)
    return made


def machines_of(scenario: Scenario) -> list[NaiveMachine]:
    made: list[NaiveMachine] = []
    for spec in scenario.cluster.partitions[0].machines:
        for _ in range(spec.count):
            has = {"mcpu": 1000.0 * spec.procs, "mem_bytes": float(spec.mem_bytes or inf),
                   "disk_bytes": float(spec.disk_bytes or inf)}  # fmt: skip
            made.append(NaiveMachine(len(made), has))
    return made


def simulate(
    scenario: Scenario,
    choose: Choose = first_fit,
    *,
    tick_s: float | None = None,
    key: Callable[[NaiveTask], tuple[float, ...]] | None = None,
) -> list[NaiveTask]:
    """Return all tasks with their instances as they ran.

    Args:
        scenario: its jobs and machines; no gangs, GPUs and units of work.
        choose: see the head of this module.
        tick_s: between polls; None polls whenever something ended or came.
        key: tasks are shown in the order of it; by job and row if None.
    """
    tasks, machines = tasks_of(scenario), machines_of(scenario)
    line = tasks if key is None else sorted(tasks, key=lambda t: (*key(t), t.number))
    ends: list[tuple[float, int, NaiveInstance]] = []
    coming = sorted({task.submit_s for task in tasks}, reverse=True)
    n_left, n_polls, now = sum(task.n_instances for task in tasks), 0, -inf
    while n_left > 0:
        if tick_s is not None:
            now = n_polls * tick_s
        else:
            later = [end_s for end_s, _, _ in ends[:1]] + coming[-1:]
            assert later, "nothing will happen any more"
            now = min(later)
        n_polls += 1
        while coming and coming[-1] <= now:
            coming.pop()
        while ends and ends[0][0] <= now:
            one = heappop(ends)[2]
            one.task.n_over += 1
            one.machine.leave(one)
            n_left -= 1
        line = [task for task in line if len(task.instances) < task.n_instances]
        waiting = [task for task in line if task.is_waiting(now)]
        while True:
            machine, task = choose(machines, waiting, now)
            if machine is None or task is None:
                break
            one = NaiveInstance(task, machine, now)
            task.instances.append(one)
            machine.come(one)
            heappush(ends, (one.end_s, id(one), one))
            if not task.is_waiting(now):
                waiting.remove(task)
    return tasks


def columns(tasks: list[NaiveTask]) -> tuple[list[int], list[float], list[float]]:
    """Return machine, start and end of all instances, those of a task side by side."""
    every = [one for task in tasks for one in task.instances]
    return [i.machine.number for i in every], [i.start_s for i in every], [i.end_s for i in every]
