"""The one state of an experiment: six words, each with its reason and next step."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from assistant import Experiment, Sla, open_session
from assistant.analysis.experiment_state import (
    CALL_S,
    ICONS,
    ExecutionStatus,
    NextStep,
    StateName,
    displayed_forecast,
    experiment_state,
)
from assistant.analysis.forecast import forecast
from assistant.analysis.paper_forecast import paper_forecast
from assistant.core.events import MissWarning, RunFailed, RunStarted, WarningIssued
from assistant.core.sla import AutoSteering
from assistant.executors.serial import SerialExecutor
from assistant.presentation.text.forecast import end_words, paper_words
from assistant.session.session import Session
from assistant.store.event_store import MemoryStore
from tests.assistant.examples import Bowl, TickingClock

NOBODY = ExecutionStatus()
SERVED = ExecutionStatus(active=True, executes=True)
UNMANNED = ExecutionStatus(active=True)
CALLED = ExecutionStatus(active=True, external=True, last_call_s=1.0)
SILENT = ExecutionStatus(active=True, executes=True, external=True, last_call_s=CALL_S)
IN_PROCESS = ExecutionStatus(in_process=True)
RECIPE = {"application": {"kind": "table"}}

Prepare = Callable[[Session], object]


def opened(max_runs: int | None = 10, **options: object) -> Session:
    return open_session(
        Bowl(**options),
        store=MemoryStore(),
        sla=Sla(max_runs),
        clock=TickingClock(),  # type: ignore[arg-type]
    )


def run_all(session: Session) -> None:
    session.run_queued(SerialExecutor(Bowl()))


def submitted(session: Session, n: int = 3) -> None:
    session.submit(session.initial_evaluation(n))


def ran(session: Session, n: int = 3) -> None:
    submitted(session, n)
    run_all(session)


def started(session: Session, worker: str = "") -> None:
    submitted(session)
    session.take([RunStarted(session.now_s(), 1, worker, worker and "token")])


def failed(session: Session, n: int = 3) -> None:
    submitted(session, n)
    for run_id in range(1, n + 1):
        session.take([RunStarted(session.now_s(), run_id)])
        session.take([RunFailed(session.now_s(), run_id, "no such file: lean.py", 1.0)])


def warned(session: Session) -> None:
    ran(session)
    check = paper_forecast(session.experiment, session.now_s())
    session.take([WarningIssued(session.now_s(), MissWarning(1, check, None, (), "too few runs"))])


def held(session: Session) -> None:
    submitted(session, 1)
    session.hold(1)


def used_up(session: Session) -> None:
    ran(session, 10)


def late(session: Session) -> None:
    submitted(session, 2)
    session.change_budget(Sla(10, deadline_s=1.0))


def finished(session: Session) -> None:
    ran(session)
    session.finish("the analyst is satisfied.")


def broken(session: Session) -> None:
    failed(session)
    session.finish("3 runs failed alike")


def steering(warnings: str, prepare: Prepare = ran) -> Prepare:
    def do(session: Session) -> None:
        prepare(session)
        session.set_auto_steering(AutoSteering(warnings=warnings))  # type: ignore[arg-type]

    return do


def nothing(_: Session) -> None:
    return None


@pytest.mark.parametrize(
    ("prepare", "execution", "name", "reason", "step"),
    [
        (started, IN_PROCESS, "running", "1 run is executing", "NONE"),
        (finished, IN_PROCESS, "finished", "the analyst is satisfied", "REPORT"),
        (ran, IN_PROCESS, "running", "the next runs are being chosen", "NONE"),
        (warned, IN_PROCESS, "running", "the next runs are being chosen", "NONE"),
        (lambda s: started(s, "node-7"), SERVED, "running", "1 run is executing", "NONE"),
        (submitted, SERVED, "running", "3 runs wait", "NONE"),
        (submitted, CALLED, "running", "3 runs wait", "NONE"),
        (steering("ignore"), SERVED, "running", "auto-steering chooses the next runs", "NONE"),
        (steering("accept", warned), SERVED, "running", "auto-steering chooses", "NONE"),
        (steering("wait", warned), SERVED, "needs you", "warning 1 waits for your answer",
         "ANSWER"),
        (warned, SERVED, "needs you", "warning 1 waits for your answer", "ANSWER"),
        (warned, NOBODY, "needs you", "warning 1 waits for your answer", "ANSWER"),
        (lambda s: s.suggest(2), SERVED, "needs you", "2 suggestions wait for your decision",
         "DECIDE"),
        (nothing, NOBODY, "needs you", "no run is running or waiting", "CHOOSE"),
        (ran, SERVED, "needs you", "no run is running or waiting", "CHOOSE"),
        (held, SERVED, "needs you", "every run of the queue is held", "RELEASE"),
        (held, NOBODY, "needs you", "every run of the queue is held", "RELEASE"),
        (submitted, UNMANNED, "waiting for workers", "3 runs wait, and no worker takes runs",
         "WORKER"),
        (submitted, SILENT, "waiting for workers", "3 runs wait for an external client", "CLIENT"),
        (submitted, NOBODY, "paused", "3 runs wait", "START"),
        (ran, NOBODY, "paused", "7 runs left, and none is running or waiting", "START"),
        (started, NOBODY, "paused", "the process that executed 1 run has ended", "START"),
        (lambda s: started(s, "node-7"), NOBODY, "paused", "1 run still running", "START"),
        (steering("wait"), NOBODY, "paused", "7 runs left", "START"),
        (finished, SERVED, "finished", "the analyst is satisfied", "REPORT"),
        (used_up, SERVED, "finished", "the budget of 10 runs is used up", "REPORT"),
        (late, SERVED, "finished", "the deadline has passed; 2 runs did not start", "REPORT"),
        (broken, NOBODY, "failed", "3 runs failed alike", "CORRECT"),
        (failed, SERVED, "failed", "the first 3 runs failed alike: no such file", "CORRECT"),
        (lambda s: failed(s, 2), SERVED, "needs you", "no run is running", "CHOOSE"),
        (steering("ignore", failed), SERVED, "running", "auto-steering chooses", "NONE"),
    ],
)  # fmt: skip
def test_the_state_follows_from_the_experiment_and_who_executes_it(
    prepare: Prepare, execution: ExecutionStatus, name: str, reason: str, step: str
) -> None:
    session = opened()
    prepare(session)
    state = experiment_state(session.experiment, session.now_s(), execution)
    assert state.name == name
    assert state.reason.startswith(reason)
    assert state.next_step is NextStep[step]
    assert not state.sentence.endswith("..")


def test_six_states_have_six_signs_and_no_tick() -> None:
    assert set(ICONS) == set(StateName)
    assert len(set(ICONS.values())) == len(StateName) == 6
    assert not set(ICONS.values()) & {"✓", "✔", "☑"}


def test_a_failed_baseline_without_a_result_is_a_failed_experiment() -> None:
    session = opened(baseline={"x": 0, "y": 0, "mode": "plain"})
    session.submit_baseline()
    session.take([RunStarted(session.now_s(), 1), RunFailed(session.now_s(), 1, "no file", 1.0)])
    state = experiment_state(session.experiment, session.now_s())
    assert state.sentence.startswith("Failed: run 1, the current configuration, failed: no file.")


def test_a_person_may_go_on_at_the_goal_and_auto_steering_has_finished_there() -> None:
    session = opened()
    session.change_budget(Sla(10, goal=100.0))
    ran(session, 2)
    assert experiment_state(session.experiment, 0.0, SERVED).name is StateName.NEEDS_YOU
    session.set_auto_steering(AutoSteering())
    session.set_auto_steering(None, "the goal is reached")
    state = experiment_state(session.experiment, 0.0, SERVED)
    assert state.sentence == "Finished: the goal of 100 is reached by run 1."


def test_only_what_can_be_resumed_here_names_that_command() -> None:
    session = opened()
    ran(session)
    experiment = session.experiment
    assert experiment_state(experiment, 0.0).command == ""
    events = session.events()
    resumable = Experiment.replay([replace(events[0], recipe=RECIPE), *events[1:]])  # type: ignore[type-var]
    state = experiment_state(resumable, 0.0)
    assert state.command == f"copperline resume {session.id}"


def test_auto_steering_goes_on_at_a_warning_by_default() -> None:
    assert AutoSteering().warnings == "ignore"
    session = opened()
    warned(session)
    session.set_auto_steering(AutoSteering())
    assert experiment_state(session.experiment, 0.0, SERVED).is_running


# -- no end while stopped, and none in the past ----------------------------------------------------


def test_no_end_is_told_while_stopped_and_none_in_the_past() -> None:
    session = opened()
    ran(session)
    now_s = session.now_s()
    seen = forecast(session.experiment, now_s)
    assert seen.seconds_left is not None
    going = experiment_state(session.experiment, now_s, IN_PROCESS)
    assert going.is_running
    later = displayed_forecast(seen, going, now_s + 86_400.0)
    assert later.at_s == now_s + 86_400.0
    assert later.seconds_left is not None
    assert later.seconds_left.high == 0.0, "what should be over by now ends now, not yesterday"
    for execution in (NOBODY, SERVED):
        stopped = experiment_state(session.experiment, now_s, execution)
        assert not stopped.is_running
        shown = displayed_forecast(seen, stopped, now_s)
        assert shown.seconds_left is None
        assert all(point.seconds is None for point in shown.fan)
        assert end_words(shown) == "The end of the runs left is unknown."


# -- one number of runs left -----------------------------------------------------------------------


def test_one_number_of_runs_left_while_one_is_running() -> None:
    session = opened()
    ran(session)
    session.submit(session.suggest(1))
    session.take([RunStarted(session.now_s(), 4)])
    experiment = session.experiment
    assert experiment.runs_left == 7
    assert experiment.remaining_runs == 6, "one of the seven is submitted already"
    seen = forecast(experiment, session.now_s())
    assert seen.remaining is not None
    assert seen.remaining.median == 7
    assert "Of the 7 runs left" in session.what_if(exploitation=0.5).sentence
    assert " left" not in paper_words(seen.paper), "its number leaves out the running run"
