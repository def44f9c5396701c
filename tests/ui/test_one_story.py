"""One story, told in the browser, by a script, over HTTP, by MCP and a command: one journal."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from assistant import Experiment, RunState, Session
from assistant.cli.main import run
from assistant.cli.mcp_access import McpRole
from assistant.core.events import (
    AutoSteeringChanged,
    Event,
    RunCompleted,
    RunPrioritised,
    RunRated,
    RunSubmitted,
    ToolCalled,
)
from assistant.core.sla import AutoSteering
from assistant.executors.serial import SerialExecutor
from assistant.service.experiment_service import ExperimentService
from assistant.service.store_lock import find_endpoint
from assistant.store.event_store import SqliteStore
from assistant.ui.pages.new_form import Form
from assistant.ui.pages.new_preview import NewExperiment, open_from
from tests.story.test_mcp import call, drive, server
from tests.ui.screens import at_page, desk_in, go, press, sound, until, until_done

pytestmark = pytest.mark.slow


def told(events: tuple[Event, ...]) -> list[object]:
    """What happened, without times and identifiers; who hands over is told apart."""
    lines: list[object] = []
    for event in events:
        match event:
            case RunSubmitted():
                lines.append((event.source, event.configuration, event.seed, event.reason))
            case RunCompleted():
                lines.append((event.run_id, event.outcome))
            case RunRated():
                lines.append((event.run_id, event.good))
            case RunPrioritised():
                lines.append((event.run_id, event.priority))
            case AutoSteeringChanged() | ToolCalled():
                continue
            case _:
                lines.append(type(event).__name__)
    return lines


def fresh(store: Path, table: Path) -> NewExperiment:
    return open_from(Form("table", str(table), runs=12, seed=3), store)


def other_x(experiment: Experiment, position: int) -> int:
    """Return a level of x that makes the suggestion a configuration that nobody has."""
    batch = experiment.batches[-1]
    values = dict(experiment.space.values(batch.suggestions[position].configuration))
    offered = {one.configuration for one in batch.suggestions}
    for x in (1, 2, 3, 4):
        if experiment.space.from_values({**values, "x": x}) not in offered:
            return x
    raise AssertionError("every level is taken")


def by_script(opened: NewExperiment) -> None:
    session, executor = opened.session, SerialExecutor(opened.application)
    first = session.initial_evaluation(5)
    edits = {2: {"x": other_x(session.experiment, 2)}}
    session.submit(first, keep=[1, 2, 3, 4], edits=edits)
    session.run_first(3)
    session.hold(2)
    session.run_queued(executor)
    session.release(2)
    session.run_queued(executor)
    best = session.experiment.best
    assert best is not None
    session.rate(best.id, True)
    session.close_level("y", 1)
    session.submit(session.suggest(3))
    session.run_queued(executor)
    session.finish("seen enough")


def by_browser(store: Path, opened: NewExperiment) -> None:
    name = opened.session.id
    page = press(at_page(name, "suggestions"), "suggest")
    view_model = desk_in(page, store)
    edits = {0: {"take": False}, 2: {"x": str(other_x(view_model.experiment, 2))}}
    page.session_state[page.data_editor[0].key] = {
        "edited_rows": edits, "added_rows": [], "deleted_rows": [],
    }  # fmt: skip
    page = press(sound(page.run()), "submit-1")
    page = go(page, "queue")
    page = press(chosen(page, 3), "queue-first")
    page = press(chosen(page, 2), "queue-hold")
    page = press(page, "start-runs")
    until(lambda: len(view_model.refresh(now=True).experiment.runs_in(RunState.COMPLETED)) == 3)
    page = sound(page.run())
    if [one for one in page.button if one.key == "queue-refresh"]:
        page = press(page, "queue-refresh")
    page = until_done(press(chosen(page, 2), "queue-release"), store)
    page = go(page, "overview")
    best = view_model.refresh(now=True).experiment.best
    assert best is not None
    page = press(sound(page.selectbox(key=f"rated-{name}").set_value(best.id).run()), "rate-Good")
    page = go(page, "steering")
    page.selectbox(key="close-level").set_value(("y", 1))
    page = go(press(page, "close"), "suggestions")
    page.number_input(key=f"n-{name}").set_value(3)
    page = press(page, "suggest")
    page = until_done(press(page, "submit-2"), store)
    page = go(page, "steering")
    page.text_input(key="finish-reason").set_value("seen enough")
    page.checkbox(key="finish-sure").check().run()
    press(page, "finish")


def chosen(page: Any, run_id: int) -> Any:
    """Tick the row of a waiting run in the frozen list of the queue."""
    for table in page.dataframe:
        frame = table.value
        if "run" in frame.columns and run_id in list(frame["run"]):
            row = list(frame["run"]).index(run_id)
            page.session_state[table.key] = {"selection": {"rows": [row], "columns": []}}
            return sound(page.run())
    raise AssertionError(f"run {run_id} is in no list")


class Http:
    """Requests as any program would send them."""

    def __init__(self, store: Path, name: str) -> None:
        endpoint = find_endpoint(store)
        assert endpoint is not None
        headers = {"Authorization": f"Bearer {endpoint.token}"}
        base = f"{endpoint.url}/v1/experiments/{name}"
        self._http = httpx.Client(base_url=base, headers=headers, trust_env=False)

    def post(self, path: str, body: dict[str, Any] | None = None, method: str = "POST") -> Any:
        answer = self._http.request(method, path, json=body)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    def runs(self, state: str) -> list[dict[str, Any]]:
        return list(self._http.get("/runs", params={"state": state}).json())

    def close(self) -> None:
        self._http.close()

    def until_over(self, n_held: int = 0) -> None:
        until(lambda: len(self.runs("queued")) == n_held and not self.runs("running"))


def by_http(store: Path, opened: NewExperiment) -> None:
    session: Session = opened.session
    http = Http(store, session.id)
    http.post("/suggestions", {"n": 5, "kind": "initial"})
    session.catch_up()
    edits = {"2": {"x": other_x(session.experiment, 2)}}
    http.post("/batches/1/submission", {"keep": [1, 2, 3, 4], "edits": edits})
    http.post("/runs/3", {"priority": "first"}, method="PATCH")
    http.post("/runs/2/hold")
    http.post("/start")
    http.until_over(1)
    http.post("/pause")
    http.post("/runs/2/release")
    http.post("/start")
    http.until_over()
    best = min(http.runs("completed"), key=lambda run: run["value"])
    http.post(f"/runs/{best['run']}/rating", {"good": True})
    http.post("/levels", {"change": "close", "parameter": "y", "value": 1})
    http.post("/suggestions", {"n": 3})
    http.post("/batches/2/submission", {})
    http.until_over()
    http.post("/finish", {"reason": "seen enough"})
    http.close()


def test_browser_script_and_rest_end_in_the_same_journal(
    service: ExperimentService, store: Path, table: Path
) -> None:
    one, two, three = (fresh(store, table) for _ in range(3))
    by_script(one)
    by_browser(store, two)
    by_http(store, three)
    kept = SqliteStore(store)
    event_log = told(kept.load(one.session.id))
    assert event_log[-1] == "ExperimentFinished"
    assert told(kept.load(two.session.id)) == event_log
    assert told(kept.load(three.session.id)) == event_log


def by_mcp(store: Path, opened: NewExperiment) -> None:
    """Suggest, edit and submit as a client of the protocol; the service executes."""
    http, session = Http(store, opened.session.id), opened.session

    async def steps(client: Any) -> None:
        about: dict[str, Any] = {"experiment": session.id}
        await call(client, "suggest", n=5, kind="initial", why="a start", **about)
        session.catch_up()
        edits = {"2": {"x": other_x(session.experiment, 2)}}
        await call(client, "submit", number=1, keep=[1, 3], edits=edits, why="these", **about)
        http.post("/start")
        http.until_over()
        await call(client, "suggest", n=3, why="the next", **about)
        await call(client, "submit", number=2, why="all of them", **about)
        http.until_over()

    drive(server(store, McpRole.STEERS, 6), steps)
    http.close()


def test_a_client_of_mcp_a_script_and_the_browser_end_in_the_same_journal(
    service: ExperimentService, store: Path, table: Path
) -> None:
    one, two, three = (fresh(store, table) for _ in range(3))
    by_mcp(store, one)
    session, executor = two.session, SerialExecutor(two.application)
    first = session.initial_evaluation(5)
    session.submit(first, keep=[1, 3], edits={2: {"x": other_x(session.experiment, 2)}})
    session.run_queued(executor)
    session.submit(session.suggest(3))
    session.run_queued(executor)
    page = press(at_page(three.session.id, "suggestions"), "suggest")
    experiment = desk_in(page, store).experiment
    edits = {0: {"take": False}, 2: {"x": str(other_x(experiment, 2))}, 4: {"take": False}}
    page.session_state[page.data_editor[0].key] = {
        "edited_rows": edits, "added_rows": [], "deleted_rows": [],
    }  # fmt: skip
    page = go(press(sound(page.run()), "submit-1"), "queue")
    page = go(until_done(press(page, "start-runs"), store), "suggestions")
    page.number_input(key=f"n-{three.session.id}").set_value(3)
    until_done(press(press(page, "suggest"), "submit-2"), store)
    logs = [told(SqliteStore(store).load(each.session.id)) for each in (one, two, three)]
    assert logs[0].count("BatchSuggested") == 2
    assert logs[0] == logs[1]
    assert logs[0] == logs[2]


@pytest.mark.parametrize("answer", ["accept", "ignore"])
def test_a_command_and_a_service_that_steers_end_in_the_same_journal(
    service: ExperimentService, store: Path, tmp_path: Path, answer: Any
) -> None:
    table = tmp_path / "bowl.csv"
    cells = [(x, y) for x in range(12) for y in range(12)]
    rows = "".join(f"{x},{y},{(x - 7) ** 2 + (y - 4) ** 2}\n" for x, y in cells)
    table.write_text(f"x,y,objective\n{rows}")
    opened = open_from(Form("table", str(table), runs=32, seed=3, strategy="copper"), store)
    opened.session.set_auto_steering(AutoSteering(4, 4, answer))
    page = until_done(press(at_page(opened.session.id), "start-runs"), store)
    steered = SqliteStore(store).load(page.session_state["experiment"])

    other = tmp_path / "cli.db"
    options = [
        "--runs",
        "32",
        "--seed",
        "3",
        "--initial",
        "4",
        "--batch",
        "4",
        "--warnings",
        answer,
        "--strategy",
        "copper",
    ]
    assert run(["sweep", "--table", str(table), *options, "--store", str(other)]) == 0
    event_log = SqliteStore(other)
    by_cli = event_log.load(event_log.experiments()[0].id)

    assert told(by_cli)[-1] == "ExperimentFinished"  # the service leaves that to the person
    assert told(by_cli)[:-1] == told(steered)
    assert "WarningIssued" in told(by_cli)
    reasons = [event.reason for event in steered if isinstance(event, AutoSteeringChanged)]
    assert by_cli[-1].reason == reasons[-1]  # type: ignore[union-attr]
