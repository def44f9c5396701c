"""Ctrl-C, SIGTERM, SIGHUP and kill -9 of a sweep, the same on every executor, with real processes.

Each run starts a program that goes on until a file says otherwise, so runs are always under way.
"""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from assistant import Measure, RunState
from assistant.core.ports import ExecutionRequest
from assistant.executors.process_pool import _Worker
from assistant.session.opening import load_session
from assistant.store.event_store import SqliteStore
from strategies import Level
from tests.assistant.examples import Bowl, Climb
from tests.assistant.programs import alive, linux, until
from tests.faults.test_dask import Cluster
from tests.slurm_cluster import SlurmCluster

pytestmark = pytest.mark.faults

WITHIN_S = 600.0
SOON_S = 240.0  # on a busy machine; without a word the sweep waits for 300 s

PROGRAM = """
import json, pathlib, sys, time
with open("begun.txt", "a") as file:
    file.write(sys.argv[1] + "\\n")
while not pathlib.Path("go").exists():
    time.sleep(0.05)
print(json.dumps({"cost": (int(sys.argv[1]) - 3) ** 2}))
"""

SWEEP = """
runs = 6
[application]
kind = "command"
command = ["PYTHON", "-I", "-S", "program.py", "{x}", "MARK"]
[objective]
minimise = "cost"
[[parameters]]
name = "x"
range = {low = 1, high = 9, step = 1}
"""

EXECUTORS = ("serial", "process_pool", "dask", "dask=tcp", "slurm", "dask=slurm")

SIGNALS = {
    "serial": (signal.SIGINT, signal.SIGTERM, signal.SIGHUP),
    "process_pool": (signal.SIGINT, signal.SIGTERM, signal.SIGHUP),
    "dask": (signal.SIGINT, signal.SIGTERM),
    "dask=tcp": (signal.SIGHUP,),
    "slurm": (signal.SIGTERM,),
    "dask=slurm": (signal.SIGINT,),
}
"""Signals that each executor is tried with: one function handles all of them."""


@pytest.fixture(autouse=True)
def _no_nohup() -> Iterator[None]:
    """Let SIGHUP end processes, also where nohup has started the tests."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture
def mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A word in the arguments of the programs of a sweep, whose folder is the current one."""
    word = f"mark-{uuid.uuid4().hex}"
    (tmp_path / "program.py").write_text(PROGRAM)
    text = SWEEP.replace("PYTHON", sys.executable).replace("MARK", word)
    (tmp_path / "sweep.toml").write_text(text)
    monkeypatch.chdir(tmp_path)
    return word


@contextmanager
def sweeping(request: pytest.FixtureRequest, name: str) -> Iterator[subprocess.Popen[str]]:
    """Start a sweep as the leader of a process group, and wait until its runs are under way."""
    if "slurm" in name:
        request.getfixturevalue("slurm")
    if name == "dask=tcp":
        name = f"dask={request.getfixturevalue('dask_cluster').address}"
    n = 1 if name == "serial" else 2
    command = [sys.executable, "-m", "assistant.cli", "sweep", "sweep.toml", "--store", "store.db"]
    with subprocess.Popen(
        [*command, "--executor", name, "--workers", str(n)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as process:  # fmt: skip
        try:
            begun = Path("begun.txt")
            assert until(lambda: begun.exists() and len(begun.read_text().split()) >= n), name
            yield process
        finally:
            process.kill()


@pytest.fixture
def dask_cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A scheduler with two workers, which answer."""
    from distributed import Client

    cluster = Cluster(tmp_path)
    try:
        with Client(cluster.address, timeout=WITHIN_S, set_as_default=False) as client:
            client.wait_for_workers(2, timeout=WITHIN_S)
        yield cluster
    finally:
        cluster.close()


def group_of(pid: int) -> list[int]:
    """Return the processes of a group besides its leader."""
    return [
        int(path.name)
        for path in Path("/proc").glob("[0-9]*")
        if _group(path) == pid and int(path.name) != pid
    ]


def _group(path: Path) -> int:
    try:
        fields = (path / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return -1
    return -1 if fields[0] == "Z" else int(fields[2])


def is_gone(request: pytest.FixtureRequest, name: str, process: int, mark: str) -> bool:
    """Return whether no worker, job and program of a sweep is left."""
    jobs = request.getfixturevalue("slurm").ask("squeue", "-h") if "slurm" in name else ""
    return not (group_of(process) or alive(mark) or jobs.strip())


def states() -> list[RunState]:
    store = SqliteStore(Path("store.db"))
    (stored,) = store.experiments()
    found = [run.state for run in load_session(store, stored.id).experiment.runs]
    store.close()
    return found


def _marks(name: str, number: signal.Signals) -> list[pytest.MarkDecorator]:
    again = ("process_pool", "dask=tcp", "dask=slurm", "slurm")  # others show most of what they do
    is_long = name in again or number != SIGNALS[name][0]
    marks = [pytest.mark.slurm] if "slurm" in name else []
    return [*marks, pytest.mark.soak] if is_long else marks


@pytest.mark.parametrize(
    ("name", "number"),
    [
        pytest.param(name, number, marks=_marks(name, number), id=f"{name}-{number.name}")
        for name in EXECUTORS
        for number in SIGNALS[name]
    ],
)
def test_a_signal_ends_a_sweep_in_the_same_way_on_every_executor(
    request: pytest.FixtureRequest, mark: str, name: str, number: signal.Signals
) -> None:
    with sweeping(request, name) as process:
        os.killpg(process.pid, number)  # as a terminal and Slurm do
        _, errors = process.communicate(timeout=WITHIN_S)
    assert process.returncode == 130, errors
    said = "Ctrl-C" if number == signal.SIGINT else number.name
    (last,) = (line for line in errors.splitlines() if "nterrupted" in line)
    assert last == errors.splitlines()[-1], errors
    assert last.startswith(
        f"Interrupted by {said} after 0 of 6 submitted runs; "
        "continue with: copperline resume sweep-"
    )
    assert "Traceback" not in errors
    assert set(states()) == {RunState.QUEUED}
    assert until(lambda: is_gone(request, name, process.pid, mark)), (group_of(process.pid), errors)
    Path("go").touch()
    command = last.partition("copperline ")[2].split()
    resumed = subprocess.run(
        [sys.executable, "-m", "assistant.cli", *command, "--json"],
        capture_output=True, text=True, check=False, timeout=WITHIN_S,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert resumed.returncode == 0, resumed.stderr
    assert json.loads(resumed.stdout)["runs"] == {"submitted": 6, "completed": 6, "failed": 0}


@pytest.mark.parametrize(
    "name", [pytest.param("serial", marks=pytest.mark.soak), "process_pool", "dask"]
)
def test_a_killed_sweep_leaves_neither_workers_nor_programs(
    request: pytest.FixtureRequest, mark: str, name: str
) -> None:
    with sweeping(request, name) as process:
        assert alive(mark)
        process.kill()
    assert until(lambda: is_gone(request, name, process.pid, mark)), group_of(process.pid)


@dataclass(frozen=True)
class Stuck(Bowl):
    """Its runs are one call of machine code that lets no other thread of Python run."""

    def evaluate(self, values: Mapping[str, Level], seed: int) -> Mapping[str, Measure]:
        Path("begun.txt").write_text(str(os.getpid()))
        return {"height": float(sum(range(10**15)))}


STUCK = """
from assistant.core.ports import ExecutionRequest
from assistant.executors.process_pool import ProcessPoolExecutor
from tests.faults.test_interrupts import Stuck

if __name__ == "__main__":
    executor = ProcessPoolExecutor(Stuck(), 1)
    executor.submit(ExecutionRequest(1, {"x": 0, "y": 0, "mode": "plain"}, seed=1))
    executor.collect()
"""


@linux
def test_a_worker_in_machine_code_ends_with_its_parent(mark: str) -> None:
    Path("stuck.py").write_text(STUCK)
    with subprocess.Popen(
        [sys.executable, "stuck.py"], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ) as process:
        begun = Path("begun.txt")
        assert until(lambda: begun.exists() and bool(begun.read_text()))
        process.kill()
    worker = Path("/proc", begun.read_text())
    assert until(lambda: _group(worker) == -1)


def test_a_worker_ends_with_its_pipe() -> None:
    worker = _Worker(Climb())
    worker.send(ExecutionRequest(1, {"x": 3, "y": 0, "mode": "plain"}, seed=1))
    assert worker.pipe.poll(WITHIN_S)
    assert worker.receive() == (1, {"height": 100.0, "unknown": None})
    worker.pipe.close()  # as if the parent were gone, in the middle of an endless run
    worker.process.join(WITHIN_S)
    assert worker.process.exitcode == -signal.SIGKILL


def test_signals_again_and_again_leave_nothing_behind(
    request: pytest.FixtureRequest, mark: str
) -> None:
    with sweeping(request, "process_pool") as process:
        while process.poll() is None:
            os.killpg(process.pid, signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.02)
        _, errors = process.communicate()
    assert process.returncode in (130, -signal.SIGINT), errors
    assert "continue with: copperline resume" in errors
    assert "Traceback" not in errors
    assert set(states()) == {RunState.QUEUED}
    assert until(lambda: is_gone(request, "process_pool", process.pid, mark))


@pytest.mark.soak
def test_what_dask_has_lost_is_said_at_once(
    request: pytest.FixtureRequest, dask_cluster: Cluster, mark: str
) -> None:
    with sweeping(request, "dask=tcp") as process:
        lines = iter(process.stderr or ())

        def say(words: str) -> str:
            unsaid = threading.Timer(SOON_S, process.kill)  # then no line comes any more
            unsaid.start()
            try:
                return next(line for line in lines if words in line)
            finally:
                unsaid.cancel()

        dask_cluster.kill("first")
        assert re.search(r"The Dask worker tcp:.* is gone .*; run \d will be", say("is gone"))
        dask_cluster.processes["scheduler"].send_signal(signal.SIGSTOP)
        say("has not answered for 5 s. The runs wait for 5 minutes")
        dask_cluster.processes["scheduler"].send_signal(signal.SIGCONT)
        say("has workers again")
        dask_cluster.kill("scheduler")
        dask_cluster.kill("second")  # which may find the next scheduler, if it is slow to end
        say("has closed the connection")
        dask_cluster.begin("scheduler")
        say("answers again")
        say("has no worker; start some with: dask worker tcp:")
        dask_cluster.kill("scheduler")
        say("has closed the connection")
        process.terminate()
        say("continue with: copperline resume")
        assert process.wait(WITHIN_S) == 130
    assert until(lambda: is_gone(request, "dask", process.pid, mark))


@pytest.mark.soak
@pytest.mark.slurm
def test_the_script_of_the_page_continues_after_its_time_limit(
    slurm: SlurmCluster, repository: Path, mark: str
) -> None:
    page = (repository / "docs" / "howto" / "clusters.md").read_text()
    (script,) = re.findall(r"```bash\n(#!/bin/bash\n.*?)```", page, re.DOTALL)
    tools = Path("bin")
    tools.mkdir()
    (tools / "copperline").write_text(f'#!/bin/sh\nexec {sys.executable} -m assistant.cli "$@"\n')
    (tools / "copperline").chmod(0o700)
    setting = f"export PATH={tools.absolute()}:$PATH PYTHONPATH={os.pathsep.join(sys.path)}\n"
    script = script.replace("--cpus-per-task=16", "--cpus-per-task=2")
    Path("sweep.sh").write_text(script.replace("export COPPERLINE", f"{setting}export COPPERLINE"))

    def submitted() -> str:
        return slurm.ask("sbatch", "--parsable", "--output=said.txt", "sweep.sh").strip()

    def is_over() -> bool:
        return not slurm.ask("squeue", "--noheader").strip()

    job, begun = submitted(), Path("begun.txt")
    assert until(lambda: begun.exists() and len(begun.read_text().split()) >= 2)
    slurm.ask("scancel", "--batch", "--signal=TERM", job)  # as --signal=B:TERM@120
    assert until(is_over), Path("said.txt").read_text()
    said = Path("said.txt").read_text()
    assert "Interrupted by SIGTERM after 0 of 6 submitted runs" in said
    assert not alive(mark)
    assert Path("sweeps.backup").exists()
    Path("go").touch()
    submitted()
    assert until(is_over)
    Path("sweeps.backup").rename("store.db")
    assert states() == [RunState.COMPLETED] * 6, Path("said.txt").read_text()


def test_a_service_and_its_worker_end_when_their_terminal_is_closed(mark: str) -> None:
    command = [sys.executable, "-m", "assistant.cli"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}

    def started(*arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*command, *arguments, "--store", "store.db"], env=environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    with started("serve", "--port", "0", "--log-level", "debug") as serve:
        lines = iter(serve.stderr or ())
        assert next(lines).startswith("Serving")
        with started("work") as work:
            assert any("/v1/leases" in line for line in lines)  # the worker has begun
            work.send_signal(signal.SIGHUP)
            printed, errors = work.communicate(timeout=WITHIN_S)
        serve.send_signal(signal.SIGHUP)
        errors += "".join(lines)
        assert serve.wait(WITHIN_S) == 0, errors
    assert (work.returncode, printed) == (0, "0 results sent.\n"), errors
    assert "Traceback" not in errors
