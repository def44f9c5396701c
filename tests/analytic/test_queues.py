"""The simulator against queueing theory: M/M/1, M/M/c and M/D/1 (Kleinrock, Queueing Systems I).

A cluster of c processors under serial jobs in arrival order is the queue of c servers. Each mean
wait is estimated from independent replications, whose first jobs are dropped since they find an
empty machine. Seeds are fixed, so nothing here is left to chance.
"""

import math

import numpy as np
import pytest
from scipy import stats

from sim import ClusterSpec, Scenario, Workload
from sim.api import simulate_many

pytestmark = pytest.mark.slow

N_REPLICATIONS, N_JOBS, N_WARM_UP = 30, 200_000, 10_000
CONFIDENCE = 0.999


def erlang_c_wait(arrival_rate: float, service_rate: float, servers: int) -> float:
    """Mean wait of M/M/c, by Erlang's C formula."""
    load = arrival_rate / service_rate
    busy = load / servers
    last = load**servers / math.factorial(servers) / (1 - busy)
    all_busy = last / (sum(load**n / math.factorial(n) for n in range(servers)) + last)
    return all_busy / (servers * service_rate - arrival_rate)


def deterministic_wait(arrival_rate: float, service_rate: float) -> float:
    """Mean wait of M/D/1, by Pollaczek and Khinchine."""
    busy = arrival_rate / service_rate
    return busy / (2 * (1 - busy)) / service_rate


def interval(
    arrival_rate: float, servers: int, backfill: str, deterministic: bool
) -> tuple[float, float]:
    """Return the confidence interval of the simulated mean wait; the service rate is 1."""

    def replications() -> list[Scenario]:
        made = []
        for seed in range(N_REPLICATIONS):
            random = np.random.default_rng([seed, servers])
            runtime_s = np.ones(N_JOBS) if deterministic else random.exponential(1.0, N_JOBS)
            workload = Workload.from_arrays(
                submit_s=np.cumsum(random.exponential(1 / arrival_rate, N_JOBS)),
                runtime_s=runtime_s,
                procs=np.ones(N_JOBS, dtype=int),
            )
            made.append(Scenario(workload, ClusterSpec.single(servers), backfill=backfill))
        return made

    means = list(
        simulate_many(
            replications(),
            each=lambda scenario, result: float(
                (result.start_s - scenario.workload.submit_s)[N_WARM_UP:].mean()
            ),
        )
    )
    error = stats.sem(means)
    low, high = stats.t.interval(CONFIDENCE, len(means) - 1, loc=np.mean(means), scale=error)
    return float(low), float(high)


@pytest.mark.soak
@pytest.mark.parametrize("backfill", ["none", "easy"])
@pytest.mark.parametrize(
    ("arrival_rate", "servers", "deterministic"),
    [(0.7, 1, False), (0.85, 1, False), (4.0, 5, False), (14.0, 16, False), (0.7, 1, True)],
    ids=["M/M/1", "M/M/1 busy", "M/M/5", "M/M/16", "M/D/1"],
)
def test_the_mean_wait_is_that_of_the_formula(
    arrival_rate: float, servers: int, deterministic: bool, backfill: str
) -> None:
    expected = (
        deterministic_wait(arrival_rate, 1.0)
        if deterministic
        else erlang_c_wait(arrival_rate, 1.0, servers)
    )
    low, high = interval(arrival_rate, servers, backfill, deterministic)
    assert low <= expected <= high
    assert high - low < 0.1 * expected, "an interval this wide would show nothing"
    wrong = erlang_c_wait(arrival_rate, 1.0, servers + 1)
    assert not low <= wrong <= high, "one server more must be told apart"
