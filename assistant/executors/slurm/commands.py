"""Slurm's own commands: what is asked, and what their answers mean. Never a shell."""

import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from assistant.errors import ExecutorError, SettingsError

COMMAND_S = 30.0
"""How long a command may take."""

PROGRAMS = ("sbatch", "squeue", "scancel", "sinfo")

KEPT = (
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TZ", "SLURM_CONF",
    "PYTHONPATH", "LD_LIBRARY_PATH", "OMP_NUM_THREADS", "COPPERLINE_CACHE_DIR",
)  # fmt: skip
"""Variables that Slurm's commands, and with them the jobs, have; no others."""

OURS = (
    "-J", "--job-name", "--comment", "-a", "--array", "--wrap", "--parsable", "--export",
    "--export-file", "--get-user-env", "-o", "--output", "-e", "--error", "-i", "--input",
    "-W", "--wait", "-D", "--chdir", "--open-mode", "--requeue", "--no-requeue", "-N", "--nodes",
    "-n", "--ntasks", "-H", "--hold", "-M", "--clusters", "--test-only", "--usage", "--help",
    "-h", "-V", "--version", "-Q", "--quiet", "--uid", "--gid",
)  # fmt: skip
"""Options of sbatch that a pilot's job has by itself or cannot have."""

_AWAY = re.compile(
    r"unable to contact|connection refused|connection (failure|reset)|timed out|standby|"
    r"zero bytes|temporarily|transport endpoint|communication|no controller|"
    r"slurmctld.*(down|not respond)|unexpected message|protocol authentication|munge",
    re.IGNORECASE,
)
"""What Slurm says when its controller is away, or busy; anything else is its last word."""


class AwayError(ExecutorError):
    """A command of Slurm's could not be answered just now; whether it had an effect is unknown."""


class RefusedError(ExecutorError):
    """Slurm refused something, and would again."""


@dataclass(frozen=True, slots=True)
class Job:
    """A job of ours as the controller sees it.

    Attributes:
        name: of its ticket.
        state: such as PENDING or RUNNING.
        reason: why it waits.
    """

    name: str
    state: str
    reason: str

    @property
    def is_held(self) -> bool:
        """Whether Slurm gave up starting it: nobody but a person would release it."""
        return "requeued held" in self.reason.lower().replace("_", " ")


def check_commands() -> None:
    """Refuse to begin where Slurm's commands are not installed. Raises SettingsError."""
    lacking = [name for name in PROGRAMS if shutil.which(name) is None]
    if lacking:
        raise SettingsError(
            f"there is no '{lacking[0]}' on this machine; start the sweep where Slurm's commands "
            "are, or choose another executor"
        )


def check_options(options: Sequence[str]) -> None:
    """Refuse options of sbatch that cannot be. Raises SettingsError."""
    for option in options:
        if not option.startswith("-") or any(ord(one) < 32 for one in option):
            raise SettingsError(
                f"the option '{option}' of [executor] does not begin with '-'; give each with its "
                "value in one text, such as '--constraint=fast'"
            )
        name = option.partition("=")[0]
        if option in ("-", "--") or name in OURS or (name[1] != "-" and name[:2] in OURS):
            raise SettingsError(
                f"the option '{option}' of [executor] is not for the job of a pilot; it has its "
                "own name, output, size and environment"
            )


def time_text(seconds: float) -> str:
    """Return a walltime as sbatch has it, rounded up to minutes as Slurm does.

    >>> time_text(90), time_text(7200), time_text(90000)
    ('0-00:02:00', '0-02:00:00', '1-01:00:00')
    """
    minutes = max(1, -int(-seconds // 60))
    days, rest = divmod(minutes, 24 * 60)
    return f"{days}-{rest // 60:02d}:{rest % 60:02d}:00"


def submit(arguments: Sequence[str]) -> None:
    """Submit a job. Raises AwayError if it is unknown whether it was taken, and RefusedError."""
    _ask(["sbatch", *arguments])


def jobs(names: Iterable[str]) -> dict[str, list[Job]]:
    """Return the jobs that are not over, by name. Raises AwayError and RefusedError."""
    told = _ask(
        ["squeue", "--noheader", f"--user={os.geteuid()}", f"--name={','.join(names)}",
         "--states=all", "--format=%j|%T|%r"]
    )  # fmt: skip
    found: dict[str, list[Job]] = {}
    for line in told.splitlines():
        name, state, reason = [*line.strip().split("|", 2), "", ""][:3]
        if state not in _OVER:
            found.setdefault(name, []).append(Job(name, state, reason))
    return found


_OVER = {
    "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY",
    "PREEMPTED", "REVOKED", "TIMEOUT",
}  # fmt: skip


def cancel(names: Iterable[str]) -> None:
    """Cancel jobs by their names. Raises AwayError and RefusedError."""
    for name in names:
        _ask(["scancel", f"--user={_user()}", f"--name={name}"])


def is_here(partition: str | None) -> bool:
    """Tell whether all nodes are this machine. Raises AwayError and RefusedError."""
    chosen = [] if partition is None else [f"--partition={partition}"]
    told = _ask(["sinfo", "--noheader", "--Node", "--format=%o", *chosen]).split()
    names = {"localhost", "127.0.0.1", "::1", socket.gethostname(), socket.getfqdn()}
    return bool(told) and set(told) <= names


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
        raise AwayError(f"{command[0]} did not answer within {COMMAND_S:.0f} s") from error
    except OSError as error:
        raise RefusedError(f"{command[0]} cannot be started: {error.strerror}") from error
    said = done.stderr.decode(errors="replace").strip()
    if done.returncode != 0:
        last = said.splitlines()[-1] if said else f"exit code {done.returncode}"
        what = last.removeprefix(f"{command[0]}: ").removeprefix("error: ")
        if done.returncode < 0 or _AWAY.search(said):
            raise AwayError(f"{command[0]}: {what}")
        raise RefusedError(f"{command[0]}: {what}")
    return done.stdout.decode(errors="replace")
