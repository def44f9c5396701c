"""``copperline effects``: read effects, learn which runs are missing, run them, read again."""

import json
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from assistant import Sla, load_session
from assistant.store.event_store import SqliteStore

pytestmark = pytest.mark.slow

Cli = Callable[..., tuple[int, str, str]]

TABLE = "size,mode,depth,objective\n" + "".join(
    f"{size},{mode},{depth},{(size - 4) ** 2 + 'acb'.index(mode) * 5 + depth * size / 8}\n"
    for size in (1, 2, 4, 8)
    for mode in ("a", "b", "c")
    for depth in (1, 2)
)


@pytest.fixture
def cli(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    monkeypatch.delenv("COPPERLINE_STORE", raising=False)
    monkeypatch.setenv("COLUMNS", "120")
    (tmp_path / "table.csv").write_text(TABLE)
    return cli


def test_effects_of_a_sweep_are_tables_of_changes_with_tests(cli: Cli) -> None:
    cli("sweep", "--table", "table.csv", "--runs", "16", "--name", "mine")
    code, out, _ = cli("effects")
    assert code == 0
    assert "mine: effects on objective, less is better; main effects from 16 runs" in out
    for text in ("sum of squares", "95 % interval", "better", "error (residual)", "coverage",
                 "configuration was run twice", "size x mode", "Each run predicted"):  # fmt: skip
        assert text in out
    code, out, _ = cli("effects", "--json")
    told = json.loads(out)
    assert code == 0
    assert [e["parameter"] for e in told["main"]] == ["size", "mode", "depth"]
    assert set(told["charts"]) == {"main", "interactions", "pareto", "half_normal"}
    assert told["charts"]["main"]["size"]["data"]["values"][0]["level"] == "1"


def test_combinations_that_only_closed_levels_lack_are_not_called_missing_runs(cli: Cli) -> None:
    cli("sweep", "--table", "table.csv", "--runs", "6", "--name", "mine", "--strategy", "random")
    assert cli("steer", "--runs", "60", "--close", "mode=c")[0] == 0
    assert cli("resume")[0] == 0
    _, out, _ = cli("effects", "--pair", "size,mode")
    assert "with closed mode=c) without a run" in out
    assert "Only closed levels lack runs: copperline steer " in out
    assert " --reopen mode=c\n" in out
    assert "--missing" not in out
    _, out, _ = cli("effects", "--missing", "size,mode")
    assert "Nothing is missing: the runs determine the interaction of size and mode among" in out
    assert "the closed levels mode=c" in out


def test_the_missing_runs_are_run_by_the_command_that_is_printed(cli: Cli) -> None:
    cli("sweep", "--table", "table.csv", "--runs", "9", "--name", "mine", "--strategy", "random")
    code, out, _ = cli("effects", "--pair", "size,mode")
    assert code == 0
    assert "combinations of size x mode without a run" in out
    assert "--missing size,mode" in out
    code, out, _ = cli("effects", "--missing", "size,mode")
    assert code == 0
    assert "missing to estimate the interaction of size and mode" in out
    assert "factorial block" in out
    told = json.loads(cli("effects", "--missing", "size,mode", "--json")[1])
    assert told["runs"]
    assert told["left"] == 0
    assert f"Run them with: {told['command']}\n" in out
    words = shlex.split(told["command"])
    assert words[:2] == ["copperline", "resume"]
    code, out, err = cli(*words[1:], "--json")
    assert code == 0, err
    assert json.loads(out)["runs"]["submitted"] == 9 + len(told["runs"])
    _, out, _ = cli("effects", "--missing", "size,mode")
    assert "Nothing is missing: the runs determine the interaction of size and mode." in out
    told = json.loads(cli("effects", "--pair", "size,mode", "--json")[1])
    pair = told["interactions"][0]
    assert pair["test"]["df"] == 6
    assert all(cell["change"] is not None for cell in pair["beyond"])


def test_an_unfinished_sweep_is_given_a_budget_only_if_it_needs_one(
    cli: Cli, tmp_path: Path
) -> None:
    cli("sweep", "--table", "table.csv", "--runs", "4", "--name", "mine")
    opened = SqliteStore(tmp_path / "copperline-out" / "experiments.db")
    session = load_session(opened, opened.experiments()[0].id)
    session.reopen()
    told = json.loads(cli("effects", "--missing", "all", "--json")[1])
    assert told["runs"]
    words = shlex.split(told["command"])
    assert words[2:5] == [session.id, "--runs", str(4 + len(told["runs"]))]
    session.change_budget(Sla(max_runs=24))
    told = json.loads(cli("effects", "--missing", "all", "--json")[1])
    assert "--runs" not in told["command"]
    where = str(tmp_path / "copperline-out" / "experiments.db")
    told = json.loads(cli("effects", "--missing", "all", "--json", "--store", where)[1])
    assert told["command"].endswith(f"--store {where}")


def test_one_level_and_everything_can_be_asked_for(cli: Cli) -> None:
    cli(
        "sweep",
        "--table",
        "table.csv",
        "--runs",
        "3",
        "--name",
        "mine",
        "--seed",
        "1",
        "--strategy",
        "random",
    )
    everything = json.loads(cli("effects", "--missing", "all", "--json")[1])
    assert everything["smallest"]
    assert len(everything["runs"]) == everything["lacking"]
    level = json.loads(cli("effects", "--missing", "size=8", "--json")[1])
    assert level["lacking"] <= 1
    assert all(values["size"] == 8 for values in level["runs"])
    assert "the effect of size=8" in cli("effects", "--missing", "size=8")[1]
    assert "the effect of mode='b'" in cli("effects", "--missing", "mode=b")[1]


def test_exclusions_that_forbid_are_named(cli: Cli) -> None:
    cli("sweep", "--table", "table.csv", "--runs", "9", "--exclude", "size == 8 and mode == 'c'")
    out = cli("effects", "--missing", "size,mode")[1]
    assert "the part of the interaction of size and mode that can be estimated" in out
    assert "closed levels, exclusions or failed runs leave no suitable configuration" in out
    assert "No factorial block around the runs can be completed" in out


def test_wrong_questions_are_one_sentence(cli: Cli) -> None:
    cli("sweep", "--table", "table.csv", "--runs", "5", "--name", "mine")
    for arguments, told in (
        (("--pair", "size"), "not of the form name,name"),
        (("--pair", "size,sise"), "no parameter 'sise'; did you mean 'size'?"),
        (("--pair", "size,size"), "names size twice"),
        (("--missing", "size=3"), "has no level 3"),
        (("--missing", "size,mode,depth"), "cannot be combined"),
        (("--pair", "all", "--missing", "all"), "--missing cannot be combined"),
    ):
        code, out, err = cli("effects", *arguments)
        assert (code, out) == (2, "")
        assert told in err
        assert err.count("\n") == 1


def test_including_on_resume_is_checked_before_anything_is_stored(cli: Cli) -> None:
    cli("sweep", "--table", "table.csv", "--runs", "5", "--name", "mine")
    before = cli("events", "--json")[1]
    first = json.loads(before)["events"]
    taken = next(e for e in first if e["type"] == "RunSubmitted")
    assert taken
    code, _, err = cli("resume", "--include", "size=1,mode=a")
    assert code == 2
    assert "no value is given for depth" in err
    free = json.loads(cli("effects", "--missing", "all", "--json")[1])["runs"] or [
        {"size": 1, "mode": "a", "depth": 1}
    ]
    text = ",".join(f"{name}={value}" for name, value in free[0].items())
    code, _, err = cli("resume", "--include", text)
    assert code == 2
    assert "needs" not in err
    assert "need a budget of 6 runs, but it is 5; give --runs 6" in err
    code, _, err = cli("resume", "--runs", "7", "--include", text, "--include", text)
    assert code == 2
    assert "is already run 6" in err
    assert cli("events", "--json")[1] == before
    code, out, _ = cli("resume", "--runs", "6", "--include", text, "--json")
    assert code == 0
    assert json.loads(out)["runs"]["submitted"] == 6
