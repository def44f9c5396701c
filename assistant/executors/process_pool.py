"""Process pool executor: executes runs in several processes on this machine.

Pipes carry intermediate results from the workers, and requests to end a run to them.
"""

import multiprocessing
import signal
import threading
from collections.abc import Callable, Mapping
from concurrent import futures
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnContext
from types import TracebackType
from typing import Any, Self

from assistant.core.errors import SettingsError
from assistant.core.objective import Measure
from assistant.core.ports import Application, ExecutionRequest, ExecutionResult, ReportListener
from assistant.executors.serial import WORKER_DIED, RunReporter, execute_run

Ends = tuple[tuple[Connection, ...], Any]


class WorkerPipes:
    """Pipes to the worker processes of a pool, read by a background thread."""

    def __init__(self, context: SpawnContext, n: int, reported: ReportListener) -> None:
        pairs = [context.Pipe() for _ in range(n)]
        self._upper = tuple(upper for upper, _ in pairs)
        self._wake, self._waker = context.Pipe(duplex=False)
        self.ends: Ends = tuple(lower for _, lower in pairs), context.Value("i", 0)
        self._told = reported
        self._begun: dict[Connection, int] = {}
        self._stopped: set[int] = set()
        self._one = threading.Lock()
        self._thread = threading.Thread(target=self._read, name="copperline-lines", daemon=True)
        self._thread.start()

    def stop(self, run_id: int) -> None:
        """End a run early, even if its execution has not begun yet."""
        with self._one:
            self._stopped.add(run_id)
            for end, active_run_id in self._begun.items():
                if active_run_id == run_id:
                    self._pass_on(end, run_id)

    def over(self, run_id: int) -> None:
        """Discard the stop request of a run that has ended."""
        with self._one:
            self._stopped.discard(run_id)

    def close(self) -> None:
        """Stop the reading thread and close the pipes."""
        for end in self.ends[0]:  # a dead worker may have begun to send
            end.close()
        self._waker.send(None)
        self._thread.join()
        for end in (*self._upper, self._wake, self._waker):
            end.close()

    def _pass_on(self, end: Connection, run_id: int) -> None:
        with suppress(OSError):  # the worker has died with its run
            end.send(run_id)

    def _read(self) -> None:
        open_ends = set(self._upper)
        while True:
            for end in wait([self._wake, *open_ends]):
                if end is self._wake:
                    return
                if not isinstance(end, Connection):
                    raise AssertionError("only lines are waited for")
                try:
                    run_id, measures = end.recv()
                except (EOFError, OSError):
                    open_ends.discard(end)
                    continue
                if measures is None:
                    self._begins(end, run_id)
                else:
                    self._told(run_id, measures)

    def _begins(self, end: Connection, run_id: int) -> None:
        with self._one:
            self._begun[end] = run_id
            if run_id in self._stopped:
                self._pass_on(end, run_id)


class WorkerEndpoint:
    """Pipe end of one worker process, for intermediate results and stop requests."""

    def __init__(self, ends: Ends) -> None:
        lower, n_taken = ends
        with n_taken.get_lock():
            index = n_taken.value
            n_taken.value += 1
        self._end = lower[index]
        for other in lower:
            if other is not self._end:
                other.close()
        self._stopped: set[int] = set()
        self._one = threading.Lock()

    def oversight(self, run_id: int) -> RunReporter:
        """Report to the executor that a run begins, and return the `RunReporter` of the run."""
        self._stopped.clear()
        self._tell(run_id, None)
        return RunReporter(lambda measures: self._tell(run_id, measures), self._asker(run_id))

    def _tell(self, run_id: int, measures: Mapping[str, Measure] | None) -> None:
        with suppress(OSError), self._one:  # the pool is closed: this process will be ended
            self._end.send((run_id, measures))

    def _asker(self, run_id: int) -> Callable[[], bool]:
        def end_requested() -> bool:
            with self._one:
                try:
                    while self._end.poll():
                        self._stopped.add(self._end.recv())
                except (EOFError, OSError):
                    return True
            return run_id in self._stopped

        return end_requested


_kept: tuple[Application, WorkerEndpoint] | None = None


def _adopt(application: Application, ends: Ends) -> None:
    """Store the application in this worker, once; leave Ctrl-C to the parent."""
    global _kept  # noqa: PLW0603 - one per worker process, by design of initializers
    _kept = application, WorkerEndpoint(ends)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _attempt(work: ExecutionRequest) -> ExecutionResult:
    if _kept is None:
        raise AssertionError("the worker was started without its application")
    application, line = _kept
    return execute_run(application, work, line.oversight(work.run_id))


class ProcessPoolExecutor:
    """Executor with a pool of processes; raises SettingsError if ``workers`` is below 1."""

    def __init__(self, application: Application, workers: int) -> None:
        if workers < 1:
            raise SettingsError(f"the number of workers must be at least 1, not {workers}")
        self.capacity = workers
        self._application = application
        self._under_way: dict[futures.Future[ExecutionResult], ExecutionRequest] = {}
        self._reported: ReportListener | None = None
        self._pool = self._new_pool()

    def _new_pool(self) -> futures.ProcessPoolExecutor:
        context = multiprocessing.get_context("spawn")
        self._lines = WorkerPipes(context, self.capacity, self._tell)
        return futures.ProcessPoolExecutor(
            self.capacity,
            mp_context=context,
            initializer=_adopt,
            initargs=(self._application, self._lines.ends),
        )

    def submit(self, work: ExecutionRequest) -> None:
        """Start the execution of one run, replacing a broken pool first."""
        try:
            future = self._pool.submit(_attempt, work)
        except BrokenProcessPool:
            self._replace_pool()
            future = self._pool.submit(_attempt, work)
        self._under_way[future] = work

    def collect(self) -> tuple[ExecutionResult, ...]:
        """Wait until at least one run has ended, and return all new results."""
        if not self._under_way:
            return ()
        done, _ = futures.wait(self._under_way, return_when=futures.FIRST_COMPLETED)
        over = sorted(done, key=lambda future: self._under_way[future].run_id)
        return tuple(self._completion(future, self._under_way.pop(future)) for future in over)

    def _completion(
        self, future: futures.Future[ExecutionResult], work: ExecutionRequest
    ) -> ExecutionResult:
        self._lines.over(work.run_id)
        error = future.exception()
        if error is None:
            return future.result()
        if isinstance(error, BrokenProcessPool):
            return ExecutionResult(work.run_id, None, WORKER_DIED, 0.0, lost=True)
        return ExecutionResult(work.run_id, None, f"{type(error).__name__}: {error}", 0.0)

    def _replace_pool(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._lines.close()
        self._pool = self._new_pool()

    def listen(self, reported: ReportListener) -> None:
        """Set the listener of intermediate results."""
        self._reported = reported

    def _tell(self, run_id: int, measures: Mapping[str, Measure]) -> None:
        if self._reported is not None:
            self._reported(run_id, measures)

    def stop(self, run_id: int) -> None:
        """End one executing run early; callable from any thread."""
        if any(work.run_id == run_id for work in tuple(self._under_way.values())):
            self._lines.stop(run_id)

    def cancel(self) -> None:
        """Terminate the worker processes and abort all submitted runs."""
        self._under_way.clear()
        workers = list((self._pool._processes or {}).values())
        self._pool.shutdown(wait=False, cancel_futures=True)
        for worker in workers:
            worker.terminate()
        for worker in workers:
            worker.join()
        self._lines.close()
        self._pool = self._new_pool()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            self.cancel()
        self._pool.shutdown()
        self._lines.close()
