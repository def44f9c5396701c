"""The page about programs that ask for their runs: what it shows runs, on curl and on node."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from agents import Follower
from assistant import Session
from assistant.executors import make_executor
from assistant.opening import load_session
from assistant.service.endpoint import find
from assistant.settings import build_sweep, check_settings
from assistant.starting import open_sweep
from assistant.store import MemoryStore, SqliteStore
from tests.service.examples import eventually

pytestmark = pytest.mark.slow
PATIENCE_S = 120
SOLVER = """#!/bin/sh
echo computing
echo $(($1 * 3 + 80 / $1 + ${#2}))
"""
FUNCTION = """
def solve(threads: int, mode: str) -> dict[str, float]:
    return {"time_s": threads * 3 + 80 // threads + len(mode)}
"""


def blocks(repository: Path) -> dict[str, str]:
    page = (repository / "docs" / "adapters.md").read_text()
    asking = page[page.index("## Your program asks Copperline") :]
    found = re.findall(r"```(json|sh|js)\n(.*?)```", asking, re.DOTALL)
    assert [kind for kind, _ in found] == ["json", "sh", "js"]
    return dict(found)


@pytest.fixture
def folder(tmp_path: Path, repository: Path) -> Path:
    told = blocks(repository)
    (tmp_path / "solver.json").write_text(told["json"])
    (tmp_path / "adapter.sh").write_text(told["sh"])
    (tmp_path / "adapter.mjs").write_text(told["js"])
    solver = tmp_path / "solver"
    solver.write_text(SOLVER)
    solver.chmod(0o755)
    return tmp_path


@contextmanager
def served(folder: Path) -> Iterator[dict[str, str]]:
    """Serve a store by the command itself. Yields the environment of an adapter."""
    store = folder / "experiments.db"
    command = [sys.executable, "-m", "assistant.cli", "serve", "--port", "0", "--execute"]
    with (folder / "service.log").open("wb") as log:
        service = subprocess.Popen([*command, "--store", str(store)], stdout=log, stderr=log)
        try:
            assert eventually(lambda: service.poll() is not None or find(store) is not None)
            endpoint = find(store)
            assert endpoint is not None, (folder / "service.log").read_text()
            tokens = f"{store}.tokens"
            yield {**os.environ, "COPPERLINE": endpoint.url, "TOKENS": tokens}
        finally:
            service.send_signal(signal.SIGTERM)
            service.wait(PATIENCE_S)


def adapted(folder: Path, environment: dict[str, str], *command: str) -> str:
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=PATIENCE_S,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, (done.stdout, done.stderr, (folder / "service.log").read_text())
    return done.stdout


def stored(folder: Path) -> Session:
    store = SqliteStore(folder / "experiments.db")
    (one,) = store.experiments()
    return load_session(store, one.id)


def made(session: Session) -> list[Any]:
    """Return what came of each run, in the order of their submission."""
    experiment = session.experiment
    return [
        (run.id, dict(experiment.space.values(run.configuration)), run.seed, run.reason, run.batch,
         None if run.outcome is None else (run.outcome.value, dict(run.outcome.measures)))
        for run in experiment.runs
    ]  # fmt: skip


def in_one_process(folder: Path) -> Session:
    """Make the same sweep of a function, by the serial executor."""
    (folder / "solving.py").write_text(FUNCTION)
    told = json.loads((folder / "solver.json").read_text())["settings"]
    function = {"kind": "function", "function": "solving:solve", "folder": str(folder)}
    built = build_sweep(check_settings({**told, "application": function}, "the test"))
    session = open_sweep(built, MemoryStore(), "solver", "")
    with make_executor(built.application, 1) as executor:
        settings = built.settings
        agent = Follower(settings.initial, settings.batch, advice=settings.advice)
        session.finish(agent.steer(session, executor))
    return session


def test_curl_and_a_shell_make_the_sweep_that_a_function_makes(folder: Path) -> None:
    with served(folder) as environment:
        printed = adapted(folder, environment, "sh", "adapter.sh")
    session, alone = stored(folder), in_one_process(folder)
    assert made(session) == made(alone)
    assert len(made(session)) == 8
    finished, expected = session.experiment.finished, alone.experiment.finished
    assert finished is not None
    assert expected is not None
    assert finished.reason == expected.reason
    best = session.experiment.best
    assert best is not None
    values = session.experiment.space.values(best.configuration)
    lines = printed.splitlines()
    assert lines[0] == finished.reason
    assert f"values.threads={values['threads']}" in lines
    assert f"values.mode={values['mode']}" in lines
    reported = [event for event in session.events() if type(event).__name__ == "RunReported"]
    assert len(reported) == 8
    assert all(run.duration_s is not None and run.duration_s > 0 for run in session.experiment.runs)


def test_node_makes_it_too(folder: Path) -> None:
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    with served(folder) as environment:
        printed = adapted(folder, environment, "node", "adapter.mjs")
    session = stored(folder)
    assert made(session) == made(in_one_process(folder))
    assert session.experiment.finished is not None
    assert printed.splitlines()[0] == session.experiment.finished.reason


def test_a_solver_that_fails_is_a_failed_run_and_the_sweep_goes_on(folder: Path) -> None:
    (folder / "solver").write_text(
        "#!/bin/sh\n[ $1 = 8 ] && exit 3\n[ $1 = 4 ] && echo 1,5 && exit\necho $1\n"
    )
    with served(folder) as environment:
        adapted(folder, environment, "sh", "adapter.sh")
    session = stored(folder)
    experiment = session.experiment
    for run in experiment.runs:
        threads = experiment.space.values(run.configuration)["threads"]
        failures = {8: "the solver failed", 4: "the solver printed no number"}
        assert run.failure == failures.get(int(threads))
    assert experiment.finished is not None
    assert len(experiment.runs) == 8
