"""The script under Streamlit's own tester: pages by name, and waiting for the service."""

import time
from collections.abc import Callable
from pathlib import Path

from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash

from assistant import RunState
from assistant.service.browser_access import AccessPolicy, BrowserAccess
from assistant.ui.state import ExperimentViewModel, service_connection

# Streamlit's tester has no server; a page only asks whether the access control is in this process.
BrowserAccess(lambda *_: None, AccessPolicy(), "")  # type: ignore[arg-type,return-value]

SCRIPT = str(Path(__file__).resolve().parents[2] / "streamlit_app.py")


def first_page() -> AppTest:
    return sound(AppTest.from_file(SCRIPT, default_timeout=300).run())


def at_page(experiment_id: str, name: str = "overview") -> AppTest:
    """Return a page of an experiment, as a link to it opens it."""
    page = AppTest.from_file(SCRIPT, default_timeout=300)
    page.query_params["e"] = experiment_id
    return go(page, name)


def go(page: AppTest, name: str) -> AppTest:
    page._page_hash = calc_hash(name)
    return sound(page.run())


def press(page: AppTest, key: str) -> AppTest:
    return sound(page.button(key=key).click().run())


def sound(page: AppTest) -> AppTest:
    assert not page.exception, [e.value for e in page.exception]
    return page


def desk_in(page: AppTest, store: Path) -> ExperimentViewModel:
    view_model = service_connection(str(store)).view_model(page.session_state["experiment"])
    view_model.refresh(now=True)
    return view_model


def until(condition: Callable[[], bool], seconds: float = 240.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def until_done(page: AppTest, store: Path) -> AppTest:
    """Wait until nothing waits, goes on or steers itself; draw the page again."""
    view_model = desk_in(page, store)

    def done() -> bool:
        experiment = view_model.refresh(now=True).experiment
        return experiment.auto_steering is None and not experiment.runs_in(
            RunState.QUEUED, RunState.RUNNING
        )

    until(done)
    return sound(page.run())


def shown(page: AppTest) -> str:
    """Return everything that the page says in words."""
    kinds = (page.title, page.subheader, page.success, page.error, page.info, page.warning)
    kinds = (*kinds, page.caption, page.markdown)
    return " ".join(str(one.value) for kind in kinds for one in kind)
