"""The queue of runs: claim, lease, heartbeat, result, each with its journal row in one transaction.

A worker claims the next run and holds it under a token for as long as its lease is renewed. Only
the token of the attempt that goes on may say how the run ended, so a worker that was thought dead
changes nothing when it comes back. A run may therefore be executed more than once; its result is
recorded exactly once.

Leases are counted by a steady clock, which does not jump as the time of day may.

References: Gray & Cheriton 1989, Leases; Kleppmann 2016, How to do distributed locking (tokens that
fence off).

What a worker holds, and what is known of the token that it holds it under.

What workers may have, and how much of it there is.
"""

from __future__ import annotations

import hashlib
import json
import math
import secrets
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from assistant.core.commands import assess_measures
from assistant.core.errors import (
    AssistantError,
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
from assistant.core.ports import Clock, ExecutionResult, SystemClock
from assistant.core.run import measured_s
from assistant.store.event_store import Durability, SqliteStore, StoredReply
from strategies import Configuration, Level


@dataclass(frozen=True, slots=True)
class RunLease:
    """One run that a worker holds.

    Args:
        experiment_id: of the experiment.
        run_id: in it.
        token: the right to say how it ended.
        attempt: how often it has been started, this time included.
        values: levels by parameter.
        seed: of the run.
        limit_s: how long it may take; None is no limit.
        lease_s: seconds until it is taken away, unless a heartbeat comes.
        again: whether it had been given under the same key before.
    """

    experiment_id: str
    run_id: int
    token: str
    attempt: int
    values: Mapping[str, Level]
    seed: int
    limit_s: float | None
    lease_s: float
    again: bool = False


@dataclass(frozen=True, slots=True)
class LeaseAttempt:
    """What is known of a token.

    Args:
        token: of the attempt.
        experiment_id: of the experiment.
        run_id: in it.
        worker: who holds or held it.
        result: digest of the result that was recorded under it; None if none was.
        refused: digest of the result that came too late; None if none did.
        is_current: whether the run goes on under it.
        state: of the run.
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
    """Which experiments are active, and the runs of theirs that go on or may start.

    Args:
        store: with the journals.
        clock: says whether a deadline has passed.
    """

    def __init__(self, store: SqliteStore, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._outside: dict[str, bool] = {}

    def set_active(self, experiment_id: str, active: bool) -> None:
        """Let workers have runs of an experiment, or no more of them."""
        with self._store.transaction("full") as connection:
            changed = connection.execute(
                "UPDATE experiment SET active = ? WHERE id = ?", (int(active), experiment_id)
            )
            if not changed.rowcount:
                raise AssistantError(f"no experiment '{experiment_id}'")

    def is_active(self, experiment_id: str) -> bool:
        """Whether workers may have runs of an experiment."""
        with self._store.errors():
            row = self._store.connection.execute(
                "SELECT active FROM experiment WHERE id = ?", (experiment_id,)
            ).fetchone()
        return bool(row and row[0])

    def active(self) -> tuple[str, ...]:
        """Return the experiments that are not finished and whose runs workers may have."""
        with self._store.errors():
            rows = self._store.connection.execute(
                "SELECT id FROM experiment WHERE active = 1 AND finished = 0 ORDER BY opened_s"
            )
            return tuple(str(name) for (name,) in rows)

    def demand(self) -> dict[str, int]:
        """Return, by experiment, how many runs go on or may start now; nothing else is in it."""
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
        """Return how many runs there are in each state, over all experiments."""
        with self._store.errors():
            rows = self._store.connection.execute("SELECT state, count(*) FROM run GROUP BY state")
            return {str(state): int(n) for state, n in rows}

    def is_outside(self, experiment_id: str) -> bool:
        """Whether the program of an experiment asks for its runs itself. Raises StoreError."""
        is_external = self._outside.get(experiment_id)
        if is_external is None:
            is_external = self._outside[experiment_id] = has_external_client(
                self._store.opened(experiment_id)
            )
        return is_external

    def outside(self) -> list[str]:
        """Return the active experiments whose program asks for its runs itself."""
        return [name for name in self.active() if self.is_outside(name)]

    def why_finished(self, experiment_id: str) -> str | None:
        """Return why an experiment is finished; None if it is not, or there is none."""
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
        """Return when a run was started under a token, in seconds since 1970-01-01 UTC."""
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


MAX_ATTEMPTS = 3
"""Workers that a run may lose; then it has failed, for it may be what kills them."""

LEASES_S = (0.05, 86_400.0)
"""The shortest and the longest lease."""

EXPIRED_AT_ONCE = 100
"""Leases that one claim looks after, so that it is not delayed by many."""


class RunQueue(QueueQueries):
    """Runs of all experiments of a store that may execute.

    Args:
        store: with the journals.
        clock: dates the events.
        steady_s: counts leases, in seconds; never goes back.
        max_attempts: see `MAX_ATTEMPTS`.
        token: makes tokens.
        results: what recording a result waits for; "normal" may lose the last ones if the power
            fails, never if a process is killed.
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
        """Leases that ran out since this queue was made."""
        self._results: Durability = results

    # -- workers -------------------------------------------------------------------------------

    def claim(
        self,
        worker: str,
        lease_s: float,
        experiment_id: str | None = None,
        key: str | None = None,
        without: Collection[str] = (),
    ) -> RunLease | None:
        """Give the next run to a worker; None if nothing may start.

        Of all experiments that are active, not finished and not past their deadline: the highest
        priority first, then the one that was submitted first.

        Args:
            worker: its name, for people.
            lease_s: seconds until the run is taken away from it, unless a heartbeat comes.
            experiment_id: only of this experiment, which must be active too; None is any but those
                whose program asks for its runs itself.
            key: made by the worker for this request alone. Asked again under it, because the
                answer was lost, the same run is given again for as long as it is held.
            without: experiments whose runs this worker does not execute.

        Raises:
            AssistantError: a lease that is not within `LEASES_S`.
            KeyReusedError: the key was used for another request.
            ClaimLostError: the run that was given under the key is not held any more.
            StoreError: it cannot be stored; nothing has been given then.
        """
        _check_lease(lease_s)
        with self._store.transaction("normal"):
            self._expire()
            request = json.dumps(["claim", worker, lease_s, experiment_id, *without])
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
            self._record(name, RunStarted(now_s, run_id, worker, token))
            self._store.connection.execute(
                "INSERT INTO lease VALUES (?, ?, ?)", (token, lease_s, self._steady_s() + lease_s)
            )
            return self._claim(name, run_id, levels, seed, attempts + 1, token, lease_s)

    def heartbeat(self, token: str) -> float:
        """Renew a lease; return its length in seconds.

        Raises:
            UnknownClaimError: no such token was ever given.
            ClaimLostError: the run is not this worker's any more; it shall stop.
        """
        with self._store.transaction("normal") as connection:
            attempt = self._held(token)
            row = connection.execute(
                "SELECT lease_s, until_s FROM lease WHERE token = ?", (token,)
            ).fetchone()
            if row is None or row[1] <= self._steady_s():
                self._lose(attempt)
            else:
                connection.execute(
                    "UPDATE lease SET until_s = ? WHERE token = ?",
                    (self._steady_s() + row[0], token),
                )
                return float(row[0])
        raise LeaseLostError(f"the lease of run {attempt.run_id} has run out; stop it")

    def report(self, token: str, measures: Mapping[str, Measure]) -> None:
        """Keep what a run that goes on has measured so far. Raises as `heartbeat` does."""
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
        """Record how a run ended, once; return whether this was the first time it was told.

        Args:
            token: of the claim.
            measures: what it gave; None if it failed. Numbers that are not finite are unknown.
            failure: why it failed, in a sentence.
            duration_s: how long it took.

        Raises:
            UnknownClaimError: no such token was ever given.
            ClaimLostError: the run is not this worker's any more, or another result was recorded
                under the token; what came is kept as refused.
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

    def give_back(self, token: str, reason: str) -> None:
        """Let a run wait again that its worker cannot end; twice is as good as once.

        Raises:
            UnknownClaimError: no such token was ever given.
        """
        with self._store.transaction("normal"):
            attempt = self._attempt(token)
            if attempt.is_current:
                event = RunReturned(self._clock.now_s(), attempt.run_id, reason)
                self._record(attempt.experiment_id, event)

    def give_back_of(self, worker: str, reason: str) -> int:
        """Let all runs wait again that a worker holds, which was ended; return how many.

        Workers whose name begins with its own and a slash are meant, too.
        """
        with self._store.transaction("normal"):
            tokens = self._held_by(worker)
            for token in tokens:
                attempt = self._attempt(token)
                event = RunReturned(self._clock.now_s(), attempt.run_id, reason)
                self._record(attempt.experiment_id, event)
        return len(tokens)

    def has_worker(self, worker: str) -> bool:
        """Return whether a worker holds a run, or one whose name begins with its and a slash."""
        with self._store.errors():
            return bool(self._held_by(worker))

    # -- looking after it ----------------------------------------------------------------------

    def expire(self) -> int:
        """Take runs away from workers that were not heard of; return how many there were."""
        with self._store.transaction("normal"):
            return self._expire()

    def rearm(self) -> int:
        """Let every lease begin anew, after a time in which nobody could renew it."""
        with self._store.transaction("normal") as connection:
            return connection.execute(
                "UPDATE lease SET until_s = ? + lease_s", (self._steady_s(),)
            ).rowcount

    def attempt(self, token: str) -> LeaseAttempt:
        """Return what is known of a token. Raises UnknownClaimError."""
        with self._store.errors():
            return self._attempt(token)

    def recover(self) -> int:
        """Let runs wait again that go on without a token; return how many there were.

        They were executed in a session's own process. Call it only when that is gone.
        """
        with self._store.transaction("normal") as connection:
            rows = connection.execute(
                "SELECT experiment_id, run_id FROM run WHERE state = 'running' AND token = ''"
            ).fetchall()
            for name, run_id in rows:
                reason = "the process that executed it is gone"
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

    def _claim(
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
        limit_s = self._store.agreement(name).run_limit_s
        return RunLease(name, run_id, token, attempt, values, seed, limit_s, lease_s)

    def _given(self, reply: StoredReply, request: str, lease_s: float) -> RunLease:
        """Return what was given under a key, its lease renewed."""
        if reply.request != request:
            raise IdempotencyKeyReusedError(
                "this key was used for another request; make a new one for each"
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
                "the run that was claimed under this key is not held any more; claim under a new "
                "one"
            )
        run_id, levels, seed, attempts, token = row
        self._store.connection.execute(
            "UPDATE lease SET until_s = ? WHERE token = ?", (self._steady_s() + lease_s, token)
        )
        claim = self._claim(reply.experiment_id, run_id, levels, seed, attempts, token, lease_s)
        return replace(claim, again=True)

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
            self._lose(self._attempt(token))
        return len(rows)

    def _lose(self, attempt: LeaseAttempt) -> None:
        """Take a run from its worker: it waits again, or has failed if it lost too many."""
        if not attempt.is_current:
            return
        self.lost += 1
        now_s, run_id = self._clock.now_s(), attempt.run_id
        (before,) = self._store.connection.execute(
            "SELECT lost FROM run WHERE experiment_id = ? AND run_id = ?",
            (attempt.experiment_id, run_id),
        ).fetchone()
        event: Event = RunReturned(
            now_s, run_id, f"worker {attempt.worker} was not heard of", lost=True
        )
        if before + 1 >= self._max_attempts:
            event = RunFailed(
                now_s, run_id,
                f"{before + 1} workers were lost while they executed it, the last one "
                f"{attempt.worker}; it is not tried again",
                None,
            )  # fmt: skip
        self._record(attempt.experiment_id, event)

    def _record(self, experiment_id: str, event: Event) -> None:
        self._store.insert(experiment_id, self._store.length(experiment_id), [event])

    def _judged(self, attempt: LeaseAttempt, completion: ExecutionResult) -> Event:
        name = attempt.experiment_id
        known_s = measured_s(completion.duration_s)
        if known_s is None:
            return RunFailed(
                self._clock.now_s(), attempt.run_id,
                f"its worker says that it took {completion.duration_s} s, which cannot be", None,
            )  # fmt: skip
        objective, limit_s = self._store.objective(name), self._store.agreement(name).run_limit_s
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
            raise UnknownLeaseError("no run was ever claimed under this token")
        return LeaseAttempt(row[0], row[1], row[2], row[3], row[4], row[5], bool(row[6]), row[7])

    def _held(self, token: str) -> LeaseAttempt:
        attempt = self._attempt(token)
        if not attempt.is_current:
            raise LeaseLostError(f"run {attempt.run_id} {_lost(attempt)}; stop it")
        return attempt


def _check_lease(lease_s: float) -> None:
    low, high = LEASES_S
    if not (math.isfinite(lease_s) and low <= lease_s <= high):
        raise AssistantError(f"a lease lasts {low:g} to {high:,.0f} seconds, not {lease_s}")


def _known(measures: Mapping[str, Measure]) -> Mapping[str, Measure]:
    """Return measures with what no journal can keep as unknown, as executors do."""
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
        return "another result was recorded under this claim"
    return f"the run {_lost(attempt)}"
