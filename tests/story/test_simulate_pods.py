"""``copperline simulate TRACE --machines FILE``: pods on machines, from the command line."""

import csv
import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from sim.api import (
    ClusterSpec,
    MachineSpec,
    Partition,
    Scenario,
    load_workload,
    simulate,
    summarise_instances,
    write_workload,
)
from sim.generators import generate, published_model

Cli = Callable[..., tuple[int, str, str]]

PODS = """\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
p0,2000,1024,1,1000,T4,LS,Running,0,100,0
p1,1000,1024,0,0,,LS,Running,10,60,10
p2,1000,1024,1,500,T4,LS,Running,20,50,20
p3,1000,1024,0,0,,LS,Running,30,70,30
"""
NODES = "sn,cpu_milli,memory_mib,gpu,model\na,2000,4096,1,T4\nb,4000,4096,0,\n"


@pytest.fixture
def cli(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Cli:
    monkeypatch.setenv("COLUMNS", "200")
    Path("pods.csv").write_text(PODS)
    Path("nodes.csv").write_text(NODES)
    return lambda *arguments: cli("simulate", *arguments, "--engine", "interpreted")


def jobs() -> list[tuple[float, float, str]]:
    with Path("jobs.csv").open() as file:
        return [
            (float(row["start_s"]), float(row["end_s"]), row["machines"])
            for row in csv.DictReader(file)
        ]


def test_pods_wait_for_a_machine_that_has_what_they_ask(cli: Cli) -> None:
    placed = ("pods.csv", "--machines", "nodes.csv", "--per-job", "jobs.csv", "--json")
    code, out, err = cli(*placed)
    assert (code, err) == (0, "")
    # p2 asks for a share of a T4, which p0 has for itself until 100; p3 stands behind it
    assert jobs() == [(0, 100, "a"), (10, 60, "b"), (100, 130, "a"), (100, 140, "a")]
    told = json.loads(out)
    assert told["wait"]["mean"] == (0 + 0 + 80 + 70) / 4
    assert told["makespan_s"] == 140
    assert told["allocation"]["gpu"] == pytest.approx((1.0 * 100 + 0.5 * 30) / 140)
    assert told["allocation"]["cpu"] == pytest.approx((2 * 100 + 50 + 30 + 40) / (6 * 140))
    assert cli(*placed, "--backfill", "greedy")[0] == 0
    assert jobs() == [(0, 100, "a"), (10, 60, "b"), (100, 130, "a"), (30, 70, "b")]
    assert cli(*placed, "--throttle", "a:0:50:gpu=0.5:cpu=0.9")[0] == 0
    assert jobs()[0] == (0, 125, "a"), "half speed for 50 s leaves 75 s of 100 to do"


def test_what_it_was_like_is_printed(cli: Cli) -> None:
    code, out, _ = cli("pods.csv", "--machines", "nodes.csv", "--backfill", "greedy")
    assert code == 0
    assert "4 jobs, 4 pods on 2 machines, fcfs, backfill greedy, placement first_fit" in out
    assert "allocation: cpu 0.4103, memory" in out
    assert "gpu 0.8846" in out
    assert "makespan 130 s (2 min 10 s); 0 rejected" in out


def test_a_trace_of_a_generator_is_placed_as_in_python(cli: Cli) -> None:
    drawn = generate(published_model("joulie"), duration_s=3600.0, seed=3, scale=0.2)
    write_workload(drawn, Path("pods.jsonl"))
    Path("m.toml").write_text('[[machine]]\nname = "m"\ncount = 9\ncores = 64\ngpus = 8\n')
    told = ("--option", "all_or_nothing=1", "--backfill", "greedy", "--too-wide", "reject")
    code, out, err = cli("pods.jsonl", "--machines", "m.toml", *told, "--json")
    assert code == 0, err
    cluster = ClusterSpec.of([Partition.of_machines("main", [MachineSpec("m", 64, 9, gpus=8)])])
    scenario = Scenario(
        load_workload("pods.jsonl"), cluster, backfill="greedy", allocation="instances",
        options={"all_or_nothing": 1.0}, too_wide="reject",
    )  # fmt: skip
    metrics = summarise_instances(scenario, simulate(scenario, engine="interpreted"))
    found = json.loads(out)
    assert found["scenario"] == scenario.digest
    assert found["utilisation"] == metrics.utilisation
    assert found["utilisation"]["gpu"] > 0
    assert found["n_rejected"] == metrics.n_rejected < metrics.n_jobs


def test_without_machines_pods_are_rigid_jobs_and_it_says_so(cli: Cli) -> None:
    code, _, err = cli("pods.csv", "--procs", "8")
    assert code == 0
    assert "note: each job is rigid and takes all its processors at once; to place its pods" in err
    told = json.loads(cli("pods.csv", "--procs", "8", "--json")[1])
    assert "--machines FILE" in told["note"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--procs", "8"], "--procs is not for pods on machines"),
        (["--window", "main:4:1h:2h"], "--window is not for pods on machines"),
        (["--explain", "1"], "--explain is not for pods on machines"),
        (["--overrun", "kill"], "--overrun is not for pods on machines"),
        (["--backfill", "easy"], "cannot decide with allocation='instances'; choose one"),
        (["--order", "wfp3"], "needs fixed scores"),
        (["--placement", "best"], "no placement 'best'"),
        (["--throttle", "a:1h"], "--throttle 'a:1h' is not of the form MACHINE"),
        (["--throttle", "a:1h:2h"], "is not of the form MACHINE"),
        (["--throttle", "z:1h:2h:cpu=0.5"], "the cluster has no machine 'z'"),
        (["--throttle", "a:1h:2h:cpu=2"], "allowed are numbers above 0 and at most 1"),
        (["--machines", "none.csv"], "there is no such file"),
    ],
)
def test_what_cannot_be_is_said(cli: Cli, options: list[str], sentence: str) -> None:
    code, _, err = cli("pods.csv", "--machines", "nodes.csv", *options)
    assert code == 2
    assert sentence in " ".join(err.split())


def test_options_of_placing_need_machines_and_machines_need_pods(cli: Cli) -> None:
    assert "--throttle is for pods on machines" in cli("pods.csv", "--throttle", "a:0:1:cpu=1")[2]
    Path("log.swf").write_text("1 0 -1 100 4 -1 -1 4 200 -1 1 1 1 -1 1 -1 -1 -1\n")
    code, _, err = cli("log.swf", "--machines", "nodes.csv")
    assert code == 2
    assert "have no tasks; leave it out" in err


def test_the_command_of_the_page_runs(cli: Cli, repository: Path) -> None:
    section = (repository / "docs" / "howto" / "place-tasks.md").read_text()
    listed = section.split("```csv\n", 1)[1].split("```", 1)[0]
    command = section.split("```sh\n", 1)[1].split("```", 1)[0].split()
    Path("machines.csv").write_text(listed)
    write_workload(
        generate(published_model("joulie"), duration_s=1800.0, seed=1, scale=0.1),
        Path("pods.jsonl"),
    )
    assert command[:2] == ["copperline", "simulate"]
    code, out, err = cli(*command[2:])
    assert code == 0, err
    assert "12 machines" in out
    assert Path("jobs.csv").exists()


@pytest.mark.slow
def test_openbs_pods_on_openbs_nodes(cli: Cli, shared_data: Path) -> None:
    folder = shared_data / "openb"
    with gzip.open(folder / "openb_pod_list_default.csv.gz", "rt") as file:
        head = [next(file) for _ in range(2001)]
    Path("head.csv").write_text("".join(head))
    nodes = str(folder / "openb_node_list_gpu_node.csv.gz")
    code, out, err = cli("head.csv", "--machines", nodes, "--json", "--per-job", "jobs.csv")
    assert code == 0, err
    told = json.loads(out)
    assert told["n_jobs"] == load_workload("head.csv").n_jobs
    assert told["n_rejected"] == 0
    assert 0 < told["allocation"]["gpu"] < 1
    assert all(on.startswith("openb-node-") for _, _, on in jobs())
