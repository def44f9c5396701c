"""Objects of Kubernetes: known answers, refusals with what comes nearest, and YAML that parses."""

from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from assistant.applications.extensions.placement import FleetPlacement, MachineKind
from assistant.applications.scheduling import CurrentPolicies, Scheduling
from assistant.core.errors import ApplicationError, SettingsError
from assistant.simtools.kubernetes import kubernetes_objects
from sim import MachineSpec, Workload
from sim.api import Tasks
from sim.generators import default_workload
from strategies import Level
from tests.assistant.examples import Bowl
from tests.assistant.test_slurm_conf import swept

GIB = 2**30
JOBS = default_workload(seed=1, n_jobs=80)


def objects(text: str) -> list[Any]:
    return [found for found in yaml.safe_load_all(text) if found is not None]


def jobs(preset: str = "kueue", **more: Any) -> Scheduling:
    return Scheduling(JOBS, procs=48, preset=preset, **more)


def pods(*, gpus: int = 4, **more: Any) -> FleetPlacement:
    tasks = Tasks.from_arrays(
        job=range(6), runtime_s=[60] * 6, mcpu=[2000, 6000, 1000] * 2,
        mem_bytes=[4 * GIB, 2 * GIB, 8 * GIB] * 2, mgpu=[1000 * (gpus > 0)] * 6,
    )  # fmt: skip
    workload = Workload.from_arrays(
        submit_s=range(6), runtime_s=[60] * 6, procs=[1] * 6, tasks=tasks
    )
    nodes = MachineKind(MachineSpec("node", 8, 3, mem_bytes=32 * GIB, gpus=gpus))
    return FleetPlacement((workload,), (nodes,), preset="kube_scheduler", **more)


def test_a_lane_is_a_priority_class_and_the_strategy_one_of_the_cluster_queue() -> None:
    changed = {"backfill": "none", "lane_max_requested_s": 3600, "lane_max_procs": 12}
    text = kubernetes_objects(jobs(), swept(jobs(), changed), run_id=2)
    queue, priority = objects(text)
    assert (queue["kind"], queue["spec"]["queueingStrategy"]) == ("ClusterQueue", "StrictFIFO")
    (group,) = queue["spec"]["resourceGroups"]
    assert group["flavors"][0]["resources"] == [{"name": "cpu", "nominalQuota": 48}]
    assert (priority["kind"], priority["value"]) == ("WorkloadPriorityClass", 1000)
    assert "at most 1 h" in text
    assert "# Expected effect, simulated:" in text
    for missing in ("borrowingLimit", "lendingLimit", "reclaimWithinCohort", "fairSharing.weight"):
        assert missing in text.split("Not modelled")[1]


def test_only_what_changes_is_written() -> None:
    lane = {"lane_max_requested_s": 900, "lane_max_procs": 48}
    (only,) = objects(kubernetes_objects(jobs(), swept(jobs(), lane), run_id=2))
    assert only["kind"] == "WorkloadPriorityClass"
    strict = {"backfill": "none"}
    (only,) = objects(kubernetes_objects(jobs(), swept(jobs(), strict), run_id=2))
    assert only["kind"] == "ClusterQueue"
    back = {**lane, "backfill": "none"}
    now = jobs(current_policies=CurrentPolicies(backfill="none"))
    (only,) = objects(kubernetes_objects(now, swept(now, back), run_id=2))
    assert only["kind"] == "WorkloadPriorityClass"


def test_quotas_are_two_cluster_queues_without_a_cohort() -> None:
    application = jobs("kueue_quotas")
    small = next(one for one in application.space.parameter("small_procs").levels if one)
    text = kubernetes_objects(application, swept(application, {"small_procs": small}), run_id=2)
    main, other = objects(text)
    quotas = [
        queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"]
        for queue in (main, other)
    ]
    assert quotas == [48 - int(small), small]
    assert {q["spec"]["queueingStrategy"] for q in (main, other)} == {"BestEffortFIFO"}
    assert not any("cohort" in name for q in (main, other) for name in q["spec"])


@pytest.mark.parametrize("preset", ["kueue", "kueue_quotas"])
def test_every_answer_to_a_question_for_kueue_has_objects(preset: str) -> None:
    levels = {"small_max_procs": (8,), "small_max_requested_s": (3600, 7200)}
    application = jobs(preset, levels=levels if preset == "kueue_quotas" else {})
    space = application.space
    every = [space.values(configuration) for configuration in space.configurations()]
    others = [values for values in every if values != application.baseline]
    experiment = swept(application, *others)
    texts = [kubernetes_objects(application, experiment, 2 + i) for i in range(len(others))]
    assert all(objects(text) for text in texts)
    assert len({text.split("\n\n", 2)[2] for text in texts}) == len(others)


@pytest.mark.parametrize(
    ("levels", "now", "changed", "message"),
    [
        ({"order": ("fcfs", "saf")}, "greedy", {"order": "saf"}, "orders the queue by saf"),
        ({"backfill": ("none", "easy")}, "none", {"backfill": "easy"}, "backfills by easy"),
        ({"procs": (48, 64)}, "greedy", {"procs": 64}, "changes procs"),
    ],
)
def test_what_kueue_lacks_is_refused_with_the_best_that_it_has(
    levels: Mapping[str, tuple[Level, ...]], now: str, changed: Mapping[str, Level], message: str
) -> None:
    application = jobs(
        levels={**levels, **({} if "backfill" in levels else {"backfill": ()})},
        current_policies=CurrentPolicies(backfill=now),
    )
    lane = {"lane_max_requested_s": 900, "lane_max_procs": 48}
    tried = swept(application, changed, lane)
    with pytest.raises(SettingsError, match=message) as refused:
        kubernetes_objects(application, tried, run_id=2)
    lane_run, current = tried.summary(tried.run(3)), tried.summary(tried.run(1))
    assert lane_run is not None
    assert current is not None
    is_better = lane_run.outcome.feasible and lane_run.rank > current.rank
    best = "can express is run 3" if is_better else "no tried configuration that Kueue can express"
    assert best in str(refused.value)


def test_the_best_that_kueue_can_express_is_named() -> None:
    application = jobs(
        "policies", current_policies=CurrentPolicies(backfill="none"),
        levels={"order": ("fcfs", "saf"), "backfill": ("none", "greedy")},
    )  # fmt: skip
    tried = swept(application, {"order": "saf"}, {"backfill": "greedy"})
    with pytest.raises(SettingsError, match=r"Kueue can express is run 3 .* add --run 3"):
        kubernetes_objects(application, tried, run_id=2)


def test_scores_are_those_of_the_profile() -> None:
    changed = {"placement": "most_allocated", "balance_weight": 0.0, "mem_weight": 5.0}
    text = kubernetes_objects(pods(), swept(pods(), {**changed, "gpu_weight": 1.0}), run_id=2)
    (found,) = objects(text)
    (profile,) = found["profiles"]
    assert profile["plugins"]["score"] == {
        "disabled": [{"name": "NodeResourcesBalancedAllocation"}]
    }
    (fit,) = profile["pluginConfig"]
    assert fit["name"] == "NodeResourcesFit"
    assert fit["args"]["scoringStrategy"] == {
        "type": "MostAllocated",
        "resources": [
            {"name": "cpu", "weight": 1},
            {"name": "memory", "weight": 5},
            {"name": "nvidia.com/gpu", "weight": 1},
        ],
    }
    weighted = swept(pods(gpus=0), {"balance_weight": 5.0})
    (found,) = objects(kubernetes_objects(pods(gpus=0), weighted, run_id=2))
    (profile,) = found["profiles"]
    assert profile["plugins"]["score"] == {
        "enabled": [{"name": "NodeResourcesBalancedAllocation", "weight": 5}]
    }
    assert "gpu_weight" not in pods(gpus=0).space.names


def test_what_kube_scheduler_lacks_is_refused() -> None:
    rules = pods(levels={"placement": ("least_allocated", "fgd")})
    tried = swept(rules, {"placement": "fgd"})
    with pytest.raises(SettingsError, match="places by fgd, which kube-scheduler does not have"):
        kubernetes_objects(rules, tried, run_id=2)
    halves = pods(levels={"mem_weight": (1.0, 0.5)})
    with pytest.raises(SettingsError, match="whole numbers up to 100"):
        kubernetes_objects(halves, swept(halves, {"mem_weight": 0.5}), run_id=2)
    order = pods(levels={"order": ("fcfs", "sjf")})
    with pytest.raises(SettingsError, match="changes order"):
        kubernetes_objects(order, swept(order, {"order": "sjf"}), run_id=2)


def test_other_applications_presets_and_no_change_are_refused() -> None:
    with pytest.raises(SettingsError, match="which Kubernetes does not configure"):
        kubernetes_objects(Bowl(), swept(jobs()))
    with pytest.raises(SettingsError, match="no object of Kueue to change"):
        kubernetes_objects(jobs(), swept(jobs()), run_id=1)
    with pytest.raises(ApplicationError, match="no preset 'kube'"):
        FleetPlacement(preset="kube")
