"""Worker: leases runs, executes them, renews their leases, and reports their results once.

The execution loop for leased runs, and the thread that sends heartbeats and intermediate results.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from typing import Annotated, Any, Protocol, TypeVar

from pydantic import Field, StringConstraints

from assistant.client.api import REMOTE_ERRORS, ApiClient, Identifier, ServiceAnswer, new_key
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
from assistant.core.objective import Measure, finite
from assistant.core.ports import ExecutionRequest, ExecutionResult, Executor
from assistant.store.queue import LEASES_S, RunLease
from strategies import Level
from strategies.space.errors import one_line

ENDING_S = 5.0  # Seconds that a heartbeat in progress may delay the end of a worker
BEAT_S = 3.0
"""Longest time in seconds between two heartbeats, and so until a worker learns of a lost lease."""
REPORT_S = 1.0
"""Smallest time in seconds between two reports of one run; only the latest result is sent."""
GONE = (LeaseLostError, UnknownLeaseError, AccessDeniedError)
"""Errors that mean a lost lease; the token of the worker may have been revoked."""


class LeaseSource(Protocol):
    """Interface from which a worker obtains and renews leases of runs."""

    def lease(self) -> RunLease | None:
        """Lease the next run and return it, or None if no run may start."""

    def heartbeat(self, token: str) -> float:
        """Renew a lease and return its length in seconds, or raise LeaseLostError."""

    def report(self, token: str, measures: Mapping[str, Measure]) -> None:
        """Send an intermediate result of a leased run, or raise LeaseLostError."""

    def complete(self, token: str, completion: ExecutionResult) -> None:
        """Send the result of a leased run, or raise LeaseLostError if it is refused."""

    def give_back(self, token: str, reason: str) -> None:
        """Return a leased run to the queue without a result."""


class LeaseHeartbeat:
    """Background thread that renews leases and sends intermediate results.

    A lease is renewed after a third of its length, at most after `BEAT_S`. ``on_lost`` is called in
    that thread for a lost lease, whose token is then in ``lost``.
    """

    def __init__(self, leases: LeaseSource, on_lost: Callable[[], object] = lambda: None) -> None:
        self._leases, self._on_lost = leases, on_lost
        self.lost: set[str] = set()
        self._due_s: dict[str, tuple[float, float]] = {}
        self._reports: dict[str, Mapping[str, Measure]] = {}
        self._told_s: dict[str, float] = {}
        self._changed = threading.Condition()
        self._ended = False
        self._thread = threading.Thread(target=self._loop, name="copperline-beats", daemon=True)
        self._thread.start()

    def hold(self, token: str, lease_s: float) -> None:
        """Renew a lease regularly from now on; its length is ``lease_s`` seconds."""
        with self._changed:
            self._due_s[token] = (_next_s(lease_s), lease_s)
            self._changed.notify()

    def drop(self, token: str) -> None:
        """Stop renewing a lease and sending the intermediate results of its run."""
        with self._changed:
            for by_token in (self._due_s, self._reports, self._told_s):
                by_token.pop(token, None)

    def report(self, token: str, measures: Mapping[str, Measure]) -> None:
        """Queue an intermediate result for sending, replacing an older unsent one."""
        with self._changed:
            if token in self._due_s:
                self._reports[token] = measures
                self._changed.notify()

    def end(self) -> None:
        """Stop the background thread."""
        with self._changed:
            self._ended = True
            self._changed.notify()
        self._thread.join(ENDING_S)

    def _loop(self) -> None:
        while True:
            with self._changed:
                if self._ended:
                    return
                now_s = time.monotonic()
                due = [token for token, (at_s, _) in self._due_s.items() if at_s <= now_s]
                news = [token for token in self._reports if self._may_tell_s(token) <= now_s]
                if not due and not news:
                    self._changed.wait(self._until_s(now_s))
                    continue
            for token in due:
                self._beat(token)
            for token in news:
                self._tell(token)

    def _may_tell_s(self, token: str) -> float:
        return self._told_s.get(token, -REPORT_S) + REPORT_S

    def _until_s(self, now_s: float) -> float | None:
        times = [at_s for at_s, _ in self._due_s.values()]
        times += map(self._may_tell_s, self._reports)
        return min(times) - now_s if times else None

    def _beat(self, token: str) -> None:
        try:
            lease_s = self._leases.heartbeat(token)
        except GONE:
            self._lose(token)
            return
        except REMOTE_ERRORS:  # not reached, so try at the next turn
            lease_s = None
        with self._changed:
            if token in self._due_s:
                lease_s = self._due_s[token][1] if lease_s is None else lease_s
                self._due_s[token] = (_next_s(lease_s), lease_s)

    def _tell(self, token: str) -> None:
        with self._changed:
            measures = self._reports.pop(token, None)
            if measures is None:
                return
            self._told_s[token] = time.monotonic()
        try:
            self._leases.report(token, measures)
        except GONE:
            self._lose(token)
        except REMOTE_ERRORS:  # not reached or not accepted; a later one may be
            return

    def _lose(self, token: str) -> None:
        self.lost.add(token)
        self.drop(token)
        self._on_lost()


def _next_s(lease_s: float) -> float:
    return time.monotonic() + min(lease_s / 3, BEAT_S)


T = TypeVar("T")
LEASE_S = 30.0
NOT_NOW = (ServiceError, StoreError)
"""Errors that a worker waits out: a service that restarts, a disk that is full."""
IDLE_S = 0.5
GONE_S = 600.0  # Seconds without an answer after which a worker ends
NOT_YET_S = 30.0
"""Seconds that a worker waits for the first answer, because the service may be starting."""
MOST_LEFT_OUT = 1000
MOST_WORDS = 4000
LeaseS = Annotated[float, Field(ge=LEASES_S[0], le=LEASES_S[1])]


class LeaseAnswer(ServiceAnswer):
    """Answer of a service with the lease of a run."""

    experiment: Identifier
    run: Annotated[int, Field(ge=1, le=10**9)]
    token: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,200}$")]
    attempt: Annotated[int, Field(ge=1)]
    values: dict[str, Level]
    seed: int
    limit_s: Annotated[float, Field(gt=0)] | None
    lease_s: LeaseS


class HeartbeatAnswer(ServiceAnswer):
    """Answer of a service to a heartbeat: the length of the renewed lease in seconds."""

    lease_s: LeaseS


class CallerAnswer(ServiceAnswer):
    """Answer of a service with the name of the caller's token; None without one."""

    name: str | None


class HttpLeaseSource:
    """Source of leases from a remote service over HTTP.

    ``only`` limits it to one experiment. ``worker`` is the display name of this worker, by default
    made of the token's name, the machine and the process.
    """

    def __init__(
        self,
        link: ApiClient,
        *,
        only: str | None = None,
        worker: str | None = None,
        lease_s: float = LEASE_S,
    ) -> None:
        self.link, self.only, self._lease_s = link, only, lease_s
        self._worker = worker
        self._key = new_key()
        self._without: list[str] = []

    def lease(self) -> RunLease | None:
        """Lease the next run and return it, or None if no run may start.

        A request without an answer is repeated under its idempotency key at the next call, so that
        a run leased meanwhile does not wait for the end of its lease.
        """
        try:
            reply = self._ask()
        except LeaseLostError:  # the lease has expired, or the run was cancelled
            self._key = new_key()
            reply = self._ask()
        self._key = new_key()
        if reply is None:
            return None
        with self.link.reading():
            lease = LeaseAnswer.model_validate(reply)
        return RunLease(
            lease.experiment, lease.run, lease.token, lease.attempt, lease.values, lease.seed,
            lease.limit_s, lease.lease_s,
        )  # fmt: skip

    def leave_out(self, experiment_id: str) -> None:
        """Lease no more runs of an experiment; raise ServiceError if too many are left out."""
        if len(self._without) >= MOST_LEFT_OUT:
            raise ServiceError(
                f"this worker cannot execute {MOST_LEFT_OUT} experiments of the service at "
                f"{self.link.url}; choose one experiment for it with --experiment"
            )
        self._without.append(experiment_id)

    def _ask(self) -> Any:
        if self._worker is None:
            reply = self.link.get("/v1/caller")
            with self.link.reading():
                token = CallerAnswer.model_validate(reply).name
            process_name = f"{socket.gethostname()}-{os.getpid()}"
            self._worker = process_name if token is None else f"{token}/{process_name}"
        body: dict[str, Any] = {"worker": self._worker, "lease_s": self._lease_s}
        if self.only is not None:
            body["experiment"] = self.only
        if self._without:
            body["without"] = self._without
        return self.link.change("POST", "/v1/leases", body, key=self._key)

    def heartbeat(self, token: str) -> float:
        """Renew a lease and return its length in seconds, or raise LeaseLostError."""
        path, timeout_s = f"/v1/leases/{token}/heartbeat", max(1.0, self._lease_s / 3)
        reply = self.link.change("POST", path, timeout_s=timeout_s)
        with self.link.reading():
            return HeartbeatAnswer.model_validate(reply).lease_s

    def report(self, token: str, measures: Mapping[str, Measure]) -> None:
        """Send an intermediate result of a leased run, or raise LeaseLostError."""
        path, timeout_s = f"/v1/leases/{token}/report", max(1.0, self._lease_s / 3)
        self.link.change("POST", path, {"measures": _plain(measures)}, timeout_s=timeout_s)

    def complete(self, token: str, completion: ExecutionResult) -> None:
        """Send the result of a leased run, or raise LeaseLostError if it is refused."""
        body = {
            "measures": None if completion.measures is None else _plain(completion.measures),
            "failure": None if completion.failure is None else completion.failure[:MOST_WORDS],
            "duration_s": completion.duration_s,
        }
        if completion.output is not None:
            body["output"] = asdict(completion.output)
        if body["measures"] is None and body["failure"] is None:
            body["failure"] = "the run gave no measures"
        self.link.change("POST", f"/v1/leases/{token}/result", body)

    def give_back(self, token: str, reason: str) -> None:
        """Return a leased run to the queue without a result."""
        self.link.change("POST", f"/v1/leases/{token}/return", {"reason": reason})


def _plain(measures: Mapping[str, Measure]) -> dict[str, Any]:
    return {name: finite(value) for name, value in measures.items()}


def run_leased(
    leases: LeaseSource,
    executor: Executor,
    changed: Callable[[int], None] | None = None,
    stop: Callable[[], bool] | None = None,
    pause: Callable[[float], object] = time.sleep,
    steady_s: Callable[[], float] = time.monotonic,
) -> int:
    """Lease and execute runs until none is waiting; return the number of accepted results.

    Intermediate results are sent meanwhile, and runs without a lease are ended. An unreachable
    service is waited for, for `NOT_YET_S`. An interruption returns the executing runs.
    ``stop`` is called before each lease; once true, no more run is leased.
    Raises ServiceError or StoreError if the service could not be used for so long.
    """
    tell = changed or (lambda _run_id: None)
    halted = stop or (lambda: False)
    leases_by_run: dict[int, RunLease] = {}
    n_results = 0

    def end_lost() -> None:
        for run_id, lease in tuple(leases_by_run.items()):
            if lease.token in beats.lost:
                executor.stop(run_id)

    def reported(run_id: int, measures: Mapping[str, Measure]) -> None:
        if run_id in leases_by_run:
            beats.report(leases_by_run[run_id].token, measures)

    beats = LeaseHeartbeat(leases, end_lost)
    executor.listen(reported)

    def patiently(ask: Callable[[], T]) -> T:
        began_s = steady_s()
        while True:
            try:
                return ask()
            except NOT_NOW as error:
                if isinstance(error, AccessDeniedError) or steady_s() - began_s > NOT_YET_S:
                    raise
                pause(IDLE_S)

    def told_of(lease: RunLease, completion: ExecutionResult) -> bool:
        if completion.stopped and not _is_ours(leases, lease.token):
            return False  # ended because its lease was lost
        beats.hold(lease.token, lease.lease_s)
        return _report_result(leases, beats, lease.token, completion)

    try:
        while True:
            while len(leases_by_run) < executor.capacity and not halted():
                lease = patiently(leases.lease)
                if lease is None:
                    break
                leases_by_run[lease.run_id] = lease
                beats.hold(lease.token, lease.lease_s)
                executor.submit(
                    ExecutionRequest(lease.run_id, lease.values, lease.seed, lease.limit_s)
                )
                tell(lease.run_id)
            if not leases_by_run:
                return n_results
            for completion in executor.collect():
                lease_of_run = leases_by_run.get(completion.run_id)
                if lease_of_run is None:
                    continue  # lost and leased again here, and reported already
                n_results += patiently(partial(told_of, lease_of_run, completion))
                del leases_by_run[completion.run_id]
                tell(completion.run_id)
    except BaseException:
        executor.cancel()
        for lease in leases_by_run.values():
            with contextlib.suppress(*REMOTE_ERRORS):  # otherwise its lease expires
                leases.give_back(lease.token, "interrupted")
        raise
    finally:
        beats.end()


def _is_ours(leases: LeaseSource, token: str) -> bool:
    try:
        leases.heartbeat(token)
    except (LeaseLostError, UnknownLeaseError):
        return False
    return True


def _report_result(
    leases: LeaseSource, beats: LeaseHeartbeat, token: str, completion: ExecutionResult
) -> bool:
    """Send a result; return False if it is refused."""
    try:
        leases.complete(token, completion)
    except (LeaseLostError, UnknownLeaseError):
        return False
    finally:
        beats.drop(token)
    return True


class _AbandonedError(BaseException):
    """The lease of the executing run was lost; this is no failure of the run."""


class Worker:
    """Worker that leases and executes runs of any experiment of a remote service.

    An unreachable service is waited for, with the result in hand, and so is one whose answers
    cannot be read. A run that loses its lease is stopped where the process allows it, because its
    result would be refused. A run that cannot be executed here, such as one whose file cannot be
    read, has failed; the worker goes on.

    Args:
        make: factory of an experiment's executor, by the lease of its first run.
        say: callback with a sentence on a run or an experiment that cannot be executed here, or
            on a service that cannot be used; the same one is said once.
        lost: callback in another thread for a lost lease; it must make the working thread call
            `abandon`, for example by a signal.
    """

    def __init__(
        self,
        leases: HttpLeaseSource,
        make: Callable[[RunLease], Executor],
        say: Callable[[str], object] = lambda _sentence: None,
        lost: Callable[[], object] = lambda: None,
        steady_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._leases, self._make, self._lost, self._steady_s = leases, make, lost, steady_s
        self._say_it, self._said = say, ""
        self._executors: dict[str, Executor] = {}
        self._began_s = steady_s()
        self._heard_s: float | None = None
        self._executed: str | None = None
        self._going_on: tuple[RunLease, Executor] | None = None
        self._beats: LeaseHeartbeat | None = None

    def work(
        self,
        stop: Callable[[], bool],
        idle: Callable[[float], object],
        pause: Callable[[float], object] | None = None,
    ) -> int:
        """Lease and execute runs one at a time until ``stop()``; return the number of results.

        ``idle`` waits while there is no run, ``pause`` (by default ``idle``) while the service is
        away.

        Raises:
            ServiceError: it refuses access, or does not answer for `GONE_S`.
            ExecutionRefusedError: it works for one experiment, and may not execute that.
        """
        n_results, beats = 0, LeaseHeartbeat(self._leases, self._end_lost)
        self._beats = beats
        pause = pause or idle
        try:
            while not stop():
                try:
                    lease = self._leases.lease()
                except REMOTE_ERRORS as error:
                    if isinstance(error, AssistantError) and not isinstance(error, NOT_NOW):
                        raise  # it will be refused again
                    self._wait_out(error, pause)  # no lease is held now
                    continue
                self._heard_s = self._steady_s()
                if lease is None:
                    idle(IDLE_S)
                    continue
                completion = self._execute(lease, beats, pause)
                if completion is not None:
                    n_results += self._told(lease, completion, beats, stop, pause)
                beats.lost.clear()
        finally:
            beats.end()
            for executor in self._executors.values():
                executor.__exit__(None, None, None)
        return n_results

    def abandon(self) -> None:
        """Abort the executing run if its lease is lost; call it in the working thread."""
        beats = self._beats
        if beats is not None and self._executed is not None and self._executed in beats.lost:
            self._executed = None
            raise _AbandonedError

    def _end_lost(self) -> None:
        """End the executing run if its lease is lost; called in the heartbeat thread."""
        going_on, beats = self._going_on, self._beats
        if going_on is not None and beats is not None and going_on[0].token in beats.lost:
            going_on[1].stop(going_on[0].run_id)
        self._lost()

    def _say(self, sentence: str) -> None:
        """Say a sentence, unless it was the last one."""
        if sentence != self._said:
            self._said = sentence
            self._say_it(sentence)

    def _wait_out(self, error: Exception, pause: Callable[[float], object]) -> None:
        """Wait a little for an unusable service; raise the error if it has gone for good."""
        last_call_s, patience_s = self._heard_s, GONE_S
        if last_call_s is None:
            last_call_s, patience_s = self._began_s, NOT_YET_S
        if isinstance(error, AccessDeniedError) or self._steady_s() - last_call_s > patience_s:
            raise error
        self._say(f"{error}; this worker tries again")
        pause(IDLE_S)

    def _told(
        self,
        lease: RunLease,
        completion: ExecutionResult,
        beats: LeaseHeartbeat,
        stop: Callable[[], bool],
        pause: Callable[[float], object],
    ) -> bool:
        """Send a result, with retries until the service can accept it."""
        while True:
            beats.hold(lease.token, lease.lease_s)
            try:
                return _report_result(self._leases, beats, lease.token, completion)
            except DamagedEventError as error:
                self._say(f"{_run_of(lease)}: its result cannot be stored: {error}")
                return False
            except NOT_NOW as error:
                if stop():
                    raise
                self._wait_out(error, pause)
            except REMOTE_ERRORS as error:
                if completion.measures is None:
                    self._say(f"{_run_of(lease)}: the service did not accept its failure: {error}")
                    return False  # its lease expires
                reason = f"the service did not accept its result: {error}"
                completion = ExecutionResult(lease.run_id, None, reason, completion.duration_s)

    def _execute(
        self, lease: RunLease, beats: LeaseHeartbeat, pause: Callable[[float], object]
    ) -> ExecutionResult | None:
        """Execute a run; return None if it was given back or its lease is lost."""
        executor = self._begun(lease, beats, pause)
        if executor is None or isinstance(executor, ExecutionResult):
            return executor
        try:
            executor.listen(lambda _run_id, measures: beats.report(lease.token, measures))
            executor.submit(ExecutionRequest(lease.run_id, lease.values, lease.seed, lease.limit_s))
            self._going_on, self._executed = (lease, executor), lease.token
            (completion,) = executor.collect()
            self._executed = None
        except _AbandonedError:
            executor.cancel()
            return None
        except Exception as error:  # of the executor; those of the application are results
            self._executed = None
            self._forget(lease.experiment_id)
            return self._failed(lease, error)
        except BaseException:
            self._executed = None
            executor.cancel()
            beats.drop(lease.token)
            self._give_back(lease, "interrupted")
            raise
        finally:
            self._going_on = None
        if completion.stopped and lease.token in beats.lost:
            return None
        return completion

    def _begun(
        self, lease: RunLease, beats: LeaseHeartbeat, pause: Callable[[float], object]
    ) -> Executor | ExecutionResult | None:
        """Return the executor of a run, or its failed result; None if it cannot execute here."""
        beats.hold(lease.token, lease.lease_s)
        try:
            return self._executor(lease)
        except (LeaseLostError, UnknownLeaseError):
            beats.drop(lease.token)
            return None
        except (ExecutionRefusedError, DamagedEventError) as error:
            beats.drop(lease.token)
            self._give_back(lease, str(error))
            if self._leases.only is not None:
                raise
            self._leases.leave_out(lease.experiment_id)
            self._say(str(error))
            return None
        except NOT_NOW as error:  # no fault of the run
            beats.drop(lease.token)
            self._give_back(lease, f"its worker could not start it: {error}")
            self._wait_out(error, pause)
            return None
        except Exception as error:  # a file or a setting that this machine cannot use
            return self._failed(lease, error)

    def _failed(self, lease: RunLease, error: Exception) -> ExecutionResult:
        """Say why a run cannot be executed here, and return that as its result."""
        words = (
            str(error) if isinstance(error, REMOTE_ERRORS) else f"{type(error).__name__}: {error}"
        )
        reason = f"it cannot be executed: {one_line(words)}"
        self._say(f"{_run_of(lease)}: {reason}")
        return ExecutionResult(lease.run_id, None, reason, 0.0)

    def _forget(self, experiment_id: str) -> None:
        """End the executor of an experiment, so that its next run gets a new one."""
        executor = self._executors.pop(experiment_id, None)
        if executor is not None:
            with contextlib.suppress(Exception):  # it is the broken one
                executor.cancel()
                executor.__exit__(None, None, None)

    def _give_back(self, lease: RunLease, reason: str) -> None:
        with contextlib.suppress(*REMOTE_ERRORS):  # otherwise its lease expires
            self._leases.give_back(lease.token, reason[:MOST_WORDS])

    def _executor(self, lease: RunLease) -> Executor:
        if lease.experiment_id not in self._executors:
            self._executors[lease.experiment_id] = self._make(lease).__enter__()
        return self._executors[lease.experiment_id]


def _run_of(lease: RunLease) -> str:
    return f"run {lease.run_id} of experiment '{lease.experiment_id}'"
