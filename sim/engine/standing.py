"""Tiers, limits, preemption and windows of a scenario as the kernel wants them."""

import numpy as np
from numpy.typing import NDArray

from sim.kernel.pool import Pool
from sim.kernel.records import field, rows
from sim.kernel.terms import (
    DRAIN,
    FAILURE,
    PLANNED,
    Door,
    Outside,
    Seat,
    Standing,
    Terms,
    Window,
    no_terms,
    nothing_outside,
)
from sim.model.admission import Admission
from sim.model.result import Restarts
from sim.model.scenario import Scenario
from sim.policies.kinds import Facts
from sim.policies.order import order_named, ranks
from sim.policies.told import options_of

KINDS = {"planned": PLANNED, "drain": DRAIN, "failure": FAILURE}


def decides_by_plan(scenario: Scenario) -> bool:
    """Tell whether every rule needs a plan, since capacity changes."""
    return bool(scenario.windows)


def preempts(scenario: Scenario) -> NDArray[np.bool_]:
    """Return where jobs may be killed for others: bool, for each partition by index."""
    parts, hosts = scenario.cluster.partitions, scenario.cluster.hosts()
    found = np.zeros(len(parts), dtype=np.bool_)
    found[hosts[[part.preemptible for part in parts]]] = True
    return found


def ranks_of(scenario: Scenario, admission: Admission, facts: Facts) -> NDArray[np.int64]:
    """Return the place of every job: by the tier of its queue, then by order: int64 [n]."""
    rank = ranks(order_named(scenario.order), facts)
    tier = _of_partition(admission, [part.tier for part in scenario.cluster.partitions])
    if not tier.any():
        return rank
    placed = np.empty_like(rank)
    placed[np.lexsort((rank, -tier))] = np.arange(len(rank))
    return placed


def terms_of(scenario: Scenario, admission: Admission, rank: NDArray[np.int64]) -> Terms:
    """Return what a scenario asks for beyond processors and queues, before its first event.

    Args:
        scenario: the scenario.
        admission: its jobs.
        rank: int64 [n], as `ranks_of` returns it.
    """
    parts, terms = scenario.cluster.partitions, no_terms()
    if _has_limits(scenario) or scenario.may_requeue or any(part.tier for part in parts):
        standings = rows(Standing, len(rank))
        standings["tier"] = _of_partition(admission, [part.tier for part in parts])
        standings["is_preemptible"] = _of_partition(admission, [p.preemptible for p in parts])
        standings["door"] = -1
        if _has_limits(scenario):
            seated, firsts = _seating(scenario, admission, rank)
            n_seats = np.diff(np.append(firsts, len(seated)))
            standings["seat"][seated] = np.arange(len(seated))
            standings["door"][seated] = np.repeat(np.arange(len(firsts)), n_seats)
        terms = terms._replace(standings=standings)  # type: ignore[arg-type]
    if scenario.windows:
        terms = terms._replace(windows=_windows(scenario))  # type: ignore[arg-type]
    return terms


def outside_of(scenario: Scenario, admission: Admission) -> Outside:
    """Return the doors and turns of a scenario, before its first event."""
    outside, parts = nothing_outside(), scenario.cluster.partitions
    if _has_limits(scenario):
        rank = ranks_of(scenario, admission, facts_of(scenario, admission))
        seated, firsts = _seating(scenario, admission, rank)
        doors, seats = rows(Door, len(firsts)), rows(Seat, len(seated))
        seats["job"] = seated
        doors["behind"] = doors["best"] = np.append(firsts, len(seated))[1:]
        doors["limit"] = _limits(scenario, admission)[seated[firsts]]
        rung = np.full(len(parts), -1, dtype=np.int64)
        outside = outside._replace(doors=doors, seats=seats, rung=rung)  # type: ignore[arg-type]
    if scenario.windows:
        windows = _windows(scenario)
        n = np.arange(len(windows))
        times_s = np.concatenate([windows["until_s"], windows["from_s"]])
        # At one time: ends, then planned ones, drains and failures, each as they were given.
        kind = np.concatenate([np.full(len(n), -1), windows["kind"]])
        order = np.lexsort((kind, times_s))
        turns = np.concatenate([~n, n])[order]
        outside = outside._replace(turns_s=times_s[order], turns=turns)  # type: ignore[arg-type]
    return outside


def facts_of(scenario: Scenario, admission: Admission) -> Facts:
    """Return what the order of a scenario may know of its jobs."""
    return Facts(
        submit_s=scenario.workload.submit_s,
        requested_s=admission.requested_s,
        procs=admission.procs,
        partition=admission.partition,
        queue=scenario.workload.queue,
        cluster=scenario.cluster,
        qos_priority=scenario.qos_priority,
        options=options_of(scenario).values,
    )


def _of_partition(admission: Admission, values: list[int] | list[bool]) -> NDArray[np.int64]:
    """Return for each job the value of the partition that it was routed to; 0 if rejected."""
    of = np.array([*values, 0], dtype=np.int64)
    return of[admission.partition]  # -1 for the rejected is the last


def _has_limits(scenario: Scenario) -> bool:
    return any(part.running_per_user is not None for part in scenario.cluster.partitions)


def _limits(scenario: Scenario, admission: Admission) -> NDArray[np.int64]:
    """Return how many jobs of its user may run from the queue of each job: int64 [n]; 0 is any."""
    parts = scenario.cluster.partitions
    return _of_partition(admission, [part.running_per_user or 0 for part in parts])


def _seating(
    scenario: Scenario, admission: Admission, rank: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the jobs that have a door, by door and then rank, and where each door begins."""
    workload = scenario.workload
    limited = np.flatnonzero(_limits(scenario, admission) > 0)
    place, user = admission.partition[limited], workload.user[limited]
    order = np.lexsort((rank[limited], user, place))
    of = np.column_stack([place[order], user[order]])
    is_first = np.ones(len(of), dtype=np.bool_)
    is_first[1:] = (of[1:] != of[:-1]).any(axis=1)
    return limited[order], np.flatnonzero(is_first)


def _windows(scenario: Scenario) -> NDArray[np.void]:
    windows = rows(Window, len(scenario.windows))
    names = scenario.cluster.names
    for row, window in zip(windows, scenario.windows, strict=True):
        row["place"], row["kind"] = names.index(window.partition), KINDS[window.kind]
        row["procs"], row["from_s"], row["until_s"] = window.procs, window.from_s, window.until_s
    return windows


def note_places(scenario: Scenario, pool: Pool) -> None:
    """Let the partitions of a pool, made of arrays, know what concerns them."""
    partitions: NDArray[np.void] = np.asarray(pool.partitions)
    preempting = preempts(scenario)
    partitions["preempts"] = preempting
    partitions["is_eager"] |= preempting
    names = scenario.cluster.names
    for window in scenario.windows:
        partitions["n_windows"][names.index(window.partition)] += 1


def restarts_of(scenario: Scenario, pool: Pool) -> Restarts | None:
    """Return how often each job was killed and queued again; None if none could be."""
    if not scenario.may_requeue:
        return None
    standings = pool.terms.standings
    return Restarts(
        np.array(field(standings, "n_restarts"), dtype=np.int64),
        np.array(field(standings, "lost_s"), dtype=np.float64),
    )
