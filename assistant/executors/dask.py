"""Dask executor: executes runs on workers of Dask distributed, on this machine or elsewhere.

Dask stores nothing: runs wait in our queue, and a result is released once it is fetched. A run
whose worker or scheduler died is submitted again; only its last submission counts. A worker
plugin holds the application, also in workers that come later.

Embedded Dask clusters: a scheduler in this process, with local workers or workers in Slurm jobs.
"""

import asyncio
import contextlib
import logging
import os
import queue
import shlex
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

from assistant.core.errors import ExecutorError, SettingsError
from assistant.core.interrupts import (
    STOP_SIGNALS,
    leave_signals_to_parent,
    signals_blocked,
    uninterrupted,
)
from assistant.core.ports import (
    Application,
    Environment,
    ExecutionRequest,
    ExecutionResult,
    ReportListener,
)
from assistant.executors.serial import (
    WORKER_DIED,
    RunReporter,
    execute_run,
    unstarted_completion,
)
from assistant.executors.slurm import jobs
from assistant.executors.slurm.jobs import PilotFolder, leftover_folders, remove_folder
from assistant.executors.slurm.protocol import PREFIX, new_id, write_private
from assistant.executors.spec import BatchSystem, ExecutorSpec, TlsCertificates, is_loopback

if TYPE_CHECKING:
    from distributed import Client, Future


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


_one_at_a_time = threading.Lock()


def plugin(token: str, application: Application, *, is_local: bool = False) -> Any:
    """Return a Dask worker plugin, named ``token``, that holds the application in each worker.

    ``is_local`` if the workers are processes that `LocalDaskWorkers` started.
    """
    from distributed import WorkerPlugin

    class Holder(WorkerPlugin):  # type: ignore[misc]
        name = token

        def __init__(self) -> None:
            self.application = application
            self.ended: frozenset[str] = frozenset()

        def setup(self, worker: Any) -> None:  # noqa: ARG002 (of the base class)
            if is_local:
                leave_signals_to_parent()

    return Holder()


def evaluate(token: str, key: str, work: ExecutionRequest) -> ExecutionResult:
    """Execute one run in a Dask worker as the task ``key``, and return its result."""
    from distributed import get_worker

    worker = get_worker()
    holder = worker.plugins[token]
    oversight = RunReporter(
        lambda measures: worker.log_event(token, [work.run_id, dict(measures)]),
        lambda: key in holder.ended or _is_dropped(worker, key),
    )
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)  # a program of the run inherits this
    with _one_at_a_time:
        if oversight.wants_end():
            return unstarted_completion(work)
        return execute_run(holder.application, work, oversight)


def _is_dropped(worker: Any, key: str) -> bool:
    """Return whether nobody takes the result of a task: its client is gone, or the scheduler is."""
    from distributed.core import Status

    task = worker.state.tasks.get(key)
    is_cancelled = task is not None and task.state == "cancelled"
    return is_cancelled or worker.status in (Status.closing, Status.closed, Status.failed)


def end(token: str, keys: frozenset[str], dask_worker: Any) -> None:
    """Tell a Dask worker the task keys of the runs to end early, instead of any earlier keys."""
    dask_worker.plugins[token].ended = keys


CONNECT_S = 20.0

CLOSE_S = 5.0  # Seconds that a scheduler may take to release a client

COMES_BACK_S = 300.0  # Seconds that a known scheduler may be unreachable

ANSWER_S = 5.0  # Seconds without an answer after which a scheduler is reported

LOOKS_S = 0.5  # Seconds between checks of scheduler and workers, while no result comes

NOBODY_S = 20.0
"""Seconds that an embedded cluster may be without workers before it is replaced. Dask restarts a
dead process once, and gives up if that fails."""


def _versions() -> tuple[str, str]:
    import platform
    from importlib.metadata import version

    return version("copperline"), platform.python_version()


class DaskExecutor:
    """Executor that sends runs to Dask workers; each worker executes one run at a time.

    Args:
        application: application; the workers must be able to import it.
        workers: runs executed at once, and workers of an embedded cluster.
        address: address of a scheduler, such as ``tls://head:8786``; None starts an embedded
            cluster, on loopback or by a batch system, that ends with the executor.
        batch: batch system that starts the workers of an embedded cluster.

    Raises:
        SettingsError: Dask is not installed, the address is invalid or not encrypted, the workers
            have another version, or the batch system refuses such jobs.
        ExecutorError: the scheduler, the workers or the batch system do not respond.
    """

    def __init__(
        self,
        application: Application,
        workers: int,
        *,
        address: str | None = None,
        certificates: TlsCertificates | None = None,
        batch: BatchSystem | None = None,
        environment: Environment | None = None,
    ) -> None:
        if workers < 1:
            raise SettingsError(f"the number of workers must be at least 1, not {workers}")
        ExecutorSpec("dask", address, certificates, batch)  # refuses invalid combinations
        self.capacity = workers
        self._application, self._address = application, address
        self._certificates = certificates
        self._batch, self._environment = batch, environment or Environment()
        self._token = f"copperline-{uuid.uuid4().hex}"
        self._under_way: dict[str, tuple[Future, ExecutionRequest]] = {}
        self._over: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reported: ReportListener | None = None
        self._stopped: set[int] = set()
        self._wished_s = 0.0
        self._n_asked = 0
        self._nobody_since_s: float | None = None
        self._cluster: EmbeddedCluster | None = None
        self._client: Client | None = None
        self._is_closed = False
        self._start()

    # Connections

    def _start(self) -> "Client":
        """Start an embedded cluster, and return a client of the scheduler with usable workers."""
        from distributed.protocol.pickle import dumps

        try:
            dumps(self._application)
        except Exception as error:
            raise SettingsError(
                f"the application '{self._application.name}' cannot be sent to other processes "
                f"({error}); define its class in a module that workers can import"
            ) from error
        try:
            if self._address is None:
                self._cluster = self._own_cluster()
            self._client = self._connected(CONNECT_S)
            self._check_workers(self._client)
        except BaseException:
            self._close()
            raise
        return self._client

    def _check_workers(self, client: "Client") -> None:
        """Raise if a given scheduler has no workers, or if workers have another version."""
        with _told(self._place):
            worker_versions = client.run(_versions)
        if self._address is not None and not worker_versions:
            raise ExecutorError(
                f"{self._place} has no workers; start some (dask worker {self._address}) and try "
                "again"
            )
        for worker, (worker_version, _) in worker_versions.items():
            if worker_version != _versions()[0]:
                raise SettingsError(
                    f"the worker {worker} of {self._place} has Copperline {worker_version}, "
                    f"this machine has {_versions()[0]}; install the same version on both"
                )

    def _own_cluster(self) -> EmbeddedCluster:
        if self._batch is None:
            return LocalDaskWorkers(self.capacity)

        return SlurmDaskWorkers(
            self._batch,
            self._environment,
            self.capacity,
            lambda: len(self._under_way),
            self._certificates,
        )

    @property
    def _place(self) -> str:
        where = f"at {self._address}" if self._cluster is None else self._cluster.place
        return f"the Dask scheduler {where}"

    def _connected(self, within_s: float) -> "Client":
        from distributed import Client, Security

        until_s = time.monotonic() + within_s
        security: Any = None
        if self._certificates is not None and self._cluster is None:
            certificates = self._certificates
            security = Security(
                tls_ca_file=str(certificates.authority),
                tls_client_cert=str(certificates.certificate),
                tls_client_key=str(certificates.key),
                require_encryption=True,
            )
        while True:
            client = None
            try:
                client = Client(
                    self._address if self._cluster is None else self._cluster.cluster,
                    timeout=5, security=security, set_as_default=False,
                )  # fmt: skip
                is_local = isinstance(self._cluster, LocalDaskWorkers)
                client.register_plugin(plugin(self._token, self._application, is_local=is_local))
                client.subscribe_topic(self._token, self._hear)
                client.subscribe_topic("all", self._say_lost_worker)
            except (OSError, TimeoutError, ValueError, RuntimeError) as error:
                if client is not None:
                    _close_client(client)
                if time.monotonic() > until_s:
                    raise ExecutorError(
                        f"{self._place} does not answer within {within_s:.0f} s ({error}); is it "
                        "running? Finished runs are stored; continue with: copperline resume"
                    ) from error
                time.sleep(min(LOOKS_S, within_s))
            else:
                return client

    def _reconnect(self) -> None:
        """Connect to the scheduler again, or to its replacement, and submit all runs again."""
        works = [work for _, work in self._under_way.values()]
        _warn(
            f"{self._place} has closed the connection: it has ended, or cannot be reached. Its "
            f"workers end with it. Start it and workers again within {COMES_BACK_S / 60:.0f} "
            "minutes; executing runs then start again"
        )
        if self._client is not None:
            _close_client(self._client)
        self._under_way.clear()
        self._client = self._connected(COMES_BACK_S)
        _warn(f"{self._place} answers again")
        for work in works:
            self._ask(work)

    def _look(self) -> tuple[ExecutionResult, ...]:
        """Check scheduler and workers, and repair what is possible; return the runs given up."""
        if self._client is None or self._client.status != "running":
            self._nobody_since_s = None
            self._reconnect()
            return ()
        now_s = time.monotonic()
        try:
            identity = self._client.sync(
                self._client.scheduler.identity, n_workers=-1, callback_timeout=ANSWER_S
            )
        except (OSError, TimeoutError):
            lack = f"{self._place} has not answered for {ANSWER_S:.0f} s"
        else:
            if identity["workers"]:
                if self._nobody_since_s is not None and self._cluster is None:
                    _warn(f"{self._place} has workers again")
                self._nobody_since_s = None
                return ()
            lack = f"{self._place} has no worker; start some with: dask worker {self._address}"
        if self._nobody_since_s is None:
            self._nobody_since_s = now_s
            if self._cluster is None:
                minutes = f"{COMES_BACK_S / 60:.0f} minutes"
                _warn(f"{lack}. The runs wait for {minutes}; then the sweep ends")
        gone_s = now_s - self._nobody_since_s
        if self._cluster is not None:
            self._cluster.look(gone_s)
            if self._cluster.starts_at_once and gone_s > NOBODY_S:
                return self._replace_cluster()
        elif gone_s > COMES_BACK_S:
            raise ExecutorError(
                f"{lack}, for {COMES_BACK_S:.0f} s. Finished runs are stored; continue with: "
                "copperline resume"
            )
        return ()

    def _replace_cluster(self) -> tuple[ExecutionResult, ...]:
        """Replace an embedded cluster; all executing runs are lost."""
        self._nobody_since_s = None
        lost = tuple(_lost(work) for _, work in self._under_way.values())
        self._under_way.clear()
        if self._client is not None:
            _close_client(self._client)
        if self._cluster is not None:
            self._cluster.close()
        self._cluster = self._own_cluster()
        self._reconnect()
        return lost

    # Runs

    def submit(self, work: ExecutionRequest) -> None:
        """Start the execution of one run."""
        self._ask(work)

    def _ask(self, work: ExecutionRequest) -> None:
        if self._is_closed:
            raise ExecutorError("the executor is closed")
        client = self._client or self._start()  # it was cancelled
        self._n_asked += 1
        key = f"{self._token}-{work.run_id}-{self._n_asked}"
        future = client.submit(evaluate, self._token, key, work, key=key, pure=False, retries=0)
        self._under_way[key] = future, work
        future.add_done_callback(lambda done: self._over.put(done.key))

    def collect(self) -> tuple[ExecutionResult, ...]:
        """Wait until at least one run has ended, and return all new results."""
        over: list[ExecutionResult] = []
        while self._under_way and not over:
            keys = self._told_keys()
            self._pass_on_wishes()
            if not keys:
                over.extend(self._look())
            for key in keys:
                if key in self._under_way:
                    completion = self._completion(key)
                    if completion is not None:
                        over.append(completion)
        if over and self._cluster is not None:
            self._cluster.progressed()
        self._stopped.difference_update(result.run_id for result in over)
        return tuple(sorted(over, key=lambda result: result.run_id))

    def _told_keys(self) -> list[str]:
        try:
            keys = [self._over.get(timeout=LOOKS_S)]
        except queue.Empty:
            return []
        while True:
            try:
                keys.append(self._over.get_nowait())
            except queue.Empty:
                return keys

    def _completion(self, key: str) -> ExecutionResult | None:
        """Return the result of a run; None if it was submitted again."""
        from concurrent.futures import CancelledError

        from distributed import KilledWorker

        future, work = self._under_way[key]
        try:
            done: ExecutionResult = future.result()
        except (CancelledError, TimeoutError, OSError):  # lost by the scheduler, or with it
            if self._client is None or self._client.status != "running":
                self._reconnect()
                return None
            del self._under_way[key]
            if work.run_id in self._stopped:
                return unstarted_completion(work)
            self._ask(work)
            return None
        except KilledWorker:
            del self._under_way[key]
            return _lost(work)
        except Exception as error:
            del self._under_way[key]
            return ExecutionResult(work.run_id, None, f"{type(error).__name__}: {error}", 0.0)
        self._under_way.pop(key, None)
        future.release()
        return done

    def listen(self, reported: ReportListener) -> None:
        """Set the listener of intermediate results."""
        self._reported = reported

    def _hear(self, event: tuple[float, Any]) -> None:
        _, (run_id, measures) = event
        measure_values = {k: tuple(v) if isinstance(v, list) else v for k, v in measures.items()}
        if self._reported is not None:
            self._reported(run_id, measure_values)

    def _say_lost_worker(self, event: tuple[float, Any]) -> None:
        """Log a worker that the scheduler has lost; called in a thread of the client."""
        _, about = event
        if about.get("action") != "remove-worker" or about.get("expected"):
            return
        under_way = dict(self._under_way)
        keys = [key for key in about.get("processing-tasks", ()) if key in under_way]
        runs = ", ".join(f"run {under_way[key][1].run_id}" for key in sorted(keys))
        _warn(
            f"the Dask worker {about.get('worker')} is gone (killed, out of memory, or its machine "
            f"cannot be reached){f'; {runs} will be executed again' if runs else ''}"
        )

    def stop(self, run_id: int) -> None:
        """End one executing run early; callable from any thread."""
        if any(work.run_id == run_id for _, work in tuple(self._under_way.values())):
            self._stopped.add(run_id)
            self._over.put("")  # wakes `collect`

    def _pass_on_wishes(self) -> None:
        """Tell all workers which runs to end, repeatedly, because new workers may come."""
        if not self._stopped or time.monotonic() - self._wished_s < LOOKS_S / 2:
            return
        keys = frozenset(k for k, (_, w) in self._under_way.items() if w.run_id in self._stopped)
        if keys and self._client is not None and self._client.status == "running":
            with contextlib.suppress(OSError, TimeoutError, ImportError):
                self._client.run(
                    end, self._token, keys, on_error="ignore", callback_timeout=CONNECT_S
                )
        self._wished_s = time.monotonic()

    def cancel(self) -> None:
        """Abort all submitted runs, with the embedded cluster; the next run starts another.

        At a given scheduler, programs are ended; Python functions go on, and their results are
        dropped.
        """
        if self._under_way:
            self._close()

    def _close(self) -> None:
        """Disconnect from the scheduler, which drops all runs, and close an embedded cluster."""
        with uninterrupted():
            self._under_way.clear()
            self._stopped.clear()
            client, self._client = self._client, None
            cluster, self._cluster = self._cluster, None
            if client is not None:
                _close_client(client, self._token if cluster is None else None)
            if cluster is not None:
                cluster.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._is_closed = True
        self._close()


def _warn(sentence: str) -> None:
    _log.warning("%s", sentence[0].upper() + sentence[1:])


def _lost(work: ExecutionRequest) -> ExecutionResult:
    return ExecutionResult(work.run_id, None, WORKER_DIED, 0.0, lost=True)


def _close_client(client: "Client", token: str | None = None) -> None:
    """Close a client, and remove its plugin ``token`` from a given scheduler, if that answers."""

    def close() -> None:
        with contextlib.suppress(Exception):
            if token is not None and client.status == "running":
                client.unregister_worker_plugin(token)
            client.close(timeout=2)

    closing = threading.Thread(target=close, name="copperline-dask-close", daemon=True)
    closing.start()
    closing.join(CLOSE_S)


@contextlib.contextmanager
def _told(place: str) -> Iterator[None]:
    try:
        yield
    except (OSError, TimeoutError) as error:
        raise ExecutorError(f"{place} does not answer ({error})") from error
    except ImportError as error:
        raise SettingsError(
            f"the workers of {place} cannot import Copperline ({error}); install it there"
        ) from error
