"""The checker sees each promise broken: a file is tampered with, and the promise is named."""

import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.checker import check
from tests.faults.history import Ack, World, play

EVENT = "UPDATE event SET body = json_set(body, '$.{}', json('{}')) WHERE body LIKE '%{}%'"

TWICE = """
INSERT INTO event SELECT experiment_id,
(SELECT max(position) + 1 FROM event WHERE experiment_id = 'hills'), body, digest
FROM event WHERE body LIKE '%RunCompleted%' LIMIT 1
"""

TAMPERED = {
    "an event is gone": ("I4", "DELETE FROM event WHERE position = 3"),
    "a run ends twice": ("I1", TWICE),
    "a result is another": ("I2", EVENT.format("outcome.measures.height", "7.5", "RunCompleted")),
    "a stopped run has another result": (
        "I2",
        EVENT.format("outcome.measures.height", "7.5", "RunStopped"),
    ),
    "a result of who did not end the run": (
        "I2",
        "UPDATE attempt SET result = 'x' WHERE result IS NULL",
    ),
    "a result is not noted": ("I2", "UPDATE attempt SET result = NULL"),
    "the table has another state": ("I4", "UPDATE run SET state = 'queued' WHERE run_id = 1"),
    "the table has not counted": ("I4", "UPDATE experiment SET n_events = n_events - 1"),
    "an attempt is gone": ("I4", "DELETE FROM attempt WHERE worker = 'bob'"),
    "a held run is not": ("I4", "UPDATE run SET held = 1 - held WHERE run_id = 3"),
    "a lease outlived its run": ("I5", "INSERT INTO lease SELECT token, 1.0, 1.0 FROM attempt"),
    "a note of a refusal": ("I5", "UPDATE attempt SET refused = NULL"),
    "given up too early": ("I6", EVENT.format("failure", '"not tried again"', "exit code 1")),
    "a claim passed over another": ("I7", EVENT.format("priority", "-9.0", '"priority": 5.0')),
    "the priority in force is not the last": ("I8", "UPDATE run SET priority = 9"),
    "paused, though it was told to go on": ("I3", "UPDATE experiment SET active = 1 - active"),
    "a run of no experiment": ("I10", "UPDATE run SET experiment_id = 'none' WHERE seq = 1"),
}


@pytest.fixture
def told() -> list[Ack]:
    return []


@pytest.fixture
def store(folder: Path, told: list[Ack]) -> Path:
    world = World(folder / "store.db", told.append)
    play(world)
    world.store.close()
    return folder / "store.db"


@pytest.mark.parametrize("name", TAMPERED)
def test_a_broken_promise_is_named(name: str, store: Path, told: list[Ack]) -> None:
    promise, statement = TAMPERED[name]
    assert check(store, told) == []
    connection = sqlite3.connect(store)
    assert connection.execute(statement).rowcount
    connection.commit()
    connection.close()
    assert promise in {line.split()[0] for line in check(store, told)}


def test_what_was_acknowledged_must_be_there_in_its_order(store: Path, told: list[Ack]) -> None:
    made_up = [
        {"told": "completed", "experiment": "hills", "run": 5, "measures": {"height": 1.0}},
        {"told": "claimed", "experiment": "hills", "run": 1, "token": "x", "worker": "ann"},
        {"told": "submitted", "experiment": "none", "run": 1, "seed": 1},
    ]
    for one in made_up:
        assert [line[:2] for line in check(store, [*told, one])] == ["I3"]
    edits = [one for one in told if one["told"] == "prioritised"]
    assert [line[:2] for line in check(store, edits[::-1])] == ["I8"] * 2


def test_a_page_that_was_overwritten(store: Path) -> None:
    with store.open("r+b") as file:
        file.seek(8192)
        file.write(b"\xff" * 4096)
    assert {line.split()[0] for line in check(store)} == {"I10"}


def test_the_program(store: Path, told: list[Ack], folder: Path, repository: Path) -> None:
    log = folder / "told.jsonl"
    log.write_text("".join(json.dumps(one) + "\n" for one in told) + '{"told": "half a li')
    command = [sys.executable, "-m", "tests.faults.checker", str(store), "--log", str(log)]
    done = subprocess.run(command, cwd=repository, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "all promises kept\n"), done.stderr
    done = subprocess.run(
        [*command, "--ended"], cwd=repository, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "should be over" in done.stdout
    text = (repository / "tests" / "faults" / "checker.py").read_text()
    assert "import assistant" not in text
    assert "from assistant" not in text
