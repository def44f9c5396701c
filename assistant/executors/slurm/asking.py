"""What a job of ours asks of Slurm, whoever lives in it, and where its nodes find this machine."""

import contextlib
import math
from collections.abc import Iterator
from pathlib import Path

from assistant.errors import ExecutorError, SettingsError
from assistant.executors.place import BatchSystem
from assistant.executors.slurm import commands
from assistant.ports import Environment

FOLDER = Path("copperline-out") / "slurm"
"""What this machine and the nodes share, unless it is said."""


def options(
    name: str, output: Path, batch: BatchSystem, environment: Environment, *, requeue: bool
) -> list[str]:
    """Return what sbatch is told of a job, one argument each; no shell reads them.

    Args:
        name: of the job.
        output: the file of what it prints; it is appended to.
        batch: what was said of jobs.
        environment: what a run needs, and hence a job, that makes one at a time.
        requeue: whether Slurm shall start it again after its node has died.
    """
    told = [
        f"--job-name={name}", f"--comment={name}", "--parsable", "--export=ALL", "--nodes=1",
        "--ntasks=1", f"--cpus-per-task={environment.cores or 1}",
        "--requeue" if requeue else "--no-requeue", "--open-mode=append", f"--output={output}",
        f"--chdir={Path.cwd()}",
    ]  # fmt: skip
    if environment.memory_bytes is not None:
        told.append(f"--mem={math.ceil(environment.memory_bytes / 2**20)}M")
    if batch.walltime_s is not None:
        told.append(f"--time={commands.time_text(batch.walltime_s)}")
    if batch.partition is not None:
        told.append(f"--partition={batch.partition}")
    if batch.account is not None:
        told.append(f"--account={batch.account}")
    return [*told, *batch.options]


def host_of(batch: BatchSystem) -> str:
    """Return the address of this machine that nodes reach; loopback only if all are this one.

    Raises:
        SettingsError: it is not said and has to be, or cannot be.
        AwayError, RefusedError: Slurm does not tell where its nodes are.
    """
    if batch.host is None:
        if commands.is_here(batch.partition):
            return "127.0.0.1"
        raise SettingsError(
            "the nodes of this cluster are other machines: say in [executor] as host the address "
            "of this machine that they reach, and as folder one that they share"
        )
    if batch.host in ("0.0.0.0", "::", "*", ""):  # noqa: S104 - refused
        raise SettingsError(
            f"host '{batch.host}' of [executor] is no address that jobs could go to; give the "
            "address of this machine that the nodes of the cluster reach"
        )
    return batch.host


@contextlib.contextmanager
def told_as_is() -> Iterator[None]:
    """Raise what Slurm says for whoever steers: SettingsError for what it would never take."""
    try:
        yield
    except commands.AwayError as error:
        raise ExecutorError(f"Slurm does not answer ({error}); is it running?") from error
    except commands.RefusedError as error:
        raise SettingsError(
            f"Slurm takes no job of this sweep ({error}); see [executor] (partition, account, "
            "walltime, options) and [environment] (cores, memory)"
        ) from error
