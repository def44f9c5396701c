"""Queue of runs: workers lease runs, renew leases and report results, each in one transaction.

A worker leases the next run and holds it under a fencing token while it renews the lease. Only
the token of the current attempt may report the end, so a worker that returns late changes
nothing. A run may be executed more than once; its result is recorded exactly once. Leases use a
monotonic clock, because the time of day may jump.
References: Gray & Cheriton 1989, Leases; Kleppmann 2016, How to do distributed locking (fencing
tokens).
"""

from __future__ import annotations

import hashlib
import json
import math
import secrets
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from assistant.core.errors import (
    AssistantError,
    DamagedEventError,
    IdempotencyKeyReusedError,
    LeaseLostError,
    UnknownLeaseError,
)
from assistant.core.events import (
    Event,
    ResultRefused,
    RunFailed,
    RunReported,
    RunReturned,
    RunStarted,
    has_external_client,
)
from assistant.core.objective import Measure, finite
from assistant.core.ports import Clock, ExecutionResult, RunLease, SystemClock
from assistant.core.run import measured_s
from assistant.core.submission import MAX_ATTEMPTS, assess_loss, assess_measures
from assistant.store.event_store import Durability, SqliteStore, StoredReply
from strategies import Configuration


@dataclass(frozen=True, slots=True)
class LeaseAttempt:
    """Attempt of a worker to execute a run, identified by its lease token.

    ``result`` is the digest of its recorded result, ``refused`` that of a late one; None if there
    is none. ``is_current`` says whether the run is running under this token.
    """

    token: str
    experiment_id: str
    run_id: int
    worker: str
    result: str | None
    refused: str | None
    is_current: bool
    state: str


class QueueQueries:
    """Queries on the queue: active experiments, and their waiting and running runs."""

    def __init__(self, store: SqliteStore, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._external: dict[str, bool] = {}

    def set_active(self, experiment_id: str, active: bool) -> None:
        """Allow or forbid leases of an experiment's runs; raise AssistantError if unknown."""
        with self._store.transaction("full") as connection:
            changed = connection.execute(
                "UPDATE experiment SET active = ? WHERE id = ?", (int(active), experiment_id)
            )
            if not changed.rowcount:
                raise AssistantError(f"no experiment '{experiment_id}'")

    def is_active(self, experiment_id: str) -> bool:
        """Return whether workers may lease runs of an experiment."""
        with self._store.errors():
            row = self._store.connection.execute(
                "SELECT active FROM experiment WHERE id = ?", (experiment_id,)
            ).fetchone()
        return bool(row and row[0])

    def active(self) -> tuple[str, ...]:
        """Return the active experiments that are not finished, the oldest first."""
        with self._store.errors():
            rows = self._store.connection.execute(
                "SELECT id FROM experiment WHERE active = 1 AND finished = 0 ORDER BY opened_s"
            )
            return tuple(str(name) for (name,) in rows)

    def demand(self) -> dict[str, int]:
        """Return the number of running and startable runs of each active experiment."""
        with self._store.errors():
            rows = self._store.connection.execute(
                """
                SELECT r.experiment_id, count(*)
                FROM experiment AS e JOIN run AS r ON r.experiment_id = e.id
                WHERE e.active = 1 AND e.finished = 0
                AND (e.deadline_s IS NULL OR e.deadline_s > ?)
                AND (r.state = 'running' OR (r.state = 'queued' AND r.held = 0))
                GROUP BY r.experiment_id
                """,
                (self._clock.now_s(),),
            )
            return {str(name): int(n) for name, n in rows}

    def depth(self) -> dict[str, int]:
        """Return the number of runs in each state, over all experiments."""
        with self._store.errors():
            rows = self._store.connection.execute("SELECT state, count(*) FROM run GROUP BY state")
            return {str(state): int(n) for state, n in rows}

    def is_external(self, experiment_id: str) -> bool:
        """Return whether an external client, not a worker, requests an experiment's runs."""
        is_external = self._external.get(experiment_id)
        if is_external is None:
            is_external = self._external[experiment_id] = has_external_client(
                self._store.opened(experiment_id)
            )
        return is_external

    def outside(self) -> list[str]:
        """Return the active experiments whose runs no worker gets: external and damaged ones."""
        return [name for name in self.active() if not self._may_be_leased(name)]

    def _may_be_leased(self, experiment_id: str) -> bool:
        try:
            return not self.is_external(experiment_id)
        except DamagedEventError:
            return False

    def why_finished(self, experiment_id: str) -> str | None:
        """Return the reason why an experiment is finished; None if it is not."""
        with self._store.errors():
            row = self._store.connection.execute(
                """
                SELECT body ->> 'reason' FROM experiment AS x JOIN event AS e
                ON e.experiment_id = x.id
                WHERE x.id = ? AND x.finished = 1 AND body ->> 'type' = 'ExperimentFinished'
                ORDER BY e.position DESC LIMIT 1
                """,
                (experiment_id,),
            ).fetchone()
        return None if row is None else str(row[0])

    def started_s(self, experiment_id: str, token: str) -> float | None:
        """Return the start time of a leased run (s since 1970-01-01 UTC); None if unknown."""
        with self._store.errors():
            row = self._store.connection.execute(
                """
                SELECT body ->> 'at_s' FROM event
                WHERE experiment_id = ? AND body ->> 'type' = 'RunStarted'
                AND body ->> 'token' = ?
                ORDER BY position DESC LIMIT 1
                """,
                (experiment_id, token),
            ).fetchone()
        return None if row is None else float(row[0])


LEASES_S = (0.05, 86_400.0)

EXPIRED_AT_ONCE = 100
"""Expired leases that one lease request handles, so that it is not delayed by many."""


class RunQueue(QueueQueries):
    """Queue from which workers lease the runs of all experiments in a store.

    Args:
        steady_s: monotonic clock of the leases, in seconds.
        max_attempts: see `MAX_ATTEMPTS`.
        results: durability of results; "normal" may lose the last ones if the power fails, never
            if a process is killed.
    """

    def __init__(
        self,
        store: SqliteStore,
        clock: Clock | None = None,
        steady_s: Callable[[], float] = time.monotonic,
        max_attempts: int = MAX_ATTEMPTS,
        token: Callable[[], str] = lambda: secrets.token_hex(16),
        results: Durability = "full",
    ) -> None:
        super().__init__(store, clock or SystemClock())
        self._steady_s = steady_s
        self._max_attempts = max_attempts
        self._token = token
        self.lost = 0
        """Leases that expired since this queue was made."""
        self._results: Durability = results

    # -- workers -------------------------------------------------------------------------------

    def lease(
        self,
        worker: str,
        lease_s: float,
        experiment_id: str | None = None,
        key: str | None = None,
        without: Collection[str] = (),
    ) -> RunLease | None:
        """Lease the next run to a worker and return the lease; None if no run may start.

        The run is chosen over all active, unfinished experiments before their deadline: the highest
        priority first, then the earliest.

        Args:
            worker: name of the worker.
            lease_s: length of the lease in seconds, without a heartbeat.
            experiment_id: active experiment to lease from; None for all without an external client.
            key: idempotency key; a repeated request with it returns the same run while it is
                leased.
            without: experiments that this worker does not execute.

        Raises:
            AssistantError: a lease that is not within `LEASES_S`.
            IdempotencyKeyReusedError: the key was used for another request.
            LeaseLostError: the run leased under the key is not leased any more.
            StoreError: it cannot be stored; no run is leased then.
        """
        _check_lease(lease_s)
        damaged: list[str] = []
        request = json.dumps(["claim", worker, lease_s, experiment_id, *without])
        while True:
            try:
                with self._store.transaction("normal"):
                    return self._leased(
                        worker, lease_s, experiment_id, key, request, [*without, *damaged]
                    )
            except _DamagedExperimentError as error:  # the others have runs too
                if experiment_id is not None:
                    raise error.cause from None
                damaged.append(error.experiment_id)

    def _leased(
        self,
        worker: str,
        lease_s: float,
        experiment_id: str | None,
        key: str | None,
        request: str,
        without: Collection[str],
    ) -> RunLease | None:
        self._expire()
        earlier_reply = None if key is None else self._store.reply(key)
        if earlier_reply is not None:
            return self._given(earlier_reply, request, lease_s)
        next_run = self._next(experiment_id, without)
        if next_run is None:
            return None
        name, run_id, levels, seed, attempts = next_run
        token, now_s = self._token(), self._clock.now_s()
        if key is not None:
            reply = StoredReply(request, name, self._store.length(name), 1)
            self._store.remember(key, reply, now_s)
        try:
            self._record(name, RunStarted(now_s, run_id, worker, token))
            self._store.connection.execute(
                "INSERT INTO lease VALUES (?, ?, ?)", (token, lease_s, self._steady_s() + lease_s)
            )
            return self._lease(name, run_id, levels, seed, attempts + 1, token, lease_s)
        except DamagedEventError as error:
            raise _DamagedExperimentError(name, error) from error

    def heartbeat(self, token: str) -> float:
        """Renew a lease, and return its length in seconds.

        Raises:
            UnknownLeaseError: the token was never issued.
            LeaseLostError: the lease has ended; the worker must stop the run.
        """
        with self._store.transaction("normal") as connection:
            attempt = self._held(token)
            row = connection.execute(
                "SELECT lease_s, until_s FROM lease WHERE token = ?", (token,)
            ).fetchone()
            if row is None or row[1] <= self._steady_s():
                self._expired(attempt)
            else:
                connection.execute(
                    "UPDATE lease SET until_s = ? WHERE token = ?",
                    (self._steady_s() + row[0], token),
                )
                return float(row[0])
        raise LeaseLostError(f"the lease of run {attempt.run_id} has expired; stop it")

    def report(self, token: str, measures: Mapping[str, Measure]) -> None:
        """Record an intermediate result of a leased run, or raise LeaseLostError."""
        with self._store.transaction("normal"):
            attempt = self._held(token)
            event = RunReported(self._clock.now_s(), attempt.run_id, _known(measures))
            self._record(attempt.experiment_id, event)

    def complete(
        self,
        token: str,
        measures: Mapping[str, Measure] | None,
        failure: str | None,
        duration_s: float,
    ) -> bool:
        """Record the end of a leased run; return False if it was recorded before.

        ``measures`` is None if it failed, for the reason ``failure``; numbers that are not finite
        become unknown.

        Raises:
            UnknownLeaseError: the token was never issued.
            LeaseLostError: the lease has ended, or another result was recorded under the token;
                this
                one is recorded as refused.
        """
        measures = None if measures is None else _known(measures)
        digest = _digest(measures, failure)
        with self._store.transaction(self._results) as connection:
            attempt = self._attempt(token)
            if attempt.result == digest:
                return False
            if attempt.is_current:
                completion = ExecutionResult(attempt.run_id, measures, failure, duration_s)
                self._record(attempt.experiment_id, self._judged(attempt, completion))
                connection.execute("UPDATE attempt SET result = ? WHERE token = ?", (digest, token))
                return True
            why = _why_refused(attempt)
            if attempt.refused != digest:
                refused = ResultRefused(
                    self._clock.now_s(), attempt.run_id, attempt.worker, token, why, measures
                )
                self._record(attempt.experiment_id, refused)
                connection.execute(
                    "UPDATE attempt SET refused = ? WHERE token = ?", (digest, token)
                )
        raise LeaseLostError(f"the result of run {attempt.run_id} is refused: {why}")

    def give_back(self, token: str, reason: str, *, lost: bool = False) -> None:
        """Requeue a leased run that its worker cannot finish, or raise UnknownLeaseError.

        ``lost`` says that the process that executed it has died; see `assess_loss`.
        """
        with self._store.transaction("normal"):
            attempt = self._attempt(token)
            if lost:
                self._lose(attempt, reason)
                return
            if attempt.is_current:
                event = RunReturned(self._clock.now_s(), attempt.run_id, reason)
                self._record(attempt.experiment_id, event)

    def give_back_of(self, worker: str, reason: str) -> int:
        """Requeue all runs leased by a worker or by ``<worker>/...``; return their number."""
        with self._store.transaction("normal"):
            tokens = self._held_by(worker)
            for token in tokens:
                attempt = self._attempt(token)
                event = RunReturned(self._clock.now_s(), attempt.run_id, reason)
                self._record(attempt.experiment_id, event)
        return len(tokens)

    def has_worker(self, worker: str) -> bool:
        """Return whether a worker named ``worker`` or ``<worker>/...`` holds a lease."""
        with self._store.errors():
            return bool(self._held_by(worker))

    # -- maintenance ----------------------------------------------------------------------------

    def expire(self) -> int:
        """End up to 100 expired leases, requeue or fail their runs, and return their number."""
        with self._store.transaction("normal"):
            return self._expire()

    def rearm(self) -> int:
        """Restart the time of all leases after a service pause; return the number of leases."""
        with self._store.transaction("normal") as connection:
            return connection.execute(
                "UPDATE lease SET until_s = ? + lease_s", (self._steady_s(),)
            ).rowcount

    def attempt(self, token: str) -> LeaseAttempt:
        """Return the attempt that a lease token identifies, or raise UnknownLeaseError."""
        with self._store.errors():
            return self._attempt(token)

    def recover(self) -> int:
        """Requeue the running runs without a lease, and return their number.

        A session's own process executed them. Call it only when that process is gone.
        """
        with self._store.transaction("normal") as connection:
            rows = connection.execute(
                "SELECT experiment_id, run_id FROM run WHERE state = 'running' AND token = ''"
            ).fetchall()
            for name, run_id in rows:
                reason = "the process that executed it has ended"
                self._record(name, RunReturned(self._clock.now_s(), run_id, reason))
        return len(rows)

    # -- within a transaction ------------------------------------------------------------------

    def _held_by(self, worker: str) -> list[str]:
        rows = self._store.connection.execute(
            "SELECT token FROM lease JOIN attempt USING (token)"
            " WHERE worker = :name OR substr(worker, 1, length(:name) + 1) = :name || '/'",
            {"name": worker},
        )
        return [token for (token,) in rows]

    def _lease(
        self,
        name: str,
        run_id: int,
        levels: str,
        seed: int,
        attempt: int,
        token: str,
        lease_s: float,
    ) -> RunLease:
        space = self._store.space(name)
        values = space.values(Configuration(tuple(json.loads(levels)), space.lineage))
        limit_s = self._store.sla(name).run_limit_s
        return RunLease(name, run_id, token, attempt, values, seed, limit_s, lease_s)

    def _given(self, reply: StoredReply, request: str, lease_s: float) -> RunLease:
        """Return the run leased under an idempotency key, with its lease renewed."""
        if reply.request != request:
            raise IdempotencyKeyReusedError(
                "this key was used for another request; use a new key for each request"
            )
        row = self._store.connection.execute(
            """
            SELECT r.run_id, r.levels, r.seed, r.attempts, r.token
            FROM event AS e JOIN run AS r ON r.experiment_id = e.experiment_id
                AND r.run_id = e.body ->> 'run_id' AND r.token = e.body ->> 'token'
                AND r.state = 'running'
            WHERE e.experiment_id = ? AND e.position = ?
            """,
            (reply.experiment_id, reply.first),
        ).fetchone()
        if row is None:
            raise LeaseLostError(
                "the run leased under this key is not leased any more; request a run with a new key"
            )
        run_id, levels, seed, attempts, token = row
        self._store.connection.execute(
            "UPDATE lease SET until_s = ? WHERE token = ?", (self._steady_s() + lease_s, token)
        )
        lease = self._lease(reply.experiment_id, run_id, levels, seed, attempts, token, lease_s)
        return replace(lease, again=True)

    def _next(
        self, experiment_id: str | None, without: Collection[str]
    ) -> tuple[str, int, str, int, int] | None:
        if experiment_id is None:
            without = [*without, *self.outside()]
        conditions = "" if experiment_id is None else " AND e.id = :only"
        if without:
            conditions += " AND e.id NOT IN (SELECT value FROM json_each(:without))"
        row = self._store.connection.execute(
            f"""
            SELECT r.experiment_id, r.run_id, r.levels, r.seed, r.attempts
            FROM experiment AS e JOIN run AS r ON r.seq = (
                SELECT seq FROM run INDEXED BY ready
                WHERE experiment_id = e.id AND state = 'queued' AND held = 0
                ORDER BY priority DESC, seq LIMIT 1
            )
            WHERE e.active = 1 AND e.finished = 0
            AND (e.deadline_s IS NULL OR e.deadline_s > :now_s){conditions}
            ORDER BY r.priority DESC, r.seq LIMIT 1
            """,  # noqa: S608 - literals
            {
                "now_s": self._clock.now_s(),
                "only": experiment_id,
                "without": json.dumps(list(without)),
            },
        ).fetchone()
        return None if row is None else tuple(row)

    def _expire(self) -> int:
        rows = self._store.connection.execute(
            "SELECT token FROM lease WHERE until_s <= ? ORDER BY until_s LIMIT ?",
            (self._steady_s(), EXPIRED_AT_ONCE),
        ).fetchall()
        for (token,) in rows:
            self._expired(self._attempt(token))
        return len(rows)

    def _expired(self, attempt: LeaseAttempt) -> None:
        self._lose(attempt, f"worker {attempt.worker} did not renew its lease")

    def _lose(self, attempt: LeaseAttempt, reason: str) -> None:
        """Take a run from its worker: it waits again, or has failed if it lost too many workers."""
        if not attempt.is_current:
            return
        self.lost += 1
        now_s, run_id = self._clock.now_s(), attempt.run_id
        (before,) = self._store.connection.execute(
            "SELECT lost FROM run WHERE experiment_id = ? AND run_id = ?",
            (attempt.experiment_id, run_id),
        ).fetchone()
        event = assess_loss(run_id, before + 1, reason, now_s, self._max_attempts)
        self._record(attempt.experiment_id, event)

    def _record(self, experiment_id: str, event: Event) -> None:
        self._store.insert(experiment_id, self._store.length(experiment_id), [event])

    def _judged(self, attempt: LeaseAttempt, completion: ExecutionResult) -> Event:
        name = attempt.experiment_id
        known_s = measured_s(completion.duration_s)
        if known_s is None:
            return RunFailed(
                self._clock.now_s(), attempt.run_id,
                f"its worker reported an impossible duration of {completion.duration_s} s", None,
            )  # fmt: skip
        objective, limit_s = self._store.objective(name), self._store.sla(name).run_limit_s
        return assess_measures(objective, limit_s, completion, self._clock.now_s())

    def _attempt(self, token: str) -> LeaseAttempt:
        row = self._store.connection.execute(
            """
            SELECT a.token, a.experiment_id, a.run_id, a.worker, a.result, a.refused,
                r.token = a.token AND r.state = 'running', r.state
            FROM attempt AS a JOIN run AS r
            ON r.experiment_id = a.experiment_id AND r.run_id = a.run_id
            WHERE a.token = ?
            """,
            (token,),
        ).fetchone()
        if row is None:
            raise UnknownLeaseError("no run was ever leased under this token")
        return LeaseAttempt(row[0], row[1], row[2], row[3], row[4], row[5], bool(row[6]), row[7])

    def _held(self, token: str) -> LeaseAttempt:
        attempt = self._attempt(token)
        if not attempt.is_current:
            raise LeaseLostError(f"run {attempt.run_id} {_lost(attempt)}; stop it")
        return attempt


class _DamagedExperimentError(Exception):
    """The experiment of the next run cannot be read; its transaction is rolled back."""

    def __init__(self, experiment_id: str, cause: DamagedEventError) -> None:
        super().__init__(str(cause))
        self.experiment_id, self.cause = experiment_id, cause


def _check_lease(lease_s: float) -> None:
    low, high = LEASES_S
    if not (math.isfinite(lease_s) and low <= lease_s <= high):
        raise AssistantError(f"a lease lasts {low:g} to {high:,.0f} seconds, not {lease_s}")


def _known(measures: Mapping[str, Measure]) -> Mapping[str, Measure]:
    return {name: finite(value) for name, value in measures.items()}


def _digest(measures: Mapping[str, Measure] | None, failure: str | None) -> str:
    text = json.dumps([measures, failure], sort_keys=True, default=list)
    return hashlib.sha256(text.encode()).hexdigest()


def _lost(attempt: LeaseAttempt) -> str:
    if attempt.state == "running":
        return "was given to another worker"
    return "waits again" if attempt.state == "queued" else f"is {attempt.state}"


def _why_refused(attempt: LeaseAttempt) -> str:
    if attempt.result is not None:
        return "another result was recorded under this lease"
    return f"the run {_lost(attempt)}"
