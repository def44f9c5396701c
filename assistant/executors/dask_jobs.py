"""The Slurm jobs in which workers of Dask live: begun, looked for and ended by names of ours.

A job's number is never trusted: after a crash Slurm may give it to another job. Names are random
for each executor and counted within it, and only they say whose a job is.
"""

import contextlib
import itertools
import math
import os
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from assistant.errors import ExecutorError, SettingsError
from assistant.executors.dask_address import is_loopback
from assistant.executors.place import BatchSystem
from assistant.ports import Environment

WITHIN_S = 60.0
"""How long a command of Slurm may take; one that finds no controller gives up by itself before."""

ALIVE = ("PENDING", "CONFIGURING", "RUNNING", "SUSPENDED", "STOPPED", "RESIZING", "SIGNALING")
"""States of Slurm in which a job may still come to something."""

LONGEST_WORDS = 300
"""Characters of what Slurm or a job says that are told."""


class SlurmCommandError(Exception):
    """A command of Slurm failed; in its own words."""


class WorkerJobs:
    """The jobs of one executor.

    Args:
        batch: what Slurm is told of them.
        environment: what a run needs, and hence a job, that makes one at a time.
        folder: for what they print; of this machine and the nodes.

    Attributes:
        in_vain: jobs given to Slurm since a run last came back.
        silent_since_s: since when Slurm has not answered, steady time; None if it does.
        refused: what Slurm said when it last took no job or did not answer.

    Raises:
        SettingsError: there is no Slurm here.
    """

    def __init__(self, batch: BatchSystem, environment: Environment, folder: Path) -> None:
        if shutil.which("sbatch") is None:
            raise SettingsError(
                "there is no sbatch here, so no jobs of Slurm can be started; install Slurm's "
                "commands, or execute runs elsewhere ([executor] kind)"
            )
        self._batch, self._environment, self._folder = batch, environment, folder
        self.stem = f"copperline-{secrets.token_hex(6)}"
        self._numbers = itertools.count(1)
        self.in_vain = 0
        self.silent_since_s: float | None = None
        self.refused = ""

    def check(self) -> None:
        """Ask Slurm whether such a job could ever start.

        Raises:
            SettingsError: it could not, with Slurm's words.
            ExecutorError: Slurm does not answer.
        """
        try:
            self._sbatch("copperline-test", "#!/bin/sh\n", "--test-only")
        except SlurmCommandError as error:
            if "contact" in str(error) or "timed out" in str(error):
                raise ExecutorError(f"Slurm does not answer ({error}); is it running?") from error
            raise SettingsError(
                f"Slurm takes no such job: {error}; see [executor] (partition, account, walltime, "
                "options) and [environment] (cores, memory)"
            ) from error

    def submit(self, script: str) -> str:
        """Give a job to Slurm, and return its name.

        Whether it was taken is not known in every case, for instance when the answer got lost;
        therefore it is told by `alive` alone.
        """
        name = f"{self.stem}-{next(self._numbers)}"
        self.in_vain += 1
        try:
            self._sbatch(name, script, "--parsable")
        except SlurmCommandError as error:
            self.refused = str(error)
        return name

    def alive(self) -> frozenset[str] | None:
        """Return the names of jobs that wait or go on; None if Slurm does not answer."""
        try:
            told = _said(["squeue", "--noheader", f"--user={os.getuid()}", "--format=%j %T"])
        except SlurmCommandError as error:
            self.refused = str(error)
            self.silent_since_s = self.silent_since_s or time.monotonic()
            return None
        self.silent_since_s = None
        pairs = (line.rpartition(" ") for line in told.splitlines())
        return frozenset(
            name for name, _, state in pairs if name.startswith(self.stem) and state in ALIVE
        )

    def end(self, names: Iterable[str]) -> None:
        """End jobs, as far as Slurm answers."""
        listed = ",".join(names)
        if listed:
            with contextlib.suppress(SlurmCommandError):
                _said(["scancel", f"--user={os.getuid()}", f"--name={listed}"])

    def last_words(self) -> str | None:
        """Return the last line that a job has printed, of the job that printed last."""
        found = [(path.stat().st_mtime, path) for path in self._folder.glob("*.out")]
        for _, path in sorted(found, reverse=True):
            with path.open("rb") as file:
                file.seek(max(0, path.stat().st_size - 4096))
                lines = file.read().decode(errors="replace").split("\n")
            said = [line.strip() for line in lines if line.strip()]
            if said:
                return said[-1][:LONGEST_WORDS]
        return None

    def _sbatch(self, name: str, script: str, how: str) -> str:
        return _said(["sbatch", how, *self.arguments(name)], script)

    def arguments(self, name: str) -> list[str]:
        """Return what sbatch is told of a job, one argument each; no shell reads them."""
        batch, environment = self._batch, self._environment
        told = [
            f"--job-name={name}",
            "--ntasks=1",
            "--no-requeue",  # another takes its place
            f"--output={self._folder / '%j.out'}",
            "--open-mode=append",
        ]
        if environment.cores is not None:
            told.append(f"--cpus-per-task={environment.cores}")
        if environment.memory_bytes is not None:
            told.append(f"--mem={math.ceil(environment.memory_bytes / 1024)}K")
        if batch.partition is not None:
            told.append(f"--partition={batch.partition}")
        if batch.account is not None:
            told.append(f"--account={batch.account}")
        if batch.walltime_s is not None:
            told.append(f"--time={max(1, math.ceil(batch.walltime_s / 60))}")
        return [*told, *batch.options]

    @property
    def threads(self) -> int:
        """Threads that libraries of a run may use."""
        return self._environment.cores or 1


def address_for_nodes(batch: BatchSystem) -> str:
    """Return the address of this machine that nodes can reach: what is said, or loopback.

    Raises:
        SettingsError: it is not said, and some nodes are not this machine.
    """
    if batch.host is not None:
        return batch.host
    try:
        nodes = set(_said(["sinfo", "--noheader", "--Node", "--format=%o"]).split())
    except SlurmCommandError as error:
        raise ExecutorError(f"Slurm does not answer ({error}); is it running?") from error
    elsewhere = sorted(node for node in nodes if not is_loopback(node))
    if elsewhere:
        raise SettingsError(
            f"the nodes of Slurm are other machines ({elsewhere[0]}); say under which address they "
            "reach this one: [executor] host"
        )
    return "127.0.0.1"


def exported() -> dict[str, str]:
    """Return the environment of jobs: this one, where the same modules are found.

    Left out are our own token, and what a job of Slurm says of itself if this is one.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if name == "SLURM_CONF" or not name.startswith(("SLURM_", "COPPERLINE_TOKEN"))
    }
    folders = [str(Path(folder or ".").absolute()) for folder in sys.path]
    return kept | {"PYTHONPATH": os.pathsep.join(folders)}


def _said(command: Sequence[str], text: str | None = None) -> str:
    """Return what a command printed. Raises SlurmCommandError."""
    try:
        done = subprocess.run(  # noqa: S603 - an argument each, no shell
            command, input=text or "", capture_output=True, text=True, timeout=WITHIN_S,
            env=exported(), check=False, errors="replace",
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise SlurmCommandError(f"{command[0]} timed out after {WITHIN_S:.0f} s") from error
    except (OSError, ValueError) as error:
        raise SlurmCommandError(f"{command[0]}: {error}") from error
    if done.returncode != 0:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        raise SlurmCommandError((lines or [f"{command[0]} ended with {done.returncode}"])[-1])
    return done.stdout
