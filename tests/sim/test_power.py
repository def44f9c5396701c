"""Power of nodes: hand-worked energy, switching off, and what a scenario refuses."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sim import (
    CapacityWindow,
    ClusterSpec,
    NodePower,
    Partition,
    PowerCap,
    ResultCache,
    Scenario,
    ScenarioError,
    Workload,
    measures,
    simulate,
    simulate_many,
    summarise,
)
from sim.metrics.energy import energy_metrics, node_use

HOUR_S = 3600.0


def scenario(
    power: NodePower | None, *jobs: tuple[float, float, int], procs: int = 4, **more: Any
) -> Scenario:
    """Return a scenario of jobs (submit, run time, processors)."""
    submit_s, runtime_s, width = zip(*jobs, strict=True)
    workload = Workload.from_arrays(submit_s=submit_s, runtime_s=runtime_s, procs=width)
    return Scenario(workload, ClusterSpec.single(procs), power=power, **more)


def figures(told: Scenario) -> dict[str, float]:
    return measures(told, simulate(told, engine="interpreted"))


def test_energy_of_one_job_by_hand() -> None:
    """4 nodes of 100 W for 1 h, of which 2 need 200 W more for the whole hour."""
    power = NodePower(300.0, 100.0, price_per_kwh=0.5)
    found = figures(scenario(power, (0.0, HOUR_S, 2)))
    assert found["energy_kwh"] == pytest.approx(0.8)
    assert found["energy_cost"] == pytest.approx(0.4)
    assert found["mean_power_kw"] == found["peak_power_kw"] == pytest.approx(0.8)
    assert found["n_boots"] == 0


def test_energy_of_nodes_that_are_switched_off_by_hand() -> None:
    """One node: work 0-10, idle to 15, off to 30, boot to 34, work to 44."""
    power = NodePower(200.0, 100.0, 10.0, 150.0, off_after_s=5.0, boot_s=4.0)
    told = scenario(power, (0.0, 10.0, 1), (30.0, 10.0, 1), procs=1)
    result = simulate(told, engine="interpreted")
    assert result.start_s.tolist() == [0.0, 34.0]
    assert result.end_s.tolist() == [10.0, 44.0]
    assert result.holds is not None
    assert result.holds.from_s.tolist() == [0.0, 30.0]
    found = energy_metrics(told, result)
    joules = 10 * 200 + 5 * 100 + 15 * 10 + 4 * 150 + 10 * 200
    assert found.energy_kwh * 3.6e6 == pytest.approx(joules)
    assert found.peak_power_kw == pytest.approx(0.2)
    assert found.n_boots == 1
    assert measures(told, result)["mean_wait_s"] == 2.0


def test_a_job_on_the_rest_of_a_booting_node_waits_for_it() -> None:
    """The second job takes the other processor of the node that boots from 20 to 24."""
    power = NodePower(200.0, 100.0, node_procs=2, off_after_s=5.0, boot_s=4.0)
    told = scenario(power, (0.0, 1.0, 1), (20.0, 9.0, 1), (21.0, 9.0, 1), procs=2)
    assert simulate(told, engine="interpreted").start_s.tolist() == [0.0, 24.0, 24.0]


def test_the_last_idle_node_is_taken_first() -> None:
    """Two nodes end at 1 and at 8; at 10 only the first of them is off."""
    power = NodePower(200.0, 100.0, off_after_s=5.0, boot_s=4.0)
    told = scenario(power, (0.0, 1.0, 1), (0.0, 8.0, 1), (10.0, 2.0, 1), (10.0, 2.0, 1), procs=2)
    assert simulate(told, engine="interpreted").start_s.tolist() == [0.0, 0.0, 10.0, 14.0]


def test_a_node_is_on_at_the_instant_of_its_delay() -> None:
    power = NodePower(200.0, 100.0, off_after_s=5.0, boot_s=4.0)
    told = scenario(power, (0.0, 1.0, 1), (6.0, 1.0, 1), procs=1)
    assert simulate(told, engine="interpreted").start_s.tolist() == [0.0, 6.0]


def test_the_plan_has_room_for_a_boot() -> None:
    """Without it, the third job would end at 10 by its estimate and overtake the second."""
    jobs = ((0.0, 10.0, 1), (1.0, 5.0, 2), (2.0, 8.0, 1))
    assert simulate(scenario(None, *jobs, procs=2), engine="interpreted").start_s[2] == 2.0
    power = NodePower(2.0, 1.0, off_after_s=100.0, boot_s=4.0)
    told = replace(scenario(power, *jobs, procs=2), options={})
    assert simulate(told, engine="interpreted").start_s.tolist() == [0.0, 10.0, 2.0]
    longer = ((0.0, 10.0, 1), (1.0, 5.0, 2), (2.0, 12.5, 1))
    assert simulate(scenario(power, *longer, procs=2), engine="interpreted").start_s[2] == 15.0


def test_a_power_that_is_never_switched_off_changes_no_start() -> None:
    rng = np.random.default_rng(1)
    jobs = [(float(s), float(r), int(n)) for s, r, n in rng.integers(1, 9, (40, 3))]
    jobs.sort()
    plain, told = (scenario(p, *jobs, procs=8) for p in (None, NodePower(9.0, 4.0)))
    starts = simulate(plain, engine="interpreted").start_s
    assert simulate(told, engine="interpreted").start_s.tolist() == starts.tolist()
    assert plain.digest != told.digest


def test_measures_are_those_of_the_summary_and_of_a_cache() -> None:
    power = NodePower(200.0, 100.0, off_after_s=1.0, boot_s=2.0, price_per_kwh=0.3)
    told = scenario(power, (0.0, 1.0, 1), (6.0, 1.0, 3), procs=4)
    result = simulate(told, engine="interpreted")
    assert measures(told, result) == summarise(told, result).flat()
    cache = ResultCache()
    many = list(simulate_many([told, told], engine="interpreted", cache=cache, threads=1))
    assert many == [result, result]


def test_the_cache_on_disk_keeps_holds(tmp_path: Any) -> None:
    power = NodePower(200.0, 100.0, off_after_s=1.0, boot_s=2.0)
    told = scenario(power, (0.0, 1.0, 1), (6.0, 1.0, 3), procs=4)
    result = simulate(told, engine="interpreted")
    ResultCache(folder=tmp_path).put(result)
    assert ResultCache(folder=tmp_path).get(told.digest) == result


def test_cleanup_counts_as_work_until_the_last_end() -> None:
    power = NodePower(300.0, 100.0)
    told = scenario(power, (0.0, 10.0, 1), (20.0, 10.0, 1), procs=1, cleanup_s=5.0)
    use = node_use(told, simulate(told, engine="interpreted"))
    assert use.time_s.tolist() == [0.0, 15.0, 20.0, 30.0]
    assert use.working.tolist() == [1, 0, 1]


def test_rejected_jobs_need_no_energy() -> None:
    told = scenario(NodePower(2.0, 1.0), (0.0, 1.0, 9), procs=4, too_wide="reject")
    found = figures(told)
    assert found["energy_kwh"] == 0.0
    assert "mean_power_kw" not in found


@pytest.mark.parametrize(
    ("power", "words"),
    [
        ({"busy_w": -1.0, "idle_w": 0.0}, "busy_w is -1.0"),
        ({"busy_w": float("nan"), "idle_w": 0.0}, "busy_w is nan"),
        ({"busy_w": 1.0, "idle_w": 2.0}, "off <= idle <= busy"),
        ({"busy_w": 2.0, "idle_w": 1.0, "off_w": 1.5}, "off <= idle <= busy"),
        ({"busy_w": 2.0, "idle_w": 1.0, "node_procs": 0}, "node_procs is 0"),
        ({"busy_w": 2.0, "idle_w": 1.0, "boot_s": -1.0}, "boot_s is -1.0"),
        ({"busy_w": 2.0, "idle_w": 1.0, "off_after_s": float("inf")}, "off_after_s is inf"),
        ({"busy_w": 2.0, "idle_w": 1.0, "price_per_kwh": -1.0}, "price_per_kwh is -1.0"),
        (
            {"busy_w": 2.0, "idle_w": 1.0, "node_procs": 2, "off_after_s": 1.0, "boot_s": 2.0},
            "off_after_s from boot_s",
        ),
    ],
)
def test_wrong_power_is_refused(power: dict[str, Any], words: str) -> None:
    with pytest.raises(ScenarioError, match=words.replace("(", r"\(")):
        NodePower(**power)


def test_power_needs_whole_nodes_and_jobs_that_run_once() -> None:
    power, job = NodePower(2.0, 1.0), (0.0, 1.0, 1)
    with pytest.raises(ScenarioError, match="not a whole number of nodes of 3"):
        scenario(NodePower(2.0, 1.0, node_procs=3), job)
    with pytest.raises(ScenarioError, match="failure windows"):
        scenario(power, job, windows=(CapacityWindow("main", 1, 0.0, 9.0, "failure"),))
    told = scenario(None, job)
    with pytest.raises(ScenarioError, match="whole_nodes"):
        replace(told, cluster=told.cluster.in_machines_of(1), allocation="whole_nodes", power=power)
    with pytest.raises(ScenarioError, match="no power of nodes"):
        node_use(scenario(None, job), simulate(scenario(None, job), engine="interpreted"))


def test_a_cap_takes_the_processors_that_may_not_work() -> None:
    """8 nodes of 100 W idle and 300 W busy: 1,400 W leave 3 busy ones."""
    power, cluster = NodePower(300.0, 100.0), ClusterSpec.single(8)
    cap = PowerCap(1400.0, from_s=8 * HOUR_S, until_s=20 * HOUR_S)
    assert cap.most_procs(cluster, power) == 3
    windows = cap.windows(cluster, power, span_s=30 * HOUR_S)
    assert [(w.from_s, w.until_s, w.procs) for w in windows] == [(8 * HOUR_S, 20 * HOUR_S, 5)]
    night = PowerCap(1400.0, from_s=22 * HOUR_S, until_s=6 * HOUR_S)
    found = night.windows(cluster, power, span_s=30 * HOUR_S, midnight_s=-2 * HOUR_S)
    assert [(w.from_s, w.until_s) for w in found] == [
        (0.0, 4 * HOUR_S), (20 * HOUR_S, 28 * HOUR_S)
    ]  # fmt: skip
    whole = PowerCap(1400.0).windows(cluster, power, span_s=30 * HOUR_S)
    assert [(w.from_s, w.until_s) for w in whole] == [(0.0, 54 * HOUR_S)]
    assert PowerCap(2400.0).windows(cluster, power, span_s=HOUR_S) == ()


@pytest.mark.parametrize("off_after_s", [None, 60.0])
def test_power_stays_below_a_cap(off_after_s: float | None) -> None:
    rng = np.random.default_rng(2)
    n = 200
    jobs = sorted(
        (float(s), float(r), int(w))
        for s, r, w in zip(
            rng.integers(0, 200_000, n), rng.integers(60, 9000, n), rng.integers(1, 4, n),
            strict=True,
        )
    )  # fmt: skip
    power = NodePower(300.0, 100.0, off_after_s=off_after_s, boot_w=100.0, boot_s=10.0)
    told = scenario(power, *jobs, procs=8)
    cap = PowerCap(1400.0, from_s=8 * HOUR_S, until_s=20 * HOUR_S)
    free = energy_metrics(told, simulate(told, engine="interpreted"))
    assert free.peak_power_kw is not None
    assert free.peak_power_kw > 1.4
    capped = replace(told, windows=cap.windows(told.cluster, power, span_s=1e6))
    use = node_use(capped, simulate(capped, engine="interpreted"))
    hour = use.time_s[:-1] % 86_400.0
    is_capped = (hour >= cap.from_s) & (hour < cap.until_s)
    assert is_capped.sum() > 50
    assert use.watts(power)[is_capped].max() <= 1400.0


@pytest.mark.parametrize(
    ("cap", "words"),
    [
        ({"watts": 0.0}, "watts is 0.0"),
        ({"watts": 1.0, "from_s": 86_400.0}, "from 0 to 86,400"),
        ({"watts": 1.0, "from_s": 5.0, "until_s": 5.0}, "begins and ends at 5 s"),
    ],
)
def test_a_wrong_cap_is_refused(cap: dict[str, Any], words: str) -> None:
    with pytest.raises(ScenarioError, match=words):
        PowerCap(**cap)


def test_a_cap_below_idle_power_is_refused() -> None:
    two = ClusterSpec((Partition("a", 2), Partition("b", 2)))
    with pytest.raises(ScenarioError, match="below the 400 W"):
        PowerCap(399.0).most_procs(two, NodePower(300.0, 100.0))
    with pytest.raises(ScenarioError, match="one partition with processors"):
        PowerCap(500.0).windows(two, NodePower(300.0, 100.0), span_s=1.0)
