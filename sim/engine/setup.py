"""What every engine does before the first event and after the last."""

import numpy as np
from numpy.typing import NDArray

from sim.kernel.node import Nodes, empty_nodes, places_of
from sim.kernel.pool import Pool, empty_pool
from sim.model.admission import NOWHERE, Admission, n_unknown_demands
from sim.model.result import JobState, Placement, SimulationResult, StepSeries
from sim.model.scenario import Scenario
from sim.policies.order import order_named, ranks


def make_pool(scenario: Scenario, admission: Admission) -> Pool:
    """Return the pool of a scenario, made of arrays, before its first event."""
    cluster = scenario.cluster
    return empty_pool(
        procs=admission.procs,
        estimate_s=admission.estimate_s,
        rank=ranks(
            order_named(scenario.order),
            scenario.workload.submit_s,
            admission.requested_s,
            admission.procs,
        ),
        partition=admission.partition,
        partition_procs=np.array([p.procs for p in cluster.partitions], dtype=np.int64),
    )


def make_nodes(scenario: Scenario, admission: Admission) -> Nodes:
    """Return the machines of a scenario, made of arrays, before its first event."""
    demand = admission.demand
    if demand is None:
        raise ValueError("whole nodes are not what this scenario allocates")
    return empty_nodes(
        make_pool(scenario, admission),
        procs=admission.procs,
        partition=admission.partition,
        demand=demand,
        capacity=scenario.cluster.machine_capacity(),
        machine_partition=scenario.cluster.machine_partition(),
    )


def make_state(scenario: Scenario, admission: Admission) -> Pool | Nodes:
    """Return the state that the allocation of a scenario needs, before its first event."""
    if scenario.allocation == "whole_nodes":
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
) -> SimulationResult:
    """Return the result of a simulation; the columns become read-only."""
    state = np.full(len(admission.partition), JobState.COMPLETED, dtype=np.int8)
    state[admission.killed] = JobState.KILLED
    state[admission.partition == NOWHERE] = JobState.REJECTED
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
    )
