"""A jump of the time of day uses up no deadline while a process runs; a new process reads it."""

import time

import pytest

from agents import Follower
from assistant import Sla, open_session
from assistant.core.ports import SteadyClock, SystemClock
from assistant.executors.serial import SerialExecutor
from assistant.session.opening import load_session
from assistant.store.event_store import MemoryStore, SqliteStore
from assistant.store.queue import RunQueue
from tests.assistant.examples import Bowl
from tests.queue.examples import HandClock

HOUR_S = 3600.0


def set_clock(patch: pytest.MonkeyPatch, later_s: float) -> None:
    """Set the time of day of this process, as somebody may set that of the machine."""
    real = time.time
    patch.setattr("time.time", lambda: real() + later_s)


@pytest.mark.parametrize("later_s", [HOUR_S, -HOUR_S])
def test_the_clock_of_a_process_counts_on(monkeypatch: pytest.MonkeyPatch, later_s: float) -> None:
    before_s = SystemClock().now_s()
    assert before_s == pytest.approx(time.time(), abs=60)
    set_clock(monkeypatch, later_s)
    assert 0 <= SystemClock().now_s() - before_s < 60


@pytest.mark.parametrize("later_s", [HOUR_S, -HOUR_S])
def test_a_sweep_under_way_keeps_its_deadline(
    monkeypatch: pytest.MonkeyPatch, later_s: float
) -> None:
    bowl, now_s = Bowl(), SystemClock().now_s()
    sla = Sla(max_runs=6, deadline_s=now_s + 1800.0)
    session = open_session(bowl, store=MemoryStore(), sla=sla, strategy="random")
    session.submit(session.suggest(2))
    session.run_queued(SerialExecutor(bowl))
    set_clock(monkeypatch, later_s)
    assert session.passed_limit() is None
    Follower(2).steer(session, SerialExecutor(bowl))
    assert session.experiment.n_ended == 6
    times = [event.at_s for event in session.events()]
    assert times == sorted(times)


def test_a_queue_under_way_keeps_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    store = SqliteStore()
    sla = Sla(max_runs=6, deadline_s=SystemClock().now_s() + 1800.0)
    session = open_session(Bowl(), store=store, sla=sla, strategy="random", experiment_id="e")
    session.submit(session.suggest(2))
    queue = RunQueue(store)
    queue.set_active("e", True)
    set_clock(monkeypatch, HOUR_S)
    assert queue.lease("worker", 30.0) is not None
    assert queue.demand() == {"e": 2}


def test_the_time_of_day_counts_over_a_restart() -> None:
    hand = HandClock()
    store, sla = MemoryStore(), Sla(max_runs=6, deadline_s=hand.wall_s + 1800.0)
    first = SteadyClock(hand.now_s, hand.steady_s)
    session = open_session(Bowl(), store=store, sla=sla, clock=first, experiment_id="e")
    hand.wall_s += HOUR_S
    assert session.passed_limit() is None
    again = load_session(store, "e", clock=SteadyClock(hand.now_s, hand.steady_s))
    assert again.passed_limit() is not None
    hand.steady += 1800.0
    assert session.passed_limit() is not None
