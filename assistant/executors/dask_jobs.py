"""The Slurm jobs in which workers of Dask live: begun, looked for and ended by names of ours.

A job's number is never trusted: after a crash Slurm may give it to another job. A name is random,
and only it says whose a job is.
"""

import contextlib
import time
from pathlib import Path

from assistant.errors import ExecutorError
from assistant.executors.place import BatchSystem
from assistant.executors.slurm import asking, commands
from assistant.executors.slurm.folder import Folder, left_over, remove
from assistant.executors.slurm.ticket import PREFIX, new_id, write_private
from assistant.ports import Environment

GOING = frozenset({"PENDING", "CONFIGURING", "RUNNING", "SUSPENDED", "STOPPED", "RESIZING"})
"""States of Slurm in which a job may still come to something."""


class WorkerJobs:
    """The jobs of one executor, and the folder that they share with it.

    Args:
        batch: what Slurm is told of them.
        environment: what a run needs, and hence a job, that makes one at a time.

    Attributes:
        host: under which nodes reach this machine.
        in_vain: jobs given to Slurm since a run last came back.
        silent_since_s: since when Slurm has not answered, steady time; None if it does.
        refused: what Slurm said when it last took no job or did not answer.

    Raises:
        SettingsError: there is no Slurm here, or it takes no such job.
        ExecutorError: Slurm does not answer.
    """

    def __init__(self, batch: BatchSystem, environment: Environment) -> None:
        commands.check_commands()
        commands.check_options(batch.options)
        self._batch, self._environment = batch, environment
        self.in_vain = 0
        self.silent_since_s: float | None = None
        self.refused = ""
        self._last_over = ""
        base = batch.folder or asking.FOLDER
        with asking.told_as_is():
            for path, ids in left_over(base).items():  # executors of this machine that were killed
                commands.cancel(PREFIX + one for one in ids)
                remove(path)
        self._folder = Folder(base)
        try:
            with asking.told_as_is():
                commands.submit(["--test-only", *self._arguments("test"), str(self._folder.script)])
                self.host = asking.host_of(batch)
        except BaseException:
            self.close()
            raise

    @property
    def path(self) -> Path:
        """The folder; nobody but its owner may look into it."""
        return self._folder.path

    @property
    def threads(self) -> int:
        """Threads that libraries may use in a run."""
        return self._environment.cores or 1

    def submit(self, script: str) -> str:
        """Give a job to Slurm, and return its name.

        Whether it was taken is not known in every case, for instance when the answer got lost;
        `going` tells.
        """
        one = new_id()
        write_private(self._folder.ticket(one), script.encode())
        self.in_vain += 1
        try:
            commands.submit([*self._arguments(one), str(self._folder.ticket(one))])
        except ExecutorError as error:
            self.refused = str(error)
        return PREFIX + one

    def going(self) -> frozenset[str] | None:
        """Return the names of jobs that wait or go on; None if Slurm does not answer."""
        names = [PREFIX + one for one in self._folder.pilots()]
        try:
            found = commands.jobs(names) if names else {}
        except ExecutorError as error:
            self.refused = str(error)
            self.silent_since_s = self.silent_since_s or time.monotonic()
            return None
        self.silent_since_s = None
        return frozenset(n for n, jobs in found.items() if any(j.state in GOING for j in jobs))

    def end(self, name: str) -> None:
        """End a job, as far as Slurm answers; it is forgotten if Slurm does."""
        one = name.removeprefix(PREFIX)
        self._last_over = self._folder.last_words(one) or self._last_over
        with contextlib.suppress(ExecutorError):
            commands.cancel([name])
            self._folder.ticket(one).unlink(missing_ok=True)

    @property
    def last_words(self) -> str:
        """What a job that is over has printed last, or what Slurm said when it took none."""
        return self._last_over or self.refused or "nothing"

    def close(self) -> None:
        """End all jobs; if Slurm does not answer, the next executor in this folder does."""
        try:
            commands.cancel(self.going() or ())
        except ExecutorError:
            self._folder.release(tidy=False)
        else:
            self._folder.release(tidy=self.silent_since_s is None)

    def _arguments(self, one: str) -> list[str]:
        """Return what sbatch is told of a job; another takes the place of one that is lost."""
        return asking.options(
            PREFIX + one, self._folder.output(one), self._batch, self._environment, requeue=False
        )
