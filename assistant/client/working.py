"""Executing runs that are claimed: renew the lease while they go on, tell once how they ended.

A worker keeps nothing that matters: killed, its runs go to another when the leases run out;
stopped for too long, its results are refused.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from assistant.client.beats import Beats, Claims
from assistant.client.link import Link, new_key
from assistant.errors import (
    AssistantError,
    ClaimLostError,
    NotExecutedHereError,
    NotLetInError,
    ServiceError,
    StoreError,
    UnknownClaimError,
)
from assistant.objective import Measure, finite
from assistant.ports import Completion, Executor, Work
from assistant.store import Claim

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


class HttpClaims:
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
        link: Link,
        *,
        only: str | None = None,
        worker: str | None = None,
        lease_s: float = LEASE_S,
    ) -> None:
        self.link, self.only, self._lease_s = link, only, lease_s
        self._worker = worker
        self._key = new_key()
        self._without: list[str] = []

    def claim(self) -> Claim | None:
        """See `Claims.claim`.

        A claim that was not answered is repeated under its key at the next call, so that a run
        which was given meanwhile does not wait for the end of its lease.
        """
        try:
            told = self._ask()
        except ClaimLostError:  # its lease has run out by now, or it was cancelled
            self._key = new_key()
            told = self._ask()
        self._key = new_key()
        if told is None:
            return None
        return Claim(
            told["experiment"], told["run"], told["token"], told["attempt"], told["values"],
            told["seed"], told["limit_s"], told["lease_s"],
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
            own = f"{socket.gethostname()}-{os.getpid()}"
            self._worker = own if token is None else f"{token}/{own}"
        body: dict[str, Any] = {"worker": self._worker, "lease_s": self._lease_s}
        if self.only is not None:
            body["experiment"] = self.only
        if self._without:
            body["without"] = self._without
        return self.link.change("POST", "/v1/claims", body, key=self._key)

    def heartbeat(self, token: str) -> float:
        """See `Claims.heartbeat`."""
        path, timeout_s = f"/v1/claims/{token}/heartbeat", max(1.0, self._lease_s / 3)
        return float(self.link.change("POST", path, timeout_s=timeout_s)["lease_s"])

    def report(self, token: str, measures: Mapping[str, Measure]) -> None:
        """See `Claims.report`."""
        path, timeout_s = f"/v1/claims/{token}/report", max(1.0, self._lease_s / 3)
        self.link.change("POST", path, {"measures": _plain(measures)}, timeout_s=timeout_s)

    def complete(self, token: str, completion: Completion) -> None:
        """See `Claims.complete`."""
        body = {
            "measures": None if completion.measures is None else _plain(completion.measures),
            "failure": None if completion.failure is None else completion.failure[:MOST_WORDS],
            "duration_s": completion.duration_s,
        }
        if body["measures"] is None and body["failure"] is None:
            body["failure"] = "the run gave no measures"
        self.link.change("POST", f"/v1/claims/{token}/result", body)

    def give_back(self, token: str, reason: str) -> None:
        """See `Claims.give_back`."""
        self.link.change("POST", f"/v1/claims/{token}/return", {"reason": reason})


def _plain(measures: Mapping[str, Measure]) -> dict[str, Any]:
    """Return measures as JSON has them: what holds a number that is none is unknown."""
    return {name: finite(value) for name, value in measures.items()}


def run_claims(
    claims: Claims,
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
    held: dict[int, Claim] = {}
    told = 0

    def end_lost() -> None:
        for run_id, claim in tuple(held.items()):
            if claim.token in beats.lost:
                executor.stop(run_id)

    def reported(run_id: int, measures: Mapping[str, Measure]) -> None:
        if run_id in held:
            beats.report(held[run_id].token, measures)

    beats = Beats(claims, end_lost)
    executor.listen(reported)

    def patiently(ask: Callable[[], T]) -> T:
        began_s = steady_s()
        while True:
            try:
                return ask()
            except NOT_NOW as error:
                if isinstance(error, NotLetInError) or steady_s() - began_s > NOT_YET_S:
                    raise
                pause(IDLE_S)

    def told_of(claim: Claim, completion: Completion) -> bool:
        if completion.stopped and not _is_ours(claims, claim.token):
            return False  # it was ended because nobody waits for it
        beats.hold(claim.token, claim.lease_s)
        return _tell(claims, beats, claim.token, completion)

    try:
        while True:
            while len(held) < executor.capacity and not halted():
                claim = patiently(claims.claim)
                if claim is None:
                    break
                held[claim.run_id] = claim
                beats.hold(claim.token, claim.lease_s)
                executor.submit(Work(claim.run_id, claim.values, claim.seed, claim.limit_s))
                tell(claim.run_id)
            if not held:
                return told
            for completion in executor.collect():
                own = held.get(completion.run_id)
                if own is None:
                    continue  # it was lost and claimed again here, and has been told
                told += patiently(partial(told_of, own, completion))
                del held[completion.run_id]
                tell(completion.run_id)
    except BaseException:
        executor.cancel()
        for claim in held.values():
            with contextlib.suppress(AssistantError):  # else its lease will run out
                claims.give_back(claim.token, "interrupted")
        raise
    finally:
        beats.end()


def _is_ours(claims: Claims, token: str) -> bool:
    try:
        claims.heartbeat(token)
    except (ClaimLostError, UnknownClaimError):
        return False
    return True


def _tell(claims: Claims, beats: Beats, token: str, completion: Completion) -> bool:
    """Tell a result; false if nobody wants it any more."""
    try:
        claims.complete(token, completion)
    except (ClaimLostError, UnknownClaimError):
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
        claims: HttpClaims,
        make: Callable[[Claim], Executor],
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
        self._going_on: tuple[Claim, Executor] | None = None
        self._beats: Beats | None = None

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
        told, beats = 0, Beats(self._claims, self._end_lost)
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
                    told += self._told(claim, completion, beats, stop, pause)
                beats.lost.clear()
        finally:
            beats.end()
            for executor in self._executors.values():
                executor.__exit__(None, None, None)
        return told

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
        if isinstance(error, NotLetInError) or self._steady_s() - heard_s > patience_s:
            raise error
        pause(IDLE_S)

    def _told(
        self,
        claim: Claim,
        completion: Completion,
        beats: Beats,
        stop: Callable[[], bool],
        pause: Callable[[float], object],
    ) -> bool:
        """Tell a result, for as long as it takes until the service can take it."""
        while True:
            beats.hold(claim.token, claim.lease_s)
            try:
                return _tell(self._claims, beats, claim.token, completion)
            except NOT_NOW as error:
                if stop():
                    raise
                self._wait_out(error, pause)
            except AssistantError as error:
                if completion.measures is None:
                    raise
                reason = f"the service could not take its result: {error}"
                completion = Completion(claim.run_id, None, reason, completion.duration_s)

    def _execute(
        self, claim: Claim, beats: Beats, pause: Callable[[float], object]
    ) -> Completion | None:
        """Execute a run; return None if it was given back or is not ours any more."""
        executor = self._begun(claim, beats, pause)
        if executor is None or isinstance(executor, Completion):
            return executor
        try:
            executor.listen(lambda _run_id, measures: beats.report(claim.token, measures))
            executor.submit(Work(claim.run_id, claim.values, claim.seed, claim.limit_s))
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
        self, claim: Claim, beats: Beats, pause: Callable[[float], object]
    ) -> Executor | Completion | None:
        """Return what executes a run, or how it ended before that was there; None if not here."""
        beats.hold(claim.token, claim.lease_s)
        try:
            return self._executor(claim)
        except (ClaimLostError, UnknownClaimError):
            beats.drop(claim.token)
            return None
        except NotExecutedHereError as error:
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
            return Completion(claim.run_id, None, f"it cannot be executed: {error}", 0.0)

    def _give_back(self, claim: Claim, reason: str) -> None:
        with contextlib.suppress(AssistantError):  # else its lease will run out
            self._claims.give_back(claim.token, reason[:MOST_WORDS])

    def _executor(self, claim: Claim) -> Executor:
        if claim.experiment_id not in self._executors:
            self._executors[claim.experiment_id] = self._make(claim).__enter__()
        return self._executors[claim.experiment_id]
