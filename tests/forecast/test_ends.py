"""When a queue is over, where every duration is the same but for the smoothing."""

import pytest

from assistant import Session, Sla, open_session
from assistant.analysis.remaining_runs import MOST_WAITING, queue_ends
from assistant.core.events import RunCompleted, RunStarted
from assistant.core.run import Outcome
from assistant.store.event_store import MemoryStore
from tests.assistant.examples import Hills, TickingClock


def queued(over: int, going: int, waiting: int, workers: int = 2) -> Session:
    session = open_session(
        Hills(), store=MemoryStore(), sla=Sla(run_limit_s=100.0), clock=TickingClock(), seed=3,
        workers=workers,
    )  # fmt: skip
    for i in range(over + going + waiting):
        session.include({n: i // 5**k % 5 for k, n in enumerate("abcde")} | {"mode": "good"})
    for run_id in range(1, over + going + 1):
        session.take([RunStarted(0.0, run_id)])
    for run_id in range(1, over + 1):
        outcome = Outcome({"height": 1.0}, 1.0, -1.0, True, 0.0)
        session.take([RunCompleted(60.0, run_id, outcome, 60.0)])
    return session


def test_nothing_is_known_before_a_run_ended() -> None:
    ends = queue_ends(queued(0, 1, 2).experiment, 10.0)
    assert ends.going == {}
    assert ends.over is None


def test_nothing_goes_on_or_waits() -> None:
    assert queue_ends(queued(3, 0, 0).experiment, 10.0).over is None


def test_a_run_ends_a_duration_after_it_began() -> None:
    experiment = queued(20, 2, 0).experiment
    ends = queue_ends(experiment, 40.0)
    assert set(ends.going) == {21, 22}
    for found in ends.going.values():
        assert found.low is not None
        assert found.median == pytest.approx(20.0, rel=0.25)
        assert found.high is not None
        assert found.low < 20.0 < found.high <= 60.0, "the run limit of 100 s ends it"
    assert queue_ends(experiment, 40.0) == ends, "the same draws every time"


def test_what_waits_is_over_after_its_share_of_the_workers() -> None:
    two = queue_ends(queued(20, 0, 10, workers=2).experiment, 0.0).over
    five = queue_ends(queued(20, 0, 10, workers=5).experiment, 0.0).over
    assert two is not None
    assert two.median == pytest.approx(300.0, rel=0.15)
    assert five is not None
    assert five.median == pytest.approx(120.0, rel=0.3)


def test_held_runs_are_not_waited_for_and_too_many_are_not_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    session = queued(5, 0, 2)
    session.hold(6)
    session.hold(7)
    assert queue_ends(session.experiment, 0.0).over is None
    assert MOST_WAITING >= 500
    monkeypatch.setattr("assistant.analysis.remaining_runs.MOST_WAITING", 1)
    assert queue_ends(queued(5, 1, 2).experiment, 0.0).over is None
