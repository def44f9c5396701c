"""Who is next and where, thought out from the definitions, for polls of `naive_fleet`.

It shares nothing with the product, and of the tests only the lottery, which is Python's own
numbers. All is reckoned anew at every question, a score for all machines side by side; resources
are summed from left to right, so that who is equal here is equal there.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.differential.naive_placements import Lottery
from tests.sim.naive_fleet import AMOUNTS, Choose, NaiveMachine, NaiveTask

Floats = NDArray[np.float64]


class Room:
    """What machines have and have left, arrays [machines, amounts]; 0 where nothing limits."""

    def __init__(self, machines: list[NaiveMachine]) -> None:
        whole = np.array([[m.has[amount] for amount in AMOUNTS] for m in machines])
        self.counts = (whole > 0) & np.isfinite(whole)
        self.n_counted = self.counts.sum(axis=1)
        self.whole = np.where(self.counts, whole, 0.0)
        self.most = self.whole.max(axis=0)
        self.left = self.free = self.whole

    def see(self, machines: list[NaiveMachine]) -> None:
        """Look at what the machines have left now."""
        self.left = np.array([[m.free[amount] for amount in AMOUNTS] for m in machines])
        self.free = np.where(self.counts, self.left, 0.0)

    def of_own(self, amounts: Any) -> Floats:
        """Return amounts as shares of each machine."""
        return np.where(self.counts, amounts / np.where(self.counts, self.whole, 1.0), 0.0)

    def of_most(self, amounts: Any) -> Floats:
        """Return amounts as shares of the most that any machine has."""
        return np.where(self.counts, amounts / np.where(self.most > 0, self.most, 1.0), 0.0)


def added(columns: Floats) -> Floats:
    total = np.zeros(len(columns))
    for r in range(columns.shape[1]):
        total = total + columns[:, r]
    return total


def best_fit(room: Room, asked: Floats) -> Floats:
    return added(room.of_most(room.free - asked))


def worst_fit(room: Room, asked: Floats) -> Floats:
    return -best_fit(room, asked)


def busiest_fit(room: Room, _asked: Floats) -> Floats:
    return added(room.of_own(room.free)) / room.n_counted


def least_allocated(room: Room, asked: Floats) -> Floats:
    return -by_percent(room, asked, room.free - asked)


def most_allocated(room: Room, asked: Floats) -> Floats:
    return -by_percent(room, asked, room.whole - (room.free - asked))


def by_percent(room: Room, asked: Floats, good: Floats) -> Floats:
    """Percentages of kube-scheduler, all weights 1."""
    counts = room.counts
    whole = np.where(counts, room.whole, 1.0)
    percent = np.where(counts, np.floor_divide(good * 100, whole), 0.0)
    n = counts.sum(axis=1)
    fit = np.floor(added(percent) / np.maximum(n, 1))
    used = np.where(counts, (room.whole - (room.free - asked)) / whole, 0.0)
    both = counts[:, 0] & counts[:, 1]
    apart = np.where(both, np.abs(used[:, 0] - used[:, 1]) / 2, 0.0)
    balanced: Floats = fit + np.floor((1 - apart) * 100)
    return balanced


def cosine_similarity(room: Room, asked: Floats) -> Floats:
    d, f = room.of_own(asked), room.of_own(room.free)
    lengths = added(d * d) * added(f * f)
    minus: Floats = -(added(d * f) / np.sqrt(np.where(lengths > 0, lengths, 1.0)))
    return np.where(lengths > 0, minus, 0.0)


def perp_distance(room: Room, asked: Floats) -> Floats:
    def off(left: Floats) -> Floats:
        shares = room.of_own(left)
        mean = added(shares) / room.n_counted
        apart = np.where(room.counts, shares - mean[:, None], 0.0)
        return np.sqrt(added(apart * apart))

    return off(room.free - asked) - off(room.free)


def tetris(room: Room, asked: Floats) -> Floats:
    return -added(room.of_own(asked) * room.of_own(room.free))


def dot_product(room: Room, asked: Floats) -> Floats:
    return added(room.of_most(asked) * room.of_most(room.free))


def all_alike(room: Room, _asked: Floats) -> Floats:
    """First fit; and rules that look at GPUs, of which no machine has any here."""
    return np.zeros(len(room.free))


SCORES: dict[str, Callable[[Room, Floats], Floats]] = {
    "first_fit": all_alike, "best_fit": best_fit, "worst_fit": worst_fit,
    "busiest_fit": busiest_fit, "cosine_similarity": cosine_similarity,
    "perp_distance": perp_distance, "tetris": tetris, "dot_product": dot_product,
    "least_allocated": least_allocated, "most_allocated": most_allocated,
    "gpu_packing": all_alike, "gpu_clustering": all_alike, "fgd": all_alike,
}  # fmt: skip
"""The machine of the least score gets the instance, of equal ones the first."""


Urgency = Callable[[list[NaiveTask], Room], list[float]]


def dominant_share(of_job: list[NaiveTask], room: Room) -> float:
    """The largest share of all machines that a job holds."""
    shares = [0.0]
    for r, amount in enumerate(AMOUNTS):
        held = sum((len(t.instances) - t.n_over) * t.takes[amount] for t in of_job)
        total = float(room.whole[:, r].sum())
        if total > 0:
            shares.append(held / total)
    return max(shares)


def work_left(of_job: list[NaiveTask], room: Room) -> float:
    """The work that a job has left."""
    work = 0.0
    for t in of_job:
        size = 0.0
        for r, amount in enumerate(AMOUNTS):
            if room.most[r] > 0:
                size += t.takes[amount] / float(room.most[r])
        work += (t.n_instances - t.n_over) * t.runtime_s * size
    return work


def by_job(number: Callable[[list[NaiveTask], Room], float]) -> Urgency:
    """Ask each job that waits for its number once."""

    def urgency(waiting: list[NaiveTask], room: Room) -> list[float]:
        of_jobs = {task.job: task.of_job for task in waiting}
        told = {job: number(of_job, room) for job, of_job in of_jobs.items()}
        return [told[task.job] for task in waiting]

    return urgency


def fewest_wait(waiting: list[NaiveTask], _room: Room) -> list[float]:
    """Minus the instances that wait and ask for what an instance of a task does."""
    n_waiting = Counter[tuple[float, ...]]()
    for task in waiting:
        n_waiting[task.asks] += task.n_instances - len(task.instances)
    return [-n_waiting[task.asks] for task in waiting]


URGENCIES: dict[str, Urgency] = {
    "drf": by_job(dominant_share), "max_weight": fewest_wait, "least_work": by_job(work_left),
}  # fmt: skip
"""The task of the least number is next, of equal ones the first."""


def chooser(placement: str, backfill: str, seed: int = 0) -> Choose:
    """Return what answers polls as a placement and a backfilling rule would."""
    lottery = Lottery(seed)
    rooms: list[Room] = []
    vectors: dict[tuple[float, ...], Floats] = {}

    def in_line(tasks: list[NaiveTask], room: Room) -> list[NaiveTask]:
        if backfill not in URGENCIES:
            return tasks
        numbers = URGENCIES[backfill](tasks, room)
        return [tasks[i] for i in sorted(range(len(tasks)), key=numbers.__getitem__)]

    def choose(
        machines: list[NaiveMachine], tasks: list[NaiveTask], _now: float
    ) -> tuple[NaiveMachine | None, NaiveTask | None]:
        if not rooms:
            rooms.append(Room(machines))
        room, nowhere = rooms[0], set()
        room.see(machines)
        for task in in_line(tasks, room):
            if task.asks in nowhere:
                continue
            if task.asks not in vectors:
                vectors[task.asks] = np.array(task.asks, dtype=np.float64)
            asked = vectors[task.asks]
            able = (room.left >= asked).all(axis=1).nonzero()[0]
            if len(able) == 0:
                if backfill == "none":
                    break
                nowhere.add(task.asks)
            elif placement == "random":
                return machines[int(able[lottery.below(len(able))])], task
            else:
                score = SCORES[placement](room, asked)
                return machines[int(able[np.argmin(score[able])])], task
        return None, None

    return choose
