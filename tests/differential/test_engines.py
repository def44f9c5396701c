"""The engine against the naive reference, job by job and bit by bit."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

from sim import (
    ClusterSpec,
    Partition,
    Scenario,
    Workload,
    default_workload,
    simulate,
)
from tests.differential import naive
from tests.draw import real_logs
from tests.draw.workloads import scenarios

POLICIES = [(o, b) for o in ("fcfs", "sjf") for b in ("none", "easy")]
ENGINES = ("compiled", "interpreted", "process")
LOGS = (
    "alea-hpc2n-subset",
    "theta_2022",
    "theta_2023",
    "UniLu-Gaia-2014-1",
    "NASA-iPSC-1993-3.1-cln",
    "lublin_256",
)


def assert_same_starts(scenario: Scenario) -> None:
    expected = np.array(naive.starts(scenario))
    for engine in ENGINES:
        found = simulate(scenario, engine=engine).start_s
        differ = np.flatnonzero(expected != found)
        assert len(differ) == 0, (
            f"{len(differ)} starts differ; first row {differ[0]}: naive {expected[differ[0]]!r}, "
            f"{engine} {found[differ[0]]!r}"
        )


@given(scenarios())
def test_generated_scenarios_start_as_in_the_naive_scheduler(scenario: Scenario) -> None:
    assert_same_starts(scenario)


def split(workload: Workload, procs: int) -> ClusterSpec:
    short_s = float(np.median(workload.requested_s))
    narrow = Partition("short", max(1, procs // 4), max_requested_s=short_s)
    return ClusterSpec((narrow, Partition("rest", procs)))


@pytest.mark.parametrize("log", LOGS)
@pytest.mark.parametrize(("order", "backfill"), POLICIES)
def test_real_logs_start_as_in_the_naive_scheduler(
    shared_data: Path, log: str, order: str, backfill: str
) -> None:
    workload = real_logs.read(shared_data, log).head(2000 if order == "fcfs" else 1000)
    # A smaller machine than the real one, so that queues form and backfilling has work to do.
    procs = max(workload.widest_procs, (workload.max_procs or 0) // 3)
    for cluster in (ClusterSpec.single(procs), split(workload, procs)):
        assert_same_starts(Scenario(workload, cluster, order=order, backfill=backfill))


@pytest.mark.parametrize(("order", "backfill"), POLICIES)
@pytest.mark.parametrize("overrun", ["raise", "kill"])
def test_the_built_in_workload_starts_as_in_the_naive_scheduler(
    order: str, backfill: str, overrun: str
) -> None:
    workload = default_workload(seed=3, n_jobs=600)
    widest = workload.widest_procs  # a machine this small is overloaded, so that queues form
    cluster = ClusterSpec((Partition("short", 16, 3600.0), Partition("all", widest)))
    scenario = Scenario(workload, cluster, order, backfill, overrun=overrun)  # type: ignore[arg-type]
    assert_same_starts(scenario)


def test_two_easy_definitions_would_be_seen() -> None:
    """The logs above queue: EASY and no backfilling must differ, or the comparison is empty."""
    workload = default_workload(seed=0, n_jobs=600)
    none, easy = (
        simulate(
            Scenario(workload, ClusterSpec.single(workload.widest_procs), backfill=name)
        ).start_s
        for name in ("none", "easy")
    )
    assert (none != easy).sum() > 100
