"""A store with experiments whose runs wait, and clocks that are moved by hand."""

from dataclasses import dataclass
from itertools import count
from pathlib import Path

from assistant import Session, Sla, open_session
from assistant.store.event_store import SqliteStore
from assistant.store.queue import RunQueue
from tests.assistant.examples import Hills


@dataclass
class HandClock:
    """A time of day and a steady time, both moved by hand."""

    wall_s: float = 1_000_000.0
    steady: float = 500.0

    def now_s(self) -> float:
        return self.wall_s

    def steady_s(self) -> float:
        return self.steady

    def wait(self, seconds: float) -> None:
        self.wall_s += seconds
        self.steady += seconds


def queue_of(store: SqliteStore, clock: HandClock, **more: int) -> RunQueue:
    """Return a queue whose tokens are numbered, so that a failing test can be read."""
    numbers = count(1)
    return RunQueue(store, clock, clock.steady_s, token=lambda: f"token-{next(numbers)}", **more)


def with_runs(
    store: SqliteStore, clock: HandClock, n: int = 5, name: str = "hills", **more: object
) -> Session:
    """Open an experiment with ``n`` runs that wait, and let workers have them."""
    session = open_session(
        Hills(), store=store, clock=clock, sla=Sla(100), strategy="random", experiment_id=name,
        **more,  # type: ignore[arg-type]
    )  # fmt: skip
    if n:
        session.submit(session.suggest(n))
    queue_of(store, clock).set_active(name, True)
    return session


def store_at(folder: Path) -> SqliteStore:
    return SqliteStore(folder / "store.db")
