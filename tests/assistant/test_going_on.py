"""Runs that go on: what they report is kept, and the analyst ends one early, with or without it."""

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assistant import (
    Experiment,
    Measure,
    Objective,
    RunState,
    Session,
    SingleMeasure,
    Sla,
    load_session,
    open_session,
)
from assistant.core.codec import decode_event, encode_event
from assistant.core.errors import CodecError, ExperimentError, RunStoppedError
from assistant.core.events import ResultRefused, RunReported, RunStarted, RunStopped
from assistant.core.ports import Executor, RunControl
from assistant.executors import make_executor
from assistant.executors.serial import SerialExecutor
from assistant.presentation.tables.queue import age_words, reported_words, stopped_words
from assistant.session.execution_loop import REPORT_S
from assistant.store.event_store import MemoryStore, SqliteStore
from strategies import Level
from tests.assistant.examples import Bowl, Climb, TickingClock

LONG: Mapping[str, Level] = {"x": 3, "y": 0, "mode": "plain"}
SHORT: Mapping[str, Level] = {"x": 2, "y": 0, "mode": "plain"}
PATIENCE_S = 240.0


def started(
    reported: Mapping[str, Measure] | None, at_s: float = 2e6, sla: Sla | None = None
) -> Session:
    """Return a session with one run that goes on, at a worker."""
    session = open_session(Climb(), store=MemoryStore(), sla=sla or Sla(9), clock=TickingClock())
    run = session.include(LONG)
    session.take([RunStarted(session.now_s(), run.id, "node-7", "token")])
    if reported is not None:
        session.take([RunReported(at_s, run.id, reported)])
    return session


class Told:
    """Waits until an experiment is as somebody wants it; told of every event."""

    def __init__(self, session: Session) -> None:
        self._changed = threading.Condition()
        self._experiment = session.experiment
        session.listen(self._hear)

    def _hear(self, _experiment: Experiment, _event: object) -> None:
        with self._changed:
            self._changed.notify_all()

    def until(self, condition: Callable[[], bool]) -> None:
        with self._changed:
            assert self._changed.wait_for(condition, PATIENCE_S), "it did not happen in time"


def while_it_runs(session: Session, executor: Executor, act: Callable[[], object]) -> None:
    """Execute what waits, and do something as soon as run 1 has reported."""
    told = Told(session)

    def acting() -> None:
        told.until(lambda: session.experiment.run(1).reported == {"height": 100.0, "unknown": None})
        act()

    with ThreadPoolExecutor(1) as other:
        doing = other.submit(acting)
        session.run_queued(executor)
        doing.result()


# -- the decision ------------------------------------------------------------------------------


def test_what_it_reported_last_is_the_result_and_told_as_stopped_early() -> None:
    session = started({"height": 7.5, "more": 1.0})
    session.stop(1, "flat by now")
    run = session.experiment.run(1)
    assert run.state is RunState.COMPLETED
    assert run.outcome is not None
    assert run.outcome.value == 7.5
    assert run.outcome.measures == {"height": 7.5, "more": 1.0}
    assert run.duration_s is not None
    assert run.duration_s > 0
    assert stopped_words(run) == "stopped early by the analyst: flat by now"
    assert session.experiment.best == run
    n_events = session.experiment.n_events
    session.stop(1, "again")
    assert session.experiment.n_events == n_events, "once is enough"
    assert session.experiment.version == started({"height": 7.5}).experiment.version + 1


def test_not_kept_is_cancelled() -> None:
    session = started({"height": 7.5})
    session.stop(1, "hopeless", keep=False)
    run = session.experiment.run(1)
    assert (run.state, run.cancelled, run.stopped) == (RunState.CANCELLED, "hopeless", None)


@pytest.mark.parametrize(
    ("prepare", "said"),
    [
        (lambda: started(None), "run 1 has no intermediate result yet, so there is nothing to"),
        (lambda: started({"other": 1.0}), "intermediate result of run 1 is invalid: .*height"),
        (lambda: started({"height": None}), "intermediate result of run 1 is invalid: .*height"),
        (lambda: started({"height": 1.0}, sla=Sla(9, run_limit_s=0.5)), "the run limit is 0.5 s"),
    ],
)
def test_what_makes_no_result_cannot_be_kept(prepare: Callable[[], Session], said: str) -> None:
    session = prepare()
    n_events = session.experiment.n_events
    with pytest.raises(ExperimentError, match=said) as refused:
        session.stop(1)
    assert "cancel it" in str(refused.value)
    assert session.experiment.n_events == n_events


def test_only_a_run_that_goes_on_is_stopped() -> None:
    session = open_session(Bowl(), store=MemoryStore(), sla=Sla(9), clock=TickingClock())
    session.include(SHORT)
    with pytest.raises(ExperimentError, match="run 1 is queued; only a running run"):
        session.stop(1)
    session.run_queued(SerialExecutor(Bowl()))
    with pytest.raises(ExperimentError, match="run 1 is completed; only a running run"):
        session.stop(1)
    with pytest.raises(ExperimentError, match="there is no run 2"):
        session.stop(2)


def test_a_report_of_an_earlier_attempt_is_not_kept() -> None:
    session = started({"height": 7.5})
    run = session.experiment.run(1)
    assert run.reported_s == 2e6
    session.cancel(1)
    again = session.include(LONG)
    session.take([RunStarted(session.now_s(), again.id, "node-8", "other")])
    assert session.experiment.run(again.id).reported_s is None
    with pytest.raises(ExperimentError, match="no intermediate result yet"):
        session.stop(again.id)


# -- the journal -------------------------------------------------------------------------------


def test_the_event_is_read_back_as_it_is_and_a_damaged_one_is_refused() -> None:
    session = started({"height": 7.5, "series": (1.0, 2.0), "unknown": None})
    session.stop(1, "enough")
    stopped = session.events()[-1]
    assert isinstance(stopped, RunStopped)
    line = encode_event(stopped)
    assert decode_event(line) == stopped
    assert decode_event(line.replace(', "reason": "enough"', "")) == replace(stopped, reason="")
    with pytest.raises(CodecError, match="damaged at 'outcome'"):
        decode_event(line.replace('"outcome"', '"other"'))
    again = Experiment.replay(session.events())
    assert again.runs == session.experiment.runs


def test_a_store_has_it_in_its_tables(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db")
    session = open_session(Climb(), store=store, sla=Sla(9), clock=TickingClock())
    run = session.include(LONG)
    session.take([RunStarted(session.now_s(), run.id), RunReported(2e6, run.id, {"height": 3.0})])
    session.stop(run.id)
    rows = store.connection.execute("SELECT state FROM run").fetchall()
    assert rows == [("completed",)]
    assert load_session(store, session.id).experiment.run(1).stopped == ""


# -- execution ---------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("keep", [True, False])
def test_a_run_is_ended_from_another_thread_while_it_is_waited_for(
    workers: int, keep: bool
) -> None:
    climb = Climb()
    session = open_session(climb, store=MemoryStore(), sla=Sla(9), clock=TickingClock())
    session.include(LONG)
    session.include(SHORT)
    with make_executor(climb, workers) as executor:
        while_it_runs(session, executor, lambda: session.stop(1, "enough", keep=keep))
    first, second = session.experiment.runs
    assert first.state is (RunState.COMPLETED if keep else RunState.CANCELLED)
    assert (first.outcome is not None and first.outcome.value == 100.0) is keep
    assert second.outcome is not None
    assert second.outcome.value == 1.0
    assert not any(isinstance(event, ResultRefused) for event in session.events())
    again = Experiment.replay(session.events())
    assert again.runs == session.experiment.runs


@pytest.mark.soak
@pytest.mark.slow
def test_a_run_is_ended_by_whoever_decides_elsewhere() -> None:
    """As ``copperline queue --stop`` does beside the process that executes."""
    climb, store = Climb(), MemoryStore()
    session = open_session(climb, store=store, sla=Sla(9), clock=TickingClock())
    session.include(LONG)
    other = load_session(store, session.id, clock=TickingClock())
    while_it_runs(session, SerialExecutor(climb), lambda: other.stop(1, "seen enough"))
    run = session.experiment.run(1)
    assert run.stopped == "seen enough"
    assert run.outcome is not None
    assert run.outcome.value == 100.0


def test_one_that_cannot_be_watched_ends_by_itself_and_its_result_is_refused() -> None:
    begun, may_end = threading.Event(), threading.Event()

    @dataclass(frozen=True)
    class Deaf(Bowl):
        def evaluate(self, values: Mapping[str, Level], seed: int) -> Mapping[str, Measure]:
            begun.set()
            assert may_end.wait(PATIENCE_S)
            return super().evaluate(values, seed)

    session = open_session(Deaf(), store=MemoryStore(), sla=Sla(9), clock=TickingClock())
    session.include(SHORT)

    def cancel() -> None:
        assert begun.wait(PATIENCE_S)
        session.cancel(1)
        may_end.set()

    with ThreadPoolExecutor(1) as other:
        cancelling = other.submit(cancel)
        session.run_queued(SerialExecutor(Deaf()))
        cancelling.result()
    assert session.experiment.run(1).state is RunState.CANCELLED
    refused = session.events()[-1]
    assert isinstance(refused, ResultRefused)
    assert refused.measures is not None
    assert refused.why == "the run is cancelled"


@dataclass(frozen=True)
class Chatty(Climb):
    """Reports as fast as it can, until it is told to end."""

    def evaluate_watched(
        self,
        values: Mapping[str, Level],
        seed: int,
        limit_s: float | None,
        oversight: RunControl,
    ) -> Mapping[str, Measure]:
        n = 0
        while not oversight.wants_end():
            n += 1
            oversight.report({"height": float(n)})
        raise RunStoppedError("it was told to end")


@pytest.mark.soak
@pytest.mark.slow
def test_reports_are_few_however_many_come() -> None:
    session = open_session(Chatty(), store=MemoryStore(), sla=Sla(9))
    session.include(LONG)
    told, began_s = Told(session), time.monotonic()

    def acting() -> None:
        told.until(lambda: sum(isinstance(e, RunReported) for e in session.events()) >= 3)
        session.cancel(1)

    with ThreadPoolExecutor(1) as other:
        doing = other.submit(acting)
        session.run_queued(SerialExecutor(Chatty()))
        doing.result()
    reports = [event for event in session.events() if isinstance(event, RunReported)]
    heights = [event.measures["height"] for event in reports]
    assert heights == sorted(heights, key=lambda height: float(str(height)))
    assert 3 <= len(reports) <= 1 + (time.monotonic() - began_s) / REPORT_S


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 24))
def test_reports_never_change_results(seed: int, n: int) -> None:
    def told(application: Bowl) -> list[object]:
        session = open_session(
            application, store=MemoryStore(), sla=Sla(24), clock=TickingClock(), seed=seed
        )
        session.submit(session.initial_evaluation(n))
        session.run_queued(SerialExecutor(application))
        if n < 24:
            session.submit(session.suggest(1))
        session.run_queued(SerialExecutor(application))
        return [(r.configuration, r.seed, r.outcome, r.failure) for r in session.experiment.runs]

    assert told(Climb(endless=False)) == told(Bowl())


# -- words -------------------------------------------------------------------------------------


def test_what_has_been_reported_in_words() -> None:
    run = started({"height": 7.5, "more": 1.0}).experiment.run(1)
    objective = Objective(SingleMeasure("height"), "minimise")
    assert reported_words(run, objective) == "height 7.5"
    assert reported_words(run, Objective(SingleMeasure("more_s"), "minimise")) == (
        "2 measures, none is in the objective"
    )
    assert age_words(run, 2e6 + 75.2) == "75 s ago"
    assert age_words(run, 1e6) == "below 0.1 s ago"
    quiet = started(None).experiment.run(1)
    assert (reported_words(quiet, objective), age_words(quiet, 2e6), stopped_words(quiet)) == (
        "", "", "",
    )  # fmt: skip
