"""Measuring a real Slurm: what is drawn, understood and refused, and one that is started here."""

import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import slurm_draw, slurm_measure
from benchmarks.slurm_draw import PARTITIONS, DrawnJob, draw
from benchmarks.slurm_measure import Plan, SlurmError, check, expected_s, measure, parse
from benchmarks.slurm_runs import read_run


def plan_in(folder: Path, scripts: Path | None = None, **changes: object) -> Plan:
    told = {"nodes": 1, "cpus": 32, "n_jobs": 4, "span_s": 2, "port": 27_000} | changes
    return Plan(scripts or folder, folder / "runs", "easy", **told)  # type: ignore[arg-type]


def test_drawn_jobs_suit_slurm() -> None:
    jobs = draw(11, 500, 400, 32)
    assert jobs == draw(11, 500, 400, 32)
    assert jobs != draw(12, 500, 400, 32)
    assert jobs[0].arrival_s == 0
    assert all(a.arrival_s <= b.arrival_s for a, b in itertools.pairwise(jobs))
    assert 300 < jobs[-1].arrival_s < 500
    assert {job.procs for job in jobs} == {1, 2, 4, 8, 12, 16, 20, 24, 32}
    assert {job.limit_min for job in jobs} == {1, 2, 3, 5}
    assert {job.run_s for job in jobs} == set(range(3, 26))
    assert {job.partition for job in jobs} == set(PARTITIONS)
    assert 0.55 < sum(job.partition == "main" for job in jobs) / 500 < 0.65
    assert {job.procs for job in draw(11, 500, 400, 4)} == {1, 2, 4}


def test_the_time_left_is_that_of_the_fuller_partition(tmp_path: Path) -> None:
    # 20 s of all CPUs twice from 3 s on, and 5 s elsewhere; starting takes 20 s.
    jobs = (DrawnJob(0, "small", 1, 1, 5), *[DrawnJob(3, "main", 32, 1, 20)] * 2)
    assert expected_s(plan_in(tmp_path), jobs) == 20 + 3 + 40


TOLD = (
    "JobId=7 JobName=wrap UserId=root(0) GroupId=root(0) JobState=COMPLETED Reason=None "
    "SubmitTime=2026-11-22T03:00:00 EligibleTime=2026-11-22T03:00:00 "
    "StartTime=2026-11-22T03:00:02 EndTime=2026-11-22T03:00:09 Deadline=N/A "
    "LastSchedEval=2026-11-22T03:00:02 Scheduler=Backfill Partition=main NodeList=n[0-3]\n"
)


@pytest.fixture(params=["UTC", "Asia/Tokyo"])
def _time_zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Another time zone of this machine."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", request.param)
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("_time_zone")
def test_what_slurm_tells_of_a_job() -> None:
    told = parse(TOLD + "\n")
    assert told == {
        7: {
            "submit": 1795316400.0, "start": 1795316402.0, "end": 1795316409.0,
            "sched": "Backfill", "state": "COMPLETED",
        }
    }  # fmt: skip
    for broken in (
        TOLD.replace("SubmitTime", "When"),
        TOLD.replace("2026-11-22T03:00:09", "Unknown"),
    ):
        with pytest.raises(SlurmError, match="scontrol tells 'JobId=7 JobName=wrap"):
            parse(broken)


def test_a_seed_that_is_there_is_not_measured_again(tmp_path: Path) -> None:
    plan = plan_in(tmp_path)
    plan.folder.mkdir()
    rows = [slurm_measure._asked(job) for job in draw(5, 4, 2, 32)]
    plan.target(5).write_text(json.dumps({"jobs": rows}))
    assert measure(plan, [5]) == [plan.folder / "easy_1x32cpu_seed5.json"]
    for other in ({"jobs": rows[:3]}, {"jobs": [{"n": 3}]}, {}):
        plan.target(5).write_text(json.dumps(other))
        with pytest.raises(SlurmError, match="is not the schedule of these jobs; move it away"):
            measure(plan, [5])


def test_what_is_missing_is_said_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_in(tmp_path)
    with pytest.raises(SlurmError, match=r"has no 'gen_conf\.py'; --slurm needs the folder"):
        measure(plan, [5])
    assert not plan.folder.exists()
    for name in slurm_measure.SCRIPTS:
        (tmp_path / name).touch()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SlurmError, match=r"no 'sbatch' on this machine; .* slurm-wlm munge"):
        check(plan)
    for name in slurm_measure.PROGRAMS:
        (tmp_path / name).touch(mode=0o755)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(SlurmError, match="must be started by root"):
        check(plan)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    check(plan)


def test_a_port_that_is_taken_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:

    for name in (*slurm_measure.SCRIPTS, *slurm_measure.PROGRAMS):
        (tmp_path / name).touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SlurmError, match=f"port {port} of the loopback is taken"):
            check(plan_in(tmp_path, port=port - 101))
    with pytest.raises(SlurmError, match="200 nodes from port 65400 on need ports above 65535"):
        check(plan_in(tmp_path, port=65_400, nodes=100))


def test_a_temporary_folder_too_long_for_sockets_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("d" * 80)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    running = slurm_measure.cluster(plan_in(tmp_path))
    with pytest.raises(SlurmError, match=r"at most 82 bytes are possible: set TMPDIR to a shorter"):
        running.__enter__()
    assert not list(deep.iterdir())


# -- a real one -----------------------------------------------------------------------------------


def daemons(folder: Path) -> set[int]:
    """Return the pids of all daemons of a Slurm that lives below a folder."""
    found = set()
    for path in Path("/proc").iterdir():
        if path.name.isdigit() and slurm_measure._is_daemon(int(path.name)):
            told = (path / "environ").read_bytes().split(b"\0")
            if any(one.startswith(f"SLURM_CONF={folder}".encode()) for one in told):
                found.add(int(path.name))
    return found


@pytest.fixture
def short() -> Iterator[Path]:
    """A temporary folder whose name leaves room for those of sockets, as pytest's does not."""
    with tempfile.TemporaryDirectory(prefix="c-", dir="/tmp") as name:
        yield Path(name)


@pytest.mark.soak
@pytest.mark.slurm
def test_a_real_slurm_schedules_and_is_over_afterwards(
    tmp_path: Path, short: Path, scripts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slurm_draw, "LONGEST_S", 3)
    monkeypatch.setattr(slurm_measure, "PATIENCE_S", 300)
    monkeypatch.setattr(tempfile, "tempdir", str(short))
    plan = plan_in(tmp_path, scripts)
    with slurm_measure.cluster(plan):
        assert len(daemons(short)) == 4  # munged, slurmctld and one slurmd a node
    assert not daemons(short)
    (path,) = measure(plan, [5])
    assert not daemons(short)
    run = read_run(path)
    assert (run.policy, run.nodes, run.cpus, len(run.jobs)) == ("easy", 1, 32, 4)
    drawn = draw(5, 4, 2, 32)
    assert [job.procs for job in sorted(run.jobs, key=lambda j: j.job_id)] == [
        j.procs for j in drawn
    ]
    assert all(3 <= job.end_s - job.start_s < 60 for job in run.jobs)


@pytest.mark.soak
@pytest.mark.slurm
@pytest.mark.parametrize("told", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_stops_every_daemon(
    told: signal.Signals, tmp_path: Path, short: Path, scripts: Path, repository: Path
) -> None:
    command = [sys.executable, "-m", "benchmarks.slurm_fidelity", "--slurm", str(scripts)]
    command += ["--seed", "5", "--nodes", "1", "--cpus", "32", "--port", "27500"]
    process = subprocess.Popen(
        [*command, "--to", str(tmp_path / "runs")],
        cwd=repository, stderr=subprocess.PIPE, text=True,
        env=os.environ | {"TMPDIR": str(short)},
    )  # fmt: skip
    assert process.stderr is not None
    assert "1 of 50 jobs submitted" in process.stderr.readline()
    assert len(daemons(short)) == 4
    process.send_signal(told)
    process.communicate(timeout=240)
    assert process.returncode != 0
    assert not daemons(short)
    assert not list(short.iterdir())
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]  # nothing half is left in it
    assert not list((tmp_path / "runs").iterdir())
