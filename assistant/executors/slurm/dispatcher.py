"""Dispatcher that leases runs to the workers in jobs of Slurm.

Runs are bound late: to the job that asks, not to one that Slurm may start some day. A request
counts only under a valid ticket and from the newest worker that has it, and a result only under the
token of the present lease of its run.
"""

import hashlib
import hmac
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from assistant.core.errors import AccessDeniedError, LeaseLostError
from assistant.core.objective import Measure
from assistant.core.ports import ExecutionRequest, ExecutionResult
from assistant.executors.serial import WORKER_DIED

MOST_SESSIONS = 64
"""Largest number of workers of one ticket: Slurm may requeue a job, but not for ever."""

SILENT_S = 15.0  # Seconds without a request after which a job is lost

LEASE_S = 3.0  # Length of a lease as a worker is told, which renews it after a third

WAIT_S = 2.0  # Seconds for which a request for a run waits for one

STOPPED = "the run was stopped early on request"

ENDED = "its Slurm job ended during the run; is the walltime long enough for a run?"


@dataclass
class _Assignment:
    work: ExecutionRequest
    token: str


@dataclass
class _PilotRecord:
    session: str = ""
    sessions: set[str] = field(default_factory=set)
    seen_s: float | None = None
    assignment: _Assignment | None = None
    over: bool = False


@dataclass(frozen=True, slots=True)
class PilotState:
    """State of a job with a valid ticket: whether its worker has reported, and has a run."""

    has_reported: bool
    busy: bool


class PilotDispatcher:
    """Thread-safe dispatcher that leases runs to the workers in jobs of Slurm (pilots).

    Args:
        over: callback with the result of a run, also of a lost one.
        reported: callback with an intermediate result.
        about: what a worker has to have in common with this process, by name.
        now_s: monotonic clock.
        leased: callback with the id of a job and the run that is leased to it.
    """

    def __init__(
        self,
        over: Callable[[ExecutionResult], None],
        reported: Callable[[int, Mapping[str, Measure]], None],
        about: Mapping[str, str] | None = None,
        now_s: Callable[[], float] = time.monotonic,
        leased: Callable[[str, ExecutionRequest], None] = lambda _pilot, _work: None,
    ) -> None:
        self._over, self._reported, self._now_s = over, reported, now_s
        self._leased = leased
        self._about = dict(about or {})
        self._changed = threading.Condition(threading.RLock())
        self._pilots: dict[str, _PilotRecord] = {}
        self._secrets: dict[bytes, str] = {}
        self._waiting: dict[int, ExecutionRequest] = {}
        self._n_taken = 0
        self.n_heard = 0
        self.broken: str | None = None
        """Reason why no job can work; None if there is none."""

    # Called by the executor

    def add(self, pilot: str, secret: str) -> None:
        """Register the ticket of a new job, given by its id and secret."""
        with self._changed:
            self._pilots[pilot] = _PilotRecord()
            self._secrets[_digest(secret)] = pilot

    def take(self, work: ExecutionRequest) -> None:
        """Queue a run; the next free job gets the run that has waited longest."""
        with self._changed:
            self._waiting[self._n_taken] = work
            self._n_taken += 1
            self._changed.notify()

    def stop(self, run_id: int) -> None:
        """End a waiting or running run early; its worker learns of it at its next heartbeat."""
        with self._changed:
            for pilot in self._pilots.values():
                if pilot.assignment is not None and pilot.assignment.work.run_id == run_id:
                    pilot.assignment = None
                    self._over(ExecutionResult(run_id, None, STOPPED, 0.0, stopped=True))
            for place, work in list(self._waiting.items()):
                if work.run_id == run_id:
                    del self._waiting[place]
                    self._over(ExecutionResult(run_id, None, STOPPED, 0.0, stopped=True))

    def forget(self) -> list[str]:
        """Drop all runs, revoke the tickets of busy jobs, and return the ids of these jobs."""
        with self._changed:
            self._waiting.clear()
            busy = [name for name, pilot in self._pilots.items() if pilot.assignment is not None]
            for name in busy:
                self._pilots[name].assignment = None
                self._pilots[name].over = True
            self._changed.notify_all()
            return busy

    def end(self) -> None:
        """Drop all runs and revoke all tickets."""
        with self._changed:
            self.forget()
            for pilot in self._pilots.values():
                pilot.over = True
            self._changed.notify_all()

    def revoke(self, name: str) -> None:
        """Revoke the ticket of a job; the run that it executes is lost."""
        with self._changed:
            pilot = self._pilots[name]
            pilot.over = True
            self._lose(pilot, WORKER_DIED)
            self._changed.notify_all()

    def expire(self) -> list[str]:
        """Revoke the tickets of jobs that are silent for too long, and return their ids."""
        with self._changed:
            now_s = self._now_s()
            silent = [
                name
                for name, pilot in self._pilots.items()
                if not pilot.over and pilot.seen_s is not None and now_s - pilot.seen_s > SILENT_S
            ]
            for name in silent:
                self.revoke(name)
            return silent

    def pardon(self, slept_s: float) -> None:
        """Extend all timeouts by the seconds in which this machine was suspended."""
        with self._changed:
            for pilot in self._pilots.values():
                if pilot.seen_s is not None:
                    pilot.seen_s += slept_s

    def pilot_states(self) -> dict[str, PilotState]:
        """Return the state of each job with a valid ticket."""
        with self._changed:
            return {
                name: PilotState(bool(pilot.session), pilot.assignment is not None)
                for name, pilot in self._pilots.items()
                if not pilot.over
            }

    @property
    def n_runs(self) -> int:
        """Number of waiting and running runs."""
        with self._changed:
            n_assigned = sum(pilot.assignment is not None for pilot in self._pilots.values())
            return len(self._waiting) + n_assigned

    # Called by the server

    def pilot_of(self, secret: str) -> str | None:
        """Return the id of the job whose ticket has a secret, valid or revoked; None if unknown."""
        digest = _digest(secret)
        with self._changed:
            known = self._secrets.get(digest)
        return known if known is not None and hmac.compare_digest(digest, _digest(secret)) else None

    def check(self, pilot: str, about: Mapping[str, str]) -> None:
        """Raise AccessDeniedError if a ticket is revoked, or its worker has another version."""
        with self._changed:
            if self._pilots[pilot].over:
                raise AccessDeniedError("its ticket is not valid any more")
            for name, expected in self._about.items():
                if about.get(name) != expected:
                    self.fail(
                        pilot,
                        f"a job has {name} {about.get(name, '')[:60]}, this machine has {expected};"
                        " install the same version on both",
                    )
                    raise AccessDeniedError(self.broken or "")

    def lease(self, pilot: str, session: str) -> tuple[ExecutionRequest, str] | None:
        """Return the next run and the token of its lease; None if none waits for `WAIT_S`.

        A repeated request returns the same run, because the answer may have been lost. A request of
        a newer worker of the ticket (``session``) fences off the one before.

        Raises:
            AccessDeniedError: the ticket is revoked, or a newer worker has it.
        """
        with self._changed:
            record = self._pilots[pilot]
            self._begin(pilot, record, session)
            self._changed.wait_for(
                lambda: self._waiting or record.over or record.session != session, WAIT_S
            )
            record.seen_s = self._now_s()
            if record.over:
                raise AccessDeniedError("its ticket is not valid any more")
            if record.session != session:
                raise AccessDeniedError("a newer worker has the same ticket")
            if record.assignment is None:
                if not self._waiting:
                    return None
                work = self._waiting.pop(min(self._waiting))
                record.assignment = _Assignment(work, secrets.token_hex(16))
                self._leased(pilot, work)
            return record.assignment.work, record.assignment.token

    def heartbeat(self, pilot: str, token: str) -> float:
        """Return the length of a renewed lease in seconds, or raise LeaseLostError."""
        with self._changed:
            self._assignment(pilot, token)
            return LEASE_S

    def report(self, pilot: str, token: str, measures: Mapping[str, Measure]) -> None:
        """Pass on an intermediate result, or raise LeaseLostError."""
        with self._changed:
            self._reported(self._assignment(pilot, token).work.run_id, measures)

    def complete(self, pilot: str, token: str, completion: ExecutionResult) -> None:
        """Take the result of a run, or raise LeaseLostError if it is refused.

        The result's ``run_id`` is that of the lease, whatever is given.
        """
        with self._changed:
            run_id = self._assignment(pilot, token).work.run_id
            self._pilots[pilot].assignment = None
            self._over(replace(completion, run_id=run_id))

    def give_back(self, pilot: str, token: str, reason: str) -> None:
        """Take a run that its worker cannot finish as lost, or raise LeaseLostError."""
        with self._changed:
            self._assignment(pilot, token)
            self._lose(self._pilots[pilot], reason)

    def fail(self, pilot: str, reason: str) -> None:
        """Take note of a reason why no job can work, and revoke the ticket of the job."""
        with self._changed:
            self.broken = reason
            self.revoke(pilot)

    # Inside

    def _begin(self, pilot: str, record: _PilotRecord, session: str) -> None:
        if record.session == session:
            return
        if session in record.sessions:
            raise AccessDeniedError("a newer worker has the same ticket")
        record.sessions.add(session)
        if len(record.sessions) > MOST_SESSIONS:
            self.revoke(pilot)
        self._lose(record, WORKER_DIED)
        record.session = session
        self.n_heard += 1

    def _assignment(self, pilot: str, token: str) -> _Assignment:
        record = self._pilots[pilot]
        record.seen_s = self._now_s()
        assignment = record.assignment
        if assignment is None or not hmac.compare_digest(assignment.token, token):
            raise LeaseLostError("the run is not leased to this job any more; stop it")
        return assignment

    def _lose(self, pilot: _PilotRecord, why: str) -> None:
        assignment, pilot.assignment = pilot.assignment, None
        if assignment is not None:
            self._over(ExecutionResult(assignment.work.run_id, None, why, 0.0, lost=True))


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


def lease_as_json(work: ExecutionRequest, token: str) -> dict[str, Any]:
    """Return a leased run as a worker of a service reads it."""
    return {
        "experiment": "slurm", "run": work.run_id, "token": token, "attempt": 1,
        "values": dict(work.values), "seed": work.seed, "limit_s": work.limit_s,
        "lease_s": LEASE_S,
    }  # fmt: skip
