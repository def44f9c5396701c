"""Execution of waiting runs: the loop between an event log and an executor.

Also the monitor that records intermediate results meanwhile, and the lock that lets only one
process execute an experiment.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import struct
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Self
from weakref import WeakSet

from assistant.core.errors import AssistantError, ExperimentError, StoreError
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
from assistant.core.ports import ExecutionRequest, ExecutionResult, Executor
from assistant.core.run import Run, RunState
from assistant.core.submission import assess_completion
from assistant.session.event_log import EventLog

LOOK_S = 1.0
"""Seconds between records of intermediate results, and between looks at others' decisions."""


class RunMonitor:
    """Monitor of executing runs: records intermediate results and ends stopped runs."""

    def __init__(self, event_log: EventLog, executor: Executor) -> None:
        self.under_way: set[int] = set()
        """Numbers of the executing runs; `run_queued` maintains it."""
        self._event_log, self._executor = event_log, executor
        self._latest: dict[int, Mapping[str, Measure]] = {}
        self._news, self._ended = threading.Event(), threading.Event()
        self._acting = threading.Lock()
        self._waiting = False
        self._thread: threading.Thread | None = None
        event_log.listen(self._hear)
        executor.listen(self._reported)

    def collect(self) -> tuple[ExecutionResult, ...]:
        """Wait for results and return them like `Executor.collect`, monitoring runs meanwhile."""
        for run_id in tuple(self.under_way):  # it may have been cancelled while it was submitted
            if self._event_log.experiment.run(run_id).state is not RunState.RUNNING:
                self._executor.stop(run_id)
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._loop, name="copperline-lookout", daemon=True
            )
            self._thread.start()
        with self._acting:
            self._waiting = True
        try:
            return self._executor.collect()
        finally:
            with self._acting:  # wait until the present record is stored
                self._waiting = False

    def end(self) -> None:
        """Stop monitoring, so that nothing more is recorded."""
        self._event_log.unlisten(self._hear)
        self._executor.listen(lambda _run_id, _measures: None)
        with self._acting:
            self._ended.set()
        self._news.set()

    def _reported(self, run_id: int, measures: Mapping[str, Measure]) -> None:
        self._latest[run_id] = measures
        self._news.set()

    def _hear(self, _experiment: Experiment, event: Event) -> None:
        """End a run that was cancelled or stopped; called in the thread that decides."""
        if isinstance(event, RunCancelled | RunStopped) and event.run_id in self.under_way:
            self._executor.stop(event.run_id)

    def _loop(self) -> None:
        while not self._ended.is_set():
            if self._news.wait(LOOK_S):
                self._news.clear()
            reported = bool(self._latest)
            with suppress(AssistantError):  # the executing thread meets it too
                self._look()
            if reported:  # the first one is recorded at once, the next ones wait
                self._ended.wait(LOOK_S)

    def _look(self) -> None:
        """Apply the decisions of others, and record intermediate results."""
        # the executing thread does not wait for this while somebody decides
        with self._event_log.locked(), self._acting:
            if self._ended.is_set() or not self._waiting:
                return
            self._event_log.catch_up()
            for run_id in tuple(self._latest):
                self._record(run_id, self._latest.pop(run_id))

    def _record(self, run_id: int, measures: Mapping[str, Measure]) -> None:
        run = self._event_log.experiment.run(run_id)
        if run.state is not RunState.RUNNING or run.token or run_id not in self.under_way:
            return
        try:
            self._event_log.record(RunReported(self._event_log.now_s(), run_id, measures))
        except StoreError:
            self._latest.setdefault(run_id, measures)  # unless there is a newer one
            raise
        except AssistantError:  # it cannot be stored in an event log
            return


def run_queued(
    event_log: EventLog,
    executor: Executor,
    on_change: Callable[[Run], None] | None = None,
    stop: Callable[[], bool] | None = None,
) -> None:
    """Execute all waiting runs by priority, and record each result as it arrives.

    Intermediate results are recorded at most every `LOOK_S` for each run; cancelled and stopped
    runs are ended. An interruption loses no result: executing runs return to the queue.
    ``on_change`` is called with each run that started or ended; once ``stop`` returns true, no more
    run starts.
    """
    tell = on_change or (lambda _run: None)
    halted = stop or (lambda: False)
    run_monitor = RunMonitor(event_log, executor)
    try:
        while True:
            while len(run_monitor.under_way) < executor.capacity and not halted():
                run = start_next(event_log)
                if run is None:
                    break
                run_monitor.under_way.add(run.id)
                executor.submit(_work(event_log, run))
                tell(run)
            if not run_monitor.under_way:
                return
            for completion in run_monitor.collect():
                event_log.decide(_end, completion)
                run_monitor.under_way.discard(completion.run_id)
                if completion.output is not None:
                    event_log.save_output(completion.run_id, completion.output)
                tell(event_log.experiment.run(completion.run_id))
    except BaseException:
        executor.cancel()
        under_way = run_monitor.under_way
        with event_log.deciding():
            _return(
                event_log, [run for run in _ours(event_log) if run.id in under_way], "interrupted"
            )
        raise
    finally:
        run_monitor.end()


def _end(
    experiment: Experiment, completion: ExecutionResult, now_s: float
) -> RunCompleted | RunFailed | ResultRefused | None:
    """Return the event that ends a run; a result that is not expected any more is refused."""
    run = experiment.run(completion.run_id)
    if run.state is RunState.RUNNING and not run.token:
        return assess_completion(experiment, completion, now_s)
    if completion.stopped:
        return None  # it was ended on request
    why = f"the run is {run.state}"
    return ResultRefused(now_s, run.id, run.worker, "", why, completion.measures)


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


def _ours(event_log: EventLog) -> list[Run]:
    """Return the running runs of the session's own process; workers hold the others."""
    return [run for run in event_log.experiment.runs_in(RunState.RUNNING) if not run.token]


def _return(event_log: EventLog, runs: Iterable[Run], reason: str) -> None:
    now_s = event_log.now_s()
    event_log.record(*(RunReturned(now_s, run.id, reason) for run in runs))


def start_next(event_log: EventLog) -> Run | None:
    """Record the start of the next waiting run and return it, or None if none waits."""
    with event_log.deciding():
        waiting = event_log.experiment.waiting
        if not waiting:
            return None
        event_log.record(RunStarted(event_log.now_s(), waiting[0].id))
        return event_log.experiment.run(waiting[0].id)


def _work(event_log: EventLog, run: Run) -> ExecutionRequest:
    experiment = event_log.experiment
    values = experiment.space.values(run.configuration)
    return ExecutionRequest(run.id, values, run.seed, experiment.sla.run_limit_s)


_BYTES = 2**40


class ExecutionLock:
    """Lock that lets only one process execute an experiment's runs.

    Raises ExperimentError: another process executes it; StoreError: the lock cannot be made.
    """

    def __init__(self, store: Path, experiment_id: str) -> None:
        path = _lock_path(store)
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            self._descriptor: int | None = os.open(path, flags, 0o600)
        except OSError as error:
            raise StoreError(f"the lock '{path}' cannot be made: {error.strerror}") from error
        try:
            fcntl.fcntl(self._descriptor, fcntl.F_OFD_SETLK, _lock_request(experiment_id))
        except OSError as error:
            self.release()
            if error.errno in (errno.EAGAIN, errno.EACCES):
                raise ExperimentError(
                    f"another process executes experiment '{experiment_id}'; change it with "
                    "copperline steer or copperline queue, or end that process first"
                ) from error
            raise StoreError(f"the lock '{path}' cannot be taken: {error.strerror}") from error

        _held.add(self)

    def release(self) -> None:
        """Release the lock, so that another process may execute the runs."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def is_executed(store: Path, experiment_id: str) -> bool:
    """Return whether a process of this machine holds the `ExecutionLock` of an experiment.

    False if there is no lock, or if it belongs to another user, so that it cannot be known.
    """
    try:
        descriptor = os.open(_lock_path(store), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except (FileNotFoundError, PermissionError):
        return False
    except OSError as error:
        raise StoreError(f"the lock of '{store}' cannot be read: {error.strerror}") from error
    try:
        answer = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, _lock_request(experiment_id))
    finally:
        os.close(descriptor)
    return bool(struct.unpack_from("@h", answer)[0] != fcntl.F_UNLCK)


def _lock_path(store: Path) -> Path:
    return store.with_name(f"{store.name}.running")


def _lock_request(experiment_id: str) -> bytes:
    digest = hashlib.sha256(experiment_id.encode()).digest()
    start = int.from_bytes(digest[:8], "big") % _BYTES
    return struct.pack("@hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, start, 1, 0)


_held: WeakSet[ExecutionLock] = WeakSet()


def _let_go() -> None:
    """Close the copied locks in a forked child, which would outlive those of the parent."""
    for lock in list(_held):
        lock.release()


os.register_at_fork(after_in_child=_let_go)
