"""Calibration: rates, sensitivities and utilisations come back from simulated telemetry."""

import functools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sim.formats.joulie_reader import pod_places, read_telemetry
from sim.formats.joulie_writer import write_joulie
from sim.generators.generator import Model, generate
from sim.generators.joulie.calibration import calibrate
from sim.generators.joulie.estimates import ParameterEstimate
from sim.generators.joulie.parameters import (
    JoulieParameters,
    model_of,
    parameters_of,
    published_joulie,
)
from sim.model.errors import TraceError, WorkloadError
from sim.model.pods import KINDS, Telemetry
from sim.model.workload import Workload

SPEEDS = np.array([1.0, 0.8, 0.65, 0.5])


def truth() -> JoulieParameters:
    """What the machines do; the model of the trace is the published one."""
    p = JoulieParameters()
    places = {name: i for i, name in enumerate(KINDS)}
    families = {
        name: replace(
            one,
            cpu_sensitivity=0.35 + 0.08 * places[name],
            gpu_sensitivity=0.95 - 0.1 * places[name],
            gpu_utilisation_shift=0.0 if name == "single_gpu_training" else -0.02 * places[name],
            cpu_utilisation=(0.30, 0.60),
        )
        for name, one in p.families.items()
    }
    helpers = {
        role: replace(one, cpu_sensitivity=0.6 - 0.1 * i)
        for i, (role, one) in enumerate(p.helpers.items())
    }
    return replace(
        p,
        cpu_work_rate_per_core=1.7,
        gpu_work_rate_per_gpu=0.8,
        gpu_utilisation_means=(0.60, 0.55, 0.50, 0.45, 0.40),
        families=families,
        helpers=helpers,
    )


@functools.cache
def trace() -> Workload:
    return generate(published_joulie(), duration_s=4 * 3600.0, seed=6)


@functools.cache
def measured() -> Telemetry:
    """Run every pod on machines as `truth` says, some of them throttled, with 5 % of noise."""
    workload, true, rng = trace(), truth(), np.random.default_rng(9)
    tasks = workload.tasks
    assert tasks is not None
    assert tasks.work is not None
    family = workload.group[tasks.job]
    gpus, cores = tasks.mgpu / 1000, tasks.mcpu / 1000
    total = np.bincount(tasks.job, weights=gpus)[tasks.job]
    n_jobs, n = workload.n_jobs, tasks.n_tasks
    cpu_u = rng.uniform(0.30, 0.60, n_jobs)[tasks.job] + rng.uniform(-0.01, 0.01, n)
    means = np.array(true.gpu_utilisation_means)
    mean = means[np.searchsorted(np.array(true.gpu_utilisation_counts), total)]
    shift = np.array([true.families[name].gpu_utilisation_shift for name in KINDS])[family]
    gpu_u = np.where(gpus > 0, mean + shift + rng.uniform(-0.1, 0.1, n_jobs)[tasks.job], np.nan)
    gpu_speed = rng.choice(SPEEDS, n)
    starved = (gpus > 0) & (rng.random(n) < 0.1)  # the cores are throttled more than the GPUs
    cpu_speed = np.where(gpus > 0, np.where(starved, 0.4, 1.0), rng.choice(SPEEDS, n))
    roles = [tasks.roles[i] for i in tasks.role]
    of_cpu = np.array(
        [
            true.helpers[role].cpu_sensitivity
            if role in true.helpers
            else true.families[KINDS[kind]].cpu_sensitivity
            for role, kind in zip(roles, family, strict=True)
        ]
    )
    of_gpu = np.array([true.families[name].gpu_sensitivity for name in KINDS])[family]
    cpu_s = tasks.work.cpu_units / (
        cores * np.maximum(cpu_u, 0.1) * 1.7 * (1 - of_cpu * (1 - cpu_speed))
    )
    gpu_s = np.divide(
        tasks.work.gpu_units,
        gpus * np.maximum(gpu_u, 0.1) * 0.8 * (1 - of_gpu * (1 - gpu_speed)),
        out=np.zeros(n),
        where=gpus > 0,
    )
    duration_s = np.where(gpus > 0, gpu_s, cpu_s) * np.exp(rng.normal(0, 0.05, n))
    duration_s[starved] *= 3.0
    duration_s[np.array(roles) == "launcher"] *= 4.0  # they wait for their workers
    return Telemetry.from_arrays(
        workload,
        task=np.arange(n),
        duration_s=duration_s,
        cpu_utilisation=cpu_u,
        gpu_utilisation=gpu_u,
        cpu_speed=cpu_speed,
        gpu_speed=gpu_speed,
    )


def true_value(row: ParameterEstimate) -> float:
    p = truth()
    name = row.parameter
    if name.startswith("gpu_utilisation_means["):
        count = int(name.partition("[")[2].removesuffix(" GPUs]"))
        return p.gpu_utilisation_means[p.gpu_utilisation_counts.index(count)]
    place, *rest = name.split(".")
    if place == "families":
        if rest[1] == "cpu_utilisation":
            return 0.45
        return float(getattr(p.families[rest[0]], rest[1]))
    if place == "helpers":
        return p.helpers[rest[0]].cpu_sensitivity
    return float(getattr(p, name))


def test_known_values_lie_in_their_intervals() -> None:
    _, changes = calibrate(published_joulie(), measured())
    outside = []
    for row in changes:
        assert row.low is not None
        assert row.high is not None
        value = true_value(row)
        outside += [] if row.low <= value <= row.high else [row.parameter]
        half = max(row.high - row.after, row.after - row.low)
        assert abs(row.after - value) <= 2.2 * half, (row, value)
        assert half < 0.1, row
    assert len(changes) == 26
    assert len(outside) <= 4, outside  # of 26 at 95 %, 1 in 100 runs has more
    names = {row.parameter for row in changes}
    assert {"cpu_work_rate_per_core", "gpu_work_rate_per_gpu"} <= names
    assert {f"helpers.{role}.cpu_sensitivity" for role in ("launcher", "ps", "controller")} <= names
    assert "families.cpu_analytics.cpu_sensitivity" in names
    assert "families.hpo_experiment.gpu_sensitivity" in names
    assert "families.distributed_training.gpu_utilisation_shift" in names


def test_the_model_has_what_the_table_says() -> None:
    before = published_joulie()
    model, changes = calibrate(before, measured())
    p, was = parameters_of(model), parameters_of(before)
    told = {row.parameter: row for row in changes}
    assert p.cpu_work_rate_per_core == told["cpu_work_rate_per_core"].after
    assert told["cpu_work_rate_per_core"].before == was.cpu_work_rate_per_core == 1.0
    debug = p.families["debug_eval"]
    assert debug.gpu_sensitivity == told["families.debug_eval.gpu_sensitivity"].after
    assert p.helpers["ps"].cpu_sensitivity == told["helpers.ps.cpu_sensitivity"].after
    assert debug.cpu_utilisation == pytest.approx((0.30, 0.60), abs=0.02)
    assert debug.duration_sec == was.families["debug_eval"].duration_sec
    assert debug.cpu_sensitivity == was.families["debug_eval"].cpu_sensitivity  # waits for its GPU
    assert model.source.startswith("Joulie's page")
    assert f"Calibrated on {measured().n_rows:,} pods" in model.source


def test_without_throttling_sensitivities_stay() -> None:
    told = measured()
    full = (told.cpu_speed == 1) & ((told.gpu_speed == 1) | np.isnan(told.gpu_utilisation))
    rows = np.flatnonzero(full)
    some = Telemetry.from_arrays(
        trace(), task=rows, duration_s=told.duration_s[rows],
        cpu_utilisation=told.cpu_utilisation[rows], gpu_utilisation=told.gpu_utilisation[rows],
    )  # fmt: skip
    _, changes = calibrate(published_joulie(), some)
    names = [row.parameter for row in changes]
    assert not [name for name in names if name.endswith("sensitivity")]
    rate = next(row for row in changes if row.parameter == "cpu_work_rate_per_core")
    assert rate.low is not None
    assert rate.high is not None
    assert rate.low < 1.7 < rate.high


def test_the_shift_of_the_reference_is_that_of_the_model() -> None:
    p = JoulieParameters()
    single = replace(p.families["single_gpu_training"], gpu_utilisation_shift=-0.05)
    shifted = model_of(replace(p, families={**p.families, "single_gpu_training": single}))
    usual, other = (
        parameters_of(calibrate(model, measured())[0]) for model in (published_joulie(), shifted)
    )
    assert other.gpu_utilisation_means[0] == pytest.approx(usual.gpu_utilisation_means[0] + 0.05)
    assert other.families["single_gpu_training"].gpu_utilisation_shift == -0.05


def test_too_little_is_refused() -> None:
    told = measured()
    few = Telemetry.from_arrays(trace(), task=[0, 1], duration_s=[10, 20])
    with pytest.raises(WorkloadError, match="2 rows of telemetry are too few"):
        calibrate(published_joulie(), few)
    with pytest.raises(WorkloadError, match="the model is of 'lublin'"):
        calibrate(Model("lublin"), told)
    with pytest.raises(WorkloadError, match="duration_s, row 1: 0; allowed are finite numbers"):
        Telemetry.from_arrays(trace(), task=[0, 1], duration_s=[1, 0])
    with pytest.raises(WorkloadError, match=r"cpu_speed, row 0: 1\.5"):
        Telemetry.from_arrays(trace(), task=[0], duration_s=[1], cpu_speed=[1.5])
    with pytest.raises(WorkloadError, match="names tasks that joulie does not have"):
        Telemetry.from_arrays(trace(), task=[10**9], duration_s=[1])
    with pytest.raises(WorkloadError, match="has no pods with work units"):
        Telemetry.from_arrays(replace(trace(), tasks=None), task=[0], duration_s=[1])


def test_pods_have_the_names_of_files(tmp_path: Path) -> None:
    some = trace().head(40)
    path = tmp_path / "t.jsonl"
    write_joulie(some, path)
    records = [json.loads(line) for line in path.read_text().splitlines()]
    ids = [record["jobId"] for record in records if record["type"] == "job"]
    assert list(pod_places(some)) == ids


def rows_of(some: Workload) -> list[dict[str, Any]]:
    names = list(pod_places(some))[:3]
    return [
        {
            "jobId": name,
            "start": 10 * i,
            "end": 11.5 * i + 5.5,
            "cpuUtilization": 0.5,
            "gpuSpeed": 1,
        }
        for i, name in enumerate(names)
    ]


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_telemetry_is_read_from_files(kind: str, tmp_path: Path) -> None:
    some = trace().head(10)
    rows = rows_of(some)
    rows[1]["cpuUtilization"] = None
    path = tmp_path / f"t.{kind}"
    if kind == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        lines = [",".join("" if v is None else str(v) for v in row.values()) for row in rows]
        path.write_text("\n".join([",".join(rows[0]), *lines]) + "\n")
    made = read_telemetry(path, some)
    assert made.duration_s.tolist() == [5.5, 7.0, 8.5]
    assert made.task.tolist() == [0, 1, 2]
    assert made.cpu_utilisation[[0, 2]].tolist() == [0.5, 0.5]
    assert np.isnan(made.cpu_utilisation[1])
    assert np.isnan(made.gpu_utilisation).all()
    assert made.gpu_speed.tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"jobId": "nobody"}, "line 2: jobId is 'nobody'; joulie has no such pod"),
        ({"end": 9}, "line 2: end is '9'; it must be after the start, 10"),
        ({"start": "noon"}, "line 2: start is 'noon'; allowed are finite numbers"),
        ({"cpuUtilization": 1.5}, "line 2: cpuUtilization is '1.5'; allowed are numbers from 0"),
        ({"gpuSpeed": 0}, "line 2: gpuSpeed is '0'; allowed are numbers above 0"),
        ({"gpuSpeed": True}, "line 2: 'gpuSpeed' must be a text, a number or null"),
        ({"colour": 1}, "line 2: the first line has no 'colour'"),
    ],
)
def test_bad_telemetry_is_refused_in_words(
    change: dict[str, Any], said: str, tmp_path: Path
) -> None:
    some = trace().head(10)
    rows = rows_of(some)
    rows[1] |= change
    path = tmp_path / "t.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(TraceError) as refused:
        read_telemetry(path, some)
    assert said in str(refused.value)
    if "nobody" in said:
        kept = read_telemetry(path, some, unknown_pods="drop")
        assert kept.task.tolist() == [0, 2]
        assert kept.duration_s.tolist() == [5.5, 8.5]


def test_what_is_no_telemetry(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    for text, said in (
        ("", "the file is empty"),
        ("{\n", "not JSON"),
        ("a,b\n1,2\n", "no column 'jobId'|no column 'start'"),
    ):
        path.write_text(text)
        with pytest.raises(TraceError, match=said):
            read_telemetry(path, trace().head(5))
