"""The execution loop: lease a run, execute it, report what it measures, and record its result.

One loop for every source of leases: the event log of this process, or a service over HTTP. Also
the thread that renews leases and passes on intermediate results meanwhile.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import TypeVar

from assistant.core.errors import (
    AccessDeniedError,
    AssistantError,
    DamagedEventError,
    ExecutionRefusedError,
    LeaseLostError,
    ServiceError,
    StoreError,
    UnknownLeaseError,
)
from assistant.core.objective import Measure
from assistant.core.ports import (
    ExecutionRequest,
    ExecutionResult,
    Executor,
    LeaseSource,
    RunLease,
)

ENDING_S = 5.0  # Seconds that a heartbeat in progress may delay the end of the loop
BEAT_S = 3.0
"""Longest time in seconds between two heartbeats, and so until a worker learns of a lost lease."""
REPORT_S = 1.0
"""Smallest time in seconds between two reports of one run; only the latest result is sent."""
LOST_AGAIN_S = 1.0  # Seconds between two requests to end a run whose lease is lost
IDLE_S = 0.5  # Seconds between two requests for a run while none waits, or without an answer
MOST_WORDS = 4000  # Longest reason for a returned run
LOST = (LeaseLostError, UnknownLeaseError)
GONE = (*LOST, AccessDeniedError)
"""Errors that mean a lost lease; the token of the worker may have been revoked."""
NOT_NOW = (ServiceError, StoreError)
"""Errors that the loop waits out: a service that restarts, a disk that is full."""

T = TypeVar("T")


class ProcessEndedError(BaseException):
    """The process that executes is ended by others: its runs are lost, for the reason given."""


class LeaseHeartbeat:
    """Background thread that renews leases and passes on intermediate results.

    A lease is renewed after a third of its length, at most after `BEAT_S`. ``on_lost`` is called in
    that thread for a lost lease, whose token is then in ``lost``. The thread starts with the first
    lease.
    """

    def __init__(self, leases: LeaseSource, on_lost: Callable[[], object] = lambda: None) -> None:
        self._leases, self._on_lost = leases, on_lost
        self.lost: set[str] = set()
        self._due_s: dict[str, tuple[float, float]] = {}
        self._reports: dict[str, Mapping[str, Measure]] = {}
        self._reported_s: dict[str, float] = {}
        self._changed = threading.Condition()
        self._wakes_s = float("inf")
        self._ended, self._is_busy = False, False
        self._thread: threading.Thread | None = None

    def hold(self, token: str, lease_s: float) -> None:
        """Renew a lease regularly from now on; its length is ``lease_s`` seconds."""
        with self._changed:
            due_s = _next_s(lease_s)
            self._due_s[token] = (due_s, lease_s)
            if due_s < self._wakes_s:
                self._wake()

    def drop(self, token: str) -> None:
        """Stop renewing a lease and passing on the intermediate results of its run."""
        with self._changed:
            for by_token in (self._due_s, self._reports, self._reported_s):
                by_token.pop(token, None)

    def report(self, token: str, measures: Mapping[str, Measure]) -> None:
        """Queue an intermediate result, replacing an older one that was not passed on yet."""
        with self._changed:
            if token in self._due_s:
                self._reports[token] = measures
                if self._may_report_s(token) < self._wakes_s:
                    self._wake()

    def end(self) -> None:
        """Stop the background thread."""
        with self._changed:
            self._ended = True
            self._changed.notify()
            is_busy = self._is_busy
        if is_busy and self._thread is not None:
            self._thread.join(ENDING_S)

    def _wake(self) -> None:
        self._wakes_s = 0.0
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._loop, name="copperline-heartbeat", daemon=True
            )
            self._thread.start()
        else:
            self._changed.notify()

    def _loop(self) -> None:
        while True:
            with self._changed:
                self._is_busy = False
                if self._ended:
                    return
                now_s = time.monotonic()
                due = [token for token, (at_s, _) in self._due_s.items() if at_s <= now_s]
                news = [token for token in self._reports if self._may_report_s(token) <= now_s]
                if not due and not news:
                    self._wakes_s = self._next_event_s()
                    self._changed.wait(
                        None if self._wakes_s == float("inf") else self._wakes_s - now_s
                    )
                    self._wakes_s = 0.0
                    continue
                self._is_busy = True
            for token in due:
                self._beat(token)
            for token in news:
                self._pass_on(token)

    def _may_report_s(self, token: str) -> float:
        return self._reported_s.get(token, -REPORT_S) + REPORT_S

    def _next_event_s(self) -> float:
        times = [at_s for at_s, _ in self._due_s.values()]
        times += map(self._may_report_s, self._reports)
        return min(times, default=float("inf"))

    def _beat(self, token: str) -> None:
        try:
            lease_s = self._leases.heartbeat(token)
        except GONE:
            self._lose(token)
            return
        except AssistantError:  # not reached, so try at the next turn
            lease_s = None
        with self._changed:
            if token in self._due_s:
                lease_s = self._due_s[token][1] if lease_s is None else lease_s
                self._due_s[token] = (_next_s(lease_s), lease_s)

    def _pass_on(self, token: str) -> None:
        with self._changed:
            measures = self._reports.pop(token, None)
            if measures is None:
                return
            self._reported_s[token] = time.monotonic()
        try:
            self._leases.report(token, measures)
        except GONE:
            self._lose(token)
        except NOT_NOW:
            with self._changed:
                if token in self._due_s:
                    self._reports.setdefault(token, measures)  # unless there is a newer one
        except AssistantError:  # not accepted; a later one may be
            return

    def _lose(self, token: str) -> None:
        self.lost.add(token)
        self.drop(token)
        self._on_lost()


def _next_s(lease_s: float) -> float:
    return time.monotonic() + min(lease_s / 3, BEAT_S)


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds for which the loop waits for a source that cannot be used at the moment.

    ``first_s`` until its first answer, because it may be starting; ``later_s`` from then on.
    """

    first_s: float = 0.0
    later_s: float = 0.0


class ExecutionLoop:
    """Loop that leases runs, executes them, and records their results.

    A source that cannot be used is waited for, with the results in hand. A run that loses its lease
    is ended, and its result is dropped. An interruption returns the executing runs to the queue, so
    that no run is lost. What becomes of a run whose process died is decided by the source.

    Args:
        leases: source of the leases.
        executor_of: executor of a leased run, or the reason why the run cannot be executed here as
            an error.
        capacity: runs that are executed at once; more than one only if all have one executor.
        patience: how long an unusable source is waited for.
        waiting: context in which the loop waits for results of an executor.
        on_change: callback with the lease of each run that has started or ended.
        on_lost: callback in another thread when a lease is lost.
        on_refused: callback with the lease of a run that may not be executed here, and the error.
        say: callback with a sentence on a run or a source that cannot be used.
        idle: waits so many seconds while no run waits.
        pause: waits so many seconds while the source cannot be used.
        idle_s: seconds without a run after which the loop ends.
        steady_s: monotonic clock.
    """

    def __init__(
        self,
        leases: LeaseSource,
        executor_of: Callable[[RunLease], Executor],
        *,
        capacity: int = 1,
        patience: Patience = Patience(),
        waiting: Callable[[Executor], AbstractContextManager[object]] = contextlib.nullcontext,
        on_change: Callable[[RunLease], object] = lambda _lease: None,
        on_lost: Callable[[], object] = lambda: None,
        on_refused: Callable[[RunLease, AssistantError], object] | None = None,
        say: Callable[[str], object] = lambda _sentence: None,
        idle: Callable[[float], object] = time.sleep,
        pause: Callable[[float], object] = time.sleep,
        idle_s: float = 0.0,
        steady_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._leases, self._executor_of, self._capacity = leases, executor_of, capacity
        self._patience, self._waiting, self._steady_s = patience, waiting, steady_s
        self._on_change, self._on_lost, self._on_refused = on_change, on_lost, on_refused
        self._say, self._idle, self._pause, self._idle_s = say, idle, pause, idle_s
        self._executing: dict[int, tuple[RunLease, Executor]] = {}
        self._heartbeat = LeaseHeartbeat(leases, self._stop_lost)
        self._has_answered = False
        self._rests_since_s: float | None = None

    def run(self, stop: Callable[[], bool], hurry: Callable[[], bool] = lambda: False) -> int:
        """Execute runs until none waits or ``stop()``; return the number of recorded results.

        ``stop`` is called before each lease. Once ``hurry()``, an unusable source is not waited for
        any more.

        Raises:
            ServiceError, StoreError: the source could not be used for too long.
        """
        n_results = 0
        try:
            while True:
                is_stopped = False
                while len(self._executing) < self._capacity:
                    is_stopped = stop()
                    lease = None if is_stopped else self._ask(self._leases.lease, stop)
                    if lease is None:
                        break
                    self._begin(lease, stop)
                if self._executing:
                    n_results += self._collect(hurry)
                    self._rests_since_s = None
                elif is_stopped or self._has_rested():
                    return n_results
                else:
                    self._idle(IDLE_S)
        except BaseException as error:
            self._give_back_all(error)
            raise
        finally:
            self._heartbeat.end()

    def _has_rested(self) -> bool:
        """Return whether no run has waited for so long that the loop ends."""
        now_s = self._steady_s()
        if self._rests_since_s is None:
            self._rests_since_s = now_s
        return now_s - self._rests_since_s >= self._idle_s

    def is_lost(self, token: str) -> bool:
        """Return whether the lease of a run that is executing was lost."""
        return token in self._heartbeat.lost

    def report(self, run_id: int, measures: Mapping[str, Measure]) -> None:
        """Pass on an intermediate result of an executing run; callable from any thread."""
        executing = self._executing.get(run_id)
        if executing is not None:
            self._heartbeat.report(executing[0].token, measures)

    def _begin(self, lease: RunLease, stop: Callable[[], bool]) -> None:
        """Start the execution of a leased run, or return it to the queue."""
        before = self._executing.get(lease.run_id)
        if before is not None:  # its lease ran out while it went on here
            self._heartbeat.drop(before[0].token)
        self._heartbeat.hold(lease.token, lease.lease_s)
        try:
            executor = self._executor_of(lease)
        except LOST:
            self._heartbeat.drop(lease.token)
            return
        except (ExecutionRefusedError, DamagedEventError) as error:
            self._return(lease, str(error))
            if self._on_refused is None:
                raise
            self._on_refused(lease, error)
            return
        except NOT_NOW as error:  # no fault of the run
            self._return(lease, f"its worker could not start it: {error}")
            self._wait_out(error, self._steady_s(), stop)
            return
        except BaseException as error:
            self._interrupt(lease, error)
            raise
        self._executing[lease.run_id] = lease, executor
        executor.listen(self.report)
        executor.submit(
            ExecutionRequest(
                lease.run_id, lease.values, lease.seed, lease.limit_s, lease.experiment_id
            )
        )
        self._on_change(lease)

    def _collect(self, hurry: Callable[[], bool]) -> int:
        """Wait for results, record them, and return how many were accepted."""
        executor = next(iter(self._executing.values()))[1]
        n_results = 0
        with self._waiting(executor):
            completions = executor.collect()
        for completion in completions:
            executing = self._executing.get(completion.run_id)
            if executing is None:
                continue  # lost and leased again here, and recorded already
            lease = executing[0]
            n_results += self._record(lease, completion, hurry)
            self._heartbeat.drop(lease.token)
            self._heartbeat.lost.discard(lease.token)
            del self._executing[completion.run_id]
            self._on_change(lease)
        return n_results

    def _record(
        self, lease: RunLease, completion: ExecutionResult, hurry: Callable[[], bool]
    ) -> bool:
        """Record a result, with retries until the source can accept it; False if it is refused."""
        if completion.stopped and self._is_taken(lease, hurry):
            return False
        if completion.lost:
            reason = completion.failure or "its process died"
            self._ask(lambda: self._returned(lease, reason), hurry, insists=True)
            return False
        try:
            return bool(self._ask(lambda: self._completed(lease, completion), hurry, insists=True))
        except DamagedEventError as error:
            self._say(f"{run_words(lease)}: its result cannot be stored: {error}")
            return False
        except NOT_NOW:
            raise
        except AssistantError as error:
            if completion.measures is None:
                self._say(f"{run_words(lease)}: its failure was not accepted: {error}")
                self._return(lease, f"its failure was not accepted: {error}", lost=True)
                return False
            reason = f"its result was not accepted: {error}"
            failed = replace(completion, measures=None, failure=reason, output=None)
            return self._record(lease, failed, hurry)

    def _is_taken(self, lease: RunLease, hurry: Callable[[], bool]) -> bool:
        """Return whether the lease of a run that was ended early is lost."""
        if lease.token in self._heartbeat.lost:
            return True

        def is_lost() -> bool:
            try:
                self._leases.heartbeat(lease.token)
            except LOST:
                return True
            return False

        return bool(self._ask(is_lost, hurry, insists=True))

    def _completed(self, lease: RunLease, completion: ExecutionResult) -> bool:
        try:
            self._leases.complete(lease.token, completion)
        except LOST:
            return False
        return True

    def _returned(self, lease: RunLease, reason: str) -> None:
        with contextlib.suppress(*LOST):
            self._leases.give_back(lease.token, reason[:MOST_WORDS], lost=True)

    def _ask(
        self, ask: Callable[[], T], ends: Callable[[], bool], *, insists: bool = False
    ) -> T | None:
        """Ask the source, with retries while it cannot be used.

        Once ``ends()`` while it cannot be used: None, or its error with ``insists``.
        """
        began_s = self._steady_s()
        while True:
            try:
                answer = ask()
            except DamagedEventError:
                raise
            except NOT_NOW as error:
                if ends():
                    if insists:
                        raise
                    return None
                self._wait_out(error, began_s, ends)
            else:
                self._has_answered = True
                return answer

    def _wait_out(
        self, error: ServiceError | StoreError, since_s: float, ends: Callable[[], bool]
    ) -> None:
        """Wait a little for an unusable source; raise the error if it has gone for good."""
        patience_s = self._patience.later_s if self._has_answered else self._patience.first_s
        if isinstance(error, AccessDeniedError) or self._steady_s() - since_s >= patience_s:
            raise error
        self._rests_since_s = None
        self._say(f"{error}; this worker tries again")
        if not ends():
            self._pause(IDLE_S)

    def _stop_lost(self) -> None:
        """End the executing runs whose leases are lost, again every second while there are any.

        A signal that ``on_lost`` sends to a thread just before that thread begins to wait does not
        wake it. Called in the heartbeat thread, and in others from then on.
        """
        executing = tuple(self._executing.items())
        lost = [(n, own) for n, (lease, own) in executing if lease.token in self._heartbeat.lost]
        for run_id, executor in lost:
            executor.stop(run_id)
        if lost:
            self._on_lost()
            again = threading.Timer(LOST_AGAIN_S, self._stop_lost)
            again.daemon = True
            again.start()

    def _return(self, lease: RunLease, reason: str, *, lost: bool = False) -> None:
        self._heartbeat.drop(lease.token)
        with contextlib.suppress(AssistantError):  # otherwise its lease expires
            self._leases.give_back(lease.token, reason[:MOST_WORDS], lost=lost)

    def _give_back_all(self, error: BaseException) -> None:
        """Abort the executing runs and return them to the queue."""
        executing, self._executing = self._executing, {}
        for executor in {id(executor): executor for _, executor in executing.values()}.values():
            executor.cancel()
        for lease, _ in executing.values():
            self._interrupt(lease, error)

    def _interrupt(self, lease: RunLease, error: BaseException) -> None:
        if isinstance(error, ProcessEndedError):
            self._return(lease, str(error), lost=True)
        else:
            self._return(lease, "interrupted")


def run_words(lease: RunLease) -> str:
    """Return the name of a leased run for a message."""
    return f"run {lease.run_id} of experiment '{lease.experiment_id}'"
