"""The order of the queue: first and last as lists of priorities, and what became of runs."""

from hypothesis import given, settings
from hypothesis import strategies as st

from assistant import Session, open_session
from assistant.core.commands import changes_since, priorities_ahead, priorities_behind
from assistant.core.events import RunStarted
from assistant.store.event_store import MemoryStore
from tests.assistant.examples import Bowl, TickingClock

N = 6


def queued(priorities: list[float], held: set[int]) -> Session:
    session = open_session(Bowl(), store=MemoryStore(), clock=TickingClock())
    for i, priority in enumerate(priorities):
        run = session.include({"x": i % 4, "y": i // 4, "mode": "plain"})
        session.reprioritise(run.id, priority)
        if run.id in held:
            session.hold(run.id)
    return session


def order(session: Session) -> list[int]:
    return [run.id for run in session.experiment.waiting]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from([-1.5, 0.0, 0.0, 2.0]), min_size=N, max_size=N),
    st.sets(st.integers(1, N), min_size=1),
    st.sets(st.integers(1, N), max_size=2),
)
def test_some_come_first_or_last_and_nothing_else_moves(
    priorities: list[float], chosen: set[int], held: set[int]
) -> None:
    for move, in_front in ((priorities_ahead, True), (priorities_behind, False)):
        session = queued(priorities, held)
        before = order(session)
        for run_id, priority in move(session.experiment, chosen).items():
            assert run_id in chosen
            session.reprioritise(run_id, priority)
        some = [run_id for run_id in before if run_id in chosen]
        rest = [run_id for run_id in before if run_id not in chosen]
        assert order(session) == (some + rest if in_front else rest + some)
        assert move(session.experiment, chosen) == {}, "done once is enough"


def test_priorities_by_hand() -> None:
    session = queued([0, 0, 2.5, 0, 1, 0], set())
    assert priorities_ahead(session.experiment, [1, 5]) == {5: 4.0, 1: 3.0}
    assert priorities_ahead(session.experiment, [3]) == {}
    assert priorities_behind(session.experiment, [3, 5, 1]) == {3: -1.0, 5: -2.0, 1: -3.0}


def test_what_became_of_runs() -> None:
    session = queued([0, 0, 0, 0], set())
    shown = session.experiment.runs
    assert changes_since(shown, session.experiment) == ()
    session.take([RunStarted(1.0, 1)])
    session.hold(2)
    session.reprioritise(3, 2)
    session.cancel(4)
    assert changes_since(shown, session.experiment) == (
        "run 1 has started", "run 2 was held", "run 3 was given priority 2", "run 4 was cancelled",
    )  # fmt: skip
