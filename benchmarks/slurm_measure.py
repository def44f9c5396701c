"""A real Slurm on this machine, which schedules drawn jobs; opt-in, as root, a few minutes a seed.

munged, slurmctld and one slurmd a node run on the loopback from a temporary folder, by the scripts
of ``--slurm``; nothing of the machine's own Slurm is used or touched. Time limits have a resolution
of one minute in Slurm, run times are some seconds: a scheduler that cannot look into the future
is always wrong about the ends, as on a real machine.
"""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from assistant import AssistantError
from benchmarks.slurm_draw import PARTITIONS, DrawnJob, draw
from benchmarks.slurm_runs import Policy
from sim import ClusterSpec, Scenario, Workload, simulate

PROGRAMS = ("sbatch", "scontrol", "squeue", "sinfo", "scancel", "munged")
SCRIPTS = ("gen_conf.py", "start.sh", "stop.sh")
POLL_S = 2.0
PATIENCE_S = 1_800.0
"""A run that has not ended by then has jobs that will not start."""
STOP_S = 10.0
LONGEST_SOCKET = 107
"""Characters of a Unix socket's path (Linux, unix(7)); Slurm's steps listen to one each."""
STARTING_S = 20.0
"""What starting and stopping a Slurm and its lag add to a schedule, about."""


class SlurmError(AssistantError):
    """A real Slurm cannot be had here, or did not do what it was asked."""


@dataclass(frozen=True)
class Plan:
    """What is measured.

    Attributes:
        scripts: folder of `SCRIPTS`.
        folder: where the schedules are written.
        policy: of Slurm's backfilling.
        nodes: of each of the two partitions.
        cpus: of each node.
        n_jobs: of each seed.
        span_s: the last job comes about so long after the first.
        port: the first of the ports that Slurm listens to, on the loopback.
    """

    scripts: Path
    folder: Path
    policy: Policy
    nodes: int
    cpus: int
    n_jobs: int
    span_s: int
    port: int

    def target(self, seed: int) -> Path:
        """Return where the schedule of a seed lies."""
        return self.folder / f"{self.policy}_{self.nodes}x{self.cpus}cpu_seed{seed}.json"


def measure(plan: Plan, seeds: list[int]) -> list[Path]:
    """Measure the schedule of every seed that is not measured yet; return their files.

    Raises:
        SlurmError: what is needed is not there, or a file is there that tells of something else.
    """
    drawn = {s: draw(s, plan.n_jobs, plan.span_s, plan.nodes * plan.cpus) for s in seeds}
    missing = [seed for seed in seeds if not _is_measured(plan.target(seed), drawn[seed])]
    if missing:
        check(plan)
        plan.folder.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(missing, 1):
        target = plan.target(seed)
        later_s = sum(expected_s(plan, drawn[other]) for other in missing[number:])
        progress = _Progress(
            f"seed {seed} ({number} of {len(missing)})", expected_s(plan, drawn[seed]), later_s
        )
        with cluster(plan) as environment:
            body = schedule(plan, seed, drawn[seed], environment, progress)
        part = target.with_suffix(".part")
        part.write_text(json.dumps(body) + "\n", encoding="utf-8")
        part.replace(target)
        progress.end(f"{target} took {body['wall']:.0f} s")
    return [plan.target(seed) for seed in seeds]


def check(plan: Plan) -> None:
    """Refuse to begin where a real Slurm cannot be started.

    Raises:
        SlurmError: what is missing, and where it comes from.
    """
    absent = [name for name in SCRIPTS if not (plan.scripts / name).is_file()]
    if absent:
        raise SlurmError(
            f"{plan.scripts} has no '{absent[0]}'; --slurm needs the folder with "
            f"{', '.join(SCRIPTS)}, which start a Slurm on one machine."
        )
    lacking = [name for name in PROGRAMS if shutil.which(name) is None]
    if lacking:
        raise SlurmError(
            f"there is no '{lacking[0]}' on this machine; a real Slurm comes with apt-get install "
            "slurm-wlm munge, and --run FILE replays what was measured elsewhere."
        )
    if os.geteuid() != 0:
        raise SlurmError(
            "this Slurm must be started by root, since it runs jobs as root; use a container, or "
            "--run FILE to replay what was measured elsewhere."
        )
    used = [*range(2), *range(100, 100 + 2 * plan.nodes)]
    if plan.port + used[-1] > 65_535:
        raise SlurmError(
            f"{2 * plan.nodes} nodes from port {plan.port} on need ports above 65535; take fewer "
            "nodes, or a smaller --port."
        )
    for port in (plan.port + further for further in used):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as Slurm's own
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                raise SlurmError(
                    f"port {port} of the loopback is taken, perhaps by another Slurm; choose other "
                    "ports with --port."
                ) from None


def _check_length(plan: Plan, folder: Path) -> None:
    """Refuse a folder in which no step could listen: Slurm would put every job back for ever.

    Raises:
        SlurmError: the folder's name is too long.
    """
    node = f"n{2 * plan.nodes - 1}"
    socket_name = f"/spool/{node}/{node}_{plan.n_jobs}.4294967291"  # of a batch step
    if len(os.fsencode(folder)) + len(socket_name) > LONGEST_SOCKET:
        raise SlurmError(
            f"the temporary folder {folder} has a name too long for the sockets of Slurm's jobs; "
            f"at most {LONGEST_SOCKET - len(socket_name)} bytes are possible: set TMPDIR to a "
            "shorter one, as TMPDIR=/tmp."
        )


@contextmanager
def cluster(plan: Plan, more: str = "") -> Iterator[dict[str, str]]:
    """Run a Slurm as long as it is needed; yield the environment in which its commands find it.

    ``more`` are further lines of slurm.conf; of settings that are there twice the last counts.
    Every process that it started is over on the way out, also after Ctrl-C and SIGTERM.

    Raises:
        SlurmError: it does not come up.
    """
    with tempfile.TemporaryDirectory(prefix="slurm-") as name:
        folder = Path(name)
        _check_length(plan, folder)
        environment = dict(os.environ) | {"SLURM_CONF": str(folder / "slurm.conf"), "TZ": "UTC"}
        easy = ["--easy"] if plan.policy == "easy" else []
        _ask(
            [
                sys.executable, str(plan.scripts / "gen_conf.py"), name, "--disjoint", *easy,
                "--nodes", str(2 * plan.nodes), "--cpus", str(plan.cpus),
                "--base-port", str(plan.port),
            ],
            environment,
        )  # fmt: skip
        with (folder / "slurm.conf").open("a", encoding="utf-8") as conf:
            conf.write(f"\n{more}")
        before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        try:
            # A session of its own: Ctrl-C is for us, who then cancel the jobs and stop the rest.
            _ask(["bash", str(plan.scripts / "start.sh"), name], environment)
            yield environment
        finally:
            _stop(plan, folder, environment)
            signal.signal(signal.SIGTERM, before)


def _stop(plan: Plan, folder: Path, environment: dict[str, str]) -> None:
    files = (folder / "run").glob("*.mypid")
    pids = [int(text) for text in (file.read_text() for file in files) if text.strip()]
    cancel = ["scancel", "--user=root"]
    if any(_is_daemon(pid) for pid in pids):
        subprocess.run(cancel, env=environment, capture_output=True, timeout=STOP_S, check=False)
        _until(lambda: not _ids(environment), STOP_S)
    subprocess.run(
        ["bash", str(plan.scripts / "stop.sh"), str(folder)],
        env=environment, capture_output=True, check=False, start_new_session=True,
    )  # fmt: skip
    if not _until(lambda: not any(_is_daemon(pid) for pid in pids), STOP_S):
        for pid in filter(_is_daemon, pids):
            os.kill(pid, signal.SIGKILL)
        _until(lambda: not any(_is_daemon(pid) for pid in pids), STOP_S)


def _is_daemon(pid: int) -> bool:
    """Return whether a pid is still that of one of Slurm's daemons, and not of somebody else."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")
    except OSError:
        return False
    name = fields[0].partition("(")[2]
    return name in ("munged", "slurmctld", "slurmd") and fields[2].split()[0] != "Z"


def _until(done: Callable[[], bool], limit_s: float) -> bool:
    """Look until something is done, for so long at most; return whether it is."""
    end_s = time.monotonic() + limit_s
    while not done():
        if time.monotonic() > end_s:
            return False
        time.sleep(0.1)
    return True


def _ask(command: list[str], environment: dict[str, str]) -> str:
    """Return what a command says.

    Output goes through a file: daemons that a script leaves behind would keep a pipe open.

    Raises:
        SlurmError: it fails.
    """
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as said:
        done = subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=said, stderr=said,
            check=False, start_new_session=True,
        )  # fmt: skip
        said.seek(0)
        text = said.read()
    if done.returncode != 0:
        name = Path(command[1] if command[0] in ("bash", sys.executable) else command[0]).name
        last = (text.strip().splitlines() or ["nothing"])[-1]
        raise SlurmError(f"{name} ended with code {done.returncode} and said: {last}")
    return text


def schedule(
    plan: Plan,
    seed: int,
    drawn: tuple[DrawnJob, ...],
    environment: dict[str, str],
    say: Callable[[str], None],
) -> dict[str, Any]:
    """Submit jobs when they are due, wait until all are over, and return what Slurm tells.

    Raises:
        SlurmError: a command fails, or jobs do not end.
    """
    began_s = time.monotonic()
    asked: dict[int, DrawnJob] = {}
    for job in drawn:
        time.sleep(max(0.0, began_s + job.arrival_s - time.monotonic()))
        said = _ask(
            [
                "sbatch", "--parsable", "-p", job.partition, "-n", str(job.procs),
                "-t", str(job.limit_min), "-D", "/", "-o", "/dev/null",
                "--wrap", f"sleep {job.run_s}",
            ],
            environment,
        )  # fmt: skip
        asked[int(said.strip().splitlines()[-1])] = job
        say(f"{len(asked)} of {len(drawn)} jobs submitted")
    submitted_s = time.monotonic()
    while waiting := _ids(environment):
        if time.monotonic() - submitted_s > PATIENCE_S:
            raise SlurmError(
                f"{len(waiting)} of {len(drawn)} jobs were not over after {PATIENCE_S:.0f} s "
                f"({_state(waiting[0], environment)}); the schedule of seed {seed} is not kept."
            )
        say(f"{len(drawn) - len(waiting)} of {len(drawn)} jobs over")
        time.sleep(POLL_S)
    told = parse(_ask(["scontrol", "show", "job", "-o"], environment))
    version = _ask(["sbatch", "--version"], environment).strip()
    return {
        "seed": seed,
        "n": len(drawn),
        "policy": plan.policy,
        "nodes": plan.nodes,
        "cpus": plan.cpus,
        "cap": plan.nodes * plan.cpus,
        "slurm": version,
        "wall": time.monotonic() - began_s,
        "jobs": [_asked(job) | {"id": number} | told[number] for number, job in asked.items()],
    }


def expected_s(plan: Plan, drawn: tuple[DrawnJob, ...]) -> float:
    """Return how long the jobs will take, in seconds: under EASY, and what starting takes."""
    ends_s = [0.0]
    for name in PARTITIONS:
        jobs = [job for job in drawn if job.partition == name]
        if jobs:
            workload = Workload.from_arrays(
                submit_s=[job.arrival_s for job in jobs],
                runtime_s=[job.run_s for job in jobs],
                requested_s=[60 * job.limit_min for job in jobs],
                procs=[job.procs for job in jobs],
            )
            scenario = Scenario(workload, ClusterSpec.single(plan.nodes * plan.cpus))
            end_s = simulate(scenario, engine="interpreted").end_s.max()
            ends_s.append(jobs[0].arrival_s + float(end_s))
    return STARTING_S + max(ends_s)


def _ids(environment: dict[str, str]) -> list[int]:
    """Return the jobs that are not over."""
    told = _ask(["squeue", "--noheader", "--format=%i"], environment)
    return [int(line) for line in told.split()]


def _state(number: int, environment: dict[str, str]) -> str:
    """Return why a job is not over, in Slurm's words."""
    told = _ask(["squeue", "--noheader", f"--jobs={number}", "--format=%T %r"], environment)
    state, _, reason = told.strip().partition(" ")
    return f"job {number} is {state}, the reason given is {reason}"


def _asked(job: DrawnJob) -> dict[str, Any]:
    return {
        "arr": job.arrival_s, "part": job.partition, "n": job.procs, "lim": 60 * job.limit_min,
        "run": job.run_s,
    }  # fmt: skip


def parse(told: str) -> dict[int, dict[str, Any]]:
    """Return what ``scontrol show job -o`` (in UTC) tells of each job, by its id.

    Raises:
        SlurmError: a job without one of its fields.
    """
    found: dict[int, dict[str, Any]] = {}
    for line in filter(None, (line.strip() for line in told.splitlines())):
        fields = dict(re.findall(r"(\S+?)=(\S*)", line))
        try:
            times = {
                key: datetime.fromisoformat(fields[name]).replace(tzinfo=UTC).timestamp()
                for key, name in (
                    ("submit", "SubmitTime"), ("start", "StartTime"), ("end", "EndTime"),
                )
            }  # fmt: skip
            state = fields["JobState"]
            found[int(fields["JobId"])] = times | {"sched": fields["Scheduler"], "state": state}
        except (KeyError, ValueError) as error:
            raise SlurmError(
                f"scontrol tells '{line[:60]}' of a job, which cannot be understood ({error})."
            ) from None
    return found


def _is_measured(path: Path, drawn: tuple[DrawnJob, ...]) -> bool:
    """Return whether a file has the schedule of these jobs.

    Raises:
        SlurmError: it has another.
    """
    if not path.exists():
        return False
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))["jobs"]
        found = [{key: row[key] for key in _asked(drawn[0])} for row in rows]
    except (ValueError, KeyError, TypeError):
        found = []
    if found != [_asked(job) for job in drawn]:
        raise SlurmError(
            f"{path} is there and is not the schedule of these jobs; move it away, or write to "
            "another folder with --to."
        )
    return True


class _Progress:
    """Writes a line over itself at a terminal; elsewhere one now and then."""

    EVERY_S = 15.0

    def __init__(self, place: str, expected_s: float, later_s: float) -> None:
        self._place = place
        self._later_s = later_s
        self._end_s = time.monotonic() + expected_s
        self._said_s = -self.EVERY_S

    def __call__(self, text: str) -> None:
        now_s = time.monotonic()
        left_s = max(0.0, self._end_s - now_s) + self._later_s
        line = f"{self._place}: {text}, about {left_s:.0f} s left"
        if sys.stderr.isatty():
            sys.stderr.write(line.ljust(78) + "\r")
        elif now_s - self._said_s >= self.EVERY_S:
            sys.stderr.write(line + "\n")
            self._said_s = now_s
        sys.stderr.flush()

    def end(self, text: str) -> None:
        """Write the last line, which stays."""
        sys.stderr.write(f"{self._place}: {text}".ljust(78 * sys.stderr.isatty()) + "\n")
