"""The front page under Streamlit's own tester, and what a list says of an experiment."""

import re
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import streamlit
from streamlit.testing.v1 import AppTest

from agents import Follower
from assistant import Experiment, Sla, WarningPolicy, load_session, open_session
from assistant.analysis.experiment_state import (
    ExecutionStatus,
    ExperimentState,
    experiment_state,
)
from assistant.applications.lookup import Lookup
from assistant.client.remote_session import RemoteSession
from assistant.core.ports import StoredExperiment
from assistant.core.sla import AutoSteering
from assistant.executors.serial import SerialExecutor
from assistant.presentation.report.data import run_points
from assistant.presentation.tables.experiment_summary import summarise_experiment
from assistant.service.experiment_service import ExperimentService
from assistant.service.store_connection import needs_service
from assistant.session.execution import ExecutionLock
from assistant.store.event_store import MemoryStore, SqliteStore
from assistant.ui.pages import compare, experiments
from assistant.ui.pages.new_form import Form
from assistant.ui.pages.new_preview import EXAMPLE, EXAMPLE_COURSE, NewExperiment, open_from
from tests.service.housed import housed
from tests.ui.screens import at_page, go, press, sound
from tests.ui.screens import shown as shown_words
from tests.ui.shell import shown


class House:
    """What the frame would do with a choice, and with a new experiment."""

    def __init__(self) -> None:
        self.chosen: list[str] = []
        self.opened: list[NewExperiment] = []


@pytest.fixture
def service() -> House:
    return House()


@pytest.fixture
def service_up(store: Path) -> Iterator[ExperimentService]:
    with housed(store) as found:
        yield found


def drawn(store: Path, service: House) -> AppTest:
    def page() -> object:
        kept = SqliteStore(store) if store.exists() else MemoryStore()
        stored, deleted = kept.experiments(), kept.experiments(deleted=True)
        return experiments.page(
            store, stored, deleted, service.chosen.append, service.opened.append
        )

    return shown(page)


def opened(store: Path, table: Path, name: str, **more: object) -> NewExperiment:
    form = replace(Form("table", str(table), name=name, runs=5), **more)  # type: ignore[arg-type]
    return open_from(form, store)


def labels(page: AppTest) -> list[str]:
    return [button.label for button in page.button]


def names(page: AppTest) -> list[str]:
    return [button.label for button in page.button if (button.key or "").startswith("open-")]


def rows(page: AppTest) -> list[str]:
    """Return what stands beside the name of each experiment, a vertical bar between the cells."""
    bodies = [str(html.proto.body) for html in page.get("html")]
    cells = [body for body in bodies if body.startswith('<div class="cl-row">')]
    texts = [re.sub(r"<small>([^<]+)</small>", r" (\1)", body) for body in cells]
    return [re.sub(r"<[^>]*>", "", text.replace("</span><span>", " | ")) for text in texts]


def tick(page: AppTest, experiment_id: str) -> AppTest:
    return sound(page.checkbox(key=f"tick-{experiment_id}").check().run())


# -- the first thing that a newcomer sees ----------------------------------------------------------


def test_without_an_experiment_it_asks_what_to_tune(store: Path, service: House) -> None:
    page = drawn(store, service)
    assert page.title[0].value == "What do you want to tune?"
    assert labels(page) == ["Set it up", "Enter a path", "Start the example"]
    assert not store.exists(), "looking makes nothing"
    page = press(page, "start-example")
    assert page.session_state["went"] == "overview"
    (new,) = service.opened
    assert new.auto_steering == AutoSteering(warnings="wait")
    assert new.session.experiment.sla.max_runs == 40
    assert len(SqliteStore(store).experiments()) == 1


def test_a_command_is_set_up_with_its_settings(store: Path, service: House) -> None:
    page = drawn(store, service)
    page.text_input(key="front-command").set_value("python train.py --lr {lr} --seed {seed}")
    page = press(page, "front-set-up")
    assert page.session_state["went"] == "new"
    form = page.session_state["new-form"]
    assert (form.source, form.unsaid) == ("command", ("lr",))
    assert form.unattended, "it steers unless one wants to choose"


def test_a_damaged_experiment_is_named_and_the_others_are_listed(
    store: Path, table: Path, service: House
) -> None:
    damaged = opened(store, table, "damaged").session.id
    opened(store, table, "sound")
    with sqlite3.connect(store) as connection:
        connection.execute(
            "UPDATE event SET body = replace(body, '1', '2') WHERE experiment_id = ?",
            (damaged,),
        )
    connection.close()
    page = sound(drawn(store, service))
    (error,) = page.error
    assert f"{damaged}" in error.value.replace("\\", "")
    assert "damaged: event 0" in error.value
    assert names(page) == ["sound"]


def test_a_log_on_this_machine_is_set_up(store: Path, service: House) -> None:
    page = press(drawn(store, service), "front-log-path")
    assert page.session_state["went"] == "new"
    form = page.session_state["new-form"]
    assert form.source == "log"
    assert form.cluster.preset == "lanes"
    assert form.wish.without == ()


def test_a_dropped_log_is_kept_and_set_up(
    store: Path, service: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Upload:
        name, file_id = "small.swf", "1"

        def getvalue(self) -> bytes:
            return b"; no job\n"

    monkeypatch.setattr(streamlit, "file_uploader", lambda *_, **__: Upload())
    page = drawn(store, service)
    assert page.session_state["went"] == "new"
    form = page.session_state["new-form"]
    assert form.source == "log"
    assert Path(form.path).read_bytes() == b"; no job\n"


def test_the_picture_of_the_example_shows_its_results(store: Path) -> None:
    new = open_from(EXAMPLE, store)
    Follower(warnings="accept", max_runs=6).steer(new.session, SerialExecutor(new.application))
    seen = [round(point.value) for point in run_points(new.session.experiment)]
    assert seen == list(EXAMPLE_COURSE[: len(seen)])
    assert len(seen) >= 6


@pytest.mark.soak
def test_the_example_gains_after_its_design_and_warns(store: Path) -> None:
    new = open_from(EXAMPLE, store)
    Follower(warnings="accept").steer(new.session, SerialExecutor(new.application))
    experiment = new.session.experiment
    assert [round(point.value) for point in run_points(experiment)] == list(EXAMPLE_COURSE)
    assert min(EXAMPLE_COURSE[11:]) < 0.85 * min(EXAMPLE_COURSE[:11])
    assert len(experiment.warnings) == 2
    assert experiment.warnings[0].forecast.executed < 25


# -- the list --------------------------------------------------------------------------------------


def test_the_rows_say_how_far_each_is(store: Path, service: House, table: Path) -> None:
    one = opened(store, table, "first", deadline="2h")
    for x in (1, 2):
        one.session.include({"x": x, "y": 1})
    one.session.run_queued(SerialExecutor(one.application))
    two = opened(store, table, "second [x](y)")
    two.session.include({"x": 4, "y": 4})
    page = drawn(store, service)
    assert names(page) == [r"second \[x](y)", "first"]
    second, first = rows(page)
    assert second == "‖ paused | no result yet | 0 of 5 runs | "
    assert (
        re.sub(r" \(.*to the deadline\)", "", first)
        == "‖ paused | 14 (minimise objective) | 2 of 5 runs | "
    )
    assert "to the deadline" in first
    pictures = [str(html.proto.body).count("<img") for html in page.get("html")]
    assert sum(pictures) == 2, "the line of the first, and the example"
    assert page.title[0].value == "Experiments"
    assert "What do you want to tune next?" in [one.value for one in page.subheader]


def test_a_name_is_never_markup(store: Path, service: House, table: Path) -> None:
    one = opened(store, table, "<img src=x onerror=y>")
    for x in (1, 2):
        one.session.include({"x": x, "y": 1})
    one.session.run_queued(SerialExecutor(one.application))
    bodies = [str(html.proto.body) for html in drawn(store, service).get("html")]
    assert any("&lt;img src=x" in body for body in bodies)
    assert not any("<img src=x" in body for body in bodies)


def test_one_is_opened_by_a_click_on_its_name(store: Path, service: House, table: Path) -> None:
    for name in ("a", "b", "c"):
        opened(store, table, name)
    ids = [one.id for one in SqliteStore(store).experiments()]
    page = press(drawn(store, service), f"open-{ids[2]}")
    assert service.chosen == [ids[2]]
    assert page.session_state["went"] == "overview"


def test_what_comes_meanwhile_does_not_move_what_was_ticked(
    store: Path, service: House, table: Path
) -> None:
    first = opened(store, table, "first")
    page = tick(drawn(store, service), first.session.id)
    opened(store, table, "second")
    page = sound(page.run())
    assert names(page) == ["second", "first"]
    press(page, "duplicate")
    assert page.session_state["new-form"].name == "first again"


def test_an_experiment_that_goes_on_is_drawn_anew(store: Path, service: House, table: Path) -> None:
    one = opened(store, table, "first")
    page = drawn(store, service)
    one.session.include({"x": 1, "y": 1})
    one.session.run_queued(SerialExecutor(one.application))
    assert rows(sound(page.run())) == ["‖ paused | 19 (minimise objective) | 1 of 5 runs | "]


def test_it_is_duplicated_into_new(store: Path, service: House, table: Path) -> None:
    one = opened(store, table, "mine", strategy="random", exclude="x == 1", deadline="2h")
    before = SqliteStore(store).experiments()
    page = press(tick(drawn(store, service), one.session.id), "duplicate")
    assert page.session_state["went"] == "new"
    form = page.session_state["new-form"]
    assert form.name == "mine again"
    assert (form.source, form.path, form.runs) == ("table", str(table), 5)
    assert (form.strategy, form.exclude, form.deadline) == ("random", "x == 1", "2h")
    assert SqliteStore(store).experiments() == before
    again = open_from(form, store)
    assert again.session.experiment.opened.space == one.session.experiment.opened.space


def test_one_that_was_opened_from_python_cannot_be_duplicated(
    store: Path, service: House, table: Path
) -> None:
    session = open_session(Lookup.read(table), store=SqliteStore(store), name="bare", sla=Sla(3))
    page = press(tick(drawn(store, service), session.id), "duplicate")
    assert "opened from Python" in page.error[0].value
    assert page.session_state["went"] == ""


def test_a_journal_is_read_once_for_each_state(
    store: Path, service: House, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for i in range(experiments.PER_PAGE + 5):
        opened(store, table, f"e{i}")
    read: list[str] = []
    load: Callable[..., tuple[object, ...]] = SqliteStore.load

    def noted(self: SqliteStore, experiment_id: str, since: int = 0) -> tuple[object, ...]:
        read.append(experiment_id)
        return load(self, experiment_id, since)

    monkeypatch.setattr(SqliteStore, "load", noted)
    page = drawn(store, service)
    assert len(read) == experiments.PER_PAGE, "only those that are shown"
    sound(page.run())
    assert len(read) == experiments.PER_PAGE
    page.pagination[0].set_value(2)
    page = sound(page.run())
    assert len(read) == experiments.PER_PAGE + 5
    assert names(page) == [f"e{i}" for i in range(4, -1, -1)]


def test_a_store_that_cannot_be_read_is_said_in_a_sentence(
    store: Path, service: House, table: Path
) -> None:
    opened(store, table, "first")
    gone = (StoredExperiment("no-such", "gone", 0.0, 3),)

    def page() -> object:
        return experiments.page(store, gone, (), service.chosen.append, service.opened.append)

    assert "No experiment 'no-such'" in shown(page).error[0].value


# -- rename, tag, compare, delete ------------------------------------------------------------------


def key_of(page: AppTest, beginning: str) -> str:
    """Return the key of the only field whose key begins so."""
    fields = [*page.text_input, *page.multiselect]
    (key,) = [field.key for field in fields if (field.key or "").startswith(beginning)]
    assert key is not None
    return key


def save_tags(page: AppTest, *tags: str) -> AppTest:
    page.multiselect(key=key_of(page, "tags-")).set_value(list(tags))
    return press(page, "save-tags")


def test_it_is_renamed(store: Path, service: House, table: Path) -> None:
    one = opened(store, table, "first")
    page = tick(drawn(store, service), one.session.id)
    page.text_input(key=key_of(page, "rename-name-")).set_value("learning rate")
    page = press(page, "rename-it")
    assert page.success[0].value == "'first' is now called 'learning rate'."
    assert names(page) == ["learning rate"]
    page.text_input(key=key_of(page, "rename-name-")).set_value(" ")
    page = press(page, "rename-it")
    assert "1 to 200 printable characters" in page.error[0].value
    assert names(page) == ["learning rate"]


def test_tags_are_saved_shown_and_filter_the_list(store: Path, service: House, table: Path) -> None:
    ids = [opened(store, table, name).session.id for name in ("first", "second", "third")]
    page = drawn(store, service)
    assert not page.button_group, "no tag, no choice"
    page = save_tags(tick(page, ids[0]), "gpu", "old")
    assert page.success[0].value == "'first' has the tags: gpu, old."
    assert rows(page)[2].endswith("gpuold")
    page = tick(page, ids[1])
    assert page.multiselect(key=key_of(page, "tags-")).value == [], "none is common to both"
    page = save_tags(page, "gpu")
    assert page.success[0].value == "The tags of 2 experiments are saved."
    page = save_tags(page)
    tags = {one.name: one.tags for one in SqliteStore(store).experiments()}
    assert tags == {"first": ("old",), "second": (), "third": ()}, "only the common one is removed"
    (choice,) = page.button_group
    assert choice.options == ["old"]
    page = sound(choice.set_value("old").run())
    assert names(page) == ["first"]
    page = save_tags(page)
    assert names(page) == ["third", "second", "first"], "nothing has the tag any more"


def test_ticked_ones_are_compared(store: Path, service: House, table: Path) -> None:
    ids = [opened(store, table, name).session.id for name in ("first", "second")]
    page = tick(drawn(store, service), ids[0])
    assert page.button(key="compare").disabled, "one is not enough"
    page = press(tick(page, ids[1]), "compare")
    assert page.session_state["went"] == "compare"
    assert page.session_state[compare.CHOSEN] == ids[::-1]


def test_it_asks_before_it_deletes_and_restores(store: Path, service: House, table: Path) -> None:
    one, two = opened(store, table, "first"), opened(store, table, "second")
    one.session.include({"x": 1, "y": 1})
    page = press(tick(drawn(store, service), one.session.id), "delete")
    assert page.warning[0].value == "Delete 'first' with 1 run? It can be restored."
    page = press(page, "delete-keep")
    assert not page.warning
    page = press(press(page, "delete"), "delete-sure")
    assert page.success[0].value == "'first' is deleted."
    assert names(page) == ["second"]
    page = press(page, "restore-just-deleted")
    assert page.success[0].value == "'first' is back."
    assert names(page) == ["second", "first"]
    assert "restore-just-deleted" not in [button.key for button in page.button]
    page = tick(tick(page, one.session.id), two.session.id)
    page = press(press(page, "delete"), "delete-sure")
    assert page.title[0].value == "What do you want to tune?"
    page = press(page, f"restore-{two.session.id}")
    assert names(page) == ["second"]


def test_another_selection_drops_the_question(store: Path, service: House, table: Path) -> None:
    one, two = opened(store, table, "first"), opened(store, table, "second")
    page = press(tick(drawn(store, service), one.session.id), "delete")
    page = tick(page, two.session.id)
    assert not page.warning
    assert len(SqliteStore(store).experiments()) == 2


def test_one_that_is_executed_is_not_deleted(store: Path, service: House, table: Path) -> None:
    one, two = opened(store, table, "first"), opened(store, table, "second")
    page = tick(tick(drawn(store, service), one.session.id), two.session.id)
    with ExecutionLock(store, one.session.id):
        page = press(press(page, "delete"), "delete-sure")
    assert "is being executed; pause or end that first" in page.error[0].value
    assert len(SqliteStore(store).experiments()) == 2, "none of them is deleted"


def test_through_the_service_a_started_one_is_paused_then_deleted(
    store: Path, table: Path, service_up: ExperimentService
) -> None:
    one = opened(store, table, "first")
    RemoteSession(needs_service(store), one.session.id).start()
    assert service_up.queue.is_active(one.session.id)
    page = at_page(one.session.id)
    page = press(tick(go(page, "experiments"), one.session.id), "delete")
    page = press(page, "delete-sure")
    assert page.success[0].value == "'first' is deleted."
    assert not service_up.queue.is_active(one.session.id)
    assert "e" not in page.query_params, "it is not open any more"
    page = press(page, "restore-just-deleted")
    assert names(page) == ["first"]
    page = tick(page, one.session.id)
    page.text_input(key=key_of(page, "rename-name-")).set_value("again")
    page = save_tags(press(page, "rename-it"), "kept")
    (stored,) = SqliteStore(store).experiments()
    assert (stored.name, stored.tags) == ("again", ("kept",))
    assert "again" in shown_words(at_page(one.session.id))


# -- at a glance -----------------------------------------------------------------------------------


def looked_at(opened: NewExperiment) -> Experiment:
    return opened.session.experiment


def state_of(opened: NewExperiment, execution: ExecutionStatus | None = None) -> ExperimentState:
    return experiment_state(looked_at(opened), opened.session.now_s(), execution)


def test_a_glance_follows_an_experiment_to_its_end(store: Path, table: Path) -> None:
    new = opened(store, table, "one", runs=2)
    session, executor = new.session, SerialExecutor(new.application)
    seen = summarise_experiment(looked_at(new))
    assert (seen.done, seen.budget, seen.best, seen.run_s) == (0, 2, None, None)
    assert (seen.share, seen.left_s, seen.time_left(0.0, state_of(new))) == (0.0, None, "")
    session.include({"x": 3, "y": 3})
    session.run_queued(executor)
    seen = summarise_experiment(looked_at(new))
    assert (seen.best, seen.unit, seen.gain) == (3.0, "", "")
    assert seen.run_s is not None
    assert seen.left_s == pytest.approx(seen.run_s)
    assert seen.time_left(0.0, state_of(new)) == "", "it is paused"
    going = state_of(new, ExecutionStatus(in_process=True))
    assert seen.time_left(0.0, going) == "less than a second of runs"
    session.include({"x": 4, "y": 4})
    session.run_queued(executor)
    seen = summarise_experiment(looked_at(new))
    assert (seen.left_s, seen.share) == (None, 1.0)
    session.finish("enough")
    seen = summarise_experiment(looked_at(new))
    assert (state_of(new).name, seen.time_left(0.0, state_of(new))) == ("finished", "")


def test_a_warning_that_waits_for_an_answer_is_in_the_list(
    store: Path, service: House, table: Path
) -> None:
    new = opened(store, table, "one", runs=6)
    session, executor = new.session, SerialExecutor(new.application)
    for x, y in ((4, 4), (4, 3), (3, 4), (3, 3)):
        session.include({"x": x, "y": y})
    session.run_queued(executor)
    session.change_warning_policy(WarningPolicy(rule="paper"))
    session.initial_evaluation(1)
    session.suggest(2)
    warning = session.experiment.open_warning
    assert warning is not None
    assert summarise_experiment(looked_at(new)).warning == warning.text
    assert rows(drawn(store, service))[0].startswith("◆ needs you")
    session.answer_warning("ignored")
    assert summarise_experiment(looked_at(new)).warning == ""


def test_a_deadline_is_told_from_now(store: Path, table: Path) -> None:
    new = opened(store, table, "one", deadline="1h")
    seen, state = summarise_experiment(looked_at(new)), state_of(new)
    assert seen.deadline_s is not None
    assert seen.time_left(seen.deadline_s - 1800, state) == "30 min 00 s to the deadline"
    assert seen.time_left(seen.deadline_s + 1, state) == "deadline has passed"


def test_the_gain_is_told_against_today(store: Path) -> None:
    new = open_from(replace(Form(), runs=30), store)
    session, executor = new.session, SerialExecutor(new.application)
    session.run_queued(executor)
    assert summarise_experiment(looked_at(new)).gain == "violates a constraint"
    session.submit(session.initial_evaluation(10))
    session.run_queued(executor)
    assert summarise_experiment(looked_at(new)).gain == "current violates a constraint"
    easy = open_from(
        replace(
            Form(), runs=30, extra_tables={"objective": {"without": ["small_jobs_max_wait_s"]}}
        ),
        store,
    )
    session = easy.session
    session.run_queued(executor)
    assert summarise_experiment(looked_at(easy)).gain == "same as current"
    session.submit(session.initial_evaluation(10))
    session.run_queued(executor)
    best, baseline = session.experiment.best, session.experiment.baseline
    assert best is not None
    assert baseline is not None
    assert best.outcome is not None
    assert baseline.outcome is not None
    share = 1 - best.outcome.value / baseline.outcome.value
    assert summarise_experiment(looked_at(easy)).gain == f"{100 * share:.1f} % lower than current"


def test_what_was_imported_is_not_of_the_budget(store: Path, table: Path) -> None:
    new = opened(store, table, "one")
    new.session.import_results([({"x": 1, "y": 1}, {"objective": 9.0, "duration_s": 1.0})])
    seen = summarise_experiment(load_session(SqliteStore(store), new.session.id).experiment)
    assert (seen.done, seen.best) == (0, 9.0)
