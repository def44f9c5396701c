"""The page Run shows the machines of a run of `placement`, or says why not."""

import pytest

from assistant.applications.extensions.placement import FleetPlacement
from assistant.config.snapshot import config_snapshot, open_sweep
from assistant.config.sweep_file import build_sweep, check_settings
from assistant.executors.serial import SerialExecutor
from assistant.simtools.application_views import fleet_drawing
from assistant.store.event_store import MemoryStore
from assistant.ui.pages import run as run_page
from tests.ui.stage import staged

pytestmark = pytest.mark.slow


def test_a_run_shows_its_machines_and_a_waiting_one_says_why_not() -> None:
    tables = {"runs": 3, "application": {"kind": "placement", "duration": "2h"}}
    built = build_sweep(check_settings(tables, "x"))
    session = open_sweep(built, MemoryStore(), "x", config_snapshot(tables, ()))
    session.submit_baseline()
    page = staged(run_page.page, session)
    assert "No picture: run 1 is waiting." in [info.value for info in page.info]
    session.run_queued(SerialExecutor(built.application))
    page = staged(run_page.page, session)
    assert not page.exception
    assert isinstance(built.application, FleetPlacement)
    drawn, _ = fleet_drawing(built.application, built.application.baseline)
    captions = [caption.value for caption in page.caption]
    for panel in drawn.panels:
        most = ", ".join(f"{name} {max(series):.3g}" for name, series in panel.series.items())
        assert f"{panel.title}; at most: {most}" in captions
