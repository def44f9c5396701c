"""The platform in motion: graphs, queues, known waits, a trace that adds up, and its laws."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import kstest

from sim.aiops.distributions import PositiveDistribution, mixture_of
from sim.aiops.engine import run_platform
from sim.aiops.platform import (
    DISCIPLINES,
    TASKS,
    DataStore,
    Edge,
    Join,
    MetricGate,
    PipelineGraph,
    PipelineTask,
    Platform,
    PlatformResource,
    ResourceRequest,
    discipline_named,
    line_of,
    traffic_bytes,
)
from sim.aiops.platform_statistics import PipelineArrivals, published_statistics
from sim.aiops.synthesis import (
    ACCURACY,
    INFERENCE_MS,
    PROTOTYPES,
    PRUNED,
    SIZE_MB,
    TRAIN,
    PipelineSubmission,
    PlatformScenario,
    Synthesiser,
    SynthesisSettings,
    compression_factors,
    prototype_graph,
)
from sim.aiops.trace import HourlySums, PlatformResult
from sim.generators.generator import RandomStreams
from sim.model.errors import SetupError, UnknownNameError

DAY_S = 86_400.0
DIAMOND = {
    "preprocess": PipelineTask("preprocess"),
    "train": PipelineTask("train"),
    "evaluate": PipelineTask("evaluate"),
    "compress": PipelineTask("compress"),
    "both": Join(),
    "deploy": PipelineTask("deploy"),
}
DIAMOND_EDGES = (
    Edge("preprocess", "train"), Edge("train", "evaluate"), Edge("train", "compress"),
    Edge("evaluate", "both"), Edge("compress", "both"), Edge("both", "deploy"),
)  # fmt: skip


def alone(graph: PipelineGraph, **told: object) -> PlatformResult:
    """Run one pipeline on an empty platform."""
    scenario = PlatformScenario(
        profile="none",
        submissions=(PipelineSubmission(5.0, graph, user=3),),
        drain=True,
        seed=1,
        **told,
    )
    return run_platform(scenario)


# Graphs


def test_a_walk_joins_what_it_forked() -> None:
    graph = PipelineGraph(DIAMOND, DIAMOND_EDGES)
    assert graph.line is None
    walk, seen = graph.walk(), []
    step = next(walk)
    while step is not None:
        seen.append(step[0])
        try:
            step = walk.send("done")
        except StopIteration:
            step = None
    assert seen == ["preprocess", "train", "evaluate", "compress", "both", "deploy"]


@pytest.mark.parametrize(
    ("nodes", "edges", "said"),
    [
        ({"evaluate": PipelineTask("evaluate")}, (), "needs a model, but no training comes before"),
        (
            {"a": PipelineTask("train"), "b": PipelineTask("train")},
            (),
            "must begin at one node; this one has 2",
        ),
        ({"a": PipelineTask("train")}, (Edge("a", "b"),), "'b', which is not a node"),
        (
            {"a": PipelineTask("train"), "b": PipelineTask("deploy")},
            (Edge("a", "b", "pass"),),
            "never emits 'pass'",
        ),
        ({"a": PipelineTask("train"), "b": Join()}, (Edge("a", "b"),), "'b' has 1 incoming edges"),
        (
            {"a": PipelineTask("train"), "b": PipelineTask("deploy"), "c": PipelineTask("monitor")},
            (Edge("a", "b"), Edge("b", "c"), Edge("c", "b")),
            "form one: b, c",
        ),
    ],
)
def test_pipelines_that_cannot_be(nodes: dict, edges: tuple, said: str) -> None:
    with pytest.raises(SetupError, match=said):
        PipelineGraph(nodes, edges)


def test_names_that_are_none() -> None:
    with pytest.raises(UnknownNameError, match="preprocess"):
        PipelineTask("preproces")
    with pytest.raises(UnknownNameError, match="performance"):
        MetricGate(least=(("accuracy", 0.9),))
    with pytest.raises(UnknownNameError, match="fifo"):
        PlatformResource("x", 1, "lifo")
    with pytest.raises(SetupError, match="whole numbers from 1"):
        PlatformResource("x", 0)
    with pytest.raises(UnknownNameError, match="training"):
        Platform(infrastructure={"SparkML": "spark"})


def test_both_ways_of_running_a_graph_do_the_same_work() -> None:
    one_by_one = alone(PipelineGraph(DIAMOND, DIAMOND_EDGES))
    at_once = alone(PipelineGraph(DIAMOND, DIAMOND_EDGES, parallel=True))
    first, second = one_by_one.tables["tasks"], at_once.tables["tasks"]
    assert sorted(first["task"]) == sorted(second["task"])
    works = [sum(t["ended_s"] - t["started_s"]) for t in (first, second)]
    assert works[0] == pytest.approx(works[1])
    assert second["ended_s"].max() < first["ended_s"].max()
    names = [TASKS[k] for k in second["task"]]
    deploy = second["started_s"][names.index("deploy")]
    assert deploy >= second["ended_s"][[names.index("evaluate"), names.index("compress")]].max()


def test_a_line_is_run_as_the_graph_that_it_is() -> None:
    line = line_of(
        PipelineTask("preprocess"),
        PipelineTask("train"),
        PipelineTask("evaluate"),
        MetricGate(),
        PipelineTask("deploy"),
    )
    assert line.line is not None
    object.__setattr__(general := PipelineGraph(line.nodes, line.edges), "line", None)
    first, second = (alone(graph).tables["tasks"] for graph in (line, general))
    for column in first:
        np.testing.assert_allclose(first[column], second[column])


def test_a_failed_gate_ends_a_line_and_turns_a_graph() -> None:
    strict = MetricGate(least=(("performance", 1.1),))
    stopped = alone(
        line_of(PipelineTask("train"), PipelineTask("evaluate"), strict, PipelineTask("deploy"))
    )
    assert stopped.outcomes["stopped by a gate"] == 1
    assert stopped.tasks["deploy"].n == 0
    tasks = {kind: PipelineTask(kind) for kind in ("train", "harden", "deploy")}
    nodes = {**tasks, "gate": strict}
    edges = (
        Edge("train", "gate"), Edge("gate", "deploy", "pass"), Edge("gate", "harden", "fail"),
        Edge("harden", "deploy"),
    )  # fmt: skip
    turned = alone(PipelineGraph(nodes, edges))
    assert (turned.tasks["harden"].n, turned.tasks["deploy"].n) == (1, 1)
    assert turned.outcomes["deployed"] == 1


# Times


def test_a_pipeline_takes_the_sum_of_its_operations() -> None:
    store = DataStore(latency_s=2.0, read_bytes_per_s=1e5, write_bytes_per_s=1e4)
    found = alone(
        line_of(PipelineTask("preprocess"), PipelineTask("train")), platform=Platform(store=store)
    )
    tasks = found.tables["tasks"]
    data = tasks["read_bytes"][0]
    assert data == tasks["read_bytes"][1] == tasks["write_bytes"][0]
    assert tasks["asked_s"][0] == pytest.approx(5.0 + 2.0 + data / 1e5)
    between = tasks["asked_s"][1] - tasks["ended_s"][0]
    assert between == pytest.approx(2.0 + data / 1e4 + 2.0 + data / 1e5)
    ended = found.tables["models"]["ended_s"][0]
    assert ended - tasks["ended_s"][1] == pytest.approx(2.0 + tasks["write_bytes"][1] / 1e4)
    model = found.tables["models"]["size_bytes"][0]
    assert tasks["write_bytes"][1] == pytest.approx(model)
    assert traffic_bytes(2_920.0) == 3_000.0
    assert found.hours["traffic_bytes"].sum() >= tasks["read_bytes"].sum()


def constant_trainings(load: float, servers: int) -> PlatformScenario:
    """Return a platform to which trainings of 100 s come as a Poisson process."""
    told = published_statistics()
    service = 100.0
    gaps = PositiveDistribution("exponweib", (1.0, 1.0), service / (load * servers))  # exponential
    recipe = SynthesisSettings(
        prototypes={"simple": 1.0}, preprocess=0.0, evaluate=0.0, deploy=0.0, monitor=0.0
    )
    constant = mixture_of(((1.0, service, 1e-6),), 1.0, 1e9)
    statistics = replace(
        told, arrivals=PipelineArrivals(gaps), train=dict.fromkeys(told.train, constant)
    )
    platform = Platform(
        (PlatformResource("training", servers), PlatformResource("compute", 1)),
        store=DataStore(0.0, 1e30, 1e30),
    )
    return PlatformScenario(
        platform, statistics, recipe, profile="random", duration_s=20 * DAY_S, seed=5
    )


def test_the_queue_of_constant_trainings_waits_as_pollaczek_and_khinchine_say() -> None:
    """M/D/1: the mean wait is rho / (2 (1 - rho)) services."""
    found = run_platform(constant_trainings(0.7, 1))
    assert found.utilisation["training"] == pytest.approx(0.7, rel=0.04)
    assert found.tasks["train"].mean_wait_s == pytest.approx(0.7 / 0.6 * 100, rel=0.12)


def test_every_discipline_is_work_conserving_and_little_holds() -> None:
    base = constant_trainings(0.9, 3)
    found = {}
    for name in DISCIPLINES:
        platform = base.platform.having("training", discipline=name)
        result = run_platform(replace(base, platform=platform, duration_s=DAY_S, drain=True))
        tasks = result.tables["tasks"]
        waited = (tasks["started_s"] - tasks["asked_s"]).sum()
        assert result.hours["waited training"].sum() == pytest.approx(waited)
        assert result.hours["busy training"].sum() == pytest.approx(
            (tasks["ended_s"] - tasks["started_s"]).sum()
        )
        found[name] = waited / len(tasks["task"])
    for wait in found.values():  # trainings are all alike: the mean wait is that of any order
        assert wait == pytest.approx(found["fifo"], rel=1e-6)


def test_capacity_is_never_exceeded() -> None:
    scenario = PlatformScenario(duration_s=1.0 * DAY_S, seed=2)
    tasks = run_platform(scenario).tables["tasks"]
    for place, resource in enumerate(scenario.platform.resources):
        mine = tasks["resource"] == place
        times = np.concatenate([tasks["started_s"][mine], tasks["ended_s"][mine]])
        change = np.repeat([1, -1], mine.sum())
        order = np.lexsort((change, times))
        assert np.cumsum(change[order]).max() <= resource.capacity
        waiting = tasks["started_s"][mine] > tasks["asked_s"][mine]
        assert waiting.any() or resource.name == "compute"


# Queues


def asked(
    at: float, user: int = 0, priority: float = 0, seconds: float = 60, gain: float = 0
) -> ResourceRequest:
    return ResourceRequest(at, user, priority, seconds, lambda now: gain, 1.0, f"{at}")


def test_who_is_next() -> None:
    requests = [asked(1, 1, 0, 3_600, 0.2), asked(2, 1, 2, 60, 0.0), asked(3, 2, 1, 3_600, 0.4)]
    orders = {}
    for name in DISCIPLINES:
        queue = discipline_named(name)
        queue.served(1, 500.0)
        for request in requests:
            queue.push(request)
        orders[name] = [queue.pop(10.0).ticket for _ in range(len(queue))]
        assert not len(queue)
    assert orders == {
        "fifo": ["1", "2", "3"],
        "priority": ["2", "3", "1"],
        "potential": ["3", "1", "2"],
        "fair": ["3", "1", "2"],
    }


def test_who_waits_long_enough_is_next_even_without_potential() -> None:
    queue = discipline_named("potential")
    queue.push(asked(0.0))
    queue.push(asked(9.9 * 3600, gain=0.5, seconds=3_600))
    assert queue.pop(10 * 3600).ticket == "0.0"


# Pipelines that might have been


def planned(n: int, **recipe: object) -> tuple[Synthesiser, object]:
    maker = Synthesiser(published_statistics(), SynthesisSettings(**recipe), RandomStreams(3))
    return maker, maker.plan(0, np.linspace(0, 2 * 365 * DAY_S, n))


def test_synthetic_pipelines_are_sensible_and_as_frequent_as_told() -> None:
    maker, plans = planned(20_000)
    shares = np.bincount(plans.framework, minlength=5) / 20_000
    np.testing.assert_allclose(shares, list(published_statistics().mix.values()), atol=0.012)
    np.testing.assert_allclose(np.bincount(plans.prototype) / 20_000, [0.6, 0.3, 0.1], atol=0.012)
    network = maker.estimators.index("network")
    for place, graph in enumerate(maker.graphs):
        kinds = [node.kind for node in graph.line if isinstance(node, PipelineTask)]
        assert "train" in kinds
        for after in ("evaluate", "compress", "harden", "deploy", "monitor"):
            if after in kinds:
                assert kinds.index("train") < kinds.index(after)
        if {"compress", "harden"} & set(kinds):
            assert set(plans.estimator[plans.graph == place]) == {network}
        if "monitor" in kinds:
            assert "deploy" in kinds
    first = [prototype_graph(name, tuple(range(7)), None) for name in PROTOTYPES]
    assert [sum(node.kind == "train" for node in g.line) for g in first] == [1, 1, 2]


def test_compressing_takes_about_as_long_as_training() -> None:
    """PipeSim, section V-A: the training time of the model, and Gaussian noise on it."""
    _, plans = planned(20_000)
    train, told = plans.seconds[:, TASKS.index("train")], published_statistics().like_training
    assert told == {"compress": 0.1, "harden": 0.2}
    for kind, spread in told.items():
        off = plans.seconds[:, TASKS.index(kind)] / train - 1
        assert abs(off.mean()) < 4 * spread / np.sqrt(20_000)
        assert off.std() == pytest.approx(spread, rel=0.02)
        assert kstest(off / spread, "norm").pvalue > 1e-3
        assert abs(np.corrcoef(off, np.log(train))[0, 1]) < 0.03


def test_a_few_users_have_most_pipelines_and_a_trend_grows() -> None:
    maker, plans = planned(30_000, trend={"TensorFlow": 2.0})
    counts = np.sort(np.bincount(plans.user, minlength=200))[::-1]
    assert 0.6 < counts[:40].sum() / counts.sum() < 0.9
    flow = plans.framework == maker.frameworks.index("TensorFlow")
    early, late = flow[:3_000].mean(), flow[-3_000:].mean()
    assert early == pytest.approx(0.33, abs=0.03)
    assert late == pytest.approx(0.32 * 4 / (0.68 + 0.32 * 4), abs=0.04)


def test_what_one_stage_draws_shifts_no_other() -> None:
    _, first = planned(500)
    _, second = planned(500, monitor=0.0, n_users=3)
    np.testing.assert_array_equal(first.seconds, second.seconds)
    np.testing.assert_array_equal(first.sizes, second.sizes)
    assert first.user.max() > second.user.max()


def test_table_one_is_met_where_it_was_measured() -> None:
    for network in ("GoogleNet", "ResNet50"):
        found = compression_factors(np.array(PRUNED), network)
        for factors, told in zip(found, (ACCURACY, SIZE_MB, INFERENCE_MS), strict=True):
            np.testing.assert_allclose(factors * told[network][0], told[network])
    accuracy, size, _ = compression_factors(np.array([0.8]))
    assert accuracy[0] == pytest.approx((69.8 / 80.7 + 69.8 / 81.3) / 2)
    assert size[0] == pytest.approx((8.5 / 42.5 + 8.5 / 91.1) / 2)
    with pytest.raises(SetupError, match=r"0 to 0\.8"):
        compression_factors(np.array([0.9]))


def test_compression_and_hardening_change_the_model() -> None:
    plain = alone(line_of(PipelineTask("train"), PipelineTask("deploy"))).tables["models"]
    small = alone(
        line_of(PipelineTask("train"), PipelineTask("compress"), PipelineTask("deploy"))
    ).tables["models"]
    hard = alone(
        line_of(PipelineTask("train"), PipelineTask("harden"), PipelineTask("deploy"))
    ).tables["models"]
    assert small["size_bytes"][0] < plain["size_bytes"][0]
    assert small["inference_ms"][0] < plain["inference_ms"][0]
    assert hard["clever"][0] == pytest.approx(1.5 * plain["clever"][0])
    assert hard["performance"][0] < plain["performance"][0]


# The trace


def test_the_trace_on_disk_is_the_one_in_memory_and_adds_up(tmp_path: Path) -> None:
    from pyarrow import parquet

    scenario = PlatformScenario(duration_s=0.4 * DAY_S, drain=True, seed=4)
    kept, written = run_platform(scenario), run_platform(scenario, tmp_path)
    assert not written.tables
    assert written.n_rows == kept.n_rows
    for table, columns in kept.tables.items():
        found = parquet.read_table(tmp_path / f"{table}.parquet")
        assert found.column_names == list(columns)
        for name, column in columns.items():
            values = found.column(name).to_pylist()
            if name in kept.texts:
                assert values == [kept.texts[name][place] for place in column]
            else:
                np.testing.assert_array_equal(np.array(values, dtype=column.dtype), column)
    models, tasks = kept.tables["models"], kept.tables["tasks"]
    assert sorted(models["pipeline"]) == sorted(kept.tables["pipelines"]["pipeline"])
    waited = np.bincount(tasks["pipeline"], tasks["started_s"] - tasks["asked_s"])
    np.testing.assert_allclose(waited[models["pipeline"]], models["wait_s"], atol=1e-6)
    assert kept.wait_s == pytest.approx(models["wait_s"].mean())
    assert sum(kept.outcomes.values()) == kept.n_pipelines == len(models["pipeline"])


def test_the_same_seed_gives_the_same_and_another_another() -> None:
    scenario = PlatformScenario(duration_s=0.2 * DAY_S)
    first, again = run_platform(scenario), run_platform(scenario)
    other = run_platform(replace(scenario, seed=1))
    for name, column in first.tables["tasks"].items():
        np.testing.assert_array_equal(column, again.tables["tasks"][name])
    assert first.tasks == again.tasks != other.tasks


def test_seconds_of_intervals_lie_in_their_hours() -> None:
    rng = np.random.default_rng(6)
    start = rng.uniform(0, 30 * 3600, 200)
    end = start + rng.exponential(5_000, 200)
    hourly = HourlySums(["x"])
    hourly.spread("x", start[:90], end[:90])
    hourly.spread("x", start[90:], end[90:])
    edges = np.arange(60) * 3600.0
    naive = [
        np.clip(np.minimum(end, a + 3600) - np.maximum(start, a), 0, None).sum() for a in edges
    ]
    np.testing.assert_allclose(hourly.series("x", 60), naive, atol=1e-6)


def test_frameworks_may_have_clusters_of_their_own() -> None:
    platform = Platform(
        (*Platform().resources, PlatformResource("spark", 2)), infrastructure={"SparkML": "spark"}
    )
    found = run_platform(PlatformScenario(platform, duration_s=0.3 * DAY_S))
    tasks, of = found.tables["tasks"], found.tables["pipelines"]
    spark = of["framework"][np.searchsorted(of["pipeline"], tasks["pipeline"])] == 0
    trained = tasks["task"] == TRAIN
    assert set(tasks["resource"][trained & spark]) == {2}
    assert 2 not in set(tasks["resource"][trained & ~spark])
