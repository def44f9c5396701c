"""A store and every kind of event that the first house wrote: they open, resume and report.

`store.sql` is a dump taken while one sweep ran, after one had finished and one was killed;
`events.jsonl` holds one event of each kind, as its test suite made them.
"""

import json
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from assistant.cli.main import run
from assistant.core.codec import VERSION, decode_event, encode_event, event_tag
from assistant.core.events import EVENT_TAGS, Event

FOLDER = Path(__file__).parent / "first_house"
LINES = (FOLDER / "events.jsonl").read_text().splitlines()
LATER = {
    "EarlyStoppingChanged",
    "ExperimentDeleted",
    "ExperimentRenamed",
    "ExperimentTagged",
    "ExperimentUndeleted",
    "ToolCalled",
}
FIRST = sorted(EVENT_TAGS.keys() - LATER)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "experiments.db"
    with sqlite3.connect(path) as connection:
        connection.executescript(
            (FOLDER / "store.sql").read_text().replace("@FOLDER@", str(tmp_path))
        )
    connection.close()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COPPERLINE_STORE", str(path))
    return path


def test_every_kind_of_event_has_a_tag_and_an_example() -> None:
    assert set(EVENT_TAGS.values()) == set(get_args(Event))
    assert [json.loads(line)["type"] for line in LINES] == FIRST


@pytest.mark.parametrize("line", LINES, ids=FIRST)
def test_an_old_event_is_read_and_written_with_the_names_of_today(line: str) -> None:
    event = decode_event(line)
    assert event_tag(event) == json.loads(line)["type"]
    written = json.loads(encode_event(event))
    written.get("sla", {}).pop("keep_going", None)  # these are later than the first house
    written.pop("position", None)
    assert written.pop("earlier", []) == []
    assert written.pop("early_stopping", None) is None
    assert written.pop("rule", None) is None
    assert written.pop("by", "analyst") == "analyst"
    warning = written.get("advice") or {}
    for outer in (written, *warning.get("alternatives", ())):
        assert (outer.get("steering") or {}).pop("refine", True) is True
    space = written.get("space", {})
    assert space.pop("rows", []) == []
    for parameter in space.get("parameters", ()):
        assert parameter.pop("wide") is None
        assert parameter.pop("when") == ""
    warning.pop("title", None)
    (warning.get("outlook") or {}).pop("end", None)
    before = line.replace('"strategy": "grasp"', '"strategy": "copper"')
    before = before.replace('"strategy": "anova"', '"strategy": "grasp"')
    before = {**json.loads(before), "v": VERSION}
    if before["type"] == "ExperimentOpened":  # the settings were JSON in a text
        before["recipe"] = json.loads(before["recipe"] or "{}")
    assert written == before


def test_settings_in_a_text_are_tables_with_the_keys_of_today() -> None:
    text = {"advice": "wait", "watch": {"rule": "paper"}, "application": {"today": {}}}
    line = {**json.loads(LINES[FIRST.index("ExperimentOpened")]), "recipe": json.dumps(text)}
    opened = decode_event(json.dumps(line))
    tables = {"warnings": "wait", "warning_policy": {"rule": "paper"}}
    assert opened == replace(opened, recipe={**tables, "application": {"baseline": {}}})
    assert decode_event(encode_event(opened)) == opened
    assert decode_event(json.dumps({**line, "recipe": ""})) == replace(opened, recipe={})


@pytest.mark.parametrize("name", ["interrupted", "running"])
def test_an_old_sweep_goes_on_to_its_end(
    store: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with sqlite3.connect(store) as connection:
        (experiment,) = connection.execute(
            "SELECT id FROM experiment WHERE id LIKE ?", (f"{name}-%",)
        ).fetchone()
    connection.close()
    assert run(["resume", experiment, "--json"]) == 0
    ended = json.loads(capsys.readouterr().out)
    assert (ended["runs"]["completed"], ended["best"]["value"]) == (8, 16.0)


def test_an_old_finished_sweep_is_reported(store: Path, tmp_path: Path) -> None:
    page = tmp_path / "old.html"
    assert run(["report", "finished-d1ab8d1d", "--out", str(page)]) == 0
    assert "time_ms" in page.read_text()
