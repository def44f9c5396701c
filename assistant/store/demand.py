"""What workers may have, and how much of it there is."""

from __future__ import annotations

from assistant.errors import AssistantError
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
