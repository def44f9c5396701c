"""A slow reference scheduler in plain lists. It shares no text with the kernel, on purpose.

Time goes from one instant to the next; at each, everything that ends is freed, everything that
arrives is queued, and the queues are served from their definition. Free processors are counted
anew from the running jobs every time they are needed.
"""

import math
from collections.abc import Callable, Iterable, Sized
from dataclasses import dataclass
from typing import Protocol

from sim import Scenario
from sim.model.moldable import Moldability
from tests.differential import naive_priority

PROLONGED_BY = [60, 300, 900, 1800, 3600, 7200, 5 * 3600, 10 * 3600, 20 * 3600, 50 * 3600]
LAST_PROLONGED_BY = 100 * 3600

Stay = tuple[float, float, int]


class Runs(Protocol):
    until: float


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
    promised: float | None = None
    until: float = 0.0
    times_prolonged: int = 0
    after: int | None = None
    think: float | None = None
    turn: int = 0

    @property
    def end(self) -> float:
        assert self.start is not None
        return self.start + self.runtime

    @property
    def expected_end(self) -> float:
        assert self.start is not None
        return self.until

    @property
    def planned(self) -> float:
        """How long it occupies a plan."""
        return self.estimate or 1.0

    def begin(self, now: float) -> None:
        self.start = now
        self.until = now + self.estimate

    def prolong(self, now: float) -> bool:
        was = self.until
        while self.until <= now:
            n = self.times_prolonged
            self.until += PROLONGED_BY[n] if n < len(PROLONGED_BY) else LAST_PROLONGED_BY
            self.times_prolonged += 1
        return self.until != was


def r(job: Job) -> float:
    return max(job.requested, 1.0)


def log10_s(job: Job) -> float:
    return math.log10(max(job.submit, 1.0))


SCORES: dict[str, Callable[[Job, float], float]] = {
    "fcfs": lambda j, now: j.submit,
    "sjf": lambda j, now: j.requested,
    "ljf": lambda j, now: -j.requested,
    "saf": lambda j, now: j.requested * j.procs,
    "laf": lambda j, now: -j.requested * j.procs,
    "lxf": lambda j, now: -(now - j.submit + r(j)) / r(j),
    "wfp3": lambda j, now: -math.prod([(now - j.submit) / r(j)] * 3) * j.procs,
    "unicef": lambda j, now: -(now - j.submit) / (math.log2(j.procs + 1e-15) * r(j)),
    "f1": lambda j, now: math.log10(r(j)) * j.procs + 870 * log10_s(j),
    "f2": lambda j, now: math.sqrt(r(j)) * j.procs + 25600 * log10_s(j),
    "f3": lambda j, now: r(j) * j.procs + 6860000 * log10_s(j),
    "f4": lambda j, now: r(j) * math.sqrt(j.procs) + 530000 * log10_s(j),
}
"""The smallest goes first. Formulas as published, with 1 s for what must not be 0."""


def score(job: Job, order: str, now: float) -> float:
    return SCORES[order](job, now)


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
            runtime, estimate = min(runtime, requested + scenario.grace_s), requested
        elif scenario.overrun in ("extend", "extend_at_events"):
            estimate = requested
        else:
            estimate = max(runtime, requested)
        if scenario.options.get("actual_times"):
            estimate = runtime
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


@dataclass
class Site:
    """A partition, as the rules see it."""

    total: int
    queue: list[Job]
    running: list[Job]
    options: dict[str, float]
    shadow_of: Job | None = None
    shadow: float = 0.0
    extra: int = 0
    something_ended: bool = False
    alarm: float = math.inf

    def fits(self, job: Job) -> bool:
        return job.procs <= free_procs(self.total, self.running)

    def begin(self, job: Job, now: float) -> None:
        self.queue.remove(job)
        job.begin(now)
        self.running.append(job)

    def stays(self, now: float) -> list[Stay]:
        return stays_of(self.running, now)

    def begin_from_head(self, now: float) -> None:
        while self.queue and self.fits(self.queue[0]):
            self.begin(self.queue[0], now)


def serve_none(site: Site, now: float) -> None:
    site.begin_from_head(now)


def serve_greedy(site: Site, now: float) -> None:
    for job in list(site.queue):
        if site.fits(job):
            site.begin(job, now)


def serve_easy(site: Site, now: float) -> None:
    """Each time somebody overtook, begin again with a fresh reservation."""
    site.begin_from_head(now)
    takes_extra = site.options.get("extra_processors", 1)
    while site.queue:
        head = site.queue[0]
        if site.options.get("reserve_anew", 1):
            shadow, extra = reservation(head, site.total, site.running)
        else:
            if site.shadow_of is not head:
                site.shadow_of = head
                site.shadow, site.extra = reservation(head, site.total, site.running)
            shadow, extra = site.shadow, site.extra
        for job in site.queue[1:]:
            in_time = now + job.estimate <= shadow
            if site.fits(job) and (in_time or (takes_extra and job.procs <= extra)):
                if not in_time:
                    site.extra -= job.procs
                site.begin(job, now)
                break
        else:
            return


def downey(n: int, parallelism: float, sigma: float) -> float:
    """The speedup on n processors, as in the report of 1997."""
    if sigma <= 1:
        if n <= parallelism:
            return n * parallelism / (parallelism + sigma * (n - 1) / 2)
        if n <= 2 * parallelism - 1:
            bottom = sigma * (parallelism - 0.5) + n * (1 - sigma / 2)
            return n * parallelism / bottom
        return parallelism
    if n <= parallelism + parallelism * sigma - sigma:
        return n * parallelism * (sigma + 1) / (sigma * (n + parallelism - 1) + parallelism)
    return parallelism


def begin_on_fewer(site: Site, now: float, moldable: Moldability) -> None:
    """Begin with the first in the queue, on fewer processors where it ends earlier."""
    while site.queue:
        head = site.queue[0]
        if not site.fits(head):
            average = max(1.0, moldable.parallelism * head.procs)
            waiting_ends = reservation(head, site.total, site.running)[0] + head.estimate
            choices = []
            for halvings in range(1, moldable.halvings + 1):
                fewer = math.ceil(head.procs / 2**halvings)
                times = downey(head.procs, average, moldable.variance) / downey(
                    fewer, average, moldable.variance
                )
                if fewer <= free_procs(site.total, site.running):
                    choices.append((now + head.estimate * times, fewer, times))
            if not choices or min(choices)[0] >= waiting_ends:
                return
            _, head.procs, times = min(choices)
            head.estimate *= times
            head.runtime *= times
        site.begin(head, now)


def is_room(total: int, stays: list[Stay], procs: int, start: float, end: float) -> bool:
    """Whether so many processors are free all the time from start to end, beside some stays."""
    moments = [start, *(a for a, _, _ in stays if start < a < end)]
    return all(
        procs <= total - sum(n for a, b, n in stays if a <= moment < b) for moment in moments
    )


def first_room(total: int, stays: list[Stay], job: Job, now: float) -> float:
    for start in sorted({now, *(b for _, b, _ in stays if b > now)}):
        if is_room(total, stays, job.procs, start, start + job.planned):
            return start
    raise AssertionError("wider than the partition")


def stays_of(running: list[Job], now: float) -> list[Stay]:
    return [(now, job.expected_end, job.procs) for job in running]


def serve_depth(site: Site, now: float) -> None:
    stays, left = stays_of(site.running, now), int(site.options.get("depth", 4))
    for job in list(site.queue):
        if is_room(site.total, stays, job.procs, now, now + job.planned):
            stays.append((now, now + job.planned, job.procs))
            site.begin(job, now)
        elif left > 0:
            start = first_room(site.total, stays, job, now)
            stays.append((start, start + job.planned, job.procs))
            left -= 1


def serve_conservative(site: Site, now: float) -> None:
    depth = site.options.get("compress_depth", 0) or len(site.queue)
    for i, job in enumerate(site.queue):
        is_compressed = site.something_ended and i < depth
        if job.promised is not None and not is_compressed and job.promised > now:
            continue
        others = [o for o in site.queue if o is not job and o.promised is not None]
        stays = site.stays(now)
        stays += [(o.promised, o.promised + o.planned, o.procs) for o in others]  # type: ignore[misc,operator]
        job.promised = first_room(site.total, stays, job, now)
    site.something_ended = False
    for job in list(site.queue):
        if job.promised == now:
            site.begin(job, now)


RULES = {
    "none": serve_none,
    "greedy": serve_greedy,
    "easy": serve_easy,
    "depth": serve_depth,
    "conservative": serve_conservative,
}


ANEW = ("lxf", "wfp3", "unicef", "multifactor")
"""Orders whose scores change while jobs wait; ties go to the earlier row."""


def rated(scenario: Scenario, jobs: list[Job], now: float) -> Callable[[Job], float]:
    """What the queue is sorted by at this moment."""
    if scenario.order != "multifactor":
        return lambda job: score(job, scenario.order, now)
    stays = [
        naive_priority.Stay(job.row, job.procs, job.start, job.end)
        for job in jobs
        if job.start is not None
    ]
    return lambda job: (
        -naive_priority.priority(scenario, job.row, job.place, now, stays, submit=job.submit)
    )


def follow(scenario: Scenario, jobs: list[Job]) -> None:
    """Note the job after which each one comes, from fields 17 and 18 or sessions."""
    w = scenario.workload
    row_of = {job.job_id: job.row for job in jobs}
    ended = [float(w.submit_s[r] + w.logged_wait_s[r] + w.runtime_s[r]) for r in range(w.n_jobs)]
    for job in jobs:
        if scenario.dependencies == "logged":
            before = row_of.get(int(w.preceding_job[job.row]))
            if before is not None and before < job.row:
                job.after = before
                think = float(w.think_s[job.row])
                job.think = None if math.isnan(think) else think
        elif scenario.dependencies == "sessions" and w.user[job.row] >= 0:
            batches: list[list[int]] = []
            for row in [o.row for o in jobs[: job.row + 1] if w.user[o.row] == w.user[job.row]]:
                if batches and any(ended[r] > w.submit_s[row] for r in batches[-1]):
                    batches[-1].append(row)
                else:
                    batches.append([row])
            if len(batches) > 1:
                before, mine = batches[-2:]
                last = min(before, key=lambda r: (-ended[r], r))
                if float(w.submit_s[mine[0]]) - ended[last] <= 20 * 60:
                    job.after, job.think = last, job.submit - ended[last]


def expiry(scenario: Scenario, queue: Sized, running: Iterable[Runs]) -> float:
    """When an estimate runs out and jobs wait that may profit; never unless this is watched."""
    if scenario.overrun != "extend" or not queue or scenario.options.get("actual_times"):
        return math.inf
    return min((job.until for job in running), default=math.inf)


def starts(scenario: Scenario) -> list[float]:
    """Start times in the order of the workload's rows."""
    return [job.start for job in simulated(scenario) if job.start is not None]


def simulated(scenario: Scenario) -> list[Job]:
    """All jobs, in the order of the workload's rows, after the simulation."""
    jobs = jobs_of(scenario)
    follow(scenario, jobs)
    parts = scenario.cluster.partitions
    sites = [Site(part.procs, [], [], dict(scenario.options)) for part in parts]
    future = sorted((job for job in jobs if job.after is None), key=lambda job: job.submit)
    turn = 0
    while future or any(site.running or site.queue for site in sites):
        turn += 1
        moments = [job.end for site in sites for job in site.running]
        moments += [j.promised for site in sites for j in site.queue if j.promised is not None]
        moments += [site.alarm for site in sites]
        if future:
            moments.append(future[0].submit)
        now = min(moments)
        concerned = set()
        for job in [j for site in sites for j in site.running if j.end <= now]:
            for follower in [j for j in jobs if j.after == job.row]:
                if follower.think is None:
                    follower.submit = max(follower.submit, now)
                else:
                    follower.submit = now + follower.think
                future.append(follower)
        future.sort(key=lambda job: (job.submit, job.row))
        while future and future[0].submit == now:
            job = future.pop(0)
            job.turn = turn
            sites[job.place].queue.append(job)
            concerned.add(job.place)
        for place, site in enumerate(sites):
            if site.alarm == now:
                site.alarm = math.inf
                concerned.add(place)
            left = [job for job in site.running if job.end > now]
            if len(left) < len(site.running):
                site.something_ended = True
                concerned.add(place)
            site.running = left
            if any(job.promised == now for job in site.queue):
                concerned.add(place)
        for place in sorted(concerned):
            site = sites[place]
            if site.queue and scenario.overrun != "raise":
                late = [job for job in site.running if job.prolong(now)]
                if late:
                    site.something_ended = True
                    for job in site.queue:
                        job.promised = None
            rate = rated(scenario, jobs, now)
            if scenario.dependencies == "ignore":
                site.queue.sort(key=lambda j: (rate(j), j.submit, j.job_id))
            elif scenario.order in ANEW:
                site.queue.sort(key=lambda j: (rate(j), j.row))
            else:
                score = (lambda j: 0.0) if scenario.order == "fcfs" else rate
                site.queue.sort(key=lambda j: (score(j), j.turn, j.row))
            if scenario.moldable is not None:
                begin_on_fewer(site, now, scenario.moldable)
            RULES[scenario.backfill](site, now)
            site.alarm = expiry(scenario, site.queue, site.running)
    assert all(job.start is not None for job in jobs)
    return jobs
