"""One process at a time executes an experiment by itself; the kernel takes the right back."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from assistant.cli.main import run
from assistant.core.errors import ExperimentError, StoreError
from assistant.session.execution import ExecutionLock

HOLDER = """
import sys, time
from pathlib import Path
from assistant.session.execution import ExecutionLock
held = ExecutionLock(Path(sys.argv[1]), sys.argv[2])
print("held", flush=True)
sys.stdin.read()
"""


def holder(store: Path, name: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(store), name],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def ended(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate()


def test_only_one_process_executes_an_experiment_until_it_is_killed(tmp_path: Path) -> None:
    store = tmp_path / "store.db"
    process = holder(store, "a")
    try:
        with pytest.raises(ExperimentError, match="another process executes experiment 'a'"):
            ExecutionLock(store, "a")
        with ExecutionLock(store, "b"):  # another experiment of the same store
            pass
    finally:
        ended(process)
    with ExecutionLock(store, "a"):
        with pytest.raises(ExperimentError):
            ExecutionLock(store, "a")
        if (child := os.fork()) == 0:  # a child does not hold it beyond its parent
            os._exit(0)
        os.waitpid(child, 0)
        with pytest.raises(ExperimentError):
            ExecutionLock(store, "a")
    with ExecutionLock(store, "a"):
        pass


def test_where_no_lock_can_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "store.db.running").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match=r"cannot make the lock file '.*'"):
        ExecutionLock(tmp_path / "store.db", "a")


@pytest.mark.soak
def test_a_living_sweep_is_not_taken_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    store = tmp_path / "store.db"
    (tmp_path / "t.csv").write_text("x,objective\n" + "".join(f"{i},{i}\n" for i in range(9)))
    command = ["sweep", "--table", "t.csv", "--store", str(store), "--name", "held", "--json"]
    assert run([*command, "--runs", "3"]) in (0, 3)
    capsys.readouterr()
    name = next(tmp_path.glob("copperline-out/*.html")).stem
    process = holder(store, name)
    try:
        assert run(["resume", name, "--runs", "5", "--store", str(store)]) == 2
        assert f"another process executes experiment '{name}'" in capsys.readouterr().err
    finally:
        ended(process)
    assert run(["resume", name, "--runs", "5", "--store", str(store), "--json"]) in (0, 3)
