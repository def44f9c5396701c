"""The soak in CI: a hundred faults at random moments, and no orphans."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from assistant import Experiment, RunState
from assistant.client.api import ApiClient
from assistant.client.remote_session import open_settings
from assistant.service.store_lock import find_endpoint
from assistant.store.event_store import SqliteStore
from tests.faults.soak.app import MARK
from tests.faults.soak.processes import marked, told_to

REPOSITORY = Path(__file__).parents[2]
SEED = 20_261_121
KINDS = {f"F{n}" for n in range(1, 9)}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.faults,
    pytest.mark.skipif(sys.platform != "linux", reason="the soak looks at processes in /proc"),
]


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1", **more}


@pytest.mark.soak
def test_nothing_is_lost_through_a_hundred_faults(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    command = [sys.executable, "-m", "tests.faults.soak", "--seed", str(SEED)]
    command += ["--faults", "120", "--per-round", "120", "--seconds", "900", "--json", str(report)]
    ran = subprocess.run(
        command,
        check=False,
        cwd=REPOSITORY,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=2400,
    )
    print(ran.stdout)  # noqa: T201 - the table
    assert ran.returncode == 0, ran.stdout + ran.stderr
    told = json.loads(report.read_text())
    assert sum(told["faults"].values()) >= 100, ran.stdout
    assert len({kind[:2] for kind in told["faults"]} & KINDS) >= 6, ran.stdout
    assert sum(one["notes"]["completed"] for one in told["rounds"]) >= 30, ran.stdout


def until(holds: object, seconds: float = 600.0) -> bool:
    by_s = time.monotonic() + seconds
    while not holds():  # type: ignore[operator]
        if time.monotonic() > by_s:
            return False
        time.sleep(0.1)
    return True


@contextmanager
def served(folder: Path, *options: str) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Start a service with two workers in a folder; yield it and the mark of all its processes."""
    command = [sys.executable, "-m", "assistant.cli", "serve", "--port", "0", "--workers", "2"]
    with (folder / "words").open("wb") as words:
        service = subprocess.Popen(
            [*command, *options, "--store", str(folder / "store.db")],
            cwd=folder,
            env=environment(**{MARK: str(folder)}),
            stdout=words,
            stderr=words,
        )
    mark = f"{MARK}={folder}"
    try:
        assert until(lambda: find_endpoint(folder / "store.db") is not None), (
            folder / "words"
        ).read_text()
        yield service, mark
    finally:
        for pid, _ in marked(mark):
            told_to(pid, signal.SIGKILL)
        service.wait()


def link(folder: Path) -> ApiClient:
    endpoint = find_endpoint(folder / "store.db")
    assert endpoint is not None
    return ApiClient(endpoint.url, endpoint.token)


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(signal.SIGKILL, id="killed"),
        pytest.param(signal.SIGTERM, id="ended", marks=pytest.mark.soak),
    ],
)
def test_workers_of_a_service_end_with_it(tmp_path: Path, number: signal.Signals) -> None:
    def leases() -> float:
        """Return how often a worker has asked in vain."""
        endpoint = find_endpoint(tmp_path / "store.db")
        assert endpoint is not None
        headers = {"Authorization": f"Bearer {endpoint.token}"}
        try:
            told = httpx.get(f"{endpoint.url}/metrics", headers=headers, trust_env=False).text
        except httpx.TransportError:  # it does not listen yet
            return 0
        lines = [x for x in told.splitlines() if x.startswith("copperline_leases") and "none" in x]
        return sum(float(line.split()[-1]) for line in lines)

    with served(tmp_path) as (service, mark):
        assert until(lambda: leases() >= 4), (tmp_path / "words").read_text()
        service.send_signal(number)
        assert service.wait(600) == (0 if number == signal.SIGTERM else -signal.SIGKILL)
        assert until(lambda: not list(marked(mark))), list(marked(mark))


@pytest.mark.soak
def test_a_run_is_stopped_when_it_is_cancelled_and_given_back_when_the_service_ends(
    tmp_path: Path,
) -> None:
    tables = {
        "runs": 9,
        "application": {"kind": "command", "command": ["sleep", "{a}"], "inherit": [MARK]},
        "objective": {"minimise": "wall_s"},
        "parameters": [{"name": "a", "levels": [600, 601, 602]}],
    }
    with served(tmp_path, "--allow-programs") as (service, mark):
        session = open_settings(link(tmp_path), tables)
        for seconds in (600, 601, 602):
            session.include({"a": seconds})

        def running(*wanted: int) -> bool:
            session.catch_up()
            known = session.experiment.runs_in(RunState.RUNNING)
            sleeping = {x.split()[1] for _, x in marked(mark) if x.startswith("sleep")}
            return [run.id for run in known] == list(wanted) and sleeping == {
                str(599 + one) for one in wanted
            }

        assert until(lambda: running(1, 2)), session.experiment.runs
        session.cancel(1)
        assert until(lambda: running(2, 3)), session.experiment.runs
        service.send_signal(signal.SIGTERM)
        assert service.wait(600) == 0, (tmp_path / "words").read_text()
        assert until(lambda: not list(marked(mark))), list(marked(mark))
    store = SqliteStore(tmp_path / "store.db")
    ended = Experiment.replay(store.load(session.id))
    store.close()
    assert [str(run.state) for run in ended.runs] == ["cancelled", "queued", "queued"]
    assert [run.lost for run in ended.runs] == [0, 0, 0]
