"""The engine against the naive reference, job by job and bit by bit."""

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim import ClusterSpec, Partition, Scenario, Workload, simulate
from sim.api import backfills_for, known_names, measures
from sim.generators import default_workload
from sim.model.columns import read_only_copy
from sim.policies.backfills import backfill_named
from tests.differential import naive
from tests.draw import real_logs
from tests.draw.workloads import contended, scenarios

POLICIES = [(o, b) for o in ("fcfs", "sjf") for b in ("none", "easy")]
ALL = list(product(known_names()["order"], backfills_for("processors")))
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


@pytest.mark.soak
@pytest.mark.parametrize("backfill", backfills_for("processors"))
@given(st.data())
def test_generated_scenarios_start_as_in_the_naive_scheduler(
    backfill: str, data: st.DataObject
) -> None:
    """HYPOTHESIS_EXAMPLES=5000 draws so many scenarios for each rule."""
    assert_same_starts(data.draw(scenarios(rules=(backfill_named(backfill),))))


def split(workload: Workload, procs: int) -> ClusterSpec:
    short_s = float(np.median(workload.requested_s))
    narrow = Partition("short", max(1, procs // 4), max_requested_s=short_s)
    return ClusterSpec((narrow, Partition("rest", procs)))


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.parametrize("log", LOGS)
@pytest.mark.parametrize(("order", "backfill"), POLICIES)
def test_real_logs_start_as_in_the_naive_scheduler(
    shared_data: Path, log: str, order: str, backfill: str
) -> None:
    n_jobs = 800 if order == "fcfs" else 400
    workload, procs = real_logs.crowded(shared_data, log, n_jobs, share=3)
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


@pytest.mark.parametrize("backfill", backfills_for("processors"))
def test_users_who_compete_start_as_in_the_naive_scheduler(backfill: str) -> None:
    n_moved = 0
    for seed in range(3):
        workload = default_workload(seed=seed, n_jobs=100)
        workload = replace(workload, submit_s=read_only_copy(np.floor(workload.submit_s / 10)))
        widest = workload.widest_procs
        cluster = ClusterSpec((Partition("short", 16, 3600.0), Partition("all", widest)))
        scenario = contended(Scenario(workload, cluster, backfill=backfill), seed)
        assert_same_starts(scenario)
        unfair = replace(scenario, options={**scenario.options, "fairshare_weight": 0.0})
        n_moved += int((simulate(unfair).start_s != simulate(scenario).start_s).sum())
    assert n_moved > 50


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.parametrize(
    "log", ["LLNL-Atlas-2006-2.1-cln", "UniLu-Gaia-2014-1", "NASA-iPSC-1993-3.1-cln"]
)
def test_fair_shares_of_real_users_are_those_of_the_naive_scheduler(
    shared_data: Path, log: str
) -> None:
    workload, procs = real_logs.crowded(shared_data, log, 300, share=8)
    workload = replace(
        workload, submit_s=read_only_copy(np.floor(workload.submit_s / 20))
    )  # so they queue
    assert len(set(workload.user.tolist())) > 5
    for half_life_s in (0.0, 3600.0, 7 * 86400.0):
        options = {"fairshare_weight": 10_000.0, "half_life_s": half_life_s}
        scenario = Scenario(workload, split(workload, procs), "multifactor", options=options)
        assert_same_starts(scenario)
        unfair = replace(scenario, options={})
        assert (simulate(unfair).start_s != simulate(scenario).start_s).sum() > 50


@pytest.mark.slow
@pytest.mark.parametrize(("order", "backfill"), ALL)
def test_every_policy_starts_as_in_the_naive_scheduler(
    shared_data: Path, order: str, backfill: str
) -> None:
    logs = ("theta_2022", "UniLu-Gaia-2014-1", "lublin_256")
    log = logs[ALL.index((order, backfill)) % 3]
    workload, procs = real_logs.crowded(shared_data, log, 120, share=3)
    for overrun in ("raise", "extend"):
        scenario = Scenario(workload, split(workload, procs), order, backfill, overrun=overrun)  # type: ignore[arg-type]
        assert_same_starts(scenario)


@pytest.mark.slow
def test_bounded_slowdowns_are_those_of_the_naive_scheduler(shared_data: Path) -> None:
    """The table of `benchmarks.policies`, in small, beside an independent implementation."""
    workload = real_logs.read(shared_data, "lublin_256").head(400)
    cluster = ClusterSpec.single(256)
    for order, backfill in product(known_names()["order"], ("none", "easy")):
        scenario = Scenario(workload, cluster, order, backfill)
        told = measures(scenario, simulate(scenario))["mean_bounded_slowdown"]
        rows = zip(
            naive.starts(scenario),
            workload.submit_s.tolist(),
            workload.runtime_s.tolist(),
            strict=True,
        )
        expected = [max(1.0, (b - s + p) / max(p, 10.0)) for b, s, p in rows]
        assert told == pytest.approx(sum(expected) / len(expected), rel=1e-12), (order, backfill)


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
