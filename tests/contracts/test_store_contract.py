"""Every store keeps journals whole, in order, and refuses what does not continue them."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from assistant import Sla, open_session
from assistant.client.api import HttpStore
from assistant.core.errors import StoreError
from assistant.core.events import RunRated, RunStarted
from assistant.core.ports import Store
from assistant.executors.serial import SerialExecutor
from assistant.service.store_connection import embedded_service, open_store
from assistant.store import STORES
from assistant.store.event_store import MemoryStore, SqliteStore
from tests.assistant.examples import Bowl, TickingClock

Make = Callable[[], Store]


@pytest.fixture(params=(*STORES, HttpStore), ids=lambda kind: kind.__name__)
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Make]:
    path = tmp_path / "deep" / "er" / "store.db"
    if request.param is SqliteStore:
        yield lambda: SqliteStore(path)
    elif request.param is HttpStore:
        with embedded_service(path):
            yield lambda: open_store(path)
    else:
        memory = MemoryStore()
        yield lambda: memory


def fill(store: Store, name: str = "first") -> str:
    bowl = Bowl()
    session = open_session(
        bowl, store=store, sla=Sla(3), clock=TickingClock(), name=name, experiment_id=name
    )
    session.submit(session.suggest(2))
    session.run_queued(SerialExecutor(bowl))
    return session.id


def test_what_was_appended_is_there_in_order_after_reopening(make: Make) -> None:
    name = fill(make())
    reference = MemoryStore()
    fill(reference)
    loaded, expected = make().load(name), reference.load("first")
    assert [type(e) for e in loaded] == [type(e) for e in expected]
    without_time = [e for e in loaded if not isinstance(e, RunStarted)]
    assert len(without_time) == len(expected) - 2
    assert loaded[0] == expected[0]


def test_a_gap_or_a_second_writer_is_refused_and_nothing_is_stored(make: Make) -> None:
    store = make()
    name = fill(store)
    n = len(store.load(name))
    for position in (n - 1, n + 1):
        with pytest.raises(StoreError, match="was changed by another process"):
            store.append(name, position, [RunStarted(0.0, 1)])
    assert len(store.load(name)) == n


def test_a_taken_name_is_refused(make: Make) -> None:
    store = make()
    fill(store)
    with pytest.raises(StoreError, match="there is an experiment 'first' already"):
        fill(store)


def test_an_unknown_experiment_is_refused_with_those_that_are_known(make: Make) -> None:
    store = make()
    with pytest.raises(StoreError, match="none is stored"):
        store.load("second")
    fill(store)
    with pytest.raises(StoreError, match="known: first"):
        store.load("second")


def test_the_table_of_contents_counts_events_latest_first(make: Make) -> None:
    store = make()
    fill(store, "old")
    bowl = Bowl()
    late = TickingClock()
    late._now_s += 100.0
    open_session(bowl, store=store, clock=late, name="new", experiment_id="new")
    contents = store.experiments()
    assert [e.id for e in contents] == ["new", "old"]
    assert [e.n_events for e in contents] == [1, len(store.load("old"))]


def test_what_is_loaded_is_a_copy(make: Make) -> None:
    store = make()
    name = fill(store)
    before = store.load(name)
    store.append(name, len(before), [RunRated(0.0, 1, True)])
    assert len(before) + 1 == len(store.load(name))


def test_sqlite_refuses_what_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="is a folder"):
        SqliteStore(tmp_path)
    text = tmp_path / "notes.txt"
    text.write_text("this is not a database, but it is long enough to look like one " * 40)
    with pytest.raises(StoreError, match="cannot be used"):
        SqliteStore(text)
    assert text.read_text().startswith("this is not")


def test_sqlite_refuses_a_store_of_a_newer_version(tmp_path: Path) -> None:
    import sqlite3

    path = tmp_path / "new.db"
    SqliteStore(path).close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(StoreError, match="newer Copperline"):
        SqliteStore(path)
