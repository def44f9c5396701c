"""The AI platform as an application: its measures add up, and its picture the paper's case."""

from dataclasses import replace

import numpy as np
import pytest

from assistant.applications.extensions.ai_platform import MEASURES, TODAY, AiPlatform
from assistant.config.sweep_file import check_settings
from assistant.presentation.charts.ai_platform import platform_picture
from assistant.simtools.ai_platform import panels, simulated_dashboard
from sim.aiops.engine import run_platform
from sim.aiops.platform import Platform
from sim.aiops.synthesis import PlatformScenario
from sim.model.errors import SimError

SMALL = AiPlatform(seed=3, days=2.0, models=10)


def test_costs_add_up() -> None:
    measured = SMALL.evaluate(TODAY, 0)
    assert set(measured) == set(MEASURES)
    assert measured["capacity_cost_per_day"] == pytest.approx(24 * (8 * 2.5 + 3 * 0.8))
    late = SMALL.late_cost_per_h * measured["late_share"] * 10 * 24
    cost = measured["cost_per_day"] - measured["capacity_cost_per_day"] - late
    found = SMALL.simulate(TODAY)
    tasks = found.tables["tasks"]
    waited_h = (tasks["started_s"] - tasks["asked_s"]).sum() / 3600
    assert cost == pytest.approx(SMALL.wait_cost_per_h * waited_h / 2.0, abs=0.2)
    dearer = replace(SMALL, late_cost_per_h=400.0).evaluate(TODAY, 0)
    assert dearer["capacity_cost_per_day"] == measured["capacity_cost_per_day"]
    assert dearer["cost_per_day"] >= measured["cost_per_day"]


def test_every_parameter_reaches_the_scenario() -> None:
    values = {
        "training_capacity": 2, "compute_capacity": 1, "scheduler": "fair",
        "drift_threshold": 0.03, "max_age_d": 5, "min_performance": 0.7,
    }  # fmt: skip
    found = SMALL.scenario(values)
    training, compute = found.platform.resources
    assert (training.capacity, training.discipline, compute.capacity) == (2, "fair", 1)
    assert [(rule.kind, rule.limit) for rule in found.fleet.triggers] == [
        ("drift", 0.03), ("age", 5 * 86_400.0),
    ]  # fmt: skip
    assert found.recipe.gate is not None
    assert found.recipe.gate.least == (("performance", 0.7),)


def test_settings_build_it_and_refuse_in_words() -> None:
    told = check_settings({"application": {"kind": "ai_platform", "days": 3, "models": 7}}, "x")
    assert told.application.build() == AiPlatform(days=3, models=7)
    with pytest.raises(SimError, match="duration_s is"):
        AiPlatform(days=0)


@pytest.mark.slow
def test_the_exploratory_case_of_the_paper() -> None:
    """Arrivals peak at 16:00, training is full behind it, and evaluations move into the night."""
    base = PlatformScenario(duration_s=5 * 86_400.0, interarrival_factor=4.0, seed=1)
    by_hour = {}
    for capacity in (4, 30):
        platform = Platform().having("training", capacity=capacity)
        hours = run_platform(replace(base, platform=platform)).hours
        by_hour[capacity] = {name: s.reshape(5, 24).sum(axis=0) for name, s in hours.items()}
    tight, wide = by_hour[4], by_hour[30]
    assert np.argmax(tight["arrivals"]) in (15, 16)
    busy = tight["busy training"] / (5 * 3600.0 * 4)
    assert busy[16:20].mean() > 0.9
    evening = slice(18, 24)
    asked = [one["asked evaluate"] for one in (tight, wide)]
    share = [series[evening].sum() / series.sum() for series in asked]
    assert share[0] > 1.08 * share[1]
    assert np.argmax(tight["waited training"]) > 16


def test_the_dashboard_is_drawn() -> None:
    import vl_convert

    board, measures = simulated_dashboard(SMALL, TODAY)
    drawn = board.over_time
    assert set(measures) == set(MEASURES)
    assert len(drawn.panels) == 11
    assert {len(series) for panel in drawn.panels for series in panel.series.values()} == {48}
    svg = vl_convert.vegalite_to_svg(platform_picture(drawn))
    assert "total potential improvement" in svg
    bare = PlatformScenario(duration_s=3_600.0)
    assert len(panels(bare, run_platform(bare))) == 7
