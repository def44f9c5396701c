"""The page *AI platform* and the dashboard of a run, under Streamlit's own tester."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from assistant import MemoryStore
from assistant.applications.extensions.ai_platform import AiPlatform
from assistant.config.snapshot import config_snapshot, open_sweep
from assistant.config.sweep_file import build_sweep, check_settings
from assistant.executors.serial import SerialExecutor
from assistant.simtools.ai_platform import FULL_TRAINING, simulated_dashboard
from assistant.ui.pages import new_fields, platform
from assistant.ui.pages import platform as likeness
from assistant.ui.pages import platform as playing
from assistant.ui.pages import run as run_page
from assistant.ui.pages import run as run_platform
from assistant.ui.pages.new_form import Form
from assistant.ui.pages.new_preview import build_form
from assistant.ui.pages.new_sweep_file import form_of, write_tables
from tests.ui.screens import press, sound
from tests.ui.shell import shown
from tests.ui.stage import staged

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _nothing_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    yield
    likeness.likeness_jobs().close()
    cached: tuple[Any, ...] = (
        platform._traced, playing._played, run_platform._board, likeness.likeness_jobs,
    )  # fmt: skip
    for one in cached:
        one.clear()


def tiles(page: AppTest) -> dict[str, str]:
    return {one.label: one.value for one in page.metric}


def lines(page: AppTest) -> str:
    return " ".join(one.value for one in [*page.markdown, *page.caption, *page.info, *page.error])


def little(page: AppTest) -> AppTest:
    """Set a future that is played in no time."""
    page.number_input(key="platform-play-days").set_value(1.0)
    page.number_input(key="platform-play-models").set_value(5)
    return sound(page.run())


def test_what_is_played_is_what_a_script_gives() -> None:
    page = little(shown(platform.page))
    assert "No simulation yet: press *Play*." in lines(page)
    page = press(press(page, "platform-play-paper"), "platform-play-play")
    board, measures = simulated_dashboard(AiPlatform(days=1.0, models=5), FULL_TRAINING)
    assert tiles(page)["Pipelines"] == f"{board.summary.n_pipelines:,}"
    for sentence in board.words:
        assert sentence in lines(page)
    assert f"**{measures['cost_per_day']:,.4g} per day**" in lines(page).replace(".0 per", " per")
    page.segmented_control(key="platform-play-view").set_value("Tables")
    page = sound(page.run())
    told = [frame.value for frame in page.dataframe]
    header, rows = board.tables["Wait by resource"]
    waits = next(one for one in told if list(one.columns) == list(header))
    assert [tuple(row) for row in waits.to_numpy().tolist()] == rows


def test_a_changed_field_says_that_what_is_shown_is_older() -> None:
    page = press(little(shown(platform.page)), "platform-play-play")
    before = tiles(page)
    page.selectbox(key="platform-play-level-training_capacity").set_value(2)
    page = sound(page.run())
    assert "The settings have changed since" in lines(page)
    assert tiles(page) == before
    page = press(page, "platform-play-baseline")
    assert "The settings have changed since" not in lines(page)


def test_the_future_is_taken_along_to_new() -> None:
    page = press(little(shown(platform.page)), "platform-play-steer")
    assert page.session_state["went"] == "new"
    form = page.session_state[new_fields._DRAFT]
    assert (form.source, form.extra_tables) == (
        "platform",
        {"application": {"days": 1.0, "models": 5}},
    )


def test_a_form_of_the_platform_is_a_sweep_and_is_read_again() -> None:
    form = Form("platform", name="mine", extra_tables={"application": {"days": 2.0, "models": 7}})
    told = write_tables(form)
    assert not told.faults
    assert told.tables["application"] == {"kind": "ai_platform", "days": 2.0, "models": 7}
    assert build_form(form)[1].application == AiPlatform(days=2.0, models=7)
    again = form_of(told.tables)
    assert (again.source, again.extra_tables) == ("platform", form.extra_tables)


def test_a_trace_is_shown_and_what_is_none_is_said(tmp_path: Path) -> None:
    page = shown(platform.page)
    page.segmented_control(key="platform-what").set_value("A trace")
    page = sound(page.run())
    assert "Enter the folder of a trace" in lines(page)
    page.text_input(key="platform-folder").set_value(str(tmp_path / "none"))
    assert "a trace has pipelines, tasks and models" in lines(sound(page.run()))
    board, _ = simulated_dashboard(
        AiPlatform(days=1.0, models=5), FULL_TRAINING, tmp_path / "trace"
    )
    page.text_input(key="platform-folder").set_value(str(tmp_path / "trace"))
    page = sound(page.run())
    assert tiles(page)["Pipelines"] == f"{board.summary.n_pipelines:,}"
    assert board.words[1] in lines(page)
    page.segmented_control(key="platform-trace-view").set_value("Mean day")
    assert "Each hour is the mean of that hour of all days" in lines(sound(page.run()))


def test_a_run_shows_its_platform_and_a_waiting_one_says_why_not() -> None:
    tables = {"runs": 3, "seed": 0, "application": {"kind": "ai_platform", "days": 1, "models": 5}}
    built = build_sweep(check_settings(tables, "x"))
    session = open_sweep(built, MemoryStore(), "x", config_snapshot(tables, ()))
    session.submit_baseline()
    page = staged(run_page.page, session)
    assert "No charts: run 1 is waiting." in lines(page)
    session.run_queued(SerialExecutor(built.application))
    page = staged(run_page.page, session)
    board, measures = simulated_dashboard(AiPlatform(days=1.0, models=5), AiPlatform().baseline)
    assert session.experiment.run(1).outcome is not None
    assert session.experiment.run(1).outcome.measures == measures
    assert tiles(page)["Pipelines"] == f"{board.summary.n_pipelines:,}"
    assert not page.error


@pytest.mark.soak
def test_a_log_is_laid_beside_its_simulation() -> None:
    import time

    page = shown(platform.page)
    page.segmented_control(key="platform-what").set_value("Compare with a log")
    page = sound(page.run())
    page.segmented_control(key="platform-log-source").set_value("A file here")
    page = sound(page.run())
    assert page.button(key="platform-log-compare").disabled
    page.text_input(key="platform-log-path").set_value("none.csv")
    page = press(sound(page.run()), "platform-log-compare")
    ended = time.monotonic() + 600

    def after(page: AppTest) -> AppTest:
        while likeness.likeness_jobs().of(page.session_state["platform-log-owner"]) is not None:
            assert time.monotonic() < ended, "it does not end"
            page = sound(page.run())
        return sound(page.run())

    page = after(page)
    assert page.error
    page.segmented_control(key="platform-log-source").set_value("Built-in example")
    page = sound(page.run())
    page.number_input(key="platform-log-weeks").set_value(2)
    page = after(press(sound(page.run()), "platform-log-compare"))
    assert not page.error
    assert "samples differ from the log only by chance" in lines(page)
    assert "Profile calendar: 9" in lines(page)
