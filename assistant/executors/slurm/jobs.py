"""Slurm commands (run without a shell), options of the jobs, and the folder shared with nodes.

The folder is shared by an executor and its pilots; leftovers of dead executors are found in it.
"""

import contextlib
import math
import os
import re
import shutil
import socket
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from assistant.core.errors import ExecutorError, SettingsError
from assistant.core.ports import Environment
from assistant.core.process_lock import ProcessLock, is_locked
from assistant.executors.slurm.protocol import PREFIX, write_private
from assistant.executors.spec import BatchSystem

COMMAND_S = 30.0

NOT_CANCELLED = (
    "Slurm does not answer, so the jobs of this sweep may not be cancelled yet; started ones end "
    "by themselves, and the next sweep in the same folder cancels the rest"
)

PROGRAMS = ("sbatch", "squeue", "scancel", "sinfo")

KEPT = (
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TZ", "SLURM_CONF",
    "PYTHONPATH", "LD_LIBRARY_PATH", "OMP_NUM_THREADS", "COPPERLINE_CACHE_DIR",
)  # fmt: skip
"""Environment variables that Slurm's commands and the jobs get."""

OURS = (
    "-J", "--job-name", "--comment", "-a", "--array", "--wrap", "--parsable", "--export",
    "--export-file", "--get-user-env", "-o", "--output", "-e", "--error", "-i", "--input",
    "-W", "--wait", "-D", "--chdir", "--open-mode", "--requeue", "--no-requeue", "-N", "--nodes",
    "-n", "--ntasks", "-H", "--hold", "-M", "--clusters", "--test-only", "--usage", "--help",
    "-h", "-V", "--version", "-Q", "--quiet", "--uid", "--gid",
)  # fmt: skip
"""Options of sbatch that our jobs set themselves or cannot have."""

_AWAY = re.compile(
    r"unable to contact|connection refused|connection (failure|reset)|timed out|standby|"
    r"zero bytes|temporarily|transport endpoint|communication|no controller|"
    r"slurmctld.*(down|not respond)|unexpected message|protocol authentication|munge",
    re.IGNORECASE,
)
"""Messages of Slurm when its controller is away or busy; any other error is final."""


class SlurmUnavailableError(ExecutorError):
    """Error: Slurm did not answer a command; whether the command had an effect is unknown."""


class SlurmRefusedError(ExecutorError):
    """Error: Slurm rejected a command, and would reject the same command again."""


@dataclass(frozen=True, slots=True)
class SlurmJob:
    """Unfinished Slurm job of this executor, with its state and Slurm's reason for waiting."""

    name: str
    state: str
    reason: str

    @property
    def is_held(self) -> bool:
        """Whether Slurm has put the job on hold, so that only a person could release it."""
        return "requeued held" in self.reason.lower().replace("_", " ")


def check_commands() -> None:
    """Raise SettingsError if Slurm's commands are not installed."""
    lacking = [name for name in PROGRAMS if shutil.which(name) is None]
    if lacking:
        raise SettingsError(
            f"there is no '{lacking[0]}' on this machine; start the sweep on a machine with "
            "Slurm's commands, or choose another executor"
        )


def check_options(options: Sequence[str]) -> None:
    """Raise SettingsError if an extra option for sbatch is invalid."""
    for option in options:
        if not option.startswith("-") or any(ord(character) < 32 for character in option):
            raise SettingsError(
                f"the option '{option}' of [executor] does not begin with '-'; write each with its "
                "value as one text, such as '--constraint=fast'"
            )
        name = option.partition("=")[0]
        if option in ("-", "--") or _is_ours(name):
            raise SettingsError(
                f"the option '{option}' of [executor] is not allowed; Copperline sets the name, "
                "output, size and environment of its jobs"
            )


def _is_ours(name: str) -> bool:
    """Return whether an option is one of `OURS`; sbatch accepts abbreviations."""
    if name.startswith("--"):
        return any(option.startswith(name) for option in OURS)
    return name[:2] in OURS


def time_text(seconds: float) -> str:
    """Return a walltime as text for sbatch (days-hours:minutes:seconds), rounded up to minutes.

    >>> time_text(90), time_text(7200), time_text(90000)
    ('0-00:02:00', '0-02:00:00', '1-01:00:00')
    """
    minutes = max(1, -int(-seconds // 60))
    days, rest = divmod(minutes, 24 * 60)
    return f"{days}-{rest // 60:02d}:{rest % 60:02d}:00"


def submit_job(arguments: Sequence[str]) -> None:
    """Submit a Slurm job; raise SlurmUnavailableError (effect unknown) or SlurmRefusedError."""
    _ask(["sbatch", *arguments])


def jobs_by_name(names: Iterable[str]) -> dict[str, list[SlurmJob]]:
    """Return the unfinished jobs by name; raise SlurmUnavailableError or SlurmRefusedError."""
    output = _ask(
        ["squeue", "--noheader", f"--user={os.geteuid()}", f"--name={','.join(names)}",
         "--states=all", "--format=%j|%T|%r"]
    )  # fmt: skip
    by_name: dict[str, list[SlurmJob]] = {}
    for line in output.splitlines():
        name, state, reason = [*line.strip().split("|", 2), "", ""][:3]
        if state not in _OVER:
            by_name.setdefault(name, []).append(SlurmJob(name, state, reason))
    return by_name


_OVER = {
    "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY",
    "PREEMPTED", "REVOKED", "TIMEOUT",
}  # fmt: skip


def cancel_jobs(names: Iterable[str]) -> None:
    """Cancel Slurm jobs by name, or raise SlurmUnavailableError or SlurmRefusedError."""
    for name in names:
        _ask(["scancel", f"--user={_user()}", f"--name={name}"])


def is_local_slurm(partition: str | None) -> bool:
    """Return whether this machine is the only node of Slurm, or of ``partition`` if given."""
    arguments = [] if partition is None else [f"--partition={partition}"]
    hosts = _ask(["sinfo", "--noheader", "--Node", "--format=%o", *arguments]).split()
    names = {"localhost", "127.0.0.1", "::1", socket.gethostname(), socket.getfqdn()}
    return bool(hosts) and set(hosts) <= names


def _user() -> str:
    import pwd

    return pwd.getpwuid(os.geteuid()).pw_name


def _ask(command: list[str]) -> str:
    environment = {name: os.environ[name] for name in KEPT if name in os.environ}
    try:
        done = subprocess.run(  # noqa: S603 - a list, never a shell
            command, env=environment, stdin=subprocess.DEVNULL, capture_output=True,
            timeout=COMMAND_S, check=False, start_new_session=True,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise SlurmUnavailableError(
            f"{command[0]} did not answer within {COMMAND_S:.0f} s"
        ) from error
    except OSError as error:
        raise SlurmRefusedError(f"{command[0]} cannot be started: {error.strerror}") from error
    stderr_text = done.stderr.decode(errors="replace").strip()
    if done.returncode != 0:
        lines = [line.strip() for line in stderr_text.splitlines() if line.strip()]
        lines = [line.removeprefix(f"{command[0]}: ").removeprefix("error: ") for line in lines]
        reason = "; ".join(lines) or f"exit code {done.returncode}"
        if done.returncode < 0 or _AWAY.search(stderr_text):
            raise SlurmUnavailableError(f"{command[0]}: {reason}")
        raise SlurmRefusedError(f"{command[0]}: {reason}")
    return done.stdout.decode(errors="replace")


FOLDER = Path("copperline-out") / "slurm"  # Default folder that this machine and the nodes share


def job_options(
    name: str, output: Path, batch: BatchSystem, environment: Environment, *, requeue: bool
) -> list[str]:
    """Return the sbatch arguments for a job whose output is appended to ``output``."""
    arguments = [
        f"--job-name={name}", f"--comment={name}", "--parsable", "--export=ALL", "--nodes=1",
        "--ntasks=1", f"--cpus-per-task={environment.cores or 1}",
        "--requeue" if requeue else "--no-requeue", "--open-mode=append", f"--output={output}",
        f"--chdir={Path.cwd()}",
    ]  # fmt: skip
    if environment.memory_bytes is not None:
        arguments.append(f"--mem={math.ceil(environment.memory_bytes / 2**20)}M")
    if batch.walltime_s is not None:
        arguments.append(f"--time={time_text(batch.walltime_s)}")
    if batch.partition is not None:
        arguments.append(f"--partition={batch.partition}")
    if batch.account is not None:
        arguments.append(f"--account={batch.account}")
    return [*arguments, *batch.options]


def host_of(batch: BatchSystem) -> str:
    """Return the address at which nodes reach this machine; loopback if it is the only node.

    Raises:
        SettingsError: the host is missing although needed, or invalid.
        SlurmUnavailableError, SlurmRefusedError: Slurm does not list its nodes.
    """
    if batch.host is None:
        if is_local_slurm(batch.partition):
            return "127.0.0.1"
        raise SettingsError(
            "the nodes of this cluster are other machines: in [executor], set host to the address "
            "of this machine that they can reach, and folder to a shared folder"
        )
    if batch.host in ("0.0.0.0", "::", "*", ""):  # noqa: S104 - refused
        raise SettingsError(
            f"host '{batch.host}' of [executor] is not an address that jobs can connect to; give "
            "the address of this machine that the nodes of the cluster can reach"
        )
    return batch.host


@contextlib.contextmanager
def slurm_errors_translated() -> Iterator[None]:
    """Convert Slurm errors: ExecutorError for a missing answer, SettingsError for a rejection."""
    try:
        yield
    except SlurmUnavailableError as error:
        raise ExecutorError(f"Slurm does not answer ({error}); is it running?") from error
    except SlurmRefusedError as error:
        raise SettingsError(
            f"Slurm refuses the jobs of this sweep ({error}); see [executor] (partition, account, "
            "walltime, options) and [environment] (cores, memory)"
        ) from error


MARK = "sweep-"

PROGRAM = 'exec "$1" -P -m assistant.client.job_worker "$2"'
"""Last line of the script of a job; ticket and interpreter are arguments, never text of it."""


def job_script(setup: Sequence[str] = ()) -> str:
    """Return the script of every job, with the lines of the user's setup before the program.

    A setup needs a login shell, which knows ``module``; its first line that fails ends the job.
    """
    if not setup:
        return f"#!/bin/sh\n{PROGRAM}\n"
    return "\n".join(["#!/bin/bash -l", "set -e", *setup, "set +e", PROGRAM, ""])


_TICKET = "ticket-"

KEPT_S = 30 * 24 * 3600.0  # Seconds for which the log of a job is kept


class JobLogs:
    """Logs of the jobs of all sweeps in a shared folder, which stay when a sweep has ended.

    Raises SettingsError if their folder cannot be made in ``base``.
    """

    def __init__(self, base: Path) -> None:
        self._path = base.absolute() / "logs"
        try:
            self._path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise SettingsError(
                f"cannot make the folder '{self._path}' for the logs of jobs: {error.strerror}"
            ) from error
        oldest_s = time.time() - KEPT_S
        for log in [*self._path.glob("*.log"), *self._path.glob("*/*.log")]:
            with contextlib.suppress(OSError):
                if log.lstat().st_mtime < oldest_s:
                    log.unlink()

    def path(self, pilot: str) -> Path:
        """Return the path of the log of a job."""
        return self._path / f"{PREFIX}{pilot}.log"

    def note(self, pilot: str, experiment_id: str, run_id: int) -> None:
        """Note that a job executes a run of an experiment, so that its log is found by the run."""
        if not experiment_id:
            return
        folder = self._path / quote(experiment_id, safe="")
        with contextlib.suppress(OSError):  # a log that is not found fails no run
            folder.mkdir(mode=0o700, exist_ok=True)
            (folder / f"{run_id}-{pilot}.log").symlink_to(Path("..") / self.path(pilot).name)

    def last_line(self, pilot: str) -> str:
        """Return the last line in the log of a job; empty without one."""
        with contextlib.suppress(OSError):
            text = self.path(pilot).read_bytes()[-4096:].decode(errors="replace")
            return (text.strip().splitlines() or [""])[-1]
        return ""


def logs_of_run(base: Path, experiment_id: str, run_id: int) -> tuple[Path, ...]:
    """Return the logs of the jobs that have executed a run, the oldest first."""
    folder = base.absolute() / "logs" / quote(experiment_id, safe="")
    logs = [path for path in folder.glob(f"{run_id}-*.log") if path.exists()]
    return tuple(sorted(logs, key=lambda path: path.lstat().st_mtime))


class PilotFolder:
    """Private, locked folder for the ticket files and output files of one executor's pilots.

    Raises SettingsError if it cannot be made in ``base``, or others could write there.
    """

    def __init__(self, base: Path, setup: Sequence[str] = ()) -> None:
        try:
            base.mkdir(mode=0o700, parents=True, exist_ok=True)
            mode = base.stat().st_mode
            if mode & 0o022 and not mode & stat.S_ISVTX:
                raise SettingsError(
                    f"others may write to '{base}', the folder for the tickets of Slurm's "
                    f"pilots; run chmod go-w '{base}', or name another folder in [executor]"
                )
            self.path = Path(tempfile.mkdtemp(prefix=MARK, dir=base.resolve()))
            self.script = self.path / "pilot.sh"
            write_private(self.script, job_script(setup).encode())
            owner = self.path / "owner"
            write_private(owner, b"")
            self._lock = ProcessLock.take(owner, raises=SettingsError)
            owner.write_text(socket.gethostname())  # an owner counts once it holds its lock
        except OSError as error:
            raise SettingsError(
                f"cannot make a folder for Slurm's pilots in '{base}': {error.strerror}"
            ) from error
        if self._lock is None:
            raise SettingsError(f"'{self.path}' cannot be locked; name another folder")

    def ticket(self, pilot: str) -> Path:
        """Return the path of a pilot's ticket file."""
        return self.path / f"{_TICKET}{pilot}"

    def pilots(self) -> set[str]:
        """Return the ids of all pilots with a ticket in the folder."""
        return _pilots(self.path)

    def output(self, pilot: str) -> Path:
        """Return the path of a pilot's output file."""
        return self.path / f"output-{pilot}"

    def last_words(self, pilot: str) -> str:
        """Return the last line of a pilot's output file; empty without output."""
        with contextlib.suppress(OSError):
            text = self.output(pilot).read_bytes()[-4096:].decode(errors="replace")
            return (text.strip().splitlines() or [""])[-1]
        return ""

    def release(self, *, tidy: bool) -> None:
        """Release the lock, and remove the folder if ``tidy``."""
        if self._lock is not None:
            if tidy:
                remove_folder(self.path)
            self._lock.release()
            self._lock = None


def leftover_folders(base: Path) -> dict[Path, set[str]]:
    """Return the folders in ``base`` of executors that have died, with the pilot ids in each."""
    leftovers: dict[Path, set[str]] = {}
    for path in sorted(base.glob(f"{MARK}*")):
        owner = path / "owner"
        with contextlib.suppress(OSError):
            if path.stat().st_uid != os.geteuid() or owner.read_text() != socket.gethostname():
                continue
            if not is_locked(owner):
                leftovers[path] = _pilots(path)
    return leftovers


def remove_folder(path: Path) -> None:
    """Remove the private folder of an executor with all its files."""
    for _ in range(3):  # a job that ends may write its output meanwhile
        shutil.rmtree(path, ignore_errors=True)
        if not path.exists():
            return


def _pilots(path: Path) -> set[str]:
    return {ticket_path.name.removeprefix(_TICKET) for ticket_path in path.glob(f"{_TICKET}*")}
