"""What every engine does before the first event and after the last."""

import numpy as np
from numpy.typing import NDArray

from sim.engine.standing import decides_by_plan, facts_of, note_places, preempts, ranks_of, terms_of
from sim.kernel.node import Nodes, empty_nodes, places_of
from sim.kernel.pool import Pool, empty_pool
from sim.kernel.told import Told
from sim.kernel.usage import Users
from sim.model.admission import NOWHERE, Admission, n_unknown_demands
from sim.model.result import JobState, Placement, Restarts, SimulationResult, StepSeries
from sim.model.scenario import Scenario
from sim.policies.backfill import backfill_named
from sim.policies.kinds import ACTUAL_TIMES
from sim.policies.order import factors, order_named
from sim.policies.told import options_of


def make_pool(scenario: Scenario, admission: Admission) -> Pool:
    """Return the pool of a scenario, made of arrays, before its first event."""
    order, rule = order_named(scenario.order), backfill_named(scenario.backfill)
    options = options_of(scenario)
    facts = facts_of(scenario, admission)
    is_clairvoyant = ACTUAL_TIMES in rule.options and options.of(ACTUAL_TIMES) == 1.0
    rank = ranks_of(scenario, admission, facts)
    plans = rule.plans or decides_by_plan(scenario) or bool(preempts(scenario).any())
    pool = empty_pool(
        procs=admission.procs,
        estimate_s=admission.runtime_s if is_clairvoyant else admission.estimate_s,
        rank=rank,
        partition=admission.place,
        partition_procs=np.array([p.procs for p in scenario.cluster.partitions], dtype=np.int64),
        told=Told(
            submit_s=facts.submit_s,
            factor=factors(order, facts),
            options=options.backfill,
            order_options=options.order,
            is_eager=rule.is_eager(options.values),
            corrects=admission.may_overrun and not is_clairvoyant,
            is_ranked_anew=order.score_now is not None,
            plans=plans,
            keeps_plan=rule.keeps_plan,
            users=_users(scenario, order.half_life_s(options.values)),
            terms=terms_of(scenario, admission, rank),
        ),
    )
    note_places(scenario, pool)
    return pool


def _users(scenario: Scenario, half_life_s: float | None) -> Users | None:
    """Return the users of all jobs and their shares; None if the order does not ask."""
    if half_life_s is None:
        return None
    users, of_job = np.unique(scenario.workload.user, return_inverse=True)
    shares = np.array([scenario.shares.get(user, 1.0) for user in users.tolist()])
    return Users(of_job.astype(np.int64), shares / shares.sum(), half_life_s)


def make_nodes(scenario: Scenario, admission: Admission) -> Nodes:
    """Return the machines of a scenario, made of arrays, before its first event."""
    demand = admission.demand
    if demand is None:
        raise ValueError("machines are not what this scenario allocates")
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
    """Return the state that the allocation of a scenario needs, before its first event."""
    if scenario.allocation != "processors":
        return make_nodes(scenario, admission)
    return make_pool(scenario, admission)


def pool_of(state: Pool | Nodes) -> Pool:
    """Return the pool that a state is, or contains."""
    return state.pool if isinstance(state, Nodes) else state


def placement_of(state: Pool | Nodes) -> Placement | None:
    """Return which machines each job got; None if the state knows none."""
    return Placement(*places_of(state)) if isinstance(state, Nodes) else None


def finished(
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
) -> SimulationResult:
    """Return the result of a simulation; the columns become read-only."""
    state = np.full(len(admission.partition), JobState.COMPLETED, dtype=np.int8)
    state[admission.killed] = JobState.KILLED
    state[admission.partition == NOWHERE] = JobState.REJECTED
    if scenario.cleanup_s > 0:
        end_s = start_s + admission.ran_s
    for column in (start_s, end_s, state):
        column.setflags(write=False)
    notes = [] if note is None else [note]
    n_unknown = n_unknown_demands(scenario) if placement is not None else 0
    if n_unknown:
        notes.append(
            f"{n_unknown} of {scenario.workload.n_jobs} jobs do not tell what memory they need; it "
            "counts as none"
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
    )
