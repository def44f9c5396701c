"""A slow reference for whole-node allocation in plain lists and sets, from its definition.

It shares no text with the kernel, and of the other reference the scores alone. Machines are objects
in a list, idle ones are found by asking every running job, and everything is thought out anew at
every instant. Memory is multiplied where the kernel divides.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf

from sim import Scenario
from tests.differential import naive_priority
from tests.differential.naive import LAST_PROLONGED_BY, PROLONGED_BY, expiry, score


@dataclass(frozen=True)
class Machine:
    number: int
    procs: int
    memory: float


@dataclass(eq=False)
class Job:
    row: int
    job_id: int
    submit: float
    runtime: float
    requested: float
    estimate: float
    procs: int
    memory: int
    start: float | None = None
    got: list[Machine] = field(default_factory=list)
    until: float = 0.0
    times: int = 0

    def begin(self, now: float, got: list[Machine]) -> None:
        self.start, self.got, self.until = now, got, now + self.estimate

    def prolong(self, now: float) -> None:
        while self.until <= now:
            self.until += [*PROLONGED_BY, LAST_PROLONGED_BY][min(self.times, len(PROLONGED_BY))]
            self.times += 1

    def ends(self, length: float) -> float:
        assert self.start is not None
        return self.start + length


def suits(machine: Machine, job: Job) -> bool:
    return job.memory * min(machine.procs, job.procs) <= machine.memory


def pick(job: Job, candidates: list[Machine]) -> list[Machine] | None:
    """The first machines that suit the job until they have processors enough; None if too few."""
    got: list[Machine] = []
    for machine in candidates:
        if sum(one.procs for one in got) >= job.procs:
            break
        if suits(machine, job):
            got.append(machine)
    return got if sum(one.procs for one in got) >= job.procs else None


def reservation(
    head: Job, machines: list[Machine], running: list[Job]
) -> tuple[float, set[Machine]]:
    """The earliest time at which enough machines for the head are idle, and those kept for it."""
    until = {machine: job.until for job in running for machine in job.got}
    for moment in sorted(set(until.values())):
        by_then = [m for m in machines if until.get(m, -inf) <= moment]
        busy_first = sorted(by_then, key=lambda m: m not in until)  # stable: then machine order
        kept = pick(head, busy_first)
        if kept is not None:
            return moment, set(kept)
    raise AssertionError("the head fits on no machines")


def serve(
    now: float, queue: list[Job], machines: list[Machine], running: list[Job], backfill: str
) -> None:
    def idle() -> list[Machine]:
        taken = {machine for job in running for machine in job.got}
        return [machine for machine in machines if machine not in taken]

    def start(job: Job, got: list[Machine]) -> None:
        queue.remove(job)
        job.begin(now, got)
        running.append(job)

    while queue and (got := pick(queue[0], idle())) is not None:
        start(queue[0], got)
    if backfill == "none" or not queue:
        return
    n_waiting = -1
    while len(queue) != n_waiting:  # until a look over all starts nobody
        n_waiting = len(queue)
        shadow, kept = reservation(queue[0], machines, running)
        for job in queue[1:]:
            others = [machine for machine in idle() if machine not in kept]
            if now + job.estimate <= shadow:
                got = pick(job, [machine for machine in idle() if machine in kept] + others)
            else:
                got = pick(job, others)
            if got is not None:
                start(job, got)


def machines_of(scenario: Scenario) -> list[list[Machine]]:
    number, parts = 0, []
    for part in scenario.cluster.partitions:
        here = []
        for spec in part.machines:
            for _ in range(spec.count):
                memory = inf if spec.mem_bytes is None else spec.mem_bytes
                here.append(Machine(number, spec.procs, memory))
                number += 1
        parts.append(here)
    return parts


def jobs_of(scenario: Scenario) -> list[Job]:
    w, jobs = scenario.workload, []
    for row in range(w.n_jobs):
        runtime, requested = float(w.runtime_s[row]), float(w.requested_s[row])
        estimate = max(runtime, requested)
        if scenario.overrun == "kill":
            runtime, estimate = min(runtime, requested), requested
        elif scenario.overrun in ("extend", "extend_at_events"):
            estimate = requested
        jobs.append(
            Job(
                row,
                int(w.job_id[row]),
                float(w.submit_s[row]),
                runtime,
                requested,
                estimate,
                int(w.procs[row]),
                max(0, int(w.mem_bytes_per_proc[row])),
            )
        )
    return jobs


def place_of(job: Job, scenario: Scenario, machines: list[list[Machine]]) -> int:
    """The first partition that admits the job and could hold it if all were idle; else -1."""
    for k, part in enumerate(scenario.cluster.partitions):
        too_long = part.max_requested_s is not None and job.requested > part.max_requested_s
        too_wide = part.max_procs is not None and job.procs > part.max_procs
        if not too_long and not too_wide and pick(job, machines[k]) is not None:
            return k
    return -1


def used_procs(scenario: Scenario, job: Job) -> int:
    is_shared = scenario.allocation == "shared_nodes"
    return job.procs if is_shared else sum(machine.procs for machine in job.got)


def rated(scenario: Scenario, jobs: list[Job], k: int, now: float) -> Callable[[Job], float]:
    """What a queue is sorted by; who takes whole machines has used all their processors."""
    if scenario.order != "multifactor":
        return lambda job: score(job, scenario.order, now)
    stays = [
        naive_priority.Stay(job.row, used_procs(scenario, job), job.start, job.ends(job.runtime))
        for job in jobs
        if job.start is not None
    ]
    return lambda job: -naive_priority.priority(scenario, job.row, k, now, stays)


def schedule(scenario: Scenario) -> list[Job]:
    """The jobs in the order of the workload's rows; a rejected one never starts."""
    machines, jobs = machines_of(scenario), jobs_of(scenario)
    place = {job: place_of(job, scenario, machines) for job in jobs}
    queues: list[list[Job]] = [[] for _ in machines]
    running: list[list[Job]] = [[] for _ in machines]
    future = sorted((job for job in jobs if place[job] >= 0), key=lambda job: job.submit)
    alarms = [inf for _ in machines]
    while future or any(running):
        moments = [job.ends(job.runtime) for here in running for job in here]
        now = min(moments + [job.submit for job in future[:1]] + alarms)
        concerned = set()
        while future and future[0].submit == now:
            job = future.pop(0)
            queues[place[job]].append(job)
            concerned.add(place[job])
        for k, here in enumerate(machines):
            left = [job for job in running[k] if job.ends(job.runtime) > now]
            if len(left) == len(running[k]) and k not in concerned and alarms[k] > now:
                continue
            running[k] = left
            for job in left if queues[k] else []:
                job.prolong(now)
            rate = rated(scenario, jobs, k, now)
            queues[k].sort(key=lambda j: (rate(j), j.submit, j.job_id))
            serve(now, queues[k], here, running[k], scenario.backfill)
            alarms[k] = expiry(scenario, queues[k], running[k])
    assert not any(queues)
    return jobs
