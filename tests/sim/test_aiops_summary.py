"""What a trace comes to: the same as the simulation noted itself, in memory and from the disk."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sim.aiops.engine import run_platform
from sim.aiops.fleet import FleetPlan
from sim.aiops.platform import TASKS
from sim.aiops.summary import QUANTILES, TraceSummary, _Counts, summarise, summarise_folder
from sim.aiops.synthesis import PlatformScenario
from sim.aiops.trace import FLUSH_ROWS, PlatformTrace
from sim.model.errors import SetupError, TraceError

SCENARIO = PlatformScenario(
    duration_s=0.6 * 86_400.0, start_s=2 * 86_400.0, interarrival_factor=3.0, seed=5,
    fleet=FleetPlan(n_models=8, drifts_per_month=60.0),
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trace")
    run_platform(SCENARIO, path)
    return path


def test_it_adds_up_to_what_the_simulation_noted_itself() -> None:
    result = run_platform(SCENARIO)
    seen = summarise(SCENARIO, result)
    assert seen.n_pipelines == result.n_pipelines
    assert seen.outcomes == result.outcomes
    assert seen.resources == ("training", "compute")
    for name, series in seen.hours.items():
        if name in result.hours:
            np.testing.assert_allclose(series, result.hours[name], atol=1e-6, err_msg=name)
    assert seen.hours["renewed"].sum() == sum(result.trainings.values()) > 0
    assert {"arrivals", "traffic_bytes", "busy training", "waited compute"} <= set(seen.hours)
    for name in seen.resources:
        waited = seen.hours[f"waited for {name}"].sum()
        assert waited == pytest.approx(result.hours[f"waited {name}"].sum())
    kinds = {one.name: one for one in seen.tasks}
    for kind in TASKS:
        if result.tasks[kind].n:
            assert kinds[kind].worked.n == result.tasks[kind].n
            assert kinds[kind].worked.mean_s == pytest.approx(result.tasks[kind].mean_s)
            assert kinds[kind].waited.mean_s == pytest.approx(result.tasks[kind].mean_wait_s)
    assert seen.pipeline_wait.mean_s == pytest.approx(result.wait_s)


def test_quantiles_are_those_of_the_rows_to_half_a_percent() -> None:
    result = run_platform(SCENARIO)
    tasks, of = result.tables["tasks"], result.tables["pipelines"]
    seen = {one.name: one for one in summarise(SCENARIO, result).tasks}
    train = tasks["task"] == TASKS.index("train")
    seconds = (tasks["ended_s"] - tasks["started_s"])[train]
    place = np.searchsorted(of["pipeline"], tasks["pipeline"][train])
    framework = np.array(result.texts["framework"])[of["framework"][place]]
    for name, sample in (
        ("train", seconds), ("train TensorFlow", seconds[framework == "TensorFlow"]),
    ):  # fmt: skip
        exact = np.quantile(sample, QUANTILES, method="inverted_cdf")
        np.testing.assert_allclose(seen[name].worked.quantiles_s, exact, rtol=0.0051)


@pytest.mark.parametrize("seed", range(5))
def test_counts_by_logarithm_are_quantiles_of_any_sample(seed: int) -> None:
    rng = np.random.default_rng(seed)
    seconds = np.where(rng.random(700) < 0.2, 0.0, rng.lognormal(3.0, 2.5, 700))
    kinds = rng.integers(0, 3, 700)
    counts = _Counts(3)
    for part in np.array_split(np.arange(700), 4):
        counts.add(kinds[part], seconds[part])
    for kind in range(3):
        sample = seconds[kinds == kind]
        found, exact = counts.spread(kind), np.quantile(sample, QUANTILES, method="inverted_cdf")
        assert found.n == len(sample)
        assert found.mean_s == pytest.approx(sample.mean())
        np.testing.assert_allclose(found.quantiles_s, exact, rtol=0.0051, atol=1e-3)


def test_from_the_disk_it_is_the_same(folder: Path) -> None:
    kept, read = summarise(SCENARIO, run_platform(SCENARIO)), summarise_folder(folder)
    for name in ("n_pipelines", "started_by", "outcomes", "tasks", "waits", "resources", "about"):
        assert getattr(read, name) == getattr(kept, name), name
    assert read.pipeline_wait == kept.pipeline_wait
    assert set(read.hours) == set(kept.hours)
    for name, series in kept.hours.items():
        np.testing.assert_allclose(read.hours[name], series, atol=1e-6, err_msg=name)
    assert kept.fleet is not None
    assert read.fleet is not None
    for name, series in kept.fleet.items():
        np.testing.assert_array_equal(read.fleet[name], series)


def test_what_is_told_of_deployed_models_is_what_became_of_them() -> None:
    result = run_platform(SCENARIO)
    seen = summarise(SCENARIO, result)
    assert result.fleet is not None
    assert seen.fleet is not None
    assert seen.about is not None
    n_models, n_hours = result.fleet.late.shape
    assert (n_models, len(seen.fleet["late"])) == (8, n_hours)
    assert seen.fleet["late"].sum() == pytest.approx(result.fleet.late_share.sum() * n_hours)
    assert np.all(seen.fleet["performance_low"] <= seen.fleet["performance"])
    assert np.all(seen.fleet["staleness_high"] >= seen.fleet["staleness"])
    assert seen.about.sla_misses == int((result.fleet.late_share > 0.1).sum())


def test_a_trace_that_tells_less_is_read_as_far_as_it_goes(folder: Path, tmp_path: Path) -> None:
    for name in ("pipelines", "tasks", "models"):
        (tmp_path / f"{name}.parquet").write_bytes((folder / f"{name}.parquet").read_bytes())
    seen = summarise_folder(tmp_path)
    assert (seen.about, seen.fleet) == (None, None)
    assert seen.n_pipelines == summarise_folder(folder).n_pipelines
    (tmp_path / "models.parquet").unlink()
    without = summarise_folder(tmp_path)
    assert without.pipeline_wait.n == 0
    assert without.pipeline_wait.mean_s is None
    assert without.tasks == seen.tasks


def test_what_is_no_trace_is_refused_in_words(folder: Path, tmp_path: Path) -> None:
    from pyarrow import parquet

    with pytest.raises(TraceError, match="a trace has pipelines, tasks and models"):
        summarise_folder(tmp_path)
    for name in ("pipelines", "tasks"):
        (tmp_path / f"{name}.parquet").write_bytes((folder / f"{name}.parquet").read_bytes())
    (tmp_path / "about.json").write_text(json.dumps({"seed": 1}))
    with pytest.raises(TraceError, match="does not describe a simulation"):
        summarise_folder(tmp_path)
    (tmp_path / "about.json").write_text("{")
    with pytest.raises(TraceError, match="does not describe a simulation"):
        summarise_folder(tmp_path)
    less = parquet.read_table(folder / "tasks.parquet").drop_columns(["asked_s"])
    parquet.write_table(less, tmp_path / "tasks.parquet")
    with pytest.raises(TraceError, match="asked_s"):
        summarise_folder(tmp_path)
    (tmp_path / "pipelines.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(TraceError, match="not a table of a trace"):
        summarise_folder(tmp_path)


def test_a_trace_in_a_folder_is_not_in_memory(tmp_path: Path) -> None:
    short = replace(SCENARIO, duration_s=3_600.0)
    with pytest.raises(SetupError, match="is in a folder"):
        summarise(short, run_platform(short, tmp_path))


def test_nothing_that_came_is_a_summary_as_well() -> None:
    nobody = PlatformScenario(profile="none", duration_s=7_200.0)
    seen = summarise(nobody, run_platform(nobody))
    assert isinstance(seen, TraceSummary)
    assert (seen.n_pipelines, seen.tasks, len(seen.hours["arrivals"])) == (0, (), 2)


def test_small_parts_of_a_table_share_row_groups(tmp_path: Path) -> None:
    from pyarrow import parquet

    trace = PlatformTrace(tmp_path, {})
    for at in range(50):
        trace.add("numbers", {"of": np.arange(at * 1_000, (at + 1) * 1_000)})
    trace.close()
    with parquet.ParquetFile(tmp_path / "numbers.parquet") as file:
        assert file.metadata.num_row_groups == -(-50_000 // FLUSH_ROWS)
        np.testing.assert_array_equal(file.read()["of"].to_numpy(), np.arange(50_000))
