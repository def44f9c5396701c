"""The warning by the forecast on the page, its alternatives, and weights of regions."""

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from assistant import Session, load_session
from assistant.core.events import Event
from assistant.core.forecast import percent
from assistant.service.experiment_service import ExperimentService
from assistant.store.event_store import MemoryStore, SqliteStore
from assistant.ui.pages import steering, suggestions
from tests.assistant.warned import journal_with_a_warning
from tests.ui.screens import at_page, press, sound
from tests.ui.screens import shown as said
from tests.ui.stage import staged


@pytest.fixture(scope="module")
def warned_events() -> tuple[Event, ...]:
    return journal_with_a_warning()


@pytest.fixture
def stored(warned_events: tuple[Event, ...]) -> Session:
    opened = MemoryStore()
    opened.append("hills", 0, warned_events)
    return load_session(opened, "hills")


def drawn(session: Session) -> AppTest:
    return staged(suggestions.warning_section, session)


def test_alternatives_stand_with_their_chances_and_one_is_accepted(stored: Session) -> None:
    warning = stored.experiment.open_warning
    assert warning is not None
    page = drawn(stored)
    assert page.warning[0].value == f"**{warning.heading}.** {warning.text}"
    shown = " ".join(one.value for one in page.markdown)
    for one in warning.alternatives:
        assert one.chance is not None
        assert f"{one.text[1:]}, chance {percent(one.chance)}" in shown
    which = [one.kind for one in warning.alternatives].index("strategy")
    page = press(page, f"accept-1-{which}")
    assert "Accepted" in page.success[0].value
    experiment = stored.experiment
    assert experiment.open_warning is None
    assert experiment.steering == warning.alternatives[which].steering
    assert not page.warning or warning.text not in page.warning[0].value


def test_it_is_ignored_or_changed(stored: Session) -> None:
    page = drawn(stored)
    press(page, "ignore-1")
    experiment = stored.experiment
    warning = experiment.warnings[0]
    given = experiment.answer_to(warning)
    assert given is not None
    assert given.answer == "ignored"


def test_it_is_changed_to_another_share(stored: Session) -> None:
    page = drawn(stored)
    page = sound(page.slider(key="share-hills-1").set_value(40).run())
    press(page, "change-1")
    assert stored.experiment.steering.exploitation == 0.4


def test_a_region_is_weighed(stored: Session) -> None:
    stored.change_strategy(exploitation=0.5)
    page = staged(steering.weights_section, stored)
    page = sound(page.number_input(key="weigh-1-1.0").set_value(0.0).run())
    page = press(page, "weigh")
    assert "Region 1 has the weight 0 from now on" in page.success[0].value
    ((_, weight),) = stored.experiment.steering.weights
    assert weight == 0.0


def test_it_is_answered_from_overview(
    service: ExperimentService, store: Path, warned_events: tuple[Event, ...]
) -> None:
    SqliteStore(store).append("hills", 0, warned_events)
    page = at_page("hills")
    assert "Needs you: warning 1 waits for your answer." in said(page)
    assert not page.warning, "the first screen shows how far it is"
    page = press(page, "next-step")
    assert page.warning
    page = press(page, "next-step")
    assert not page.warning, "it can wait"
    page = press(press(page, "next-step"), "ignore-1")
    assert not page.warning
    assert load_session(SqliteStore(store), "hills").experiment.open_warning is None
    assert "waits for your answer" not in said(page)
