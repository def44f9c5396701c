"""Task graphs from the command line: a table of tasks is converted, ordered and simulated."""

import csv
from pathlib import Path

import pytest

from assistant.cli.main import run

TASKS = """\
job_id,submit_s,task,parents,runtime_s,mcpu
1,0,alone,,5,1000
1,0,first,,2,1000
1,0,second,first,9,1000
2,0,a,,1,1000
2,0,b,a,7,1000
"""
JOBS = """\
,submit_time,duration,cpu,memory,job_id,task_id,instances_num,disk
0,10,4.5,1.0,0.5,1,1,3,0
1,12,2.0,0.5,0.25,2,2,1,0
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    Path("graph.csv").write_text(TASKS)
    Path("jobs.csv").write_text(JOBS)
    Path("machines.csv").write_text("name,cores,mem_gib\nm,1,1024\n")
    return tmp_path


def ends(*more: str) -> list[float]:
    told = ("--machines", "machines.csv", "--engine", "interpreted", "--per-job", "out.csv")
    assert run(["simulate", *more, *told]) == 0
    with Path("out.csv").open() as file:
        return [float(row["end_s"]) for row in csv.DictReader(file)]


def test_the_order_of_tasks_decides(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ends("graph.csv") == [16, 24]
    assert ends("graph.csv", "--order", "critical_path") == [24, 19]
    assert ends("graph.csv", "--order", "sjf", "--option", "by_task=1") == [24, 15]
    assert "2 jobs, 5 pods on 1 machine, critical_path" in capsys.readouterr().out


def test_an_order_of_tasks_needs_tasks(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", "graph.csv", "--order", "critical_path", "--procs", "4"]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "order 'critical_path' ranks tasks, but allocation is 'processors'" in said


def test_jobs_of_cloudsimpy_are_placed_and_converted(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ends("jobs.csv") == [13.5, 15.5]
    assert run(["workload", "convert", "jobs.csv", "kept.tasks.csv"]) == 0
    assert run(["workload", "convert", "kept.tasks.csv", "again.cloudsimpy.csv"]) == 0
    assert ends("again.cloudsimpy.csv") == [13.5, 15.5]
    capsys.readouterr()
    assert run(["workload", "convert", "graph.csv", "flat.cloudsimpy.csv"]) == 0
    said = capsys.readouterr()
    assert "some values of the tasks are read back differently" in said.out + said.err
