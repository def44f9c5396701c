"""One story: the list, a page, the terminal, the API and the report say the same state."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from assistant import Session, WarningPolicy, load_session
from assistant.analysis.experiment_state import ExperimentState, NextStep, StateName
from assistant.cli.main import run
from assistant.core.events import RunFailed, RunStarted
from assistant.core.sla import AutoSteering
from assistant.executors.serial import SerialExecutor
from assistant.presentation.report.data import collect
from assistant.presentation.report.html import render_html
from assistant.service.experiment_service import ExperimentService
from assistant.service.store_connection import needs_service
from assistant.session.execution import ExecutionLock
from assistant.store.event_store import SqliteStore
from assistant.ui.pages.new_form import Form
from assistant.ui.pages.new_preview import NewExperiment, open_from
from tests.service.housed import housed
from tests.ui.screens import at_page, first_page, go, shown

COMMAND = """
runs = 6
[application]
kind = "command"
command = ["true", "{x}"]
[objective]
minimise = "wall_s"
[[parameters]]
name = "x"
levels = [1, 2, 3, 4, 5, 6, 7, 8]
"""
"""A program; the missing row of a measured table is no broken program."""


@pytest.fixture
def unmanned(store: Path) -> Iterator[ExperimentService]:
    """The store is served, and no worker executes anything."""
    with housed(store, executes=False, works=False) as service:
        yield service


def submitted(new: NewExperiment) -> None:
    new.session.submit(new.session.initial_evaluation(2))


def used_up(new: NewExperiment) -> None:
    new.session.submit(new.session.initial_evaluation(6))
    new.session.run_queued(SerialExecutor(new.application))


def ended_by_auto_steering(new: NewExperiment) -> None:
    new.session.set_auto_steering(AutoSteering())
    used_up(new)
    new.session.set_auto_steering(None, "the budget of 6 runs is used up")


def broken(new: NewExperiment) -> None:
    session = new.session
    session.submit(session.initial_evaluation(3))
    for run_id in (1, 2, 3):
        session.take([RunStarted(session.now_s(), run_id)])
        session.take([RunFailed(session.now_s(), run_id, "no such file: lean.py", 1.0)])
    session.finish("the first 3 runs failed alike")


def suggested(new: NewExperiment) -> None:
    new.session.suggest(2)


@pytest.mark.parametrize(
    ("prepare", "how", "name", "step", "button"),
    [
        (submitted, "executed", StateName.RUNNING, NextStep.NONE, None),
        (submitted, "active", StateName.WAITING, NextStep.WORKER, None),
        (submitted, "", StateName.PAUSED, NextStep.START, "start-runs"),
        (suggested, "active", StateName.NEEDS_YOU, NextStep.DECIDE, "next-step"),
        (used_up, "active", StateName.FINISHED, NextStep.REPORT, "next-step"),
        (ended_by_auto_steering, "active", StateName.FINISHED, NextStep.REPORT, "next-step"),
        (broken, "", StateName.FAILED, NextStep.CORRECT, "next-step"),
    ],
)
def test_list_page_terminal_api_and_report_say_the_same(
    unmanned: ExperimentService, store: Path, table: Path, capsys: pytest.CaptureFixture[str],
    prepare: Callable[[NewExperiment], None], how: str, name: StateName, step: NextStep,
    button: str | None,
) -> None:  # fmt: skip
    form = Form("file", text=COMMAND) if prepare is broken else Form("table", str(table), runs=6)
    new = open_from(form, store)
    prepare(new)
    with ExitStack() as stack:
        if how == "executed":
            stack.enter_context(ExecutionLock(store, new.session.id))
        unmanned.queue.set_active(new.session.id, how == "active")
        link = needs_service(store)
        told = link.get(f"/v1/experiments/{new.session.id}")["state"]
        assert (told["name"], told["next_step"]) == (name, step)
        state = ExperimentState(name, told["reason"], step, told["command"])
        assert told["icon"] == state.icon

        bodies = [str(html.proto.body) for html in first_page().get("html")]
        (row,) = (body for body in bodies if body.startswith('<div class="cl-row">'))
        assert f"{state.icon} {name}" in row

        page = at_page(new.session.id)
        words = f"**{state.icon} {state.sentence}**"  # a button says the next step
        for at in ("overview", "queue", "report"):
            page = go(page, at)
            assert words in shown(page)
            assert step is not NextStep.WORKER or f"** {step}" in shown(page), "no button says it"
            assert not any(said in shown(page) for said in ("Auto-steering ended", "Ready"))
        page = go(page, "overview")
        pressable = {"pause-runs", "start-runs", "next-step"}
        assert [one.key for one in page.button if one.key in pressable] == [button][: bool(button)]

        capsys.readouterr()
        assert run(["experiments", "--json"]) == 0
        (listed,) = json.loads(capsys.readouterr().out)["experiments"]
        assert listed["state"] == told
        assert run(["queue"]) == 0
        out = capsys.readouterr().out
        assert f"{state.icon} {state.sentence}\n{step.removesuffix('.')}" in out
        report = render_html(collect(new.session.experiment, state=state))
        # who reads the report is not told to read it
        told_there = state.sentence if step == NextStep.REPORT else f"{state.sentence} {step}"
        assert f'<p id="state">{state.icon} {told_there}</p>' in report


def test_steer_says_nothing_of_resuming_while_the_sweep_runs(
    unmanned: ExperimentService, store: Path, table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new = open_from(Form("table", str(table), runs=6), store)
    submitted(new)
    with ExecutionLock(store, new.session.id):
        assert run(["steer", "--runs", "7"]) == 0
    out = capsys.readouterr().out
    assert "► Running: 2 runs wait.\nNothing to do." in out
    assert "resume" not in out
    assert run(["steer", "--runs", "8"]) == 0
    assert f"Start the runs with: copperline resume {new.session.id}" in capsys.readouterr().out


def test_an_answer_that_waits_has_no_tick_and_leads_to_its_page(
    unmanned: ExperimentService, store: Path, table: Path
) -> None:
    new = open_from(Form("table", str(table), runs=6), store)
    new.session.change_warning_policy(WarningPolicy(rule="paper"))
    for x, y in ((4, 4), (4, 3), (3, 4), (3, 3)):
        new.session.include({"x": x, "y": y})
    new.session.run_queued(SerialExecutor(new.application))
    new.session.change_warning_policy(WarningPolicy(rule="paper"))
    new.session.initial_evaluation(1)
    new.session.suggest(2)
    new.session.set_auto_steering(AutoSteering(warnings="wait"))
    unmanned.queue.set_active(new.session.id, True)
    session: Session = load_session(SqliteStore(store), new.session.id)
    assert session.experiment.open_warning is not None
    page = at_page(new.session.id)
    assert "Needs you: warning 1 waits for your answer.**" in shown(page)
    assert ":material/check_circle:" not in shown(page)
    assert page.button(key="next-step").label == "Answer the warning"
    assert "Expected end" not in [tile.label for tile in page.metric]
