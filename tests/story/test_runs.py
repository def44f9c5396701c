"""`copperline runs`: every run of an experiment with its reason, also as CSV and Parquet."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

import copperline as cl
from assistant.cli.main import run as command


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "experiments.db"
    constraint, baseline = cl.Constraint("memory", at_most=3), {"x": 4, "run": "a"}
    space = {"x": [1, 2, 3, 4], "run": ["a", "b"]}
    with cl.study(
        space, minimise="loss", runs=6, store=path, constraints=[constraint], baseline=baseline
    ) as study:  # fmt: skip
        while run := study.ask():
            x = int(run["x"])
            if run["run"] == "b" and x == 1:
                study.tell(run, failed="the disk\nis full")
            else:
                study.tell(run, {"loss": x / 2, "memory": x, "x": 7.0, "curve": (1.0, 2.0)})
    return path


def test_the_list_has_a_line_per_run(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["runs", "--store", str(store)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["run", "state", "x", "run", "loss", "memory", "time", "why"]
    assert lines[1].endswith("violates a constraint; the current configuration")
    assert len(lines) == 9  # and the state with its next step
    assert lines[7] == "■ Finished: the budget of 6 runs is used up."


def test_files_and_json_have_every_measure(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    csv, parquet = tmp_path / "runs.csv", tmp_path / "runs.parquet"
    files = ["--csv", str(csv), "--parquet", str(parquet)]
    assert command(["runs", "--store", str(store), *files]) == 0
    assert capsys.readouterr().out.splitlines()[0] == f"Wrote 6 runs to {csv}."
    assert command(["runs", "--store", str(store), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["runs"]
    frame = pd.read_csv(csv)
    assert list(frame) == list(rows[0])
    assert set(frame["parameter.run"]) == {"a", "b"}
    assert {"measure.x", "curve", "memory", "seed", "why"} <= set(frame)
    completed = frame[frame["state"] == "completed"]
    assert set(completed["measure.x"]) == {7.0}
    assert set(completed["curve"]) == {"[1.0, 2.0]"}
    assert list(pd.read_parquet(parquet)["run"]) == [1, 2, 3, 4, 5, 6]
    failed = [row for row in rows if row["state"] == "failed"]
    assert command(["runs", "--store", str(store), "--state", "failed", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"] == failed


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--state", "done"], "no state 'done' of runs; choose from queued,"),
        (["--csv", "nowhere/runs.csv"], "cannot write 'nowhere/runs.csv'"),
        (["--parquet", "nowhere/runs.parquet"], "cannot write"),
        (["other"], "no experiment 'other'"),
    ],
)
def test_what_cannot_be_listed_is_one_sentence(
    store: Path, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(["runs", *arguments, "--store", str(store)]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert "Traceback" not in error


def test_a_slip_of_the_name_is_understood(capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["runz"]) == 2
    assert "'runs'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        pytest.param("copperline run", "runs", marks=pytest.mark.soak),
        pytest.param("copperline workload d", "describe", marks=pytest.mark.soak),
        ("copperline runs --pa", "--parquet"),
    ],
)
def test_the_shell_completes_commands_and_options(words: str, completed: str) -> None:
    environment = os.environ | {
        "_COPPERLINE_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
    }
    program = [sys.executable, "-c", "from assistant.cli.main import main; main()"]
    done = subprocess.run(program, env=environment, capture_output=True, text=True, check=False)
    assert completed in done.stdout.split()
