"""Joulie's JSONL: the page's records, round trips, bad lines."""

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sim.formats.joulie_reader import read_joulie
from sim.formats.joulie_writer import joulie_lines, write_joulie
from sim.generators.generator import generate, published_model
from sim.generators.joulie.parameters import HEAD
from sim.model.errors import TraceError
from sim.model.pods import EPOCH_UNIX_S, KINDS
from sim.model.tasks import SIGNALS, Tasks, Term
from sim.model.workload import Workload

LOGICAL = (
    '{"type":"workload","schemaVersion":"v2","workloadId":"workload-000001",'
    '"submitTimeOffsetSec":12.4,"namespace":"default","workloadType":"distributed_training",'
    '"gang":true,"durationSec":14400,"workloadClass":{"cpu":"cpu.mixed","gpu":"gpu.compute_bound"},'
    '"sharedIntensityProfile":{"cpuUtilization":0.28,"gpuUtilization":0.47,"memoryIntensity":0.58,'
    '"ioIntensity":0.08,"cpuFeedIntensityGpu":0.56},"pods":[{"role":"launcher","replicas":1,'
    '"requests":{"cpu":"2","memory":"4Gi"},"gang":true},{"role":"worker","replicas":4,'
    '"requests":{"cpu":"4","memory":"12Gi","nvidia.com/gpu":"1"},"gang":true}]}'
)
POD = (
    '{"type":"job","schemaVersion":"v2","jobId":"workload-000001-worker-01",'
    '"workloadId":"workload-000001","workloadType":"distributed_training","podRole":"worker",'
    '"gang":true,"submitTimeOffsetSec":12.4,"namespace":"default","podTemplate":{"requests":'
    '{"cpu":"4","memory":"12Gi","nvidia.com/gpu":"1"}},"work":{"cpuUnits":1024,"gpuUnits":6800},'
    '"sensitivity":{"cpu":0.65,"gpu":0.90},"workloadClass":{"cpu":"cpu.mixed",'
    '"gpu":"gpu.compute_bound"},"workloadProfile":{"cpuUtilization":0.28,"gpuUtilization":0.47,'
    '"memoryIntensity":0.58,"ioIntensity":0.08,"cpuFeedIntensityGpu":0.56}}'
)
"""The two records of Joulie's page."""


def written(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines) + "\n")
    return path


def pods(workload: Workload) -> Tasks:
    assert workload.tasks is not None
    return workload.tasks


def records(workload: Workload) -> list[Any]:
    return [json.loads(line) for line in joulie_lines(workload)]


def pod(**changed: object) -> str:
    """Return the page's pod with other values; None leaves a field out."""
    told = json.loads(POD) | changed
    return json.dumps({key: value for key, value in told.items() if value is not None})


def test_the_pages_records_are_read_field_by_field(tmp_path: Path) -> None:
    workload = read_joulie(written(tmp_path / "page.jsonl", LOGICAL, POD))
    tasks = pods(workload)
    work = tasks.work
    assert work is not None
    assert (workload.n_jobs, tasks.n_tasks) == (1, 1)
    assert workload.runtime_s.tolist() == [14400]
    assert workload.requested_is_runtime
    assert workload.start_unix_s == EPOCH_UNIX_S + 12.4
    assert KINDS[workload.group[0]] == KINDS[workload.queue[0]] == "distributed_training"
    assert workload.procs.tolist() == [4]
    assert workload.mem_bytes_per_proc.tolist() == [3 * 2**30]
    assert tasks.demands.tolist() == [[4000, 12 * 2**30, 0, 1000]]
    assert (tasks.roles, tasks.gpu_resources) == (("worker",), ("nvidia.com/gpu",))
    assert tasks.gang.tolist() == [1]
    assert (work.cpu_units.tolist(), work.gpu_units.tolist()) == ([1024], [6800])
    assert (work.cpu_sensitivity.tolist(), work.gpu_sensitivity.tolist()) == ([0.65], [0.9])
    assert work.classes[work.cpu_class[0]] == "cpu.mixed"
    assert work.classes[work.gpu_class[0]] == "gpu.compute_bound"
    assert dict(zip(SIGNALS, work.profile[0].tolist(), strict=True)) == {
        "cpu_utilisation": 0.28, "gpu_utilisation": 0.47, "memory_intensity": 0.58,
        "io_intensity": 0.08, "cpu_feed_intensity": 0.56,
    }  # fmt: skip


@pytest.mark.parametrize("lines", [(LOGICAL, POD), (POD,), (POD, LOGICAL)])
def test_the_pages_records_are_written_as_they_were(lines: tuple[str, ...], tmp_path: Path) -> None:
    workload = read_joulie(written(tmp_path / "page.jsonl", *lines))
    assert records(workload) == [json.loads(line) for line in sorted(lines, reverse=True)]
    write_joulie(workload, tmp_path / "again.jsonl")
    assert read_joulie(tmp_path / "again.jsonl") == workload


def test_a_pod_without_its_workloads_record_runs_until_its_work_is_done(tmp_path: Path) -> None:
    workload = read_joulie(written(tmp_path / "page.jsonl", POD))
    assert workload.runtime_s.tolist() == [round(6800 / 0.47, 3)]
    assert "duration_missing" in {note.rule for note in workload.notes}


@pytest.mark.parametrize(
    "told",
    [
        {},
        dict(HEAD),
        {"emit_workload_records": False, "namespace": "team-a"},
        {"amd_ratio": 0.5, "eco_ratio": 0.4, "least_workers": 2, "hpo_max_trials": 9},
        {"mean_inter_arrival_sec": 0.01},
    ],
)
def test_what_is_generated_survives_the_file(told: dict[str, Any], tmp_path: Path) -> None:
    model = published_model("joulie").with_parameters({"jobs": 120} | told)
    drawn = generate(model, duration_s=9e4, seed=11)
    for name in ("first.jsonl", "packed.jsonl.gz"):
        write_joulie(drawn, tmp_path / name)
    back = read_joulie(tmp_path / "first.jsonl")
    if told.get("emit_workload_records", True):
        assert back == drawn
        assert back.start_unix_s == drawn.start_unix_s
    else:
        assert np.abs(back.runtime_s / drawn.runtime_s - 1).max() < 1e-3
    write_joulie(back, tmp_path / "again.jsonl")
    first = (tmp_path / "first.jsonl").read_bytes()
    assert first == (tmp_path / "again.jsonl").read_bytes()
    assert first == gzip.decompress((tmp_path / "packed.jsonl.gz").read_bytes())
    assert read_joulie(tmp_path / "packed.jsonl.gz") == back


def test_what_others_wrote_otherwise_comes_back_as_it_was(tmp_path: Path) -> None:
    template = {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [
                {"key": "zone", "operator": "NotIn", "values": ["a", "b"]},
                {"key": "gpu", "operator": "Exists"},
            ]}]}}},
        "requests": {"memory": "1500Mi", "cpu": "250m", "amd.com/gpu": "2"},
    }  # fmt: skip
    one = pod(
        jobId="my pod", workloadId="träining", workloadType="inference", podRole="Main_Pod",
        submitTimeOffsetSec=0.1 + 0.2, namespace="x", podTemplate=template, intentClass="eco",
        tags=["ai", "ü"],
    )  # fmt: skip
    two = pod(jobId="other", workloadId="träining-2", submitTimeOffsetSec=7.25)
    workload = read_joulie(written(tmp_path / "log.jsonl", one, two))
    assert records(workload) == [json.loads(one), json.loads(two)]
    tasks = pods(workload)
    assert tasks.demands[0].tolist() == [250, 1500 * 2**20, 0, 2000]
    assert tasks.affinities[0] == (Term("zone", "NotIn", ("a", "b")), Term("gpu", "Exists"))
    write_joulie(workload, tmp_path / "again.jsonl")
    assert read_joulie(tmp_path / "again.jsonl") == workload


def test_kept_texts_do_not_outlive_what_they_say(tmp_path: Path) -> None:
    lines = [pod(jobId=f"p{i}", workloadId=f"w{i}", submitTimeOffsetSec=i / 3) for i in range(1, 5)]
    workload = read_joulie(written(tmp_path / "log.jsonl", *lines))
    assert [one["submitTimeOffsetSec"] for one in records(workload)] == [i / 3 for i in range(1, 5)]
    later = workload.part(2, 4)
    offsets = [one["submitTimeOffsetSec"] for one in records(later)]
    assert offsets == pytest.approx([1, 4 / 3], abs=1e-6)
    assert [one["workloadId"] for one in records(later)] == ["w3", "w4"]


def test_version_1_is_a_pod_of_its_own(tmp_path: Path) -> None:
    line = json.dumps({
        "jobId": "job-7", "submitTimeOffsetSec": 3.5, "namespace": "default",
        "podTemplate": {"requests": {"cpu": "1.50", "memory": "2Gi"}},
        "work": {"cpuUnits": 30, "gpuUnits": 0},
    })  # fmt: skip
    workload = read_joulie(written(tmp_path / "v1.jsonl", line))
    assert workload.runtime_s.tolist() == [20]
    assert {"version_1", "duration_missing"} <= {note.rule for note in workload.notes}
    (record,) = records(workload)
    assert (record["schemaVersion"], record["type"]) == ("v2", "job")
    assert (record["jobId"], record["workloadId"]) == ("job-7", "job-7")
    assert record["podTemplate"]["requests"] == {"cpu": "1.50", "memory": "2Gi"}


def test_jobs_are_sorted_and_idle_workloads_left_out(tmp_path: Path) -> None:
    idle = json.dumps(json.loads(LOGICAL) | {"workloadId": "workload-000009"})
    early = pod(jobId="e", workloadId="workload-000003", submitTimeOffsetSec=1)
    workload = read_joulie(written(tmp_path / "log.jsonl", POD, idle, "", early, LOGICAL))
    assert workload.job_id.tolist() == [3, 1]
    assert workload.submit_s.tolist() == [0, 11.4]
    assert {"no_pods", "unsorted", "duration_missing"} <= {note.rule for note in workload.notes}


def test_a_log_of_rigid_jobs_becomes_pods(tmp_path: Path) -> None:
    log = Workload.from_arrays(
        submit_s=[0, 60], runtime_s=[100, 7], procs=[4, 1], start_unix_s=1400000000,
        mem_bytes_per_proc=[2**30, -1], group=[5, 0], job_id=[8, 4],
    )  # fmt: skip
    write_joulie(log, tmp_path / "log.jsonl")
    back = read_joulie(tmp_path / "log.jsonl")
    assert back.submit_s.tolist() == [0, 60]
    assert back.runtime_s.tolist() == [100, 7]
    assert back.procs.tolist() == [4, 1]
    assert back.job_id.tolist() == [8, 4]
    assert back.mem_bytes_per_proc.tolist() == [2**30, 0]
    assert records(back)[0]["submitTimeOffsetSec"] == 1400000000 % 86400
    assert "workloadType" not in records(log)[0]


def test_unknown_fields_are_refused_or_dropped(tmp_path: Path) -> None:
    path = written(tmp_path / "log.jsonl", pod(colour="red"))
    with pytest.raises(TraceError, match=r"line 1: colour is '\"?red\"?'; unknown field"):
        read_joulie(path)
    workload = read_joulie(path, unknown_fields="drop")
    assert {"unknown_fields"} <= {note.rule for note in workload.notes}
    assert records(workload) == [json.loads(POD)]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "this line is not JSON"),
        ("[1]", "this line is not a JSON object"),
        (POD.replace("1024", "NaN"), "NaN is not a JSON number"),
        (pod(type="node"), "type is 'node'; allowed are job and workload."),
        (pod(schemaVersion="v3"), "schemaVersion is 'v3'; allowed are v1 and v2."),
        (pod(jobId=None), "jobId is ''; allowed are texts of 1 to 1024"),
        (pod(jobId=5), "jobId is '5'; allowed are texts"),
        (pod(submitTimeOffsetSec=None), "submitTimeOffsetSec is 'null'; allowed are numbers"),
        (pod(submitTimeOffsetSec=-1), "submitTimeOffsetSec is '-1'; allowed are numbers from 0"),
        (pod(submitTimeOffsetSec=True), "submitTimeOffsetSec is 'true'"),
        (pod(submitTimeOffsetSec=10**400), "submitTimeOffsetSec is '1000"),
        (pod(gang=1), "gang is '1'; allowed are true and false."),
        (pod(work=None), "work is 'null'; it must be a table of cpuUnits, gpuUnits."),
        (pod(work={"cpuUnits": "3"}), "work.cpuUnits is '3'; allowed are numbers from 0 to 2**53."),
        (pod(work={"cpuUnits": 1, "tpu": 2}), "work.tpu is '2'; unknown field"),
        (pod(sensitivity={"gpu": 1.5}), "sensitivity.gpu is '1.5'; allowed are numbers"),
        (pod(workloadProfile={"ioIntensity": -0.1}), "workloadProfile.ioIntensity is '-0.1'"),
        (pod(podTemplate={}), "podTemplate.requests is 'null'"),
        (pod(podTemplate={"requests": {"cpu": 4}}), "podTemplate.requests.cpu is '4'; allowed are"),
        (pod(podTemplate={"requests": {"cpu": "-4"}}), "requests.cpu is '-4'"),
        (pod(podTemplate={"requests": {"cpu": "0.0001"}}), "of whole thousandths"),
        (pod(podTemplate={"requests": {"memory": "5m"}}), "of whole bytes"),
        (pod(podTemplate={"requests": {"a/x": "1", "b/y": "1"}}), "one resource such as nvidia"),
        (pod(podTemplate={"requests": {}, "affinity": {"podAffinity": {}}}), "use nodeAffinity"),
        (pod(tags="ai"), "tags is 'ai'; allowed are lists"),
        (LOGICAL.replace('"replicas":4', '"replicas":0'), "pods[1].replicas is '0'"),
        (LOGICAL.replace('"durationSec":14400,', ""), "durationSec is 'null'"),
        (LOGICAL.replace('"gang":true}]', '"gang":true,"x":1}]'), "pods[1].x is '1'"),
    ],
)  # fmt: skip
def test_bad_lines_are_refused_in_words(line: str, said: str, tmp_path: Path) -> None:
    path = written(tmp_path / "log.jsonl", pod(jobId="good"), line)
    with pytest.raises(TraceError) as refused:
        read_joulie(path)
    assert said in str(refused.value)
    assert f"{path}, line 2: " in str(refused.value)


def test_records_that_contradict_each_other(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    for lines, said in (
        ((POD, POD), "line 2: jobId is 'workload-000001-worker-01'; names of pods must be unique."),
        ((POD, pod(jobId="b", submitTimeOffsetSec=9)), "the workload's first pod, in line 1, has"),
        (
            (POD, pod(jobId="b", namespace="x")),
            "line 2: namespace is 'x'; the workload's",
        ),
        ((POD, pod(jobId="b", workloadType="x")), "line 2: workloadType is 'x'; the workload's"),
        ((LOGICAL.replace("12.4", "13"), POD), "line 1: submitTimeOffsetSec is '13.0'; its pods"),
        (
            (LOGICAL, LOGICAL, POD),
            "line 2: workloadId is 'workload-000001'; only one record per",
        ),
        ((LOGICAL,), "it contains no pods"),
        (("",), "it contains no pods"),
    ):
        with pytest.raises(TraceError) as refused:
            read_joulie(written(path, *lines))
        assert said in str(refused.value)


def test_files_that_are_no_trace(tmp_path: Path) -> None:
    def refused(data: bytes) -> str:
        path = tmp_path / "log.jsonl"
        path.write_bytes(data)
        with pytest.raises(TraceError) as error:
            read_joulie(path)
        return str(error.value)

    assert "binary file; a Joulie trace is text" in refused(b"a\0b")
    assert "a zip archive" in refused(b"PK\x03\x04")
    assert "longer than 1,048,576 bytes" in refused(b"x" * (2**20 + 2))
    assert "the compressed file is broken" in refused(gzip.compress(POD.encode())[:-9])
    assert "the text is too long" in refused(gzip.compress((b" " * 999 + b"\n") * 20_000))
    assert "not JSON" in refused(b"\xff\xfa")
    with pytest.raises(TraceError, match="no such file; give the path of a Joulie trace"):
        read_joulie(tmp_path / "none.jsonl")
    with pytest.raises(TraceError, match="this is a folder"):
        read_joulie(tmp_path)
