"""A sweep on a real Slurm: a node and the controller are killed; the results are those of serial.

Every run writes a line into a file, so that what was executed is known from outside of Slurm.
"""

import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest

from assistant.core.errors import ExecutorError, SettingsError
from assistant.core.ports import Environment, ExecutionRequest
from assistant.executors.slurm import dispatcher, executor, jobs
from assistant.executors.slurm import executor as keeping
from assistant.executors.slurm.executor import SlurmExecutor
from assistant.executors.slurm.protocol import read_ticket
from assistant.executors.spec import BatchSystem
from tests.assistant.examples import Bowl
from tests.faults.counted import N_RUNS, Counted, Watched, expected, played
from tests.slurm_cluster import WITHIN_S, SlurmCluster, until

pytestmark = pytest.mark.slurm

APART = BatchSystem(options=("--exclusive",))
"""A node each, so that the death of one is not the death of all."""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    "killed",
    [
        pytest.param("nobody", marks=pytest.mark.soak),
        pytest.param("a node", marks=pytest.mark.soak),
        pytest.param("the controller", marks=pytest.mark.soak),
        "both",
    ],
)
def test_whoever_is_killed_the_results_are_those_of_the_serial_executor(
    slurm: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed: str
) -> None:
    if killed == "nobody":
        monkeypatch.setattr(dispatcher, "SILENT_S", 600.0)  # a busy machine silences nobody
        monkeypatch.setattr(executor, "ENDING_S", 300.0)  # nor cancels who ends by itself
    lines, gate = tmp_path / "slurm.txt", tmp_path / "gate"
    application = Counted(lines=str(lines), gate=str(gate))
    done: list[str] = []

    def on_count(n: int) -> None:
        if n == 0 and not gate.exists():
            until(lambda: lines.exists() and len(lines.read_text().splitlines()) == 2, "both jobs")
            gate.touch()
        if n >= N_RUNS // 3 and not done:
            done.append("killed")
            if killed in ("the controller", "both"):
                slurm.kill_controller()
            if killed in ("a node", "both"):
                assert slurm.kill_node("n1") > 1
        if n >= N_RUNS // 2 and len(done) == 1:
            done.append("back")
            if killed in ("the controller", "both"):
                slurm.start_controller()
            if killed in ("a node", "both"):
                slurm.start_node("n1")

    with SlurmExecutor(application, 2, APART) as ours:
        watched = Watched(ours, on_count)
        found = played(application, watched)  # type: ignore[arg-type]
    assert done == ["killed", "back"]
    assert found == expected(tmp_path)
    times = Counter(lines.read_text().splitlines())
    assert len(times) == N_RUNS
    assert sum(times.values()) <= N_RUNS + watched.n_lost
    assert watched.n_lost == 0 or killed != "nobody"
    assert [path.name for path in Path("copperline-out/slurm").iterdir()] == ["logs"]
    (experiment_id,) = [path.name for path in Path("copperline-out/slurm/logs").glob("*/")]
    for run_id in range(1, N_RUNS + 1):
        logs = jobs.logs_of_run(jobs.FOLDER, experiment_id, run_id)
        assert logs
        assert f"worker: run {run_id} begins" in logs[-1].read_text()
    if killed == "nobody":

        def states() -> set[str]:
            return set(slurm.ask("squeue", "-h", "--states=all", "--format=%T").split())

        until(lambda: states().isdisjoint({"RUNNING", "COMPLETING"}), "the jobs to be over")
        assert states() == {"COMPLETED"}, "a finished sweep cancels no job that has run"


def test_a_controller_that_dies_as_jobs_are_submitted_loses_no_run(
    slurm: SlurmCluster, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    application = Counted(lines=str(tmp_path / "slurm.txt"), run_s=0.0, gate=str(gate))

    def fault() -> None:
        try:
            until(lambda: len(slurm.ask("squeue", "-h").splitlines()) >= 2, "both jobs")
            slurm.kill_controller()
            slurm.start_controller()
        finally:
            gate.touch()

    with SlurmExecutor(application, 2, APART) as ours:
        harm = threading.Thread(target=fault)
        harm.start()
        found = played(application, ours)
        harm.join()
    assert found == expected(tmp_path)
    until(lambda: not slurm.ask("squeue", "-h", "--states=R,PD").strip(), "no job of ours")


def test_a_cancelled_pilot_that_slurm_brings_back_runs_nothing(
    slurm: SlurmCluster, tmp_path: Path
) -> None:
    lines = tmp_path / "slurm.txt"
    application = Counted(lines=str(lines), run_s=3600.0)
    with SlurmExecutor(application, 1) as ours:
        ours.submit(ExecutionRequest(1, {"x": 0, "y": 0, "mode": "plain"}, seed=1))
        until(lines.exists, "the run to begin")
        (pilot,) = ours._folder.pilots()
        ours.cancel()
        until(lambda: not slurm.ask("squeue", "-h", "--states=R,PD").strip(), "the job's end")
        again = subprocess.run(
            ["/bin/sh", ours._folder.script, sys.executable, ours._folder.ticket(pilot)],
            capture_output=True, text=True, timeout=WITHIN_S, check=False,
        )  # fmt: skip
        assert "its ticket is not valid any more" in again.stderr
        assert ours.collect() == ()
    assert len(lines.read_text().splitlines()) == 1


def test_what_another_executor_left_is_cancelled_and_removed(
    slurm: SlurmCluster, tmp_path: Path
) -> None:
    lines = tmp_path / "slurm.txt"
    application = Counted(lines=str(lines), run_s=3600.0)
    with SlurmExecutor(application, 1) as dead:
        dead.submit(ExecutionRequest(1, {"x": 0, "y": 0, "mode": "plain"}, seed=1))
        until(lines.exists, "the run to begin")
        dead._folder.release(tidy=False)  # what the end of its process does
        with SlurmExecutor(application, 1):
            assert not dead._folder.path.exists()
            until(lambda: not slurm.ask("squeue", "-h", "--states=R,PD").strip(), "the job's end")


@pytest.mark.soak
def test_what_slurm_refuses_is_said_in_its_words(
    slurm: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for batch, needs, why in (
        (BatchSystem(partition="nix"), Environment(), "[Ii]nvalid partition"),
        (BatchSystem(), Environment(cores=1000), "node configuration is not available"),
        (BatchSystem(host="0.0.0.0"), Environment(), "not an address that jobs can connect to"),
    ):
        with pytest.raises(SettingsError, match=why):
            SlurmExecutor(Bowl(), 1, batch, needs)
    assert not list((tmp_path / jobs.FOLDER).glob("sweep-*"))
    slurm.kill_controller()
    monkeypatch.setattr(executor, "CONNECT_S", 0.0)
    monkeypatch.setattr(jobs, "COMMAND_S", 300.0)  # Slurm itself tries for 10 s or 20 s
    with pytest.raises(ExecutorError, match=r"Unable to contact slurm controller.*is it running"):
        SlurmExecutor(Bowl(), 1)


def test_pilots_that_never_come_are_given_up_with_their_last_words(
    slurm: SlurmCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping, "FRUITLESS", 0)
    monkeypatch.setattr(keeping, "NEW_S", 0.0)
    monkeypatch.setattr(executor, "RECONCILE_S", 0.2)
    with SlurmExecutor(Bowl(), 1) as ours:
        ours._folder.script.write_text("#!/bin/sh\necho no python here >&2\nexit 1\n")
        ours.submit(ExecutionRequest(1, {"x": 0, "y": 0, "mode": "plain"}, seed=1))
        with pytest.raises(ExecutorError, match=r"1 jobs of Slurm in a row .* no python here"):
            ours.collect()


def test_a_job_asks_for_what_a_run_needs(slurm: SlurmCluster, tmp_path: Path) -> None:
    lines = tmp_path / "slurm.txt"
    batch = BatchSystem(partition="main", walltime_s=600.0)
    application = Counted(lines=str(lines), run_s=3600.0)
    with SlurmExecutor(application, 1, batch, Environment(3, 200 * 2**20)) as ours:
        ours.submit(ExecutionRequest(1, {"x": 0, "y": 0, "mode": "plain"}, seed=1))
        until(lines.exists, "the run to begin")
        (pilot,) = ours._folder.pilots()
        told = slurm.ask("scontrol", "show", "job", "-o")
        for fact in (
            "NumCPUs=3", "MinMemoryNode=200M", "TimeLimit=00:10:00", "Requeue=1",
            f"JobName=copperline-{pilot}", f"Comment=copperline-{pilot}",
        ):  # fmt: skip
            assert fact in told, told
        assert read_ticket(ours._folder.ticket(pilot)).secret not in told


@pytest.mark.soak
def test_a_controller_that_stays_away_ends_a_sweep_for_which_nobody_works(
    slurm: SlurmCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor, "COMES_BACK_S", 0.5)
    monkeypatch.setattr(executor, "CLOSE_S", 0.0)
    with SlurmExecutor(Bowl(), 1) as ours:
        slurm.kill_controller()
        ours.submit(ExecutionRequest(1, {"x": 0, "y": 0, "mode": "plain"}, seed=1))
        with pytest.raises(ExecutorError, match=r"controller has not answered .*copperline resume"):
            ours.collect()
    assert ours._folder.path.exists()  # for the next one to tidy up
