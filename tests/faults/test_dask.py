"""A sweep on real Dask: a worker and the scheduler are killed, and the results are those of serial.

Every run writes a line into a file, so that what was executed is known from outside of Dask.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pytest

from assistant.core.errors import ExecutorError
from assistant.core.ports import ExecutionRequest
from assistant.executors.dask import DaskExecutor
from benchmarks.browsing import free_port
from tests.faults.counted import N_RUNS, Counted, Watched, expected, played

pytestmark = pytest.mark.faults

WITHIN_S = 600.0


@dataclass
class Cluster:
    """A scheduler on loopback and two workers, processes that this test started."""

    folder: Path
    port: int = field(default_factory=free_port)
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.begin("scheduler")
        self.begin("first")
        self.begin("second")

    @property
    def address(self) -> str:
        return f"tcp://127.0.0.1:{self.port}"

    def begin(self, name: str) -> None:
        if name == "scheduler":
            told = ["scheduler", "--host", "127.0.0.1", "--port", str(self.port)]
        else:
            told = ["worker", self.address, "--host", "127.0.0.1", "--nthreads", "1"]
            told += ["--no-nanny", "--memory-limit", "0", "--local-directory", str(self.folder)]
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [sys.executable, "-m", "dask", *told, "--no-dashboard"],
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            )

    def kill(self, name: str) -> None:
        process = self.processes.pop(name)
        process.send_signal(signal.SIGKILL)
        process.wait()

    def close(self) -> None:
        for name in list(self.processes):
            self.kill(name)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    begun = Cluster(tmp_path)
    try:
        yield begun
    finally:
        begun.close()


def connected(application: Counted, cluster: Cluster) -> DaskExecutor:
    """Return an executor as soon as there are workers."""
    until_s = time.monotonic() + WITHIN_S
    while True:
        try:
            return DaskExecutor(application, 2, address=cluster.address)
        except ExecutorError:
            if time.monotonic() > until_s:
                raise


@pytest.mark.soak
@pytest.mark.parametrize("killed", ["nobody", "a worker", "the scheduler"])
def test_whoever_is_killed_the_results_are_those_of_the_serial_executor(
    cluster: Cluster, tmp_path: Path, killed: str
) -> None:
    lines = tmp_path / "dask.txt"
    application = Counted(lines=str(lines))
    done: list[str] = []

    def on_count(n: int) -> None:
        if n < N_RUNS // 3 or done:
            return
        done.append(killed)
        if killed == "a worker":
            cluster.kill("first")
        if killed == "the scheduler":
            for name in ("scheduler", "first", "second"):  # its workers end with it
                cluster.kill(name)
            for name in ("scheduler", "first", "second"):
                cluster.begin(name)

    with connected(application, cluster) as executor:
        found = played(application, Watched(executor, on_count))  # type: ignore[arg-type]
    assert done == [killed]
    assert found == expected(tmp_path)
    times = Counter(lines.read_text().splitlines())
    assert len(times) == N_RUNS
    assert sum(times.values()) <= N_RUNS + 3 * (killed != "nobody")


def test_nobody_there_is_said_before_anything_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from assistant.executors import dask

    monkeypatch.setattr(dask, "CONNECT_S", 1.0)
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))  # and nobody listens there
        address = f"tcp://127.0.0.1:{deaf.getsockname()[1]}"
        with pytest.raises(ExecutorError, match="does not answer within 1 s"):
            DaskExecutor(Counted(lines=str(tmp_path / "x")), 2, address=address)


@pytest.mark.soak
def test_workers_of_its_own_that_nobody_starts_again_are_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from assistant.executors import dask

    monkeypatch.setattr(dask, "NOBODY_S", 1.0)
    application = Counted(lines=str(tmp_path / "dask.txt"))
    killed: list[int] = []

    def on_count(n: int) -> None:
        if n >= N_RUNS // 3 and not killed:
            for nanny in executor._cluster.cluster.workers.values():
                nanny.auto_restart = False
                killed.append(nanny.process.pid)
            for pid in killed:
                os.kill(pid, signal.SIGKILL)

    with DaskExecutor(application, 2) as executor:
        found = played(application, Watched(executor, on_count))  # type: ignore[arg-type]
    assert len(killed) == 2
    assert found == expected(tmp_path)


@pytest.mark.soak
def test_workers_that_never_stay_are_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from assistant.executors import dask

    monkeypatch.setattr(dask, "NOBODY_S", -1.0)
    monkeypatch.setattr(dask, "MOST_REPLACED", 1)
    with DaskExecutor(Counted(lines=str(tmp_path / "x")), 1) as executor:
        monkeypatch.setattr(dask, "ANSWER_S", 0.0)  # the scheduler seems to be silent
        executor.submit(ExecutionRequest(1, {"x": 0, "y": 0, "mode": "plain"}, seed=1))
        with pytest.raises(ExecutorError, match=r"ended 1 times in a row .*copperline resume"):
            any(executor._look() for _ in count())
