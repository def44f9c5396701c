"""A run that goes on is stopped by a script, plain HTTP, a command and the browser: one story."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from assistant import RunState
from assistant.cli.main import run as command_line
from assistant.client.api import ApiClient
from assistant.client.remote_session import RemoteSession, open_settings
from assistant.core.events import Event, ResultRefused, RunCompleted, RunReported, RunStopped
from assistant.service.experiment_service import ExperimentService
from assistant.service.store_lock import find_endpoint
from tests.ui.screens import at_page, press, sound, until
from tests.ui.test_one_story import Http

pytestmark = pytest.mark.slow

PROGRAM = """
import json, os, sys, time
until_s = time.monotonic() + 600
open(sys.argv[2], "w").write(str(os.getpid()))
for height in (9.0, 8.0, 7.0):
    print(json.dumps({"height": height}), flush=True)
while time.monotonic() < until_s:
    time.sleep(0.05)
"""


def by_script(session: RemoteSession, store: Path) -> None:
    session.stop(1, "flat by now")


def by_http(session: RemoteSession, store: Path) -> None:
    http = Http(store, session.id)
    http.post("/runs/1/stop", {"reason": "flat by now"})
    http.close()


def by_command(session: RemoteSession, store: Path) -> None:
    assert command_line(["queue", session.id, "--stop", "1", "--reason", "flat by now"]) == 0


def by_browser(session: RemoteSession, store: Path) -> None:
    page = at_page(session.id, "run")
    (table,) = [one for one in page.dataframe if "value" in one.value and "level" not in one.value]
    assert list(table.value["value"]) == ["7"]
    assert any("**Intermediate result**, " in one.value for one in page.markdown)
    page.text_input(key="end-why-1").set_value("flat by now")
    page = press(page, "end-keep-1")
    assert page.success[0].value == "Run 1 was stopped."
    assert any("Stopped early by the analyst: flat by now" in one.value for one in page.info)
    page = sound(at_page(session.id, "overview"))
    (runs,) = [one.value for one in page.dataframe if "why" in one.value]
    assert list(runs["why"]) == ["stopped early by the analyst: flat by now"]


def told(events: tuple[Event, ...]) -> list[object]:
    """What became of the run, without times; reports but the last are a matter of chance."""
    reports = [event for event in events if isinstance(event, RunReported)]
    assert len(reports) <= 4
    ends = RunCompleted | RunStopped | ResultRefused
    of_runs = [
        (type(event).__name__, event.outcome, event.reason)
        for event in events
        if isinstance(event, ends) and isinstance(event, RunStopped)
    ]
    refused = [event for event in events if isinstance(event, ResultRefused)]
    return [reports[-1].measures, of_runs, refused]


@pytest.mark.soak
def test_four_ways_to_stop_a_run_end_in_the_same_journal(
    service: ExperimentService, store: Path, tmp_path: Path
) -> None:
    service.programs = True
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    endpoint = find_endpoint(store)
    assert endpoint is not None
    link = ApiClient(endpoint.url, endpoint.token)
    event_logs = []
    ways: list[Callable[[RemoteSession, Path], None]] = [
        by_script, by_http, by_command, by_browser,
    ]  # fmt: skip
    for way in ways:
        pid = tmp_path / f"{way.__name__}.pid"
        command = [sys.executable, str(program), "{x}", str(pid)]
        tables = {
            "runs": 4,
            "seed": 3,
            "application": {
                "kind": "command", "command": command, "measures": {"stdout": "last_line"},
            },
            "objective": {"minimise": "height"},
            "parameters": [{"name": "x", "levels": [1, 2]}],
        }  # fmt: skip
        session = open_settings(link, tables, way.__name__)
        session.include({"x": 1})
        session.start()

        def reported(session: RemoteSession = session) -> bool:
            session.catch_up()
            return session.experiment.run(1).reported == {"height": 7.0}

        until(reported)
        way(session, store)
        until(lambda pid=pid: not alive(int(pid.read_text())))  # type: ignore[misc]
        session.catch_up()
        run = session.experiment.run(1)
        assert run.state is RunState.COMPLETED
        assert run.stopped == "flat by now"
        shown = json.loads(json.dumps(link.get(f"/v1/experiments/{session.id}/runs/1")))
        assert (shown["stopped"], shown["value"]) == ("flat by now", 7.0)
        assert shown["reported_s"] is not None
        event_logs.append(told(session.events()))
    link.close()
    assert event_logs[1:] == event_logs[:1] * 3


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
