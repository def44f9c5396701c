"""The script under Streamlit's own tester: pages by name, and waiting for the runner."""

import time
from collections.abc import Callable
from pathlib import Path

from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash

from assistant import RunState
from assistant.ui.runner import Runner, runner_of

SCRIPT = str(Path(__file__).resolve().parents[2] / "streamlit_app.py")


def first_page() -> AppTest:
    return sound(AppTest.from_file(SCRIPT, default_timeout=60).run())


def go(page: AppTest, name: str) -> AppTest:
    page._page_hash = calc_hash(name)
    return sound(page.run())


def press(page: AppTest, key: str) -> AppTest:
    return sound(page.button(key=key).click().run())


def sound(page: AppTest) -> AppTest:
    assert not page.exception, [e.value for e in page.exception]
    return page


def runner_in(page: AppTest, store: Path) -> Runner:
    return runner_of(str(store), page.session_state["experiment"])


def until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def until_done(page: AppTest, store: Path) -> AppTest:
    runner = runner_in(page, store)
    until(lambda: not runner.is_busy)
    assert runner.error is None
    assert not runner.experiment.runs_in(RunState.QUEUED, RunState.RUNNING)
    return sound(page.run())


def editor_key(page: AppTest, batch: int, version: int = 0) -> str:
    return f"editor-{page.session_state['experiment']}-{batch}-{version}"


def edit(page: AppTest, batch: int, rows: dict[int, dict[str, object]]) -> AppTest:
    page.session_state[editor_key(page, batch)] = {
        "edited_rows": rows,
        "added_rows": [],
        "deleted_rows": [],
    }
    return sound(page.run())
