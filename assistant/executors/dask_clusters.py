"""Dask clusters of an executor: a scheduler in this process with workers that it manages.

The workers are processes on this machine, or run in Slurm jobs.
"""

import asyncio
import contextlib
import logging
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

from assistant.core.errors import ExecutorError, SettingsError
from assistant.core.interrupts import signals_blocked
from assistant.core.ports import Environment
from assistant.executors.slurm import jobs
from assistant.executors.slurm.jobs import PilotFolder, leftover_folders, remove_folder
from assistant.executors.slurm.protocol import PREFIX, new_id, write_private
from assistant.executors.spec import BatchSystem, TlsCertificates, is_loopback

_log = logging.getLogger("copperline.dask")

STOP_S = 10.0  # Seconds that an embedded cluster may take to stop

NO_LOGS = 60  # Level above all records of Dask; the executor says what has happened

PAGES = "127.0.0.1:0"  # Address of Dask's web servers, which cannot be switched off

NO_PAGES: dict[str, list[str]] = {
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
}
"""Settings of Dask that leave its web servers empty."""


class EmbeddedCluster(Protocol):
    """Dask scheduler in this process, together with the workers that it manages.

    ``starts_at_once`` is False where a batch system starts the workers later.
    """

    cluster: Any
    place: str
    starts_at_once: bool

    def progressed(self) -> None:
        """Record that a run has ended, which shows that the workers can execute runs."""

    def look(self, nobody_s: float) -> None:
        """Check a cluster without workers for ``nobody_s`` s; raise ExecutorError if it failed."""

    def close(self) -> None:
        """Stop the cluster at once, with the runs that its workers execute."""


class LocalDaskWorkers:
    """Dask worker processes on this machine (loopback only), each with one run at a time."""

    place = "on this machine"
    starts_at_once = True

    def __init__(self, workers: int) -> None:
        import dask
        from distributed import LocalCluster

        with dask.config.set(NO_PAGES), signals_blocked():
            self.cluster: Any = LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                processes=True,
                host="127.0.0.1",
                dashboard_address=None,
                memory_limit=0,
                silence_logs=NO_LOGS,
                scheduler_kwargs=scheduler_options("127.0.0.1"),
            )

    def progressed(self) -> None:
        """Do nothing when a run has ended, as local workers need no check."""

    def look(self, nobody_s: float) -> None:
        """Do nothing, because Dask restarts dead workers or the executor replaces the cluster."""

    def close(self) -> None:
        """Kill the worker processes, which are stateless, and stop the cluster."""
        for nanny in self.cluster.workers.values():
            nanny.auto_restart = False
            process = getattr(nanny.process, "process", None)
            if process is not None and process.is_alive():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)
        with contextlib.suppress(Exception):
            self.cluster.close(timeout=STOP_S)


def scheduler_options(host: str) -> dict[str, Any]:
    """Return the options of an embedded Dask scheduler, with the dashboard disabled."""
    return {
        "host": host,
        "dashboard": False,
        "dashboard_address": PAGES,
        "allowed_failures": 0,  # a lost run is leased again, see `assess_loss`
    }


DAYS = 365

WITHIN_S = 30.0


def make_certificates(folder: Path) -> TlsCertificates:
    """Create a TLS key and self-signed certificate with `openssl`, or raise SettingsError."""
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    os.close(os.open(key, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    command = [
        "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
        "-nodes", "-days", str(DAYS), "-subj", "/CN=copperline", "-keyout", str(key),
        "-out", str(certificate),
    ]  # fmt: skip
    try:
        done = subprocess.run(  # noqa: S603 - our own command
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=WITHIN_S,
            check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SettingsError(
            f"no certificates can be made for the workers' TLS ({error}); install openssl, or name "
            "authority, certificate and key in [executor]"
        ) from error
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["it printed nothing"])[-1]
        raise SettingsError(f"openssl made no certificate for the workers' TLS: {last}")
    return TlsCertificates(certificate, certificate, key)


GOING = frozenset({"PENDING", "CONFIGURING", "RUNNING", "SUSPENDED", "STOPPED", "RESIZING"})


class DaskWorkerJobs:
    """Slurm jobs that run the workers of one Dask executor, and the folder shared with the nodes.

    Attributes:
        host: address of this machine for the nodes.
        in_vain: jobs submitted since a run last returned.
        silent_since_s: monotonic time since when Slurm does not respond; None if it does.

    Raises:
        SettingsError: Slurm is not installed, or refuses such jobs.
        ExecutorError: Slurm does not respond.
    """

    def __init__(self, batch: BatchSystem, environment: Environment) -> None:
        jobs.check_commands()
        jobs.check_options(batch.options)
        self._batch, self._environment = batch, environment
        self.in_vain = 0
        self.silent_since_s: float | None = None
        self.refused = ""
        self._last_over = ""
        base = batch.folder or jobs.FOLDER
        with jobs.slurm_errors_translated():
            for path, ids in leftover_folders(base).items():  # of killed executors on this machine
                jobs.cancel_jobs(PREFIX + job_id for job_id in ids)
                remove_folder(path)
        self._folder = PilotFolder(base)
        try:
            with jobs.slurm_errors_translated():
                jobs.submit_job(["--test-only", *self._arguments("test"), str(self._folder.script)])
                self.host = jobs.host_of(batch)
        except BaseException:
            self.close()
            raise

    @property
    def path(self) -> Path:
        """Path of the private folder that this machine and the jobs share."""
        return self._folder.path

    @property
    def threads(self) -> int:
        """Number of threads that libraries may use in a run."""
        return self._environment.cores or 1

    def submit(self, script: str) -> str:
        """Submit a job script to Slurm and return the job name, even if the submission fails."""
        job_id = new_id()
        write_private(self._folder.ticket(job_id), script.encode())
        self.in_vain += 1
        try:
            jobs.submit_job([*self._arguments(job_id), str(self._folder.ticket(job_id))])
        except ExecutorError as error:
            self.refused = str(error)
        return PREFIX + job_id

    def going(self) -> frozenset[str] | None:
        """Return the names of waiting or running jobs; None if Slurm does not respond."""
        names = [PREFIX + job_id for job_id in self._folder.pilots()]
        try:
            job_states = jobs.jobs_by_name(names) if names else {}
        except ExecutorError as error:
            self.refused = str(error)
            self.silent_since_s = self.silent_since_s or time.monotonic()
            return None
        self.silent_since_s = None
        return frozenset(n for n, jobs in job_states.items() if any(j.state in GOING for j in jobs))

    def end(self, name: str) -> None:
        """Cancel a Slurm job by name, and remove its script file if Slurm responds."""
        job_id = name.removeprefix(PREFIX)
        self._last_over = self._folder.last_words(job_id) or self._last_over
        with contextlib.suppress(ExecutorError):
            jobs.cancel_jobs([name])
            self._folder.ticket(job_id).unlink(missing_ok=True)

    @property
    def last_words(self) -> str:
        """Last output line of an ended job, or the last error message of Slurm."""
        return self._last_over or self.refused or "nothing"

    def close(self) -> None:
        """Cancel all jobs; if Slurm does not respond, the next executor cancels them."""
        going = self.going()
        try:
            jobs.cancel_jobs(going or ())
        except ExecutorError:
            going = None
        if going is None:
            _log.warning(jobs.NOT_CANCELLED)
        self._folder.release(tidy=going is not None)

    def _arguments(self, job_id: str) -> list[str]:
        """Return the arguments of sbatch for a job; jobs are not requeued but replaced."""
        return jobs.job_options(
            PREFIX + job_id,
            self._folder.output(job_id),
            self._batch,
            self._environment,
            requeue=False,
        )


LOOK_S = 5.0

IDLE_S = 30

FINDS_S = 60  # Seconds that a worker looks for its scheduler before its job ends

SILENT_S = 300.0  # Seconds that Slurm may not respond while no worker runs

SAME = """
import sys
from importlib.metadata import version
found, wanted = version("copperline"), sys.argv[1]
sys.exit(0 if found == wanted else f"the node has Copperline {found}, but {wanted} is needed")
"""
"""Program that fails if a node has another version."""

MOST_IN_VAIN = 3  # Times that all jobs may be submitted anew without a returned run


class SlurmDaskWorkers:
    """Dask workers in Slurm jobs: each job has one worker, which executes one run at a time.

    ``demand`` returns the number of executing runs, in any thread. The certificates are in files
    that the nodes can read; None makes them in the job folder.

    Raises:
        SettingsError: dask-jobqueue or Slurm is not installed, or Slurm refuses such jobs.
        ExecutorError: Slurm does not respond.
    """

    place = "for workers in Slurm jobs"
    starts_at_once = False

    def __init__(
        self,
        batch: BatchSystem,
        environment: Environment,
        workers: int,
        demand: Callable[[], int],
        certificates: TlsCertificates | None = None,
    ) -> None:
        self._workers = workers
        self._jobs = DaskWorkerJobs(batch, environment)
        try:
            credentials = certificates or make_certificates(self._jobs.path)
            self.cluster: Any = _cluster(self._jobs, workers, demand, credentials)
        except BaseException:
            self._jobs.close()
            raise

    def progressed(self) -> None:
        """Record that a run has ended, which shows that the Slurm jobs can execute runs."""
        self._jobs.in_vain = 0

    def look(self, nobody_s: float) -> None:
        """Check the Slurm jobs after ``nobody_s`` seconds without a worker.

        Raises ExecutorError if jobs end before any run returns, or Slurm does not respond.
        """
        jobs, resume_hint = self._jobs, "Finished runs are stored; continue with: copperline resume"
        if jobs.in_vain > self._workers * (MOST_IN_VAIN + 1):
            raise ExecutorError(
                f"{jobs.in_vain} jobs were submitted to Slurm in a row and no run returned; the "
                f"last output is: {jobs.last_words}. Nodes need {sys.executable}, the "
                f"folder '{jobs.path.parent}', a connection to this machine, and enough walltime. "
                f"{resume_hint}"
            )
        if jobs.silent_since_s is not None and nobody_s > SILENT_S:
            silent_s = time.monotonic() - jobs.silent_since_s
            if silent_s > SILENT_S:
                raise ExecutorError(
                    f"Slurm has not answered for {silent_s:.0f} s and no job has a worker "
                    f"({jobs.refused}). {resume_hint}"
                )

    def close(self) -> None:
        """Stop the scheduler, and cancel all jobs, even those unknown to the scheduler."""
        with contextlib.suppress(Exception):
            self.cluster.close(timeout=STOP_S)
        self._jobs.close()


def _cluster(
    jobs: DaskWorkerJobs, workers: int, demand: Callable[[], int], certificates: TlsCertificates
) -> Any:
    """Return a running cluster of dask-jobqueue that adapts to the executing runs."""
    import dask
    from distributed import Security

    authority, certificate, key = (
        str(path) for path in (certificates.authority, certificates.certificate, certificates.key)
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
            silence_logs=NO_LOGS,
            cores=1,
            processes=1,
            memory="1GiB",  # required by dask-jobqueue; DaskWorkerJobs requests it
            worker_host=jobs.host if is_loopback(jobs.host) else None,
        )
    cluster.adapt(
        Adaptive=_adaptive_class(demand),
        minimum_jobs=0,
        maximum_jobs=workers,
        interval="1s",
        wait_count=IDLE_S,
    )
    return cluster


def _job_class() -> Any:
    from dask_jobqueue.slurm import SLURMJob  # after `_cluster_class`
    from distributed.core import Status

    class NamedJob(SLURMJob):  # type: ignore[misc]
        def __init__(
            self, scheduler: str, name: str, *, jobs: DaskWorkerJobs, security: Any, **options: Any
        ) -> None:
            at = options.pop("worker_host")
            super().__init__(scheduler, name, security=security, **options)
            self.jobs = jobs
            tls = security.get_tls_config_for_role("worker")
            self.command = [
                sys.executable, "-m", "distributed.cli.dask_worker", scheduler,
                "--name", name, "--nthreads", "1", "--nworkers", "1", "--memory-limit", "0",
                "--no-dashboard", "--dashboard-address", PAGES, "--death-timeout", str(FINDS_S),
                "--protocol", "tls://",
                "--tls-ca-file", tls["ca_file"], "--tls-cert", tls["cert"], "--tls-key", tls["key"],
                *(("--host", at) if at else ()),
            ]  # fmt: skip

        def job_script(self) -> str:
            threads = [
                f"export {library}_NUM_THREADS=${{{library}_NUM_THREADS:-{self.jobs.threads}}}"
                for library in ("OMP", "OPENBLAS", "MKL")
            ]
            paths = os.pathsep.join(str(Path(folder).absolute()) for folder in sys.path)
            lines = [
                "#!/bin/sh",
                *threads,
                f"export PYTHONPATH={shlex.quote(paths)}",  # same modules as here
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
    """Return a cluster class for dask-jobqueue that replaces jobs whose workers never came."""
    from distributed.core import Status

    before = signal.getsignal(signal.SIGINT)
    from dask_jobqueue import SLURMCluster  # its module `runner` replaces the handler

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, before)

    class WatchedCluster(SLURMCluster):  # type: ignore[misc]
        job_cls = _job_class()

        def __init__(self, jobs: DaskWorkerJobs, **options: Any) -> None:
            self._jobs = jobs
            self._looked_s = time.monotonic()
            self._missed: Counter[str] = Counter()
            super().__init__(jobs=jobs, **options)

        async def look(self) -> None:
            """Forget jobs that are not connected and that Slurm did not know twice."""
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


def _adaptive_class(demand: Callable[[], int]) -> Any:
    from distributed.deploy.adaptive import Adaptive

    class AsManyAsRuns(Adaptive):  # type: ignore[misc]
        async def adapt(self) -> None:
            await self.cluster.look()
            await super().adapt()

        async def target(self) -> int:
            return demand()

    return AsManyAsRuns
