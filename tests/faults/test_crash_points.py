"""Crash points: the history dies before and after every statement, and every promise still holds.

What a process that is killed leaves behind is what its files hold at that moment, whether or not
a transaction is under way: copies taken there stand for it at every statement. Processes that die
indeed, and code that unwinds while nothing reaches the file any more, are tried as well.
"""

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.faults.checker import check
from tests.faults.history import Ack, World, finish, play
from tests.faults.wire import Death, Died, Fault, wired

N_QUICK = 25
"""Points of each kind that are tried by default; the soak tries them all."""


def statements(folder: Path) -> list[str]:
    """Play the unbroken history; return its statements."""
    counting = Fault()
    with wired(counting):
        world = World(folder / "unbroken.db", lambda _ack: None)
        play(world)
    world.store.close()
    return counting.statements


def kept(path: Path, acknowledged: list[Ack], leases: object = None) -> None:
    """Check what was left behind, end it all, and check again."""
    assert check(path, acknowledged) == [] or not (path.exists() or acknowledged)
    finish(path, leases)  # type: ignore[arg-type]
    # what is paused now is none of the client's doing
    told = [ack for ack in acknowledged if ack["told"] not in ("active", "asked")]
    assert check(path, told, ended=True) == []


class Copies(Fault):
    """Copies the files before and after each statement, as a kill would leave them."""

    def __init__(self, path: Path, target: Path, acknowledged: list[Ack]) -> None:
        super().__init__()
        self._path, self._target, self._acknowledged = path, target, acknowledged
        self.points: list[tuple[Path, int]] = []
        self.world: World | None = None

    def before(self, number: int, sql: str) -> None:
        self._copy(f"{number}-before")

    def after(self, number: int, sql: str) -> None:
        self._copy(f"{number}-after")

    def _copy(self, name: str) -> None:
        at = self._target / f"{name}.db"
        for suffix in ("", "-wal"):
            source = Path(f"{self._path}{suffix}")
            if source.exists():
                shutil.copyfile(source, f"{at}{suffix}")
        self.points.append((at, len(self._acknowledged)))


@pytest.mark.soak
def test_a_kill_at_every_statement_loses_and_doubles_nothing(folder: Path) -> None:
    n, n_kills = kill_at_statements(folder, each=1)
    print(json.dumps({"statements": n, "kills": n_kills}))  # noqa: T201
    assert n > 300


def kill_at_statements(folder: Path, each: int) -> tuple[int, int]:
    """Go on from every ``each``-th point; return how many statements there are, and such points."""
    acknowledged: list[Ack] = []
    copies = Copies(folder / "store.db", folder, acknowledged)
    with wired(copies):
        world = World(folder / "store.db", acknowledged.append)
        play(world)
    world.store.close()
    assert len(copies.points) == 2 * len(copies.statements)
    points = copies.points[::each]
    for path, n_told in points:
        kept(path, acknowledged[:n_told], world.leases)
    return len(copies.statements), len(points)


def unwind(folder: Path, number: int, is_after: bool) -> None:
    """Let nothing reach the file any more from one statement on, and the code find its way out."""
    path, acknowledged = folder / "store.db", list[Ack]()
    death = Death(number, is_after)
    world = World(path, acknowledged.append)
    with wired(death), pytest.raises(Died):
        play(world)
    if hasattr(world, "store"):
        world.store.connection.close()
    kept(path, acknowledged, world.leases)


def die(folder: Path, number: int, is_after: bool) -> None:
    """Play the history in a process of its own that ends at one statement, without a word."""
    path, log = folder / "store.db", folder / "told.jsonl"
    log.touch()
    process = os.fork()
    if process == 0:
        target = os.open(log, os.O_WRONLY | os.O_APPEND)
        world = World(path, lambda ack: os.write(target, _line(ack)))
        with wired(Death(number, is_after, lambda: os._exit(9))):
            play(world)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 9
    kept(path, [json.loads(line) for line in log.read_text().splitlines()])


def _line(ack: Ack) -> bytes:
    return json.dumps(ack).encode() + b"\n"


def tried(folder: Path, way: object, numbers: range) -> None:
    for number in numbers:
        for is_after in (False, True):
            at = folder / f"{number}-{is_after}"
            at.mkdir()
            way(at, number, is_after)  # type: ignore[operator]
            shutil.rmtree(at)


@pytest.mark.parametrize("way", [unwind, die])
def test_a_death_at_some_statements(folder: Path, way: object) -> None:
    n = len(statements(folder))
    tried(folder, way, range(1, n + 1, n // N_QUICK))


@pytest.mark.soak
def test_a_death_at_every_third_statement(folder: Path) -> None:
    n = len(statements(folder))
    numbers = range(1, n + 1, 3)
    tried(folder, unwind, numbers)
    print(json.dumps({"statements": n, "deaths": 2 * len(numbers)}))  # noqa: T201
