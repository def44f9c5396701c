"""What every engine does before the first event and after the last."""

import numpy as np
from numpy.typing import NDArray

from sim.kernel.pool import Pool, empty_pool
from sim.model.admission import NOWHERE, Admission
from sim.model.result import JobState, SimulationResult, StepSeries
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


def finished(
    scenario: Scenario,
    admission: Admission,
    start_s: NDArray[np.float64],
    end_s: NDArray[np.float64],
    engine: str,
    *,
    series: tuple[StepSeries, ...] | None = None,
    note: str | None = None,
) -> SimulationResult:
    """Return the result of a simulation; the columns become read-only."""
    state = np.full(len(admission.partition), JobState.COMPLETED, dtype=np.int8)
    state[admission.killed] = JobState.KILLED
    state[admission.partition == NOWHERE] = JobState.REJECTED
    for column in (start_s, end_s, state):
        column.setflags(write=False)
    return SimulationResult(
        start_s=start_s,
        end_s=end_s,
        partition=admission.partition,
        state=state,
        scenario_digest=scenario.digest,
        engine=engine,
        series=series,
        note=note,
    )
