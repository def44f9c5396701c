"""A slow reference for queues on shared processors, limits, preemption and capacity over time.

From its definition, in plain lists; it shares no text with the kernel. Scores and the rules over
constant capacity are those of the other reference. Nothing is remembered between two moments but
who waits, who is held, who runs since when, and what conservative backfilling promised.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from sim import Scenario
from sim.api import CapacityWindow
from tests.differential import naive, naive_priority
from tests.differential.naive import Stay, first_room, free_procs, is_room, score, stays_of

Rating = Callable[[naive.Job], float]


@dataclass(eq=False)
class Job(naive.Job):
    queue: str = ""
    tier: int = 0
    user: int = -1
    limit: int | None = None
    preemptible: bool = False
    restarts: int = 0
    lost: float = 0.0

    in_vain: list[naive_priority.Stay] = field(default_factory=list)

    def kill(self, now: float) -> None:
        assert self.start is not None
        self.in_vain.append(naive_priority.Stay(self.row, self.procs, self.start, now))
        self.restarts += 1
        self.lost += now - self.start
        self.start, self.promised, self.times_prolonged = None, None, 0


@dataclass
class Site(naive.Site):
    name: str = ""
    held: list[Job] = field(default_factory=list)
    known: list[CapacityWindow] = field(default_factory=list)
    closed: int = 0

    def stays(self, now: float) -> list[Stay]:
        windows = [(max(now, w.from_s), w.until_s, w.procs) for w in self.known if w.until_s > now]
        return stays_of(self.running, now) + windows

    def free(self) -> int:
        return free_procs(self.total, self.running) - self.closed

    def kill(self, job: Job, now: float) -> None:
        self.running.remove(job)
        job.kill(now)
        self.queue.append(job)
        self.something_ended = True


def jobs_of(scenario: Scenario) -> list[Job]:
    w, jobs = scenario.workload, []
    sizes = {part.name: part.procs for part in scenario.cluster.partitions}
    for row in range(w.n_jobs):
        procs, requested = int(w.procs[row]), float(w.requested_s[row])
        for part in scenario.cluster.partitions:
            host = part.on or part.name
            too_long = part.max_requested_s is not None and requested > part.max_requested_s
            most = sizes[host] if part.max_procs is None else min(sizes[host], part.max_procs)
            if procs <= most and not too_long:
                break
        else:
            raise AssertionError(f"row {row} fits nowhere")
        runtime = float(w.runtime_s[row])
        estimate = requested
        if scenario.overrun == "kill":
            runtime = min(runtime, requested + scenario.grace_s)
        elif scenario.overrun == "raise":
            estimate = max(runtime, requested)
        if scenario.options.get("actual_times"):
            estimate = runtime
        jobs.append(
            Job(
                row, int(w.job_id[row]), float(w.submit_s[row]), runtime, requested, estimate,
                procs, [p.name for p in scenario.cluster.partitions].index(host),
                queue=part.name, tier=part.tier, user=int(w.user[row]),
                limit=part.running_per_user, preemptible=part.preemptible,
            )
        )  # fmt: skip
    return jobs


def youngest_first(jobs: list[Job]) -> list[Job]:
    return sorted(jobs, key=lambda job: (job.start, job.row), reverse=True)


def open_doors(site: Site, order: str) -> None:
    """Of one user and queue as many are inside as the limit says; the best come in first."""
    static = order not in ("lxf", "wfp3", "unicef", "multifactor")

    def rank(job: Job) -> tuple[float, float, int]:
        return (score(job, order, job.submit) if static else 0.0, job.submit, job.job_id)

    for job in sorted(site.held, key=rank):
        inside = [
            other
            for other in (*site.queue, *site.running)
            if (other.user, other.queue) == (job.user, job.queue)
        ]
        if job.limit is None or len(inside) < job.limit:
            site.held.remove(job)
            site.queue.append(job)


def preempt(site: Site, now: float) -> list[Job]:
    """Whom the first ones in the queue may have killed."""
    killed: list[Job] = []
    granted: list[Stay] = []

    def has_room(job: Job, without: list[Job]) -> bool:
        gone = {id(other) for other in without}
        site_now = Site(site.total, [], [j for j in site.running if id(j) not in gone], {})
        site_now.known = site.known
        stays = site_now.stays(now) + granted
        return is_room(site.total, stays, job.procs, now, now + job.planned)

    for job in site.queue:
        if job.preemptible:
            break
        chosen: list[Job] = []
        for other in youngest_first([j for j in site.running if j.preemptible and j not in killed]):
            if has_room(job, killed + chosen):
                break
            chosen.append(other)
        if not has_room(job, killed + chosen):
            break
        for other in list(chosen):
            rest = [one for one in chosen if one is not other]
            if has_room(job, killed + rest):
                chosen = rest
        killed += chosen
        granted.append((now, now + job.planned, job.procs))
    return killed


def serve_by_plan(site: Site, now: float, n_reserved: int, overtake: bool = True) -> None:
    stays = site.stays(now)
    for job in list(site.queue):
        if is_room(site.total, stays, job.procs, now, now + job.planned):
            stays.append((now, now + job.planned, job.procs))
            site.begin(job, now)
        elif not overtake:
            return
        elif n_reserved > 0:
            start = first_room(site.total, stays, job, now)
            stays.append((start, start + job.planned, job.procs))
            n_reserved -= 1


def serve(site: Site, now: float, scenario: Scenario) -> None:
    rule = scenario.backfill
    if not scenario.windows:
        naive.RULES[rule](site, now)
    elif rule == "conservative":
        naive.serve_conservative(site, now)
    else:
        depth = {"none": 0, "greedy": 0, "easy": 1, "depth": int(site.options.get("depth", 4))}
        serve_by_plan(site, now, depth[rule], overtake=rule != "none")


def begin(site: Site, window: CapacityWindow, now: float) -> None:
    """A drain or a failure begins, or a planned window that was known."""
    owed = min(site.free(), 0)
    site.closed += window.procs
    if window.kind == "planned":
        return
    site.known.append(window)
    if window.kind == "failure":
        while site.free() < owed:
            site.kill(youngest_first(site.running)[0], now)  # type: ignore[arg-type]
    for job in site.queue:
        job.promised = None


def rated(scenario: Scenario, jobs: list[Job], now: float) -> Rating:
    """What a queue is sorted by within a tier; what was lost was used too."""
    if scenario.order != "multifactor":
        return lambda job: score(job, scenario.order, now)
    names = [part.name for part in scenario.cluster.partitions]
    used = [stay for job in jobs for stay in job.in_vain]
    used += [
        naive_priority.Stay(job.row, job.procs, job.start, job.end)
        for job in jobs
        if job.start is not None
    ]
    return lambda job: (
        -naive_priority.priority(
            scenario,
            job.row,
            names.index(job.queue),
            now,
            used,  # type: ignore[attr-defined]
        )
    )


def schedule(scenario: Scenario) -> list[Job]:
    """The jobs in the order of the workload's rows, as they ran in the end."""
    jobs = jobs_of(scenario)
    sites = [Site(p.procs, [], [], dict(scenario.options), name=p.name)
             for p in scenario.cluster.partitions]  # fmt: skip
    for site in sites:
        site.known = [
            w for w in scenario.windows if w.partition == site.name and w.kind == "planned"
        ]
    future = sorted(jobs, key=lambda job: job.submit)
    ahead, going = list(scenario.windows), []
    while future or any(site.running or site.queue or site.held for site in sites):
        moments = [job.end for site in sites for job in site.running]
        moments += [j.promised for site in sites for j in site.queue if j.promised is not None]
        moments += [w.from_s for w in ahead] + [w.until_s for w in going]
        moments += [job.submit for job in future[:1]] + [site.alarm for site in sites]
        now = min(moments)
        concerned = set()
        for place, site in enumerate(sites):
            left = [job for job in site.running if job.end > now]
            if len(left) < len(site.running):
                site.something_ended = True
                concerned.add(place)
            site.running = left
        while future and future[0].submit == now:
            job = future.pop(0)
            sites[job.place].held.append(job)
            concerned.add(job.place)
        where = {site.name: place for place, site in enumerate(sites) if site.total}
        for window in [w for w in going if w.until_s == now]:
            going.remove(window)
            sites[where[window.partition]].closed -= window.procs
            concerned.add(where[window.partition])
        kinds = ["planned", "drain", "failure"]
        begun = [w for w in ahead if w.from_s == now]
        for window in sorted(begun, key=lambda w: kinds.index(w.kind)):
            ahead.remove(window)
            going.append(window)
            begin(sites[where[window.partition]], window, now)
            if window.kind != "planned":
                concerned.add(where[window.partition])
        for place, site in enumerate(sites):
            if site.alarm == now or any(job.promised == now for job in site.queue):
                concerned.add(place)
        for place in sorted(concerned):
            site = sites[place]
            open_doors(site, scenario.order)
            if site.queue and [job for job in site.running if job.prolong(now)]:
                site.something_ended = True
                for other in site.queue:
                    other.promised = None

            rate = rated(scenario, jobs, now)

            def rank(j: naive.Job, rate: Rating = rate) -> tuple[int, float, float, int]:
                return (-j.tier, rate(j), j.submit, j.job_id)  # type: ignore[attr-defined]

            site.queue.sort(key=rank)
            if any(job.preemptible for job in jobs):
                for victim in preempt(site, now):
                    site.kill(victim, now)
                site.queue.sort(key=rank)
            serve(site, now, scenario)
            site.alarm = naive.expiry(scenario, site.queue, site.running)
    return jobs
