"""The key of a store between real processes: one holds it, and the kernel takes it back."""

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from assistant.core.errors import ServiceError
from assistant.service.store_lock import Endpoint, StoreLock, find_endpoint, is_store_locked

ROOT = Path(__file__).parents[2]
# The packages themselves are left empty: importing all of them takes a second in each process.
HOLD = """
import os, sys, types
from pathlib import Path
for name in ("assistant", "sim", "strategies"):
    package = types.ModuleType(name)
    package.__path__ = [os.path.join(sys.argv[2], name)]
    sys.modules[name] = package
from assistant.service.store_lock import StoreLock
key = StoreLock.take(Path(sys.argv[1]))
if key is None:
    print("held", flush=True)
    sys.exit()
key.publish("http://127.0.0.1:1", "secret")
child = os.fork() if "fork" in sys.argv else -1
if child == 0:
    os.close(1)
    sys.stdin.read()  # lives on after its parent
    os._exit(0)
print(f"taken {child}", flush=True)
sys.stdin.readline()
key.release()
print("released", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "sweeps.db"


@contextmanager
def holder(store: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-I", "-c", HOLD, str(store), str(ROOT), *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_one_process_holds_the_key_and_says_where_it_serves(store: Path) -> None:
    assert (find_endpoint(store), is_store_locked(store)) == (None, False)
    with holder(store) as process, holder(store) as second:
        words = {line(process), line(second)}
        assert words == {"taken -1", "held"}
    with holder(store) as process:
        assert line(process) == "taken -1"
        assert is_store_locked(store)
        assert StoreLock.take(store, patience_s=0.0) is None
        endpoint = find_endpoint(store)
        assert endpoint == Endpoint("http://127.0.0.1:1", process.pid, "secret")
        assert "secret" not in repr(endpoint)
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
        assert line(process) == "released"
        assert find_endpoint(store) is None
        with StoreLock.take(store) as key:  # type: ignore[union-attr]
            assert key.store == store


def test_kill_9_frees_the_key_and_its_stale_file_is_not_believed(store: Path) -> None:
    with holder(store) as process:
        assert line(process) == "taken -1"
        process.send_signal(signal.SIGKILL)
        process.wait()
    said = store.with_name("sweeps.db.service")
    assert said.exists()
    assert find_endpoint(store) is None
    key = StoreLock.take(store)
    assert key is not None
    assert not said.exists()
    assert find_endpoint(store) is None  # held, but served nowhere yet
    key.release()


def test_a_forked_child_does_not_keep_the_key_of_its_killed_parent(store: Path) -> None:
    with holder(store, "fork") as process:
        child = int(line(process).split()[1])
        process.send_signal(signal.SIGKILL)
        process.wait()
        os.kill(child, 0)  # it lives
        key = StoreLock.take(store, patience_s=120.0)  # the child closes its copy first
        assert key is not None
        key.release()
        os.kill(child, signal.SIGKILL)


def test_files_are_for_their_owner_alone(store: Path) -> None:
    before = os.umask(0)
    try:
        key = StoreLock.take(store)
        assert key is not None
        key.publish("http://127.0.0.1:1", "one")
        key.publish("http://127.0.0.1:2", "two")
    finally:
        os.umask(before)
    modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in store.parent.iterdir()}
    assert modes == {"sweeps.db.key": 0o600, "sweeps.db.service": 0o600}
    assert find_endpoint(store) == Endpoint("http://127.0.0.1:2", os.getpid(), "two")
    key.release()
    key.release()
    assert [p.name for p in store.parent.iterdir()] == ["sweeps.db.key"]
    with pytest.raises(ServiceError, match="is released"):
        key.publish("http://127.0.0.1:1", "x")


def test_a_link_has_the_key_of_its_store(store: Path) -> None:
    store.parent.mkdir()
    link = store.with_name("link.db")
    link.symlink_to(store)
    with StoreLock.take(store) as key:  # type: ignore[union-attr]
        assert key is not None
        assert StoreLock.take(link, patience_s=0.0) is None


def test_the_lock_is_waited_for(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = StoreLock.take(store)
    assert first is not None
    monkeypatch.setattr("assistant.service.store_lock.time.sleep", lambda _s: first.release())
    with StoreLock.take(store, patience_s=120.0) as second:  # type: ignore[union-attr]
        assert second.store == store


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "damaged: not JSON"),
        ("[]", "lacks the address"),
        (json.dumps({"url": "http://127.0.0.1:1", "pid": 7}), "lacks the address"),
        (json.dumps({"url": "file:///etc", "pid": 7, "token": "x"}), "lacks the address"),
        (json.dumps({"url": 1, "pid": 7, "token": "x"}), "lacks the address"),
    ],
)
def test_a_damaged_file_is_refused(store: Path, content: str, words: str) -> None:
    with StoreLock.take(store) as key:  # type: ignore[union-attr]
        key.publish("http://127.0.0.1:1", "x")
        said = store.with_name("sweeps.db.service")
        said.write_text(content)
        with pytest.raises(ServiceError, match=words):
            find_endpoint(store)
        said.chmod(0o644)
        with pytest.raises(ServiceError, match="chmod 600"):
            find_endpoint(store)


def test_a_folder_that_cannot_be_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ServiceError, match=r"cannot make the lock file.*must be writable"):
        StoreLock.take(tmp_path / "file" / "x.db")
    (tmp_path / "x.db.key").mkdir()
    with pytest.raises(ServiceError, match="cannot make the lock file"):
        StoreLock.take(tmp_path / "x.db")
