"""The view of the cluster that an algorithm gets during a simulation: read-only queries.

The words are those of CloudSimPy: cluster, machine, job, task, instance. Views compute their values
only when read. Each is a number and the state behind it, and is made once, so that views can be
compared, counted and used as keys.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

import numpy as np

from sim.engines.fleet_setup import scenario_pace, seconds_on
from sim.kernel.fleet import AMOUNTS, DECISION, N_CHANGED, N_FREED, N_FRESH, N_KINDS, Fleet
from sim.kernel.instances import begin, end, has_room, submit, take
from sim.model.admission import tasks_of
from sim.model.scenario import Scenario


class Amounts(NamedTuple):
    """Amounts of CPU (thousandths of cores), memory and disk (bytes), and GPU (thousandths)."""

    mcpu: int
    mem_bytes: int
    disk_bytes: int
    mgpu: int


class LiveInstance:
    """View of an instance that is or was on a machine during a simulation."""

    __slots__ = ("_state", "number", "task")

    def __init__(self, state: "LiveState", number: int, task: "LiveTask") -> None:
        self._state, self.number, self.task = state, number, task

    @property
    def machine(self) -> "LiveMachine":
        """Return the machine on which the instance is or was placed."""
        return self._state.machines[self._state.fleet.machine[self.number]]

    @property
    def start_s(self) -> float:
        """Return the time in seconds at which the instance was placed."""
        return self._state.fleet.start_s[self.number]

    @property
    def begin_s(self) -> float | None:
        """Return the time in seconds at which the instance began to compute, or None."""
        time_s = self._state.fleet.begin_s[self.number]
        return None if time_s != time_s else time_s  # noqa: PLR0124 - NaN

    @property
    def end_s(self) -> float | None:
        """Return the time in seconds at which the instance ended, or None before."""
        is_here = self.number in self._state.on_machine[self._state.fleet.machine[self.number]]
        return None if is_here else self._state.fleet.end_s[self.number]


class LiveTask:
    """View of a task that has been or will be submitted during a simulation.

    Attributes:
        number: its row in `Workload.tasks`.
        job: its job.
        takes: resources of each of its instances.
        need: number of its need; tasks with equal numbers have equal amounts, labels and kind of
            GPUs.
        runtime_s: seconds that an instance computes at full speed.
        is_gang: whether it belongs to the gang of its job.
    """

    __slots__ = ("_first", "_state", "is_gang", "job", "need", "number", "runtime_s", "takes")

    def __init__(self, state: "LiveState", number: int, job: "LiveJob", first: int) -> None:
        tasks = state.tasks
        self._state, self.number, self.job, self._first = state, number, job, first
        self.takes, self.need = state.takes[number], state.fleet.tasks[number].need
        self.runtime_s = float(tasks.runtime_s[number])
        self.is_gang = bool(tasks.gang[number])

    @property
    def parents(self) -> tuple["LiveTask", ...]:
        """Return the tasks that must end before this task can start."""
        tasks = self._state.tasks
        span = tasks.first_parent[self.number], tasks.first_parent[self.number + 1]
        return tuple(self._state.all_tasks[p] for p in tasks.parent_task[slice(*span)].tolist())

    @property
    def children(self) -> tuple["LiveTask", ...]:
        """Return the tasks that depend on this task."""
        fleet = self._state.fleet
        span = fleet.first_child[self.number], fleet.first_child[self.number + 1]
        return tuple(self._state.all_tasks[c] for c in fleet.child[slice(*span)])

    @property
    def n_instances(self) -> int:
        """Return the number of instances of the task."""
        return self._state.fleet.tasks[self.number].behind - self._first

    @property
    def n_waiting(self) -> int:
        """Return the number of instances that are not placed yet."""
        task = self._state.fleet.tasks[self.number]
        return task.behind - task.placed

    @property
    def n_finished(self) -> int:
        """Return the number of instances that have ended."""
        return self.n_instances - self._state.fleet.tasks[self.number].n_left

    @property
    def n_running(self) -> int:
        """Return the number of instances on machines."""
        return self.n_instances - self.n_waiting - self.n_finished

    @property
    def is_ready(self) -> bool:
        """Return whether the job was submitted and all parents of the task have ended."""
        is_here = self.job.number in self._state.arrived
        return is_here and self._state.fleet.tasks[self.number].n_parents == 0

    @property
    def is_finished(self) -> bool:
        """Return whether all instances of the task have ended."""
        return self._state.fleet.tasks[self.number].n_left == 0

    @property
    def instances(self) -> tuple[LiveInstance, ...]:
        """Return the placed instances, in the order of their placement."""
        placed = range(self._first, self._state.fleet.tasks[self.number].placed)
        return tuple(self._state.instance(number) for number in placed)


class LiveJob:
    """View of a job during a simulation.

    Attributes:
        number: its row in the workload.
        job_id: its id in the workload.
        submit_s: its submission, in seconds since the first one.
    """

    __slots__ = ("_state", "job_id", "number", "submit_s")

    def __init__(self, state: "LiveState", number: int) -> None:
        workload = state.scenario.workload
        self._state, self.number = state, number
        self.job_id, self.submit_s = int(workload.job_id[number]), float(workload.submit_s[number])

    @property
    def tasks(self) -> tuple[LiveTask, ...]:
        """Return the tasks of the job, in the order of the workload."""
        gang = self._state.fleet.gangs[self.number]
        return tuple(self._state.all_tasks[gang.first_task : gang.behind_task])

    @property
    def is_finished(self) -> bool:
        """Return whether all tasks of the job have ended."""
        return all(task.is_finished for task in self.tasks)


class LiveMachine:
    """View of a machine during a simulation."""

    __slots__ = ("_state", "capacity", "labels", "name", "number")

    def __init__(self, state: "LiveState", number: int, name: str, labels: dict[str, str]) -> None:
        self._state, self.number, self.name, self.labels = state, number, name, labels
        self.capacity = self.free

    @property
    def free(self) -> Amounts:
        """Return the free resources of the machine."""
        at = self.number * AMOUNTS
        return Amounts(*self._state.fleet.free[at : at + AMOUNTS])

    @property
    def used(self) -> Amounts:
        """Return the resources of the machine that are in use."""
        return Amounts(*(a - b for a, b in zip(self.capacity, self.free, strict=True)))

    @property
    def free_gpus(self) -> tuple[int, ...]:
        """Return the free thousandths of each GPU of the machine."""
        host = self._state.fleet.hosts[self.number]
        return tuple(self._state.fleet.devices[host.first_device : host.behind_device])

    @property
    def kind(self) -> int:
        """Return the number of the machine's kind: equal ones suit the same needs."""
        return self._state.fleet.hosts[self.number].kind

    @property
    def speeds(self) -> tuple[float, float]:
        """Return the present speeds of processors and GPUs, as shares of full speed."""
        host = self._state.fleet.hosts[self.number]
        return host.cpu_speed, host.gpu_speed

    @property
    def running_instances(self) -> tuple[LiveInstance, ...]:
        """Return the instances on the machine, in order of placement."""
        return tuple(map(self._state.instance, self._state.on_machine[self.number]))

    def accommodate(self, task: LiveTask) -> bool:
        """Return whether the machine has room for one more instance of a task now."""
        fleet = self._state.fleet
        return has_room(fleet, fleet.tasks[task.number].need, self.number)

    def could_hold(self, task: LiveTask) -> bool:
        """Return whether the machine, when idle, has room for an instance of a task."""
        return self._state.could_hold(task.number, self.number)

    def seconds_for(self, task: LiveTask) -> float:
        """Return an instance's run time alone on the machine at its present speed."""
        host = self._state.fleet.hosts[self.number]
        return self._state.seconds(task.number, host.cpu_speed, host.gpu_speed)


class LiveCluster:
    """View of all machines and submitted jobs during a simulation."""

    def __init__(self, state: "LiveState") -> None:
        self._state, self.machines = state, tuple(state.machines)

    @property
    def jobs(self) -> tuple[LiveJob, ...]:
        """Return the submitted jobs, in the order of submission."""
        return tuple(self._state.arrived.values())

    @property
    def unfinished_jobs(self) -> tuple[LiveJob, ...]:
        """Return the submitted jobs that have not ended."""
        return tuple(self._state.unfinished.values())

    @property
    def finished_jobs(self) -> tuple[LiveJob, ...]:
        """Return the submitted jobs that have ended."""
        gone = self._state.unfinished
        return tuple(job for number, job in self._state.arrived.items() if number not in gone)

    @property
    def ready_tasks(self) -> tuple[LiveTask, ...]:
        """Return the ready tasks with unplaced instances, by the scenario's queue order."""
        return self._state.ready()

    @property
    def running_instances(self) -> tuple[LiveInstance, ...]:
        """Return the instances on machines, machine by machine."""
        return tuple(
            instance for machine in self.machines for instance in machine.running_instances
        )

    @property
    def capacity(self) -> Amounts:
        """Return the resources of all machines together."""
        return Amounts(*map(sum, zip(*(m.capacity for m in self.machines), strict=True)))

    @property
    def free(self) -> Amounts:
        """Return the free resources of all machines together."""
        return Amounts(*map(sum, zip(*(m.free for m in self.machines), strict=True)))

    @property
    def used(self) -> Amounts:
        """Return the resources in use on all machines together."""
        return Amounts(*(a - b for a, b in zip(self.capacity, self.free, strict=True)))


class LiveState:
    """State behind the views of a running simulation: fleet, jobs, tasks and instances.

    The transitions are those of the kernel; this class only records them.
    """

    def __init__(self, scenario: Scenario, fleet: Fleet) -> None:
        tasks = tasks_of(scenario)
        self.scenario, self.fleet, self.tasks = scenario, fleet, tasks
        self.takes = [Amounts(*row) for row in tasks.demands.tolist()]
        self._pace = scenario_pace(scenario)
        self._seconds: dict[tuple[float, float], list[float]] = {}
        self.arrived: dict[int, LiveJob] = {}
        self.unfinished: dict[int, LiveJob] = {}
        self._tasks_left = np.bincount(tasks.job, minlength=tasks.n_jobs).tolist()
        self._waiting: list[tuple[int, int]] = []
        self._ready: tuple[LiveTask, ...] | None = ()
        self._instances: dict[int, LiveInstance] = {}
        specs = [s for part in scenario.cluster.partitions for s in part.machines]
        labels = [dict(spec.labels) for spec in specs for _ in range(spec.count)]
        names = scenario.cluster.machine_names
        self.on_machine: list[dict[int, None]] = [{} for _ in names]
        self.machines = [LiveMachine(self, i, name, labels[i]) for i, name in enumerate(names)]
        self.n_computing = 0

    @cached_property
    def jobs(self) -> list[LiveJob]:
        """Return all jobs, including those not submitted yet."""
        return [LiveJob(self, number) for number in range(self.tasks.n_jobs)]

    @cached_property
    def all_tasks(self) -> list[LiveTask]:
        """Return all tasks, including those not submitted yet."""
        return [
            LiveTask(self, number, self.jobs[job], task.placed)
            for number, (job, task) in enumerate(
                zip(self.tasks.job.tolist(), self.fleet.tasks, strict=True)
            )
        ]

    def instance(self, number: int) -> LiveInstance:
        """Return the view of the instance with the given number."""
        if number not in self._instances:
            task = self.all_tasks[self.fleet.task_of[number]]
            self._instances[number] = LiveInstance(self, number, task)
        return self._instances[number]

    def ready(self) -> tuple[LiveTask, ...]:
        """Return the tasks that can be placed, in queue order."""
        if self._ready is None:
            self._ready = tuple(self.all_tasks[task] for _, task in self._waiting)
        return self._ready

    def could_hold(self, task: int, machine: int) -> bool:
        """Return whether a machine, when idle, has room for an instance of a task."""
        fleet = self.fleet
        need = fleet.tasks[task].need
        has = self.machines[machine].capacity
        kind = fleet.hosts[machine].kind
        return fleet.suits[need * fleet.cursor[N_KINDS] + kind] == 1 and all(
            a <= b for a, b in zip(self.takes[task], has, strict=True)
        )

    def seconds(self, task: int, cpu: float, gpu: float) -> float:
        """Return the run time in seconds of an instance alone on a machine of given speeds."""
        if (cpu, gpu) not in self._seconds:
            self._seconds[cpu, gpu] = seconds_on(self._pace, cpu, gpu).tolist()
        return self._seconds[cpu, gpu][task]

    def submit(self, job: int) -> None:
        """Submit a job to the fleet and record it for the views."""
        submit(self.fleet, job)
        self.arrived[job] = self.unfinished[job] = self.jobs[job]
        for task in self.jobs[job].tasks:
            if self.fleet.tasks[task.number].n_parents == 0:
                self._let_wait(task.number)

    def end(self, instance: int) -> None:
        """End an instance in the fleet and record the end for the views."""
        end(self.fleet, instance)
        self.n_computing -= 1
        del self.on_machine[self.fleet.machine[instance]][instance]
        task = self.fleet.task_of[instance]
        if self.fleet.tasks[task].n_left > 0:
            return
        job = self.fleet.tasks[task].job
        self._tasks_left[job] -= 1
        if self._tasks_left[job] == 0:
            del self.unfinished[job]
        for child in self.all_tasks[task].children:
            if self.fleet.tasks[child.number].n_parents == 0:
                self._let_wait(child.number)

    def place(self, task: int, machine: int, now_s: float) -> None:
        """Place the next instance of a task on a machine that has room for it."""
        fleet = self.fleet
        task_row = fleet.tasks[task]
        instance = task_row.placed
        take(fleet, task_row.need, machine, instance)
        fleet.start_s[instance] = now_s
        task_row.placed += 1
        self.on_machine[machine][instance] = None
        if task_row.placed == task_row.behind:
            del self._waiting[bisect_left(self._waiting, (task_row.rank, task))]
            self._ready = None
        if task_row.is_gang == 0:
            self._begin(instance, now_s)
            return
        gang = fleet.gangs[task_row.job]
        gang.n_unplaced -= 1
        if gang.n_unplaced == 0:
            for other in self._of_gang(task_row.job):
                self._begin(other, now_s)

    def new_decision(self) -> None:
        """Begin a new scheduling decision, with no changed end times yet."""
        cursor = self.fleet.cursor
        cursor[DECISION] += 1
        cursor[N_CHANGED] = cursor[N_FREED] = cursor[N_FRESH] = 0

    @property
    def n_changed(self) -> int:
        """Return the number of instances whose end time changed in this decision."""
        return self.fleet.cursor[N_CHANGED]

    def never_placed(self) -> list[int]:
        """Return the numbers of the submitted tasks with instances that were not placed."""
        return [
            task.number
            for job in self.unfinished.values()
            for task in job.tasks
            if task.n_waiting > 0
        ]

    def _begin(self, instance: int, now_s: float) -> None:
        begin(self.fleet, instance, now_s)
        self.n_computing += 1

    def _of_gang(self, job: int) -> Iterator[int]:
        gang = self.fleet.gangs[job]
        for task in self.fleet.tasks[gang.first_task : gang.behind_task]:
            if task.is_gang == 1:
                yield from range(task.behind - task.n_left, task.behind)

    def _let_wait(self, task: int) -> None:
        insort(self._waiting, (self.fleet.tasks[task].rank, task))
        self._ready = None
