"""Looks at one job's partition at every decision from its submission to its start.

What is noted is what the decision saw when the job's turn came: jobs of better rank that the same
decision started have taken their processors by then, those of worse rank have not. Reservations
are the kernel's own, computed by its text on a copy.
"""

from bisect import bisect_left
from copy import copy
from dataclasses import dataclass
from typing import NamedTuple

from sim.kernel.pool import TAKEN, Job, Pool, rank_at, reserve
from sim.kernel.records import field

EASY = "easy"
"""The rule whose reservations are known here; every other one gets the reasons that fit all."""


class Held(NamedTuple):
    """A reservation.

    Attributes:
        reserved_s: when it begins.
        extra_procs: processors that it leaves over then.
    """

    reserved_s: float
    extra_procs: int


@dataclass(frozen=True)
class Look:
    """What a decision saw of the job. Other jobs are rows of the workload.

    Attributes:
        now_s: the time of the decision.
        free_procs: processors that were free when its turn came.
        ahead: jobs of better rank that still wait after the decision, best rank first.
        n_ahead: how many they are; `ahead` holds the head alone while the job goes on waiting.
        held: the head's reservation as the job's turn found it, None where it decided nothing.
            If the job is itself the head, the reservation is its own.
    """

    now_s: float
    free_procs: int
    ahead: tuple[int, ...]
    n_ahead: int
    held: Held | None


class Watch:
    """A witness of one job.

    Attributes:
        looks: one for every decision; the last started the job, if `has_started`.
        overtakers: jobs of worse rank that were started by the decisions before that one.
        passed: (time, job) for each job of better rank that a decision started, that one's too.
        earlier: those that decisions of the same instant before the last look started.
        rank: [n_jobs], of every job at the decision that started this one.
    """

    def __init__(self, row: int, partition: int, submit_s: float, backfill: str) -> None:
        self.row, self.partition, self.submit_s = row, partition, submit_s
        self.backfill, self.is_easy = backfill, backfill == EASY
        self.looks: list[Look] = []
        self.has_started = False
        self.overtakers: list[int] = []
        self.passed: list[tuple[float, int]] = []
        self.earlier: list[int] = []
        self.rank: list[int] = []
        self._free_procs = 0

    def before(self, pool: Pool, k: int, now_s: float) -> None:
        """Note the processors that the decision may give away."""
        if self._concerned(k, now_s):
            self._free_procs = pool.partitions[k].free

    def after(self, pool: Pool, k: int, now_s: float, started: list[int]) -> None:
        """Note what the decision did with the job."""
        if not self._concerned(k, now_s):
            return
        if self.looks and self.looks[-1].now_s != now_s:
            self.earlier.clear()
        self.looks.append(self._look(pool, now_s, started))
        mine = pool.jobs[self.row].rank
        self.passed += [(now_s, job) for job in started if pool.jobs[job].rank < mine]
        if self.row in started:
            self.has_started = True
            self.rank = field(pool.jobs, "rank")
            return
        self.earlier += started
        self.overtakers += [job for job in started if pool.jobs[job].rank > mine]

    def _concerned(self, k: int, now_s: float) -> bool:
        return k == self.partition and now_s >= self.submit_s and not self.has_started

    def _look(self, pool: Pool, now_s: float, started: list[int]) -> Look:
        here, mine = pool.partitions[self.partition], pool.jobs[self.row]
        taken = sum(pool.jobs[job].procs for job in started if pool.jobs[job].rank < mine.rank)
        free_procs = self._free_procs - taken
        place = bisect_left(
            range(here.tail), mine.rank, here.head, key=lambda slot: rank_at(pool, slot)
        )
        before = [job for job in pool.queue[here.head : place] if job >= 0]
        n_ahead = len(before)
        starts = self.row in started
        ahead = tuple(before if starts else before[:1])
        held = None
        if ahead and self.is_easy and mine.procs <= free_procs:
            held = reservation(pool, self.partition, pool.jobs[ahead[0]].procs)
            later = [pool.jobs[job] for job in started if pool.jobs[job].rank >= mine.rank]
            back = sum(job.procs for job in later if job.estimated_end_s > held.reserved_s)
            held = Held(held.reserved_s, held.extra_procs + back)
        elif not ahead and not starts and mine.procs > here.free:
            held = reservation(pool, self.partition, mine.procs)
        return Look(now_s, free_procs, ahead, n_ahead, held)


def reservation(pool: Pool, k: int, procs: int) -> Held:
    """Return the earliest reservation of a width that is not free, and leave the pool alone.

    It is what `sim.kernel.pool.reserve` notes, made by that text on a copy of the running jobs.
    """
    here = copy(pool.partitions[k])
    listed = pool.running[here.first : here.first + here.n_listed]
    running = [TAKEN if job == TAKEN else slot for slot, job in enumerate(listed)]
    jobs = [Job() if job == TAKEN else copy(pool.jobs[job]) for job in listed]
    here.first = 0
    reserve(pool._replace(jobs=jobs, partitions=[here], running=running), 0, procs)
    return Held(here.shadow_s, here.extra)
