"""Nodes that are off when idle, one by one, around the naive scheduler: no text of the kernel."""

from dataclasses import dataclass, field

from sim import NodePower, Scenario
from tests.differential.naive import RULES, Job, Site, expiry, jobs_of, score


@dataclass
class Node:
    """One node: when it was idle, and when it booted."""

    idle_since: float | None
    idle: list[tuple[float, float]] = field(default_factory=list)
    boots: list[float] = field(default_factory=list)


@dataclass
class Nodes:
    """All nodes of a partition, of which the first ones are held."""

    power: NodePower
    nodes: list[Node]
    used: int = 0
    boot_end: float = float("-inf")
    batch: list[tuple[int, int]] = field(default_factory=list)  # booted nodes and processors

    def n_held(self) -> int:
        return (self.used + self.power.node_procs - 1) // self.power.node_procs

    def take(self, procs: int, now: float) -> float:
        """Hold processors, and return how long they boot."""
        before = self.n_held()
        if self.boot_end <= now:
            self.batch = []
        self.used += procs
        boots = 0
        for node in self.nodes[before : self.n_held()]:
            assert node.idle_since is not None
            assert self.power.off_after_s is not None
            node.idle.append((node.idle_since, now))
            if node.idle_since + self.power.off_after_s < now:
                node.boots.append(now)
                boots += 1
            node.idle_since = None
        if boots:
            self.batch.append((boots, procs))
            self.boot_end = now + self.power.boot_s
            return self.power.boot_s
        room = self.n_held() * self.power.node_procs - self.empty_on_booting_nodes()
        if self.used > room:
            self.batch.append((0, procs))
            return min(self.power.boot_s, self.boot_end - now)
        return 0.0

    def empty_on_booting_nodes(self) -> int:
        """Count processors of booting nodes for which no job waits."""
        empty = 0
        for booted, procs in self.batch:
            new = booted * self.power.node_procs
            empty = empty + max(0, new - procs) if booted else max(0, empty - procs)
        return empty

    def give(self, procs: int, now: float) -> None:
        before = self.n_held()
        self.used -= procs
        for node in self.nodes[self.n_held() : before]:
            node.idle_since = now


@dataclass
class Run:
    """When a job took its nodes, started and ended."""

    took: float
    start: float
    end: float


def simulate(scenario: Scenario) -> tuple[list[Run], list[Nodes]]:
    """Return the runs of the jobs in their order, and the nodes of each partition at the end."""
    power = scenario.power
    assert power is not None
    jobs = jobs_of(scenario)
    for job in jobs:
        job.estimate = power.boot_s + job.estimate
    first = min(job.submit for job in jobs)
    parts = scenario.cluster.partitions
    sites = [Site(part.procs, [], [], dict(scenario.options)) for part in parts]
    nodes = [
        Nodes(power, [Node(first) for _ in range(part.procs // power.node_procs)]) for part in parts
    ]
    runs: dict[int, Run] = {}
    future = sorted(jobs, key=lambda job: job.submit)

    def end(job: Job) -> float:
        return runs[job.row].end

    while future or any(site.running or site.queue for site in sites):
        moments = [end(job) for site in sites for job in site.running]
        moments += [j.promised for site in sites for j in site.queue if j.promised is not None]
        moments += [job.submit for job in future[:1]] + [site.alarm for site in sites]
        now = min(moments)
        concerned = set()
        while future and future[0].submit == now:
            job = future.pop(0)
            sites[job.place].queue.append(job)
            concerned.add(job.place)
        for place, site in enumerate(sites):
            ended = [job for job in site.running if end(job) <= now]
            for job in ended:
                if runs[job.row].took < end(job):
                    nodes[place].give(job.procs, now)
                site.running.remove(job)
                site.something_ended = True
            if ended or site.alarm == now or any(job.promised == now for job in site.queue):
                concerned.add(place)
        for place in sorted(concerned):
            site = sites[place]
            if site.queue and scenario.overrun != "raise":
                late = [job for job in site.running if job.prolong(now)]
                if late:
                    site.something_ended = True
                    for job in site.queue:
                        job.promised = None
            site.queue.sort(key=lambda j: (score(j, scenario.order, now), j.submit, j.job_id))
            had = list(site.running)
            RULES[scenario.backfill](site, now)
            site.alarm = expiry(scenario, site.queue, site.running)
            for job in site.running:
                if job in had:
                    continue
                needs_node = now + job.runtime > now
                boot = nodes[place].take(job.procs, now) if needs_node else 0.0
                runs[job.row] = Run(now, now + boot, now + (boot + job.runtime))
    return [runs[row] for row in range(len(jobs))], nodes


def energy_j(scenario: Scenario, runs: list[Run], partitions: list[Nodes]) -> float:
    """Add up the joules of each node and each run until the last end."""
    power, jobs = scenario.power, jobs_of(scenario)
    assert power is not None
    assert power.off_after_s is not None
    first, last = min(job.submit for job in jobs), max(run.end for run in runs)
    total = 0.0
    for run, job in zip(runs, jobs, strict=True):
        share = job.procs / power.node_procs
        total += (run.end - run.start) * share * (power.busy_w - power.idle_w)
    for nodes in partitions:
        for node in nodes.nodes:
            idle = list(node.idle)
            if node.idle_since is not None:
                idle.append((node.idle_since, last))
            off = sum(max(0.0, b - a - power.off_after_s) for a, b in idle)
            boot = len(node.boots) * power.boot_s
            total += (last - first - off - boot) * power.idle_w
            total += off * power.off_w + boot * (power.boot_w or 0.0)
    return total
