"""Group G, 95 and 96: files of ours that are not as we left them. Refused, and left as they are."""

import hashlib
import json
import os
import pickle
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import pytest

from assistant import Sla, open_session
from assistant.analysis.calibration import load_calibration, read_calibration, write_calibration
from assistant.cli.main import run
from assistant.core.errors import AssistantError, CodecError, StoreError
from assistant.executors.serial import SerialExecutor
from assistant.store.digests import add_digests
from assistant.store.event_store import SqliteStore
from sim.api import ClusterSpec, ResultCache, Scenario, simulate
from sim.generators import default_workload
from tests.assistant.examples import Bowl, TickingClock
from tests.fuzz.corpus import databases
from tests.fuzz.watch import fault_of_sentence

GOOD = databases()[0]


def changed(statement: str, mode: str = "WAL") -> Callable[[Path], None]:
    """A store of ours after a statement of somebody else, who knows how digests are made."""

    def make(path: Path) -> None:
        path.write_bytes(GOOD)
        connection = sqlite3.connect(path)
        connection.execute(f"PRAGMA journal_mode = {mode}")
        connection.executescript(statement)
        add_digests(connection)
        connection.commit()
        connection.close()

    return make


def content(data: bytes) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        path.write_bytes(data)

    return make


def stranger(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE bookmarks (url TEXT)")
    connection.commit()
    connection.close()


RANDOM = np.random.default_rng(1).bytes(20_000)
DAMAGED: dict[str, tuple[Callable[[Path], None], str]] = {
    "G96 of a newer version": (changed("PRAGMA user_version = 99", "DELETE"), "newer Copperline"),
    "G96 of a version below 0": (changed("PRAGMA user_version = -1", "DELETE"), "another program"),
    "G96 of another program": (stranger, "another program"),
    "G96 truncated": (content(GOOD[: len(GOOD) // 2]), "cannot be used: database disk image"),
    "G96 the head alone": (content(GOOD[:100]), "cannot be used"),
    "G96 random bytes": (content(RANDOM), "cannot be used: file is not a database"),
    "G96 random bytes behind the head": (content(GOOD[:100] + RANDOM), "cannot be used"),
    "G96 a pickle": (content(pickle.dumps(list(range(999)))), "file is not a database"),
    "G96 text": (content(b"runs = 3\n" * 99), "file is not a database"),
    "G96 without its table": (
        changed("PRAGMA foreign_keys = OFF; DROP TABLE experiment"),
        "cannot be used: no such table",
    ),
    "G96 an event of a newer version": (
        changed("UPDATE event SET body = replace(body, '\"v\": 3', '\"v\": 9')"), "newer one that"),
    "G96 tags that are no JSON": (
        changed("UPDATE experiment SET tags = '{'"), "list of experiments is damaged"),
    "G96 tags that are numbers": (
        changed("UPDATE experiment SET tags = '[1]'"), "list of experiments is damaged"),
    "G96 an event that is none": (changed("UPDATE event SET body = '[]'"), "not an event"),
    "G96 an event that is a list of its fields": (
        changed("""UPDATE event SET body = '[["type", "finished"], ["v", 2]]'"""), "not an event"),
    "G96 NaN in an event": (
        changed("UPDATE event SET body = replace(body, '1000001.0', '1e999') WHERE position = 0"),
        "not an event"),
}  # fmt: skip


@pytest.mark.parametrize("make,words", DAMAGED.values(), ids=DAMAGED)  # noqa: PT006
def test_a_damaged_store_is_refused_and_stays_as_it_is(
    tmp_path: Path, make: Callable[[Path], None], words: str
) -> None:
    path = tmp_path / "store.db"
    make(path)
    before = hashlib.sha256(path.read_bytes()).hexdigest()

    def use() -> None:
        store = SqliteStore(path)
        try:
            for stored in store.experiments():
                store.load(stored.id)
        finally:
            store.close()

    with pytest.raises(AssistantError, match=words) as caught:
        use()
    assert fault_of_sentence(str(caught.value)) is None
    assert hashlib.sha256(path.read_bytes()).hexdigest() == before


@pytest.mark.parametrize("make,words", DAMAGED.values(), ids=DAMAGED)  # noqa: PT006
def test_commands_over_a_damaged_store_say_one_sentence(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    make: Callable[[Path], None],
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("x,objective\n1,1\n2,2\n")
    path = tmp_path / "store.db"
    make(path)
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    for command in (["experiments"], ["report", "latest", "--out", "r.html"], ["events"]):
        code = run([*command, "--store", str(path)])
        told = capsys.readouterr().err
        if command == ["experiments"] and code == 0:
            continue  # the list looks at no event, and events are what is damaged
        assert code == 2, command
        assert told.startswith("copperline: ")
        assert len(told.strip().splitlines()) == 1, told
    assert hashlib.sha256(path.read_bytes()).hexdigest() == before
    assert not (tmp_path / "r.html").exists()


def linked(path: Path) -> None:
    other = path.with_name("other.db")
    other.write_bytes(GOOD)
    path.symlink_to(other)


PLACES: dict[str, tuple[Callable[[Path], None], str]] = {
    "G96 a folder": (Path.mkdir, "is a folder"),
    "G96 a link to a store": (linked, "is a symbolic link"),
    "G96 a link to nothing": (lambda p: p.symlink_to("nowhere"), "is a symbolic link"),
    "G96 a link to itself": (lambda p: p.symlink_to(p), "symbolic link"),
    "G96 a pipe": (os.mkfifo, "is not a regular file"),
}


@pytest.mark.parametrize("make,words", PLACES.values(), ids=PLACES)  # noqa: PT006
def test_a_place_that_is_no_file(tmp_path: Path, make: Callable[[Path], None], words: str) -> None:
    path = tmp_path / "store.db"
    make(path)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(StoreError, match=words) as caught:
        SqliteStore(path)
    assert fault_of_sentence(str(caught.value)) is None
    assert sorted(tmp_path.iterdir()) == before


NAMES = {
    "G96 NUL": "a\0b.db", "G96 300 characters": "n" * 300, "G96 a file for a folder": "f/store.db",
    "G96 a device": "/dev/null", "G96 in a device": "/dev/null/store.db",
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_names_that_no_store_can_have(tmp_path: Path, name: str) -> None:
    (tmp_path / "f").write_text("")
    with pytest.raises(StoreError) as caught:
        SqliteStore(tmp_path / name)
    assert fault_of_sentence(str(caught.value)) is None
    assert [p.name for p in tmp_path.iterdir()] == ["f"]


@pytest.fixture
def unprivileged() -> Iterator[Path]:
    """A folder as somebody sees it who may not write there; root takes another's rights on."""
    folder = Path(mkdtemp(prefix="copperline-test-"))
    folder.chmod(0o755)
    (folder / "store.db").write_bytes(GOOD)
    (folder / "store.db").chmod(0o444)
    folder.chmod(0o555)
    is_root = hasattr(os, "geteuid") and os.geteuid() == 0
    if is_root:
        os.seteuid(65534)
    try:
        yield folder
    finally:
        if is_root:
            os.seteuid(0)
        folder.chmod(0o755)
        shutil.rmtree(folder)


def test_g96_a_store_that_may_only_be_read(unprivileged: Path) -> None:
    path = unprivileged / "store.db"
    bowl = Bowl()
    with pytest.raises(StoreError, match="cannot be used") as caught:
        open_session(bowl, store=SqliteStore(path), sla=Sla(3), clock=TickingClock(), name="m")
    assert fault_of_sentence(str(caught.value)) is None
    with pytest.raises(StoreError):
        SqliteStore(unprivileged / "new.db")
    assert path.read_bytes() == GOOD


def test_g96_a_full_disk_leaves_what_was_stored(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.write_bytes(GOOD)
    store = SqliteStore(path)
    n_before = len(store.load("n"))
    (n_pages,) = store.connection.execute("PRAGMA page_count").fetchone()
    store.connection.execute(f"PRAGMA max_page_count = {n_pages}")
    bowl = Bowl()

    def fill() -> None:
        for i in range(100):
            open_session(bowl, store=store, clock=TickingClock(), name=f"{i}", experiment_id=f"{i}")

    with pytest.raises(StoreError, match=r"has no space .*: database or disk is full") as caught:
        fill()
    assert fault_of_sentence(str(caught.value)) is None
    assert len(store.load("n")) == n_before
    store.close()
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


def test_g96_what_is_good_is_used(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.write_bytes(GOOD)
    bowl = Bowl()
    session = open_session(
        bowl, store=SqliteStore(path), clock=TickingClock(), name="m", experiment_id="m"
    )
    session.submit(session.suggest(2))
    session.run_queued(SerialExecutor(bowl))
    assert {one.id for one in SqliteStore(path).experiments()} == {"n", "m"}


class Explosive:
    """A pickle of this would make a file."""

    def __reduce__(self) -> tuple[object, tuple[str, str]]:
        return open, ("canary", "w")


def npz_of_objects(path: Path) -> None:
    np.savez(path, start_s=np.array([Explosive()], dtype=object))


def npz_with(**changes: object) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        with np.load(path) as stored:
            columns = dict(stored)
        columns.update(changes)  # type: ignore[arg-type]
        kept = {name: column for name, column in columns.items() if column is not None}
        np.savez(path, **kept)

    return make


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-50])


def bent(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[data.index(b"NUMPY") + 127 + 20] ^= 0xFF  # behind the head of the first column
    path.write_bytes(data)


CACHED: dict[str, Callable[[Path], object]] = {
    "G95 a pickle": lambda p: p.write_bytes(pickle.dumps(Explosive())),
    "G95 objects": npz_of_objects,
    "G95 empty": lambda p: p.write_bytes(b""),
    "G95 random bytes": lambda p: p.write_bytes(RANDOM),
    "G95 truncated": cut,
    "G95 a bent byte": bent,
    "G95 a column is missing": npz_with(end_s=None),
    "G95 a column of texts": npz_with(end_s=np.array(["a", "b"])),
    "G95 a column of two dimensions": npz_with(end_s=np.zeros((3, 3))),
    "G95 a column of another length": npz_with(end_s=np.zeros(3)),
    "G95 a folder": lambda p: (p.unlink(), p.mkdir()),
}


@pytest.mark.parametrize("damage", CACHED.values(), ids=CACHED)
def test_a_damaged_result_is_computed_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: Callable[[Path], object]
) -> None:
    monkeypatch.chdir(tmp_path)
    workload = default_workload(1).head(20)
    scenario = Scenario(workload, ClusterSpec.single(256), too_wide="clip")
    result = simulate(scenario)
    ResultCache(folder=tmp_path / "cache").put(result)
    (path,) = (tmp_path / "cache").rglob("*.npz")
    damage(path)
    cache = ResultCache(folder=tmp_path / "cache")
    assert cache.get(result.scenario_digest) is None
    assert (cache.counts.n_damaged, cache.counts.n_hits) == (1, 0)
    assert not (tmp_path / "canary").exists()


COEFFICIENTS: dict[str, bytes] = {
    "G95 empty": b"",
    "G95 no JSON": b"{",
    "G95 a list": b"[]",
    "G95 another object": b'{"a": 1}',
    "G95 binary": b"\xff\xfe\0",
    "G95 nested to hurt": b"[" * 100_000,
    "G95 a pickle": pickle.dumps({"version": 1}),
}


@pytest.mark.parametrize("data", COEFFICIENTS.values(), ids=COEFFICIENTS)
def test_a_damaged_calibration_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "calibration.json"
    path.write_bytes(data)
    with pytest.raises(CodecError, match="no calibration") as caught:
        read_calibration(path)
    assert fault_of_sentence(str(caught.value)) is None


def test_g95_every_part_of_a_calibration_is_needed_and_is_finite(tmp_path: Path) -> None:
    path = tmp_path / "calibration.json"
    write_calibration(load_calibration(), path)
    assert read_calibration(path) == load_calibration()
    good = json.loads(path.read_text())
    for key in good:
        for value in (None, float("nan"), "x", []):
            path.write_text(json.dumps({**good, key: value}))
            if key in ("fitted", "version") and isinstance(value, str):
                continue
            with pytest.raises(CodecError, match="no calibration"):
                read_calibration(path)
        path.write_text(json.dumps({k: v for k, v in good.items() if k != key}))
        with pytest.raises(CodecError, match="no calibration"):
            read_calibration(path)
