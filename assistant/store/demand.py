"""What workers may have, and how much of it there is."""

from __future__ import annotations

from assistant.errors import AssistantError
from assistant.outside import asks_for_runs
from assistant.ports import Clock
from assistant.store.sqlite import SqliteStore


class Demand:
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
        known = self._outside.get(experiment_id)
        if known is None:
            known = self._outside[experiment_id] = asks_for_runs(self._store.opened(experiment_id))
        return known

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
