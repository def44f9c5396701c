"""Every engine on every real log: the same starts, bit by bit."""

from pathlib import Path

import numpy as np
import pytest

from sim import ClusterSpec, Partition, Scenario, simulate
from sim.api import backfills_for, known_names, simulate_many
from sim.engines import process
from tests.differential import naive
from tests.draw import real_logs

LOGS = (
    "CEA-Curie-2011-2.1-cln",
    "LLNL-Atlas-2006-2.1-cln",
    "NASA-iPSC-1993-3.1-cln",
    "UniLu-Gaia-2014-1",
    "alea-hpc2n-subset",
    "lublin_256",
    "theta_2022",
    "theta_2023",
    "wagap-2013",
)
RULES = backfills_for("processors")
POLICIES = [(order, rule) for order in known_names()["order"] for rule in RULES]
USUAL = [(order, rule) for order in ("fcfs", "sjf") for rule in ("none", "easy")]
CASES = [(log, *policy) for log in LOGS for policy in USUAL] + [
    pytest.param(LOGS[i % len(LOGS)], *policy, marks=pytest.mark.soak)  # each other on one log
    for i, policy in enumerate(POLICIES)
    if policy not in USUAL
]


def test_every_log_is_tried(shared_data: Path) -> None:
    found = {path.name.removesuffix(".swf.gz") for path in (shared_data / "swf").glob("*.swf.gz")}
    assert found == set(LOGS)


@pytest.mark.slow
@pytest.mark.parametrize(("log", "order", "backfill"), CASES)
def test_every_policy_on_every_engine(
    shared_data: Path, log: str, order: str, backfill: str
) -> None:
    is_usual = (order, backfill) in USUAL
    n_jobs = 400 if is_usual else 200
    workload, procs = real_logs.crowded(shared_data, log, n_jobs, share=3)
    short_s = float(np.median(workload.requested_s))
    split = ClusterSpec((Partition("short", max(1, procs // 4), short_s), Partition("rest", procs)))
    for cluster in (ClusterSpec.single(procs), split):
        scenario = Scenario(workload, cluster, order=order, backfill=backfill)
        compiled = simulate(scenario, engine="compiled")
        assert simulate(scenario, engine="interpreted") == compiled
        assert process.run(scenario, kernel="compiled") == compiled
        assert process.run(scenario, kernel="interpreted") == compiled


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.parametrize("log", LOGS)
@pytest.mark.parametrize("backfill", RULES)
def test_whole_logs(shared_data: Path, log: str, backfill: str) -> None:
    workload = real_logs.read(shared_data, log)
    if backfill in ("depth", "conservative"):
        workload = workload.head(5_000)
    cluster = ClusterSpec.single(max(workload.max_procs or 0, workload.widest_procs))
    scenario = Scenario(workload, cluster, backfill=backfill)
    assert simulate(scenario, engine="process") == simulate(scenario, engine="compiled")


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.parametrize("backfill", ["none", "greedy", "easy"])
def test_three_thousand_jobs_start_as_in_the_naive_scheduler(
    shared_data: Path, backfill: str
) -> None:
    workload = real_logs.read(shared_data, "UniLu-Gaia-2014-1").head(3000)
    scenario = Scenario(workload, ClusterSpec.single(700), backfill=backfill)
    expected = np.array(naive.starts(scenario))
    assert (simulate(scenario, engine="compiled").start_s == expected).all()


@pytest.mark.soak
@pytest.mark.slow
def test_threads_change_nothing(shared_data: Path) -> None:
    workload = real_logs.read(shared_data, "theta_2022").head(2000)
    scenarios = [
        Scenario(
            workload,
            ClusterSpec((Partition("small", small, 7200.0 * hours), Partition("main", 4360))),
            order=order,
            backfill=backfill,
        )
        for small in (256, 1024, 2048)
        for hours in (1, 6)
        for order, backfill in POLICIES
    ]
    serial = list(simulate_many(scenarios, threads=1, engine="compiled"))
    assert list(simulate_many(scenarios, threads=4, engine="compiled")) == serial
    assert len({result.start_s.tobytes() for result in serial}) > len(scenarios) // 2
