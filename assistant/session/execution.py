"""Execution of an experiment's waiting runs in the process that has its event log.

The event log as a source of leases, and the lock that lets only one process execute an experiment.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from assistant.core.errors import ExperimentError, LeaseLostError, StoreError
from assistant.core.events import (
    Event,
    ResultRefused,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunReported,
    RunReturned,
    RunStarted,
    RunStopped,
)
from assistant.core.experiment import Experiment
from assistant.core.objective import Measure
from assistant.core.ports import ExecutionResult, Executor, RunLease
from assistant.core.process_lock import ProcessLock, is_locked
from assistant.core.run import Run, RunState
from assistant.core.submission import assess_completion, assess_loss, assess_report
from assistant.session.event_log import EventLog
from assistant.session.execution_loop import ExecutionLoop

LOOK_S = 1.0
"""Seconds between looks at the decisions of others while runs execute."""


class EventLogLeases:
    """Source of leases of one experiment's runs, for the process that has its event log.

    A lease is the start of a run without a worker; it never expires, because it ends with this
    process. Intermediate results and the decisions of others are recorded and applied only while
    the executing thread waits for results, so that the experiment never changes under its hands.
    """

    def __init__(self, event_log: EventLog) -> None:
        self._event_log = event_log
        self._run_ids: dict[str, int] = {}
        self._n_leases = 0
        self._waits = False
        self._acting = threading.Lock()

    def lease(self) -> RunLease | None:
        """Start the next waiting run and return its lease, or None if no run waits."""
        run = start_next(self._event_log)
        if run is None:
            return None
        self._n_leases += 1
        token = str(self._n_leases)
        self._run_ids[token] = run.id
        experiment = self._event_log.experiment
        return RunLease(
            experiment.opened.experiment_id, run.id, token, run.attempts,
            experiment.space.values(run.configuration), run.seed, experiment.sla.run_limit_s,
            3 * LOOK_S,
        )  # fmt: skip

    def heartbeat(self, token: str) -> float:
        """Apply the decisions of others; raise LeaseLostError if one of them ended the run."""
        with self._while_waiting() as is_waiting:
            if is_waiting:
                self._event_log.catch_up()
                self._executing(token)
        return 3 * LOOK_S

    def report(self, token: str, measures: Mapping[str, Measure]) -> None:
        """Record an intermediate result of a run.

        Raises:
            LeaseLostError: the run has ended.
            StoreError: not now; it cannot be stored, or the executing thread does not wait.
        """
        with self._while_waiting() as is_waiting:
            if not is_waiting:
                raise StoreError("the executing thread has the event log")
            self._event_log.catch_up()
            run_id = self._executing(token)
            now_s = self._event_log.now_s()
            self._event_log.record(RunReported(now_s, run_id, measures))
            stopped = assess_report(self._event_log.experiment, run_id, now_s)
            if stopped is not None:
                self._event_log.record(stopped)
                raise LeaseLostError("the run was stopped early")

    def complete(self, token: str, completion: ExecutionResult) -> None:
        """Record the result of a run and its output; raise LeaseLostError if it is refused."""
        ended: list[Run] = []

        def end(experiment: Experiment, now_s: float) -> Event | None:
            ended.append(experiment.run(completion.run_id))
            return _end(experiment, completion, now_s)

        self._event_log.decide(end)
        if completion.output is not None:
            self._event_log.save_output(completion.run_id, completion.output)
        self._run_ids.pop(token, None)
        if not _is_here(ended[0]):
            raise LeaseLostError(f"the run is {ended[0].state}")

    def give_back(self, token: str, reason: str, *, lost: bool = False) -> None:
        """Return a run to the queue, unless it has ended; see `assess_loss` for a lost one."""
        with self._event_log.deciding():
            run_id = self._run_ids.pop(token, None)
            if run_id is None or not _is_here(self._event_log.experiment.run(run_id)):
                return
            now_s = self._event_log.now_s()
            event: Event = RunReturned(now_s, run_id, reason)
            if lost:
                n_lost = self._event_log.experiment.run(run_id).lost + 1
                event = assess_loss(run_id, n_lost, reason, now_s)
            self._event_log.record(event)

    @contextmanager
    def waiting(self, executor: Executor) -> Iterator[None]:
        """Allow other threads to record and apply events during a block.

        Runs that a decision has ended before are ended in the executor.
        """
        experiment = self._event_log.experiment
        for run_id in tuple(self._run_ids.values()):
            if not _is_here(experiment.run(run_id)):
                executor.stop(run_id)
        with self._acting:
            self._waits = True
        try:
            yield
        finally:
            with self._acting:  # wait until the present record is stored
                self._waits = False

    @contextmanager
    def _while_waiting(self) -> Iterator[bool]:
        # the executing thread does not wait for this while somebody decides
        with self._event_log.locked(), self._acting:
            yield self._waits

    def _executing(self, token: str) -> int:
        run_id = self._run_ids.get(token)
        if run_id is None or not _is_here(self._event_log.experiment.run(run_id)):
            raise LeaseLostError("the run has ended; stop it")
        return run_id


def run_queued(
    event_log: EventLog,
    executor: Executor,
    on_change: Callable[[Run], None] | None = None,
    stop: Callable[[], bool] | None = None,
) -> None:
    """Execute all waiting runs by priority, and record each result as it arrives.

    Intermediate results are recorded at most every `REPORT_S` for each run; cancelled and stopped
    runs are ended. An interruption loses no result: executing runs return to the queue.
    ``on_change`` is called with each run that started or ended; once ``stop`` returns true, no more
    run starts.
    """
    leases = EventLogLeases(event_log)

    def changed(lease: RunLease) -> None:
        if on_change is not None:
            on_change(event_log.experiment.run(lease.run_id))

    def end_decided(_experiment: Experiment, event: Event) -> None:
        """End a run that was cancelled or stopped; called in the thread that decides."""
        if isinstance(event, RunCancelled | RunStopped):
            executor.stop(event.run_id)

    loop = ExecutionLoop(
        leases,
        lambda _lease: executor,
        capacity=executor.capacity,
        waiting=leases.waiting,
        on_change=changed,
    )
    event_log.listen(end_decided)
    try:
        loop.run(stop or (lambda: False))
    finally:
        event_log.unlisten(end_decided)
        executor.listen(lambda _run_id, _measures: None)


def _end(
    experiment: Experiment, completion: ExecutionResult, now_s: float
) -> RunCompleted | RunFailed | ResultRefused | None:
    """Return the event that ends a run; a result that is not expected any more is refused."""
    run = experiment.run(completion.run_id)
    if _is_here(run):
        return assess_completion(experiment, completion, now_s)
    if completion.stopped:
        return None  # it was ended on request
    why = f"the run is {run.state}"
    return ResultRefused(now_s, run.id, run.worker, "", why, completion.measures)


def _is_here(run: Run) -> bool:
    """Return whether the session's own process executes a run; workers hold the others."""
    return run.state is RunState.RUNNING and not run.token


def record_result(event_log: EventLog, completion: ExecutionResult) -> Run:
    """Record the result of a running run of the session's own process, and return the run.

    Raises ExperimentError: there is no such run, it is not running, or a worker executes it.
    """
    with event_log.deciding():
        run = event_log.experiment.run(completion.run_id)
        if run.state is not RunState.RUNNING:
            raise ExperimentError(
                f"run {run.id} is {run.state}; only a running run takes a result, and only once"
            )
        if run.token:
            raise ExperimentError(f"run {run.id} is executed by worker {run.worker}")
        event_log.decide(_end, completion)
        return event_log.experiment.run(run.id)


def start_next(event_log: EventLog) -> Run | None:
    """Record the start of the next waiting run and return it, or None if none waits."""
    with event_log.deciding():
        waiting = event_log.experiment.waiting
        if not waiting:
            return None
        event_log.record(RunStarted(event_log.now_s(), waiting[0].id))
        return event_log.experiment.run(waiting[0].id)


_BYTES = 2**40


class ExecutionLock:
    """Lock that lets only one process execute an experiment's runs.

    Raises ExperimentError: another process executes it; StoreError: the lock cannot be made.
    """

    def __init__(self, store: Path, experiment_id: str) -> None:
        lock = ProcessLock.take(_lock_path(store), raises=StoreError, offset=_offset(experiment_id))
        if lock is None:
            raise ExperimentError(
                f"another process executes experiment '{experiment_id}'; change it with "
                "copperline steer or copperline queue, or end that process first"
            )
        self._lock = lock

    def release(self) -> None:
        """Release the lock, so that another process may execute the runs."""
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def is_executed(store: Path, experiment_id: str) -> bool:
    """Return whether a process of this machine holds the `ExecutionLock` of an experiment.

    False if there is no lock, or if it belongs to another user, so that it cannot be known.
    """
    try:
        return is_locked(_lock_path(store), _offset(experiment_id))
    except PermissionError:
        return False
    except OSError as error:
        raise StoreError(f"the lock of '{store}' cannot be read: {error.strerror}") from error


def _lock_path(store: Path) -> Path:
    return store.with_name(f"{store.name}.running")


def _offset(experiment_id: str) -> int:
    """Return the byte of the lock file that stands for an experiment."""
    digest = hashlib.sha256(experiment_id.encode()).digest()
    return int.from_bytes(digest[:8], "big") % _BYTES
