"""Serial executor: executes runs in this process, one at a time, in the order of submission.

Also the execution of a single run, which all executors share.
"""

import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Mapping
from typing import Self

from assistant.core.errors import RunError, RunStoppedError
from assistant.core.objective import Measure, finite
from assistant.core.ports import (
    Application,
    ExecutionRequest,
    ExecutionResult,
    MonitoredApplication,
    ReportListener,
    RunControl,
    StoppableApplication,
)
from assistant.core.run import RunOutput

EVERY_S = 0.25  # Smallest time in seconds between two reports of one run to another process

NOT_BEGUN = "the run was stopped before its start"

WORKER_DIED = "its worker process died (killed, or out of memory)"


class RunReporter:
    """Run control that forwards the latest intermediate result of a run at a limited rate.

    A result that came too early (``every_s``) is passed on at the next `wants_end`.
    """

    def __init__(
        self,
        tell: Callable[[Mapping[str, Measure]], None],
        end_requested: Callable[[], bool],
        every_s: float = EVERY_S,
        steady_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tell, self._wanted = tell, end_requested
        self._every_s, self._steady_s = every_s, steady_s
        self._told_s: float | None = None
        self._latest: Mapping[str, Measure] | None = None
        self.output: RunOutput | None = None
        self._one = threading.Lock()

    def report(self, measures: Mapping[str, Measure]) -> None:
        """Receive an intermediate result; infinite and NaN values are replaced by None."""
        with self._one:
            self._latest = {name: finite(value) for name, value in measures.items()}
            self._tell_if_due()

    def keep_output(self, output: RunOutput) -> None:
        """Keep the output of the program in ``output``."""
        self.output = output

    def wants_end(self) -> bool:
        """Return whether the run should end now."""
        with self._one:
            self._tell_if_due()
        return self._wanted()

    def _tell_if_due(self) -> None:
        now_s = self._steady_s()
        if self._latest is None:
            return
        if self._told_s is None or now_s - self._told_s >= self._every_s:
            latest, self._latest, self._told_s = self._latest, None, now_s
            self._tell(latest)


def execute_run(
    application: Application, work: ExecutionRequest, oversight: RunControl | None = None
) -> ExecutionResult:
    """Execute one run and return its result; an exception in the application is a failed run.

    The run control has no effect during the run if the application is no `MonitoredApplication`.
    Numbers that are not finite become unknown (None). KeyboardInterrupt and SystemExit pass
    through.
    """
    started_s = time.perf_counter()
    measures: Mapping[str, Measure] | None = None
    failure: str | None = None
    stopped = False
    try:
        measures = {k: finite(v) for k, v in _evaluate(application, work, oversight).items()}
    except RunError as error:
        failure, stopped = str(error), isinstance(error, RunStoppedError)
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        failure = f"{type(error).__name__}: {error} ({where.name}, line {where.lineno})"
    output = oversight.output if isinstance(oversight, RunReporter) else None
    took_s = time.perf_counter() - started_s
    return ExecutionResult(work.run_id, measures, failure, took_s, stopped, output)


def unstarted_completion(work: ExecutionRequest) -> ExecutionResult:
    """Build the result of a run that was stopped before its execution began."""
    return ExecutionResult(work.run_id, None, NOT_BEGUN, 0.0, stopped=True)


def _evaluate(
    application: Application, work: ExecutionRequest, oversight: RunControl | None
) -> Mapping[str, Measure]:
    if oversight is not None and isinstance(application, MonitoredApplication):
        return application.evaluate_watched(work.values, work.seed, work.limit_s, oversight)
    if work.limit_s is not None and isinstance(application, StoppableApplication):
        return application.evaluate_within(work.values, work.seed, work.limit_s)
    return application.evaluate(work.values, work.seed)


class SerialExecutor:
    """Executor that executes one run at a time, in the thread that calls `collect`."""

    capacity = 1

    def __init__(self, application: Application) -> None:
        self._application = application
        self._taken: deque[ExecutionRequest] = deque()
        self._stopped: set[int] = set()
        self._one = threading.RLock()
        self._reported: ReportListener | None = None

    def submit(self, work: ExecutionRequest) -> None:
        """Add one run to the queue of the executor."""
        with self._one:
            self._taken.append(work)

    def collect(self) -> tuple[ExecutionResult, ...]:
        """Execute the oldest queued run and return its result."""
        if not self._taken:
            return ()
        work = self._taken[0]
        completion = self._completion(work)
        with self._one:
            self._taken.popleft()
            self._stopped.discard(work.run_id)
        return (completion,)

    def _completion(self, work: ExecutionRequest) -> ExecutionResult:
        run_id, reported = work.run_id, self._reported
        if run_id in self._stopped:
            return unstarted_completion(work)
        oversight = RunReporter(
            lambda measures: None if reported is None else reported(run_id, measures),
            lambda: run_id in self._stopped,
        )
        return execute_run(self._application, work, oversight)

    def listen(self, reported: ReportListener) -> None:
        """Set the listener of intermediate results for runs that begin later."""
        self._reported = reported

    def stop(self, run_id: int) -> None:
        """End one queued or executing run early; callable from any thread."""
        with self._one:
            if any(work.run_id == run_id for work in self._taken):
                self._stopped.add(run_id)

    def cancel(self) -> None:
        """Remove all queued runs."""
        with self._one:
            self._taken.clear()
            self._stopped.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.cancel()
