"""`copperline play`: one run of a testbed is shown, in the terminal and as a picture."""

import json
from pathlib import Path

import pytest

from assistant.applications.extensions.flood import Flood
from assistant.applications.extensions.maze import MazeRunner
from assistant.applications.extensions.placement import FleetPlacement
from assistant.cli.main import run


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_game_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["play", "maze", "--set", "movement=wall", "--set", "velocity=2.0"]) == 0
    told = capsys.readouterr().out
    assert "movement wall, velocity 2.0, footing careful, enemies hide: out after" in told
    assert "│ S " in told
    assert " E │" in told
    assert "Over all 12 games of seed 0 the mean time is" in told


def test_a_flood_is_shown_with_its_sensors(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["play", "flood", "--seed", "3", "--set", "conductivity_mmh=3"]) == 0
    told = capsys.readouterr().out
    assert "A, outlet, m3/s: * simulated  o observed" in told
    assert "▓" in told
    assert "It differs from the measurements of the sensors by" in told


def test_machines_are_shown_over_time(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["play", "placement", "--seed", "1", "--set", "placement=best_fit"]) == 0
    told = capsys.readouterr().out
    assert "share held by instances, over" in told
    assert " GPUs, " in told
    assert " fragments, " in told
    assert "Machines and waiting cost" in told


@pytest.mark.slow
def test_a_written_sweep_over_machines_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["init", "fleet.toml", "--kind", "placement"]) == 0
    capsys.readouterr()
    assert run(["sweep", "fleet.toml", "--runs", "4", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["name"] == "placement"
    again = FleetPlacement().evaluate(told["best"]["values"], 0)
    assert told["best"]["value"] == pytest.approx(again["cost"])
    assert told["best"]["value"] <= FleetPlacement().evaluate(FleetPlacement().baseline, 0)["cost"]


@pytest.mark.parametrize("name", ["flood", "maze"])
def test_json_holds_what_a_run_gives(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["play", name, "--json", "--seed", "2"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["application"] == name
    assert told["picture"] is None
    application = Flood(2) if name == "flood" else MazeRunner(2, n_games=1)
    assert told["measures"] == application.evaluate(told["configuration"], 0)


@pytest.mark.parametrize(
    ("file", "begins"), [("a.svg", b"<svg"), ("b.PNG", b"\x89PNG"), ("c.html", b"<!doctype html>")]
)
def test_a_picture_is_written(file: str, begins: bytes, tmp_path: Path) -> None:
    assert run(["play", "maze", "--game", "3", "--picture", file]) == 0
    content = (tmp_path / file).read_bytes()
    assert content.startswith(begins)
    assert begins[0] == 0x89 or b"OUT" in content


def test_testbeds_are_swept_and_tried_by_their_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["try", "flood", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["measures"]["rmse_m3s"] == Flood().evaluate(Flood().baseline, 0)["rmse_m3s"]
    Path("maze.toml").write_text('runs = 6\n[application]\nkind = "maze"\ngames = 1\nseed = 4\n')
    assert run(["sweep", "maze.toml", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["name"] == "maze"
    assert told["best"]["value"] == pytest.approx(
        MazeRunner(4, n_games=1).evaluate(told["best"]["values"], 0)["time_s"]
    )


def test_a_small_maze_is_tabulated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("maze.toml").write_text('[application]\nkind = "maze"\ngames = 1\n')
    arguments = ["tabulate", "maze.toml", "--exclude", "velocity != 2.0", "--out", "all.csv"]
    assert run([*arguments, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["rows"], told["taken_up"]) == (18, 0)
    lines = (tmp_path / "all.csv").read_text().splitlines()
    assert lines[0] == "movement,velocity,footing,enemies,objective"
    assert len(lines) == 19


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["floods"], "'floods' cannot be played; did you mean 'flood'? Known: ai_platform, flood,"),
        (["maze", "--set", "speed=1"], "no parameter 'speed'"),
        (["maze", "--set", "velocity=3"], "parameter 'velocity' has no level 3"),
        (["maze", "--set", "velocity"], "--set 'velocity' is not of the form movement=memory"),
        (["maze", "--game", "13"], "game 13: allowed are 1 to 12"),
        (["flood", "--picture", "a.gif"], "the picture 'a.gif' must end in .svg, .png or .html"),
        (["flood", "--picture", "a.svg/"], "is a folder"),
        (["flood", "--seed", "-1"], "Invalid value for '--seed'"),
    ],
)
def test_what_cannot_be_is_said(
    arguments: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.svg").mkdir()
    assert run(["play", *arguments]) == 2
    assert sentence in " ".join(capsys.readouterr().err.split())
