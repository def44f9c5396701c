"""The digests of a stored event log: what is flipped, removed or moved is seen, and named."""

import hashlib
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from assistant.cli.main import run
from assistant.core.errors import DamagedEventError, StoreError
from assistant.service.experiment_service import ExperimentService
from assistant.service.observability import ServiceLog
from assistant.session.opening import load_session
from assistant.store.event_store import MIGRATIONS, SqliteStore, back_up, examine, restore
from assistant.store.queue import RunQueue
from tests.contracts.test_store_contract import fill
from tests.fuzz.watch import fault_of_sentence
from tests.queue.examples import HandClock, with_runs


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store of two experiments, 'first' and 'second'."""
    path = tmp_path / "store.db"
    store = SqliteStore(path)
    fill(store)
    fill(store, "second")
    store.close()
    return path


def change(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA ignore_check_constraints = ON")
    for statement in statements:
        assert connection.execute(statement).rowcount != 0, statement
    connection.commit()
    connection.close()


COMPLETED = (
    "experiment_id = 'first' AND position = (SELECT max(position) FROM event WHERE experiment_id ="
    " 'first' AND body LIKE '%RunCompleted%')"
)

SET_BODY = "UPDATE event SET body = "
FLIP = SET_BODY + "replace(body, '\"value\": ', '\"value\": 9') WHERE " + COMPLETED
NO_TEXT = SET_BODY + "CAST(CAST(body AS BLOB) || x'ff' AS TEXT) WHERE " + COMPLETED
OPENING = SET_BODY + "replace(body, 'Bowl', 'Cowl') WHERE experiment_id = 'first' AND position = 0"
REMOVE = "DELETE FROM event WHERE experiment_id = 'first' AND position = "
LAST = "(SELECT max(position) FROM event WHERE experiment_id = 'first')"
MOVE = "UPDATE event SET position = {} WHERE experiment_id = 'first' AND position = {}"
FOREIGN = (
    "UPDATE event SET (body, digest) = (SELECT body, digest FROM event WHERE experiment_id ="
    " 'second' AND position = 2) WHERE experiment_id = 'first' AND position = 2"
)
DAMAGE: dict[str, tuple[tuple[str, ...], int | None]] = {
    "a digit of a result": ((FLIP,), None),
    "a byte that is no text": ((NO_TEXT,), None),
    "a digest": ((f"UPDATE event SET digest = zeroblob(32) WHERE {COMPLETED}",), None),
    "a digest that is gone": ((f"UPDATE event SET digest = NULL WHERE {COMPLETED}",), None),
    "the opening": ((OPENING,), 0),
    "an event removed": ((REMOVE + "2",), 2),
    "the last event removed": ((REMOVE + LAST,), None),
    "the first event removed": ((REMOVE + "0",), 0),
    "two events exchanged": ((MOVE.format(999, 2), MOVE.format(2, 3), MOVE.format(3, 999)), 2),
    "an event of the other experiment": ((FOREIGN,), 2),
}


@pytest.fixture(params=DAMAGE.values(), ids=DAMAGE)
def damaged(request: pytest.FixtureRequest, path: Path) -> tuple[Path, int]:
    """A store whose experiment 'first' is damaged, and the position of the damage."""
    statements, position = request.param
    if position is None:
        connection = sqlite3.connect(path)
        last = "SELECT max(position) FROM event WHERE experiment_id = 'first'"
        where = last if "removed" in request.node.name else f"{last} AND body LIKE '%RunCompleted%'"
        (position,) = connection.execute(where).fetchone()
        connection.close()
    change(path, *statements)
    return path, position


def test_it_is_refused_by_name_and_position_and_others_are_read(damaged: tuple[Path, int]) -> None:
    path, position = damaged
    store = SqliteStore(path)
    with pytest.raises(DamagedEventError, match=rf"'first' is damaged.* event {position} ") as no:
        store.load("first")
    assert fault_of_sentence(str(no.value)) is None
    assert {entry.id for entry in store.experiments()} == {"first", "second"}
    assert load_session(store, "second").experiment.best is not None
    store.close()


def test_doctor_names_it(damaged: tuple[Path, int], capsys: pytest.CaptureFixture[str]) -> None:
    path, position = damaged
    assert run(["doctor", "--store", str(path), "--json"]) == 1
    (fault,) = json.loads(capsys.readouterr().out)["store"]["faults"]
    assert "'first'" in fault
    assert f"event {position} " in fault


def test_commands_refuse_it_and_list_it_as_failed(
    damaged: tuple[Path, int], capsys: pytest.CaptureFixture[str]
) -> None:
    path, _ = damaged
    for command in ("report", "effects", "forecast", "resume"):
        assert run([command, "first", "--store", str(path)]) == 2
        words = capsys.readouterr()
        assert "'first' is damaged" in words.err
        assert words.out == ""
    assert run(["experiments", "--store", str(path), "--json"]) == 0
    listed = {e["id"]: e["state"] for e in json.loads(capsys.readouterr().out)["experiments"]}
    assert listed["first"]["name"] == "failed"
    assert "damaged" in listed["first"]["reason"]
    assert listed["second"]["name"] != "failed"
    assert run(["experiments", "--store", str(path)]) == 0


def test_neither_a_backup_nor_a_restored_one_hides_it(
    damaged: tuple[Path, int], path: Path, tmp_path: Path
) -> None:
    with pytest.raises(StoreError, match="damaged"):
        back_up(path, tmp_path / "copy.db")
    assert not (tmp_path / "copy.db").exists()
    with pytest.raises(StoreError, match="damaged"):
        restore(path, tmp_path / "other.db")
    assert not (tmp_path / "other.db").exists()


def test_a_sound_backup_replaces_a_damaged_store_which_is_kept(path: Path, tmp_path: Path) -> None:
    back_up(path, tmp_path / "copy.db")
    change(path, FLIP)
    former = restore(tmp_path / "copy.db", path)
    assert former is not None
    assert examine(former).faults
    assert not examine(path).faults


def test_workers_execute_the_others(tmp_path: Path) -> None:
    clock = HandClock()
    store = SqliteStore(tmp_path / "store.db")
    for name in ("first", "second"):
        with_runs(store, clock, 1, name)
    store.close()
    change(
        tmp_path / "store.db",
        "UPDATE event SET body = replace(body, '\"seed\": 0', '\"seed\": 1')"
        " WHERE experiment_id = 'first' AND position = 0",
    )
    store = SqliteStore(tmp_path / "store.db")
    queue = RunQueue(store, clock)
    lease = queue.lease("worker", 30.0, key="key")
    assert lease is not None
    assert lease.experiment_id == "second"
    assert queue.lease("worker", 30.0) is None
    with pytest.raises(DamagedEventError):
        queue.lease("worker", 30.0, "first")
    service = ExperimentService(store, ServiceLog(level="error"), clock=clock)
    service.take_over()
    service.look_after()
    store.close()


def test_the_digest_is_that_of_the_bytes_as_stored(path: Path) -> None:
    connection = sqlite3.connect(path)
    before = b""
    rows = connection.execute(
        "SELECT position, body, digest FROM event WHERE experiment_id = 'first' ORDER BY position"
    ).fetchall()
    for position, body, digest in rows:
        before = hashlib.sha256(before + f"{position} 5 first {body}".encode()).digest()
        assert digest == before
    assert len(rows) > 4
    connection.close()


def old(path: Path) -> None:
    """Make a store one of the version before digests."""
    change(path, "CREATE TABLE old AS SELECT 1")
    connection = sqlite3.connect(path)
    connection.executescript(
        "DROP TABLE old; DROP TABLE output; ALTER TABLE experiment DROP COLUMN tags;"
        "ALTER TABLE experiment DROP COLUMN deleted; ALTER TABLE event DROP COLUMN digest;"
        "PRAGMA user_version = 2"
    )
    connection.close()


def test_an_old_store_opens_and_is_covered_from_then_on(path: Path) -> None:
    old(path)
    assert examine(path).faults == ()
    store = SqliteStore(path)
    assert load_session(store, "first").experiment.best is not None
    store.close()
    assert examine(path).schema == len(MIGRATIONS)
    change(path, FLIP)
    with pytest.raises(DamagedEventError):
        SqliteStore(path).load("first")


@pytest.mark.parametrize("since", [1, 3])
def test_what_is_read_later_is_checked_too(path: Path, since: int) -> None:
    store = SqliteStore(path)
    assert store.load("first", since) == store.load("first")[since:]
    change(path, FLIP)
    with pytest.raises(DamagedEventError):
        store.load("first", since)
    store.close()


Use = Callable[[SqliteStore], object]


@pytest.mark.parametrize("use", [
    lambda store: store.opened("first"),
    lambda store: store.space("first"),
    lambda store: store.sla("first"),
    lambda store: store.lines("first", 0, 1),
])  # fmt: skip
def test_the_opening_is_checked_wherever_it_is_read(path: Path, use: Use) -> None:
    change(path, *DAMAGE["the opening"][0])
    store = SqliteStore(path)
    with pytest.raises(DamagedEventError, match="event 0 "):
        use(store)
    store.close()
