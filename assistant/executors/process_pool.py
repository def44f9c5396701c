"""Process pool executor: executes runs in several processes on this machine.

A pipe to each worker carries runs and requests to end one; a pipe from it carries intermediate
results and results. A worker ends at once when its parent is gone, also in the middle of a run.
"""

import multiprocessing
import os
import queue
import signal
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.util import Finalize
from typing import Self

from assistant.core.errors import SettingsError
from assistant.core.interrupts import (
    die_with_parent,
    leave_signals_to_parent,
    signals_blocked,
    uninterrupted,
)
from assistant.core.ports import Application, ExecutionRequest, ExecutionResult, ReportListener
from assistant.executors.serial import WORKER_DIED, RunReporter, execute_run


class _WorkerEndpoint:
    """End of the pipe in a worker, read by a thread, which also notices the end of the parent."""

    def __init__(self, pipe: Connection) -> None:
        self.runs: queue.SimpleQueue[ExecutionRequest] = queue.SimpleQueue()
        self._pipe = pipe
        self._to_end: set[int] = set()
        threading.Thread(target=self._read, name="copperline-parent", daemon=True).start()

    def _read(self) -> None:
        with suppress(EOFError, OSError):
            while True:
                message = self._pipe.recv()
                if isinstance(message, ExecutionRequest):
                    self._to_end.discard(message.run_id)
                    self.runs.put(message)
                else:
                    self._to_end.add(message)
        os.kill(os.getpid(), signal.SIGKILL)  # the parent is gone

    def execute(self, application: Application, work: ExecutionRequest) -> None:
        """Execute a run and send its result; an exception that ends a process fails the run."""
        reporter = RunReporter(
            lambda measures: self._pipe.send((work.run_id, measures)),
            lambda: work.run_id in self._to_end,
        )
        try:
            result = execute_run(application, work, reporter)
        except BaseException as error:
            reason = f"{type(error).__name__}: {error}"
            result = ExecutionResult(work.run_id, None, reason, 0.0)
        self._pipe.send(result)


def _serve(pipe: Connection, application: Application, parent: int) -> None:
    """Execute the runs that come through a pipe, in a process of its own, until it is killed."""
    die_with_parent(parent)
    leave_signals_to_parent()
    endpoint = _WorkerEndpoint(pipe)
    while True:
        endpoint.execute(application, endpoint.runs.get())


class _Worker:
    """Worker process with its end of the pipe; ``work`` is the run that it executes."""

    def __init__(self, application: Application) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.work: ExecutionRequest | None = None
        self._sending = threading.Lock()
        self.process = context.Process(target=_serve, args=(theirs, application, os.getpid()))
        try:
            self.process.start()
        finally:
            theirs.close()

    def send(self, message: ExecutionRequest | int) -> None:
        """Send a run, or the number of a run to end; a dead worker is noticed when it is read."""
        with self._sending, suppress(OSError):
            self.pipe.send(message)

    def receive(self) -> object:
        """Return the next message of a worker that has sent one or has died; None if it died."""
        try:
            return self.pipe.recv() if self.pipe.poll() else None
        except (EOFError, OSError):
            return None

    def kill(self) -> None:
        """Kill the process, and close the pipe."""
        self.process.kill()
        self.process.join()
        self.pipe.close()


def _kill_all(workers: list[_Worker]) -> None:
    while workers:
        workers.pop().kill()


class ProcessPoolExecutor:
    """Executor with a pool of processes; raises SettingsError if ``workers`` is below 1."""

    def __init__(self, application: Application, workers: int) -> None:
        if workers < 1:
            raise SettingsError(f"the number of workers must be at least 1, not {workers}")
        self.capacity = workers
        self._application = application
        self._waiting: deque[ExecutionRequest] = deque()
        self._stopped: set[int] = set()
        self._workers: list[_Worker] = []
        self._reported: ReportListener | None = None
        # Linux ends a worker with the thread that started it, so this one lives as long as the pool
        self._starter = ThreadPoolExecutor(1, "copperline-pool")
        with signals_blocked():
            self._starter.submit(int).result()  # its thread inherits which signals are blocked
        self._end = Finalize(self, _kill_all, (self._workers,), exitpriority=10)

    def submit(self, work: ExecutionRequest) -> None:
        """Start the execution of one run, in a new worker if all are busy or dead."""
        self._waiting.append(work)
        self._assign()

    def _assign(self) -> None:
        """Give waiting runs to workers without one."""
        while self._waiting:
            idle = [worker for worker in self._workers if worker.work is None]
            for dead in [worker for worker in idle if not worker.process.is_alive()]:
                self._remove(dead)
                idle.remove(dead)
            if not idle and len(self._workers) >= self.capacity:
                return
            worker = idle[0] if idle else self._starter.submit(self._start).result()
            worker.work = work = self._waiting[0]
            worker.send(work)
            self._waiting.popleft()
            if work.run_id in self._stopped:
                worker.send(work.run_id)

    def _start(self) -> _Worker:
        worker = _Worker(self._application)
        self._workers.append(worker)
        return worker

    def _remove(self, worker: _Worker) -> None:
        self._workers.remove(worker)
        worker.kill()

    def collect(self) -> tuple[ExecutionResult, ...]:
        """Wait until at least one run has ended, and return all new results."""
        over: list[ExecutionResult] = []
        while not over:
            self._assign()
            busy = [worker for worker in self._workers if worker.work is not None]
            if not busy:
                return ()
            ready = wait([end for worker in busy for end in (worker.pipe, worker.process.sentinel)])
            for worker in busy:
                if worker.pipe in ready or worker.process.sentinel in ready:
                    over.extend(self._received(worker))
        self._stopped.difference_update(result.run_id for result in over)
        return tuple(sorted(over, key=lambda result: result.run_id))

    def _received(self, worker: _Worker) -> tuple[ExecutionResult, ...]:
        """Read the next message of a worker, and return the result of its run if that has ended."""
        message, work = worker.receive(), worker.work
        if isinstance(message, tuple):
            if self._reported is not None:
                self._reported(*message)
            return ()
        worker.work = None
        if isinstance(message, ExecutionResult):
            return (message,)
        self._remove(worker)
        if work is None:
            return ()
        return (ExecutionResult(work.run_id, None, WORKER_DIED, 0.0, lost=True),)

    def listen(self, reported: ReportListener) -> None:
        """Set the listener of intermediate results, which is called by `collect`."""
        self._reported = reported

    def stop(self, run_id: int) -> None:
        """End one executing run early; callable from any thread."""
        if any(work.run_id == run_id for work in tuple(self._waiting)):
            self._stopped.add(run_id)
        for worker in tuple(self._workers):
            work = worker.work
            if work is not None and work.run_id == run_id:
                worker.send(run_id)

    def cancel(self) -> None:
        """Kill the worker processes, which aborts all submitted runs; others are started later."""
        with uninterrupted():
            self._waiting.clear()
            self._stopped.clear()
            self._starter.submit(_kill_all, self._workers).result()  # after a start under way

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with uninterrupted():
            self.cancel()
            self._starter.shutdown()
