"""Every run as a section: its table, the verdict, and running it again."""

from assistant import Session, open_session
from assistant.executors.serial import SerialExecutor
from assistant.store.event_store import MemoryStore
from assistant.ui.pages import overview_results
from tests.assistant.examples import TODAY, Bowl, TickingClock
from tests.ui.screens import press, sound
from tests.ui.stage import staged


def opened() -> Session:
    return open_session(
        Bowl(baseline=TODAY), store=MemoryStore(), clock=TickingClock(), experiment_id="bowl"
    )


def test_before_the_first_run_there_is_no_table() -> None:
    assert len(staged(overview_results.runs_section, opened()).dataframe) == 0


def test_runs_are_shown_with_their_states_the_latest_first() -> None:
    session = opened()
    for x in (2, 1, 3):
        session.include({"x": x, "y": 0, "mode": "plain"})
    session.run_queued(SerialExecutor(Bowl(fail_at_x=3)))
    for y in (1, 2):
        session.include({"x": 0, "y": y, "mode": "plain"}, "held and cancelled")
    session.hold(4)
    session.cancel(5, "not needed")
    table = staged(overview_results.runs_section, session).dataframe[0].value
    assert list(table["run"]) == [5, 4, 3, 2, 1]
    assert list(table["state"]) == ["cancelled", "held", "failed", "completed", "best"]
    assert list(table["why"])[:3] == ["not needed", "held and cancelled", "x = 3 does not work"]


def test_a_result_is_rated_and_run_again() -> None:
    session = opened()
    for x in (2, 1):
        session.include({"x": x, "y": 0, "mode": "plain"})
    session.run_queued(SerialExecutor(Bowl()))
    page = staged(overview_results.runs_section, session)
    assert page.selectbox(key="rated-bowl").value == 1, "the best one first"
    page = press(sound(page.selectbox(key="rated-bowl").set_value(2).run()), "rate-Bad")
    assert session.experiment.run(2).good is False
    assert "Run 2 is bad." in page.success[0].value
    page = press(page, "rate-No verdict")
    assert session.experiment.run(2).good is None
    page = press(page, "replicate")
    assert "Run 2 is repeated as run 3." in page.success[0].value
    assert session.experiment.run(3).source == "replicate"


def test_what_never_varies_is_not_run_again() -> None:
    class Sure(Bowl):
        deterministic = True

    session = open_session(Sure(), store=MemoryStore(), clock=TickingClock())
    session.include({"x": 2, "y": 0, "mode": "plain"})
    session.run_queued(SerialExecutor(Sure()))
    page = staged(overview_results.runs_section, session)
    assert "replicate" not in [button.key for button in page.button]
