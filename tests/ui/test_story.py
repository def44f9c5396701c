"""The whole story in a real Chromium over ``copperline app``, with the network watched.

Nothing waits for a fixed time: every step waits for what the step before did (`Screen`).
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from assistant import RunState, Session, load_session
from assistant.config.snapshot import config_snapshot, open_sweep
from assistant.config.sweep_file import build_sweep, check_settings
from assistant.core.events import RunSubmitted, WarningAnswered
from assistant.executors.serial import SerialExecutor
from assistant.store.event_store import SqliteStore
from assistant.ui.app import PAGES
from assistant.ui.pages.new_form import Form
from assistant.ui.pages.new_preview import open_from
from assistant.ui.sla_fields import SlaFields
from benchmarks.browsing import KeptUp, browsing, kept_up
from benchmarks.screen import Screen
from sim.formats import write_swf
from sim.generators import default_workload
from tests.assistant.examples import Hills

pytestmark = pytest.mark.browser

LIST = "your list of runs, with the reason of each"
PHONE = {"width": 390, "height": 844}
WAITING = "waiting runs, in their order"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "story.db"


@pytest.fixture
def up(chromium: str, store: Path, repository: Path) -> Iterator[KeptUp]:
    with kept_up(store, repository) as found:
        yield found


@contextmanager
def looking(up: KeptUp) -> Iterator[Callable[[], Screen]]:
    """Yield what opens a screen; nothing may complain, and no request leave this machine."""
    screens: list[Screen] = []
    with browsing(up.address) as opened:

        def screen() -> Screen:
            screens.append(Screen(opened(), up.url))
            return screens[-1]

        try:
            yield screen
        except BaseException as error:
            for one in screens:  # what a person would see
                error.add_note(f"{one.page.url}\n{one.page.locator('body').aria_snapshot()}")
                error.add_note(f"the browser complained of {one.watched.errors}")
            error.add_note(f"the app printed\n{up.printed.read_text()}")
            raise
        for one in screens:
            assert one.watched.strangers == []
            assert one.watched.complaints == []


def submit(n: int) -> re.Pattern[str]:
    return re.compile(f"^Submit {n} runs? ")  # and its shortcut


def latest(store: Path) -> Session:
    kept = SqliteStore(store)
    return load_session(kept, kept.experiments()[0].id)


def bowl(tmp_path: Path, store: Path, n_done: int = 0, **more: Any) -> Session:
    """Return an experiment over a measured table, with so many results."""
    table = tmp_path / "measured.csv"
    cells = [(x, y) for x in range(1, 9) for y in range(1, 9)]
    rows = "".join(f"{x},{y},{(4 - x) ** 2 + (4 - y) ** 2 + 1}\n" for x, y in cells)
    table.write_text(f"x,y,objective\n{rows}")
    opened = open_from(Form("table", str(table), runs=30, seed=3, **more), store)
    if n_done:
        opened.session.submit(opened.session.initial_evaluation(n_done))
        opened.session.run_queued(SerialExecutor(opened.application))
    return opened.session


def steered(tmp_path: Path, store: Path) -> Session:
    """Return an auto-steered experiment over a table; its goal is out of reach, so it asks."""
    function, table = Hills(), tmp_path / "hills.csv"
    lines = ["a,b,c,d,mode,objective"]
    for a, b, c, d, mode in product(range(5), range(5), range(5), range(5), ("good", "bad")):
        values = {"a": a, "b": b, "c": c, "d": d, "e": 0, "mode": mode}
        lines.append(f"{a},{b},{c},{d},{mode},{function.evaluate(values, 0)['height']}")
    table.write_text("\n".join(lines) + "\n")
    form = Form("table", str(table), "hills", runs=50, seed=3, strategy="copper", warnings="wait")
    opened = open_from(replace(form, terms=SlaFields(goal="-20")), store)
    opened.session.set_auto_steering(opened.auto_steering)
    return opened.session


def gated(store: Path, gate: Path) -> Session:
    """Return an experiment with six runs that wait, none of which ends before the gate is there."""
    waits = 'until [ -e "$1" ]; do sleep 0.05; done'
    said = {
        "runs": 12,
        "application": {
            "kind": "command", "command": ["sh", "-c", waits, "sh", str(gate), "{x}"],
        },
        "objective": {"minimise": "wall_s"},
        "parameters": [{"name": "x", "levels": list(range(12))}],
    }  # fmt: skip
    built = build_sweep(check_settings(said, "the test"))
    session = open_sweep(built, SqliteStore(store), "gated", config_snapshot(said, ()))
    session.submit(session.initial_evaluation(6))
    return session


@pytest.mark.soak
def test_from_a_job_log_to_the_report(up: KeptUp, store: Path, tmp_path: Path) -> None:
    log = tmp_path / "cluster.swf"
    write_swf(default_workload(3, 200), log)
    with looking(up) as screen:
        person = screen()
        page = person.page
        person.goto()
        person.says("What do you want to tune?")
        person.press("Enter a path")
        page.get_by_label("Path of the log").wait_for()
        person.fill("Path of the log", "nowhere.swf")
        person.says("nowhere.swf")
        person.settled()
        page.locator("input[type=file]").set_input_files(log)
        person.says("48 combinations of 3 parameters")
        person.press("Next")
        person.choose("Question", "paper: a part of the cluster for small jobs, as in the paper")
        person.says("3,520 combinations of 3 parameters")
        page.get_by_text("Objective and goal").click()
        person.says("Goal: value to reach")
        person.fill("Budget of runs", "24")
        person.fill("Goal: value to reach", "1")
        page.get_by_text("Auto-steering: Copperline chooses and starts them").click()
        page.get_by_text("Strategy, seed, runs at once").click()
        person.says("Seed of all random choices")
        person.choose("Strategy", "random")
        person.choose("Strategy", "copper")
        person.fill("Seed of all random choices", "3")
        person.press("Try one run")
        person.says("The current configuration was run once. Nothing was stored.")
        person.says(re.compile("3,361 allowed. 24 runs .*take "))
        assert SqliteStore(store).experiments() == ()
        person.press("Start the experiment")
        person.says("1 of 24", exact=True)

        person.press("Choose the next runs")
        person.fill("How many", "9")
        person.press("Suggest the first runs")
        page.get_by_role("button", name=submit(9)).wait_for()
        person.toggle(LIST, "take", 1, page.get_by_role("button", name=submit(8)))
        procs = person.cell(LIST, "small_procs", 2).text_content()
        changed = page.get_by_text("No. 3 with your changes")
        person.edit(LIST, "small_procs", 2, "57" if procs != "57" else "63", changed)
        person.press(submit(8))
        person.says("8 runs submitted.")
        person.says("9 of 24 runs")
        for done in (13, 17):
            person.fill("How many", "4")
            person.press("Suggest")
            person.press(submit(4))
            person.says(f"{done} of 24 runs")
        person.press("Suggest")
        person.says("Very likely to miss")
        person.press("Accept 1")
        person.says("Accepted. The next suggestions follow it.")
        page.get_by_role("button", name=submit(4)).wait_for()

        person.menu("Overview", "overview")
        person.open_part("Rate a result", person.button("Good"))
        person.press("Good")
        person.says("is good.")
        person.menu("Report", "report")
        person.says("Current and best")
        with page.expect_download() as download:
            person.press("Download the report (HTML)")
        report = tmp_path / "report.html"
        download.value.save_as(report)

        alone = screen().page
        alone.context.set_offline(True)
        alone.goto(report.as_uri())
        alone.locator("#answer strong").wait_for()
        assert alone.locator("#progress svg").is_visible()
    session = latest(store)
    sources = [event.source for event in session.events() if isinstance(event, RunSubmitted)]
    assert sources[:9].count("edited") == 1
    assert any(run.good for run in session.experiment.runs)
    assert any(isinstance(event, WarningAnswered) for event in session.events())


@pytest.mark.soak
def test_what_if_is_seen_before_it_is_made(up: KeptUp, store: Path, tmp_path: Path) -> None:
    session = bowl(tmp_path, store, 12)
    with looking(up) as screen:
        person = screen()
        page = person.page
        person.goto(f"/what-if?e={session.id}")
        person.says("What if")
        person.fill("Maximum number of runs", "36")
        person.says("If: 36 runs in all.")
        page.wait_for_url("**budget=36**")
        person.menu("Report", "report")
        person.menu("What if", "what-if")
        person.holds("Maximum number of runs", "36")
        person.press("Apply …")
        person.says("Everything else stays as it is.")
        assert latest(store).experiment.sla.max_runs == 30, "it asks once"
        person.press("Yes, apply this")
        person.says("Applied: ")
    assert latest(store).experiment.sla.max_runs == 36


@pytest.mark.soak
def test_the_queue_is_paused_reordered_held_and_goes_on(
    up: KeptUp, store: Path, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    session = gated(store, gate)
    with looking(up) as screen:
        person = screen()
        page = person.page
        person.goto(f"/queue?e={session.id}")
        person.press("Start 6 runs")
        person.says(re.compile("Running: 1 run is executing"))
        person.says("1 running, 5 waiting")
        person.press("Pause")
        person.says(re.compile("Paused: 1 run still running, and no more start"))
        gate.touch()
        person.says(re.compile("Paused: 5 runs wait"))
        person.press("Refresh the list")
        person.says("Waiting: 5 runs")
        person.tick_row(WAITING, 4, page.get_by_text("Selected: run 6."))
        person.press("Run first")
        person.says("Run 6 starts first now.")
        person.tick_row(WAITING, 4, page.get_by_text("Selected: run 5."))
        person.press("Hold")
        person.says("1 held")
        person.press(re.compile("^Start"))
        person.says("5 of 12 runs")
    session.catch_up()
    runs = {run.id: run for run in session.experiment.runs}
    begun = {run.started_s: run.id for run in runs.values() if run.started_s is not None}
    assert [begun[at_s] for at_s in sorted(begun)] == [1, 6, 2, 3, 4]
    assert runs[5].held
    assert runs[5].state is RunState.QUEUED


def edited(person: Screen) -> str:
    """Ask for suggestions, untick the third and change the second. Returns its level of x."""
    person.fill("How many", "5")
    person.press(re.compile("^Suggest"))
    button = person.page.get_by_role("button", name=submit(5))
    button.wait_for()
    person.toggle(LIST, "take", 2, person.page.get_by_role("button", name=submit(4)))
    now = person.cell(LIST, "x", 1).text_content()
    level = "7" if now != "7" else "6"
    person.edit(LIST, "x", 1, level, person.page.get_by_text("No. 2 with your changes"))
    return level


def unsent(person: Screen, level: str) -> None:
    """See that the list is still as it was left."""
    person.page.get_by_role("button", name=submit(4)).wait_for()
    person.says("No. 2 with your changes")
    person.reads(LIST, "x", 1, level)
    person.reads(LIST, "take", 2, "false")


def submitted(store: Path, level: str) -> None:
    """See that the list was submitted as it was on the screen."""
    runs = [run for run in latest(store).experiment.runs if run.batch is not None]
    space = latest(store).experiment.space
    assert len(runs[-4:]) == 4
    assert str(space.values(runs[-3].configuration)["x"]) == level
    assert runs[-3].source == "edited"


@pytest.mark.soak
def test_the_service_is_killed_and_comes_back(up: KeptUp, store: Path, tmp_path: Path) -> None:
    session = bowl(tmp_path, store, 6)
    with looking(up) as screen:
        person = screen()
        person.goto(f"/suggestions?e={session.id}")
        level = edited(person)
        up.kill("service")
        unsent(person, level)
        person.press(submit(4))
        person.says("4 runs submitted.")
        person.says("4 waiting")
        person.press("Start 4 runs")
        person.says(re.compile("10 of 30 runs|11 of 30 runs"))
        unaware = person.page.get_by_text("The service cannot be reached")
        unaware.wait_for(state="hidden")
    submitted(store, level)


@pytest.mark.soak
def test_the_pages_are_killed_and_come_back(up: KeptUp, store: Path, tmp_path: Path) -> None:
    session = bowl(tmp_path, store, 6)
    with looking(up) as screen:
        person = screen()
        person.goto(f"/suggestions?e={session.id}")
        level = edited(person)
        with person.reconnecting():
            up.kill("pages")
        unsent(person, level)
        person.press(submit(4))
        person.says("4 runs submitted.")
    submitted(store, level)


@pytest.mark.soak
def test_two_browsers_see_each_other(up: KeptUp, store: Path, tmp_path: Path) -> None:
    session = bowl(tmp_path, store, 6)
    with looking(up) as screen:
        one, two = screen(), screen()
        one.goto(f"/suggestions?e={session.id}")
        one.fill("How many", "3")
        one.press("Suggest")
        one.page.get_by_role("button", name=submit(3)).wait_for()
        two.goto(f"/suggestions?e={session.id}")
        two.page.get_by_role("button", name=submit(3)).wait_for()
        one.press(submit(3))
        one.says("3 runs submitted.")
        two.says("Batch 2 was submitted or replaced since it was shown here.")
        two.page.get_by_role("button", name="Show the open batch").wait_for()
        two.menu("Queue", "queue")
        two.says("Waiting: 3 runs")
        two.tick_row(WAITING, 0, two.page.get_by_text(re.compile("^Selected: run")))
        one.menu("Queue", "queue")
        one.tick_row(WAITING, 0, one.page.get_by_text(re.compile("^Selected: run")))
        one.press("Cancel 1 waiting run")
        one.press("Yes, cancel 1 run")
        one.says("Waiting: 2 runs")
        two.says("1 change since")
        two.press("Run first")
        two.says("nothing was changed")
    assert len(latest(store).experiment.runs_in(RunState.QUEUED)) == 2


# -- a warning, and a phone ------------------------------------------------------------------------


def answered_from_overview(person: Screen, session: Session) -> None:
    """Start a sweep on *Overview*, and answer both of its warnings there, until it is over."""
    page = person.page
    person.goto(f"/overview?e={session.id}")
    person.press("Start")
    person.says("Needs you: warning 1 waits for your answer.")
    person.says("30 of 50")
    person.press("Answer the warning")
    person.says("The goal will probably be missed.")
    person.press("Answer later")
    page.get_by_text("The goal will probably be missed.").wait_for(state="hidden")
    person.press("Answer the warning")
    person.press("Accept 1")
    person.says("Accepted. Auto-steering goes on with it.")
    person.says("Needs you: warning 2 waits for your answer.")
    person.press("Answer the warning")
    person.press("Ignore")
    person.says("Finished: the budget of 50 runs is used up")
    person.says("50 of 50")
    session.catch_up()
    answers = [event for event in session.events() if isinstance(event, WarningAnswered)]
    assert [one.answer for one in answers] == ["accepted", "ignored"]
    assert session.experiment.steering.strategy == "grasp"
    assert session.experiment.n_ended == 50


def fits(person: Screen) -> None:
    """Wait until nothing is wider than the window."""
    width = "document.querySelector('[data-testid=stMain]').scrollWidth"
    person.comes_to(
        lambda: person.page.evaluate(width) <= PHONE["width"], "the page fits the window"
    )


def first_chart_is_seen(person: Screen) -> None:
    """Wait until the first chart begins on the first screen."""
    chart = person.page.get_by_test_id("stVegaLiteChart").first

    def begins() -> bool:
        box = chart.bounding_box()
        return box is not None and box["y"] < PHONE["height"]

    person.comes_to(begins, "the first chart begins on the first screen")


@pytest.mark.soak
def test_a_warning_is_answered_on_a_phone_and_every_page_fits(
    up: KeptUp, store: Path, tmp_path: Path
) -> None:
    session = steered(tmp_path, store)
    with looking(up) as screen:
        person = screen()
        page = person.page
        page.set_viewport_size(PHONE)
        answered_from_overview(person, session)
        fits(person)
        first_chart_is_seen(person)
        for name in PAGES:
            person.goto(f"/{name}?e={session.id}")
            fits(person)
        person.goto()
        fits(person)
        page.get_by_test_id("stExpandSidebarButton").click()
        person.menu("New", "new")
        page.get_by_role("heading", name="New experiment").wait_for()
        fits(person)


@pytest.mark.soak
def test_the_first_chart_is_on_the_first_screen_of_a_phone_and_legends_are_whole(
    up: KeptUp, store: Path, tmp_path: Path
) -> None:
    log = tmp_path / "cluster.swf"
    write_swf(default_workload(3, 200), log)
    opened = open_from(Form("log", str(log), runs=20, seed=3), store)
    opened.session.submit(opened.session.initial_evaluation(8))
    opened.session.run_queued(SerialExecutor(opened.application))
    measured = bowl(tmp_path, store, 12)
    measured.suggest(4)
    names = ("overview", "what-if", "space", "effects", "run")
    addresses = [f"/{name}?e={measured.id}" for name in names[:-1]]
    addresses += [f"/{name}?e={opened.session.id}" for name in ("overview", "run")]
    ends = (
        "[...document.querySelectorAll('.role-legend')].map(e => e.getBoundingClientRect().right)"
    )
    with looking(up) as screen:
        person = screen()
        person.page.set_viewport_size(PHONE)
        n_legends = 0
        for address in (*addresses, "/workload"):
            person.goto(address)
            fits(person)
            first_chart_is_seen(person)
            person.comes_to(
                lambda: max(person.page.evaluate(ends), default=0.0) <= PHONE["width"],
                f"no legend of {address} is clipped",
            )
            n_legends += len(person.page.evaluate(ends))
    assert n_legends > 5
