"""A history that touches every promise of the queue once, and what is done after it broke off.

Whoever plays it is told what was acknowledged, as a client would note it: after the call returned.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from assistant import Session, Sla, load_session, open_session
from assistant.core.errors import LeaseLostError, UnknownLeaseError
from assistant.core.events import Event
from assistant.core.ports import RunLease
from assistant.core.run import RunState
from assistant.store.event_store import MemoryStore, SqliteStore
from assistant.store.queue import RunQueue
from tests.assistant.examples import Hills
from tests.queue.examples import HandClock

LEASE_S = 30.0

Ack = dict[str, Any]
Step = Callable[["World"], None]


def measured(lease: RunLease) -> dict[str, float]:
    return {name: float(value) for name, value in Hills().evaluate(lease.values, 0).items()}


@cache
def opening(name: str) -> Event:
    """Return the opening of an experiment, made once: looking for strategies takes a while."""
    session = open_session(
        Hills(), store=MemoryStore(), clock=HandClock(), sla=Sla(50), strategy="random",
        experiment_id=name,
    )  # fmt: skip
    return session.experiment.opened


@dataclass
class World:
    """A store with its sessions and its queue, and who holds what.

    Args:
        path: of the file.
        tell: told of each acknowledgement.
    """

    path: Path
    tell: Callable[[Ack], object]
    clock: HandClock = field(default_factory=HandClock)
    sessions: dict[str, Session] = field(default_factory=dict)
    leases: dict[str, RunLease] = field(default_factory=dict)
    n_tokens: int = 0

    def open(self) -> None:
        self.store = SqliteStore(self.path)
        self.queue = RunQueue(self.store, self.clock, self.clock.steady_s, token=self._token)

    def _token(self) -> str:
        self.n_tokens += 1
        return f"{self.clock.steady:.0f}-{self.n_tokens}"

    def told(self, kind: str, name: str, run_id: int, **more: Any) -> None:
        self.tell({"told": kind, "experiment": name, "run": run_id, **more})

    def begin(self, name: str) -> None:
        if not self.store.length(name):  # else only the answer was lost
            self.store.append(name, 0, [opening(name)])
        self.sessions[name] = load_session(self.store, name, clock=self.clock)

    def include(self, name: str, **levels: int) -> None:
        values = {**dict.fromkeys("abcde", 0), "mode": "good", **levels}
        run = self.sessions[name].include(values)
        self.told("submitted", name, run.id, seed=run.seed)

    def activate(self, name: str, active: bool) -> None:
        for kind in ("asked", "active"):
            self.tell({"told": kind, "experiment": name, "active": active})
            if kind == "asked":
                self.queue.set_active(name, active)

    def lease(self, key: str, only: str | None = None) -> None:
        lease = self.queue.lease(key, LEASE_S, only)
        assert lease is not None
        self.leases[key] = lease
        self.told("claimed", lease.experiment_id, lease.run_id, token=lease.token, worker=key)

    def report(self, key: str) -> None:
        lease, measures = self.leases[key], {"height": 99.0}
        self.queue.report(lease.token, measures)
        self.told("reported", lease.experiment_id, lease.run_id, measures=measures)

    def complete(self, key: str, height: float | None = None) -> None:
        """Tell a result; a client that is refused goes on with the next run."""
        lease = self.leases[key]
        measures = measured(lease) if height is None else {"height": height}
        try:
            if self.queue.complete(lease.token, measures, None, 1.5):
                self.told("completed", lease.experiment_id, lease.run_id, measures=measures)
        except LeaseLostError:
            self.told("refused", lease.experiment_id, lease.run_id, token=lease.token)

    def fail(self, key: str) -> None:
        lease = self.leases[key]
        self.queue.complete(lease.token, None, "it ended with exit code 1", 0.5)
        self.told("failed", lease.experiment_id, lease.run_id)

    def give_back(self, key: str) -> None:
        lease = self.leases[key]
        self.queue.give_back(lease.token, "going home")
        self.told("returned", lease.experiment_id, lease.run_id)

    def prioritise(self, run_id: int, priority: float) -> None:
        self.sessions["hills"].reprioritise(run_id, priority)
        self.told("prioritised", "hills", run_id, priority=priority)

    def hold(self, run_id: int) -> None:
        self.sessions["hills"].hold(run_id)
        self.told("held", "hills", run_id)

    def release(self, run_id: int) -> None:
        self.sessions["hills"].release(run_id)
        self.told("released", "hills", run_id)

    def cancel(self, run_id: int) -> None:
        self.sessions["hills"].cancel(run_id, "not wanted")
        self.told("cancelled", "hills", run_id, reason="not wanted")

    def stop(self, run_id: int) -> None:
        self.sessions["hills"].stop(run_id, "enough seen")
        self.told("stopped", "hills", run_id, measures={"height": 99.0})

    def rate(self, run_id: int, good: bool) -> None:
        self.sessions["hills"].rate(run_id, good)
        self.told("rated", "hills", run_id, good=good)


def steps() -> Iterator[tuple[str, Step]]:
    """Yield the history, a call each; a call that was refused by the medium can be made again."""
    yield "open the store", lambda w: w.open()
    yield "open an experiment", lambda w: w.begin("hills")
    for level in range(5):
        yield "submit", lambda w, a=level: w.include("hills", a=a)
    yield "activate", lambda w: w.activate("hills", True)
    yield "claim run 1", lambda w: w.lease("ann")
    yield "heartbeat", lambda w: w.queue.heartbeat(w.leases["ann"].token)
    yield "report", lambda w: w.report("ann")
    yield "prioritise", lambda w: w.prioritise(3, 2.0)
    yield "prioritise again", lambda w: w.prioritise(3, 5.0)
    yield "hold", lambda w: w.hold(2)
    yield "claim run 3", lambda w: w.lease("bob")
    yield "complete", lambda w: w.complete("ann")
    yield "complete the same", lambda w: w.complete("ann")
    yield "complete another", lambda w: w.complete("ann", 1.0)
    yield "rate", lambda w: w.rate(1, True)
    yield "time passes", lambda w: w.clock.wait(LEASE_S)
    yield "claim what expired", lambda w: w.lease("cyd")
    yield "complete late", lambda w: w.complete("bob")
    yield "give back", lambda w: w.give_back("cyd")
    yield "prioritise what came back", lambda w: w.prioritise(3, -1.0)
    yield "release", lambda w: w.release(2)
    yield "cancel a waiting one", lambda w: w.cancel(4)
    yield "claim run 2", lambda w: w.lease("dan")
    yield "cancel a running one", lambda w: w.cancel(2)
    yield "complete a cancelled one", lambda w: w.complete("dan")
    yield "close a level", lambda w: w.sessions["hills"].close_level("a", 4)
    yield "change the budget", lambda w: w.sessions["hills"].change_budget(Sla(40, deadline_s=2e6))
    yield "open another experiment", lambda w: w.begin("more")
    yield "submit there", lambda w: w.include("more", b=1)
    yield "activate there", lambda w: w.activate("more", True)
    for _ in range(3):
        yield "claim what kills", lambda w: w.lease("eve", "more")
        yield "time passes", lambda w: w.clock.wait(LEASE_S)
    yield "expire", lambda w: w.queue.expire()
    yield "claim run 5", lambda w: w.lease("fay")
    yield "fail", lambda w: w.fail("fay")
    yield "claim run 3 again", lambda w: w.lease("gus")
    yield "rearm", lambda w: w.queue.rearm()
    yield "pause", lambda w: w.activate("hills", False)
    yield "finish", lambda w: w.sessions["hills"].finish("enough")
    yield "complete in what is finished", lambda w: w.complete("gus")
    yield "reopen", lambda w: w.sessions["hills"].reopen()
    yield "submit once more", lambda w: w.include("hills", c=3)
    yield "activate again", lambda w: w.activate("hills", True)
    yield "claim run 6", lambda w: w.lease("hal", "hills")
    yield "report of it", lambda w: w.report("hal")
    yield "stop and keep it", lambda w: w.stop(6)
    yield "complete what was stopped", lambda w: w.complete("hal")
    yield "submit at last", lambda w: w.include("hills", c=4)


def play(world: World) -> None:
    """Play it from its beginning to its end."""
    for _, step in steps():
        step(world)


def finish(path: Path, leases: dict[str, RunLease] | None = None) -> int:
    """Start anew on a file that was left behind, end all that is in it; return how many runs.

    Workers that live on tell again what they had not heard an answer to.
    """
    world = World(path, lambda _ack: None, HandClock(2_000_000.0 - 100.0, 3.0))
    world.open()
    queue = world.queue
    queue.rearm()
    for lease in (leases or {}).values():
        for _ in range(2):
            try:
                queue.complete(lease.token, measured(lease), None, 1.5)
            except (LeaseLostError, UnknownLeaseError):
                continue
    n_runs = 0
    for stored in world.store.experiments():
        session = load_session(world.store, stored.id, clock=world.clock)
        if session.experiment.finished is not None:
            session.reopen()
        queue.set_active(stored.id, True)
        for run in session.experiment.runs_in(RunState.QUEUED):
            session.release(run.id)
        n_runs += len(session.experiment.runs)
    for _ in range(3):
        while (lease := queue.lease("last", LEASE_S)) is not None:
            assert queue.complete(lease.token, measured(lease), None, 1.0)
        world.clock.wait(LEASE_S)
    world.store.close()
    return n_runs
