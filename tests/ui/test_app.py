"""The Streamlit script itself, run by Streamlit's own tester, over real stores."""

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from assistant import RunState, execution, load_session
from assistant.cli.main import run
from assistant.events import Event, RunCompleted, RunRated, RunSubmitted
from assistant.store import SqliteStore
from assistant.ui.opening import Form, open_from
from strategies import STRATEGIES
from tests.ui.screens import edit, first_page, go, press, runner_in, sound, until_done

PAGES = ("steer", "learn", "report")


def begin(table: Path, **fields: object) -> AppTest:
    page = first_page()
    sound(page.radio(key="start-source").set_value("table").run())
    page.text_input(key="start-table").set_value(str(table))
    for key, value in fields.items():
        page.number_input(key=f"start-{key}").set_value(value)
    return press(page, "start")


# -- empty, stored, broken ---------------------------------------------------------------------


def test_without_a_store_it_says_how_to_begin(store: Path) -> None:
    page = first_page()
    assert "No experiment is stored" in page.info[0].value
    assert not store.exists(), "looking makes nothing"


def test_the_hooks_of_a_stored_experiment_are_shown_before_it_is_started(
    store: Path, table: Path
) -> None:
    path = table.with_name("sweep.toml")
    path.write_text(
        f"[application]\ntable = '{table}'\n[hooks]\non_finish = ['sh', '-c', 'true']\n"
    )
    open_from(Form("file", str(path)), store)
    page = press(first_page(), "open")
    assert '  on_finish: ["sh", "-c", "true"]' in [code.value for code in page.code]


@pytest.mark.parametrize("name", PAGES)
def test_every_page_says_what_to_do_when_nothing_is_open(store: Path, name: str) -> None:
    page = go(first_page(), name)
    assert "No experiment is open" in page.info[0].value


def test_a_file_that_is_no_store_is_said_in_a_sentence(store: Path) -> None:
    store.write_text("not a database " * 100)
    assert "cannot be used" in first_page().error[0].value


def test_an_experiment_that_is_not_there_is_said_in_a_sentence(store: Path, table: Path) -> None:
    page = begin(table)
    until_done(page, store)
    page.session_state["experiment"] = "no-such"
    page.query_params["e"] = "no-such"
    assert "No experiment 'no-such'" in go(page, "learn").error[0].value


def test_a_stored_experiment_is_opened_and_looked_at(store: Path, table: Path) -> None:
    assert run(["sweep", "--table", str(table), "--name", "older", "--runs", "9"]) == 0
    before = SqliteStore(store).experiments()[0].n_events
    page = press(first_page(), "open")
    assert page.title[0].value == "older"
    assert page.metric[0].value == "9 of 9"
    for name in PAGES:
        go(page, name)
    assert page.get("download_button")
    assert "Best found" in page.success[0].value
    assert SqliteStore(store).experiments()[0].n_events == before, "looking changes nothing"


@pytest.mark.parametrize("name", PAGES)
def test_every_page_can_be_drawn_before_the_first_result(
    store: Path, table: Path, name: str
) -> None:
    opened = open_from(Form("table", str(table), runs=5), store)
    page = first_page()
    page.session_state["experiment"] = opened.session.id
    page = go(page, name)
    assert page.metric[1].value == "unknown"


# -- bad input ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "field", "text", "said"),
    [
        ("log", "start-log", "", "Name the path"),
        ("log", "start-log", "nowhere.swf", "nowhere.swf"),
        ("table", "start-table", "nowhere.csv", "nowhere.csv"),
        ("table", "start-table", "bad.csv", "bad.csv"),
        ("file", "start-file", "nowhere.toml", "nowhere.toml"),
        ("file", "start-file", "bad.toml", "not TOML"),
        ("file", "start-file", "typo.toml", "did you mean 'strategy'"),
        ("example", "start-deadline", "soon", "30m"),
    ],
)
def test_bad_input_is_refused_beside_its_field_and_nothing_is_stored(
    store: Path, tmp_path: Path, source: str, field: str, text: str, said: str
) -> None:
    (tmp_path / "bad.csv").write_text("x\n1,2,3\n")
    (tmp_path / "bad.toml").write_text("runs = = 3")
    (tmp_path / "typo.toml").write_text("strateg = 3")
    page = first_page()
    sound(page.radio(key="start-source").set_value(source).run())
    page.text_input(key=field).set_value(text)
    page = press(page, "start")
    assert said in page.error[0].value
    assert "went wrong" not in page.error[0].value
    assert page.text_input(key=field).value == text, "what was typed stays"
    assert not store.exists()


def test_bad_input_while_steering_is_refused_beside_its_field(store: Path, table: Path) -> None:
    page = until_done(begin(table), store)
    n_events = runner_in(page, store).experiment.n_events
    page.text_input(key="import-path").set_value("nowhere.csv")
    assert "nowhere.csv" in press(page, "import").error[0].value
    page.segmented_control(key="budget-deadline").set_value("set one").run()
    page.text_input(key="budget-deadline-text").set_value("later")
    assert "30m" in press(page, "change-budget").error[0].value
    assert runner_in(page, store).experiment.n_events == n_events


# -- the story ---------------------------------------------------------------------------------


def told(events: tuple[Event, ...]) -> list[object]:
    """What happened, without times and identifiers."""
    lines: list[object] = []
    for event in events:
        match event:
            case RunSubmitted():
                lines.append((event.source, event.configuration, event.seed, event.reason))
            case RunCompleted():
                lines.append((event.run_id, event.outcome))
            case RunRated():
                lines.append((event.run_id, event.good))
            case _:
                lines.append(type(event).__name__)
    return lines


def test_the_same_story_in_the_browser_and_by_calls_ends_in_the_same_journal(store: Path) -> None:
    page = first_page()
    page.number_input(key="start-runs").set_value(12)
    page = until_done(press(page, "start"), store)
    page = press(page, "suggest")
    page = edit(page, 1, {0: {"take": False}, 2: {"small_procs": "32"}})
    assert "Submit 4 runs" in [button.label for button in page.button]
    page = until_done(press(page, "submit-1"), store)
    leader = runner_in(page, store).experiment.best
    assert leader is not None
    rated = page.selectbox(key=f"rated-{page.session_state['experiment']}")
    page = press(sound(rated.set_value(leader.id).run()), "rate-Good")
    page.number_input(key=f"n-{page.session_state['experiment']}").set_value(3)
    page = press(page, "suggest")
    page = until_done(press(page, "submit-2"), store)
    shown = runner_in(page, store)
    assert page.metric[0].value == "8 of 12"

    opened = open_from(Form(runs=12), store)
    session = opened.session
    from assistant.executors import SerialExecutor

    executor = SerialExecutor(opened.application)
    session.run_queued(executor)
    first = session.initial_evaluation(5)
    session.submit(first, keep=[1, 2, 3, 4], edits={2: {"small_procs": 32}})
    session.run_queued(executor)
    best = session.experiment.best
    assert best is not None
    session.rate(best.id, True)
    session.submit(session.suggest(3))
    session.run_queued(executor)
    journal = SqliteStore(store)
    assert told(journal.load(shown.session.id)) == told(journal.load(session.id))

    for name in ("learn", "report"):
        page = go(page, name)
    assert page.get("download_button")


def test_a_warning_is_shown_and_answered(store: Path, table: Path) -> None:
    page = until_done(begin(table, runs=6), store)
    runner = runner_in(page, store)
    for x, y in ((4, 4), (4, 3), (3, 4), (3, 3)):
        runner.session.include({"x": x, "y": y})
    runner.wake()
    runner.session.initial_evaluation(1)
    page = press(until_done(page, store), "suggest")
    advice = runner_in(page, store).experiment.open_advice
    assert advice is not None
    assert advice.text in page.warning[0].value
    page = press(page, f"accept-{advice.number}")
    experiment = runner_in(page, store).experiment
    assert experiment.open_advice is None
    assert experiment.steering.exploitation == advice.exploitation
    assert "Accepted" in page.success[0].value


def test_a_batch_that_was_submitted_elsewhere_is_refused(store: Path, table: Path) -> None:
    page = until_done(begin(table), store)
    page = press(page, "suggest")
    runner = runner_in(page, store)
    runner.session.submit(runner.session.experiment.batches[0])
    n_runs = len(runner.experiment.runs)
    page = press(page, "submit-1")
    assert "nothing was submitted" in " ".join(e.value for e in page.error)
    assert "was submitted or replaced" in page.warning[0].value
    assert len(runner.experiment.runs) == n_runs
    page = press(page, "renew")
    assert not page.warning


def test_a_refusal_is_said_before_submitting(store: Path, table: Path) -> None:
    page = until_done(begin(table), store)
    page = press(page, "suggest")
    rows = page.data_editor[0].value
    same = {"x": rows.loc[0, "x"], "y": rows.loc[0, "y"]}
    page = edit(page, 1, {1: same})
    assert "already" in page.error[0].value
    assert page.button(key="submit-1").disabled


def test_all_or_none_can_be_ticked_and_edits_stay(store: Path, table: Path) -> None:
    page = until_done(begin(table), store)
    page = press(page, "suggest")
    other = "1" if page.data_editor[0].value.loc[0, "x"] != "1" else "2"
    page = edit(page, 1, {0: {"x": other}})
    page = press(page, "Take none-1")
    assert not page.data_editor[0].value["take"].any()
    assert page.data_editor[0].value.loc[0, "x"] == other
    assert page.button(key="submit-1").disabled
    assert press(page, "Take all-1").data_editor[0].value["take"].all()


def test_a_run_of_ones_own_levels_budget_strategy_and_finish(store: Path, table: Path) -> None:
    page = until_done(begin(table), store)
    name = page.session_state["experiment"]
    page.selectbox(key=f"own-{name}-x").set_value(4)
    page.selectbox(key=f"own-{name}-y").set_value(4)
    page = press(page, f"FormSubmitter:own-{name}-Run this")
    page = until_done(page, store)
    page = press(page, f"FormSubmitter:own-{name}-Run this")
    assert "already" in page.error[0].value
    page.selectbox(key="close-level").set_value(("x", 1))
    page = press(page, "close")
    page.selectbox(key="reopen-level-1").set_value(("x", 1))
    page = press(page, "reopen")
    page.selectbox(key="close-level").set_value(("y", 4))
    page = press(page, "prefer")
    assert "y = 4 is preferred" in page.success[0].value
    assert runner_in(page, store).experiment.space.preferred == {("y", 3)}
    page.selectbox(key="unprefer-level-1").set_value(("y", 4))
    page = press(page, "unprefer")
    assert "Say which level" in press(page, "add").error[0].value
    page.text_input(key="add-level").set_value("wide")
    assert "levels are numbers" in press(page, "add").error[0].value
    page.text_input(key="add-level").set_value("9")
    page = press(page, "add")
    page.text_input(key="exclude").set_value("x == 9 and z > 2")
    assert "'z'" in press(page, "forbid").error[0].value
    page.text_input(key="exclude").set_value("x == 9 and y > 2")
    page = press(page, "forbid")
    space = runner_in(page, store).experiment.space
    assert space.preferred == frozenset()
    assert space.parameter("x").levels[-1] == 9
    assert [exclusion.text for exclusion in space.exclusions] == ["x == 9 and y > 2"]
    page = press(page, "change-budget")
    page = press(page, "change-steering")
    page = press(page, "change-watch")
    page.checkbox(key="finish-sure").check().run()
    page = press(page, "finish")
    experiment = runner_in(page, store).experiment
    assert experiment.finished is not None
    kinds = [type(e).__name__ for e in SqliteStore(store).load(name)]
    for kind in ("SpaceChanged", "BudgetChanged", "SteeringChanged", "WatchChanged"):
        assert kind in kinds
    assert any("Finished" in info.value for info in page.info)


def test_every_strategy_can_be_chosen_and_proposes(store: Path, table: Path) -> None:
    rows = [f"{x},{y},{x + y}" for x in range(10) for y in range(10)]
    table.write_text("\n".join(["x,y,objective", *rows]) + "\n")
    page = press(until_done(begin(table), store), "suggest")  # the first ones are random
    for entry in STRATEGIES:
        (choice,) = (box for box in page.selectbox if box.label == "Strategy")
        page = sound(choice.set_value(entry.name).run())
        page = press(page, "change-steering")
        page = press(page, "suggest")
        runner = runner_in(page, store)
        assert runner.experiment.steering.strategy == entry.name
        assert {s.strategy for s in runner.experiment.batches[-1].suggestions} == {entry.name}


def test_automatic_steering_takes_suggestions_until_the_budget_is_used_up(
    store: Path, table: Path
) -> None:
    page = until_done(begin(table, runs=10), store)
    page.selectbox(key="auto-advice").set_value("accept")
    page = press(page, "automatic")
    page = until_done(page, store)
    runner = runner_in(page, store)
    assert len(runner.experiment.runs_in(RunState.COMPLETED)) == 10
    assert "used up" in runner.note
    assert any("used up" in info.value for info in page.info)


def test_an_interrupted_experiment_is_taken_over(store: Path, table: Path) -> None:
    opened = open_from(Form("table", str(table), runs=6), store)
    opened.session.submit(opened.session.initial_evaluation(3))
    execution._start_next(opened.session._journal)
    del opened
    page = press(first_page(), "open")
    assert "1 run of them" in page.info[0].value
    page = until_done(press(page, "start-runner"), store)
    assert "went back to the queue" in page.success[0].value
    assert len(runner_in(page, store).experiment.runs_in(RunState.COMPLETED)) == 3


def test_what_another_program_did_meanwhile_is_seen(store: Path, table: Path) -> None:
    page = until_done(begin(table), store)
    session = load_session(SqliteStore(store), page.session_state["experiment"])
    session.include({"x": 2, "y": 3}, "from elsewhere")
    page = sound(page.run())
    assert len(runner_in(page, store).experiment.runs) == 1
    page = press(page, "suggest")
    assert not page.error
