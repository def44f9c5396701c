"""The simulated service is the exact closed network wherever that has a formula."""

import math
from statistics import mean, stdev

import pytest

from benchmarks.service_simulation import (
    Observed,
    RequestCost,
    ServiceCosts,
    ServiceSlots,
    SimulatedService,
    bounds,
    closed_network,
    repairman_throughput,
)

N_REPLICATIONS = 10
T_999 = 4.781
"""Quantile of Student's t with 9 degrees of freedom: 99.9 % two-sided, since seeds are fixed."""

ONE_STATION = ServiceCosts({"heartbeat": RequestCost(0.02)})
TWO_STATIONS = ServiceCosts({"result": RequestCost(0.02, 0.0, 0.03)})
WITH_CLIENTS = ServiceCosts({"result": RequestCost(0.02, 0.0, 0.01, 0.05)}, client_s=0.015)
HALF_A_CORE = ServiceCosts({"heartbeat": RequestCost(0.02)}, cores=0.5)
NO_LIMITS = ServiceSlots(work=10_000)


def replicated(costs: ServiceCosts, kind: str, n: int, think_s: float) -> list[Observed]:
    """Observe a closed loop in independent replications."""
    found = []
    for seed in range(N_REPLICATIONS):
        service = SimulatedService(costs, seed, NO_LIMITS)
        service.add_clients(n, kind, think_s)
        found.append(service.run(30.0, 5.0))
    return found


def holds(values: list[float], exact: float) -> bool:
    """Return whether the exact value lies in the confidence interval of the replications."""
    return abs(mean(values) - exact) <= T_999 * stdev(values) / math.sqrt(len(values))


@pytest.mark.parametrize("n", [1, 5, 30])
def test_one_station_is_the_repairman(n: int) -> None:
    found = replicated(ONE_STATION, "heartbeat", n, 0.1)
    exact = repairman_throughput(0.02, 0.1, n)
    assert holds([each.rate("heartbeat") for each in found], exact)
    assert holds([each.busy for each in found], exact * 0.02)
    assert closed_network([0.02], 0.1, n)[0] == pytest.approx(exact)


@pytest.mark.parametrize(
    ("costs", "kind", "demands_s", "delay_s", "n"),
    [
        (TWO_STATIONS, "result", [0.02, 0.03], 0.0, 12),
        (WITH_CLIENTS, "result", [0.02, 0.01, 0.015], 0.05, 2),
        (WITH_CLIENTS, "result", [0.02, 0.01, 0.015], 0.05, 12),
        (HALF_A_CORE, "heartbeat", [0.04], 0.0, 2),
    ],
)
def test_more_stations_are_the_product_form(
    costs: ServiceCosts, kind: str, demands_s: list[float], delay_s: float, n: int
) -> None:
    think_s = 0.1
    found = replicated(costs, kind, n, think_s)
    throughput, response_s = closed_network(demands_s, think_s + delay_s, n)
    assert holds([each.rate(kind) for each in found], throughput)
    in_service_s = response_s + delay_s - (costs.client_s and _residence(demands_s, 0.15, n))
    assert holds([each.wait_s(kind) for each in found], in_service_s)
    assert throughput <= bounds(demands_s, think_s + delay_s, n) * (1 + 1e-12)


def _residence(demands_s: list[float], think_s: float, n: int) -> float:
    """Return the time at the last station, by Little's law on one customer less."""
    throughput, _ = closed_network(demands_s, think_s, n)
    length = 0.0
    for customers in range(1, n + 1):
        part, _ = closed_network(demands_s, think_s, customers)
        length = part * demands_s[-1] * (1 + length)
    return length / throughput


def test_a_wrong_service_time_is_seen() -> None:
    found = replicated(ServiceCosts({"heartbeat": RequestCost(0.021)}), "heartbeat", 30, 0.1)
    rates = [each.rate("heartbeat") for each in found]
    assert not holds(rates, repairman_throughput(0.02, 0.1, 30))


KINDS = {
    "lease": RequestCost(0.001, 0.0005), "heartbeat": RequestCost(0.001, 0.0002),
    "report": RequestCost(0.001, 0.0005), "result": RequestCost(0.001, 0.0005, 0.003),
    "poll": RequestCost(0.001), "look": RequestCost(0.001),
}  # fmt: skip
COSTS = ServiceCosts(KINDS, view_s=0.002)


def test_workers_send_heartbeats_and_reports_while_they_execute() -> None:
    service = SimulatedService(COSTS, 1)
    service.add_workers(50, 10.0, reports=True)
    found = service.run(120.0, 20.0)
    assert found.rate("result") == pytest.approx(50 / 10, rel=0.15)
    assert found.rate("heartbeat") == pytest.approx(50 / 3, rel=0.2)
    assert found.rate("report") == pytest.approx(50 / 1, rel=0.2)
    assert found.refused == found.lost_leases == 0
    per_s = {kind: found.rate(kind) for kind in ("lease", "heartbeat", "report", "result")}
    expected = sum(rate * COSTS.core_s(kind) for kind, rate in per_s.items())
    assert found.busy == pytest.approx(expected, rel=0.05)
    assert found.locked >= sum(rate * COSTS.lock_s(kind) for kind, rate in per_s.items()) * 0.95


def test_workers_beyond_the_slots_are_refused_and_leases_are_lost_when_all_are_late() -> None:
    slow = ServiceCosts({kind: RequestCost(0.2) for kind in KINDS})
    service = SimulatedService(slow, 1, ServiceSlots(work=20))
    service.add_workers(400, 60.0)
    found = service.run(200.0, 50.0)
    assert found.refused > 0
    assert found.lost_leases > 0
    assert found.busy == pytest.approx(1.0, abs=0.01)


def test_viewers_and_idle_workers_ask_again_after_their_pause() -> None:
    service = SimulatedService(COSTS, 1)
    service.add_idle_workers(10)
    service.add_viewers(20)
    service.add_clients(1, "report", 0.5)
    found = service.run(60.0, 5.0)
    assert found.rate("poll") == pytest.approx(20, rel=0.05)
    assert found.rate("look") == pytest.approx(20, rel=0.05)
    looks = found.rate("look") * COSTS.core_s("look") + found.rate("poll") * COSTS.core_s("poll")
    views = found.busy - looks - found.rate("report") * COSTS.core_s("report")
    assert views == pytest.approx(found.rate("report") * COSTS.view_s, rel=0.3)
