"""Dask executor: executes runs on workers of Dask distributed, on this machine or elsewhere.

Dask stores nothing: runs wait in our queue, and a result is released once it is fetched. A run
whose worker or scheduler died is submitted again; only its last submission counts. A worker
plugin holds the application, also in workers that come later.
"""

import contextlib
import gc
import logging
import queue
import signal
import threading
import time
import uuid
from collections.abc import Iterator
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Self

from assistant.core.errors import ExecutorError, SettingsError
from assistant.core.interrupts import STOP_SIGNALS, leave_signals_to_parent, uninterrupted
from assistant.core.ports import (
    Application,
    Environment,
    ExecutionRequest,
    ExecutionResult,
    ReportListener,
)
from assistant.executors.dask_clusters import EmbeddedCluster, LocalDaskWorkers, SlurmDaskWorkers
from assistant.executors.serial import (
    WORKER_DIED,
    RunReporter,
    execute_run,
    unstarted_completion,
)
from assistant.executors.spec import BatchSystem, ExecutorSpec, TlsCertificates

if TYPE_CHECKING:
    from distributed import Client, Future

_log = logging.getLogger("copperline.dask")

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

MOST_REPLACED = 3  # Times that an embedded cluster may be replaced without a returned run


def _versions() -> tuple[str, str]:
    import platform

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
        self._n_replaced = 0
        self._cluster: EmbeddedCluster | None = None
        self._client: Client | None = None
        self._is_closed = False
        self._start()

    # Connections

    def _start(self) -> "Client":
        """Start an embedded cluster, and return a client of the scheduler with usable workers."""
        from distributed.protocol.pickle import dumps

        logging.getLogger("distributed.batched").setLevel(logging.WARNING)
        # a connection that closes is no news: the executor says what has happened
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
            gc.collect()  # a refused client closes itself; within the next one's start it hangs

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

    def _look(self) -> None:
        """Check scheduler and workers, and repair what is possible."""
        if self._client is None or self._client.status != "running":
            self._nobody_since_s = None
            self._reconnect()
            return
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
                return
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
                self._replace_cluster()
        elif gone_s > COMES_BACK_S:
            raise ExecutorError(
                f"{lack}, for {COMES_BACK_S:.0f} s. Finished runs are stored; continue with: "
                "copperline resume"
            )

    def _replace_cluster(self) -> None:
        """Replace an embedded cluster; its runs, which no worker executes, are submitted again."""
        self._nobody_since_s = None
        self._n_replaced += 1
        if self._n_replaced > MOST_REPLACED:
            raise ExecutorError(
                f"the workers of {self._place} ended {MOST_REPLACED} times in a row before a run "
                "returned. Finished runs are stored; continue with: copperline resume"
            )
        if self._client is not None:
            _close_client(self._client)
        if self._cluster is not None:
            self._cluster.close()
        self._cluster = self._own_cluster()
        self._reconnect()

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
                self._look()
            for key in keys:
                if key in self._under_way:
                    completion = self._completion(key)
                    if completion is not None:
                        over.append(completion)
        if over and self._cluster is not None:
            self._n_replaced = 0
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
