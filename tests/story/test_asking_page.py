"""The page about programs that ask for their runs: what it shows runs, on curl and on node."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agents import Follower
from assistant import Session
from assistant.config.snapshot import open_sweep
from assistant.config.sweep_file import build_sweep, check_settings
from assistant.core.codec import event_tag
from assistant.executors import make_executor
from assistant.service.store_lock import find_endpoint
from assistant.session.opening import load_session
from assistant.store.event_store import MemoryStore, SqliteStore

pytestmark = pytest.mark.slow
PATIENCE_S = 240
SOLVER = """#!/bin/sh
echo computing
echo $(($1 * 3 + 80 / $1 + ${#2}))
"""
FUNCTION = """
def solve(threads: int, mode: str) -> dict[str, float]:
    return {"time_s": threads * 3 + 80 // threads + len(mode)}
"""


def blocks(repository: Path) -> dict[str, str]:
    page = (repository / "docs" / "howto" / "http-program.md").read_text()
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


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Serve a store by the command itself. Yields the store."""
    store = tmp_path_factory.mktemp("served") / "experiments.db"
    command = [sys.executable, "-m", "assistant.cli", "serve", "--port", "0", "--execute"]
    with (store.parent / "service.log").open("wb") as log:
        process = subprocess.Popen([*command, "--store", str(store)], stdout=log, stderr=log)
        try:
            until_s = time.monotonic() + PATIENCE_S
            while find_endpoint(store) is None:
                assert process.poll() is None, (store.parent / "service.log").read_text()
                assert time.monotonic() < until_s
                threading.Event().wait(0.02)
            yield store
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE_S)


def adapted(folder: Path, store: Path, *command: str) -> tuple[str, Session]:
    """Let an adapter make its sweep; return what it printed, and the experiment."""
    endpoint = find_endpoint(store)
    assert endpoint is not None
    told = json.loads((folder / "solver.json").read_text())
    told["name"] = folder.name
    (folder / "solver.json").write_text(json.dumps(told))
    environment = {**os.environ, "COPPERLINE": endpoint.url, "TOKENS": f"{store}.tokens"}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=PATIENCE_S,
        check=False,
    )  # fmt: skip
    log = (store.parent / "service.log").read_text()
    assert done.returncode == 0, (done.stdout, done.stderr, log)
    kept = SqliteStore(store)
    (one,) = [one for one in kept.experiments() if one.name == folder.name]
    return done.stdout, load_session(kept, one.id)


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
    session = open_sweep(built, MemoryStore(), "solver")
    with make_executor(built.application, 1) as executor:
        settings = built.settings
        agent = Follower(settings.initial, settings.batch, warnings=settings.warnings)
        session.finish(agent.steer(session, executor))
    return session


@pytest.mark.soak
def test_curl_and_a_shell_make_the_sweep_that_a_function_makes(folder: Path, service: Path) -> None:
    printed, session = adapted(folder, service, "sh", "adapter.sh")
    alone = in_one_process(folder)
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
    reported = [event for event in session.events() if event_tag(event) == "RunReported"]
    assert len(reported) == 8
    assert all(run.duration_s is not None and run.duration_s > 0 for run in session.experiment.runs)


@pytest.mark.soak
def test_node_makes_it_too(folder: Path, service: Path, node: str) -> None:
    printed, session = adapted(folder, service, node, "adapter.mjs")
    assert made(session) == made(in_one_process(folder))
    assert session.experiment.finished is not None
    assert printed.splitlines()[0] == session.experiment.finished.reason


@pytest.mark.soak
def test_a_solver_that_fails_is_a_failed_run_and_the_sweep_goes_on(
    folder: Path, service: Path
) -> None:
    (folder / "solver").write_text(
        "#!/bin/sh\n[ $1 = 8 ] && exit 3\n[ $1 = 4 ] && echo 1,5 && exit\necho $1\n"
    )
    _, session = adapted(folder, service, "sh", "adapter.sh")
    experiment = session.experiment
    for run in experiment.runs:
        threads = experiment.space.values(run.configuration)["threads"]
        failures = {8: "the solver failed", 4: "the solver printed no number"}
        assert run.failure == failures.get(int(threads))
    assert experiment.finished is not None
    assert len(experiment.runs) == 8
