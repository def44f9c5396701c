"""Stores and reports are private, and a store that may not be written can be read.

A superuser ignores permissions: the commands run in a process that has given that up.
"""

import ctypes
import json
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from assistant import Sla, open_session
from assistant.cli.main import run
from assistant.core.errors import StoreError
from assistant.executors.serial import SerialExecutor
from assistant.presentation.report.html import write_page
from assistant.store.event_store import SqliteStore, back_up, examine, restore
from tests.assistant.examples import Bowl
from tests.contracts.test_store_contract import fill
from tests.store.test_digests import old

PR_CAPBSET_DROP = 24
CAPABILITIES = (1, 2)  # CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH, see capabilities(7)

SCRIPT = """
import json, sys
from assistant.cli.main import run
for command in json.loads(sys.argv[1]):
    code = run(command)
    print("\\nCODE", code, flush=True)
    print("\\nCODE", code, flush=True, file=sys.stderr)
"""


def obey_permissions() -> None:
    """Give up what lets a superuser ignore permissions; without effect for others."""
    for capability in CAPABILITIES:
        ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)


def obeyed(folder: Path, commands: Sequence[Sequence[str]]) -> list[tuple[int, str, str]]:
    """Run commands without write permission; return code, output and errors of each."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps(commands)],
        capture_output=True, text=True, check=True, cwd=folder, preexec_fn=obey_permissions,
    )  # fmt: skip
    outputs, errors = (text.split("\nCODE ") for text in (done.stdout, done.stderr))
    codes = [int(part.splitlines()[0]) for part in outputs[1:]]
    said = [
        "\n".join(part.splitlines()[n > 0 :])
        for texts in (outputs, errors)
        for n, part in enumerate(texts[:-1])
    ]
    n = len(codes)
    return list(zip(codes, said[:n], said[n:], strict=True))


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder that becomes read-only with `closed`."""
    place = tmp_path / "archive"
    place.mkdir()
    yield place
    place.chmod(0o700)


def closed(folder: Path) -> Path:
    for path in folder.iterdir():
        path.chmod(0o400)
    folder.chmod(0o500)
    return folder / "store.db"


def made(folder: Path) -> None:
    store = SqliteStore(folder / "store.db")
    bowl = Bowl()
    session = open_session(bowl, store=store, sla=Sla(4), strategy="random", experiment_id="first")
    session.submit(session.suggest(4))
    session.run_queued(SerialExecutor(bowl))
    session.finish("enough")
    store.close()


def commands(path: Path, out: Path, *, all_readers: bool) -> list[list[str]]:
    store = ["--store", str(path)]
    readers = [
        ["effects", "first", *store],
        ["forecast", "first", *store],
        ["events", "first", *store],
        ["report", "first", "--out", str(out / "r.html"), *store],
        ["suggest", "first", *store],
    ]
    return [
        ["experiments", "--json", *store],
        *(readers if all_readers else readers[2:3]),
        ["backup", str(out / "copy.db"), *store],
        ["doctor", "--json", *store],
        ["steer", "first", "--runs", "9", *store],
        ["resume", "first", *store],
    ]


@pytest.mark.parametrize("kind", ["closed", "killed", "old", "used"])
def test_a_store_in_a_read_only_folder_is_read(folder: Path, tmp_path: Path, kind: str) -> None:
    """Closed well; with a log that a killed process left; of the version before; in use."""
    made(folder)
    path, writer = folder / "store.db", None
    if kind == "old":
        old(path)
    elif kind in ("killed", "used"):
        writer = sqlite3.connect(path, isolation_level=None)
        writer.execute("PRAGMA wal_autocheckpoint = 0")
        writer.execute("UPDATE experiment SET name = 'from the log'")
        if kind == "killed":
            for name in ("store.db", "store.db-wal"):
                shutil.copy(folder / name, tmp_path / name)
            writer.close()
            for name in ("store.db", "store.db-wal"):
                shutil.move(tmp_path / name, folder / name)
            (folder / "store.db-shm").unlink(missing_ok=True)
    before = {p.name: p.read_bytes() for p in folder.iterdir() if not p.name.endswith("-shm")}
    out = tmp_path / "out"
    out.mkdir()
    answers = obeyed(out, commands(closed(folder), out, all_readers=kind == "closed"))
    if writer is not None and kind == "used":
        writer.close()
    else:
        assert {p.name: p.read_bytes() for p in folder.iterdir()} == before
    assert [code for code, _, _ in answers] == [0] * (len(answers) - 2) + [2] * 2, answers
    (listed,) = json.loads(answers[0][1])["experiments"]
    assert listed["name"] == ("from the log" if kind in ("killed", "used") else "bowl")
    for _, _, words in answers[-2:]:
        assert len(words.strip().splitlines()) == 1
    assert "may only be read" in answers[-2][2]
    assert json.loads(answers[-3][1])["store"]["faults"] == []
    assert examine(out / "copy.db").experiments == 1


def test_a_store_of_another_user_is_refused_in_one_sentence(folder: Path, tmp_path: Path) -> None:
    made(folder)
    (folder / "store.db").chmod(0o000)
    ((code, _, words),) = obeyed(tmp_path, [["experiments", "--store", str(folder / "store.db")]])
    assert code == 2
    assert len(words.strip().splitlines()) == 1


def test_nothing_is_written_to_a_store_that_is_only_read(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    fill(SqliteStore(path))
    store = SqliteStore(path, read_only=True)
    assert store.load("first")
    with pytest.raises(StoreError, match="may only be read"):
        fill(store, "second")
    store.close()
    with pytest.raises(StoreError):
        SqliteStore(tmp_path / "none.db", read_only=True)
    assert not (tmp_path / "none.db").exists()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def test_stores_and_reports_are_private(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, open_umask: None
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "copperline-out" / "experiments.db"
    store = SqliteStore(path)
    fill(store)
    back_up(path, tmp_path / "copy.db")
    made_by_store = ("experiments.db", "experiments.db-wal", "experiments.db-shm")
    modes = {p.name: mode(p) for p in path.parent.iterdir()}
    assert modes == dict.fromkeys(made_by_store, 0o600)
    store.close()
    assert mode(tmp_path / "copy.db") == 0o600
    former = restore(tmp_path / "copy.db", path)
    assert former is not None
    assert (mode(path), mode(former)) == (0o600, 0o600)
    old(path)
    assert run(["report", "first", "--store", str(path)]) == 0
    for made_file in (tmp_path / "copperline-out").iterdir():
        assert mode(made_file) == 0o600, made_file
    assert list(path.parent.glob("*.backup"))
    assert list(path.parent.glob("*.html"))


def test_what_a_person_shares_stays_shared(tmp_path: Path) -> None:
    path, page, copy = tmp_path / "store.db", tmp_path / "r.html", tmp_path / "copy.db"
    fill(SqliteStore(path))
    back_up(path, copy)
    path.chmod(0o640)
    restore(copy, path)
    page.touch(0o644)
    page.chmod(0o644)
    write_page("<html></html>", page)
    assert (mode(path), mode(page)) == (0o640, 0o644)
