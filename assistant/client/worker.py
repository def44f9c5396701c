"""Worker: executes runs of a remote service, and reports their results once.

The source of leases over HTTP, and the executors of a worker's experiments.
"""

from __future__ import annotations

import contextlib
import math
import os
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Annotated, Any, Self, TypeVar

from pydantic import Field, StringConstraints

from assistant.client.api import REMOTE_ERRORS, ApiClient, Identifier, ServiceAnswer, new_key
from assistant.core.errors import (
    AssistantError,
    ExecutionRefusedError,
    LeaseLostError,
    ServiceError,
)
from assistant.core.objective import Measure, finite
from assistant.core.ports import (
    ExecutionRequest,
    ExecutionResult,
    Executor,
    LeaseSource,
    ReportListener,
    RunLease,
)
from assistant.session.execution_loop import (
    LOST,
    MOST_WORDS,
    NOT_NOW,
    ExecutionLoop,
    Patience,
    run_words,
)
from assistant.store.queue import LEASES_S
from strategies import Level
from strategies.space.errors import one_line

T = TypeVar("T")
LEASE_S = 30.0
GONE_S = 600.0  # Seconds without an answer after which a worker ends
NOT_YET_S = 30.0
"""Seconds that a worker waits for the first answer, because the service may be starting."""
MOST_LEFT_OUT = 1000
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


class OutlookAnswer(ServiceAnswer):
    """Answer of a service whether runs will wait without a person."""

    expected: bool


class CallerAnswer(ServiceAnswer):
    """Answer of a service with the name of the caller's token; None without one."""

    name: str | None


class HttpLeaseSource:
    """Source of leases from a remote service over HTTP.

    ``only`` limits it to one experiment. ``worker`` is the display name of this worker, by default
    made of the token's name, the machine and the process. ``wait_s`` are the seconds until the next
    request, as the service asked for in its last answer without a run; 0 directly after a run,
    because the next one often follows at once.
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
        self.wait_s = 0.0
        self._had_run = False

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
        if self._had_run:
            self.wait_s = 0.0
        self._had_run = reply is not None
        if reply is None:
            return None
        with self.link.reading():
            lease = LeaseAnswer.model_validate(reply)
        return RunLease(
            lease.experiment, lease.run, lease.token, lease.attempt, lease.values, lease.seed,
            lease.limit_s, lease.lease_s,
        )  # fmt: skip

    def expects_runs(self) -> bool:
        """Return whether runs will wait without a person; True if the service does not answer."""
        try:
            reply = self.link.get("/v1/leases", experiment=self.only, without=self._without)
        except NOT_NOW:
            return True
        with self.link.reading():
            return OutlookAnswer.model_validate(reply).expected

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
        reply, self.wait_s = self.link.poll("/v1/leases", body, self._key)
        return reply

    def heartbeat(self, token: str) -> float:
        """Renew a lease and return its length in seconds, or raise LeaseLostError."""
        reply = self._change(f"/v1/leases/{token}/heartbeat", timeout_s=self._timeout_s)
        with self.link.reading():
            return HeartbeatAnswer.model_validate(reply).lease_s

    def report(self, token: str, measures: Mapping[str, Measure]) -> None:
        """Send an intermediate result of a leased run, or raise LeaseLostError."""
        body = {"measures": _plain(measures)}
        self._change(f"/v1/leases/{token}/report", body, timeout_s=self._timeout_s)

    def complete(self, token: str, completion: ExecutionResult) -> None:
        """Send the result of a leased run, or raise LeaseLostError if it is refused."""
        body: dict[str, Any] = {
            "measures": None if completion.measures is None else _plain(completion.measures),
            "failure": None if completion.failure is None else completion.failure[:MOST_WORDS],
            "duration_s": completion.duration_s,
        }
        if completion.output is not None:
            body["output"] = asdict(completion.output)
        if body["measures"] is None and body["failure"] is None:
            body["failure"] = "the run gave no measures"
        self._change(f"/v1/leases/{token}/result", body)

    def give_back(self, token: str, reason: str, *, lost: bool = False) -> None:
        """Return a leased run to the queue without a result; ``lost`` if its process died."""
        body: dict[str, Any] = {"reason": reason}
        if lost:
            body["lost"] = True
        self._change(f"/v1/leases/{token}/return", body)

    @property
    def _timeout_s(self) -> float:
        return max(1.0, self._lease_s / 3)

    def _change(self, path: str, body: object = None, **more: Any) -> Any:
        try:
            return self.link.change("POST", path, body, **more)
        except REMOTE_ERRORS as error:
            if isinstance(error, AssistantError):
                raise
            raise AssistantError(str(error)) from error


def _plain(measures: Mapping[str, Measure]) -> dict[str, Any]:
    return {name: finite(value) for name, value in measures.items()}


def run_leased(
    leases: LeaseSource,
    executor: Executor,
    on_change: Callable[[int], object] = lambda _run_id: None,
    stop: Callable[[], bool] | None = None,
    pause: Callable[[float], object] = time.sleep,
    steady_s: Callable[[], float] = time.monotonic,
) -> int:
    """Execute runs of a service in this process until none waits; return the number of results.

    ``on_change`` is called with the number of each run that started or ended; once ``stop`` returns
    true, no more run starts. Raises ServiceError or StoreError if the service could not be used for
    `NOT_YET_S`.
    """
    loop = ExecutionLoop(
        leases,
        lambda _lease: executor,
        capacity=executor.capacity,
        patience=Patience(NOT_YET_S, NOT_YET_S),
        on_change=lambda lease: on_change(lease.run_id),
        pause=pause,
        steady_s=steady_s,
    )
    return loop.run(stop or (lambda: False))


class _AbandonedError(BaseException):
    """The lease of the executing run was lost; this is no failure of the run."""


class _ExperimentExecutor:
    """Executor of one experiment's runs for a worker: its own errors are failures of the runs.

    ``inner`` is None if it cannot be made here, for the reason ``failure``. ``on_broken`` is called
    once the executor has failed.
    """

    capacity = 1

    def __init__(
        self,
        inner: Executor | None,
        failure: str = "",
        on_broken: Callable[[str], object] = lambda _reason: None,
    ) -> None:
        self._inner, self._failure, self._on_broken = inner, failure, on_broken
        self._work: ExecutionRequest | None = None
        self.is_collecting = False

    def submit(self, work: ExecutionRequest) -> None:
        """Start the execution of one run."""
        self._work = work
        self._guarded(lambda inner: inner.submit(work))

    def collect(self) -> tuple[ExecutionResult, ...]:
        """Wait for the result of the run; it is stopped once it was abandoned."""
        work, completions = self._work, None
        if work is None:
            return ()
        try:
            self.is_collecting = True
            completions = self._guarded(lambda inner: inner.collect())
            self.is_collecting = False
        except _AbandonedError:
            self.cancel()
            return (ExecutionResult(work.run_id, None, "its lease was lost", 0.0, stopped=True),)
        finally:
            self.is_collecting = False
        if completions is not None:
            return completions
        return (ExecutionResult(work.run_id, None, self._failure, 0.0),)

    def listen(self, reported: ReportListener) -> None:
        """Set the callback for intermediate results."""
        self._guarded(lambda inner: inner.listen(reported))

    def stop(self, run_id: int) -> None:
        """End the executing run early."""
        if self._inner is not None:
            self._inner.stop(run_id)

    def cancel(self) -> None:
        """Abort the executing run."""
        if self._inner is not None:
            self._inner.cancel()

    def _guarded(self, act: Callable[[Executor], T]) -> T | None:
        """Return the answer of the executor; None if it is broken, which fails the run."""
        if self._inner is None:
            return None
        try:
            return act(self._inner)
        except Exception as error:  # of the executor; those of the application are results
            broken, self._inner = self._inner, None
            self._failure = _why_not_here(error)
            with contextlib.suppress(Exception):
                broken.cancel()
                broken.__exit__(None, None, None)
            self._on_broken(self._failure)
            return None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._inner is not None:
            self._inner.__exit__(None, None, None)


def _why_not_here(error: Exception) -> str:
    words = str(error) if isinstance(error, REMOTE_ERRORS) else f"{type(error).__name__}: {error}"
    return f"it cannot be executed: {one_line(words)}"


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
        patience: how long a service without an answer is waited for.
    """

    def __init__(
        self,
        leases: HttpLeaseSource,
        make: Callable[[RunLease], Executor],
        say: Callable[[str], object] = lambda _sentence: None,
        lost: Callable[[], object] = lambda: None,
        steady_s: Callable[[], float] = time.monotonic,
        patience: Patience = Patience(NOT_YET_S, GONE_S),  # noqa: B008 - frozen
    ) -> None:
        self._leases, self._make, self._lost, self._steady_s = leases, make, lost, steady_s
        self._patience = patience
        self._say_it, self._said = say, ""
        self._executors: dict[str, _ExperimentExecutor] = {}
        self._executing: tuple[RunLease, _ExperimentExecutor] | None = None
        self._loop: ExecutionLoop | None = None

    def work(
        self,
        stop: Callable[[], bool],
        idle: Callable[[float], object],
        pause: Callable[[float], object] | None = None,
        idle_s: float = math.inf,
    ) -> int:
        """Lease and execute runs one at a time until ``stop()``; return the number of results.

        ``idle`` waits while there is no run, as long as the service asks for; ``pause`` (by default
        ``idle``) while the service is away. After ``idle_s`` seconds without a run it ends.

        Raises:
            ServiceError: it refuses access, or does not answer for `GONE_S`.
            ExecutionRefusedError: it works for one experiment, and may not execute that.
        """
        self._loop = ExecutionLoop(
            self._leases,
            self._executor,
            patience=self._patience,
            on_lost=self._lost,
            on_refused=self._refused,
            say=self._say,
            idle=lambda seconds: idle(max(seconds, self._leases.wait_s)),
            pause=pause or idle,
            idle_s=idle_s,
            steady_s=self._steady_s,
        )
        try:
            return self._loop.run(stop, hurry=stop)
        finally:
            for executor in self._executors.values():
                executor.__exit__(None, None, None)

    def abandon(self) -> None:
        """Abort the executing run if its lease is lost; call it in the working thread."""
        if self._loop is None or self._executing is None:
            return
        lease, executor = self._executing
        if executor.is_collecting and self._loop.is_lost(lease.token):
            executor.is_collecting = False
            raise _AbandonedError

    def _say(self, sentence: str) -> None:
        """Say a sentence, unless it was the last one."""
        if sentence != self._said:
            self._said = sentence
            self._say_it(sentence)

    def _refused(self, lease: RunLease, error: AssistantError) -> None:
        if self._leases.only is not None:
            raise error
        self._leases.leave_out(lease.experiment_id)
        self._say(str(error))

    def _executor(self, lease: RunLease) -> Executor:
        """Return the executor of a leased run; one that fails it if it cannot be executed here."""

        def broken(reason: str) -> None:
            self._executors.pop(lease.experiment_id, None)  # its next run gets a new one
            if self._executing is not None:
                self._say(f"{run_words(self._executing[0])}: {reason}")

        executor = self._executors.get(lease.experiment_id)
        if executor is None:
            try:
                executor = _ExperimentExecutor(self._make(lease).__enter__(), on_broken=broken)
                self._executors[lease.experiment_id] = executor
            except (*LOST, ExecutionRefusedError, *NOT_NOW):
                raise
            except Exception as error:  # a file or a setting that this machine cannot use
                reason = _why_not_here(error)
                self._say(f"{run_words(lease)}: {reason}")
                executor = _ExperimentExecutor(None, reason)
        self._executing = lease, executor
        return executor
