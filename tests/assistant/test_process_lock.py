"""The one lock between processes: one byte of a file, given back by the kernel."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from assistant.core.errors import StoreError
from assistant.core.process_lock import ProcessLock, is_locked, lock_content

HOLD = """
import sys
from pathlib import Path
from assistant.core.errors import StoreError
from assistant.core.process_lock import ProcessLock
lock = ProcessLock.take(Path(sys.argv[1]), raises=StoreError)
print(lock is not None, flush=True)
sys.stdin.read()
"""


def take(path: Path, offset: int = 0) -> ProcessLock | None:
    return ProcessLock.take(path, raises=StoreError, offset=offset)


def test_a_killed_process_gives_its_lock_back(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    assert not is_locked(path)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "True\n"
        assert (take(path), is_locked(path)) == (None, True)
        process.kill()
    assert not is_locked(path)
    with take(path) as lock:  # type: ignore[union-attr]
        assert lock.is_held


def test_bytes_are_locked_each_for_itself_and_asking_takes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with take(path) as first, take(path, 2**40) as second:  # type: ignore[union-attr]
        assert first.is_held
        assert second.is_held
        assert [is_locked(path, at) for at in (0, 1, 2**40)] == [True, False, True]
        assert take(path) is None
    assert not is_locked(path)


def test_a_forked_child_does_not_hold_it_and_does_not_release_it(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    lock = take(path)
    assert lock is not None
    if (child := os.fork()) == 0:
        os._exit(1 if lock.is_held else 0)
    assert os.waitpid(child, 0)[1] == 0
    assert is_locked(path)
    lock.release()
    assert not is_locked(path)


def test_the_content_is_read_while_the_lock_is_held(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    lock = take(path)
    assert lock is not None
    lock.write(b"longer")
    lock.write(b"7")
    assert lock_content(path) == b"7"
    lock.release()
    lock.write(b"nothing")
    assert lock_content(path) is None
    assert path.read_bytes() == b"7"


def test_a_lock_whose_file_was_removed_meanwhile_counts_for_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "lock"
    real, removed = fcntl.fcntl, list[int]()

    def remove_once(descriptor: int, command: int, request: bytes) -> bytes:
        if not removed:
            removed.append(descriptor)
            path.unlink()  # by the process that held it, between our open and our lock
        return real(descriptor, command, request)

    monkeypatch.setattr(fcntl, "fcntl", remove_once)
    with take(path) as lock:  # type: ignore[union-attr]
        assert os.path.samestat(os.fstat(lock.descriptor or 0), path.stat())
        assert is_locked(path)


def test_where_no_lock_can_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    for path in (tmp_path, tmp_path / "none" / "lock", tmp_path / "link"):
        with pytest.raises(StoreError, match=f"cannot make the lock file '{path}'"):
            take(path)
