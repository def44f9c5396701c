"""The frame around the pages, by the script itself: what is open, who executes, what is wrong."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from assistant import Experiment, Forecast, RunState, Sla, load_session, open_session
from assistant.analysis.forecast import forecast
from assistant.cli.main import run
from assistant.core.sla import AutoSteering
from assistant.executors.serial import SerialExecutor
from assistant.service.experiment_service import ExperimentService
from assistant.service.store_lock import StoreLock, find_endpoint
from assistant.session import execution
from assistant.store.event_store import SqliteStore
from assistant.ui import state
from assistant.ui.app import PAGES
from assistant.ui.pages.new_form import Form
from assistant.ui.pages.new_preview import NewExperiment, open_from
from tests.assistant.examples import Bowl
from tests.ui.screens import at_page, desk_in, first_page, go, press, shown, until, until_done


@pytest.fixture
def opened(service: ExperimentService, store: Path, table: Path) -> NewExperiment:
    return open_from(Form("table", str(table), runs=10), store)


# -- empty, stored, broken ---------------------------------------------------------------------


def test_without_a_store_it_says_how_to_begin_and_makes_nothing(store: Path) -> None:
    page = first_page()
    assert "What do you want to tune?" in shown(page)
    assert not store.exists(), "looking makes nothing"
    assert find_endpoint(store) is None


@pytest.mark.parametrize("name", PAGES)
def test_every_page_says_what_to_do_when_nothing_is_open(store: Path, name: str) -> None:
    page = go(first_page(), name)
    assert "No experiment is open" in page.info[0].value


def test_a_file_that_is_no_store_is_said_in_a_sentence(store: Path) -> None:
    store.write_text("not a database " * 100)
    key = StoreLock.take(store)  # nobody can serve it; a service that tries would say the same
    assert key is not None
    with key:
        state.service_connection(str(store)).companion.reach = lambda **_: refuse()  # type: ignore[assignment]
        page = first_page()
    assert page.error


def refuse() -> None:
    from assistant.core.errors import ServiceError

    raise ServiceError("no service started for the store")


def test_an_experiment_that_is_not_there_is_said_in_a_sentence(service: ExperimentService) -> None:
    assert "no experiment 'no-such'" in at_page("no-such").error[0].value.lower()


@pytest.mark.parametrize("name", PAGES)
def test_every_page_can_be_drawn_before_the_first_result(opened: NewExperiment, name: str) -> None:
    page = at_page(opened.session.id, name)
    assert "Needs you: no run is running or waiting.**" in shown(page)
    if name != "suggestions":  # there the next step can be taken
        assert page.button(key="next-step").label == "Choose the next runs"
    assert ("Choose the next runs." in shown(page)) == (name == "suggestions"), "said once"
    assert not page.error


def test_every_page_can_be_drawn_of_a_finished_experiment_and_changes_nothing(
    service: ExperimentService, store: Path, table: Path
) -> None:
    assert run(["sweep", "--table", str(table), "--name", "older", "--runs", "9"]) == 0
    (one,) = SqliteStore(store).experiments()
    for name in PAGES:
        page = at_page(one.id, name)
        assert "older" in shown(page), name
        assert "Finished: the budget of 9 runs is used up" in shown(page), name
        told = [metric.value for metric in page.metric] if name == "overview" else shown(page)
        assert ("9 of 9" if name == "overview" else "**9** of 9 runs") in told, name
        assert not page.error, name
    assert SqliteStore(store).experiments()[0].n_events == one.n_events, "looking changes nothing"


# -- who executes ------------------------------------------------------------------------------


def test_runs_wait_until_they_are_started_and_pause(opened: NewExperiment, store: Path) -> None:
    session = opened.session
    session.submit(session.initial_evaluation(3))
    page = at_page(session.id)
    assert "Paused: 3 runs wait.**" in shown(page)
    page = until_done(press(page, "start-runs"), store)
    assert len(desk_in(page, store).experiment.runs_in(RunState.COMPLETED)) == 3
    assert "Needs you: no run is running or waiting." in shown(page)
    desk_in(page, store).session.pause()
    session.catch_up()
    session.include({"x": 2, "y": 3})
    page = go(page, "queue")
    assert page.button(key="start-runs").label == "Start 1 run"


def test_it_steers_itself_and_says_why_it_ended(opened: NewExperiment, store: Path) -> None:
    page = at_page(opened.session.id, "steering")
    page.selectbox(key="auto-advice").set_value("ignore")
    page = press(page, "auto_steering")
    assert "auto-steering on" in shown(page)
    page = until_done(press(page, "start-runs"), store)
    assert len(desk_in(page, store).experiment.runs_in(RunState.COMPLETED)) == 10
    assert "Finished: the budget of 10 runs is used up.**" in shown(page)
    assert "auto-steering" not in shown(page).lower(), "nothing is said to be ended or ready"
    assert [one.key for one in page.button if one.key in ("pause-runs", "start-runs")] == []


def test_steering_shows_how_it_steers_itself(opened: NewExperiment) -> None:
    opened.session.set_auto_steering(AutoSteering(4, warnings="wait"))
    page = at_page(opened.session.id, "steering")
    assert page.selectbox(key="auto-advice-now").value == "wait for me"
    assert page.number_input(key="auto-n-now").value == 4
    assert page.number_input(key="auto-n-now").disabled
    assert "Auto-steering submits the next ones" in shown(at_page(opened.session.id, "queue"))


def test_open_suggestions_wait_for_a_person_who_steers(opened: NewExperiment) -> None:
    opened.session.include({"x": 1, "y": 1})
    opened.session.run_queued(SerialExecutor(opened.application))
    opened.session.suggest(3)
    assert "Needs you: 3 suggestions wait for your decision." in shown(at_page(opened.session.id))


def test_a_person_takes_it_back(opened: NewExperiment, store: Path) -> None:
    opened.session.set_auto_steering(AutoSteering(warnings="ignore"))
    page = press(at_page(opened.session.id, "steering"), "auto_steering")
    assert "Auto-steering is off" in shown(page)
    assert desk_in(page, store).experiment.auto_steering is None


def test_what_another_program_did_meanwhile_is_seen(opened: NewExperiment, store: Path) -> None:
    page = at_page(opened.session.id)
    load_session(SqliteStore(store), opened.session.id).include({"x": 2, "y": 3}, "from elsewhere")
    until(lambda: len(desk_in(page, store).experiment.runs) == 1)
    assert "1 waiting" in [metric.delta for metric in page.run().metric]


def test_an_interrupted_program_is_taken_over(opened: NewExperiment, store: Path) -> None:
    opened.session.submit(opened.session.initial_evaluation(3))
    execution.start_next(opened.session._event_log)
    page = at_page(opened.session.id)
    assert "Paused: the process that executed 1 run has ended." in shown(page)
    page = until_done(press(page, "start-runs"), store)
    assert len(desk_in(page, store).experiment.runs_in(RunState.COMPLETED)) == 3


def test_what_cannot_be_executed_here_is_refused_before_a_run_is_spent(
    service: ExperimentService, store: Path, opened: NewExperiment, table: Path
) -> None:
    session = open_session(Bowl(), store=SqliteStore(store))
    session.submit(session.initial_evaluation(2))
    page = press(at_page(session.id), "start-runs")
    assert "was opened from Python" in page.error[0].value
    opened.session.include({"x": 1, "y": 1})
    table.write_text("x,y,objective\n1,1,2\n2,1,1\n")
    page = press(at_page(opened.session.id), "start-runs")
    assert "has changed, and its parameters with it" in page.error[0].value
    service.session(session.id).catch_up()
    assert not service.session(session.id).experiment.runs_in(RunState.FAILED, RunState.RUNNING)


def test_while_the_service_is_away_the_page_stays_and_comes_back(
    opened: NewExperiment, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = at_page(opened.session.id, "suggestions")
    page = press(page, "suggest")
    shared = desk_in(page, store)

    from assistant.core.errors import ServiceError

    def away(*_: object) -> None:
        raise ServiceError("the service does not answer")

    with monkeypatch.context() as patched:
        patched.setattr(shared._watched, "catch_up", away)
        page = page.run()
        assert "The service cannot be reached" in page.error[0].value
        assert len(page.data_editor) == 1, "what was there is there still"
    page = page.run()
    assert not page.error


def test_two_people_steer_the_same_experiment(opened: NewExperiment, store: Path) -> None:
    one = press(at_page(opened.session.id, "suggestions"), "suggest")
    two = at_page(opened.session.id, "suggestions")
    assert list(one.data_editor[0].value["x"]) == list(two.data_editor[0].value["x"])
    press(one, "submit-1")
    two = press(two, "submit-1")
    assert "nothing was submitted" in shown(two) or "submitted or replaced" in shown(two)
    assert len(desk_in(one, store).experiment.runs) == 5


def test_a_forecast_is_made_once_for_everybody_and_anew_after_a_decision(
    opened: NewExperiment, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []

    def counted(experiment: Experiment, now_s: float) -> Forecast:
        made.append(experiment.n_events)
        return forecast(experiment, now_s)

    monkeypatch.setattr(state, "forecast", counted)
    at_page(opened.session.id)
    at_page(opened.session.id)
    assert len(made) == 1
    opened.session.change_budget(Sla(12, goal=1.0))
    page = at_page(opened.session.id)
    assert len(made) == 2
    assert "The chance to reach 1 is not known yet" in shown(page)


@pytest.mark.parametrize("name", ["overview", "what-if", "space", "effects", "report"])
def test_what_a_page_has_computed_is_forgotten_with_the_next_result(
    opened: NewExperiment, store: Path, name: str
) -> None:
    def content(page: AppTest) -> list[str]:
        return [shown(page), *(table.value.to_json() for table in page.dataframe)]

    opened.session.submit(opened.session.initial_evaluation(5))
    opened.session.run_queued(SerialExecutor(opened.application))
    page = at_page(opened.session.id, name)
    before = content(page)
    assert before == content(at_page(opened.session.id, name))
    for x, y in ((4, 4), (4, 3), (3, 4), (3, 3)):
        if not opened.session.experiment.runs_of(
            opened.session.experiment.space.from_values({"x": x, "y": y})
        ):
            opened.session.include({"x": x, "y": y})
    opened.session.run_queued(SerialExecutor(opened.application))
    desk_in(page, store)
    after = content(at_page(opened.session.id, name))
    assert after != before
    state.service_connection.clear()
    assert after == content(at_page(opened.session.id, name))


def test_browsers_that_open_an_experiment_at_once_share_its_reading(
    opened: NewExperiment, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection, made = state.service_connection(str(store)), threading.Semaphore(0)
    has_second_come = threading.Event()
    build = state.ExperimentViewModel.__init__

    def noted(self: state.ExperimentViewModel, *args: Any) -> None:
        made.release()
        has_second_come.wait(1.0)
        build(self, *args)

    monkeypatch.setattr(state.ExperimentViewModel, "__init__", noted)
    with ThreadPoolExecutor() as browsers:
        first = browsers.submit(connection.view_model, opened.session.id)
        assert made.acquire(timeout=30)
        second = browsers.submit(connection.view_model, opened.session.id)
        assert not made.acquire(timeout=0.2), "the second waits"
        has_second_come.set()
        assert first.result() is second.result()
