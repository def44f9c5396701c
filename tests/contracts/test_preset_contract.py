"""Every preset whose policies are registered: today is in it, and no scenario is in it twice."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

from assistant.applications.scheduling import CurrentPolicies, Scheduling
from assistant.applications.scheduling_parameters import BESIDE, every_option
from assistant.applications.scheduling_presets import PRESETS, Preset, preset_named, presets
from assistant.config.sweep_file import build_sweep, check_settings
from assistant.core.errors import ApplicationError
from sim import Workload, simulation
from sim.api import backfills_for, known_names
from sim.policies import orders
from sim.policies.policy import Order, PolicyOption

every_preset = pytest.mark.parametrize("preset", presets(), ids=lambda preset: preset.name)


def workload() -> Workload:
    """Twelve jobs of three users on 8 processors."""
    n = 12
    runtime_s = 10.0 * (1 + np.arange(n) * 7 % 11)
    return Workload.from_arrays(
        submit_s=np.arange(n, dtype=float) * 9,
        runtime_s=runtime_s,
        procs=1 + np.arange(n) * 5 % 6,
        requested_s=2 * runtime_s,
        user=np.arange(n) % 3,
        name="tiny",
        max_procs=8,
    )


JOBS = workload()


@every_preset
def test_it_builds_and_today_is_in_its_space(preset: Preset) -> None:
    application = Scheduling(JOBS, preset=preset.name)
    space = application.space
    space.check(space.from_values(application.baseline))
    assert space.size > 1
    assert application.has_split == preset.split
    assert pickle.loads(pickle.dumps(application)).space.lineage == space.lineage
    baseline = application.scenario(application.baseline)
    assert (baseline.order, baseline.backfill) == ("fcfs", preset.usual_backfill)
    assert len(baseline.cluster.partitions) == 1


@every_preset
def test_it_simulates(preset: Preset) -> None:
    application = Scheduling(JOBS, preset=preset.name)
    configurations = list(application.space.configurations())
    for one in configurations[:: max(len(configurations) // 12, 1)]:
        measures = application.evaluate(application.space.values(one), 0)
        assert set(measures) <= set(application.measures)
        application.objective.assess(measures)
    assert ("utilisation_small" in application.measures) == preset.split


@every_preset
def test_no_two_allowed_configurations_are_the_same_scenario(preset: Preset) -> None:
    """Of the paper's own space some are: a job never needs more than the whole small part."""
    application = Scheduling(JOBS, preset=preset.name)
    space = application.space
    seen: dict[str, object] = {}
    for one in space.configurations():
        values = space.values(one)
        key: object = tuple(values.items())
        if preset.split:
            widest = min(values["small_procs"], values["small_max_procs"])
            key = tuple({**values, "small_max_procs": widest}.values())
        assert seen.setdefault(application.scenario(values).digest, key) == key


@every_preset
def test_own_levels_overrule_it_and_no_levels_close_a_parameter(preset: Preset) -> None:
    more = {"order": ("fcfs", "sjf"), "backfill": ()}
    if any(levels != "every" for levels in preset.levels.values()):
        # What it opens are options: they need a run that knows them.
        rules = (
            ("easy", "slurm") if preset.allocation == "whole_nodes" else ("none", "easy", "greedy")
        )
        more = {"backfill": rules, "order": ("fcfs", "multifactor", "sjf")}
    own = Scheduling(JOBS, preset=preset.name, levels=more)
    for name, levels in more.items():
        found = [one.levels for one in own.space.parameters if one.name == name]
        assert found == ([levels] if levels else [])


@every_preset
def test_settings_and_a_script_open_the_same(preset: Preset) -> None:
    tables = {"application": {"kind": "scheduling", "preset": preset.name}}
    built = build_sweep(check_settings(tables, "the test"), JOBS)
    script = Scheduling(JOBS, preset=preset.name)
    assert built.space == script.space
    assert built.application.baseline == script.baseline
    assert built.application.facts == script.facts


def test_all_orders_and_rules_are_in_policies() -> None:
    space = Scheduling(JOBS, preset="policies").space
    assert space.names == ("order", "backfill")
    for parameter in space.parameters:
        names = known_names()["order"]
        if parameter.name == "backfill":
            names = backfills_for("processors")
        assert set(parameter.levels) == set(names)


def test_what_cannot_simulate_the_cluster_is_left_out_and_named() -> None:
    application = Scheduling(JOBS, preset="policies", allocation="whole_nodes", machine_procs=2)
    assert set(application.space.parameter("backfill").levels) == {"none", "easy", "slurm"}
    left_out = [fact.text for fact in application.facts if fact.label == "Left out"]
    assert any("conservative" in text and "whole_nodes" in text for text in left_out)
    own = Scheduling(
        JOBS, preset="policies", allocation="whole_nodes", machine_procs=2,
        levels={"backfill": ("none", "easy")},
    )  # fmt: skip
    assert not [fact for fact in own.facts if fact.label == "Left out"]


# -- presets of policies that may come -------------------------------------------------------------

FAKE = Order(
    "multifactor",
    "for the test",
    lambda facts: facts.submit_s,
    options=(
        PolicyOption("age_weight", 1000, "weight of the wait"),
        PolicyOption("size_weight", 0, "weight of the size"),
        PolicyOption("fairshare_weight", 1000, "weight of what was used"),
        PolicyOption(
            "half_life_s", 604_800, "in which usage counts half", unit="s", needs="fairshare_weight"
        ),
        PolicyOption(
            "favor_small", 0, "small jobs first", 0, 1, is_whole=True, needs="size_weight"
        ),
    ),
)


@pytest.fixture
def _fake(monkeypatch: pytest.MonkeyPatch) -> None:
    others = tuple(order for order in orders.ORDERS if order.name != FAKE.name)
    for module in (simulation, orders):
        monkeypatch.setattr(module, "ORDERS", (*others, FAKE))


@pytest.mark.usefixtures("_fake")
def test_a_preset_exists_as_soon_as_its_policies_do() -> None:
    """One for today's order; for multifactor 2 weights of age, 3 of size and 3 of fair-share.

    A half-life needs a weight of fair-share, small first one of size: 2 x (2 x 2 + 1) x (2 x 2 + 1)
    = 50, and 51 with today's.
    """
    assert "slurm_priorities" in {preset.name for preset in presets()}
    application = Scheduling(JOBS, preset="slurm_priorities")
    space = application.space
    assert space.parameter("order").levels == ("fcfs", "multifactor")
    assert space.count_allowed() == 51
    found = {application.scenario(space.values(one)).digest for one in space.configurations()}
    assert len(found) == 51
    assert application.baseline["half_life_s"] == 604_800
    mine = Scheduling(
        JOBS, preset="slurm_priorities", current_policies=CurrentPolicies("multifactor"),
        options={"age_weight": 500, "half_life_s": "3d"},
    )  # fmt: skip
    assert "order" not in mine.space.names
    assert mine.space.parameter("age_weight").levels == (0, 500, 1000)
    assert mine.baseline["half_life_s"] == 3 * 86_400
    assert mine.scenario(mine.baseline).options == {"age_weight": 500.0, "half_life_s": 259_200.0}


@pytest.mark.usefixtures("_fake")
def test_an_option_that_needs_another_is_refused_where_that_is_always_0() -> None:
    said = "'favor_small' has no effect while 'size_weight' is 0"
    baseline = CurrentPolicies("multifactor")
    with pytest.raises(ApplicationError, match=said):
        Scheduling(JOBS, current_policies=baseline, levels={"favor_small": (0, 1)})
    varied = Scheduling(
        JOBS,
        split=False,
        current_policies=baseline,
        levels={"favor_small": (0, 1)},
        options={"size_weight": 5},
    )
    assert varied.space.count_allowed() == 2


def test_weights_are_in_proportion_to_the_largest_one_of_the_site() -> None:
    site = Scheduling(
        JOBS, preset="slurm_priorities", current_policies=CurrentPolicies("multifactor"),
        options={"age_weight": 5_000, "size_weight": 0, "fairshare_weight": 20_000},
    )  # fmt: skip
    levels = {one.name: one.levels for one in site.space.parameters}
    assert levels["age_weight"] == (0, 5_000, 20_000)
    assert levels["size_weight"] == (0, 20_000, 200_000)
    assert levels["fairshare_weight"] == (0, 20_000, 200_000)


def test_what_needs_users_is_left_out_of_a_log_without_users() -> None:
    jobs = replace(JOBS, user=np.full(JOBS.n_jobs, -1))
    application = Scheduling(jobs, preset="slurm_priorities")
    assert application.space.names == ("order", "age_weight", "size_weight", "favor_small")
    left_out = [fact.text for fact in application.facts if fact.label == "Left out"]
    assert len(left_out) == 1
    assert "fairshare_weight is 1000 but 'tiny' has no known users" in left_out[0]


def test_a_preset_without_its_policies_does_not_exist() -> None:
    known = {preset.name for preset in presets()}
    for preset in PRESETS:
        if preset.name not in known:
            with pytest.raises(ApplicationError, match=f"no preset '{preset.name}'"):
                preset_named(preset.name)
    assert {"paper", "policies"} <= known


def test_the_options_of_a_preset_are_declared() -> None:
    for preset in presets():
        for name in preset.levels:
            assert name in (*BESIDE, *every_option())
