"""What the pages say of a broken program, and how a person goes on after the repair."""

from agents import Follower
from assistant import Session, Sla, open_session
from assistant.executors.serial import SerialExecutor
from assistant.store.event_store import MemoryStore
from assistant.ui.pages import overview, report, steering
from tests.assistant.examples import TODAY, Bowl, TickingClock
from tests.ui.screens import press
from tests.ui.stage import staged


def broken() -> Session:
    bowl = Bowl(TODAY, fail_at_x=0)
    session = open_session(
        bowl, store=MemoryStore(), clock=TickingClock(), sla=Sla(9), experiment_id="bowl"
    )
    session.finish(Follower().steer(session, SerialExecutor(bowl)))
    return session


def test_the_report_page_does_not_call_the_budget_met() -> None:
    page = staged(report.page, broken())  # type: ignore[arg-type]
    assert page.warning[0].value.startswith("**The only run gave no result.**")
    (terms,) = [frame.value for frame in page.dataframe if "term" in frame.value]
    assert terms.to_dict("records") == [
        {"term": "Runs", "value": "9 runs", "used": "1 used", "state": "failed"}
    ]


def test_a_person_reopens_it_and_the_failed_run_is_repeated() -> None:
    session = broken()
    page = staged(steering.page, session)
    assert "run 1, the current configuration, failed: x = 0 does not work" in page.info[0].value
    press(page, "go-on-repaired")
    assert session.experiment.finished is None
    bowl = Bowl(TODAY)
    Follower().steer(session, SerialExecutor(bowl))
    assert session.experiment.baseline == session.experiment.run(2)
    assert session.experiment.run(2).reason == "repeat of run 1, which failed before the repair"


def test_a_changed_budget_keeps_the_switch() -> None:
    session = open_session(
        Bowl(), store=MemoryStore(), sla=Sla(40, keep_going=True), experiment_id="bowl"
    )
    page = staged(steering.page, session)
    key = f"budget-bowl-{hash(session.experiment.sla)}"
    assert page.checkbox(key=f"{key}-keep-going").value
    page.checkbox(key=f"{key}-go-on").set_value(True)
    press(page, "change-budget")
    assert session.experiment.sla == Sla(40, at_goal="go_on", keep_going=True)


def test_the_tile_compares_in_words() -> None:
    session = open_session(Bowl(TODAY), store=MemoryStore(), clock=TickingClock())
    session.import_results([(TODAY, {"height": 7.0}), ({**TODAY, "x": 1}, {"height": 2.0})])
    page = staged(overview.page, session)  # type: ignore[arg-type]
    tiles = {tile.label: (tile.value, tile.delta) for tile in page.metric}
    assert tiles["Best"] == ("2", "71.4 % lower than current")
