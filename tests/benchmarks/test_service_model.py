"""The model finds the costs again that made the measurements, and says what one service carries."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from assistant import AssistantError
from benchmarks.service_capacity import KINDS
from benchmarks.service_model import (
    FULL,
    SCENARIOS,
    VIEWERS,
    Measured,
    Scenario,
    fill,
    fitted,
    held_out,
    loaded,
)
from benchmarks.service_simulation import RequestCost, ServiceCosts, closed_network

TRUE = ServiceCosts(
    {
        "lease": RequestCost(0.0015, 0.0003, 0.0, 0.0010),
        "heartbeat": RequestCost(0.0010, 0.0001, 0.0, 0.0008),
        "report": RequestCost(0.0012, 0.0002, 0.0, 0.0009),
        "result": RequestCost(0.0015, 0.0004, 0.0045, 0.0010),
        "poll": RequestCost(0.0010, 0.0001, 0.0, 0.0008),
        "look": RequestCost(0.0020, 0.0001, 0.0, 0.0010),
    },
    view_s=0.001,
    cores=0.8,
    client_s=0.0002,
)
STRETCHED = 1.5
"""Wall clock time of Python code in the process that measures the queue, for its processor time."""


def figures(costs: ServiceCosts, clients: tuple[int, ...]) -> dict[str, float]:
    """Return what a machine with these costs would measure."""
    found = {}
    for kind in KINDS:
        cost = costs.kinds[kind]
        direct = {"cpu_ms": cost.store_s, "wall_ms": STRETCHED * cost.store_s + cost.disk_s}
        found |= {f"capacity, store, {kind}: {name}": 1e3 * v for name, v in direct.items()}
        for n in clients:
            stations = [costs.client_s, costs.core_s(kind), cost.disk_s]
            rate, _ = closed_network(stations, cost.delay_s, n)
            values = {"per_s": rate, "cpu_ms": 1e3 * cost.cpu_s, "client_ms": 1e3 * costs.client_s}
            found |= {f"capacity, {kind}, {n} clients: {name}": v for name, v in values.items()}
    found |= {"capacity, view: cpu_ms": 1e3 * costs.view_s, "capacity, look, 1 clients: load": 1.0}
    return found


@pytest.fixture(scope="module")
def measured() -> Measured:
    return Measured({"figures": figures(TRUE, (1, 2, 4, 16)), "machine": {"cpu": "example"}})


def test_the_fit_finds_the_costs_that_made_the_measurements(measured: Measured) -> None:
    found = fitted(measured)
    assert found.cores == pytest.approx(TRUE.cores, rel=0.15)
    assert found.client_s == pytest.approx(TRUE.client_s)
    assert found.view_s == pytest.approx(TRUE.view_s)
    for kind, cost in TRUE.kinds.items():
        assert found.kinds[kind].cpu_s == pytest.approx(cost.cpu_s)
        assert found.kinds[kind].disk_s == pytest.approx(cost.disk_s, rel=0.1)
        assert found.kinds[kind].delay_s == pytest.approx(cost.delay_s, abs=0.001)


def test_more_clients_are_held_out_and_predicted(measured: Measured) -> None:
    found = list(held_out(measured, fitted(measured), 4.0))
    assert {each.what for each in found} == {f"{kind}, 16 clients: a second" for kind in KINDS}
    on_disk = [each for each in found if each.what.startswith("result")]
    assert all(abs(each.error) < 0.1 for each in found if each not in on_disk)
    assert all(-0.4 < each.error < 0 for each in on_disk)  # the formula has no lock
    faster = held_out(measured, replace(fitted(measured), cores=2 * TRUE.cores), 4.0)
    assert any(abs(each.error) > 0.3 for each in faster)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_the_workers_of_a_core_keep_it_as_busy_as_said(scenario: Scenario) -> None:
    costs = replace(TRUE, cores=1.0)
    found = fill(costs, scenario)
    load = loaded(costs, scenario, int(found.core), 5.0)
    if found.store > found.core * 1.3:  # else workers wait for the lock and leave the core idle
        assert load.busy == pytest.approx(FULL, abs=0.06)
    assert found.most <= found.connections
    assert found.bound >= FULL * min(found.core, found.store)


def test_short_runs_fill_the_service_and_long_ones_the_connections() -> None:
    costs = replace(TRUE, cores=1.0)
    by_name = {scenario.name: fill(costs, scenario) for scenario in SCENARIOS}
    assert by_name["1 s"].first == "store"
    assert by_name["10 min"].first == "connections"
    assert by_name["10 min"].connections + VIEWERS == 512
    assert by_name["1 s"].core < by_name["10 s"].core < by_name["10 min"].core
    heartbeats = (FULL - VIEWERS * (costs.core_s("look") + costs.view_s)) / costs.core_s(
        "heartbeat"
    )
    assert by_name["10 min"].core == pytest.approx(3 * heartbeats, rel=0.05)


def test_costs_without_the_figures_are_refused(tmp_path: Path) -> None:
    with pytest.raises(AssistantError, match="cannot read the costs"):
        Measured.read(tmp_path / "none.json")
    path = tmp_path / "costs.json"
    path.write_text(json.dumps({"figures": {"http, 1 workers: per_s": 3.0}}))
    with pytest.raises(AssistantError, match="no figures of the part 'capacity'"):
        Measured.read(path)
    path.write_text(json.dumps({"figures": {"capacity, lease, 1 clients: load": 3.0}}))
    with pytest.raises(AssistantError, match="--part capacity --json FILE"):
        fitted(Measured.read(path))
