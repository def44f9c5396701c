"""A slow reference scheduler in plain lists. It shares no text with the kernel, on purpose.

Time goes from one instant to the next; at each, everything that ends is freed, everything that
arrives is queued, and the queues are served from their definition. Free processors are counted
anew from the running jobs every time they are needed.
"""

from dataclasses import dataclass

from sim import Scenario


@dataclass
class Job:
    row: int
    job_id: int
    submit: float
    runtime: float
    requested: float
    estimate: float
    procs: int
    place: int
    start: float | None = None

    @property
    def end(self) -> float:
        assert self.start is not None
        return self.start + self.runtime

    @property
    def expected_end(self) -> float:
        assert self.start is not None
        return self.start + self.estimate


def jobs_of(scenario: Scenario) -> list[Job]:
    jobs = []
    w = scenario.workload
    for row in range(w.n_jobs):
        procs, requested = int(w.procs[row]), float(w.requested_s[row])
        runtime = float(w.runtime_s[row])
        place = -1
        for place, part in enumerate(scenario.cluster.partitions):  # noqa: B007
            too_long = part.max_requested_s is not None and requested > part.max_requested_s
            too_wide = procs > part.procs or (part.max_procs is not None and procs > part.max_procs)
            if not too_long and not too_wide:
                break
        else:
            raise AssertionError(f"row {row} fits nowhere")
        if scenario.overrun == "kill":
            runtime, estimate = min(runtime, requested), requested
        else:
            estimate = max(runtime, requested)
        submit, job_id = float(w.submit_s[row]), int(w.job_id[row])
        jobs.append(Job(row, job_id, submit, runtime, requested, estimate, procs, place))
    return jobs


def free_procs(total: int, running: list[Job]) -> int:
    return total - sum(job.procs for job in running)


def reservation(head: Job, total: int, running: list[Job]) -> tuple[float, int]:
    """The earliest time at which the head fits if all run as estimated, and what is left then."""
    for moment in sorted({job.expected_end for job in running}):
        still = [job for job in running if job.expected_end > moment]
        left = free_procs(total, still) - head.procs
        if left >= 0:
            return moment, left
    raise AssertionError("the head is wider than the partition")


def serve(now: float, queue: list[Job], running: list[Job], total: int, backfill: str) -> None:
    while queue and queue[0].procs <= free_procs(total, running):
        job = queue.pop(0)
        job.start = now
        running.append(job)
    if backfill == "none" or not queue:
        return
    head = queue[0]
    while True:
        shadow, extra = reservation(head, total, running)
        for job in queue[1:]:
            fits = job.procs <= free_procs(total, running)
            if fits and (now + job.estimate <= shadow or job.procs <= extra):
                queue.remove(job)
                job.start = now
                running.append(job)
                break
        else:
            return


def starts(scenario: Scenario) -> list[float]:
    """Start times in the order of the workload's rows."""
    jobs = jobs_of(scenario)
    parts = scenario.cluster.partitions
    queues: list[list[Job]] = [[] for _ in parts]
    running: list[list[Job]] = [[] for _ in parts]
    future = sorted(jobs, key=lambda job: job.submit)
    while future or any(running):
        moments = [job.end for jobs_here in running for job in jobs_here]
        if future:
            moments.append(future[0].submit)
        now = min(moments)
        while future and future[0].submit == now:
            job = future.pop(0)
            queues[job.place].append(job)
        for place, part in enumerate(parts):
            running[place] = [job for job in running[place] if job.end > now]
            if scenario.order == "sjf":
                queues[place].sort(key=lambda job: (job.requested, job.submit, job.job_id))
            else:
                queues[place].sort(key=lambda job: (job.submit, job.job_id))
            serve(now, queues[place], running[place], part.procs, scenario.backfill)
    found = []
    for job in jobs:
        assert job.start is not None
        found.append(job.start)
    return found
