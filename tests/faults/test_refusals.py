"""A medium that refuses: no room, a broken disk, a lock that is not given back.

Every call then says it in one error of ours, leaves nothing half stored and nothing locked, and
the same call works once the medium does.
"""

import resource
import sqlite3
from pathlib import Path

import pytest

from assistant.core.errors import StoreError, StoreFullError
from assistant.store.event_store import SqliteStore
from tests.faults.checker import check
from tests.faults.history import Ack, Step, World, opening, play, steps
from tests.faults.wire import Fault, Refusal, wired

SAYINGS = {
    "database or disk is full": StoreFullError,
    "disk I/O error": StoreError,
    "database is locked": StoreError,
}


def play_against(path: Path, refusal: Refusal, kind: type[StoreError]) -> list[Ack]:
    """Play the history; a call that is refused is made again. Return what was acknowledged."""
    told: list[Ack] = []
    world = World(path, told.append)
    for name, step in steps():
        while not taken(world, step, kind, refusal):
            unlocked(path)
            assert check(path, told) == [], name
    world.store.close()
    return told


def taken(world: World, step: Step, kind: type[StoreError], fault: Fault | None = None) -> bool:
    """Make a call; return whether it was carried out, and not refused in one sentence of ours."""
    try:
        with wired(fault or Fault()):
            step(world)
    except StoreError as refused:
        if type(refused) is not kind or str(world.path) not in str(refused):
            raise
        return False
    return True


def unlocked(path: Path) -> None:
    other = sqlite3.connect(path, timeout=0, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    other.execute("ROLLBACK")
    other.close()


def gone_on(folder: Path, numbers: range, text: str, times: int) -> int:
    """Refuse one statement after the other; the history comes to the same end each time."""
    expected: list[Ack] = []
    counting = Fault()
    with wired(counting):
        world = World(folder / "unbroken.db", expected.append)
        play(world)
    n = len(counting.statements)
    for number in range(1, n + 1)[numbers.start :: numbers.step]:
        path = folder / f"{number}.db"
        refusal = Refusal(number, text, times)
        told = play_against(path, refusal, SAYINGS[text])
        assert 1 <= refusal.n_refused <= times
        assert kinds(told) == kinds(expected), number
        assert check(path, told) == [], number
        for left in folder.glob(f"{number}.db*"):
            left.unlink()
    return n


def kinds(told: list[Ack]) -> list[str]:
    return [one["told"] for one in told if one["told"] != "asked"]


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("text", SAYINGS)
def test_some_refused_statements(folder: Path, text: str, times: int) -> None:
    gone_on(folder, range(times, 1000, 23), text, times)


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("text", SAYINGS)
def test_every_refused_statement(folder: Path, text: str, times: int) -> None:
    turn = times * len(SAYINGS)  # each statement is refused in one of the words
    n = gone_on(folder, range(times * [*SAYINGS].index(text), 1000, turn), text, times)
    print(f"{n} statements refused: {text}, {times} in a row")  # noqa: T201


def fill(world: World, level: int) -> None:
    world.include("hills", a=level % 5, b=level // 5 % 5, c=level // 25 % 5)


def begun(path: Path, told: list[Ack]) -> World:
    world = World(path, told.append)
    world.open()
    world.begin("hills")
    world.activate("hills", True)
    return world


def test_no_room_said_by_sqlite_itself(folder: Path) -> None:
    told: list[Ack] = []
    path = folder / "store.db"
    world = begun(path, told)
    fill(world, 0)
    world.lease("ann")
    (pages,) = world.store.connection.execute("PRAGMA page_count").fetchone()
    world.store.connection.execute(f"PRAGMA max_page_count = {pages}")
    full_at = next(
        level
        for level in range(1, 125)
        if not taken(world, lambda w, level=level: fill(w, level), StoreFullError)
    )
    unlocked(path)
    assert check(path, told) == []
    world.store.connection.execute("PRAGMA max_page_count = 100000")
    fill(world, full_at)
    world.complete("ann")
    assert check(path, told) == []


def test_a_file_that_may_not_grow(folder: Path) -> None:
    """The system refuses the write in the middle of a commit: EFBIG from a limit of file sizes."""
    told: list[Ack] = []
    path = folder / "store.db"
    world = begun(path, told)
    fill(world, 0)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    n_refused = 0
    for level in range(1, 40):
        size = path.with_name("store.db-wal").stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 1000 * level, before[1]))
        try:
            fill(world, level)
        except StoreError:
            n_refused += 1
        else:
            continue
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        unlocked(path)
        assert check(path, told) == []
        fill(world, level)
    assert n_refused > 5
    assert check(path, told) == []


def test_a_file_that_may_only_be_read(folder: Path) -> None:
    path = folder / "store.db"
    told: list[Ack] = []
    world = begun(path, told)
    fill(world, 0)
    world.store.connection.execute("PRAGMA query_only = 1")
    for call in (
        lambda: fill(world, 1),
        lambda: world.lease("ann"),
        lambda: world.store.append("more", 0, [opening("more")]),
    ):
        with pytest.raises(StoreError, match="readonly"):
            call()
    world.store.connection.execute("PRAGMA query_only = 0")
    world.lease("ann")
    assert check(path, told) == []


def test_somebody_who_holds_the_file_is_waited_for(folder: Path) -> None:
    path = folder / "store.db"
    told: list[Ack] = []
    world = begun(path, told)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    world.store.connection.execute("PRAGMA busy_timeout = 10")
    with pytest.raises(StoreError, match="locked"):
        fill(world, 0)
    other.execute("ROLLBACK")
    fill(world, 0)
    assert check(path, told) == []
    assert SqliteStore(path).length("hills") == 2
