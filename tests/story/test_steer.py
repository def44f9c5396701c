"""``copperline steer``: one command, all or nothing, and what `resume` makes of it."""

import json
from pathlib import Path

import pytest

from assistant.cli.main import run
from assistant.core.events import SpaceChanged
from assistant.store.event_store import SqliteStore

pytestmark = pytest.mark.slow

TABLE = "size,mode,objective\n" + "".join(
    f"{size},{mode},{(size - 4) ** 2 + 'acb'.index(mode)}\n"
    for size in (1, 2, 4, 8)
    for mode in ("a", "b", "c")
)


@pytest.fixture
def swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A finished sweep of 4 runs over a table of 12; returns its store."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COPPERLINE_STORE", raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    Path("table.csv").write_text(TABLE)
    store = tmp_path / "copperline-out" / "experiments.db"
    assert run(["sweep", "--table", "table.csv", "--runs", "4", "--json"]) == 0
    return store


def event_log(store: Path) -> tuple[object, ...]:
    opened = SqliteStore(store)
    return opened.load(opened.experiments()[0].id)


def test_several_changes_are_said_one_by_one_and_hold_when_it_goes_on(
    swept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    levels = ["--add", "size=16", "--close", "mode=c", "--prefer", "size=8", "--prefer", "size=16"]
    how = ["--strategy", "random", "--exploitation", "0.5"]
    condition = ["--exclude", "size == 16 and mode == 'b'"]
    assert run(["steer", "--runs", "11", *levels, *how, *condition]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[:-2] == [
        "The budget is 11 runs.",
        "From now on: random, exploitation 0.5.",
        "size=16 added.",
        "mode=c closed.",
        "size=8 preferred.",
        "size=16 preferred.",
        "excluded: size == 16 and mode == 'b'.",
    ]
    assert told[-1].startswith("Start the runs with: copperline resume table-")
    assert run(["steer", "--exploitation", "none", "--unprefer", "size=16", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["changes"] == [
        "From now on: random.",
        "size=16 no longer preferred.",
    ]
    assert run(["resume", "--json"]) == 0
    capsys.readouterr()
    assert run(["events", "--kind", "RunSubmitted", "--json"]) == 0
    later = json.loads(capsys.readouterr().out)["events"][4:]
    assert any(run["reason"].endswith("; size=8 is preferred.") for run in later)
    assert all(run["configuration"]["level_ids"][1] != 2 for run in later)


def test_runs_are_queued_again_and_run_when_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COPPERLINE_STORE", raising=False)
    Path("tune.py").write_text("def measure(x, seed):\n    return (x - 3) ** 2 + seed % 100 / 9\n")
    Path("tune.toml").write_text(NOISY)
    assert run(["sweep", "tune.toml"]) == 0
    capsys.readouterr()
    assert run(["steer", "--runs", "9", "--replicate", "2", "--confirm", "2"]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[:2] == ["The budget is 9 runs.", "Run 2 is repeated as run 6."]
    assert all(line.startswith("Run ") and " is repeated as run " in line for line in told[2:4])
    assert run(["resume", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["runs"]["submitted"] == 9
    assert found["recommended"]["confirmed"] is False
    assert ", and repeated, but not separated from " in found["recommended"]["sentence"]
    assert found["recommended"]["sentence"].startswith(f"Run {found['recommended']['run']} is rec")
    assert run(["steer", "--runs", "20", "--replicate", "33"]) == 2
    assert "there is no run 33" in capsys.readouterr().err


NOISY = """runs = 5
initial = 3

[application]
function = "tune:measure"
noisy = true

[objective]
minimise = "value"

[[parameters]]
name = "x"
range = {low = 0, high = 9, step = 1}
"""


REFUSED: tuple[tuple[list[str], str], ...] = (
    (["--replicate", "1"], "a replicate would add no information"),
    (["--confirm", "1"], "a replicate would add no information"),
    (["--close", "size=1", "--close", "size=3"], "no level 3"),
    (["--close", "size"], "--close 'size' is not of the form"),
    (["--prefer", "mode=a", "--unprefer", "size=1"], "is not preferred"),
    (["--add", "size=big"], "levels are numbers"),
    (["--prefer", "mode=a", "--exclude", "size >"], "size >"),
    (["--prefer", "mode=a", "--option", "beta=2"], "beta"),
    (["--prefer", "mode=a", "--option", "gamma=2"], "gamma"),
    (["--prefer", "mode=a", "--exploitation", "much"], "neither a share"),
    (["--prefer", "mode=a", "--exploitation", "1.5"], "0 to 1"),
    (["--strategy", "grap"], "did you mean 'grasp'"),
    ([], "no change was given"),
)


def test_what_cannot_be_is_refused_whole(swept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = event_log(swept)
    for words, said in REFUSED:
        budget = ["--runs", "9"] if words else []
        assert run(["steer", *budget, *words]) == 2, words
        told = capsys.readouterr().err.strip().splitlines()[-1]
        assert said in told
        assert event_log(swept) == before, words


def test_a_finished_experiment_needs_a_budget_to_be_steered(
    swept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["steer", "--prefer", "mode=a"]) == 2
    told = capsys.readouterr().err
    assert "is finished" in told
    assert "to continue, give it a budget of more than 4 runs, for example --runs 14" in told
    assert run(["steer", "--prefer", "mode=zebra"]) == 2  # bad values are told before that
    assert "zebra" in capsys.readouterr().err
    assert run(["steer", "--replicate", "1"]) == 2
    assert "for example --runs 14" in capsys.readouterr().err
    assert not any(isinstance(event, SpaceChanged) for event in event_log(swept))


def test_an_option_that_is_given_twice_is_refused(
    swept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = event_log(swept)
    twice = ["--option", "start=5", "--option", "start=6"]
    assert run(["steer", "--runs", "9", *twice]) == 2
    assert "--option gives 'start' twice, as 5 and as 6; give it once" in capsys.readouterr().err
    levels = ["--levels", "size=1,2", "--levels", "size=4"]
    assert run(["sweep", "--table", "table.csv", *levels]) == 2
    assert "--levels gives 'size' twice" in capsys.readouterr().err
    assert run(["steer", "--runs", "9", "--strategy", "random", "--option", "beta=1"]) == 2
    assert "strategy 'random' has no options; leave out 'beta'" in capsys.readouterr().err
    assert event_log(swept) == before
