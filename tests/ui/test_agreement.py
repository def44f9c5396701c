"""The terms of the agreement as fields: on the start page, while it runs, and what they did."""

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from assistant import Sla, Tariff
from assistant.cli.main import run
from assistant.store import SqliteStore
from assistant.ui.opening import Form, open_from
from assistant.ui.runner import Runner
from assistant.ui.terms import Terms
from tests.ui.screens import first_page, go, press, runner_in, sound, until, until_done
from tests.ui.test_app import told

METRICS = {"Cost", "Goal", "Longest run"}


def start(table: Path, **texts: str) -> AppTest:
    page = first_page()
    sound(page.radio(key="start-source").set_value("table").run())
    page.text_input(key="start-table").set_value(str(table))
    for name, text in texts.items():
        page.text_input(key=f"start-{name.replace('_', '-')}").set_value(text)
    return press(page, "start")


def test_every_term_is_a_field_of_the_start_page(store: Path, table: Path) -> None:
    page = start(
        table, goal="3", run_limit="10m", cost="20", unit="EUR", per_hour="0.5", resources="x"
    )
    runner = runner_in(until_done(page, store), store)
    assert runner.experiment.sla == Sla(40, None, 20.0, Tariff("EUR", 0.5, "x"), 3.0, 600.0, "stop")
    shown = {metric.label: metric.value for metric in page.metric}
    assert set(shown) >= METRICS
    assert shown["Cost"] == "0 of 20 EUR"
    assert shown["Goal"] == "open"
    page = go(page, "report")
    assert any("Agreement" in one.value for one in page.subheader)


def test_without_terms_nothing_more_is_agreed_or_shown(store: Path, table: Path) -> None:
    page = until_done(start(table), store)
    assert runner_in(page, store).experiment.sla == Sla(40)
    assert not METRICS & {metric.label for metric in page.metric}


@pytest.mark.parametrize(
    ("field", "texts", "said"),
    [
        ("goal", {"goal": "low"}, "'low' is no number"),
        ("run-limit", {"run_limit": "soon"}, "A time is wanted, such as 90s"),
        ("cost", {"cost": "1,000", "per_hour": "1"}, "without commas"),
        ("cost", {"cost": "20"}, "exactly one of per_hour and measure"),
        ("cost", {"per_hour": "-1"}, "greater than 0"),
        ("resources", {"per_hour": "1", "resources": "z"}, "neither a parameter nor a measure"),
        ("measure", {"measure": "duration"}, "did you mean 'duration_s'?"),
    ],
)
def test_a_term_that_cannot_be_is_refused_beside_its_field(
    store: Path, table: Path, field: str, texts: dict[str, str], said: str
) -> None:
    page = start(table, **texts)
    assert said in page.error[0].value
    assert "went wrong" not in page.error[0].value
    (typed,) = [text for name, text in texts.items() if name.replace("_", "-") == field] or [""]
    assert page.text_input(key=f"start-{field}").value == typed, "what was typed stays"
    assert not store.exists()


def test_terms_are_changed_while_it_runs_and_the_others_stay(store: Path, table: Path) -> None:
    page = until_done(start(table, goal="3", run_limit="10m"), store)
    runner = runner_in(page, store)
    before = runner.experiment.sla
    key = f"budget-{runner.session.id}-{hash(before)}"
    assert page.text_input(key=f"{key}-goal").value == "3"
    assert page.text_input(key=f"{key}-run-limit").value == "600"
    page.text_input(key=f"{key}-measure").set_value("objective")
    page.text_input(key=f"{key}-cost").set_value("90")
    page.checkbox(key=f"{key}-go-on").set_value(True)
    page = press(page, "change-budget")
    agreed = runner.experiment.sla
    assert agreed == Sla(40, None, 90.0, Tariff("", measure="objective"), 3.0, 600.0, "go_on")
    key = f"budget-{runner.session.id}-{hash(agreed)}"
    page.text_input(key=f"{key}-goal").set_value("")
    page.checkbox(key="budget-limited").set_value(False)
    press(page, "change-budget")
    assert runner.experiment.sla == Sla(
        None, None, 90.0, Tariff("", measure="objective"), None, 600.0, "go_on"
    )


@pytest.mark.parametrize(
    ("terms", "options"),
    [
        (Terms(goal="2.5"), ("--goal", "2.5")),
        (
            Terms(cost_limit="60", measure="objective"),
            ("--cost-limit", "60", "--cost-measure", "objective"),
        ),
        (Terms(goal="2.5", go_on=True), ("--goal", "2.5", "--at-goal", "go_on")),
    ],
)
def test_the_browser_and_the_command_line_end_at_the_same_run(
    store: Path, table: Path, tmp_path: Path, terms: Terms, options: tuple[str, ...]
) -> None:
    form = Form("table", str(table), runs=12, seed=5, terms=terms, strategy="random")
    opened = open_from(form, store)
    runner = Runner(store, opened.session.id)
    runner.steer_by_itself(3, "ignore")
    runner.start(opened.application)
    until(lambda: not runner.is_busy)
    in_browser = told(SqliteStore(store).load(opened.session.id))

    other = tmp_path / "cli.db"
    how = ("--runs", "12", "--seed", "5", "--initial", "3", "--batch", "3", "--strategy", "random")
    assert run(["sweep", "--table", str(table), *how, *options, "--store", str(other)]) == 0
    journal = SqliteStore(other)
    by_cli = journal.load(journal.experiments()[0].id)
    assert told(by_cli)[:-1] == in_browser
    reason = by_cli[-1].reason  # type: ignore[union-attr]
    assert reason in f"{runner.note[0].lower()}{runner.note[1:]}" or terms.go_on
    if terms.goal and not terms.go_on:
        assert reason.startswith("the goal of 2.5 is reached by run ")
        assert "Automatic steering ended" in runner.note
