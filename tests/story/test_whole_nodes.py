"""`copperline simulate --whole-nodes`: machines on the command line."""

import csv
from pathlib import Path

import pytest

from assistant.cli.main import run

LOG = """; MaxProcs: 8
1 0 -1 100 3 -1 -1 3 200 1048576 1 1 1 -1 1 -1 -1 -1
2 10 -1 50 2 -1 -1 2 60 4194304 1 1 1 -1 1 -1 -1 -1
3 20 -1 30 4 -1 -1 4 40 -1 1 2 1 -1 1 -1 -1 -1
"""


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.swf").write_text(LOG)
    return "small.swf"


def starts(path: Path) -> dict[str, tuple[float, str]]:
    with path.open() as file:
        return {
            row["job_id"]: (float(row["start_s"]), row["machines"]) for row in csv.DictReader(file)
        }


def test_jobs_take_whole_machines_and_the_table_names_them(
    log: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["simulate", log, "--whole-nodes", "2", "--per-job", "jobs.csv"]) == 0
    assert starts(tmp_path / "jobs.csv") == {
        "1": (0.0, "main1 main2"),  # 3 processors: two machines of 2
        "2": (10.0, "main3"),
        "3": (60.0, "main3 main4"),
    }
    printed = capsys.readouterr()
    assert "memory" not in printed.err, "machines without told memory limit nobody"
    assert "8 processors, whole nodes, 4 machines of 2 processors, fcfs" in printed.out


def test_a_machine_must_have_the_memory_that_a_job_requests(
    log: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--whole-nodes", "2", "--node-memory", "8G", "--per-job", "jobs.csv"]
    assert run(["simulate", log, *options]) == 0
    assert starts(tmp_path / "jobs.csv")["2"] == (10.0, "main3"), "2 x 4 GiB fit into 8 GiB"
    assert "1 of 3 jobs have no memory request" in capsys.readouterr().err
    assert run(["simulate", log, "--whole-nodes", "2", "--node-memory", "7g"]) == 2
    told = capsys.readouterr().err
    assert "job 2" in told
    assert "memory" in told


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--whole-nodes", "3"], "8 processors, which is not a whole number of machines of 3"),
        (["--node-memory", "4G"], "give --whole-nodes or --shared-nodes too"),
        (["--whole-nodes", "2", "--shared-nodes", "2"], "exclude each other; give one"),
        (["--backfill", "slurm"], "'slurm' cannot decide with allocation='processors'"),
        (["--whole-nodes", "2", "--node-memory", "lots"], "for example 64G"),
        (["--whole-nodes", "2", "--node-memory", "0G"], "whole numbers from 1"),
        (["--whole-nodes", "2", "--node-memory", "99999999999T"], "is above the maximum, 8192T"),
        (["--whole-nodes", "2", "--node-memory", "9" * 5000 + "K"], "is above the maximum, 8192T"),
        (["--whole-nodes", "2", "--node-memory", "7G"], "2 processors with 4 GiB of memory each"),
    ],
)
def test_what_cannot_be_is_said(
    log: str, options: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["simulate", log, *options]) == 2
    assert sentence in " ".join(capsys.readouterr().err.split())
