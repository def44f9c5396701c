"""The terms of the agreement: changed while it runs, and what they do to who steers by itself."""

from pathlib import Path
from typing import Any

import pytest

from agents import Follower
from assistant import Sla, Tariff, open_session
from assistant.cli.main import run
from assistant.core.early_stopping import EarlyStopping
from assistant.core.events import AutoSteeringChanged
from assistant.core.sla import AutoSteering
from assistant.executors.serial import SerialExecutor
from assistant.service.experiment_service import ExperimentService
from assistant.store.event_store import MemoryStore, SqliteStore
from assistant.ui.pages import overview, steering
from assistant.ui.pages.new_form import Form
from assistant.ui.pages.new_preview import open_from
from assistant.ui.sla_fields import SlaFields
from tests.assistant.examples import TODAY, Bowl
from tests.ui.screens import at_page, press, sound, until_done
from tests.ui.stage import staged
from tests.ui.test_one_story import told

pytestmark = pytest.mark.slow


def test_what_is_agreed_is_in_the_diagnostics_and_nothing_else() -> None:
    for sla, wanted in (
        (
            Sla(40, None, 20.0, Tariff("EUR", 0.5, "x"), 3.0, 600.0),
            {"Runs", "Cost", "Run limit", "Goal"},
        ),
        (Sla(40), {"Runs"}),
    ):
        session = open_session(Bowl(), store=MemoryStore(), sla=sla)
        page = staged(overview.page, session)  # type: ignore[arg-type]
        assert not any("agreed" in frame.value for frame in page.dataframe)
        page.session_state[f"diagnostics-{session.id}"] = True
        page = sound(page.run())
        (terms,) = [frame.value for frame in page.dataframe if "agreed" in frame.value]
        assert set(terms[""]) == wanted


def test_terms_are_changed_while_it_runs_and_the_others_stay() -> None:
    session = open_session(
        Bowl(), store=MemoryStore(), sla=Sla(40, None, None, None, 3.0, 600.0), experiment_id="bowl"
    )
    page = staged(steering.page, session)
    key = f"budget-bowl-{hash(session.experiment.sla)}"
    assert page.text_input(key=f"{key}-goal").value == "3"
    assert page.text_input(key=f"{key}-run-limit").value == "600"
    page.text_input(key=f"{key}-cost-measure").set_value("height")
    page.text_input(key=f"{key}-cost").set_value("90")
    page.checkbox(key=f"{key}-go-on").set_value(True)
    page = press(page, "change-budget")
    agreed = session.experiment.sla
    assert agreed == Sla(40, None, 90.0, Tariff("", measure="height"), 3.0, 600.0, "go_on")
    key = f"budget-bowl-{hash(agreed)}"
    page.text_input(key=f"{key}-goal").set_value("")
    page.checkbox(key="budget-limited").set_value(False)
    press(page, "change-budget")
    assert session.experiment.sla == Sla(
        None, None, 90.0, Tariff("", measure="height"), None, 600.0, "go_on"
    )


def test_early_stopping_is_changed_and_turned_off_while_it_runs() -> None:
    session = open_session(Bowl(), store=MemoryStore(), experiment_id="bowl")
    page = staged(steering.page, session)
    key = f"early-bowl-{hash(None)}"
    page.text_input(key=f"{key}-early-step").set_value("epoch").run()
    page.text_input(key=f"{key}-early-others").set_value("no number")
    page = press(page, "change-early")
    assert any("whole number" in error.value for error in page.error)
    page.text_input(key=f"{key}-early-others").set_value("3")
    page.selectbox(key=f"{key}-early-rule").set_value("halving")
    press(page, "change-early")
    assert session.experiment.early_stopping == EarlyStopping("epoch", "halving", others=3)
    page = staged(steering.page, session)
    key = f"early-bowl-{hash(session.experiment.early_stopping)}"
    assert page.text_input(key=f"{key}-early-others").value == "3"
    page.text_input(key=f"{key}-early-step").set_value("")
    press(page, "change-early")
    assert session.experiment.early_stopping is None


def test_a_finished_experiment_is_reopened_with_more_runs_or_refused_without() -> None:
    bowl = Bowl(TODAY)
    session = open_session(bowl, store=MemoryStore(), sla=Sla(2), experiment_id="bowl")
    session.finish(Follower().steer(session, SerialExecutor(bowl)))
    page = staged(steering.page, session)
    field = page.number_input(key="budget-bowl-2")
    assert field.value == 22
    page = press(field.set_value(2).run(), "change-budget")
    assert page.error[0].value == "2 runs are used; a budget of 2 leaves no run."
    assert session.experiment.finished is not None
    worst = max(run.outcome.value for run in session.experiment.runs if run.outcome)
    key = f"budget-bowl-{hash(session.experiment.sla)}-goal"
    page.number_input(key="budget-bowl-2").set_value(9)
    page = press(page.text_input(key=key).set_value(str(worst)).run(), "change-budget")
    assert page.error[0].value.startswith("Set a better goal: the goal of")
    assert session.experiment.finished is not None
    press(page.text_input(key=key).set_value("").run(), "change-budget")
    assert session.experiment.finished is None
    Follower().steer(session, SerialExecutor(bowl))
    assert len(session.experiment.runs) == 9


def test_bad_terms_are_refused_beside_their_field() -> None:
    session = open_session(Bowl(), store=MemoryStore(), sla=Sla(40))
    page = staged(steering.page, session)
    n = session.experiment.n_events
    page.segmented_control(key="budget-deadline").set_value("set one").run()
    page.text_input(key="budget-deadline-text").set_value("later")
    page = press(page, "change-budget")
    assert "30m" in page.error[0].value
    assert page.text_input(key="budget-deadline-text").value == "later", "what was typed stays"
    assert session.experiment.n_events == n


@pytest.mark.parametrize(
    ("terms", "options"),
    [
        (SlaFields(goal="2.5"), ("--goal", "2.5")),
        pytest.param(
            SlaFields(cost_limit="60", measure="objective"),
            ("--cost-limit", "60", "--cost-measure", "objective"),
            marks=pytest.mark.soak,
        ),
        pytest.param(
            SlaFields(goal="2.5", go_on=True),
            ("--goal", "2.5", "--at-goal", "go_on"),
            marks=pytest.mark.soak,
        ),
    ],
)
def test_the_service_and_the_command_line_end_at_the_same_run(
    service: ExperimentService,
    store: Path,
    table: Path,
    tmp_path: Path,
    terms: SlaFields,
    options: tuple[str, ...],
) -> None:
    form = Form("table", str(table), runs=12, seed=5, terms=terms, strategy="random")
    opened = open_from(form, store)
    opened.session.set_auto_steering(AutoSteering(3, 3, "ignore"))
    until_done(press(at_page(opened.session.id), "start-runs"), store)
    steered: Any = SqliteStore(store).load(opened.session.id)

    other = tmp_path / "cli.db"
    how = ("--runs", "12", "--seed", "5", "--initial", "3", "--batch", "3", "--strategy", "random")
    assert run(["sweep", "--table", str(table), *how, *options, "--store", str(other)]) == 0
    event_log = SqliteStore(other)
    by_cli: Any = event_log.load(event_log.experiments()[0].id)
    assert told(by_cli)[:-1] == told(steered)
    reason = [event.reason for event in steered if isinstance(event, AutoSteeringChanged)][-1]
    assert by_cli[-1].reason == reason
    if terms.goal and not terms.go_on:
        assert reason.startswith("the goal of 2.5 is reached by run ")
