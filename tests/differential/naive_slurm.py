"""A slow reference for Slurm's backfilling, in lists and dictionaries, from its definition.

It shares no text with the kernel. What is free is counted anew from the running jobs whenever it
is asked for, bookings are sets of machines, and running jobs are grouped by comprehension. Of the
other references it takes jobs, machines and scores.
"""

from dataclasses import dataclass
from math import floor, inf

from sim import Scenario
from tests.differential.naive import expiry
from tests.differential.naive_nodes import Job, Machine, jobs_of, machines_of, rated, suits

Share = dict[Machine, int]

DEFAULTS = {
    "bf_interval_s": 30, "bf_max_job_test": 500, "bf_window_s": 86400, "bf_resolution_s": 60,
    "bf_reserve": 0,
}  # fmt: skip


@dataclass(frozen=True)
class Booked:
    start: float
    end: float
    machines: frozenset[Machine]


@dataclass(eq=False)
class Site:
    """A partition. `held` tells what each running job has of which machine."""

    machines: list[Machine]
    is_shared: bool
    options: dict[str, float]
    queue: list[Job]
    held: dict[Job, Share]
    alarm: float = inf

    def room(self, machine: Machine, job: Job, holders: list[Job]) -> int:
        there = {one: self.held[one][machine] for one in holders if machine in self.held[one]}
        if not self.is_shared:
            return machine.procs if not there and suits(machine, job) else 0
        procs = machine.procs - sum(there.values())
        while procs * job.memory > machine.memory - sum(n * j.memory for j, n in there.items()):
            procs -= 1
        return procs

    def choose(self, job: Job, allowed: set[Machine], holders: list[Job]) -> Share | None:
        """The smallest run of neighbours that suffices; else the largest, and then the rest."""
        room = {m: self.room(m, job, holders) if m in allowed else 0 for m in self.machines}
        if sum(room.values()) < job.procs:
            return None
        got: Share = {}
        while (wanted := job.procs - sum(got.values())) > 0:
            runs: list[list[Machine]] = [[]]
            for machine in self.machines:
                if room[machine] > 0 and machine not in got:
                    runs[-1].append(machine)
                else:
                    runs.append([])
            sizes = {i: sum(room[m] for m in run) for i, run in enumerate(runs) if run}
            enough = [i for i in sizes if sizes[i] >= wanted]
            best = (
                min(enough, key=sizes.__getitem__) if enough else max(sizes, key=lambda i: sizes[i])
            )
            for machine in runs[best]:
                left = job.procs - sum(got.values())
                if left > 0:
                    got[machine] = min(room[machine], left) if self.is_shared else room[machine]
        return got

    def earliest(self, job: Job, allowed: set[Machine], now: float) -> tuple[float, Share] | None:
        """When it could start, if groups of running jobs end together, and where."""
        here = list(self.held)
        got = self.choose(job, allowed, here)
        if got is not None:
            return now, got
        left = sorted((j for j in here if allowed & set(self.held[j])), key=lambda j: j.until)
        together = 30.0
        while left:
            group = [j for j in left if j.until <= left[0].until + together]
            left = [j for j in left if j not in group]
            here = [j for j in here if j not in group]
            got = self.choose(job, allowed, here)
            if got is not None:
                return max(group[-1].until, now + 1), got
            together *= 2
        return None

    def start(self, job: Job, got: Share, now: float) -> None:
        self.queue.remove(job)
        job.begin(now, list(got))
        self.held[job] = got

    def serve(self, now: float, backfill: str) -> None:
        everything = set(self.machines)
        while self.queue:
            got = self.choose(self.queue[0], everything, list(self.held))
            if got is None:
                break
            self.start(self.queue[0], got, now)
        self.alarm = inf
        if self.queue and backfill == "slurm":
            every = self.options["bf_interval_s"]
            if every and now % every:
                self.alarm = (now // every + 1) * every
            else:
                self.pass_through(now)

    def pass_through(self, now: float) -> None:
        booked: list[Booked] = []
        records = {-inf}
        for n_before, job in enumerate(list(self.queue)):
            most = self.options["bf_max_job_test"]
            if n_before >= most or len(records) >= most:
                return
            found = self.find(job, booked, now)
            if found is None:
                continue
            start, got = found
            if start <= now:
                self.start(job, got, now)
                continue
            step = self.options["bf_resolution_s"]
            first, last = start, start + job.estimate
            if step:
                first, last = floor(first / step) * step, floor(last / step) * step
            if not self.options["bf_reserve"] or len(booked) < self.options["bf_reserve"]:
                booked.append(Booked(first, last, frozenset(got)))
                records |= {first, last}

    def find(self, job: Job, booked: list[Booked], now: float) -> tuple[float, Share] | None:
        """The start of a job on machines that no booking needs, trying one time after another."""
        horizon = now + self.options["bf_window_s"]
        step = self.options["bf_resolution_s"]
        tried = now
        while True:
            later = [t for b in booked for t in (b.start, b.end) if tried < t < horizon]
            inside = [b for b in booked if b.end > tried and b.start <= tried + job.estimate]
            allowed = set(self.machines).difference(*(b.machines for b in inside))
            found = self.earliest(job, allowed, now)
            if found is None:
                if not later:
                    return None
                tried = min(later)
                continue
            start, got = max(found[0], tried), found[1]
            if start <= now:
                return start, got
            if later and min(later) < start:
                tried = min(later)
                continue
            if start > horizon:
                return None
            first, last = start, start + job.estimate
            if step:
                first, last = floor(first / step) * step, floor(last / step) * step
            if not any(b.end > first and b.start < last and b.machines & set(got) for b in booked):
                return start, got
            if start == tried:
                return None
            tried = start


def holds(site: Site, job: Job) -> bool:
    return site.choose(job, set(site.machines), []) is not None


def schedule(scenario: Scenario) -> list[Job]:
    """The jobs in the order of the workload's rows; a rejected one never starts."""
    options = {**DEFAULTS, **scenario.options}
    is_shared = scenario.allocation == "shared_nodes"
    sites = [Site(here, is_shared, options, [], {}) for here in machines_of(scenario)]
    jobs, place = jobs_of(scenario), {}
    for job in jobs:
        for part, site in zip(scenario.cluster.partitions, sites, strict=True):
            too_long = part.max_requested_s is not None and job.requested > part.max_requested_s
            too_wide = part.max_procs is not None and job.procs > part.max_procs
            if job not in place and not too_long and not too_wide and holds(site, job):
                place[job] = site
    future = sorted((job for job in jobs if job in place), key=lambda job: job.submit)
    while True:
        moments = [job.ends(job.runtime) for site in sites for job in site.held]
        moments += [job.submit for job in future[:1]] + [site.alarm for site in sites]
        now = min(moments, default=inf)
        if now == inf:
            break
        came = []
        while future and future[0].submit == now:
            job = future.pop(0)
            place[job].queue.append(job)
            came.append(place[job])
        for site in sites:
            ended = [job for job in site.held if job.ends(job.runtime) <= now]
            for job in ended:
                del site.held[job]
            if not ended and site.alarm != now and not any(one is site for one in came):
                continue
            for job in site.held if site.queue else ():
                job.prolong(now)
            rate = rated(scenario, jobs, sites.index(site), now)
            site.queue.sort(key=lambda j: (rate(j), j.submit, j.job_id))
            site.serve(now, scenario.backfill)
            site.alarm = min(site.alarm, expiry(scenario, site.queue, site.held))
    assert not any(site.queue for site in sites)
    return jobs
