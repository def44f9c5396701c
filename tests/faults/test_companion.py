"""The service beside a browser: workers come as they are needed; killed, it is there again."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assistant import RunState, load_session
from assistant.client.remote_session import RemoteSession
from assistant.config.snapshot import config_snapshot, open_sweep
from assistant.config.sweep_file import build_sweep, check_settings
from assistant.core.run import Run
from assistant.core.sla import AutoSteering
from assistant.service.store_connection import ServiceSupervisor, open_store
from assistant.service.store_lock import find_endpoint
from assistant.store.event_store import SqliteStore

pytestmark = pytest.mark.faults

WAITING: dict[str, Any] = {
    "runs": 12,
    "workers": 2,
    "objective": {"minimise": "wall_s"},
    "parameters": [{"name": "a", "levels": list(range(12))}],
}
"""Twelve runs, each of which goes on until the gate, a folder, has a file of its name."""


def sweep(gate: Path) -> dict[str, Any]:
    waits = 'until [ -e "$1/$2" ]; do sleep 0.05; done'
    command = ["sh", "-c", waits, "sh", str(gate), "{a}"]
    return {**WAITING, "application": {"kind": "command", "command": command}}


def until(holds: Callable[[], bool], seconds: float = 600) -> None:
    by_s = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < by_s, "it did not happen in time"
        time.sleep(0.05)


def opened(store: Path, companion: ServiceSupervisor, gate: Path) -> RemoteSession:
    link = companion.reach()
    built = build_sweep(check_settings(sweep(gate), "the test"))
    kept = open_store(store, take_key=False)
    session = open_sweep(built, kept, "test", config_snapshot(sweep(gate), ()))
    return RemoteSession(link, session.id)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except OSError:
        return False


@pytest.mark.soak
def test_killed_midway_it_comes_back_and_nothing_is_lost_or_done_twice(tmp_path: Path) -> None:
    store, gate = tmp_path / "store.db", tmp_path / "gate"
    gate.mkdir()
    companion = ServiceSupervisor(store)
    try:
        session = opened(store, companion, gate)
        companion.keep()
        session.set_auto_steering(AutoSteering(4, 4, "ignore"))
        session.start()

        def completed() -> int:
            session.catch_up()
            return len(session.experiment.runs_in(RunState.COMPLETED))

        def running() -> list[Run]:
            session.catch_up()
            return list(session.experiment.runs_in(RunState.RUNNING))

        def let_go(runs: list[Run]) -> None:
            for run in runs:
                (gate / str(session.experiment.space.values(run.configuration)["a"])).touch()

        until(lambda: len(running()) == 2)
        let_go(running())
        until(lambda: completed() == 2 and len(running()) == 2)
        assert len({run.worker for run in running()}) == 2, "as many runs at once as it says"
        first = find_endpoint(store)
        assert first is not None
        os.kill(first.pid, signal.SIGKILL)
        until(lambda: (now := find_endpoint(store)) is not None and now.pid != first.pid)
        for level in range(12):
            (gate / str(level)).touch()
        until(lambda: completed() == 12)
        until(lambda: companion_idle(session))
        second = find_endpoint(store)
        assert second is not None
    finally:
        companion.end()
    until(lambda: not alive(second.pid))
    ended = load_session(SqliteStore(store), session.id).experiment
    assert len(ended.runs_in(RunState.COMPLETED)) == 12
    assert len({run.configuration for run in ended.runs}) == 12


def companion_idle(session: RemoteSession) -> bool:
    session.catch_up()
    return session.experiment.auto_steering is None


def test_it_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    store = tmp_path / "store.db"
    code = (
        "import sys, time; from pathlib import Path; "
        "from assistant.service.store_connection import ServiceSupervisor; "
        "ServiceSupervisor(Path(sys.argv[1])).reach(); print('up', flush=True); time.sleep(600)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(store)], stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"up\n"
        service = find_endpoint(store)
        assert service is not None
        parent.kill()
    until(lambda: not alive(service.pid))
    assert find_endpoint(store) is None
