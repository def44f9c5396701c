"""A sweep on workers of Dask in jobs of a real Slurm: jobs and a node are killed, nothing is lost.

Every run writes a line into a file, so that what was executed is known from outside.
"""

import gc
import json
import os
import signal
import stat
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from assistant.cli.main import run
from assistant.core.errors import ExecutorError, SettingsError
from assistant.core.ports import Environment, ExecutionRequest
from assistant.executors import dask_clusters
from assistant.executors.dask import DaskExecutor
from assistant.executors.spec import BatchSystem
from tests.faults.counted import N_RUNS, Counted, Watched, expected, played
from tests.slurm_cluster import SlurmCluster, until

pytestmark = pytest.mark.slurm

BOX = Environment(cores=2, memory_bytes=512 * 2**20)


@pytest.fixture(autouse=True)
def _asks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_clusters, "LOOK_S", 1.0)


def batch_in(folder: Path, **changes: object) -> BatchSystem:
    return BatchSystem(folder=folder / "shared", walltime_s=300, **changes)  # type: ignore[arg-type]


def no_jobs(slurm: SlurmCluster) -> bool:
    return not slurm.ask("squeue", "--noheader").strip()


@pytest.mark.soak
@pytest.mark.parametrize("killed", ["nobody", "the jobs", "their node"])
def test_whoever_is_killed_the_results_are_those_of_the_serial_executor(
    slurm: SlurmCluster, tmp_path: Path, killed: str
) -> None:
    lines = tmp_path / "dask.txt"
    application = Counted(lines=str(lines))
    done: list[str] = []

    def on_count(n: int) -> None:
        if n < N_RUNS // 3 or done:
            return
        done.append(killed)
        if killed == "the jobs":
            slurm.ask("scancel", f"--user={os.getuid()}")
        if killed == "their node":
            assert "n1" not in slurm.ask("squeue", "--noheader", "--format=%N")
            slurm.kill_node("n0")

    batch = batch_in(tmp_path)
    with DaskExecutor(application, 2, batch=batch, environment=BOX) as executor:
        found = played(application, Watched(executor, on_count))  # type: ignore[arg-type]
    assert done == [killed]
    assert found == expected(tmp_path)
    times = Counter(lines.read_text().splitlines())
    assert len(times) == N_RUNS
    assert sum(times.values()) <= N_RUNS + 2 * (killed != "nobody")
    assert not list((tmp_path / "shared").iterdir())
    if killed == "their node":
        slurm.start_node("n0")  # its jobs are ending until it is back
    until(lambda: no_jobs(slurm), "all jobs to be gone")


def test_jobs_are_as_they_were_asked_for_and_nobody_without_the_key_is_let_in(
    slurm: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from distributed import Client, Security

    monkeypatch.setattr(dask_clusters, "IDLE_S", 3600)  # the worker is looked at
    batch = batch_in(tmp_path, partition="main", options=("--nice=7",))
    application = Counted(lines=str(tmp_path / "lines.txt"))
    with DaskExecutor(application, 1, batch=batch, environment=BOX) as executor:
        executor.submit(ExecutionRequest(1, {"x": 0, "y": 0, "mode": "plain"}, seed=1))
        (completion,) = executor.collect()
        assert completion.measures is not None
        told = slurm.ask("scontrol", "show", "job", "-o")
        for said in ("CPUs/Task=2", "MinMemoryNode=512M", "TimeLimit=00:05:00", "Requeue=0"):
            assert said in told
        assert "Partition=main" in told
        assert "Nice=7" in told

        (folder,) = (tmp_path / "shared").iterdir()
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert stat.S_IMODE((folder / "key.pem").stat().st_mode) == 0o600
        address = executor._cluster.cluster.scheduler_address  # type: ignore[union-attr]
        assert address.startswith("tls://127.0.0.1:")
        for bad in (address, address.replace("tls://", "tcp://")):
            with pytest.raises((OSError, TypeError, RuntimeError)):
                Client(bad, timeout=2, security=Security(), set_as_default=False)
            gc.collect()  # a refused client closes itself, and inside the next one's start it hangs

        ours = [one for one in psutil.process_iter() if address in _arguments(one)]
        assert any(_listening(one) for one in ours)
        every = (psutil.Process(), *ours, *(child for one in ours for child in _children(one)))
        assert {at for one in every for at in _listening(one)} == {"127.0.0.1"}
    until(lambda: no_jobs(slurm), "all jobs to be gone")


def _listening(process: psutil.Process) -> list[str]:
    """Return where a process listens."""
    with suppress(psutil.NoSuchProcess):
        sockets = process.net_connections(kind="inet")
        return [at.laddr.ip for at in sockets if at.status == psutil.CONN_LISTEN]
    return []


def _children(process: psutil.Process) -> list[psutil.Process]:
    with suppress(psutil.NoSuchProcess):
        return list(process.children())
    return []


def _arguments(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []


def test_what_slurm_would_never_start_is_refused_in_its_words(
    slurm: SlurmCluster, tmp_path: Path
) -> None:
    application = Counted(lines=str(tmp_path / "lines.txt"))
    for batch, environment, said in (
        (batch_in(tmp_path, partition="nowhere"), BOX, "[Ii]nvalid partition"),
        (batch_in(tmp_path), Environment(cores=99), "node configuration is not available"),
        (batch_in(tmp_path, options=("--export=ALL",)), BOX, "is not allowed; Copperline sets"),
        (batch_in(tmp_path, host="0.0.0.0"), BOX, "not an address that jobs can connect to"),
    ):
        with pytest.raises(SettingsError, match=said):
            DaskExecutor(application, 1, batch=batch, environment=environment)
    assert no_jobs(slurm)
    assert not list((tmp_path / "shared").iterdir())


@pytest.mark.soak
def test_jobs_that_end_before_a_run_came_back_are_not_sent_for_ever(
    slurm: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dask_clusters, "version", lambda name: "0.0.1")
    monkeypatch.setattr(dask_clusters, "LOOK_S", 0.2)
    application = Counted(lines=str(tmp_path / "lines.txt"))
    with DaskExecutor(application, 1, batch=batch_in(tmp_path)) as executor:
        executor.submit(ExecutionRequest(1, {"x": 0, "y": 0, "mode": "plain"}, seed=1))
        with pytest.raises(ExecutorError, match=r"node has Copperline .*, but 0\.0\.1 is needed"):
            executor.collect()
    until(lambda: no_jobs(slurm), "all jobs to be gone")


KILLED = """
import sys, threading
from pathlib import Path
from assistant.executors import dask_clusters
from assistant.executors.spec import BatchSystem
from assistant.executors.dask import DaskExecutor
from assistant.core.ports import ExecutionRequest
from tests.faults.counted import Counted

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    dask_clusters.IDLE_S = 3600  # the job ends with this process only
    executor = DaskExecutor(
        Counted(lines=str(folder / "lines.txt")), 1, batch=BatchSystem(folder=folder / "shared")
    )
    executor.submit(ExecutionRequest(1, {"x": 0, "y": 0, "mode": "plain"}, seed=1))
    executor.collect()
    print("came back", flush=True)
    threading.Event().wait()
"""


@pytest.mark.soak
def test_after_a_kill_jobs_end_by_themselves_and_the_next_executor_tidies_up(
    slurm: SlurmCluster, tmp_path: Path
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path)],
        stdout=subprocess.PIPE,
        env={**slurm.environment, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"came back\n"
        assert not no_jobs(slurm)
        process.send_signal(signal.SIGKILL)
    until(lambda: no_jobs(slurm), "the job to end")
    (left,) = (tmp_path / "shared").iterdir()
    application = Counted(lines=str(tmp_path / "lines.txt"))
    with DaskExecutor(application, 1, batch=batch_in(tmp_path)):
        assert left not in list((tmp_path / "shared").iterdir())


def test_a_sweep_by_the_command_has_the_results_of_one_in_this_process(
    slurm: SlurmCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    table = [f"{mode},{size},{size * (1 + (mode == 'a'))}\n" for mode in "ab" for size in (2, 4, 8)]
    Path("table.csv").write_text("mode,size,objective\n" + "".join(table))
    found = []
    for arguments in ((), ("--executor", "dask=slurm", "--workers", "2")):
        code = run(["sweep", "--table", "table.csv", "--runs", "6", "--json", *arguments])
        printed = capsys.readouterr()
        assert code == 0, printed.err
        told = json.loads(printed.out)
        found.append((told["best"], told["runs"]))
    assert found[0] == found[1]
    assert slurm.ask("scontrol", "show", "job", "-o").count("JobName=copperline-") >= 1
    assert not list(Path("copperline-out/slurm").iterdir())
    until(lambda: no_jobs(slurm), "all jobs to be gone")
