"""Executing runs that are claimed: renew the lease while they go on, tell once how they ended.

A worker keeps nothing that matters: killed, its runs go to another when the leases run out;
stopped for too long, its results are refused.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from assistant.client.link import Link, new_key
from assistant.errors import (
    AssistantError,
    ClaimLostError,
    ServiceError,
    StoreError,
    UnknownClaimError,
)
from assistant.ports import Completion, Executor, Work
from assistant.store import Claim

LEASE_S = 30.0
NOT_NOW = (ServiceError, StoreError)
"""What a worker waits out: a service that restarts, a disk that is full."""
IDLE_S = 0.5
"""How long a worker waits before it asks again, while nothing waits for it."""


class Claims(Protocol):
    """Where runs are claimed."""

    def claim(self) -> Claim | None:
        """Return the next run; None if nothing may start."""

    def heartbeat(self, token: str) -> float:
        """Renew a lease. Raises ClaimLostError if the run is not ours any more."""

    def complete(self, token: str, completion: Completion) -> None:
        """Tell how a run ended. Raises ClaimLostError if nobody wants to know any more."""

    def give_back(self, token: str, reason: str) -> None:
        """Let a run wait again."""


class HttpClaims:
    """Claims through a service.

    Args:
        link: to it, with the token of a worker.
        only: experiment whose runs are wanted; None is any.
        worker: name of this worker, for people.
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
        self.link, self._only, self._lease_s = link, only, lease_s
        self._worker = worker or f"{socket.gethostname()}-{os.getpid()}"
        self._key = new_key()

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

    def _ask(self) -> Any:
        body: dict[str, Any] = {"worker": self._worker, "lease_s": self._lease_s}
        if self._only is not None:
            body["experiment"] = self._only
        return self.link.change("POST", "/v1/claims", body, key=self._key)

    def heartbeat(self, token: str) -> float:
        """See `Claims.heartbeat`."""
        return float(self.link.change("POST", f"/v1/claims/{token}/heartbeat")["lease_s"])

    def complete(self, token: str, completion: Completion) -> None:
        """See `Claims.complete`."""
        body = {
            "measures": None if completion.measures is None else _plain(completion.measures),
            "failure": completion.failure,
            "duration_s": completion.duration_s,
        }
        if body["measures"] is None and body["failure"] is None:
            body["failure"] = "the run gave no measures"
        self.link.change("POST", f"/v1/claims/{token}/result", body)

    def give_back(self, token: str, reason: str) -> None:
        """See `Claims.give_back`."""
        self.link.change("POST", f"/v1/claims/{token}/return", {"reason": reason})


def _plain(measures: Any) -> dict[str, Any]:
    """Return measures as JSON has them: a number that is none is unknown."""

    def one(value: Any) -> Any:
        if isinstance(value, tuple | list):
            return [one(x) for x in value]
        return None if isinstance(value, float) and value - value != 0 else value

    return {name: one(value) for name, value in measures.items()}


@dataclass
class _Beats:
    """Renews leases in a thread of its own, each after a third of its length.

    ``lost`` has the tokens of runs that are not ours any more.
    """

    claims: Claims

    def __post_init__(self) -> None:
        self.lost: set[str] = set()
        self._due_s: dict[str, tuple[float, float]] = {}
        self._changed = threading.Condition()
        self._ended = False
        self._thread = threading.Thread(target=self._loop, name="copperline-beats", daemon=True)
        self._thread.start()

    def hold(self, token: str, lease_s: float) -> None:
        with self._changed:
            self._due_s[token] = (time.monotonic() + lease_s / 3, lease_s)
            self._changed.notify()

    def drop(self, token: str) -> None:
        with self._changed:
            self._due_s.pop(token, None)

    def end(self) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify()
        self._thread.join()

    def _loop(self) -> None:
        while True:
            with self._changed:
                if self._ended:
                    return
                now_s = time.monotonic()
                due = [token for token, (at_s, _) in self._due_s.items() if at_s <= now_s]
                if not due:
                    soonest = min((at_s for at_s, _ in self._due_s.values()), default=None)
                    self._changed.wait(None if soonest is None else soonest - now_s)
                    continue
            for token in due:
                self._beat(token)

    def _beat(self, token: str) -> None:
        try:
            lease_s = self.claims.heartbeat(token)
        except (ClaimLostError, UnknownClaimError):
            self.lost.add(token)
            self.drop(token)
            return
        except AssistantError:
            lease_s = self._due_s.get(token, (0.0, LEASE_S))[1]  # not reached: at the next turn
        with self._changed:
            if token in self._due_s:
                self._due_s[token] = (time.monotonic() + lease_s / 3, lease_s)


def run_claims(
    claims: Claims,
    executor: Executor,
    changed: Callable[[int], None] | None = None,
    stop: Callable[[], bool] | None = None,
) -> int:
    """Claim and execute until nothing waits; return how many results were told.

    Interrupting it gives back what is under way.

    Args:
        claims: where runs come from.
        executor: where they execute; its application must be that of the runs.
        changed: told the number of each run that started or ended.
        stop: asked before each claim; once true, nothing more is claimed.
    """
    tell = changed or (lambda _run_id: None)
    halted = stop or (lambda: False)
    held: dict[int, str] = {}
    beats, told = _Beats(claims), 0
    try:
        while True:
            while len(held) < executor.capacity and not halted():
                claim = claims.claim()
                if claim is None:
                    break
                held[claim.run_id] = claim.token
                beats.hold(claim.token, claim.lease_s)
                executor.submit(Work(claim.run_id, claim.values, claim.seed, claim.limit_s))
                tell(claim.run_id)
            if not held:
                return told
            for completion in executor.collect():
                told += _tell(claims, beats, held.pop(completion.run_id), completion)
                tell(completion.run_id)
    except BaseException:
        executor.cancel()
        for token in held.values():
            try:
                claims.give_back(token, "interrupted")
            except AssistantError:
                continue  # its lease will run out
        raise
    finally:
        beats.end()


def _tell(claims: Claims, beats: _Beats, token: str, completion: Completion) -> bool:
    """Tell a result; false if nobody wants it any more."""
    try:
        claims.complete(token, completion)
    except (ClaimLostError, UnknownClaimError):
        return False
    finally:
        beats.drop(token)
    return True


class Worker:
    """Executes runs of any experiment that a service has, for as long as it is let.

    Args:
        claims: of the service.
        make: builds the executor of an experiment, by the claim of its first run.
    """

    def __init__(self, claims: HttpClaims, make: Callable[[Claim], Executor]) -> None:
        self._claims, self._make = claims, make
        self._executors: dict[str, Executor] = {}

    def work(self, stop: Callable[[], bool], idle: Callable[[float], object]) -> int:
        """Claim and execute until told to stop; return how many results were told.

        One run at a time for each call: start more workers for more.

        Args:
            stop: asked before each claim.
            idle: waits so many seconds while there is nothing to do.
        """
        told, beats = 0, _Beats(self._claims)
        try:
            while not stop():
                try:
                    claim = self._claims.claim()
                except NOT_NOW:
                    idle(IDLE_S)  # it may be restarting; nothing is held meanwhile
                    continue
                if claim is None:
                    idle(IDLE_S)
                    continue
                completion = self._execute(claim, beats)
                told += self._told(claim, completion, beats, stop, idle)
        finally:
            beats.end()
            for executor in self._executors.values():
                executor.__exit__(None, None, None)
        return told

    def _told(
        self,
        claim: Claim,
        completion: Completion,
        beats: _Beats,
        stop: Callable[[], bool],
        idle: Callable[[float], object],
    ) -> bool:
        """Tell a result, for as long as it takes until the service can take it."""
        while True:
            beats.hold(claim.token, claim.lease_s)
            try:
                return _tell(self._claims, beats, claim.token, completion)
            except NOT_NOW:
                if stop():
                    raise
                idle(IDLE_S)

    def _execute(self, claim: Claim, beats: _Beats) -> Completion:
        beats.hold(claim.token, claim.lease_s)
        try:
            executor = self._executor(claim)
        except AssistantError as error:
            return Completion(claim.run_id, None, f"it cannot be executed: {error}", 0.0)
        try:
            executor.submit(Work(claim.run_id, claim.values, claim.seed, claim.limit_s))
            (completion,) = executor.collect()
        except BaseException:
            executor.cancel()
            beats.drop(claim.token)
            self._claims.give_back(claim.token, "interrupted")
            raise
        return completion

    def _executor(self, claim: Claim) -> Executor:
        if claim.experiment_id not in self._executors:
            self._executors[claim.experiment_id] = self._make(claim).__enter__()
        return self._executors[claim.experiment_id]
