"""The Joulie generator: arrivals beside a plain loop, knobs that shift nothing else, switches."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from sim.generators.generator import Horizon, RandomStreams, fit, generate, published_model
from sim.generators.joulie.generator import arrivals, multipliers
from sim.generators.joulie.parameters import (
    HEAD,
    HEAD_HOURS,
    PAGE_HOURS,
    JoulieParameters,
    model_of,
    parameters_of,
)
from sim.model.errors import WorkloadError
from sim.model.pods import KINDS
from sim.model.tasks import SIGNALS, Tasks, TaskWork
from sim.model.workload import Workload

MODEL = published_model("joulie")
DAY_S = 86400.0


def drawn(seed: int = 3, days: float = 9.0, jobs: int | None = 3000, **told: Any) -> Workload:
    return generate(
        MODEL.with_parameters({"jobs": jobs} | told), duration_s=days * DAY_S, seed=seed
    )


def parts(workload: Workload) -> tuple[Tasks, TaskWork]:
    assert workload.tasks is not None
    assert workload.tasks.work is not None
    return workload.tasks, workload.tasks.work


def plain_loop(p: JoulieParameters, horizon: Horizon, streams: RandomStreams) -> list[float]:
    """Return submissions as the page says them, one after the other."""
    table = multipliers(p, int(horizon.duration_s // DAY_S) + 2, streams)
    rng, now_s, found = streams.of("arrival"), 0.0, []
    while True:
        multiplier = table[int(now_s // DAY_S), int(now_s % DAY_S // 3600)]
        now_s += rng.standard_exponential() * p.mean_inter_arrival_sec / horizon.scale / multiplier
        if now_s >= horizon.duration_s or (p.jobs is not None and len(found) == p.jobs):
            return found
        found.append(now_s)


@pytest.mark.parametrize(
    ("mean_s", "days", "scale", "told"),
    [
        (60.0, 3, 1.0, {}),
        (20.0, 4, 2.5, {"burst_day_probability": 1.0}),
        (9000.0, 60, 1.0, {"dip_day_probability": 0.7}),
        (3.0, 3, 1.0, {"hourly_multipliers": HEAD_HOURS}),  # more than one block of gaps
        (100.0, 9, 1.0, {"jobs": 50}),
    ],
)
def test_arrivals_are_those_of_a_plain_loop(
    mean_s: float, days: float, scale: float, told: dict[str, Any]
) -> None:
    p = JoulieParameters(mean_inter_arrival_sec=mean_s, **told)
    horizon = Horizon(days * DAY_S, scale)
    wanted = plain_loop(p, horizon, RandomStreams(5))
    found = arrivals(p, horizon, RandomStreams(5))
    assert len(found) == len(wanted)
    assert np.abs(found - np.array(wanted)).max() < 1e-3


def test_the_pages_hours() -> None:
    assert len(PAGE_HOURS) == len(HEAD_HOURS) == 24
    assert [PAGE_HOURS[h] for h in (0, 7, 8, 9, 11, 12, 13, 17, 18, 19, 20, 22, 23)] == [
        0.7, 0.7, 0.95, 1.2, 1.2, 0.85, 1.15, 1.15, 0.85, 0.95, 1.0, 1.0, 0.95,
    ]  # fmt: skip


ALWAYS = {"submit_s", "group", "runtime_s", "profile", "requests", "units", "demand"}
KNOBS: dict[str, tuple[Any, set[str]]] = {
    "mean_inter_arrival_sec": (11.0, {"submit_s"}),
    "burst_day_probability": (1.0, {"submit_s"}),
    "hourly_multipliers": ("head", {"submit_s"}),
    "perf_ratio": (0.6, {"demand"}),
    "eco_ratio": (0.4, {"demand"}),
    "compute_bound_boost": (3.0, {"demand"}),
    "gpu_utilisation_spread": (0.01, {"profile", "units"}),
    "cpu_work_rate_per_core": (2.0, {"units"}),
    "gpu_work_rate_per_gpu": (2.0, {"units"}),
    "split_work": (True, {"units"}),
    "cpu_per_gpu": (True, {"requests", "units"}),
    "amd_ratio": (0.5, set()),
}


def columns(workload: Workload) -> dict[str, np.ndarray[Any, Any]]:
    tasks, work = parts(workload)
    return {
        "submit_s": workload.submit_s,
        "group": workload.group,
        "runtime_s": workload.runtime_s,
        "profile": work.profile,
        "requests": tasks.demands,
        "units": np.column_stack([work.cpu_units, work.gpu_units]),
        "demand": np.array([str([*tasks.affinities, ()][code]) for code in tasks.demand]),
    }


@pytest.mark.parametrize("knob", KNOBS)
def test_a_knob_changes_what_it_is_about_and_nothing_else(knob: str) -> None:
    value, changes = KNOBS[knob]
    sparse = {"mean_inter_arrival_sec": 100.0}
    before, after = (columns(drawn(days=9, **sparse | told)) for told in ({}, {knob: value}))
    changed = {name for name in ALWAYS if not np.array_equal(before[name], after[name])}
    assert changed == changes


def test_the_mix_of_families_leaves_what_others_draw() -> None:
    before, after = drawn(), drawn(gpu_ratio=0.5)
    same = before.group == after.group
    assert 0.5 < same.mean() < 0.95
    assert (before.submit_s == after.submit_s).all()
    assert (before.runtime_s[same] == after.runtime_s[same]).all()


def test_fewer_kinds_of_gpus_leave_workloads_with_as_many() -> None:
    parameters = {"gpu_counts": [1, 2], "gpu_count_probabilities": [0.8, 0.2]}
    before, after = drawn(), drawn(**parameters)
    assert (before.group == after.group).all()
    single = before.group == KINDS.index("cpu_analytics")
    assert (before.procs[single] == after.procs[single]).all()


def of_family(workload: Workload, kind: str) -> np.ndarray[Any, Any]:
    tasks, _ = parts(workload)
    return np.flatnonzero((workload.group == KINDS.index(kind))[tasks.job])


def test_work_is_divided_by_workers_only_if_told() -> None:
    whole, split = drawn(), drawn(split_work=True)
    tasks, work = parts(whole)
    _, less = parts(split)
    rows = np.flatnonzero(work.gpu_units > 0)
    pods = np.bincount(tasks.job[rows], minlength=whole.n_jobs)[tasks.job[rows]]
    assert pods.max() > 4
    assert np.abs(less.gpu_units[rows] * pods - work.gpu_units[rows]).max() < 1e-3 * pods.max()
    runtime_s = whole.runtime_s[tasks.job[rows]]
    used = np.maximum(work.profile[rows, 1], 0.1) * tasks.mgpu[rows] / 1000.0
    assert np.abs(work.gpu_units[rows] / used - runtime_s).max() < 1e-2


def test_idle_gpus_count_as_used_a_tenth() -> None:
    """The published means never come near the least utilisation of work units."""
    tasks, work = parts(drawn(gpu_utilisation_means=[0.05] * 5, gpu_utilisation_spread=0.0,
                              gpu_utilisation_spread_many=0.0))  # fmt: skip
    rows = np.flatnonzero(tasks.mgpu > 0)
    assert work.profile[rows, 1].max() == 0.05
    wanted = tasks.runtime_s[rows] * tasks.mgpu[rows] / 1000.0 * 0.10
    assert np.abs(work.gpu_units[rows] - wanted).max() < 1e-3


def test_a_training_of_one_gpu_has_one_worker_or_as_was_meant_two() -> None:
    for least, fewest in ((1, 1), (2, 2)):
        workload = drawn(least_workers=least)
        tasks, _ = parts(workload)
        rows = of_family(workload, "distributed_training")
        workers = np.bincount(tasks.job[rows], weights=tasks.mgpu[rows] / 1000.0)
        assert workers[workers > 0].min() == fewest


def test_cores_are_a_pods_or_a_gpus() -> None:
    of_pod, of_gpu = drawn(), drawn(cpu_per_gpu=True)
    rows = of_family(of_pod, "single_gpu_training")
    tasks, more = parts(of_pod)[0], parts(of_gpu)[0]
    gpus = tasks.mgpu[rows] // 1000
    wanted = np.minimum(tasks.mcpu[rows] * gpus, 16_000)
    assert gpus.max() == 8
    assert np.abs(more.mcpu[rows] - wanted).max() <= 5 * gpus.max()


def test_the_later_version() -> None:
    workload = drawn(**HEAD)
    tasks, _ = parts(workload)
    first = np.searchsorted(tasks.job, np.arange(workload.n_jobs))
    assert tasks.texts["tags"][first[0]].startswith('["ai",')
    intents = np.array(tasks.texts["intentClass"])[first]
    compute = np.isin(workload.group, [KINDS.index(k) for k in (
        "single_gpu_training", "distributed_training", "parameter_server_training", "cpu_analytics",
    )])  # fmt: skip
    assert set(intents[compute]) == {"performance"}
    assert 0.25 < (intents[~compute] == "performance").mean() < 0.35
    night = drawn(days=2, jobs=None, **HEAD)
    assert night.n_jobs < 0.7 * drawn(days=2, jobs=None).n_jobs


def test_profiles_are_shared_by_the_pods_of_a_workload() -> None:
    tasks, work = parts(drawn())
    inside = tasks.job[1:] == tasks.job[:-1]
    assert inside.any()
    assert (work.profile[1:][inside] == work.profile[:-1][inside]).all()
    assert work.profile.shape[1] == len(SIGNALS)


def test_jobs_are_at_most_as_many_as_told_and_first_come_the_same() -> None:
    some, more = drawn(jobs=100), drawn(jobs=700)
    assert (some.n_jobs, more.n_jobs) == (100, 700)
    assert more.head(100) == some
    assert drawn(jobs=10_000_000, days=0.01).n_jobs < 1000


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"perf_ratio": 0.7, "eco_ratio": 0.6}, "their sum must not exceed 1"),
        ({"jobs": 0}, "parameter 'jobs' is 0; allowed are numbers from 1"),
        ({"jobs": 2.5}, "parameter 'jobs' is 2.5; allowed are whole numbers"),
        ({"gpu_ratio": -0.1}, "parameter 'gpu_ratio' is -0.1; allowed are numbers from 0 to 1"),
        ({"hourly_multipliers": [1.0] * 23}, "'hourly_multipliers' has 23 values; it needs 24"),
        ({"hourly_multipliers": "tail"}, "allowed are 24 numbers, 'page' or 'head'"),
        ({"gpu_counts": [2, 1, 4, 8]}, "numbers must rise"),
        ({"gpu_counts": [1]}, "'gpu_count_probabilities' has 4 values; it needs 1"),
        ({"gpu_count_probabilities": [0.5, 0.1, 0.1, 0.1]}, "sum to 0.8; probabilities must sum"),
        (
            {"hpo_max_trials": 1},
            "parameter 'hpo_max_trials' is 1; allowed are numbers from 2 to 64",
        ),
        ({"emit_workload_records": 1}, "allowed are true and false"),
        ({"burst_hours": []}, "parameter 'burst_hours' is []; allowed are lists of numbers"),
        ({"families": {}}, "must have the entries: debug_eval"),
    ],
)
def test_what_no_model_can_be(told: dict[str, Any], said: str) -> None:
    with pytest.raises(WorkloadError) as refused:
        drawn(**told)
    assert said in str(refused.value)


def family(name: str, **told: Any) -> dict[str, Any]:
    families: dict[str, Any] = MODEL.parameters["families"]
    return families | {name: families[name] | told}


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (family("debug_eval", share=0.5), "families' shares with GPUs sum to 1.05"),
        (family("cpu_analytics", structure="launcher"), "needs no GPUs; allowed are 'single'"),
        (family("debug_eval", structure="ring"), "families.debug_eval.structure is 'ring'"),
        (family("debug_eval", io_intensity=[0.4, 0.2]), "two rising numbers"),
        (family("debug_eval", speed=1), "families.debug_eval has no 'speed'"),
        (family("debug_eval", cpu={"median": 2, "sigma": 1, "least": 9, "most": 1}),
         "families.debug_eval.cpu: least is 9 and most 1"),
    ],
)  # fmt: skip
def test_what_no_family_can_be(told: dict[str, Any], said: str) -> None:
    with pytest.raises(WorkloadError) as refused:
        drawn(families=told)
    assert said in str(refused.value)


def test_parameters_survive_the_model() -> None:
    p = JoulieParameters(gpu_ratio=0.25, jobs=7, burst_hours=(1, 2))
    assert parameters_of(model_of(p)) == p
    assert parameters_of(MODEL) == JoulieParameters()


def test_an_experiment_of_cpus_may_have_more_trials() -> None:
    """With 0 GPUs there are up to 6; the page's mix has no such experiments, others may."""
    families = family("hpo_experiment", needs_gpus=False, share=0.2)
    families["cpu_preprocess"] = families["cpu_preprocess"] | {"share": 0.55}
    families["debug_eval"] = families["debug_eval"] | {"share": 0.54}
    workload = drawn(families=families, gpu_ratio=0.3)
    tasks, work = parts(workload)
    rows = of_family(workload, "hpo_experiment")
    trials = np.bincount(tasks.job[rows])
    assert set(trials[trials > 0]) == {3, 4, 5, 6, 7}  # with the controller
    assert (tasks.mgpu[rows] == 0).all()
    assert (work.gpu_units[rows] == 0).all()


def test_a_fitted_model_is_like_what_it_was_fitted_to() -> None:
    taught = drawn(days=60, jobs=None, mean_inter_arrival_sec=200.0, gpu_ratio=0.6,
                   burst_day_probability=0.0)  # fmt: skip
    p = parameters_of(fit("joulie", taught))
    assert p.gpu_ratio == pytest.approx(0.6, abs=4 * np.sqrt(0.24 / taught.n_jobs))
    rates = np.array(p.hourly_multipliers) / p.mean_inter_arrival_sec * 200.0
    hours = 60 * 3600 / 200.0 * np.array(PAGE_HOURS)
    assert (np.abs(rates / PAGE_HOURS - 1) < 4.5 / np.sqrt(hours)).all()
    law = p.families["single_gpu_training"].duration_sec
    assert law.median == pytest.approx(7200, rel=0.15)
    assert law.sigma == pytest.approx(1.0, rel=0.1)


def test_logs_that_teach_nothing() -> None:
    few = drawn(jobs=20)
    with pytest.raises(WorkloadError, match="needs 50 or more"):
        fit("joulie", few)


def test_seeds_are_told_apart() -> None:
    digests = [drawn(seed=seed, jobs=50).digest for seed in range(4)]
    assert all(one != other for one, other in pairwise(sorted(digests)))
