"""`copperline tabulate`: every combination at once, and the table as an application."""

import csv
import json
from pathlib import Path

import pytest

from assistant.applications.scheduling import Scheduling
from assistant.cli.main import run
from sim.generators import default_workload
from strategies import MeasuredTable

LEVELS = ["--levels", "small_procs=0,16,64", "--levels", "small_max_requested_s=1h,4h"]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_every_allowed_combination_is_in_the_table_with_its_objective(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--levels", "small_max_procs=2,8", "--order", "fcfs,sjf", "--out", "all.csv"]
    assert run(["tabulate", *LEVELS, *options, "--json", "--threads", "2"]) == 0
    told = json.loads(capsys.readouterr().out)
    with (tmp_path / "all.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == told["rows"] == (2 * 2 * 2 + 1) * 2, "no small partition is one combination"
    levels = {
        "small_procs": (0, 16, 64), "small_max_requested_s": ("1h", "4h"),
        "small_max_procs": (2, 8), "order": ("fcfs", "sjf"),
    }  # fmt: skip
    application = Scheduling(default_workload(seed=0), levels=levels)
    for row in rows:
        values = {
            parameter.name: parameter.parse(row[parameter.name])
            for parameter in application.space.parameters
        }
        measures = application.evaluate(values, 0)
        assert float(row["objective"]) == measures["mean_response_s"]
    best = min(rows, key=lambda row: float(row["objective"]))
    assert float(best["objective"]) == told["best"]["value"]
    table = MeasuredTable.read(tmp_path / "all.csv")
    assert len(table.measurements) == len(rows)
    assert run(["sweep", "--table", "all.csv", "--runs", "5"]) == 0


def test_the_small_partition_never_takes_the_whole_cluster(tmp_path: Path) -> None:
    options = ["--levels", "small_procs=0,64,128", "--procs", "128,160", "--out", "all.csv"]
    options += ["--levels", "small_max_requested_s=4h", "--levels", "small_max_procs=8"]
    assert run(["tabulate", *options]) == 0
    with (tmp_path / "all.csv").open() as file:
        rows = {(row["small_procs"], row["procs"]) for row in csv.DictReader(file)}
    assert ("128", "128") not in rows
    assert ("128", "160") in rows
    assert [*tmp_path.glob("*.part")] == []


def test_excluded_combinations_are_left_out(tmp_path: Path) -> None:
    options = [*LEVELS, "--levels", "small_max_procs=2,8", "--exclude", "small_procs == 16"]
    assert run(["tabulate", *options, "--out", "all.csv"]) == 0
    rows = (tmp_path / "all.csv").read_text().splitlines()[1:]
    assert len(rows) == 2 * 2 + 1
    assert not [row for row in rows if row.startswith("16,")]


def test_what_violates_a_constraint_can_be_left_out(tmp_path: Path) -> None:
    options = [*LEVELS, "--levels", "small_max_procs=2,8", "--out"]
    assert run(["tabulate", *options, "all.csv"]) == 0
    assert run(["tabulate", *options, "some.csv", "--feasible"]) == 0
    every, some = ((tmp_path / name).read_text().splitlines() for name in ("all.csv", "some.csv"))
    assert set(some) <= set(every)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--out", "nowhere/all.csv"], "its folder is missing, or it is a folder"),
        (["--out", "."], "its folder is missing, or it is a folder"),
        (["--out", "all.csv", "--log", "none.swf"], "none.swf"),
        (["--out", "all.csv", "--levels", "small=1,2"], "no parameter 'small'"),
        (["--out", "all.csv", "table.toml"], "tabulate needs a simulation"),
    ],
)
def test_what_cannot_be_is_said(
    options: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "table.csv").write_text("a,objective\n1,2\n2,3\n")
    (tmp_path / "table.toml").write_text('[application]\nkind = "lookup"\ntable = "table.csv"\n')
    assert run(["tabulate", *options]) == 2
    assert sentence in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "all.csv").exists()
