"""Jobs that consist of tasks: a flavour becomes one of the jobs that it was made of, whole."""

from pathlib import Path

import numpy as np
import pytest

from sim.generators.cloud.batches import batches_of
from sim.generators.generator import Model, fit, generate, load_model, save_model
from sim.model.errors import WorkloadError
from sim.model.tasks import Tasks
from sim.model.workload import Workload

DAY_S = 86_400.0


def a_log() -> Workload:
    """Return batches of jobs: one task for each kind, or a fork of three that join in a fifth."""
    rng = np.random.default_rng(2)
    n = 400
    forks = np.repeat(rng.random(n // 2) < 0.4, 2)
    counts = np.where(forks, 5, 1)
    runtime_s = np.where(forks, 400.0, 50.0) + rng.integers(0, 20, n)
    job = np.repeat(np.arange(n), counts)
    first = np.cumsum(counts) - counts
    place = np.arange(len(job)) - first[job]
    fork = [(), (0,), (0,), (0,), (1, 2, 3)]
    parents = [[int(first[j]) + p for p in fork[k]] for j, k in zip(job, place, strict=True)]
    edges = (
        np.cumsum([0, *map(len, parents)]),
        np.array([one for some in parents for one in some]),
    )
    return Workload.from_arrays(
        submit_s=np.repeat(np.sort(rng.uniform(0, 8 * DAY_S, n // 2)), 2),
        runtime_s=runtime_s,
        procs=np.where(forks, 4, 2),
        requested_s=np.full(n, 600.0),
        user=np.repeat(np.arange(n // 2), 2),
        name="forks",
        start_unix_s=0.0,
        time_zone="UTC",
        tasks=Tasks.from_arrays(
            job=job,
            runtime_s=runtime_s[job] / counts[job],
            mgpu=np.where(counts[job] == 5, 500, 0),
            edges=edges,
        ),
    )


@pytest.mark.parametrize("quality", ["tables", "mix"])
def test_jobs_are_drawn_with_their_tasks(quality: str, tmp_path: Path) -> None:
    log = a_log()
    model = fit("three_stage", log, {"penalty": 0.1}, quality=quality)
    save_model(model, tmp_path / "m.json")
    drawn = generate(load_model(tmp_path / "m.json"), duration_s=8 * DAY_S, seed=1)
    assert drawn.tasks is not None
    assert log.tasks is not None
    counts = np.bincount(drawn.tasks.job)
    assert counts.tolist() == np.where(drawn.procs == 4, 5, 1).tolist()
    sums = np.bincount(drawn.tasks.job, drawn.tasks.runtime_s)
    assert sums == pytest.approx(drawn.runtime_s), "a job is one of the log, whole"
    assert set(drawn.runtime_s.tolist()) <= set(log.runtime_s.tolist())
    one = drawn.tasks.of_jobs(*(np.flatnonzero(counts == 5)[0] + [0, 1]).tolist())
    assert np.diff(one.first_parent).tolist() == [0, 1, 1, 1, 3]
    assert one.parent_task.tolist() == [0, 0, 0, 1, 2, 3]
    inside = np.diff(drawn.user) == 0
    assert (np.diff(drawn.procs)[inside] == 0).mean() > 0.9, "batches are alike"


def test_flavours_know_of_tasks() -> None:
    trace, examples = batches_of(a_log())
    assert [one.name for one in trace.flavours] == [
        "2x600s, tasks 1, GPUs 0", "4x600s, tasks 5, GPUs 2.5",
    ]  # fmt: skip
    assert examples.runtime_s is not None
    chosen = examples.nearest(
        np.array([0, 0, 1, 1]), np.array([0.0, 57.2, 411.9, 9e9]), examples.runtime_s
    )
    assert examples.runtime_s[chosen].tolist() == [50.0, 57.0, 412.0, 419.0]


def test_tasks_of_other_examples_are_refused_in_words() -> None:
    kept = fit("three_stage", a_log(), {"penalty": 0.1})
    changed = kept.arrays["examples_runtime_s"][::-1]
    broken = Model(kept.generator, kept.parameters, {**kept.arrays, "examples_runtime_s": changed})
    with pytest.raises(WorkloadError, match="rising run times"):
        generate(broken, duration_s=DAY_S, seed=1)
