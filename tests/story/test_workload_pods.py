"""``copperline workload manifests | retarget | calibrate | bundle``: traces of pods."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from sim.api import Workload, load_workload, write_workload
from sim.generators import generate, load_model, published_model, save_model

Told = Callable[..., tuple[int, str, str]]


@pytest.fixture
def pods(tmp_path: Path) -> Workload:
    drawn = generate(published_model("joulie"), duration_s=2 * 3600.0, seed=3, scale=0.2)
    write_workload(drawn, tmp_path / "pods.jsonl")
    save_model(published_model("joulie"), tmp_path / "model.json")
    return drawn


def test_manifests_are_of_as_many_workloads_as_asked_for(say: Told, pods: Workload) -> None:
    code, out, _ = say("manifests", "pods.jsonl", "--to", "a.yaml", "--first", "12", "--json")
    assert (code, json.loads(out)["n_jobs"]) == (0, 12)
    text = Path("a.yaml").read_text()
    assert "apiVersion:" in text or '"apiVersion"' in text
    assert say("manifests", "pods.jsonl", "--to", "b.yaml", "--image", "my/image:1")[0] == 0
    assert "my/image:1" in Path("b.yaml").read_text()
    assert len(Path("b.yaml").read_text()) > len(text)


def test_pods_are_told_where_they_may_run_and_stay_as_they_are(say: Told, pods: Workload) -> None:
    nodes = ("--node", "NVIDIA-H100=nvidia.com/gpu,zone=a", "--node", "plain")
    code, out, _ = say("retarget", "pods.jsonl", "mine.jsonl", *nodes, "--by-family", "--json")
    assert code == 0
    assert json.loads(out)["n_jobs"] == pods.n_jobs
    mine = load_workload("mine.jsonl")
    assert mine.runtime_s.tolist() == load_workload("pods.jsonl").runtime_s.tolist()
    assert '"zone"' in Path("mine.jsonl").read_text()
    assert "NVIDIA-H100" in Path("mine.jsonl").read_text()
    assert say("retarget", "mine.jsonl", "again.jsonl", *nodes, "--by-family")[0] == 0
    assert Path("again.jsonl").read_bytes() == Path("mine.jsonl").read_bytes()


def test_a_bundle_goes_out_and_comes_in(say: Told, pods: Workload) -> None:
    changed = published_model("joulie").with_parameters({"gpu_ratio": 0.25})
    save_model(changed, Path("changed.json"))
    assert say("bundle", "export", "changed.json", "bundle.json", "--only-changed")[0] == 0
    assert say("bundle", "import", "bundle.json", "back.json")[0] == 0
    assert load_model(Path("back.json")) == changed


def test_measurements_change_a_model(say: Told, pods: Workload) -> None:
    records = [json.loads(line) for line in Path("pods.jsonl").read_text().splitlines()]
    names = [one["jobId"] for one in records if one["type"] == "job"]
    rows = "".join(f"{name},0,{100 + i},0.9\n" for i, name in enumerate(names))
    Path("told.csv").write_text(f"jobId,start,end,cpuUtilization\n{rows}")
    code, out, err = say(
        "calibrate", "model.json", "pods.jsonl", "told.csv", "--to", "better.json", "--json"
    )
    assert code == 0, err
    changes = json.loads(out)["changes"]
    assert changes
    assert load_model(Path("better.json")) != published_model("joulie")
    utilised = [one for one in changes if "cpu_utilisation" in one["parameter"]]
    assert utilised
    assert all(one["after"] == pytest.approx(0.9, abs=0.02) for one in utilised)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("manifests", "none.jsonl", "--to", "a.yaml"), "none.jsonl"),
        (("manifests", "pods.jsonl", "--to", "no/a.yaml"), "folder is missing, or it is a folder"),
        (("manifests", "pods.jsonl", "--to", "a.yaml", "--image", "a b"), "name of a container"),
        (("retarget", "pods.jsonl", "a.jsonl"), "name machines: --node"),
        (("retarget", "pods.jsonl", "a.jsonl", "--node", "=x"), "FAMILY=RESOURCE,LABEL=VALUE"),
        (("retarget", "pods.jsonl", "a.jsonl", "--node", "a=b,c"), "FAMILY=RESOURCE,LABEL=VALUE"),
        (("retarget", "pods.jsonl", "a.csv", "--node", "a"), "allowed are .jsonl"),
        (("calibrate", "model.json", "pods.jsonl", "no.csv", "--to", "b.json"), "no.csv"),
        (("calibrate", "model.json", "pods.jsonl", "no.csv", "--to", "b.txt"), "ends in .json"),
        (("bundle", "sell", "model.json", "b.json"), "allowed are export and import"),
        (("bundle", "import", "model.json", "b.json"), "model.json"),
    ],
)
def test_what_cannot_be_is_one_sentence_and_writes_nothing(
    say: Told, pods: Workload, tmp_path: Path, arguments: tuple[str, ...], words: str
) -> None:
    before = sorted(tmp_path.iterdir())
    code, out, err = say(*arguments)
    assert (code, out) == (2, ""), err
    assert words in " ".join(err.split())
    assert sorted(tmp_path.iterdir()) == before
