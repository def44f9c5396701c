"""What is told of runs while they go on: that they are still executed, and what they report.

Executing runs that are claimed: renew the lease while they go on, tell once how they ended.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol, TypeVar

from assistant.client.api import ApiClient, new_key
from assistant.core.errors import (
    AccessDeniedError,
    AssistantError,
    ExecutionRefusedError,
    LeaseLostError,
    ServiceError,
    StoreError,
    UnknownLeaseError,
)
from assistant.core.objective import Measure, finite
from assistant.core.ports import ExecutionRequest, ExecutionResult, Executor
from assistant.store.queue import RunLease

ENDING_S = 5.0
"""How long a heartbeat under way may hold up the end of a worker."""
BEAT_S = 3.0
"""The most time between two heartbeats: so soon a worker hears that its run shall end."""
REPORT_S = 1.0
"""Least time between two reports of one run; of those that come in between the latest is told."""
GONE = (LeaseLostError, UnknownLeaseError, AccessDeniedError)
"""What says that a run is not ours any more; the token of its worker may have been revoked."""


class LeaseSource(Protocol):
    """Where runs are claimed."""

    def claim(self) -> RunLease | None:
        """Return the next run; None if nothing may start."""

    def heartbeat(self, token: str) -> float:
        """Renew a lease. Raises ClaimLostError if the run is not ours any more."""

    def report(self, token: str, measures: Mapping[str, Measure]) -> None:
        """Tell what a run has measured so far. Raises as `heartbeat` does."""

    def complete(self, token: str, completion: ExecutionResult) -> None:
        """Tell how a run ended. Raises ClaimLostError if nobody wants to know any more."""

    def give_back(self, token: str, reason: str) -> None:
        """Let a run wait again."""


class LeaseHeartbeat:
    """Renews leases in a thread of its own and tells reports.

    A lease is renewed after a third of its length, and after `BEAT_S` at most.

    Args:
        claims: where the leases are.
        on_lost: told in that thread that a run is not ours any more; ``lost`` has its token then.
    """

    def __init__(self, claims: LeaseSource, on_lost: Callable[[], object] = lambda: None) -> None:
        self._claims, self._on_lost = claims, on_lost
        self.lost: set[str] = set()
        self._due_s: dict[str, tuple[float, float]] = {}
        self._reports: dict[str, Mapping[str, Measure]] = {}
        self._told_s: dict[str, float] = {}
        self._changed = threading.Condition()
        self._ended = False
        self._thread = threading.Thread(target=self._loop, name="copperline-beats", daemon=True)
        self._thread.start()

    def hold(self, token: str, lease_s: float) -> None:
        """Renew this lease from now on."""
        with self._changed:
            self._due_s[token] = (_next_s(lease_s), lease_s)
            self._changed.notify()

    def drop(self, token: str) -> None:
        """Renew this lease no more, and tell nothing more of its run."""
        with self._changed:
            for by_token in (self._due_s, self._reports, self._told_s):
                by_token.pop(token, None)

    def report(self, token: str, measures: Mapping[str, Measure]) -> None:
        """Tell what a run that is held has measured so far, soon, unless it reports again first."""
        with self._changed:
            if token in self._due_s:
                self._reports[token] = measures
                self._changed.notify()

    def end(self) -> None:
        """Renew and tell nothing more."""
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
        """Return how long nothing is to be done; None for ever."""
        times = [at_s for at_s, _ in self._due_s.values()]
        times += map(self._may_tell_s, self._reports)
        return min(times) - now_s if times else None

    def _beat(self, token: str) -> None:
        try:
            lease_s = self._claims.heartbeat(token)
        except GONE:
            self._lose(token)
            return
        except AssistantError:  # not reached: at the next turn
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
            self._claims.report(token, measures)
        except GONE:
            self._lose(token)
        except AssistantError:  # not reached, or not understood: a later one may be
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
"""What a worker waits out: a service that restarts, a disk that is full."""
IDLE_S = 0.5
"""How long a worker waits before it asks again, while nothing waits for it."""
GONE_S = 600.0
"""A worker that has had no answer for so long ends: the service has gone for good."""
NOT_YET_S = 30.0
"""So long it waits for the first answer: the service may be starting."""
MOST_LEFT_OUT = 1000
"""Experiments that a worker can leave to others."""
MOST_WORDS = 4000
"""Characters of a failure that are told."""


class HttpLeaseSource:
    """Claims through a service.

    Args:
        link: to it, with the token of a worker.
        only: experiment whose runs are wanted; None is any.
        worker: name of this worker, for people; None is that of the token, if it has one, the
            machine and the process.
        lease_s: how long a run is held without a heartbeat.
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

    def claim(self) -> RunLease | None:
        """See `LeaseSource.claim`.

        A claim that was not answered is repeated under its key at the next call, so that a run
        which was given meanwhile does not wait for the end of its lease.
        """
        try:
            reply = self._ask()
        except LeaseLostError:  # its lease has run out by now, or it was cancelled
            self._key = new_key()
            reply = self._ask()
        self._key = new_key()
        if reply is None:
            return None
        return RunLease(
            reply["experiment"], reply["run"], reply["token"], reply["attempt"], reply["values"],
            reply["seed"], reply["limit_s"], reply["lease_s"],
        )  # fmt: skip

    def leave_out(self, experiment_id: str) -> None:
        """Claim no more runs of an experiment.

        Raises:
            ServiceError: of so many that the service would not take the list.
        """
        if len(self._without) >= MOST_LEFT_OUT:
            raise ServiceError(
                f"this worker executes none of {MOST_LEFT_OUT} experiments of the service at "
                f"{self.link.url}; let it work for one of them with --experiment"
            )
        self._without.append(experiment_id)

    def _ask(self) -> Any:
        if self._worker is None:
            token = self.link.get("/v1/caller")["name"]
            process_name = f"{socket.gethostname()}-{os.getpid()}"
            self._worker = process_name if token is None else f"{token}/{process_name}"
        body: dict[str, Any] = {"worker": self._worker, "lease_s": self._lease_s}
        if self.only is not None:
            body["experiment"] = self.only
        if self._without:
            body["without"] = self._without
        return self.link.change("POST", "/v1/claims", body, key=self._key)

    def heartbeat(self, token: str) -> float:
        """See `LeaseSource.heartbeat`."""
        path, timeout_s = f"/v1/claims/{token}/heartbeat", max(1.0, self._lease_s / 3)
        return float(self.link.change("POST", path, timeout_s=timeout_s)["lease_s"])

    def report(self, token: str, measures: Mapping[str, Measure]) -> None:
        """See `LeaseSource.report`."""
        path, timeout_s = f"/v1/claims/{token}/report", max(1.0, self._lease_s / 3)
        self.link.change("POST", path, {"measures": _plain(measures)}, timeout_s=timeout_s)

    def complete(self, token: str, completion: ExecutionResult) -> None:
        """See `LeaseSource.complete`."""
        body = {
            "measures": None if completion.measures is None else _plain(completion.measures),
            "failure": None if completion.failure is None else completion.failure[:MOST_WORDS],
            "duration_s": completion.duration_s,
        }
        if body["measures"] is None and body["failure"] is None:
            body["failure"] = "the run gave no measures"
        self.link.change("POST", f"/v1/claims/{token}/result", body)

    def give_back(self, token: str, reason: str) -> None:
        """See `LeaseSource.give_back`."""
        self.link.change("POST", f"/v1/claims/{token}/return", {"reason": reason})


def _plain(measures: Mapping[str, Measure]) -> dict[str, Any]:
    """Return measures as JSON has them: what holds a number that is none is unknown."""
    return {name: finite(value) for name, value in measures.items()}


def run_leased(
    claims: LeaseSource,
    executor: Executor,
    changed: Callable[[int], None] | None = None,
    stop: Callable[[], bool] | None = None,
    pause: Callable[[float], object] = time.sleep,
    steady_s: Callable[[], float] = time.monotonic,
) -> int:
    """Claim and execute until nothing waits; return how many results were told.

    What runs report is told meanwhile; one that is not ours any more, because it was cancelled or
    stopped for example, is ended.
    A service that is away or has no room is waited for, for `NOT_YET_S`. Interrupting it gives
    back what is under way.

    Args:
        claims: where runs come from.
        executor: where they execute; its application must be that of the runs.
        changed: told the number of each run that started or ended.
        stop: asked before each claim; once true, nothing more is claimed.
        pause: waits so many seconds.
        steady_s: passes.

    Raises:
        ServiceError, StoreError: the service could not be used for so long.
    """
    tell = changed or (lambda _run_id: None)
    halted = stop or (lambda: False)
    claims_by_run: dict[int, RunLease] = {}
    n_results = 0

    def end_lost() -> None:
        for run_id, claim in tuple(claims_by_run.items()):
            if claim.token in beats.lost:
                executor.stop(run_id)

    def reported(run_id: int, measures: Mapping[str, Measure]) -> None:
        if run_id in claims_by_run:
            beats.report(claims_by_run[run_id].token, measures)

    beats = LeaseHeartbeat(claims, end_lost)
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

    def told_of(claim: RunLease, completion: ExecutionResult) -> bool:
        if completion.stopped and not _is_ours(claims, claim.token):
            return False  # it was ended because nobody waits for it
        beats.hold(claim.token, claim.lease_s)
        return _report_result(claims, beats, claim.token, completion)

    try:
        while True:
            while len(claims_by_run) < executor.capacity and not halted():
                claim = patiently(claims.claim)
                if claim is None:
                    break
                claims_by_run[claim.run_id] = claim
                beats.hold(claim.token, claim.lease_s)
                executor.submit(
                    ExecutionRequest(claim.run_id, claim.values, claim.seed, claim.limit_s)
                )
                tell(claim.run_id)
            if not claims_by_run:
                return n_results
            for completion in executor.collect():
                claim_of_run = claims_by_run.get(completion.run_id)
                if claim_of_run is None:
                    continue  # it was lost and claimed again here, and has been told
                n_results += patiently(partial(told_of, claim_of_run, completion))
                del claims_by_run[completion.run_id]
                tell(completion.run_id)
    except BaseException:
        executor.cancel()
        for claim in claims_by_run.values():
            with contextlib.suppress(AssistantError):  # else its lease will run out
                claims.give_back(claim.token, "interrupted")
        raise
    finally:
        beats.end()


def _is_ours(claims: LeaseSource, token: str) -> bool:
    try:
        claims.heartbeat(token)
    except (LeaseLostError, UnknownLeaseError):
        return False
    return True


def _report_result(
    claims: LeaseSource, beats: LeaseHeartbeat, token: str, completion: ExecutionResult
) -> bool:
    """Tell a result; false if nobody wants it any more."""
    try:
        claims.complete(token, completion)
    except (LeaseLostError, UnknownLeaseError):
        return False
    finally:
        beats.drop(token)
    return True


class _AbandonedError(BaseException):
    """The run that is executed is not ours any more; no failure of the run."""


class Worker:
    """Executes runs of any experiment that a service has, for as long as it is let.

    A service that is away or has no room is waited for, with the result in hand. A run that is
    lost meanwhile (cancelled, or given to another after a silence) is stopped where the process
    allows it; its result would be refused anyway.

    Args:
        claims: of the service.
        make: builds the executor of an experiment, by the claim of its first run.
        refused: told, in a sentence, of an experiment that this worker may not execute; its runs
            are left to others.
        lost: told, in another thread, that a run is not ours any more; it shall make the thread
            that works call `abandon`, as a handler of signals can.
        steady_s: passes; by it the service is given up (`GONE_S`).
    """

    def __init__(
        self,
        claims: HttpLeaseSource,
        make: Callable[[RunLease], Executor],
        refused: Callable[[str], object] = lambda _sentence: None,
        lost: Callable[[], object] = lambda: None,
        steady_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._claims, self._make, self._lost, self._steady_s = claims, make, lost, steady_s
        self._refused = refused
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
        """Claim and execute until told to stop; return how many results were told.

        One run at a time for each call: start more workers for more.

        Args:
            stop: asked before each claim.
            idle: waits so many seconds while there is nothing to do.
            pause: waits so many seconds for a service that is away; ``idle`` if None.

        Raises:
            ServiceError: it lets nobody in, or has not been heard of for `GONE_S`.
            NotExecutedHereError: it works for one experiment, and may not execute that.
        """
        n_results, beats = 0, LeaseHeartbeat(self._claims, self._end_lost)
        self._beats = beats
        pause = pause or idle
        try:
            while not stop():
                try:
                    claim = self._claims.claim()
                except NOT_NOW as error:
                    self._wait_out(error, pause)  # nothing is held meanwhile
                    continue
                self._heard_s = self._steady_s()
                if claim is None:
                    idle(IDLE_S)
                    continue
                completion = self._execute(claim, beats, pause)
                if completion is not None:
                    n_results += self._told(claim, completion, beats, stop, pause)
                beats.lost.clear()
        finally:
            beats.end()
            for executor in self._executors.values():
                executor.__exit__(None, None, None)
        return n_results

    def abandon(self) -> None:
        """Stop the run that is executed, if it was lost; for the thread that works."""
        beats = self._beats
        if beats is not None and self._executed is not None and self._executed in beats.lost:
            self._executed = None
            raise _AbandonedError

    def _end_lost(self) -> None:
        """End the run that is executed if it was lost; in the thread of the heartbeats."""
        going_on, beats = self._going_on, self._beats
        if going_on is not None and beats is not None and going_on[0].token in beats.lost:
            going_on[1].stop(going_on[0].run_id)
        self._lost()

    def _wait_out(self, error: AssistantError, pause: Callable[[float], object]) -> None:
        """Wait a little for a service that cannot be used now, unless it has gone for good."""
        heard_s, patience_s = self._heard_s, GONE_S
        if heard_s is None:
            heard_s, patience_s = self._began_s, NOT_YET_S
        if isinstance(error, AccessDeniedError) or self._steady_s() - heard_s > patience_s:
            raise error
        pause(IDLE_S)

    def _told(
        self,
        claim: RunLease,
        completion: ExecutionResult,
        beats: LeaseHeartbeat,
        stop: Callable[[], bool],
        pause: Callable[[float], object],
    ) -> bool:
        """Tell a result, for as long as it takes until the service can take it."""
        while True:
            beats.hold(claim.token, claim.lease_s)
            try:
                return _report_result(self._claims, beats, claim.token, completion)
            except NOT_NOW as error:
                if stop():
                    raise
                self._wait_out(error, pause)
            except AssistantError as error:
                if completion.measures is None:
                    raise
                reason = f"the service could not take its result: {error}"
                completion = ExecutionResult(claim.run_id, None, reason, completion.duration_s)

    def _execute(
        self, claim: RunLease, beats: LeaseHeartbeat, pause: Callable[[float], object]
    ) -> ExecutionResult | None:
        """Execute a run; return None if it was given back or is not ours any more."""
        executor = self._begun(claim, beats, pause)
        if executor is None or isinstance(executor, ExecutionResult):
            return executor
        try:
            executor.listen(lambda _run_id, measures: beats.report(claim.token, measures))
            executor.submit(ExecutionRequest(claim.run_id, claim.values, claim.seed, claim.limit_s))
            self._going_on, self._executed = (claim, executor), claim.token
            (completion,) = executor.collect()
            self._executed = None
        except _AbandonedError:
            executor.cancel()
            return None
        except BaseException:
            self._executed = None
            executor.cancel()
            beats.drop(claim.token)
            self._give_back(claim, "interrupted")
            raise
        finally:
            self._going_on = None
        if completion.stopped and claim.token in beats.lost:
            return None
        return completion

    def _begun(
        self, claim: RunLease, beats: LeaseHeartbeat, pause: Callable[[float], object]
    ) -> Executor | ExecutionResult | None:
        """Return what executes a run, or how it ended before that was there; None if not here."""
        beats.hold(claim.token, claim.lease_s)
        try:
            return self._executor(claim)
        except (LeaseLostError, UnknownLeaseError):
            beats.drop(claim.token)
            return None
        except ExecutionRefusedError as error:
            beats.drop(claim.token)
            self._give_back(claim, str(error))
            if self._claims.only is not None:
                raise
            self._claims.leave_out(claim.experiment_id)
            self._refused(str(error))
            return None
        except NOT_NOW as error:  # that says nothing of the run
            beats.drop(claim.token)
            self._give_back(claim, f"its worker could not begin: {error}")
            self._wait_out(error, pause)
            return None
        except AssistantError as error:
            return ExecutionResult(claim.run_id, None, f"it cannot be executed: {error}", 0.0)

    def _give_back(self, claim: RunLease, reason: str) -> None:
        with contextlib.suppress(AssistantError):  # else its lease will run out
            self._claims.give_back(claim.token, reason[:MOST_WORDS])

    def _executor(self, claim: RunLease) -> Executor:
        if claim.experiment_id not in self._executors:
            self._executors[claim.experiment_id] = self._make(claim).__enter__()
        return self._executors[claim.experiment_id]
