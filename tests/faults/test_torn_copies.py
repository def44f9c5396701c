"""Copies that lack the end of the write-ahead log open to an earlier moment, whole."""

import json
import shutil
import sqlite3
from pathlib import Path

import pytest

from assistant.executors.serial import SerialExecutor
from assistant.store.event_store import SqliteStore
from tests.assistant.examples import Hills
from tests.faults.checker import check
from tests.faults.history import World, finish, steps
from tests.faults.test_crash_points import Copies
from tests.faults.wire import PLAIN_CONNECT, Fault, wired

CUT = 4096


def contents(path: Path) -> str:
    connection = PLAIN_CONNECT(path)
    try:
        return "\n".join(connection.iterdump())
    finally:
        connection.close()


class Moments(Fault):
    """Notes what the file holds after every transaction."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self.seen = {contents(path)}

    def after(self, number: int, sql: str) -> None:
        if sql == "COMMIT":
            self.seen.add(contents(self._path))


def copies_of(path: Path, folder: Path) -> list[Path]:
    """Return copies: without a log, and with the log cut at each 4 KiB."""
    log = path.with_name(f"{path.name}-wal").read_bytes()
    torn = []
    for size in (*range(0, len(log), CUT), len(log)):
        copy = folder / f"torn-{size}.db"
        shutil.copyfile(path, copy)
        if size:
            copy.with_name(f"{copy.name}-wal").write_bytes(log[:size])
        torn.append(copy)
    return torn


@pytest.mark.parametrize("checkpoint_at", [None, "claim what expired"])
def test_a_log_that_is_cut_is_an_earlier_moment(folder: Path, checkpoint_at: str | None) -> None:
    path = folder / "store.db"
    moments = Moments(path)
    with wired(moments):
        world = World(path, lambda _ack: None)
        for name, step in steps():
            step(world)
            if name == checkpoint_at:
                world.store.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    torn = copies_of(path, folder)
    found = []
    for number, copy in enumerate(torn):
        found.append(contents(copy))
        assert found[-1] in moments.seen, copy.name
        assert check(copy) == []
        if number % 7 == 0:
            finish(copy)
            assert check(copy, ended=True) == []
    assert found[-1] == contents(path)
    assert len(set(found)) > 10
    print(json.dumps({"torn copies": len(torn), "moments": len(set(found))}))  # noqa: T201
    world.store.close()


def older(path: Path) -> tuple[object, ...]:
    """Make a store of the first schema; return its journal."""
    world = World(path, lambda _ack: None)
    world.open()
    world.begin("hills")
    for level in range(4):
        world.include("hills", a=level)
    session = world.sessions["hills"]
    session.run_queued(SerialExecutor(Hills()))
    world.include("hills", b=3)
    session.close_level("a", 4)
    session.finish("enough")
    journal = world.store.load("hills")
    world.store.close()
    old = sqlite3.connect(path)
    for table in ("output", "reply", "lease", "attempt", "run", "experiment"):
        old.execute(f"DROP TABLE {table}")
    old.execute("ALTER TABLE event DROP COLUMN digest")
    old.execute("PRAGMA user_version = 1")
    old.commit()
    old.close()
    return journal


def test_a_kill_at_every_statement_of_a_migration(folder: Path) -> None:
    path = folder / "store.db"
    journal = older(path)
    (folder / "copies").mkdir()
    copies = Copies(path, folder / "copies", [])
    with wired(copies):
        SqliteStore(path).close()
    assert len(copies.points) > 100
    for at, _ in copies.points:
        store = SqliteStore(at)
        assert store.load("hills") == journal
        store.close()
        assert check(at) == []
