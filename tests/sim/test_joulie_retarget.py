"""Retargeting: where pods may go changes, and nothing else."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sim.formats.joulie_reader import read_joulie
from sim.formats.joulie_writer import joulie_lines, write_joulie
from sim.generators.generator import generate, published_model
from sim.generators.joulie.manifests import TargetNode, family_first, retarget, without_power_terms
from sim.model.errors import WorkloadError
from sim.model.tasks import Tasks, Term
from sim.model.workload import Workload

CPU = TargetNode("EPYC")
H100 = TargetNode("H100", "nvidia.com/gpu")
MI300 = TargetNode("MI300", "amd.com/gpu", {"zone": "b"})
A100 = TargetNode("A100", "nvidia.com/gpu")
POOL = (CPU, CPU, H100, H100, MI300, A100, A100)


@pytest.fixture(scope="module")
def trace() -> Workload:
    model = published_model("joulie").with_parameters({"jobs": 200, "eco_ratio": 0.2})
    return generate(model, duration_s=1e5, seed=8)


def pods(workload: Workload) -> Tasks:
    assert workload.tasks is not None
    return workload.tasks


def resources(workload: Workload) -> list[str]:
    tasks = pods(workload)
    return [[*tasks.gpu_resources, ""][code] for code in tasks.gpu_resource.tolist()]


def records(workload: Workload) -> list[dict[str, Any]]:
    return [json.loads(line) for line in joulie_lines(workload)]


def test_one_of_each_family_comes_first() -> None:
    gpus = [node for node in POOL if node.gpu_resource]
    assert family_first(gpus) == (A100, H100, MI300, H100, A100)


def test_only_resource_and_affinity_of_pods_change(trace: Workload) -> None:
    for before, after in zip(records(trace), records(retarget(trace, POOL)), strict=True):
        if before["type"] == "job":
            for record in (before, after):
                template = record["podTemplate"]
                template.pop("affinity", None)
                requests = template["requests"]
                record["gpus"] = requests.pop("nvidia.com/gpu", None) or requests.pop(
                    "amd.com/gpu", None
                )
        assert before == after


def test_pods_take_turns_over_the_pool(trace: Workload) -> None:
    told = retarget(trace, POOL)
    tasks = pods(told)
    names = [name for name in resources(told) if name]
    turn = [node.gpu_resource for node in family_first([n for n in POOL if n.gpu_resource])]
    assert names == [turn[i % len(turn)] for i in range(len(names))]
    only_cpu = Term("joulie.io/hw.kind", "In", ("cpu-only",))
    for demand, mgpu, name in zip(
        tasks.demand.tolist(), tasks.mgpu.tolist(), resources(told), strict=True
    ):
        terms = [*tasks.affinities, ()][demand]
        assert (only_cpu in terms) == (mgpu == 0)
        assert (Term("zone", "In", ("b",)) in terms) == (name == "amd.com/gpu")


def test_a_job_may_keep_to_one_vendor(trace: Workload) -> None:
    told = retarget(trace, POOL, whole_jobs=True)
    tasks = pods(told)
    gpus = np.flatnonzero(tasks.mgpu > 0)
    per_job: dict[int, set[str]] = {}
    for row in gpus.tolist():
        per_job.setdefault(int(tasks.job[row]), set()).add(resources(told)[row])
    assert {len(one) for one in per_job.values()} == {1}
    assert len(set(resources(told))) == 3
    mixed = retarget(trace, POOL)
    assert mixed != told


def test_doing_it_again_changes_nothing(trace: Workload, tmp_path: Path) -> None:
    once = retarget(trace, POOL, by_family=True)
    again = retarget(once, POOL, by_family=True)
    assert again == once
    assert again.notes == once.notes
    write_joulie(once, tmp_path / "a.jsonl")
    back = read_joulie(tmp_path / "a.jsonl")
    assert retarget(back, POOL, by_family=True) == back
    write_joulie(back, tmp_path / "b.jsonl")
    assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()


def test_the_baseline_does_not_look_at_power_profiles(trace: Workload) -> None:
    told = without_power_terms(retarget(trace, POOL))
    keys = {term.key for terms in pods(told).affinities for term in terms}
    assert keys == {"joulie.io/hw.kind", "zone"}
    assert pods(without_power_terms(trace)).affinities == ()
    assert (told.runtime_s == trace.runtime_s).all()
    assert without_power_terms(told) == told


def test_machines_that_will_be_idle_are_told(trace: Workload) -> None:
    rules = [note.rule for note in retarget(trace.head(2), POOL * 9).notes]
    assert "idle_machines" in rules
    assert "idle_machines" not in [note.rule for note in retarget(trace, POOL).notes]


def test_pods_for_which_there_is_no_machine(trace: Workload) -> None:
    with pytest.raises(WorkloadError, match="there are 0 machines with GPUs and 2 without"):
        retarget(trace, (CPU, CPU))
    with pytest.raises(WorkloadError, match="there are 1 machines with GPUs and 0 without"):
        retarget(trace, (H100,))
    rigid = Workload.from_arrays(submit_s=[0], runtime_s=[1], procs=[1])
    with pytest.raises(WorkloadError, match="has no pods"):
        retarget(rigid, POOL)
