"""A list of stored experiments that can be kept in order: names, tags, deletion and its undoing."""

import json
import sqlite3
from pathlib import Path

import pytest

import copperline as cl
from assistant.cli.main import run as command


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "experiments.db"
    monkeypatch.setenv("COPPERLINE_STORE", str(path))
    monkeypatch.setenv("COLUMNS", "200")
    for name, runs in (("first", 4), ("second", 2)):
        baseline = {"x": 1}
        with cl.study(
            {"x": [1, 2, 3, 4]},
            minimise="loss",
            runs=runs,
            name=name,
            store=path,
            baseline=baseline,
        ) as study:
            study.optimise(lambda x: 4 / x)
    return path


def names(capsys: pytest.CaptureFixture[str], *options: str) -> list[str]:
    assert command(["experiments", "--json", *options]) == 0
    return [entry["name"] for entry in json.loads(capsys.readouterr().out)["experiments"]]


def identifier(store: Path, name: str) -> str:
    with sqlite3.connect(store) as connection:
        (found,) = connection.execute(
            "SELECT id FROM experiment WHERE name = ?", (name,)
        ).fetchone()
    connection.close()
    return str(found)


def test_the_list_shows_state_progress_and_best(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(["experiments"]) == 0
    head, second, first = capsys.readouterr().out.splitlines()
    assert head.split() == ["experiment", "name", "state", "runs", "best", "next", "step", "opened"]
    assert "■ finished" in first
    assert "4/4" in first
    assert "1 (" in first
    assert identifier(store, "second") in second
    assert command(["experiments", "--json"]) == 0
    entry = json.loads(capsys.readouterr().out)["experiments"][1]
    assert entry["runs"] == {"ended": 4, "budget": 4}
    assert entry["best"]["values"] == {"x": 4}


def test_names_and_tags(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = identifier(store, "first")
    assert command(["rename", first, "my <b>best</b>"]) == 0
    assert command(["tag", first, "paper", "night"]) == 0
    assert command(["tag", first, "--remove", "night"]) == 0
    capsys.readouterr()
    assert names(capsys) == ["second", "my <b>best</b>"]
    assert names(capsys, "--tag", "paper") == ["my <b>best</b>"]
    assert names(capsys, "--tag", "night") == []
    assert command(["runs", "my <b>best</b>", "--json"]) == 0  # a name is as good as the identifier
    assert json.loads(capsys.readouterr().out)["experiment"] == first
    with cl.load_study(store, first) as study:  # the event log says the same
        assert study.session.experiment.opened.name == "my <b>best</b>"
        assert study.session.experiment.tags == ("paper",)


def test_a_deleted_experiment_comes_back_until_it_is_purged(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = identifier(store, "first")
    assert command(["delete", first]) == 2  # nobody can be asked
    assert "--yes" in capsys.readouterr().err
    assert command(["delete", first, "--yes"]) == 0
    assert f"copperline delete {first} --undo" in capsys.readouterr().out
    assert names(capsys) == ["second"]
    assert names(capsys, "--deleted") == ["first"]
    assert command(["delete", first, "--undo"]) == 0
    capsys.readouterr()
    assert names(capsys) == ["second", "first"]
    assert command(["delete", first, "--purge", "--yes"]) == 0
    capsys.readouterr()
    assert names(capsys, "--deleted") == []
    with sqlite3.connect(store) as connection:
        for table in ("event", "run", "output"):
            count = f"SELECT count(*) FROM {table} WHERE experiment_id = ?"
            assert connection.execute(count, (first,)).fetchone() == (0,)
    connection.close()
    assert names(capsys) == ["second"]


def test_what_is_refused_is_one_sentence(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    second = identifier(store, "second")
    for arguments, words in (
        (["rename", second, " "], "1 to 200 printable characters"),
        (["tag", second, "--remove", "x"], "no tag 'x' to remove; the tags are: none"),
        (["delete", second, "--undo"], "is not deleted"),
        (["delete", second, "--undo", "--purge"], "contradict"),
        (["delete", "other", "--yes"], "no experiment 'other'"),
    ):
        assert command(arguments) == 2
        assert words in capsys.readouterr().err
    with cl.load_study(store, second):  # another process would execute it
        assert command(["delete", second, "--yes"]) == 2
    assert "is being executed" in capsys.readouterr().err
    assert command(["rename", second, "first"]) == 0
    assert command(["runs", "first"]) == 2
    assert (
        "2 experiments are named 'first'; name one by its identifier: " in capsys.readouterr().err
    )
    assert command(["logs"]) == 2
    assert (
        capsys.readouterr().err
        == "copperline: Missing argument 'run'. See: copperline logs --help\n"
    )
