"""``copperline workload fit | generate | convert | validate``: workloads of one's own making."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sim.api import Workload, load_workload, write_workload
from sim.generators import generate, published_model

Told = Callable[..., tuple[int, str, str]]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    drawn = generate(published_model("lublin"), duration_s=15 * 86_400.0, seed=11)
    write_workload(drawn, tmp_path / "log.swf")
    return tmp_path / "log.swf"


def told(say: Told, *arguments: str | Path) -> dict[str, object]:
    code, out, err = say(*arguments, "--json")
    assert code == 0, err
    found: dict[str, object] = json.loads(out)
    return found


def test_a_log_becomes_a_model_a_future_and_a_verdict(say: Told, log: Path) -> None:
    fitted = told(say, "fit", "resampling", log, "--to", "m.json", "--knob", "same_weekday=0")
    assert fitted["generator"] == "resampling"
    assert fitted["parameters"]["same_weekday"] == 0  # type: ignore[index]
    code, out, _ = say("describe", "m.json")
    assert (code, out.splitlines()[0]) == (0, "a model of 'resampling'")
    assert told(say, "describe", "m.json")["model"] == {
        name: value for name, value in fitted.items() if name != "file"
    }
    drawn = told(say, "generate", "m.json", "--duration", "12d", "--seed", "5", "--to", "g.swf")
    assert drawn["n_jobs"] == load_workload("g.swf").n_jobs
    assert load_workload("g.swf").digest == drawn["digest"]
    found = told(say, "validate", log, "g.swf")
    assert found["judged"] >= 20  # type: ignore[operator]
    assert found["differ"] <= 4, "a future of the log's own days is like it"  # type: ignore[operator]
    code, out, _ = say("validate", log, "g.swf")
    assert code == 0
    assert f"{found['differ']} of {found['judged']} figures differ" in out
    assert "ks: Kolmogorov-Smirnov: " in out


def test_a_quality_is_called_by_its_name(say: Told, tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    n = 300
    users = Workload.from_arrays(
        submit_s=np.sort(rng.uniform(0, 5 * 86_400.0, n)),
        runtime_s=rng.choice([20.0, 300.0, 4000.0], n),
        procs=rng.choice([1, 4], n),
        requested_s=np.full(n, 7200.0),
        user=rng.integers(0, 5, n),
        name="users",
        start_unix_s=0.0,
        time_zone="UTC",
    )
    write_workload(users, tmp_path / "users.swf")
    fitted = told(
        say, "fit", "three_stage", tmp_path / "users.swf", "--to", "m.json",
        "--knob", "quality=mix", "--knob", "penalty=0.1",
    )  # fmt: skip
    assert fitted["parameters"]["quality"] == "mix"  # type: ignore[index]
    drawn = told(say, "generate", "m.json", "--duration", "2d", "--to", "g.swf")
    assert drawn["n_jobs"] == load_workload("g.swf").n_jobs


def test_another_kind_of_workload_is_told_from_the_log(say: Told, log: Path) -> None:
    options = ("--duration", "12d", "--set", "types=interactive", "--scale", "3")
    assert say("generate", "lublin", *options, "--to", "g.swf")[0] == 0
    found = told(say, "validate", log, "g.swf")
    verdicts = {(d["column"], d["metric"]): d["verdict"] for d in found["distances"]}  # type: ignore[attr-defined]
    assert verdicts["interarrival_s", "ks"] == verdicts["runtime_s", "ks"] == "differs"
    assert "Distances above this variation: time between" in say("validate", log, "g.swf")[1]


def test_the_same_seed_gives_the_same_file(say: Told, tmp_path: Path) -> None:
    for name, seed in (("a", "4"), ("b", "4"), ("c", "5")):
        assert say("generate", "lublin", "--seed", seed, "--to", f"{name}.swf.gz")[0] == 0
    a, b, c = (load_workload(f"{name}.swf.gz") for name in "abc")
    assert a == b
    assert a != c


def test_scale_and_settings_reach_the_draw(say: Told) -> None:
    once = told(say, "generate", "lublin", "--to", "a.swf")
    thrice = told(say, "generate", "lublin", "--scale", "3", "--to", "a.swf")
    assert 2.2 < thrice["n_jobs"] / once["n_jobs"] < 3.8  # type: ignore[operator]
    settings = ("--set", "types=batch", "--set", "batch.serial_prob=0", "--set", "batch.u_low=1")
    assert say("generate", "lublin", *settings, "--to", "a.swf")[0] == 0
    assert (load_workload("a.swf").procs > 1).all()


def test_the_ending_is_chosen_by_what_is_in_it(say: Told, tmp_path: Path) -> None:
    assert told(say, "generate", "lublin", "--to", "a")["file"] == "a.swf"
    options = ("--duration", "2h", "--scale", "0.1")
    drawn = told(say, "generate", "joulie", *options, "--to", "pods")
    assert drawn["file"] == "pods.jsonl"
    assert drawn["not_written"] == []
    found = load_workload("pods.jsonl")
    assert found.tasks is not None
    assert found.tasks.n_tasks == drawn["n_tasks"]
    swf = told(say, "generate", "joulie", *options, "--to", "jobs.swf")
    assert "tasks of the jobs are not in the file" in swf["not_written"][0]  # type: ignore[index]
    assert "take" in say("describe", "pods.jsonl")[1]


def test_converting_says_what_is_lost(say: Told, log: Path) -> None:
    code, out, _ = say("convert", log, "b.swf.gz")
    assert (code, out.splitlines()[1]) == (0, "  nothing is lost: the file reads back unchanged")
    assert load_workload("b.swf.gz") == load_workload(log)
    options = ("--duration", "2h", "--scale", "0.1")
    say("generate", "joulie", *options, "--to", "pods.jsonl")
    assert told(say, "convert", "pods.jsonl", "again.jsonl")["lost"] == []
    assert Path("again.jsonl").read_bytes() == Path("pods.jsonl").read_bytes()
    assert "lost: tasks: the " in say("convert", "pods.jsonl", "jobs.swf")[1]
    lost = told(say, "convert", log, "jobs.jsonl")["lost"]
    assert any(sentence.startswith("requested_s: ") for sentence in lost)  # type: ignore[attr-defined]


def test_weeks_are_held_back(say: Told, log: Path) -> None:
    early = told(say, "convert", log, "early.swf", "--until", "8d")
    late = told(say, "convert", log, "late.swf", "--from", "8d")
    whole = load_workload(log)
    assert early["n_jobs"] + late["n_jobs"] == whole.n_jobs  # type: ignore[operator]
    assert load_workload("late.swf").start_unix_s > whole.start_unix_s  # type: ignore[operator]
    part = told(say, "fit", "resampling", log, "--to", "m.json", "--until", "8d")
    assert f"{early['n_jobs']:,}" in part["source"] or str(early["n_jobs"]) in part["source"]  # type: ignore[operator]
    assert told(say, "validate", "early.swf", "late.swf", "--procs", "64")["procs"] == 64


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("generate", "lubli", "--to", "g.swf"), "no generator 'lubli'; did you mean 'lublin'?"),
        (("generate", "resampling", "--to", "g.swf"), "fit it to a workload first"),
        (("generate", "none.json", "--to", "g.swf"), "none.json: it cannot be read"),
        (("generate", "log.swf", "--to", "g.swf"), "log.swf: it is not JSON"),
        (
            ("generate", "lublin", "--to", "g.txt"),
            ".tasks.csv.gz, .swf, .swf.gz",
        ),
        (("generate", "lublin", "--to", "no/g.swf"), "its folder is missing, or it is a folder"),
        (
            ("generate", "lublin", "--set", "types", "--to", "g.swf"),
            "is not of the form name=value",
        ),
        (("generate", "lublin", "--set", "typ=1", "--to", "g.swf"), "has no parameter 'typ'"),
        (("generate", "lublin", "--set", "batch.x=1", "--to", "g.swf"), "has no entry 'x'"),
        (("generate", "lublin", "--set", "a=1", "--set", "a=2", "--to", "g.swf"), "'a' twice"),
        (("generate", "lublin", "--set", "types=NaN", "--to", "g.swf"), "types"),
        (("generate", "lublin", "--duration", "soon", "--to", "g.swf"), "is not a duration"),
        (("generate", "lublin", "--duration", "0s", "--to", "g.swf"), "finite numbers above 0"),
        (("generate", "lublin", "--scale", "-1", "--to", "g.swf"), "scale is -1"),
        (("generate", "lublin", "--scale", "nan", "--to", "g.swf"), "scale is nan"),
        (("generate", "lublin", "--seed", "-1", "--to", "g.swf"), "whole numbers from 0"),
        (("generate", "lublin", "--duration", "1s", "--to", "g.swf"), "longer duration"),
        (("generate", "lublin", "--duration", "90000d", "--scale", "1e6", "--to", "g.swf"), "jobs"),
        (("fit", "lublin", "log.swf", "--to", "m.txt"), "the name of a model file ends in .json"),
        (("fit", "lublin", "none.swf", "--to", "m.json"), "there is no such file"),
        (("fit", "lublin", "log.swf", "--to", "m.json", "--knob", "x=1"), "no knob of fitting"),
        (("fit", "lublin", "log.swf", "--to", "m.json", "--knob", "x=[1]"), "numbers and names"),
        (
            ("fit", "three_stage", "log.swf", "--to", "m.json", "--knob", "quality=best"),
            "option 'quality' of fitting 'three_stage' is 'best'; allowed are tables, mix, trees",
        ),
        (("fit", "lublin", "log.swf", "--to", "m.json", "--until", "0s"), "no job of log is left"),
        (("convert", "log.swf", "out.csv"), ".tasks.csv.gz, .swf, .swf.gz"),
        (("convert", "none.swf", "out.swf"), "there is no such file"),
        (("validate", "log.swf", "none.swf"), "there is no such file"),
        (("validate", "log.swf", "log.swf", "--procs", "0"), "--procs is 0"),
    ],
)
def test_what_cannot_be_is_one_sentence_and_writes_nothing(
    say: Told, log: Path, arguments: tuple[str, ...], words: str
) -> None:
    before = sorted(log.parent.iterdir())
    code, out, err = say(*arguments)
    assert (code, out) == (2, ""), err
    assert words in " ".join(err.split())
    assert sorted(log.parent.iterdir()) == before


def test_a_file_that_is_there_stays_if_the_draw_fails(say: Told, log: Path) -> None:
    kept = log.read_bytes()
    assert say("generate", "lublin", "--duration", "1s", "--to", "log.swf")[0] == 2
    assert log.read_bytes() == kept
