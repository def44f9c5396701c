"""A real Slurm with a real slurmdbd: 200 jobs, dumped by sacct, read, and compared with them."""

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from assistant.cli.main import run
from sim.api import ClusterSpec, ReadingRules, Scenario, Workload, load_workload, simulate
from tests.slurm_cluster import SlurmCluster, until

pytestmark = [pytest.mark.slurm, pytest.mark.soak]

XDMOD = (
    "jobid,jobidraw,cluster,partition,qos,account,group,gid,user,uid,submit,eligible,start,end,"
    "elapsed,exitcode,state,nnodes,ncpus,reqcpus,reqmem,reqtres,alloctres,timelimit,nodelist,jobname"
)
OTHER = (
    "JobName,State,NodeList,NNodes,ReqMem,ReqCPUS,NCPUS,TimelimitRaw,ElapsedRaw,End,Start,Eligible,Submit,"
    "User,Account,QOS,Partition,Cluster,JobIDRaw,JobID"
)
N_ARRAY, N_PLAIN, N_PAIRS, N_HELD, N_REQUEUED, N_WITHDRAWN, N_RUNNING = 60, 60, 30, 10, 4, 4, 2
N_JOBS = N_ARRAY + N_PLAIN + 2 * N_PAIRS + N_HELD + N_REQUEUED + N_WITHDRAWN + N_RUNNING
assert N_JOBS == 200


@dataclass
class Submitted:
    """What was submitted, by kind: job ids, and CPUs and minutes by id."""

    cluster: SlurmCluster
    jobs: dict[str, list[int]]
    wanted: dict[int, tuple[int, int]]

    def submit(self, kind: str, cpus: int, minutes: int, *options: str, run: str = "true") -> int:
        said = self.cluster.ask(
            "sbatch", "--parsable", "-o", "/dev/null", f"-n{cpus}", f"-t{minutes}",
            "-J", f"{kind}|a", *options, "--wrap", run,
        )  # fmt: skip
        job = int(said)
        self.jobs.setdefault(kind, []).append(job)
        self.wanted[job] = (cpus, minutes)
        return job

    def states(self, kind: str) -> list[str]:
        listed = ",".join(map(str, self.jobs[kind]))
        return self.cluster.ask("squeue", "-h", "-t", "all", "-o", "%T", "-j", listed).split()

    def have_run_for_a_second(self, kind: str) -> bool:
        """Tell whether all run, and no time of what comes next is the one of their start."""
        listed = ",".join(map(str, self.jobs[kind]))
        said = self.cluster.ask("squeue", "-h", "-t", "running", "-o", "%M", "-j", listed).split()
        return len(said) == len(self.jobs[kind]) and "0:00" not in said

    def accounted(self) -> Counter[str]:
        """Count the executions that the accounting knows, by their state."""
        rows = self.cluster.ask("sacct", "-aXPnD", "--format", "state").splitlines()
        return Counter(row.split()[0] for row in rows)

    def recorded(self, kind: str, state: str) -> int:
        """Count the executions in a state that the accounting knows, of jobs of a kind.

        Slurm sends the start of a job to the accounting up to some seconds later, and a requeue
        before that leaves no record of the execution.
        """
        listed = ",".join(map(str, self.jobs[kind]))
        command = ("sacct", "-aXPnD", "-j", listed, "--format", "state")
        return self.cluster.ask(*command).split().count(state)


@pytest.fixture(scope="module")
def submitted(accounting_scripts: Path) -> Iterator[Submitted]:
    """A cluster of 32 CPUs on which the jobs have run, except those that shall not have."""
    with SlurmCluster(accounting_scripts, nodes=4, cpus=8, accounting=True) as cluster:
        made = Submitted(cluster, {}, {})
        _submit_all(made)
        yield made


def _submit_all(made: Submitted) -> None:
    held = [made.submit("held", 2, 2, "--hold") for _ in range(N_HELD)]
    for _ in range(N_REQUEUED):
        made.submit("requeued", 1, 3, "--requeue", run="test $SLURM_RESTART_COUNT || sleep 3600")
    until(lambda: made.have_run_for_a_second("requeued"), "jobs to be requeued")
    until(lambda: made.recorded("requeued", "RUNNING") == N_REQUEUED, "the accounting of them")
    for job in made.jobs["requeued"]:
        made.cluster.ask("scontrol", "requeue", str(job))
    until(lambda: made.recorded("requeued", "REQUEUED") == N_REQUEUED, "the record of requeues")
    array = made.submit("array", 2, 4, f"--array=0-{N_ARRAY - 1}%20")
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: made.submit("plain", 1 + n % 8, 1 + n % 3, run="sleep 1"),
                      range(N_PLAIN)))  # fmt: skip
        first = list(pool.map(lambda _: made.submit("first", 2, 2), range(N_PAIRS)))
        after = [f"--dependency=afterok:{job}" for job in first]
        list(pool.map(lambda option: made.submit("second", 1, 2, option), after))
    for job in made.jobs["requeued"]:
        made.cluster.ask("scontrol", "update", f"JobId={job}", "StartTime=now")
    for job in held:
        made.cluster.ask("scontrol", "release", str(job))
    waiting = ("array", "plain", "first", "second", "held", "requeued")
    until(
        lambda: all({*made.states(kind)} <= {"COMPLETED"} for kind in waiting), "jobs to end", 900
    )
    for _ in range(N_RUNNING):
        made.submit("running", 16, 10, run="sleep 3600")  # on all CPUs
    until(lambda: made.states("running") == ["RUNNING"] * N_RUNNING, "the last jobs to run")
    for _ in range(N_WITHDRAWN):
        made.submit("withdrawn", 1, 1)
    made.cluster.ask("scancel", *map(str, made.jobs["withdrawn"]))
    made.jobs["array"] = _tasks_of(made.cluster, array)
    for job in made.jobs["array"]:
        made.wanted[job] = (2, 4)
    n_ran = N_JOBS - N_RUNNING - N_WITHDRAWN
    over = {"COMPLETED": n_ran, "REQUEUED": N_REQUEUED, "RUNNING": N_RUNNING}
    until(lambda: made.accounted() == {**over, "CANCELLED": N_WITHDRAWN}, "the accounting of all")


def _tasks_of(cluster: SlurmCluster, array: int) -> list[int]:
    command = ("sacct", "-aXPn", "-j", str(array), "--format", "jobidraw,state")

    def ended() -> list[int]:
        rows = [row.split("|") for row in cluster.ask(*command).split()]
        return [int(job) for job, state in rows if state == "COMPLETED"]

    until(lambda: len(ended()) == N_ARRAY, "the accounting of the array")
    return ended()


def dumped(made: Submitted, path: Path, *options: str, **environment: str) -> Workload:
    """Dump what the accounting knows, and read the file."""
    made.cluster.environment |= environment
    try:
        path.write_text(made.cluster.ask("sacct", "--allusers", "--parsable2", *options))
    finally:
        for name in environment:
            del made.cluster.environment[name]
    return load_workload(path, rules=ReadingRules(never_ran="keep_zero"))


def test_what_sacct_dumps_is_what_was_submitted(submitted: Submitted, tmp_path: Path) -> None:
    made, path = submitted, tmp_path / "dump.txt"
    workload = dumped(made, path, "--noheader", "--allocations", "--duplicates",
                      "--format", XDMOD, TZ="UTC")  # fmt: skip
    ran = [job for kind, jobs in made.jobs.items() if kind not in ("withdrawn", "running")
           for job in jobs]  # fmt: skip
    place = {int(job): row for row, job in enumerate(workload.job_id.tolist())}
    assert set(ran) <= set(place)
    again = [row for job, row in place.items() if job not in ran]
    assert workload.n_jobs == len(ran) + len(again)
    for job in ran:
        cpus, minutes = made.wanted[job]
        row = place[job]
        assert (workload.procs[row], workload.requested_s[row]) == (cpus, 60.0 * minutes), job
    notes = {note.rule: note for note in workload.notes}
    counts = {rule: note.n_rows for rule, note in notes.items()}
    assert counts["requeues"] == len(again) == N_REQUEUED
    assert counts["running"] == N_RUNNING
    assert counts["never_ran"] == N_WITHDRAWN
    assert {"broken", "steps", "copies", "job_ids", "starts_early"}.isdisjoint(counts)
    assert counts["wait_from"] >= N_HELD
    _eligible_is_after_submission(made, workload, place, path)
    assert (workload.max_procs or 0) <= 32
    # The same jobs, with Unix times, a header, other fields and the steps of the jobs
    other = dumped(made, tmp_path / "other.txt", "--duplicates", "--format", OTHER,
                   SLURM_TIME_FORMAT="%s")  # fmt: skip
    assert other == workload
    assert other.start_unix_s == workload.start_unix_s
    assert next(n.n_rows for n in other.notes if n.rule == "steps") >= len(ran)


def _eligible_is_after_submission(
    made: Submitted, workload: Workload, place: dict[int, int], path: Path
) -> None:
    """Dependents and held jobs wait from when they became eligible, at most 10 s after that."""
    fields = XDMOD.split(",")
    rows = [dict(zip(fields, row.split("|", len(fields) - 1), strict=True))
            for row in path.read_text().splitlines()]  # fmt: skip
    at = {int(row["jobidraw"]): row for row in rows}
    for first, second in zip(made.jobs["first"], made.jobs["second"], strict=False):
        assert at[first]["jobname"] == "first|a"
        assert at[second]["eligible"] >= at[second]["submit"]
    start_s = workload.submit_s + workload.logged_wait_s
    for job in made.jobs["held"]:
        moved = np.datetime64(at[job]["eligible"]) - np.datetime64(at[job]["submit"])
        assert moved > np.timedelta64(0)
        waited = np.datetime64(at[job]["start"]) - np.datetime64(at[job]["eligible"])
        assert workload.logged_wait_s[place[job]] == waited.astype(float)
    assert (start_s >= workload.submit_s).all()


def test_the_dump_and_its_slurm_conf_become_a_sweep_that_runs(
    submitted: Submitted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    dumped(submitted, tmp_path / "dump.txt", "--noheader", "--allocations", "--duplicates",
           "--format", XDMOD, TZ="UTC")  # fmt: skip
    conf = submitted.cluster.folder / "slurm.conf"
    assert run(["from-slurm", "dump.txt", "--conf", str(conf), "--tz", "UTC"]) == 0
    said = capsys.readouterr().out
    assert (
        "All partitions share nodes and are simulated as one queue on 32 CPUs of 4 nodes." in said
    )
    workload = load_workload(tmp_path / "sweep.swf.gz")
    assert workload.max_procs == 32
    predicted = simulate(Scenario(workload, ClusterSpec.single(32), backfill="conservative"))
    waits_s = predicted.start_s - workload.submit_s
    assert len(waits_s) == len(workload.submit_s)
    assert (waits_s >= 0).all()
    assert run(["sweep", "sweep.toml", "--runs", "6"]) == 0
