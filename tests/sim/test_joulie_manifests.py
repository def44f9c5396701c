"""Manifests: valid YAML with the kinds, requests, replicas, affinities and gangs of the pods."""

import functools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.generators.generator import generate
from sim.generators.joulie.manifests import (
    ManifestStyle,
    quantity,
    render_manifests,
    write_manifests,
    yaml_text,
)
from sim.generators.joulie.parameters import JoulieParameters, model_of
from sim.model.errors import WorkloadError
from sim.model.pods import KINDS
from sim.model.tasks import Tasks, Term
from sim.model.workload import Workload

yaml = pytest.importorskip("yaml", reason="PyYAML, which reads manifests back, is not installed")


@functools.cache
def drawn() -> Workload:
    model = model_of(JoulieParameters(jobs=300, eco_ratio=0.2, amd_ratio=0.3))
    return generate(model, duration_s=86400, seed=4)


def documents(
    workload: Workload, row: int, style: ManifestStyle | None = None
) -> list[dict[str, Any]]:
    (text,) = render_manifests(workload, [row], style)
    return list(yaml.safe_load_all(text))


def first_of(kind: str) -> tuple[int, list[int]]:
    """Return a job of a family with several GPUs (if it may), and its tasks."""
    workload = drawn()
    assert workload.tasks is not None
    for row in np.flatnonzero(workload.group == KINDS.index(kind)).tolist():
        tasks = np.flatnonzero(workload.tasks.job == row).tolist()
        if len(tasks) > 2 or kind not in ("distributed_training", "parameter_server_training"):
            return row, tasks
    raise AssertionError(kind)


def pod_requests(tasks: Tasks, row: int) -> dict[str, str]:
    mcpu, gpus = int(tasks.mcpu[row]), int(tasks.mgpu[row]) // 1000
    made = {"cpu": str(mcpu // 1000) if mcpu % 1000 == 0 else f"{mcpu}m"}
    made["memory"] = f"{int(tasks.mem_bytes[row]) // 2**30}Gi"
    return {**made, tasks.gpu_resources[tasks.gpu_resource[row]]: str(gpus)} if gpus else made


@pytest.mark.parametrize(
    ("kind", "style", "expected"),
    [
        ("single_gpu_training", ManifestStyle(), ("kubeflow.org/v1", "PyTorchJob", "pytorch")),
        ("distributed_training", ManifestStyle(), ("kubeflow.org/v1", "PyTorchJob", "pytorch")),
        (
            "distributed_training",
            ManifestStyle(distributed="MPIJob"),
            ("kubeflow.org/v2beta1", "MPIJob", "mpi"),
        ),
        ("parameter_server_training", ManifestStyle(), ("kubeflow.org/v1", "TFJob", "tf")),
    ],
)
def test_kubeflow_jobs(kind: str, style: ManifestStyle, expected: tuple[str, str, str]) -> None:
    row, rows = first_of(kind)
    tasks = drawn().tasks
    assert tasks is not None
    (made,) = documents(drawn(), row, style)
    version, name, prefix = expected
    assert (made["apiVersion"], made["kind"]) == (version, name)
    replicas = made["spec"][f"{prefix}ReplicaSpecs"]
    heads = {"pytorch": "Master", "mpi": "Launcher", "tf": "PS"}
    assert set(replicas) <= {heads[prefix], "Worker"}
    assert sum(one["replicas"] for one in replicas.values()) == len(rows)
    head, last = replicas[heads[prefix]], rows[-1]
    limits = pod_requests(tasks, rows[0])
    template = head["template"]["spec"]
    assert template["containers"][0]["resources"]["requests"] == limits
    assert "restartPolicy" not in template
    policy = made["spec"]["runPolicy"].get("schedulingPolicy")
    if kind == "single_gpu_training":
        assert policy is None
        assert set(replicas) == {"Master"}
    else:
        assert policy == {"minAvailable": len(rows)}
        worker = replicas["Worker"]["template"]["spec"]["containers"][0]["resources"]
        assert worker["requests"] == pod_requests(tasks, last)
        gpu = tasks.gpu_resources[tasks.gpu_resource[last]]
        assert worker["limits"] == {gpu: "1"}
        assert "limits" not in template["containers"][0]["resources"]
    names = {"pytorch": "pytorch", "mpi": "mpi", "tf": "tensorflow"}
    assert template["containers"][0]["name"] == names[prefix]


def test_experiments_of_katib() -> None:
    row, rows = first_of("hpo_experiment")
    (made,) = documents(drawn(), row)
    assert (made["apiVersion"], made["kind"]) == ("kubeflow.org/v1beta1", "Experiment")
    spec = made["spec"]
    assert spec["parallelTrialCount"] == spec["maxTrialCount"] == len(rows) - 1
    template = spec["trialTemplate"]
    trial = template["trialSpec"]["spec"]["template"]["spec"]
    assert template["trialSpec"]["kind"] == "Job"
    assert trial["containers"][0]["name"] == template["primaryContainerName"]
    assert trial["restartPolicy"] == "Never"
    (parameter,) = template["trialParameters"]
    assert parameter["reference"] == spec["parameters"][0]["name"]
    assert f"${{trialParameters.{parameter['name']}}}" in trial["containers"][0]["command"][2]
    tasks = drawn().tasks
    assert tasks is not None
    largest = int(tasks.mem_bytes[rows[1:]].max()) // 2**30
    assert trial["containers"][0]["resources"]["requests"]["memory"] == f"{largest}Gi"


@pytest.mark.parametrize("kind", ["debug_eval", "cpu_preprocess", "cpu_analytics"])
def test_plain_jobs(kind: str) -> None:
    row, rows = first_of(kind)
    tasks = drawn().tasks
    assert tasks is not None
    (made,) = documents(drawn(), row)
    assert (made["apiVersion"], made["kind"]) == ("batch/v1", "Job")
    assert made["spec"]["completions"] == made["spec"]["parallelism"] == 1
    assert made["metadata"]["labels"]["workload-type"] == kind
    template = made["spec"]["template"]["spec"]
    assert template["containers"][0]["resources"]["requests"] == pod_requests(tasks, rows[0])
    notes = made["metadata"]["annotations"]
    work = tasks.work
    assert work is not None
    assert json.loads(notes["cpu-units"]) == work.cpu_units[rows].tolist()
    assert float(notes["duration-sec"]) == drawn().runtime_s[row]


def test_affinities_are_node_affinities() -> None:
    workload = drawn()
    tasks = workload.tasks
    assert tasks is not None
    eco = next(
        i for i, terms in enumerate(tasks.affinities) if terms[0].operator == "In"
    )  # power-profile In eco, draining NotIn true
    row = int(tasks.job[np.flatnonzero(tasks.demand == eco)[0]])
    text = "".join(render_manifests(workload, [row]))
    made = next(iter(yaml.safe_load_all(text)))
    found: list[Any] = []

    def search(value: Any) -> None:
        if isinstance(value, dict):
            for key, one in value.items():
                found.extend([one] if key == "nodeSelectorTerms" else [])
                search(one)
        elif isinstance(value, list):
            for one in value:
                search(one)

    search(made)
    assert found
    expected = [
        {"key": "joulie.io/power-profile", "operator": "In", "values": ["eco"]},
        {"key": "joulie.io/draining", "operator": "NotIn", "values": ["true"]},
    ]
    assert all(one == [{"matchExpressions": expected}] for one in found)


def test_many_jobs_are_written_into_one_file(tmp_path: Path) -> None:
    path = tmp_path / "all.yaml"
    style = ManifestStyle(namespace="lab", scheduler="volcano", image="site/image:1")
    assert write_manifests(drawn(), path, range(40), style) == 40
    made = list(yaml.safe_load_all(path.read_text()))
    assert len(made) == 40
    names = [one["metadata"]["name"] for one in made]
    assert len(set(names)) == 40
    assert names[0] == "workload-000001"
    assert {one["metadata"]["namespace"] for one in made} == {"lab"}
    assert path.read_text().count("schedulerName: volcano") >= 40


def pods(**columns: Any) -> Workload:
    tasks = Tasks.from_arrays(job=[0, 0], runtime_s=[60, 60], **columns)
    return Workload.from_arrays(submit_s=[0], runtime_s=[60], procs=[1], tasks=tasks)


def test_gangs_of_plain_jobs_are_pod_groups() -> None:
    made = documents(pods(instances=[3, 1], gang=[1, 1], mcpu=[1500, 0]), 0)
    assert [one["kind"] for one in made] == ["PodGroup", "Job", "Job"]
    assert made[0]["spec"] == {"minMember": 4}
    assert made[1]["spec"]["parallelism"] == 3
    name = made[0]["metadata"]["name"]
    for job in made[1:]:
        labels = job["spec"]["template"]["metadata"]["labels"]
        assert labels["scheduling.x-k8s.io/pod-group"] == name
    assert len({one["metadata"]["name"] for one in made[1:]}) == 2
    first = made[1]["spec"]["template"]["spec"]["containers"][0]
    assert first["resources"] == {"requests": {"cpu": "1500m"}}
    assert "resources" not in made[2]["spec"]["template"]["spec"]["containers"][0]


def test_labels_that_have_no_values() -> None:
    workload = pods(demand=[0, -1], affinities=[(Term("gpu", "Exists"),)])
    first, second = documents(workload, 0)
    affinity = first["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    (terms,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert terms == {"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}
    assert "affinity" not in second["spec"]["template"]["spec"]


def test_names_are_those_that_kubernetes_takes() -> None:
    workload = pods(texts={"workloadId": ["Überlauf_7/x " + "y" * 80] * 2})
    name = documents(workload, 0)[0]["metadata"]["name"]
    assert name.startswith("berlauf-7-x-y")
    assert len(name) <= 55


def test_what_cannot_be_rendered() -> None:
    with pytest.raises(WorkloadError, match=r"asks for 0.5 GPUs.*whole_gpus=True"):
        documents(pods(mgpu=[500, 0]), 0)
    style = ManifestStyle(whole_gpus=True)
    container = documents(pods(mgpu=[500, 0]), 0, style)[0]["spec"]["template"]["spec"]
    assert container["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "1"}
    bare = replace(drawn(), tasks=None)
    with pytest.raises(WorkloadError, match="have no tasks; manifests"):
        documents(bare, 0)
    with pytest.raises(WorkloadError, match="there is no job 300"):
        documents(drawn(), 300)
    with pytest.raises(WorkloadError, match="distributed is 'Horovod'"):
        ManifestStyle(distributed="Horovod")  # type: ignore[arg-type]
    with pytest.raises(WorkloadError, match="image is ''"):
        ManifestStyle(image="")


def test_quantities_are_exact() -> None:
    assert [quantity(n) for n in (2**31, 3 * 2**20, 1000)] == ["2Gi", "3Mi", "1000"]


values = st.recursive(
    st.text() | st.booleans() | st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=30)
@given(value=st.dictionaries(st.text(), values, max_size=4))
def test_yaml_says_what_it_was_given(value: dict[str, Any]) -> None:
    assert yaml.safe_load(yaml_text(value)) == value


@pytest.mark.parametrize("text", ["true", "No", "1", "1e3", "~", "", "a: b", "- x", "#", "0x1F"])
def test_texts_stay_texts(text: str) -> None:
    assert yaml.safe_load(yaml_text({"a": [text]})) == {"a": [text]}
