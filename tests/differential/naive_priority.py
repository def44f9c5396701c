"""Slurm's priority from its definition, for the reference schedulers: usage is an integral.

What each user has used is added up anew from all jobs that have started, whenever somebody asks.
"""

import math
from dataclasses import dataclass

from sim import Scenario

WEEK = 7 * 24 * 3600


@dataclass(frozen=True)
class Stay:
    """A job has held processors, from its start to its end or until further notice."""

    user: int
    procs: int
    start: float
    end: float


def used(stays: list[Stay], now: float, half_life: float) -> float:
    """The integral of processors times 2^(-age / half-life) over the past."""
    total = 0.0
    for stay in stays:
        end = min(stay.end, now)
        if half_life == 0:
            total += stay.procs * (end - stay.start)
        else:
            rate = math.log(2) / half_life
            total += (
                stay.procs
                * math.exp(-rate * (now - end))
                * -math.expm1(-rate * (end - stay.start))
                / rate
            )
    return total


def fair_share(scenario: Scenario, user: int, now: float, stays: list[Stay]) -> float:
    half_life = scenario.options.get("half_life_s", WEEK)
    everything = used(stays, now, half_life)
    if everything == 0:
        return 1.0
    mine = used([stay for stay in stays if stay.user == user], now, half_life)
    users = set(scenario.workload.user.tolist())
    share = scenario.shares.get(user, 1) / sum(scenario.shares.get(one, 1) for one in users)
    return float(2 ** -(mine / everything / share))


def priority(
    scenario: Scenario, row: int, place: int, now: float, stays: list[Stay],
    submit: float | None = None,
) -> int:  # fmt: skip
    """Points of a job that waits; whole ones, but what is all but the next whole one is that."""
    told, w, parts = scenario.options, scenario.workload, scenario.cluster.partitions
    waited = now - (float(w.submit_s[row]) if submit is None else submit)
    age = min(waited / told.get("age_max_s", WEEK), 1.0)
    size = int(w.procs[row]) / sum(part.procs for part in parts)
    if told.get("favor_small"):
        size = 1 - size
    most = max(part.priority for part in parts)
    partition = parts[place].priority / most if most else 0.0
    most_of_queues = max(scenario.qos_priority.values(), default=0)
    asked = scenario.qos_priority.get(int(w.queue[row]), 0)
    qos = asked / most_of_queues if most_of_queues else 0.0
    weights = [
        told.get(f"{name}_weight", usual)
        for name, usual in (
            ("age", 1000), ("size", 1000), ("partition", 0), ("qos", 0), ("fairshare", 0),
        )
    ]  # fmt: skip
    factors = [age, size, partition, qos, 0.0]
    if weights[-1]:
        factors[-1] = fair_share(scenario, int(w.user[row]), now, stays)
    points = math.fsum(weight * factor for weight, factor in zip(weights, factors, strict=True))
    return math.floor(points + 1e-6)
