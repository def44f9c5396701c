"""The page Run shows the machines of a run of `placement`, or says why not."""

import pytest

from assistant.applications import Placing
from assistant.applications.placement_view import fleet_drawing
from assistant.executors import SerialExecutor
from assistant.settings import build_sweep, check_settings
from assistant.starting import open_sweep, recipe
from assistant.store import MemoryStore
from assistant.ui.run import page as run_page
from tests.ui.stage import staged

pytestmark = pytest.mark.slow


def test_a_run_shows_its_machines_and_a_waiting_one_says_why_not() -> None:
    tables = {"runs": 3, "application": {"kind": "placement", "duration": "2h"}}
    built = build_sweep(check_settings(tables, "x"))
    session = open_sweep(built, MemoryStore(), "x", recipe(tables, ()))
    session.submit_baseline()
    page = staged(run_page.page, session)
    assert "No picture: run 1 is queued." in [info.value for info in page.info]
    session.run_queued(SerialExecutor(built.application))
    page = staged(run_page.page, session)
    assert not page.exception
    assert isinstance(built.application, Placing)
    drawn, _ = fleet_drawing(built.application, built.application.baseline)
    captions = [caption.value for caption in page.caption]
    for panel in drawn.panels:
        most = ", ".join(f"{name} {max(series):.3g}" for name, series in panel.series.items())
        assert f"{panel.title}; at most: {most}" in captions
