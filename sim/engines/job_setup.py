"""Setup of jobs: the state before the first event and the result after the last."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sim.kernel.fair_share import UsageTerms, UserShares
from sim.kernel.feedback import Feedback, new_feedback
from sim.kernel.node_power import NodeStates, idle_nodes, no_node_states
from sim.kernel.nodes import Nodes, empty_nodes, places_of
from sim.kernel.policy_context import (
    DRAIN,
    FAILURE,
    PLANNED,
    ExternalEvents,
    HeldJobSlot,
    JobSize,
    JobStanding,
    PolicyContext,
    PoolTerms,
    UserLimit,
    WindowState,
    no_external_events,
    no_terms,
)
from sim.kernel.pool import Pool, empty_pool
from sim.kernel.records import field, rows
from sim.model.accounts import share_nodes, sibling_nodes
from sim.model.admission import NOWHERE, Admission, n_unknown_demands
from sim.model.dependencies import Dependencies, dependencies_of
from sim.model.result import Holds, JobState, Placement, Restarts, SimulationResult, StepSeries
from sim.model.scenario import Scenario
from sim.policies.backfills import backfill_named
from sim.policies.orders import factors, order_named, ranks
from sim.policies.policy import ACTUAL_TIMES, JobFacts
from sim.policies.policy_options import options_of

KINDS = {"planned": PLANNED, "drain": DRAIN, "failure": FAILURE}


def decides_by_plan(scenario: Scenario) -> bool:
    """Return whether capacity windows require every backfilling rule to decide by a plan."""
    return bool(scenario.windows)


def preempts(scenario: Scenario) -> NDArray[np.bool_]:
    """Return, per partition, whether jobs on its processors may be preempted: bool [m]."""
    parts, hosts = scenario.cluster.partitions, scenario.cluster.hosts()
    is_preempting = np.zeros(len(parts), dtype=np.bool_)
    is_preempting[hosts[[part.preemptible for part in parts]]] = True
    return is_preempting


def ranks_of(scenario: Scenario, admission: Admission, facts: JobFacts) -> NDArray[np.int64]:
    """Return each job's rank by tier of its queue, then by queue order: int64 [n].

    If jobs may follow others, it is that of the first of all jobs with the same tier and score, to
    which `sim.kernel.feedback` adds the place of the job among all submitted ones.
    """
    if scenario.dependencies != "ignore":
        return _ranks_before_submission(scenario, admission, facts)
    rank = ranks(order_named(scenario.order), facts)
    tier = _of_partition(admission, [part.tier for part in scenario.cluster.partitions])
    if not tier.any():
        return rank
    placed = np.empty_like(rank)
    placed[np.lexsort((rank, -tier))] = np.arange(len(rank))
    return placed


def _ranks_before_submission(
    scenario: Scenario, admission: Admission, facts: JobFacts
) -> NDArray[np.int64]:
    order = order_named(scenario.order)
    score = facts.submit_s if order.score is None else order.score(facts)
    if score is facts.submit_s:
        score = np.zeros(len(score))
    tier = _of_partition(admission, [part.tier for part in scenario.cluster.partitions])
    by_score = np.lexsort((score, -tier))
    is_other = np.zeros(len(score), dtype=np.int64)
    is_other[1:] = (np.diff(score[by_score]) != 0) | (np.diff(tier[by_score]) != 0)
    rank = np.empty_like(is_other)
    rank[by_score] = np.cumsum(is_other) * len(score)
    return rank


def feedback_of(scenario: Scenario, admission: Admission) -> Feedback:
    """Return the followers of the jobs of a scenario; empty if all are submitted as logged.

    A job that follows a rejected one is submitted as logged, and a rejected one follows none.
    """
    found = dependencies_of(scenario.workload, scenario.dependencies)
    if found is None:
        return new_feedback()
    rejected = admission.partition == NOWHERE
    after_nothing = rejected | (found.preceding < 0) | rejected[found.preceding]
    preceding = np.where(after_nothing, -1, found.preceding)
    return new_feedback(Dependencies(preceding, found.think_s))


def terms_of(scenario: Scenario, admission: Admission, rank: NDArray[np.int64]) -> PoolTerms:
    """Return initial priority tiers and preemption settings of jobs, and the capacity windows.

    `rank` is the result of `ranks_of`: int64 [n].
    """
    parts, terms = scenario.cluster.partitions, no_terms()
    if _has_limits(scenario) or scenario.may_requeue or any(part.tier for part in parts):
        standings = rows(JobStanding, len(rank))
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


def outside_of(scenario: Scenario, admission: Admission) -> ExternalEvents:
    """Return the user limits, begins and ends of windows, and sizes of jobs of a scenario."""
    outside, parts = no_external_events(), scenario.cluster.partitions
    if _has_limits(scenario):
        rank = ranks_of(scenario, admission, facts_of(scenario, admission))
        seated, firsts = _seating(scenario, admission, rank)
        doors, seats = rows(UserLimit, len(firsts)), rows(HeldJobSlot, len(seated))
        seats["job"] = seated
        doors["behind"] = doors["best"] = np.append(firsts, len(seated))[1:]
        doors["limit"] = _limits(scenario, admission)[seated[firsts]]
        rung = np.full(len(parts), -1, dtype=np.int64)
        outside = outside._replace(doors=doors, seats=seats, rung=rung)  # type: ignore[arg-type]
    if scenario.windows:
        windows = _windows(scenario)
        n = np.arange(len(windows))
        times_s = np.concatenate([windows["until_s"], windows["from_s"]])
        # At equal times: ends, then planned ones, drains and failures, each in the given order.
        kind = np.concatenate([np.full(len(n), -1), windows["kind"]])
        order = np.lexsort((kind, times_s))
        turns = np.concatenate([~n, n])[order]
        outside = outside._replace(turns_s=times_s[order], turns=turns)  # type: ignore[arg-type]
    if scenario.moldable is not None:
        procs = admission.procs[:, None]
        smaller = scenario.moldable.smaller_procs(admission.procs)
        sizes = rows(JobSize, smaller.size)
        sizes["procs"] = smaller.ravel()
        sizes["stretch"] = scenario.moldable.stretch(procs, smaller).ravel()
        outside = outside._replace(sizes=sizes)  # type: ignore[arg-type]
    return outside


def facts_of(scenario: Scenario, admission: Admission) -> JobFacts:
    """Return the job properties that the queue order of a scenario may use."""
    return JobFacts(
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
    """Return the limit per user in the queue of each job: int64 [n]; 0 is none."""
    parts = scenario.cluster.partitions
    return _of_partition(admission, [part.running_per_user or 0 for part in parts])


def _seating(
    scenario: Scenario, admission: Admission, rank: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the jobs with a limit, by limit and then rank, and where each limit begins."""
    workload = scenario.workload
    limited = np.flatnonzero(_limits(scenario, admission) > 0)
    place, user = admission.partition[limited], workload.user[limited]
    order = np.lexsort((rank[limited], user, place))
    of = np.column_stack([place[order], user[order]])
    is_first = np.ones(len(of), dtype=np.bool_)
    is_first[1:] = (of[1:] != of[:-1]).any(axis=1)
    return limited[order], np.flatnonzero(is_first)


def _windows(scenario: Scenario) -> NDArray[np.void]:
    windows = rows(WindowState, len(scenario.windows))
    names = scenario.cluster.names
    for row, window in zip(windows, scenario.windows, strict=True):
        row["place"], row["kind"] = names.index(window.partition), KINDS[window.kind]
        row["procs"], row["from_s"], row["until_s"] = window.procs, window.from_s, window.until_s
    return windows


def note_places(scenario: Scenario, pool: Pool) -> None:
    """Set, for each partition of a pool, its preemption flag and number of capacity windows."""
    partitions: NDArray[np.void] = np.asarray(pool.partitions)
    preempting = preempts(scenario)
    partitions["preempts"] = preempting
    partitions["is_eager"] |= preempting
    names = scenario.cluster.names
    for window in scenario.windows:
        partitions["n_windows"][names.index(window.partition)] += 1


def restarts_of(scenario: Scenario, pool: Pool) -> Restarts | None:
    """Return each job's restarts, or None if no job of the scenario can be restarted."""
    if not scenario.may_requeue:
        return None
    standings = pool.terms.standings
    return Restarts(
        np.array(field(standings, "n_restarts"), dtype=np.int64),
        np.array(field(standings, "lost_s"), dtype=np.float64),
    )


def procs_of(scenario: Scenario, pool: Pool) -> NDArray[np.int64] | None:
    """Return the processors on which each job ran, or None if jobs are rigid."""
    if scenario.moldable is None:
        return None
    return np.array(field(pool.jobs, "procs"), dtype=np.int64)


def make_pool(scenario: Scenario, admission: Admission) -> Pool:
    """Return the initial pool of queues and processors of a scenario, as arrays."""
    order, rule = order_named(scenario.order), backfill_named(scenario.backfill)
    options = options_of(scenario)
    facts = facts_of(scenario, admission)
    is_clairvoyant = ACTUAL_TIMES in rule.options and options.of(ACTUAL_TIMES) == 1.0
    rank = ranks_of(scenario, admission, facts)
    usage = order.usage(options.values)
    plans = rule.plans or decides_by_plan(scenario) or bool(preempts(scenario).any())
    pool = empty_pool(
        procs=admission.procs,
        estimate_s=scenario.boot_s + admission.runtime_s
        if is_clairvoyant
        else admission.estimate_s,
        rank=rank,
        partition=admission.place,
        partition_procs=np.array([p.procs for p in scenario.cluster.partitions], dtype=np.int64),
        context=PolicyContext(
            submit_s=None if order.score_now is None else facts.submit_s,
            factor=None if order.score_now is None else factors(order, facts),
            options=options.backfill,
            order_options=options.order,
            is_eager=rule.is_eager(options.values) or scenario.moldable is not None,
            corrects=admission.may_overrun and not is_clairvoyant,
            decides_late=scenario.overrun == "extend"
            and admission.may_overrun
            and not is_clairvoyant,
            is_ranked_anew=order.score_now is not None,
            keeps_scores=order.is_stepwise and (usage is None or usage.period_s > 0.0),
            plans=plans,
            keeps_plan=rule.keeps_plan,
            users=_users(scenario, usage),
            terms=terms_of(scenario, admission, rank),
        ),
    )
    note_places(scenario, pool)
    return pool


def _users(scenario: Scenario, terms: UsageTerms | None) -> UserShares | None:
    """Return the users of all jobs and their shares; None if the order does not use them."""
    if terms is None:
        return None
    if scenario.accounts is not None:
        nodes = share_nodes(scenario.accounts, scenario.workload)
    else:
        nodes = sibling_nodes(scenario.shares, scenario.workload)
    is_plain = scenario.accounts is None and not terms.is_fair_tree and terms.period_s == 0.0
    due = nodes.due[np.argsort(nodes.user, kind="stable")][-nodes.n_users :]
    return UserShares(nodes.of_job, due, terms, None if is_plain else nodes)


def make_nodes(scenario: Scenario, admission: Admission) -> Nodes:
    """Return the initial state of a scenario's named machines and jobs, as arrays."""
    demand = admission.demand
    if demand is None:
        raise ValueError("this scenario does not allocate machines")
    rule = backfill_named(scenario.backfill)
    n_bookings = 0
    if rule.n_bookings is not None:
        n_bookings = rule.n_bookings(options_of(scenario).values)
    return empty_nodes(
        make_pool(scenario, admission),
        procs=admission.procs,
        partition=admission.place,
        demand=demand,
        capacity=scenario.cluster.machine_capacity(),
        machine_partition=scenario.cluster.machine_partition(),
        is_shared=scenario.allocation == "shared_nodes",
        n_bookings=n_bookings,
    )


def make_state(scenario: Scenario, admission: Admission) -> Pool | Nodes:
    """Return the initial state of the kind that the scenario's allocation requires."""
    if scenario.allocation != "processors":
        return make_nodes(scenario, admission)
    return make_pool(scenario, admission)


def node_states_of(scenario: Scenario, admission: Admission) -> NodeStates:
    """Return the nodes of a scenario, idle since the first submission; none if none is ever off."""
    power, ran = scenario.power, admission.partition != NOWHERE
    if power is None or power.off_after_s is None or not ran.any():
        return no_node_states()
    return idle_nodes(
        np.array([part.procs for part in scenario.cluster.partitions], dtype=np.int64),
        admission.procs,
        power.node_procs,
        power.off_after_s,
        power.boot_s,
        float(scenario.workload.submit_s[ran].min()),
    )


def pool_of(state: Pool | Nodes) -> Pool:
    """Return the pool contained in a state, or the state itself if it is a pool."""
    return state.pool if isinstance(state, Nodes) else state


def placement_of(state: Pool | Nodes) -> Placement | None:
    """Return the machines of each job, or None for a state without named machines."""
    return Placement(*places_of(state)) if isinstance(state, Nodes) else None


def job_result(
    scenario: Scenario,
    admission: Admission,
    start_s: NDArray[np.float64],
    end_s: NDArray[np.float64],
    engine: str,
    *,
    series: tuple[StepSeries, ...] | None = None,
    note: str | None = None,
    placement: Placement | None = None,
    restarts: Restarts | None = None,
    hold_from_s: NDArray[np.float64] | None = None,
    submitted_s: Sequence[float] | NDArray[np.float64] = (),
    procs: NDArray[np.int64] | None = None,
) -> SimulationResult:
    """Return the result of a simulation with read-only columns."""
    state = np.full(len(admission.partition), JobState.COMPLETED, dtype=np.int8)
    state[admission.killed] = JobState.KILLED
    state[admission.partition == NOWHERE] = JobState.REJECTED
    holds = None
    if scenario.switches_off and hold_from_s is not None:
        holds = Holds(hold_from_s, end_s)
    submit_s, found = None, dependencies_of(scenario.workload, scenario.dependencies)
    if found is not None:
        simulated_s = np.asarray(submitted_s, dtype=np.float64)
        submit_s = np.where(np.isnan(simulated_s), scenario.workload.submit_s, simulated_s)
    if scenario.cleanup_s > 0:
        end_s = start_s + admission.ran_s
    for column in (start_s, end_s, state):
        column.setflags(write=False)
    notes = [] if note is None else [note]
    if found is not None:
        notes.append(
            f"{found.n_followers:,} of {scenario.workload.n_jobs:,} jobs are submitted after the "
            "end of another one"
        )
    if procs is not None:
        n_fewer = int((procs < admission.procs).sum())
        notes.append(
            f"{n_fewer:,} of {scenario.workload.n_jobs:,} jobs ran on fewer processors than they "
            "requested"
        )
    n_unknown = n_unknown_demands(scenario) if placement is not None else 0
    if n_unknown:
        notes.append(
            f"{n_unknown} of {scenario.workload.n_jobs} jobs have no memory request; it counts "
            "as none"
        )
    return SimulationResult(
        start_s=start_s,
        end_s=end_s,
        partition=admission.partition,
        state=state,
        scenario_digest=scenario.digest,
        engine=engine,
        series=series,
        note="; ".join(notes) or None,
        placement=placement,
        restarts=restarts,
        holds=holds,
        submit_s=submit_s,
        procs=procs,
    )
