"""A scheduler of Dask in this process whose workers are jobs of Slurm, by dask-jobqueue.

There are as many jobs as runs under way, at most so many as were asked for. A job that is gone is
replaced: Dask notices a worker that it knew, and we one that never came, by asking Slurm.
"""

import asyncio
import contextlib
import os
import shlex
import sys
import time
from collections import Counter
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from assistant.errors import ExecutorError
from assistant.executors.dask_address import Certificates, is_loopback
from assistant.executors.dask_certificates import make_certificates
from assistant.executors.dask_cluster import NO_PAGES, STOP_S, scheduler_options
from assistant.executors.dask_jobs import WorkerJobs
from assistant.executors.place import BatchSystem
from assistant.ports import Environment

LOOK_S = 5.0
"""How often Slurm is asked for its jobs."""

IDLE_S = 30
"""How long a job without a run is kept, in seconds."""

FINDS_S = 60
"""How long a worker looks for its scheduler before its job ends, in seconds."""

SILENT_S = 300.0
"""How long Slurm may not answer while nobody works."""

SAME = """
import sys
from importlib.metadata import version
found, wanted = version("copperline"), sys.argv[1]
sys.exit(0 if found == wanted else f"Copperline {found} is on the node, and {wanted} is wanted")
"""
"""A program that fails if a node has another version."""

MOST_IN_VAIN = 3
"""Times that all jobs may have been begun anew without one run coming back."""


class SlurmWorkers:
    """Workers of Dask in jobs of Slurm, one each, each making one run at a time.

    Args:
        batch: what Slurm is told of the jobs.
        environment: what a run needs.
        workers: jobs at once, at most.
        wanted: tells how many runs are under way; from any thread.
        certificates: of TLS, in files that the nodes can read; None makes some, in the folder.

    Raises:
        SettingsError: dask-jobqueue or Slurm is not installed, or Slurm takes no such job.
        ExecutorError: Slurm does not answer.
    """

    place = "for workers in jobs of Slurm"
    starts_at_once = False

    def __init__(
        self,
        batch: BatchSystem,
        environment: Environment,
        workers: int,
        wanted: Callable[[], int],
        certificates: Certificates | None = None,
    ) -> None:
        self._workers = workers
        self._jobs = WorkerJobs(batch, environment)
        try:
            told = certificates or make_certificates(self._jobs.path)
            self.cluster: Any = _cluster(self._jobs, workers, wanted, told)
        except BaseException:
            self._jobs.close()
            raise

    def restart(self, client: Any) -> None:
        """End what its workers do; they come back, or another job does."""
        client.restart(timeout=30, wait_for_workers=False)

    def progressed(self) -> None:
        """Be told that a run has come back."""
        self._jobs.in_vain = 0

    def look(self, nobody_s: float) -> None:
        """Be told for how long there has been no worker, in seconds.

        Raises ExecutorError if jobs end before anything is done, or Slurm does not answer.
        """
        jobs, kept = self._jobs, "What was finished is kept; go on with: copperline resume"
        if jobs.in_vain > self._workers * (MOST_IN_VAIN + 1):
            raise ExecutorError(
                f"{jobs.in_vain} jobs were given to Slurm one after the other and no run came "
                f"back; the last words are: {jobs.last_words}. Nodes need {sys.executable}, the "
                f"folder '{jobs.path.parent}', a way to this machine, and walltime enough. {kept}"
            )
        if jobs.silent_since_s is not None and nobody_s > SILENT_S:
            silent_s = time.monotonic() - jobs.silent_since_s
            if silent_s > SILENT_S:
                raise ExecutorError(
                    f"Slurm has not answered for {silent_s:.0f} s and no job has a worker "
                    f"({jobs.refused}). {kept}"
                )

    def close(self) -> None:
        """Stop the scheduler and end all jobs, also those that it has lost sight of."""
        with contextlib.suppress(Exception):
            self.cluster.close(timeout=STOP_S)
        self._jobs.close()


def _cluster(jobs: WorkerJobs, workers: int, wanted: Callable[[], int], told: Certificates) -> Any:
    """Return a running cluster of dask-jobqueue that adapts to the runs under way."""
    import dask
    from distributed import Security

    authority, certificate, key = (
        str(path) for path in (told.authority, told.certificate, told.key)
    )
    roles = {
        f"tls_{role}_{part}": path
        for role in ("client", "scheduler", "worker")
        for part, path in (("cert", certificate), ("key", key))
    }
    with dask.config.set(NO_PAGES):
        cluster = _cluster_class()(
            jobs,
            security=Security(tls_ca_file=authority, require_encryption=True, **roles),
            protocol="tls://",
            scheduler_options=scheduler_options(jobs.host),
            silence_logs=50,
            cores=1,
            processes=1,
            memory="1GiB",  # has to be said; what Slurm is asked for is WorkerJobs' to say
            worker_host=jobs.host if is_loopback(jobs.host) else None,
        )
    cluster.adapt(
        Adaptive=_adaptive_class(wanted),
        minimum_jobs=0,
        maximum_jobs=workers,
        interval="1s",
        wait_count=IDLE_S,
    )
    return cluster


def _job_class() -> Any:
    """Return a job of dask-jobqueue that goes by its name."""
    from dask_jobqueue.slurm import SLURMJob
    from distributed.core import Status

    class NamedJob(SLURMJob):  # type: ignore[misc]
        def __init__(
            self, scheduler: str, name: str, *, jobs: WorkerJobs, security: Any, **told: Any
        ) -> None:
            at = told.pop("worker_host")
            super().__init__(scheduler, name, security=security, **told)
            self.jobs = jobs
            tls = security.get_tls_config_for_role("worker")
            self.command = [
                sys.executable, "-m", "distributed.cli.dask_worker", scheduler,
                "--name", name, "--nthreads", "1", "--nworkers", "1", "--memory-limit", "0",
                "--no-dashboard", "--death-timeout", str(FINDS_S), "--protocol", "tls://",
                "--tls-ca-file", tls["ca_file"], "--tls-cert", tls["cert"], "--tls-key", tls["key"],
                *(("--host", at) if at else ()),
            ]  # fmt: skip

        def job_script(self) -> str:
            threads = [
                f"export {library}_NUM_THREADS=${{{library}_NUM_THREADS:-{self.jobs.threads}}}"
                for library in ("OMP", "OPENBLAS", "MKL")
            ]
            paths = os.pathsep.join(str(Path(one).absolute()) for one in sys.path)
            lines = [
                "#!/bin/sh",
                *threads,
                f"export PYTHONPATH={shlex.quote(paths)}",  # what is found here is found there
                "export DASK_DISTRIBUTED__WORKER__HTTP__ROUTES='[]'",
                f"{shlex.join([sys.executable, '-c', SAME, version('copperline')])} || exit 1",
                f"exec {shlex.join(self.command)}",
            ]
            return "\n".join([*lines, ""])

        async def start(self) -> None:
            self.job_name = await asyncio.to_thread(self.jobs.submit, self.job_script())
            self.status = Status.running

        async def close(self) -> None:
            await asyncio.to_thread(self.jobs.end, self.job_name)
            self.status = Status.closed
            self._event_finished.set()

    return NamedJob


def _cluster_class() -> Any:
    """Return a cluster of dask-jobqueue that also replaces jobs whose workers never came."""
    from dask_jobqueue import SLURMCluster
    from distributed.core import Status

    class WatchedCluster(SLURMCluster):  # type: ignore[misc]
        job_cls = _job_class()

        def __init__(self, jobs: WorkerJobs, **told: Any) -> None:
            self._jobs = jobs
            self._looked_s = time.monotonic()
            self._missed: Counter[str] = Counter()
            super().__init__(jobs=jobs, **told)

        async def look(self) -> None:
            """Forget jobs that Slurm does not know, twice, and that are not connected."""
            if time.monotonic() - self._looked_s < LOOK_S or self.status != Status.running:
                return
            asked_of = dict(self.workers)
            going = await asyncio.to_thread(self._jobs.going)
            self._looked_s = time.monotonic()
            if going is None:
                return
            for name, job in asked_of.items():
                if job.job_name in going or name in self.observed:
                    self._missed.pop(job.job_name, None)
                    continue
                self._missed[job.job_name] += 1
                if self._missed[job.job_name] > 1 and self.workers.get(name) is job:
                    del self.workers[name]
                    await job.close()

    return WatchedCluster


def _adaptive_class(wanted: Callable[[], int]) -> Any:
    """Return what keeps as many jobs as there are runs under way."""
    from distributed.deploy.adaptive import Adaptive

    class AsManyAsRuns(Adaptive):  # type: ignore[misc]
        async def adapt(self) -> None:
            await self.cluster.look()
            await super().adapt()

        async def target(self) -> int:
            return wanted()

    return AsManyAsRuns
