"""Queue: what is chosen is what is meant, all of it or none, and the order can be put back."""

from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from assistant import RunState, Session, Sla, open_session
from assistant.core.errors import ExperimentError
from assistant.core.events import RunCompleted, RunFailed, RunReported, RunReturned, RunStarted
from assistant.core.objective import Objective, SingleMeasure
from assistant.core.run import Outcome
from assistant.executors.serial import SerialExecutor
from assistant.store.event_store import MemoryStore
from assistant.ui.pages import queue
from assistant.ui.pages import queue as moves
from strategies import NotAllowedError, Parameter, ParameterSpace
from tests.assistant.examples import TickingClock
from tests.contracts.test_session_contract import Steered, remote
from tests.ui.screens import press, sound
from tests.ui.stage import staged

pytestmark = pytest.mark.slow


class Wide:
    """x + y over thirty by thirty levels: room for many runs."""

    name = "wide"
    space = ParameterSpace(
        (Parameter("x", tuple(range(30)), unit="MiB"), Parameter("y", tuple(range(30))))
    )
    objective = Objective(SingleMeasure("sum"), "minimise")
    facts = ()
    baseline = None

    def evaluate(self, values: Any, seed: int) -> dict[str, float]:
        return {"sum": float(values["x"] + values["y"])}


def waiting(n: int, done: int = 3) -> Session:
    session = open_session(
        Wide(), store=MemoryStore(), sla=Sla(900), clock=TickingClock(), experiment_id="wide"
    )
    for x in range(done):
        session.include({"x": x, "y": 29})
    session.run_queued(SerialExecutor(Wide()))
    for i in range(n):
        session.include({"x": i % 30, "y": i // 30}, f"wish {i}")
    return session


def start(session: Session, run_id: int, worker: str = "node-7") -> None:
    session.take([RunStarted(session.now_s(), run_id, worker, f"token-{run_id}")])


def end(session: Session, run_id: int) -> None:
    outcome = Outcome({"sum": 1.0}, 1.0, -1.0, True, 0.0)
    session.take([RunCompleted(session.now_s(), run_id, outcome, 2.0)])


def choose(page: AppTest, which: str, *rows: int) -> AppTest:
    (table,) = [one for one in page.dataframe if f"queue-{which}-" in (one.key or "")]
    page.session_state[table.key] = {"selection": {"rows": list(rows), "columns": [], "cells": []}}
    return sound(page.run())


def shown(page: AppTest, which: str = "waiting") -> list[int]:
    (table,) = [one for one in page.dataframe if f"queue-{which}-" in (one.key or "")]
    return list(table.value["run"])


def order(session: Steered) -> list[int]:
    return [run.id for run in session.experiment.waiting]


def told(page: AppTest) -> str:
    kinds = (page.success, page.error, page.info, page.warning, page.caption, page.markdown)
    return " ".join(one.value for kind in kinds for one in kind)


# -- what is shown -----------------------------------------------------------------------------


def test_an_empty_queue_says_what_to_do() -> None:
    page = staged(queue.page, waiting(0))
    assert "No runs are waiting or running" in page.info[0].value
    assert not page.dataframe


def test_what_runs_and_what_waits_with_the_reason_of_each_place() -> None:
    session = waiting(5)
    start(session, 4)
    session.reprioritise(7, 2.5)
    session.hold(5)
    stopped = staged(queue.page, session)
    assert list(stopped.dataframe[0].value["ends (8 of 10)"]) == ["unknown"], "nobody takes runs"
    assert "runs end" not in told(stopped)
    page = staged(queue.page, session, active=True)
    running = page.dataframe[0].value
    assert list(running["run"]) == [4]
    assert list(running["worker"]) == ["node-7"]
    assert list(running["attempt"]) == [1]
    assert running["ends (8 of 10)"][0].startswith("in ")
    waits = page.dataframe[1].value
    assert list(waits["run"]) == [7, 6, 8, 5]
    assert list(waits["why here"]) == [
        "next, by priority 2.5", "in order of submission", "in order of submission",
        "held until it is released",
    ]  # fmt: skip
    assert list(waits["x"]) == ["3 MiB", "2 MiB", "4 MiB", "1 MiB"]
    assert "All running and waiting runs end" in told(page)


def test_a_run_that_lost_its_worker_says_so() -> None:
    session = waiting(2)
    start(session, 4)
    session.take([RunReturned(session.now_s(), 4, "not heard of", lost=True)])
    page = staged(queue.page, session)
    assert "lost 1 worker, waits again" in page.dataframe[0].value["why here"][0]


def test_before_any_duration_the_end_is_unknown() -> None:
    session = waiting(1, done=0)
    start(session, 1)
    page = staged(queue.page, session)
    assert list(page.dataframe[0].value["ends (8 of 10)"]) == ["unknown"]
    assert "no run has recorded its duration yet" in told(page)
    assert "No runs are waiting." in told(page)


# -- what is pointed at is what is meant -----------------------------------------------------------


def test_the_queue_moves_under_the_snapshot_and_the_action_hits_the_runs_that_were_shown() -> None:
    session = waiting(500)
    page = choose(staged(queue.page, session), "waiting", 101, 104)
    before = shown(page)
    meant = [before[101], before[104]]
    session.run_first(400)
    for run_id in (4, 5, 400):
        start(session, run_id)
    end(session, 4)
    page = sound(page.run())
    assert shown(page) == before, "the list stays as it was drawn"
    assert "**3 changes since**" in told(page)
    page = press(page, "queue-first")
    assert order(session)[:3] == [*meant, 6]
    assert "Runs 105 and 108 start first now." in page.success[0].value
    assert shown(page)[:2] == meant


def test_after_a_refresh_nothing_is_chosen_and_the_rows_are_the_present_ones() -> None:
    session = waiting(6)
    page = choose(staged(queue.page, session), "waiting", 1)
    start(session, 4)
    page = press(sound(page.run()), "queue-refresh")
    assert shown(page) == [5, 6, 7, 8, 9]
    assert page.button(key="queue-first").disabled


@pytest.mark.parametrize("key", ["queue-first", "queue-later", "queue-put", "queue-hold"])
def test_all_or_nothing_if_one_of_them_has_started(key: str) -> None:
    session = waiting(4)
    page = choose(staged(queue.page, session), "waiting", 0, 2)
    start(session, 4)
    version = session.experiment.version
    page = press(page, key)
    assert "Nothing was changed: run 4 has started since this list was shown" in page.error[0].value
    assert session.experiment.version == version, "nothing was decided"


def test_all_or_nothing_if_another_moved_or_ended_them() -> None:
    session = waiting(6)
    page = choose(staged(queue.page, session), "waiting", 0, 1, 2, 3, 4)
    session.reprioritise(5, 3)
    session.hold(6)
    session.cancel(7)
    start(session, 8)
    end(session, 8)
    page = press(press(page, "queue-cancel-waiting"), "queue-sure-waiting")
    assert (
        "run 5 was given priority 3, run 6 was held, run 7 was cancelled and 1 more"
        in page.error[0].value
    )
    assert session.experiment.run(4).state is RunState.QUEUED


def test_a_refusal_between_look_and_decision_takes_the_others_back() -> None:
    session = waiting(4)
    runs = tuple(session.experiment.waiting)
    hold, called = session.hold, []

    def late(run_id: int) -> None:
        called.append(run_id)
        if len(called) == 3:
            start(session, run_id)
        hold(run_id)

    session.hold = late  # type: ignore[method-assign]
    with pytest.raises(ExperimentError, match=r"run 6 is running; .* be held; nothing was changed"):
        moves.hold_runs(session, runs)
    assert called == [4, 5, 6]
    assert not any(run.held for run in session.experiment.runs)


# -- what can be done --------------------------------------------------------------------------


def test_later_priority_hold_and_release() -> None:
    session = waiting(4)
    page = press(choose(staged(queue.page, session), "waiting", 0), "queue-later")
    assert order(session) == [5, 6, 7, 4]
    page = choose(page, "waiting", 1, 2)
    page.number_input(key="queue-priority-wide").set_value(7.5)
    page = press(page, "queue-put")
    assert order(session) == [6, 7, 5, 4]
    page = press(choose(page, "waiting", 0), "queue-hold")
    assert order(session) == [7, 5, 4]
    assert shown(page) == [7, 5, 4, 6]
    page = press(choose(page, "waiting", 3, 0), "queue-release")
    assert order(session) == [6, 7, 5, 4]
    page.number_input(key="queue-priority-wide").set_value(1e9)
    page = press(choose(page, "waiting", 0, 1), "queue-put")
    assert "from -1,000,000 to 1,000,000" in page.error[0].value
    assert order(session) == [6, 7, 5, 4]


def test_first_of_what_is_first_changes_nothing() -> None:
    session = waiting(3)
    page = choose(staged(queue.page, session), "waiting", 0)
    n_events = session.experiment.n_events
    page = press(page, "queue-first")
    assert "starts first already" in page.success[0].value
    assert session.experiment.n_events == n_events
    assert "queue-undo" not in [button.key for button in page.button]


def test_cancelling_names_what_it_does_and_asks() -> None:
    session = waiting(12)
    page = choose(staged(queue.page, session), "waiting", *range(12))
    assert page.button(key="queue-cancel-waiting").label == "Cancel 12 waiting runs"
    page = press(page, "queue-cancel-waiting")
    assert "runs 4, 5, 6, 7, 8, 9, 10, 11 and 4 more" in page.warning[0].value
    assert not session.experiment.runs_in(RunState.CANCELLED)
    page = press(press(page, "queue-keep-waiting"), "queue-cancel-waiting")
    page.text_input(key="queue-why-wide").set_value("too many")
    page = press(page, "queue-sure-waiting")
    assert len(session.experiment.runs_in(RunState.CANCELLED)) == 12
    assert session.experiment.run(9).cancelled == "too many"
    assert "No runs are waiting or running" in told(page)


def test_choosing_others_withdraws_the_question() -> None:
    session = waiting(3)
    page = press(choose(staged(queue.page, session), "waiting", 0), "queue-cancel-waiting")
    page = choose(page, "waiting", 0, 1)
    assert "queue-sure-waiting" not in [button.key for button in page.button]


def test_a_running_run_is_cancelled_after_a_question() -> None:
    session = waiting(2)
    start(session, 4)
    page = choose(staged(queue.page, session), "running", 0)
    page = press(page, "queue-cancel-running")
    assert "The work of 1 run is lost, and counts against the budget" in page.warning[0].value
    press(page, "queue-sure-running")
    assert session.experiment.run(4).state is RunState.CANCELLED


def test_runs_that_go_on_show_what_they_report_and_are_stopped_with_it() -> None:
    session = waiting(3)
    start(session, 4)
    start(session, 5)
    session.take([RunReported(session.now_s(), 4, {"sum": 12.5})])
    page = staged(queue.page, session)
    assert "Run 4, intermediate result: sum 12.5 (" in told(page)
    assert "Run 5, intermediate result" not in told(page)
    page = press(choose(page, "running", 0, 1), "queue-stop-running")
    assert "Run 5 has no intermediate result yet" in page.error[0].value
    assert session.experiment.run(4).state is RunState.RUNNING, "all of them, or none"
    page = press(choose(page, "running", 0), "queue-stop-running")
    assert page.success[0].value == "Run 4 was stopped; its last intermediate result counts."
    run = session.experiment.run(4)
    assert run.outcome is not None
    assert run.outcome.value == 12.5
    assert shown(page, "running") == [5]
    session.take([RunReported(session.now_s(), 5, {"sum": 3.0})])
    page = press(choose(page, "running", 0), "queue-stop-running")
    assert session.experiment.run(5).stopped == ""


def test_a_running_run_that_ended_meanwhile_is_not_cancelled() -> None:
    session = waiting(2)
    start(session, 4)
    page = press(choose(staged(queue.page, session), "running", 0), "queue-cancel-running")
    end(session, 4)
    page = press(page, "queue-sure-running")
    assert "run 4 has completed" in page.error[0].value


def test_a_change_of_the_order_is_undone() -> None:
    session = waiting(5)
    session.reprioritise(6, 1.0)
    page = press(choose(staged(queue.page, session), "waiting", 3, 4), "queue-first")
    assert order(session) == [7, 8, 6, 4, 5]
    page = press(page, "queue-undo")
    assert order(session) == [6, 4, 5, 7, 8]
    assert session.experiment.run(8).priority == 0.0
    assert "have their old place again" in page.success[0].value
    assert "queue-undo" not in [button.key for button in page.button]


def test_undo_leaves_what_started_or_was_moved_again() -> None:
    session = waiting(5)
    page = press(choose(staged(queue.page, session), "waiting", 2, 3, 4), "queue-first")
    start(session, 6)
    session.reprioritise(7, 9.0)
    page = press(page, "queue-undo")
    assert "Run 8 has its old place again. Unchanged: runs 6 and 7 (" in page.success[0].value
    assert session.experiment.run(7).priority == 9.0


def test_undo_is_offered_for_some_minutes() -> None:
    session = waiting(3)
    kept = moves.move_first(session, session.experiment.waiting[2:])
    assert kept.can_be_undone(kept.at_s + moves.UNDO_S - 1)
    assert not kept.can_be_undone(kept.at_s + moves.UNDO_S)


# -- through a service -------------------------------------------------------------------------


def test_the_same_through_a_service(tmp_path: Path) -> None:
    for opened in remote(tmp_path):
        session = opened(Wide(), sla=Sla(900))
        for x in range(4):
            session.include({"x": x, "y": 0})
        shown = session.experiment.waiting
        assert moves.move_first(session, shown[2:]).message == "Runs 3 and 4 start first now."
        assert order(session) == [3, 4, 1, 2]
        session.hold(1)
        with pytest.raises(ExperimentError, match="run 1 was held since"):
            moves.cancel_runs(session, shown[:2], "")
        page = staged(queue.page, session)
        page = choose(page, "waiting", 0, 2)
        page = press(press(page, "queue-cancel-waiting"), "queue-sure-waiting")
        assert "Runs 3 and 2 were cancelled." in page.success[0].value
        assert list(page.dataframe[0].value["run"]) == [4, 1]


# -- failed runs ---------------------------------------------------------------------------------


def failed(*xs: int, max_runs: int = 900) -> Session:
    session = open_session(
        Wide(), store=MemoryStore(), sla=Sla(max_runs), clock=TickingClock(), experiment_id="wide"
    )
    for x in xs:
        run = session.include({"x": x, "y": 0})
        start(session, run.id)
        session.take([RunFailed(session.now_s(), run.id, "no license", 1.0)])
    return session


def test_failed_runs_are_selected_and_run_again() -> None:
    session = failed(1, 2, 3)
    page = choose(staged(queue.page, session), "failed", 0, 2)  # the latest comes first
    assert page.button(key="queue-again").label == "Run 2 selected runs again"
    press(page, "queue-again")
    new = session.experiment.runs_in(RunState.QUEUED)
    assert [session.experiment.space.values(run.configuration)["x"] for run in new] == [1, 3]
    assert "Runs 4 and 5 wait in the queue." in told(page)
    (table,) = [one for one in page.dataframe if "queue-failed-" in (one.key or "")]
    assert list(table.value["since then"]) == ["run 5: waiting", "", "run 4: waiting"]
    press(page, "queue-again-all")
    assert session.experiment.run(6).configuration == session.experiment.run(2).configuration
    assert not [button for button in page.button if button.key == "queue-again-all"]


def test_failed_runs_are_submitted_all_or_none() -> None:
    session = failed(1, 2, 3, max_runs=5)
    with pytest.raises(ExperimentError, match="the budget leaves 2 runs, and 3 would run again"):
        queue.run_again(session, session.experiment.runs)
    session.close_level("x", 2)
    with pytest.raises(NotAllowedError):
        queue.run_again(session, session.experiment.runs[:2])
    assert not session.experiment.waiting
    again = failed(4)
    (run,) = again.replicate(1)
    start(again, run.id)
    again.take([RunFailed(again.now_s(), run.id, "no license", 1.0)])
    assert queue.run_again(again, again.experiment.runs) == "Run 3 waits in the queue.", (
        "a configuration that failed twice runs once"
    )


def test_failed_runs_of_a_finished_experiment_are_shown_only() -> None:
    session = failed(1)
    session.finish("enough")
    page = staged(queue.page, session)
    assert "continue it on *Steering*" in told(page)
    assert not page.button
