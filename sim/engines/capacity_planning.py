"""Capacity planning: the number of servers that future workloads of a model need.

Futures are counted (fluid) and placed by first fit. First fit with unlimited servers uses the first
k of them and decides as with k servers; with fewer it rejects the first job that would have used a
further one. So one simulation gives the minimum, without a search.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from sim.engines import run
from sim.generators.cloud.batches import clock_of
from sim.generators.cloud.capacity import (
    CapacityCase,
    CapacityPlan,
    ServerRequirement,
    ServerSize,
    check_countable,
    fluid_servers,
    missing_share,
    placement_units,
)
from sim.generators.generator import Model, generate
from sim.model.cluster import ClusterSpec, MachineSpec, Partition
from sim.model.errors import WorkloadError
from sim.model.scenario import Scenario
from sim.model.tasks import Tasks
from sim.model.workload import Workload

DAY_S = 86_400.0
MAX_WARM_UP_DAYS = 7

MAX_MISSING_SHARE = 0.01  # Share of the demand that may be missing after the automatic warm-up

MOST_FUTURES = 100_000

PlanningProgress = Callable[[str, int, int], None]


def first_fit_servers(workload: Workload, server: ServerSize, begin_s: float, end_s: float) -> int:
    """Return the number of servers that first fit needs between `begin_s` and `end_s`.

    Both are seconds since the first submission. Jobs are placed from the first on; jobs after the
    end are not placed.
    """
    is_counted = (workload.runtime_s > 0) & (workload.submit_s < end_s)
    if not is_counted.any():
        return 0
    job, alike, cores, memory = placement_units(workload, server)
    there = is_counted[job]
    row = (np.cumsum(is_counted) - 1)[job[there]]
    tasks = Tasks.from_arrays(
        job=row, runtime_s=workload.runtime_s[job[there]], instances=alike[there],
        mcpu=cores[there] * 1000, mem_bytes=memory[there],
    )  # fmt: skip
    # Times count from the first remaining job, as in every workload.
    submit_s = workload.submit_s[is_counted]
    jobs = Workload.from_arrays(
        submit_s=submit_s, runtime_s=workload.runtime_s[is_counted],
        procs=np.ones(int(is_counted.sum()), dtype=np.int64), tasks=tasks,
    )  # fmt: skip
    n_servers = 2 * fluid_servers(workload, server, 0.0, end_s) + 16
    most = int(alike[there].sum())
    while True:
        n_servers = min(n_servers, most)
        spec = MachineSpec("server", server.cores, n_servers, server.mem_bytes)
        cluster = ClusterSpec((Partition.of_machines("servers", (spec,)),))
        scenario = Scenario(
            jobs, cluster, "fcfs", "none", allocation="instances", placement="first_fit"
        )
        instances = run(scenario, "auto", monitor=False).instances
        assert instances is not None  # noqa: S101 - that is what was asked for
        submitted_s = np.repeat(jobs.submit_s[tasks.job], tasks.instances)
        if (instances.start_s <= submitted_s).all() or n_servers == most:
            break
        n_servers *= 2
    first_s = float(submit_s[0])
    there_then = (instances.end_s + first_s > begin_s) & (instances.start_s + first_s < end_s)
    return int(instances.machine[there_then].max()) + 1 if there_then.any() else 0


def plan_capacity(
    model: Model,
    server: ServerSize,
    *,
    days: float,
    futures: int = 200,
    share: float = 0.95,
    scales: Sequence[float] = (1.0,),
    suppositions: Sequence[tuple[str, Model, Mapping[str, Any]]] = (),
    warm_up_days: float | None = None,
    packed: bool = True,
    seed: int = 0,
    progress: PlanningProgress | None = None,
) -> CapacityPlan:
    """Return how many servers suffice in a given share of the futures drawn from a model.

    Every case is drawn with the same seeds, so that differences between cases are not chance.

    Args:
        model: model that draws the futures.
        server: size of each server.
        days: days for which the servers should suffice.
        futures: number of futures for each case, 1 or more.
        share: share of the futures in which they suffice, above 0 to 1.
        scales: factors on the rate of arrivals, one case each.
        suppositions: what-if cases: name, model with other settings, and these settings; each with
            all scales.
        warm_up_days: days generated before the days that count; None takes as many (at most
            `MAX_WARM_UP_DAYS`) as reduce the missing demand to `MAX_MISSING_SHARE`.
        packed: whether jobs are also placed by first fit.
        seed: seed of the first future, from 0.
        progress: callback during the work; it may raise to end it.

    Raises:
        WorkloadError: an impossible number, or jobs that cannot be placed on the servers.
    """
    if not (np.isfinite(days) and days > 0) or not 1 <= futures <= MOST_FUTURES:
        raise WorkloadError(
            f"{futures:,} futures of {days:g} days; allowed are 1 to {MOST_FUTURES:,} futures of "
            "more than 0 days."
        )
    if not 0.0 < share <= 1.0:
        raise WorkloadError(f"share is {share:g}; allowed are numbers above 0 and at most 1.")
    if warm_up_days is not None and not (np.isfinite(warm_up_days) and warm_up_days >= 0):
        raise WorkloadError(f"the warm-up is {warm_up_days:g} days; allowed are numbers from 0.")
    if not scales:
        raise WorkloadError("there is no scale; give one or more, such as 1.")
    say = progress or _silent
    pilot = generate(model, duration_s=days * DAY_S, seed=seed, scale=float(scales[0]))
    check_countable(pilot, server)
    warm_up = float(warm_up_days) if warm_up_days is not None else _warm_up(pilot)
    cases = []
    for name, supposed, settings in (("as it is", model, {}), *suppositions):
        for scale in scales:
            label = f"{name}, {scale:g} times the arrivals" if scale != 1.0 else name
            counts = _case(
                supposed, server, days, warm_up, futures, float(scale), packed, seed,
                partial(_in_case, say, label, futures),
            )  # fmt: skip
            jobs, missing, fluid, by_first_fit = counts
            cases.append(
                CapacityCase(
                    label, float(scale), dict(settings), jobs, missing,
                    ServerRequirement.of(fluid, share),
                    ServerRequirement.of(by_first_fit, share) if packed else None,
                )
            )  # fmt: skip
    return CapacityPlan(
        model.generator, model.source, server, float(days), warm_up, futures, share, seed,
        tuple(cases),
    )  # fmt: skip


def _silent(_what: str, _done: int, _of: int) -> None:
    return None


def _in_case(say: PlanningProgress, label: str, futures: int, done: int) -> None:
    say(label, done, futures)


def _midnight_s(future: Workload) -> float:
    """Return the seconds from the midnight before a future to its first submission."""
    return float(clock_of(future)[0] % DAY_S)


def _warm_up(pilot: Workload) -> float:
    enough = (
        days
        for days in range(MAX_WARM_UP_DAYS)
        if missing_share(pilot, days * DAY_S) <= MAX_MISSING_SHARE
    )
    return float(next(enough, MAX_WARM_UP_DAYS))


def _case(
    model: Model,
    server: ServerSize,
    days: float,
    warm_up: float,
    futures: int,
    scale: float,
    packed: bool,
    seed: int,
    say: Callable[[int], None],
) -> tuple[float, float, list[int], list[int]]:
    """Return mean jobs, missing share, and servers of every future by both ways of counting."""
    fluid, by_first_fit, jobs, missing = [], [], 0.0, 0.0
    for at in range(futures):
        say(at)
        future = generate(model, duration_s=(warm_up + days) * DAY_S, seed=seed + at, scale=scale)
        check_countable(future, server)
        begin_s = warm_up * DAY_S - _midnight_s(future)
        end_s = begin_s + days * DAY_S
        fluid.append(fluid_servers(future, server, begin_s, end_s))
        if packed:
            by_first_fit.append(first_fit_servers(future, server, begin_s, end_s))
        jobs += float((future.submit_s >= begin_s).sum()) / futures
        missing += missing_share(future, warm_up * DAY_S) / futures
    say(futures)
    return jobs, missing, fluid, by_first_fit
