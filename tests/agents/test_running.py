"""A study ends with the same bytes, however often it was stopped and whoever played it."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agents import PlayedStudy, play_study, read_parquet, read_study, write_report
from agents.studies.results import COLUMNS
from assistant import AssistantError
from assistant.cli.main import run
from tests.agents.examples import TEXTS

STUDY = """
seed = 5
replications = 23
tables = ["small.csv"]
insights = ["good", "none"]
confidences = [50]
learning = [true]
"""


@pytest.fixture
def study(tmp_path: Path) -> Path:
    for name, text in TEXTS.items():
        (tmp_path / f"{name}.csv").write_text(text)
    path = tmp_path / "study.toml"
    path.write_text(STUDY)
    return path


def play(
    path: Path, to: str, workers: int = 1, tell: Callable[[int, int], None] | None = None
) -> PlayedStudy:
    asked, text, _ = read_study(path)
    folder = path.parent / to
    finished = play_study(asked, folder, text, workers, tell)
    write_report(finished, folder)
    return finished


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_an_interrupted_study_goes_on_to_the_same_bytes(study: Path) -> None:
    told: list[tuple[int, int]] = []
    play(study, "whole", tell=lambda done, total: told.append((done, total)))
    assert told == [(0, 46), (20, 46), (23, 46), (43, 46), (46, 46)]

    def interrupt(done: int, total: int) -> None:
        if done == 23:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        play(study, "broken", tell=interrupt)
    folder = study.parent / "broken"
    assert len(list((folder / "parts").iterdir())) == 2
    (folder / "parts" / "000001.json").write_text("[{")  # torn, as by a loss of power
    told.clear()
    play(study, "broken", tell=lambda done, total: told.append((done, total)))
    assert [done for done, _ in told] == [20, 23, 43, 46]
    assert contents(folder) == contents(study.parent / "whole")
    assert set(contents(folder)) == {
        "results.parquet", "summary.csv", "report.html", "report.md", "study.json", "study.toml",
    }  # fmt: skip
    again = play(study, "broken", tell=lambda done, total: told.append((done, total)))
    assert told[-1] == (46, 46)
    assert len(told) == 5, "nothing is played again"
    assert again.summaries == play(study, "whole").summaries


def test_the_results_are_a_row_per_episode(study: Path) -> None:
    finished = play(study, "out")
    rows = read_parquet(study.parent / "out" / "results.parquet")
    assert len(rows) == 46
    assert list(rows[0]) == [name for name, _ in COLUMNS]
    for summary in finished.summaries:
        of_cell = [row for row in rows if row["insight"] == summary.cell.insight]
        assert [row["replication"] for row in of_cell] == list(range(23))
        runs = [6 if row["censored"] else row["runs_to_optimum"] for row in of_cell]
        assert summary.runs.mean == sum(runs) / 23
        assert summary.runs.low is not None
        assert summary.runs.high is not None
        assert summary.runs.low <= summary.runs.mean <= summary.runs.high
        assert len({row["seed"] for row in of_cell}) == 23
        assert {row["runs_allowed"] for row in of_cell} == {6}
    assert {row["exploitation"] for row in rows} == {None}
    page = (study.parent / "out" / "report.html").read_text()
    assert page.count("<figure><svg") == 2
    assert "small, copper, good insight" in page


def test_a_folder_keeps_to_its_study(study: Path) -> None:
    play(study, "out")
    study.write_text(STUDY.replace("seed = 5", "seed = 6"))
    with pytest.raises(AssistantError, match="holds another study"):
        play(study, "out")
    study.write_text(STUDY)
    table = study.parent / "small.csv"
    table.write_text(table.read_text().replace("1.5\n", "0.25\n"))
    with pytest.raises(AssistantError, match="begun with other tables"):
        play(study, "out")


def test_what_cannot_be_played_is_refused_before_anything_is_written(study: Path) -> None:
    study.write_text(STUDY.replace("small.csv", "below.csv") + "[stop]\nruns = 5\n")
    (study.parent / "below.csv").write_text("a,objective\n1,-3.0\n2,-2.0\n")
    with pytest.raises(AssistantError, match="a ratio to the optimum is undefined"):
        play(study, "out")
    assert not (study.parent / "out").exists()


@pytest.mark.soak
@pytest.mark.slow
def test_two_processes_play_the_same_as_one(study: Path) -> None:
    play(study, "one")
    play(study, "two", workers=2)
    assert contents(study.parent / "one") == contents(study.parent / "two")


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.parametrize("with_signal", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_study_goes_on(study: Path, with_signal: signal.Signals) -> None:
    study.write_text(STUDY.replace("replications = 23", "replications = 400"))
    play(study, "whole")
    parts = study.parent / "killed" / "parts"
    command = [sys.executable, "-m", "assistant.cli", "agents", "run", str(study)]
    command += ["--to", str(study.parent / "killed"), "--workers", "2"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, start_new_session=True)
    before = time.monotonic()
    while not (parts.is_dir() and any(parts.glob("*.json"))):
        assert process.poll() is None
        assert time.monotonic() - before < 300
        time.sleep(0.01)
    os.kill(process.pid, with_signal)
    _, told = process.communicate(timeout=300)  # workers may be compiling
    if with_signal is signal.SIGINT:
        assert process.returncode == 130
        assert b"of 800 episodes are in" in told
    assert not (study.parent / "killed" / "results.parquet").exists()
    before = time.monotonic()
    while _group_is_alive(process.pid):  # the workers end with their parent, once they compiled
        assert time.monotonic() - before < 300
        time.sleep(0.01)
    (study.parent / "killed" / ".part-1-progress.json").write_text("{")  # as by a kill
    assert run(["agents", "run", *command[5:]]) == 0
    assert contents(study.parent / "killed") == contents(study.parent / "whole")


def _group_is_alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def test_json_holds_every_cell(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["agents", "run", str(study), "--to", str(study.parent / "out"), "--workers", "1"]
    assert run([*command, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["episodes"] == 46
    assert [cell["insight"] for cell in told["cells"]] == ["good", "none"]
    assert told["cells"][0]["ratio"] is None
