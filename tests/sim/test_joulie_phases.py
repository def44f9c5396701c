"""Phases of workloads: they average to the profile, whatever they are."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sim.formats.joulie_reader import read_joulie
from sim.formats.joulie_records import PROFILE
from sim.formats.joulie_writer import write_joulie
from sim.generators.generator import generate
from sim.generators.joulie.parameters import (
    FAMILIES,
    JoulieParameters,
    model_of,
    parameters_of,
    published_joulie,
)
from sim.generators.joulie.phases import (
    USUAL_PHASES,
    Phases,
    WorkloadPhase,
    phases_of,
    profiles_of_phases,
    with_phases,
)
from sim.model.errors import TraceError, WorkloadError
from sim.model.tasks import SIGNALS, Tasks, TaskWork
from sim.model.workload import Workload

NAMES = tuple(FAMILIES)
DAY_S = 86400.0


def two_of_each() -> Workload:
    """Two jobs of every family, the first of them with two tasks."""
    n = 2 * len(NAMES)
    job = np.sort(np.concatenate([np.arange(n), [0]]))
    profile = np.random.default_rng(3).random((n + 1, len(SIGNALS)))
    profile[1] = profile[0]
    work = TaskWork(
        cpu_units=np.ones(n + 1),
        gpu_units=np.ones(n + 1),
        cpu_sensitivity=np.ones(n + 1),
        gpu_sensitivity=np.ones(n + 1),
        cpu_class=np.full(n + 1, -1),
        gpu_class=np.full(n + 1, -1),
        profile=profile,
    )
    return Workload.from_arrays(
        submit_s=np.arange(n),
        runtime_s=np.ones(n),
        procs=np.ones(n),
        group=np.arange(n) % len(NAMES),
        tasks=Tasks.from_arrays(job=job, runtime_s=np.ones(n + 1), work=work),
    )


def work_of(workload: Workload) -> TaskWork:
    assert workload.tasks is not None
    assert workload.tasks.work is not None
    return workload.tasks.work


@given(
    profile=arrays(np.float64, (4, 5), elements=st.floats(0, 1)),
    weights=arrays(np.float64, (4, 3), elements=st.floats(0.01, 1)),
    factors=arrays(np.float64, (4, 3, 5), elements=st.floats(0.001, 10)),
)
def test_phases_average_to_the_profile(
    profile: np.ndarray, weights: np.ndarray, factors: np.ndarray
) -> None:
    shares = weights / weights.sum(axis=1, keepdims=True)
    made = profiles_of_phases(profile, shares, factors)
    assert ((made >= 0) & (made <= 1)).all()
    mean = np.einsum("np,nps->ns", made[:, :, 0], made[:, :, 1:])
    assert np.abs(mean - profile).max() < 1e-9


def test_factors_are_kept_where_there_is_room() -> None:
    shares, factors = np.array([[0.5, 0.5]]), np.ones((1, 2, 5))
    factors[0, 0], factors[0, 1] = 0.5, 1.5
    made = profiles_of_phases(np.array([[0.4, 0.4, 0.4, 0.4, 0.9]]), shares, factors)
    assert made[0, 0, 1:] == pytest.approx([0.2, 0.2, 0.2, 0.2, 0.8])
    assert made[0, 1, 1:] == pytest.approx([0.6, 0.6, 0.6, 0.6, 1.0])


def test_workloads_get_the_phases_of_their_families() -> None:
    plain = two_of_each()
    made = with_phases(plain, USUAL_PHASES, NAMES, np.random.default_rng(1))
    phases = work_of(made).phases
    assert phases is not None
    assert phases[:, :, 0].sum(axis=1) == pytest.approx(1.0)
    assert phases[0, :, 0].tolist() == [1, 0, 0]  # debug_eval has none
    single = int(np.flatnonzero(plain.group == NAMES.index("single_gpu_training"))[0]) + 1
    assert phases[single, :, 0].tolist() == [0.05, 0.85, 0.10]
    assert phases[single, 0, 2] < phases[single, 1, 2]  # loading leaves the GPU idle
    assert (phases[0] == phases[1]).all()  # shared by the tasks of a job
    assert made.digest != plain.digest
    assert with_phases(plain, {}, NAMES, np.random.default_rng(1)) == plain
    cut = made.part(2, 5)
    assert (work_of(cut).phases == phases[3:6]).all()


def test_shares_vary_around_those_given() -> None:
    shares = np.array([part.share for part in USUAL_PHASES["single_gpu_training"]])
    tasks = two_of_each().tasks
    assert tasks is not None
    many = Workload.from_arrays(
        submit_s=np.zeros(4000),
        runtime_s=np.ones(4000),
        procs=np.ones(4000),
        group=np.full(4000, NAMES.index("single_gpu_training")),
        tasks=tasks.ordered(np.full(4000, 1)),
    )
    phases = work_of(
        with_phases(many, USUAL_PHASES, NAMES, np.random.default_rng(7), concentration=50.0)
    ).phases
    assert phases is not None
    drawn = phases[:, :, 0]
    # Dirichlet: variance p (1 - p) / (concentration + 1).
    sigma = np.sqrt(shares * (1 - shares) / 51)
    assert drawn.mean(axis=0) == pytest.approx(shares, abs=5 * sigma.max() / np.sqrt(4000))
    assert drawn.std(axis=0) == pytest.approx(sigma, rel=0.08)


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ([], "allowed are lists by family"),
        ({"party": []}, "phases of 'party': no such family; known: debug_eval"),
        ({"debug_eval": []}, "lists of 1 to 16 phases"),
        ({"debug_eval": [{"share": 1}]}, "it must be a table with name and share"),
        ({"debug_eval": [{"name": "a", "share": 0.5}]}, "the shares sum to 0.5"),
        ({"debug_eval": [{"name": "a", "share": 1, "io_intensity": -1}]}, "io_intensity is -1"),
        ({"debug_eval": [{"name": "a", "share": 1, "io_intensity": 0}]}, "is 0 in every phase"),
        ({"debug_eval": [{"name": 7, "share": 1}]}, "name is 7; allowed are texts"),
    ],
)
def test_phases_that_cannot_be(told: object, said: str) -> None:
    with pytest.raises(WorkloadError) as refused:
        phases_of(told, NAMES)
    assert said in str(refused.value)


def test_models_carry_phases() -> None:
    assert parameters_of(published_joulie()).phases == {}
    model = model_of(JoulieParameters(phases=USUAL_PHASES, phase_concentration=20.0))
    assert parameters_of(model).phases == USUAL_PHASES
    assert WorkloadPhase("a", 1.0).factors == (1.0,) * 5


def test_tasks_refuse_phases_that_are_not_the_profile() -> None:
    work = work_of(two_of_each())
    n = len(work.profile)
    wrong = np.concatenate([np.ones((n, 1, 1)), work.profile[:, None, :]], axis=2)
    columns = {"job": np.arange(n), "runtime_s": np.ones(n)}
    Tasks.from_arrays(**columns, work=replace(work, phases=wrong.copy()))
    wrong[2, 0, 3] = 1 - wrong[2, 0, 3]
    with pytest.raises(WorkloadError, match="task phases, row 2: the shares must sum to 1"):
        Tasks.from_arrays(**columns, work=replace(work, phases=wrong))
    with pytest.raises(WorkloadError, match="task phases has shape"):
        Tasks.from_arrays(**columns, work=replace(work, phases=wrong[:, :, :5]))


@pytest.mark.parametrize(
    "phases",
    [
        USUAL_PHASES,
        {"debug_eval": (WorkloadPhase("a", 0.3, gpu_utilisation=0.5), WorkloadPhase("b", 0.7))},
    ],
)
def test_files_carry_phases(phases: Phases, tmp_path: Path) -> None:
    parameters = JoulieParameters(phases=phases, phase_concentration=30.0, jobs=40)
    made = generate(model_of(parameters), duration_s=DAY_S, seed=2)
    path, again = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    write_joulie(made, path)
    back = read_joulie(path)
    assert work_of(back).phases == pytest.approx(work_of(made).phases, abs=0)
    assert back == made
    write_joulie(back, again)
    assert again.read_bytes() == path.read_bytes()
    assert '"phases":[{"share":' in path.read_text()
    plain = generate(model_of(replace(parameters, phases={})), duration_s=DAY_S, seed=2)
    write_joulie(plain, again)
    assert "phases" not in again.read_text()
    assert (plain.runtime_s == made.runtime_s).all()


@pytest.mark.parametrize(
    ("phases", "said"),
    [
        ([], "it must be a list of 1 to 64 phases"),
        ([{"share": 1}], "phases[0] is"),
        ([[1.0, 0.3, 0.5, 0.6, 0.1, 0.5]], "the phases"),
        ([[0.5, 0.3, 0.5, 0.6, 0.1, 0.5]], "the shares must sum to 1"),
        ([[1.0, 0.2, 0.5, 0.6, 0.1, 0.5]], "cpuUtilization averages to 0.2 over the phases"),
        ([[1.5, 0.2, 0.5, 0.6, 0.1, 0.5]], "phases[0].share is '1.5'"),
    ],
)
def test_phases_in_files_are_checked(phases: list[Any], said: str, tmp_path: Path) -> None:
    names = ("share", *PROFILE)
    told = [dict(zip(names, one, strict=True)) if isinstance(one, list) else one for one in phases]
    record = {
        "type": "job", "schemaVersion": "v2", "jobId": "a", "submitTimeOffsetSec": 0,
        "podTemplate": {"requests": {"cpu": "1", "memory": "1Gi"}}, "work": {"cpuUnits": 1},
        "workloadProfile": dict(zip(PROFILE, (0.3, 0.5, 0.6, 0.1, 0.5), strict=True)),
        "phases": told,
    }  # fmt: skip
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(record) + "\n")
    if said == "the phases":
        assert work_of(read_joulie(path)).phases is not None
        return
    with pytest.raises(TraceError) as refused:
        read_joulie(path)
    assert said in str(refused.value)
