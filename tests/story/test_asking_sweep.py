"""A sweep file whose program asks for its runs: the command serves, waits, and goes on."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from signal import SIGINT
from typing import Any

import httpx
import pytest

from assistant.cli.main import run
from assistant.core.run import RunState
from assistant.session.opening import load_session
from assistant.store.event_store import SqliteStore

PATIENCE_S = 240
SWEEP = """
name = "solver"
runs = 6
initial = 3

[application]
kind = "rest"

[objective]
minimise = "time_s"

[[parameters]]
name = "threads"
levels = [1, 2, 4, 8]

[[parameters]]
name = "mode"
levels = ["fast", "exact"]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "sweep.toml").write_text(SWEEP)
    return tmp_path


def until(what: Callable[[], Any], process: subprocess.Popen[str]) -> Any:
    """Return what there is once there is something."""
    until_s = time.monotonic() + PATIENCE_S
    while not (found := what()):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until_s
        threading.Event().wait(0.02)
    return found


@contextmanager
def sweeping(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "assistant.cli", *arguments, "--store", "store.db"]
    process = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def let_in(folder: Path, process: subprocess.Popen[str], at_s: float = 0.0) -> httpx.Client:
    """Return a client for the program, as the file says that was written after a time."""
    file: Path = until(
        lambda: next((p for p in folder.glob("*.adapter") if p.stat().st_mtime > at_s), None),
        process,
    )
    assert file.stat().st_mode & 0o777 == 0o600
    told = dict(line.partition("=")[::2] for line in file.read_text().splitlines())
    headers = {"Authorization": f"Bearer {told['token']}"}
    return httpx.Client(base_url=told["url"], headers=headers, trust_env=False, timeout=240)


def make(program: httpx.Client, process: subprocess.Popen[str], most: int = 100) -> int:
    """Make so many runs at most; return how many there were until the end was told."""
    for made in range(most):
        answer = until(
            lambda: (got := program.post("/v1/leases")).status_code != 204 and got, process
        )
        if answer.status_code == 410:
            return made
        lease = answer.json()
        values = lease["values"]
        measures = {"time_s": values["threads"] + 80 / values["threads"] + len(values["mode"])}
        path = f"/v1/leases/{lease['token']}/result"
        assert program.post(path, json={"measures": measures}).status_code == 200
    return most


@pytest.mark.soak
@pytest.mark.slow
def test_a_sweep_is_interrupted_and_goes_on_and_its_program_is_told_the_end(folder: Path) -> None:
    with sweeping(folder, "sweep", "sweep.toml") as process:
        with let_in(folder, process) as program:
            assert make(program, process, 2) == 2
        at_s = time.time()
        process.send_signal(SIGINT)
        _, errors = process.communicate(timeout=PATIENCE_S)
        assert "; continue with: copperline resume solver-" in errors
    with sweeping(folder, "resume", "latest", "--json") as process:
        with let_in(folder, process, at_s) as program:
            assert make(program, process) == 4
        printed, errors = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0, errors
    summary = json.loads(printed)
    store = SqliteStore(folder / "store.db")
    (one,) = store.experiments()
    experiment = load_session(store, one.id).experiment
    assert experiment.finished is not None
    assert experiment.finished.reason == "the budget of 6 runs is used up"
    assert len(experiment.runs_in(RunState.COMPLETED)) == 6
    assert Path(folder, summary["report"]).exists()


@pytest.mark.parametrize(
    ("text", "arguments", "words"),
    [
        (SWEEP, ("--executor", "process_pool"), "remove --executor"),
        (SWEEP + "\n[hooks]\non_finish = ['true']\n", (), "no hooks"),
        (SWEEP.replace('kind = "rest"', 'kind = "rest"\nlimit = "1 min"'), (), "run_limit"),
    ],
)
def test_what_such_a_sweep_cannot_have_is_said_in_a_sentence(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    text: str,
    arguments: tuple[str, ...],
    words: str,
) -> None:
    (tmp_path / "sweep.toml").write_text(text)
    store = tmp_path / "store.db"
    assert run(["sweep", str(tmp_path / "sweep.toml"), "--store", str(store), *arguments]) == 2
    assert words in " ".join(capsys.readouterr().err.split())
    assert not store.exists()
