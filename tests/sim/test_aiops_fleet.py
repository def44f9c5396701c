"""The run time view: drift, detectors, triggers, trainings, and what schedulers make of it."""

from dataclasses import replace

import numpy as np
import pytest

from sim.aiops.engine import run_platform
from sim.aiops.fleet import (
    PATTERNS,
    Drift,
    DriftDetectors,
    FleetPlan,
    ModelCondition,
    TriggerRule,
    data_gain,
    draw_fleet,
    potential,
    triggered_rule,
)
from sim.aiops.platform import MetricGate, Platform
from sim.aiops.synthesis import PlatformScenario, SynthesisSettings
from sim.aiops.trace import PlatformResult
from sim.generators.generator import RandomStreams
from sim.model.errors import SetupError

DAY_S = 86_400.0
EXACT = DriftDetectors(error=0.0)


def fleet(plan: FleetPlan, **told: object) -> PlatformResult:
    scenario = PlatformScenario(profile="none", duration_s=20 * DAY_S, seed=7, fleet=plan)
    return run_platform(replace(scenario, **told))


# Drift


def test_patterns_of_drift_move_as_they_are_drawn() -> None:
    days = np.arange(-1.0, 12.0, 0.25) * DAY_S
    at = {p: Drift(p, 2 * DAY_S, 0.2, 2 * DAY_S).place(days) for p in PATTERNS}
    for place in at.values():
        assert not place[days < 2 * DAY_S].any()
    day = {p: lambda d, p=p: at[p][int((d + 1) * 4)] for p in PATTERNS}
    assert set(at["sudden"]) == {0.0, 0.2}
    assert day["incremental"](3) == pytest.approx(0.1)
    assert day["incremental"](9) == pytest.approx(0.2)
    assert [day["recurring"](d) for d in (2, 3.5, 4, 5.5, 6)] == [0.2, 0.2, 0, 0, 0.2]
    assert day["adversarial"](4) == pytest.approx(0.1)
    assert day["gradual"](4) == 0.2
    fine = Drift("gradual", 0.0, 1.0, 1.0).place(np.linspace(0, 1, 3_200, endpoint=False))
    quarters = fine.reshape(4, -1).mean(axis=1)
    assert np.all(np.diff(quarters) > 0)
    assert fine.mean() == pytest.approx(0.5, abs=0.05)


def test_who_learnt_after_the_drift_has_lost_nothing_and_old_ways_come_back() -> None:
    drift = Drift("recurring", 0.0, 0.3, DAY_S)
    now = np.array([0.5, 1.5, 2.5]) * DAY_S
    np.testing.assert_allclose(drift.loss(now, -DAY_S), [0.3, 0, 0.3])
    np.testing.assert_allclose(drift.loss(now, 0.2 * DAY_S), [0, 0.3, 0])
    attack = Drift("adversarial", 0.0, 0.3, DAY_S)
    assert attack.loss(np.array([100 * DAY_S]), -1.0)[0] == pytest.approx(0.3)


# Triggers


def test_rules() -> None:
    known = ModelCondition(now_s=10 * DAY_S, learnt_s=6.5 * DAY_S, drift=0.04, new_share=0.6)
    met = {
        ("drift", 0.03): True, ("drift", 0.05): False, ("age", 3 * DAY_S): True,
        ("age", 4 * DAY_S): False, ("data", 0.5): True, ("data", 0.7): False,
        ("schedule", 7 * DAY_S): True, ("schedule", 11 * DAY_S): False,
    }  # fmt: skip
    for (kind, limit), expected in met.items():
        assert triggered_rule((TriggerRule(kind, limit),), known) == (kind if expected else None), (
            kind,
            limit,
        )
    assert triggered_rule((TriggerRule("age", 9e9), TriggerRule("data", 0.5)), known) == "data"
    assert triggered_rule((), known) is None
    assert triggered_rule((TriggerRule("drift", 0.001),), replace(known, drift=None)) is None
    with pytest.raises(SetupError, match="limit of rule 'age' is 0"):
        TriggerRule("age", 0)


def test_potential_rises_with_loss_and_with_data() -> None:
    assert potential(0.9, 0.0, 0.0) == 0
    assert potential(0.9, 0.1, 0.0) == pytest.approx(0.1)
    assert potential(0.8, 0.1, 2.0) > potential(0.8, 0.1, 1.0) > potential(0.9, 0.1, 1.0)
    assert data_gain(1.0, 5.0) == 0


# The fleet


def test_a_known_drift_is_found_and_mended() -> None:
    plan = FleetPlan(
        n_models=12, drifts_per_month=4.0, patterns=(("sudden", 1.0),), detectors=EXACT,
        triggers=(TriggerRule("drift", 0.03),), keeps=False,
    )  # fmt: skip
    watched = draw_fleet(plan, 20 * DAY_S, RandomStreams(7).inside("fleet"))
    found = fleet(plan)
    assert found.fleet is not None
    above = sum(drift.size > 0.03 for one in watched for drift in one.drifts)
    assert above > 10
    assert (
        0.7 * above <= found.trainings["drift"] <= 1.5 * above
    )  # small ones add up; near ones share
    idle = fleet(replace(plan, triggers=()))
    assert idle.fleet is not None
    assert not sum(idle.trainings.values())
    assert found.fleet.staleness.mean() < 0.35 * idle.fleet.staleness.mean()
    last = np.array([one.loss(19.9 * DAY_S, -one.age_s) for one in watched])
    built = idle.fleet.performance[:, 0]
    np.testing.assert_allclose(
        idle.fleet.performance[:, -1], np.maximum(built - last, 0), atol=0.02
    )


def test_versions_are_a_lineage() -> None:
    found = fleet(
        FleetPlan(n_models=5, triggers=(TriggerRule("schedule", 5 * DAY_S),), keeps=False)
    )
    pipelines, models = found.tables["pipelines"], found.tables["models"]
    assert found.trainings["schedule"] == 5 * 3
    for model in range(5):
        mine = pipelines["model"] == model
        assert pipelines["version"][mine].tolist() == [1, 2, 3, 4]
        deployed = models["model"] == model
        assert models["version"][deployed].tolist() == [2, 3, 4]
        assert np.all(np.diff(models["ended_s"][deployed]) > 4 * DAY_S)
    causes = {found.texts["started_by"][cause] for cause in pipelines["started_by"]}
    assert causes == {"deployed before", "schedule"}


def test_a_person_takes_time_and_quiet_hours_are_kept() -> None:
    plan = FleetPlan(n_models=20, triggers=(TriggerRule("schedule", 3 * DAY_S),), keeps=False)
    base, slow, quiet = (
        fleet(replace(plan, **told)).tables["pipelines"]
        for told in ({}, {"human_delay_s": DAY_S}, {"quiet": True})
    )
    begun = [np.sort(t["arrived_s"][t["version"] == 2]) for t in (base, slow, quiet)]
    assert np.median(begun[1] - begun[0]) == pytest.approx(DAY_S, rel=0.35)
    hours = (begun[2] // 3600).astype(int) % 168
    expected = PlatformScenario().statistics.arrivals.hourly()
    assert np.all(expected[hours] <= np.quantile(expected, 0.25))


def test_detectors_cost_computing_and_err_less_when_they_see_more() -> None:
    plan = FleetPlan(n_models=10, triggers=(), drifts_per_month=0.0)
    often, seldom = (
        fleet(replace(plan, detectors=DriftDetectors(every_s=every)))
        for every in (3_600.0, 36_000.0)
    )
    assert often.tasks["monitor"].n == pytest.approx(10 * often.tasks["monitor"].n / 10)
    assert often.utilisation["compute"] > 8 * seldom.utilisation["compute"] > 0
    renewed = fleet(replace(plan, detectors=DriftDetectors(renewed_s=5 * DAY_S)))
    usual = fleet(plan)
    assert renewed.tasks["monitor"].mean_s > usual.tasks["monitor"].mean_s
    detectors = DriftDetectors(error=0.02, scored=100.0)
    assert detectors.error_of(400.0, 0.0) == pytest.approx(0.01)
    assert detectors.error_of(100.0, 30 * DAY_S) == pytest.approx(0.04)


def test_gates_keep_worse_versions_out() -> None:
    plan = FleetPlan(n_models=15, triggers=(TriggerRule("schedule", 4 * DAY_S),))
    shut = fleet(plan, recipe=SynthesisSettings(gate=MetricGate(least=(("performance", 0.999),))))
    assert shut.outcomes["deployed"] == 0
    assert shut.outcomes["stopped by a gate"] > 30
    assert shut.fleet is not None
    opened = fleet(replace(plan, keeps=False))
    assert opened.outcomes["stopped by a gate"] == 0


def test_agreements_are_judged_by_the_time_beyond_them() -> None:
    plan = FleetPlan(
        n_models=10, drifts_per_month=5.0, patterns=(("sudden", 1.0),), triggers=(), size=0.1,
        allowed_loss=0.02,
    )  # fmt: skip
    found = fleet(plan).fleet
    assert found is not None
    watched = draw_fleet(plan, 20 * DAY_S, RandomStreams(7).inside("fleet"))
    for model, one in enumerate(watched):
        late = np.mean([one.loss(float(t), -one.age_s) > 0.02 for t in found.times_s])
        assert found.late_share[model] == pytest.approx(late)


@pytest.mark.soak
@pytest.mark.slow
def test_whoever_gains_most_first_leaves_less_potential_than_first_come_first_served() -> None:
    """Twelve seeds, common random numbers; the interval of the mean difference is below zero."""
    plan = FleetPlan(
        n_models=60, drifts_per_month=6.0, work=8.0, triggers=(TriggerRule("drift", 0.03),)
    )
    base = PlatformScenario(duration_s=10 * DAY_S, interarrival_factor=8.0, fleet=plan)
    differences = []
    for seed in range(12):
        left = {}
        for name in ("fifo", "potential"):
            platform = Platform().having("training", capacity=2, discipline=name)
            found = run_platform(replace(base, platform=platform, seed=seed)).fleet
            assert found is not None
            left[name] = found.potential.mean()
        differences.append(left["potential"] - left["fifo"])
    mean = np.mean(differences)
    half = 2.201 * np.std(differences, ddof=1) / np.sqrt(12)
    assert mean + half < 0
