"""Interrupted sweeps go on; past results and old experiments are taken over; journals are read."""

import json
from pathlib import Path

import pytest

from assistant.executors.serial import SerialExecutor
from tests.story.test_cli import Cli, cli, log, table

pytestmark = pytest.mark.slow

__all__ = ["cli", "log", "table"]  # fixtures


def test_ctrl_c_then_resume_ends_as_the_unbroken_sweep(
    cli: Cli, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep = ("sweep", "--table", str(table), "--runs", "10", "--initial", "3", "--batch", "2")
    _, unbroken, _ = cli(*sweep, "--json")

    n_collected = 0
    collect = SerialExecutor.collect

    def interrupting(self: SerialExecutor):  # type: ignore[no-untyped-def]
        nonlocal n_collected
        n_collected += 1
        if n_collected in (3, 6):
            raise KeyboardInterrupt
        return collect(self)

    monkeypatch.setattr(SerialExecutor, "collect", interrupting)
    code, _, err = cli(*sweep, "--json")
    assert code == 130
    assert "; continue with: copperline resume" in err
    code, _, _ = cli("resume", "--json")
    assert code == 130
    code, out, _ = cli("resume", "latest", "--json")
    assert code == 0
    ended, expected = json.loads(out), json.loads(unbroken)
    for key in ("best", "runs", "finished", "verdict"):
        assert ended[key] == expected[key]
    code, _, err = cli("resume")  # as after a kill between the end and the report
    assert code == 2
    assert "is finished" in err
    assert f"copperline report {ended['experiment']}" in err
    assert cli("report", ended["experiment"])[0] == 0


def test_a_changed_table_is_not_gone_on_with(
    cli: Cli, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(self: SerialExecutor) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(SerialExecutor, "collect", interrupt)
        assert cli("sweep", "--table", str(table), "--runs", "5")[0] == 130
    table.write_text(table.read_text().replace("8,", "9,"))
    code, _, err = cli("resume")
    assert code == 2
    assert "has changed, and its parameters with it" in err


def test_results_from_before_are_read_and_cost_nothing(
    cli: Cli, table: Path, tmp_path: Path
) -> None:
    (tmp_path / "past.csv").write_text("mode,size,objective\na,4,0\nb,8,18\n")
    code, out, _ = cli(
        "sweep", "--table", str(table), "--results", "past.csv", "--runs", "3", "--json"
    )
    assert code == 0
    found = json.loads(out)
    assert found["best"]["run"] == 1
    assert found["runs"] == {"submitted": 5, "completed": 5, "failed": 0}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "empty"),
        ("size,objective\n4,0\n", "lack a column for the parameter 'mode'"),
        ("size,mode\n4,a\n", "no column with a measure"),
        ("size,mode,objective\n4,a\n", "line 2: 2 fields where the header has 3"),
        ("size,mode,objective\n4,a,fast\n", "line 2: objective is 'fast'"),
        ("size,mode,objective\n5,a,1\n", "5"),
        ("size,size,mode,objective\n4,4,a,1\n", "'size' twice"),
        ("size,mode,other\n4,a,1\n", "objective"),
        ("size,mode,objective\n4,a,nan\n", "finite"),
    ],
)
def test_bad_results_get_one_sentence_and_store_nothing(
    cli: Cli, table: Path, tmp_path: Path, text: str, words: str
) -> None:
    (tmp_path / "past.csv").write_text(text)
    code, out, err = cli("sweep", "--table", str(table), "--results", "past.csv", "--runs", "3")
    assert code == 2, out + err
    assert words in err
    assert len(err.strip().splitlines()) == 1, err
    assert not (tmp_path / "copperline-out").exists()


def test_an_experiment_starts_from_an_old_one(cli: Cli, table: Path) -> None:
    cli("sweep", "--table", str(table), "--runs", "6", "--name", "old")
    _, out, _ = cli("sweep", "--table", str(table), "--runs", "4", "--from", "latest", "--json")
    found = json.loads(out)
    assert found["runs"]["submitted"] == 10
    (table.parent / "other.csv").write_text("speed,objective\n1,2\n")
    code, _, err = cli("sweep", "--table", "other.csv", "--from", found["experiment"])
    assert code == 2
    assert "no result of experiment" in err


def test_the_journal_shows_every_decision(cli: Cli, table: Path) -> None:
    assert cli("sweep", "--table", str(table), "--runs", "4")[0] == 0
    _, out, _ = cli("events", "--json")
    kinds = [event["type"] for event in json.loads(out)["events"]]
    assert kinds[0] == "ExperimentOpened"
    assert kinds.count("RunCompleted") == 4
    assert kinds[-1] == "ExperimentFinished"
    _, out, _ = cli("events", "--kind", "RunSubmitted")
    assert len(out.splitlines()) == 4
    code, _, err = cli("events", "--kind", "Nothing")
    assert code == 2
    assert "RunSubmitted" in err


def test_a_warning_is_said_and_answered(cli: Cli, table: Path) -> None:
    sweep = ("sweep", "--table", str(table), "--runs", "9", "--initial", "5", "--batch", "1",
             "--strategy", "copper")  # fmt: skip
    code, _, err = cli(*sweep, "--warnings", "accept")
    assert code == 0
    assert "warning" in err
    _, out, _ = cli("events", "--kind", "AdviceAnswered", "--json")
    assert {event["answer"] for event in json.loads(out)["events"]} == {"accepted"}
    code, _, err = cli(*sweep, "--warnings", "obey")
    assert code == 2
    assert "warnings" in err


def test_suggest_says_the_warning(cli: Cli, tmp_path: Path) -> None:
    rows = "".join(f"{x},{y},{(x - 7) ** 2 + (y - 4) ** 2}\n" for x in range(12) for y in range(12))
    (tmp_path / "bowl.csv").write_text(f"x,y,objective\n{rows}")
    sweep = ("sweep", "--table", "bowl.csv", "--runs", "32", "--seed", "3", "--strategy", "copper")
    assert cli(*sweep, "--warnings", "wait")[0] == 0
    _, out, _ = cli("suggest", "--json")
    assert "too few" in json.loads(out)["warning"]


def test_a_deadline_may_be_the_only_limit(cli: Cli, table: Path) -> None:
    code, out, _ = cli("sweep", "--table", str(table), "--deadline", "1h", "--json")
    assert code == 0
    assert json.loads(out)["runs"]["submitted"] == 12
    opened = json.loads(cli("events", "--kind", "ExperimentOpened", "--json")[1])["events"][0]
    assert opened["sla"]["max_runs"] is None
