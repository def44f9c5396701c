"""Dask executor: runs on the workers of Dask distributed, in a local cluster or elsewhere.

Dask stores nothing: runs wait in our queue, and a result is released once it is fetched. A run
whose worker or scheduler died is submitted again; only its last submission counts. A worker
plugin holds the application, also in workers that come later.
"""

import contextlib
import queue
import threading
import time
import uuid
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from assistant.core.errors import ExecutorError, SettingsError
from assistant.core.ports import (
    Application,
    Environment,
    ExecutionRequest,
    ExecutionResult,
    ReportListener,
)
from assistant.executors.dask_cluster import EmbeddedCluster, LocalDaskWorkers
from assistant.executors.serial import RunReporter, execute_run, unstarted_completion
from assistant.executors.spec import BatchSystem, ExecutorSpec, TlsCertificates

if TYPE_CHECKING:
    from distributed import Client, Future


_one_at_a_time = threading.Lock()


def plugin(token: str, application: Application) -> Any:
    """Return the plugin that gives every worker the application, also later ones."""
    from distributed import WorkerPlugin

    class Holder(WorkerPlugin):  # type: ignore[misc]
        name = token

        def __init__(self) -> None:
            self.application = application
            self.ended: frozenset[str] = frozenset()

    return Holder()


def evaluate(token: str, key: str, work: ExecutionRequest) -> ExecutionResult:
    """Execute one run, in a Dask worker."""
    from distributed import get_worker

    worker = get_worker()
    holder = worker.plugins[token]
    oversight = RunReporter(
        lambda measures: worker.log_event(token, [work.run_id, dict(measures)]),
        lambda: key in holder.ended,
    )
    with _one_at_a_time:
        if oversight.wants_end():
            return unstarted_completion(work)
        return execute_run(holder.application, work, oversight)


def end(token: str, keys: frozenset[str], dask_worker: Any) -> None:
    """Replace the set of runs to end, in a Dask worker."""
    dask_worker.plugins[token].ended = keys


MOST_DEATHS = 3  # Worker deaths after which a run is taken for their cause

CONNECT_S = 20.0

COMES_BACK_S = 300.0  # Seconds that a known scheduler may be unreachable

LOOKS_S = 0.5  # Seconds between checks of scheduler and workers, while no result comes

NOBODY_S = 20.0
"""Seconds that an embedded cluster may be without workers before it is replaced. Dask restarts a
dead process once, and gives up if that fails."""


def _versions() -> tuple[str, str]:
    import platform
    from importlib.metadata import version

    return version("copperline"), platform.python_version()


class DaskExecutor:
    """Executor on workers of Dask, each with one run at a time.

    Args:
        application: application; the workers must be able to import it.
        workers: runs under way at once, and workers of an embedded cluster.
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
        self._deaths: dict[int, int] = {}
        self._over: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reported: ReportListener | None = None
        self._stopped: set[int] = set()
        self._wished_s = 0.0
        self._n_asked = 0
        self._nobody_since_s: float | None = None
        self._cluster: EmbeddedCluster | None = None
        self._client: Client | None = None
        try:
            self._start()
        except BaseException:
            self._close()
            raise

    # Connections

    def _start(self) -> None:
        from distributed.protocol.pickle import dumps

        try:
            dumps(self._application)
        except Exception as error:
            raise SettingsError(
                f"the application '{self._application.name}' cannot be sent to other processes "
                f"({error}); define its class in a module that workers can import"
            ) from error
        if self._address is None:
            self._cluster = self._own_cluster()
        self._client = self._connected(CONNECT_S)
        with _told(self._place):
            worker_versions = self._client.run(_versions)
        if self._address is not None and not worker_versions:
            raise ExecutorError(
                f"{self._place} has no workers; start some (dask worker {self._address}) and try "
                "again"
            )
        for worker, (version, _) in worker_versions.items():
            if version != _versions()[0]:
                raise SettingsError(
                    f"the worker {worker} of {self._place} has Copperline {version}, and here is "
                    f"{_versions()[0]}; results would not compare, so install the same"
                )

    def _own_cluster(self) -> EmbeddedCluster:
        if self._batch is None:
            return LocalDaskWorkers(self.capacity)
        from assistant.executors.dask_cluster import SlurmDaskWorkers

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
                client.register_plugin(plugin(self._token, self._application))
                client.subscribe_topic(self._token, self._hear)
            except (OSError, TimeoutError, ValueError, RuntimeError) as error:
                if client is not None:
                    _closed(client)
                if time.monotonic() > until_s:
                    raise ExecutorError(
                        f"{self._place} does not answer within {within_s:.0f} s ({error}); is it "
                        "running? What was opened and finished is kept; go on with: copperline "
                        "resume"
                    ) from error
                time.sleep(min(LOOKS_S, within_s))
            else:
                return client

    def _reconnect(self) -> None:
        """Connect to the scheduler again, or to its replacement, and submit all runs again."""
        if self._client is not None:
            _closed(self._client)
        works = [work for _, work in self._under_way.values()]
        self._under_way.clear()
        self._client = self._connected(COMES_BACK_S)
        for work in works:
            self._ask(work)

    def _look(self) -> tuple[ExecutionResult, ...]:
        """Check scheduler and workers, and repair what is possible; return the runs given up."""
        if self._client is None or self._client.status != "running":
            self._nobody_since_s = None
            self._reconnect()
            return ()
        with contextlib.suppress(OSError, TimeoutError):
            if self._client.scheduler_info()["workers"]:
                self._nobody_since_s = None
                return ()
        now_s = time.monotonic()
        if self._nobody_since_s is None:
            self._nobody_since_s = now_s
        gone_s = now_s - self._nobody_since_s
        if self._cluster is not None:
            self._cluster.look(gone_s)
            if self._cluster.starts_at_once and gone_s > NOBODY_S:
                return self._replace_cluster()
        elif gone_s > COMES_BACK_S:
            raise ExecutorError(
                f"{self._place} has had no worker for {COMES_BACK_S:.0f} s; start some. What was "
                "finished is kept; go on with: copperline resume"
            )
        return ()

    def _replace_cluster(self) -> tuple[ExecutionResult, ...]:
        """Replace an embedded cluster; this counts as a worker death for all runs under way."""
        self._nobody_since_s = None
        given_up = []
        for key, (_, work) in list(self._under_way.items()):
            if self._dies(work):
                del self._under_way[key]
                given_up.append(_lost(work))
        if self._client is not None:
            _closed(self._client)
        if self._cluster is not None:
            self._cluster.close()
        self._cluster = self._own_cluster()
        self._reconnect()
        return tuple(given_up)

    # Runs

    def submit(self, work: ExecutionRequest) -> None:
        """Start to execute one run."""
        self._ask(work)

    def _ask(self, work: ExecutionRequest) -> None:
        if self._client is None:
            raise ExecutorError("the executor is closed")
        self._n_asked += 1
        key = f"{self._token}-{work.run_id}-{self._n_asked}"
        future = self._client.submit(
            evaluate, self._token, key, work, key=key, pure=False, retries=0
        )
        self._under_way[key] = future, work
        future.add_done_callback(lambda done: self._over.put(done.key))

    def collect(self) -> tuple[ExecutionResult, ...]:
        """Wait for at least one run, and return those that are over."""
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
            if not self._dies(work):
                self._ask(work)
                return None
            done = _lost(work)
        except Exception as error:
            del self._under_way[key]
            return ExecutionResult(work.run_id, None, f"{type(error).__name__}: {error}", 0.0)
        self._under_way.pop(key, None)
        future.release()
        self._deaths.pop(work.run_id, None)
        return done

    def _dies(self, work: ExecutionRequest) -> bool:
        """Count a worker death; return whether the run is taken for its cause."""
        self._deaths[work.run_id] = self._deaths.get(work.run_id, 0) + 1
        return self._deaths[work.run_id] >= MOST_DEATHS

    def listen(self, reported: ReportListener) -> None:
        """Send intermediate results to the listener."""
        self._reported = reported

    def _hear(self, event: tuple[float, Any]) -> None:
        _, (run_id, measures) = event
        measure_values = {k: tuple(v) if isinstance(v, list) else v for k, v in measures.items()}
        if self._reported is not None:
            self._reported(run_id, measure_values)

    def stop(self, run_id: int) -> None:
        """End one running run; callable from any thread."""
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
        """Give up the runs under way, and restart the workers of an embedded cluster.

        Other workers finish the runs that they began; those results are dropped.
        """
        futures = [future for future, _ in self._under_way.values()]
        self._under_way.clear()
        self._deaths.clear()
        self._stopped.clear()
        if self._client is not None and futures:
            with contextlib.suppress(Exception):
                self._client.cancel(futures, force=True)
            if self._cluster is not None:
                self._cluster.restart(self._client)

    def _close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            with contextlib.suppress(Exception):
                client.unregister_worker_plugin(self._token)
            _closed(client)
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            futures = [future for future, _ in self._under_way.values()]
            if self._client is not None and futures:
                with contextlib.suppress(Exception):
                    self._client.cancel(futures, force=True)
        self._under_way.clear()
        self._close()


def _lost(work: ExecutionRequest) -> ExecutionResult:
    reason = "worker processes died while this run was under way (killed, or out of memory)"
    return ExecutionResult(work.run_id, None, reason, 0.0)


def _closed(client: "Client") -> None:
    with contextlib.suppress(Exception):
        client.close(timeout=2)


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
