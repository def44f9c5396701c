"""What engines make of a scenario on machines, beside a naive reference."""

from collections.abc import Sequence

import numpy as np

from sim import Scenario, simulate
from sim.api import SimulationResult
from tests.differential.naive_nodes import Job

ENGINES = ("compiled", "interpreted", "process")


def assert_same_on_machines(scenario: Scenario, jobs: Sequence[Job]) -> SimulationResult:
    """See every engine start each job as the reference did, on the same machines.

    Args:
        scenario: with machines.
        jobs: by row, as the reference ran them.

    Returns:
        What the engines agree on.
    """
    expected = np.array([np.nan if job.start is None else job.start for job in jobs])
    results = [simulate(scenario, engine=engine) for engine in ENGINES]
    for result in results:
        differ = np.flatnonzero(~((expected == result.start_s) | np.isnan(expected)))
        assert len(differ) == 0, (
            f"{len(differ)} starts differ; first row {differ[0]}: naive {expected[differ[0]]!r}, "
            f"{result.engine} {result.start_s[differ[0]]!r}"
        )
        assert np.isnan(result.start_s[np.isnan(expected)]).all()
        assert result.placement is not None
        for row, job in enumerate(jobs):
            numbers = [machine.number for machine in job.got]
            assert result.placement.of(row).tolist() == numbers, (result.engine, row)
        assert result == results[0]
    return results[0]
