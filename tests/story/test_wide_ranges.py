"""The page on wide ranges: its sweep runs, says what was added, and is stopped and steered."""

import re
from pathlib import Path

import pytest

from assistant.cli.main import run as command
from assistant.core.events import SpaceChanged
from assistant.store.event_store import SqliteStore


@pytest.fixture
def page(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files of the page in an empty folder."""
    text = (repository / "docs" / "howto" / "wide-ranges.md").read_text()
    for language, name in (("python", "train.py"), ("toml", "ranges.toml")):
        (block,) = re.findall(rf"```{language}\n# {name}\n(.*?)```", text, re.DOTALL)
        (tmp_path / name).write_text(block)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COPPERLINE_STORE", str(tmp_path / "experiments.db"))
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


def added(folder: Path) -> list[SpaceChanged]:
    store = SqliteStore(folder / "experiments.db")
    events = store.load(store.experiments()[0].id)
    store.close()
    return [event for event in events if isinstance(event, SpaceChanged)]


def test_a_sweep_over_ranges_is_told_stopped_and_continued(
    page: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(["sweep", "ranges.toml", "--runs", "16"]) == 0
    said, progress = capsys.readouterr()
    assert "180 combinations of 3 parameters" in progress
    changes = added(page)
    assert {change.by for change in changes} == {"refinement"}
    (rate,) = re.findall(r"rate has (\d+) instead of 6", said)
    assert sum(change.text.startswith("rate=") for change in changes) == int(rate) - 6

    assert command(["steer", "--no-refine", "--runs", "20", "--add", "rate=0.0042"]) == 0
    said = capsys.readouterr().out
    assert "From now on: grasp, no levels added." in said
    assert "rate=0.0042 added." in said
    assert command(["resume"]) == 0
    now = added(page)
    assert [change.by for change in now[len(changes) :]] == ["analyst"]


def test_a_sweep_keeps_its_first_levels_if_it_shall(page: Path) -> None:
    assert command(["sweep", "ranges.toml", "--no-refine", "--runs", "14"]) == 0
    assert added(page) == []
