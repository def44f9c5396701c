"""Suggestions: the list is what is submitted, all of it or nothing, and nothing typed is lost."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from assistant import Experiment, RunState, Session, Sla, load_session, open_session
from assistant.core.events import Event
from assistant.executors.serial import SerialExecutor
from assistant.store.event_store import MemoryStore
from assistant.ui.intents import Intent
from assistant.ui.pages import suggestions, suggestions_batch
from assistant.ui.state import ExperimentView
from strategies import Level
from tests.assistant.examples import TODAY, Bowl, TickingClock
from tests.assistant.warned import journal_with_a_warning
from tests.contracts.test_session_contract import Steered, remote
from tests.ui.screens import press, sound
from tests.ui.stage import staged

pytestmark = pytest.mark.slow

NAME = "bowl"


def opened(done: int = 4, runs: int | None = 20, strategy: str = "copper", **more: Any) -> Session:
    bowl = Bowl(baseline=TODAY)
    session = open_session(
        bowl, store=MemoryStore(), sla=Sla(runs), clock=TickingClock(), experiment_id=NAME,
        strategy=strategy, seed=2, **more,
    )  # fmt: skip
    for x in range(done):
        session.include({"x": x, "y": 2, "mode": "plain"})
    session.run_queued(SerialExecutor(bowl))
    return session


def with_batch(n: int = 4, **more: Any) -> Session:
    session = opened(**more)
    session.suggest(n)
    return session


def told(page: AppTest) -> str:
    kinds = (page.success, page.error, page.info, page.warning, page.caption, page.markdown)
    return " ".join(one.value for kind in kinds for one in kind)


def rows(page: AppTest) -> Any:
    return page.data_editor[0].value


def edit(page: AppTest, changed: Mapping[int, Mapping[str, object]]) -> AppTest:
    """Leave these edits, and no others, in the browser."""
    page.session_state[page.data_editor[0].key] = {
        "edited_rows": changed, "added_rows": [], "deleted_rows": [],
    }  # fmt: skip
    return sound(page.run())


def other(session: Session, row: int, name: str = "x") -> str:
    """Return another level that makes the row a configuration that nobody has."""
    experiment = session.experiment
    batch = experiment.open_batch
    assert batch is not None
    values = dict(experiment.space.values(batch.suggestions[row].configuration))
    taken = experiment.knowledge.taken
    for value in experiment.space.parameter(name).levels:
        if experiment.space.from_values({**values, name: value}) not in taken:
            return str(value)
    raise AssertionError("every level is taken")


def free(session: Steered) -> dict[str, Level]:
    taken = session.experiment.knowledge.taken
    one = next(c for c in session.experiment.space.configurations() if c not in taken)
    return dict(session.experiment.space.values(one))


def add_own(page: AppTest, values: Mapping[str, Level], why: str = "") -> AppTest:
    for name, value in values.items():
        page.selectbox(key=f"own-{NAME}-{name}").set_value(value)
    page.text_input(key=f"own-{NAME}-why").set_value(why)
    return press(page, f"own-{NAME}-add")


# -- states ------------------------------------------------------------------------------------


def test_before_any_result_it_says_so_and_offers_first_runs() -> None:
    session = opened(0)
    page = staged(suggestions.page, session)
    assert "needs 2 results and has 0 results" in page.info[0].value
    page = press(page, "suggest")
    (batch,) = session.experiment.batches
    assert {one.kind for one in batch.suggestions} == {"initial"}
    assert list(rows(page)["kind"]) == ["first run"] * 5
    assert "without a prediction yet" in told(page)


def test_first_runs_by_a_design_leave_the_steering_as_it_was() -> None:
    session = opened(1, exploitation=0.25)
    before = session.experiment.steering
    page = staged(suggestions.page, session)
    assert "has 1 result." in page.info[0].value
    (how,) = page.segmented_control
    page = press(sound(how.set_value("latin_hypercube").run()), "suggest")
    (batch,) = session.experiment.batches
    assert {one.strategy for one in batch.suggestions} == {"latin_hypercube"}
    assert session.experiment.steering == before
    assert page.button(key="submit-1").label == "Submit 5 runs"


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: opened(4, runs=4), "The budget is used up"),
        (lambda: _finished(with_batch()), "This experiment is finished: enough"),
    ],
)
def test_nothing_can_be_asked_for(make: Callable[[], Session], said: str) -> None:
    page = staged(suggestions.page, make())
    assert said in told(page)
    assert "suggest" not in [button.key for button in page.button]
    assert all(b.disabled for b in page.button if str(b.key).startswith("submit"))


def _finished(session: Session) -> Session:
    session.finish("enough")
    return session


def test_an_exhausted_space_is_said() -> None:
    session = opened(4, runs=None)
    while session.suggest(50).suggestions:
        session.submit(session.experiment.batches[-1])
    page = press(staged(suggestions.page, session), "suggest")
    assert "Nothing is left to suggest" in page.success[0].value


def test_the_warning_comes_first_and_accepting_shows_the_new_batch() -> None:
    store = MemoryStore()
    events: tuple[Event, ...] = journal_with_a_warning()
    store.append("hills", 0, events)
    session = load_session(store, "hills")
    page = staged(suggestions.page, session)
    n = len(session.experiment.batches)
    assert session.experiment.warnings[-1].text in page.warning[0].value
    page = press(page, "accept-1-0")
    assert "Accepted" in page.success[0].value
    assert session.experiment.open_warning is None
    assert len(session.experiment.batches) >= n


# -- the list ----------------------------------------------------------------------------------


def test_rows_are_left_out_and_changed_and_what_is_shown_is_submitted() -> None:
    session, reference = with_batch(), with_batch()
    page = staged(suggestions.page, session)
    assert list(rows(page).columns) == [
        "no.", "take", "expected", "kind", "x", "y", "mode", "why"
    ]  # fmt: skip
    changed = other(session, 2)
    page = edit(page, {0: {"take": False}, 2: {"x": changed}})
    assert "No. 3 with your changes: expected" in told(page)
    assert "Your list: 3 runs, predicted" in told(page)
    page = press(page, "submit-1")
    assert "3 runs submitted." in page.success[0].value
    batch = reference.experiment.batches[0]
    reference.submit(batch, keep=[1, 2, 3], edits={2: {"x": int(changed)}})
    assert [
        (r.configuration, r.source, r.reason, r.batch, r.seed) for r in session.experiment.runs
    ] == [(r.configuration, r.source, r.reason, r.batch, r.seed) for r in reference.experiment.runs]
    assert not page.data_editor


def test_a_refusal_is_said_before_submitting() -> None:
    session = with_batch()
    page = staged(suggestions.page, session)
    same = {name: rows(page).loc[0, name] for name in ("x", "y", "mode")}
    page = edit(page, {1: same})
    assert "already" in page.error[0].value
    assert page.button(key="submit-1").disabled


def test_a_batch_that_was_submitted_elsewhere_is_refused() -> None:
    session = with_batch()
    page = staged(suggestions.page, session)
    page = add_own(page, free(session))
    session.submit(session.experiment.batches[0])
    session.suggest(2)
    n_runs = len(session.experiment.runs)
    page = press(page, "submit-1")
    assert "nothing was submitted" in " ".join(e.value for e in page.error)
    assert "was submitted or replaced" in page.warning[0].value
    assert len(session.experiment.runs) == n_runs
    page = press(page, "renew")
    assert not page.warning
    assert list(rows(page)["kind"])[-1] == "yours", "what is one's own goes along"
    assert len(rows(page)) == 3


def test_all_or_none_can_be_ticked_and_edits_stay() -> None:
    session = with_batch()
    page = staged(suggestions.page, session)
    changed = other(session, 0)
    page = press(edit(page, {0: {"x": changed}}), "Take none-1")
    assert not rows(page)["take"].any()
    assert rows(page).loc[0, "x"] == changed
    assert page.button(key="submit-1").disabled
    page = press(page, "Take all-1")
    assert rows(page)["take"].all()
    assert rows(page).loc[0, "x"] == changed


def test_results_that_came_in_are_kept_out_or_renew_the_batch() -> None:
    session = with_batch(3)
    page = staged(suggestions.page, session)
    assert "since this batch" not in told(page)
    bowl = Bowl(baseline=TODAY)
    for y in (0, 1):
        session.include({"x": 1, "y": y, "mode": "odd"})
    session.run_queued(SerialExecutor(bowl))
    page = sound(page.run())
    assert "2 results came in since this batch" in told(page)
    page = press(page, "news-keep")
    assert "since this batch" not in told(page)
    session.include({"x": 1, "y": 2, "mode": "odd"})
    session.run_queued(SerialExecutor(bowl))
    page = press(sound(page.run()), "news-renew")
    assert len(session.experiment.batches) == 2
    assert len(rows(page)) == len(session.experiment.batches[1].suggestions) == 3


# -- one's own ---------------------------------------------------------------------------------


def test_a_run_of_ones_own_joins_the_list_and_keeps_its_why() -> None:
    session = with_batch()
    page = staged(suggestions.page, session)
    values = free(session)
    page = add_own(page, values, "a hunch")
    assert "Added to the list as no. 5." in told(page)
    last = rows(page).iloc[4]
    assert (last["kind"], last["why"]) == ("yours", "a hunch")
    page = edit(page, {row: {"take": False} for row in range(4)})
    page = press(page, "submit-1")
    run = session.experiment.runs[-1]
    assert (run.source, run.reason) == ("analyst", "a hunch")
    assert session.experiment.space.values(run.configuration) == values
    assert session.experiment.open_batch is not None, "the batch was not touched"
    assert len(rows(page)) == 4
    assert not rows(page)["take"].any()


def test_a_run_of_ones_own_without_a_batch() -> None:
    session = opened()
    page = staged(suggestions.page, session)
    assert not page.data_editor
    page = add_own(page, free(session))
    assert list(rows(page)["why"]) == ["your own"]
    page = press(page, "submit-0")
    assert "1 run submitted." in page.success[0].value
    assert session.experiment.runs[-1].reason == ""
    assert not page.data_editor


@pytest.mark.parametrize("where", ["run", "list"])
def test_a_configuration_that_is_there_already_is_not_added(where: str) -> None:
    session = with_batch()
    batch = session.experiment.batches[0]
    page = edit(staged(suggestions.page, session), {1: {"take": False}})
    values = (
        {"x": 1, "y": 2, "mode": "plain"}
        if where == "run"
        else session.experiment.space.values(batch.suggestions[1].configuration)
    )
    page = add_own(page, values, "again")
    assert len(rows(page)) == 4
    said = "is run 2 already" if where == "run" else "already on the list as no. 2"
    assert said in page.error[0].value
    assert page.text_input(key=f"own-{NAME}-why").value == "again", "what was typed stays"


def test_a_forbidden_combination_is_not_added() -> None:
    session = with_batch()
    values = free(session)
    session.exclude(" and ".join(f"{name} == {value!r}" for name, value in values.items()))
    page = add_own(staged(suggestions.page, session), values)
    assert "exclude" in page.error[0].value


def test_suggestions_and_own_runs_are_submitted_together_or_not_at_all() -> None:
    session = with_batch(runs=9)  # 4 ran, 4 are suggested: one more fits
    page = add_own(staged(suggestions.page, session), free(session))
    assert "Your list: 5 runs" in told(page)
    session.include(_free_but(session, page))
    page = press(page, "submit-1")
    assert "leaves 4" in " ".join(e.value for e in page.error)
    assert len(session.experiment.runs) == 5, "nothing of the list was submitted"
    assert len(rows(page)) == 5, "the list is still there"


def test_what_changes_between_look_and_submission_leaves_all_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    session = with_batch(runs=9)
    page = add_own(staged(suggestions.page, session), free(session))
    elsewhere, looks = _free_but(session, page), []

    def catch_up() -> None:
        looks.append(1)
        if len(looks) == 2:  # the first look is the page's, the second one the submission's
            session.include(elsewhere)

    monkeypatch.setattr(session, "catch_up", catch_up)
    page = press(page, "submit-1")
    assert "leaves 4" in page.error[0].value
    assert len(session.experiment.runs) == 5


def _free_but(session: Session, page: AppTest) -> dict[str, Level]:
    experiment = session.experiment
    listed = {tuple(row) for row in rows(page)[["x", "y", "mode"]].to_numpy()}
    for one in experiment.space.configurations():
        values = experiment.space.values(one)
        if one not in experiment.knowledge.taken and tuple(map(str, values.values())) not in listed:
            return dict(values)
    raise AssertionError("nothing is free")


def test_unticked_runs_of_ones_own_are_removed() -> None:
    session = with_batch()
    page = add_own(staged(suggestions.page, session), free(session))
    page = edit(page, {4: {"take": False}})
    page = press(page, "tidy")
    assert len(rows(page)) == 4
    assert "tidy" not in [button.key for button in page.button]


def test_an_own_run_that_is_refused_at_the_last_moment_stays_on_the_list(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    session = with_batch()
    page = add_own(staged(suggestions.page, session), free(session))

    def include(values: object, reason: str = "") -> None:
        from assistant.core.errors import ExperimentError

        raise ExperimentError("the budget is gone")

    monkeypatch.setattr(session, "include", include)
    page = press(page, "submit-1")
    said = "The budget is gone; 4 runs submitted, and the rest is still here."
    assert page.error[0].value == said
    assert len(session.experiment.runs) == 8
    assert list(rows(page)["kind"]) == ["yours"]


# -- others ------------------------------------------------------------------------------------


def ask(page: AppTest, reason: str) -> AppTest:
    (why,) = (one for one in page.segmented_control if one.label.startswith("What is wrong"))
    return sound(why.set_value(reason).run())


def test_just_others() -> None:
    session = with_batch()
    page = add_own(staged(suggestions.page, session), free(session))
    page.number_input(key=f"n-{NAME}").set_value(2)
    page = press(page, "suggest")
    assert len(session.experiment.batches) == 2
    assert list(rows(page)["kind"])[-1] == "yours"
    assert len(rows(page)) == 3


def test_the_riskiest_is_named_and_left_out() -> None:
    session = with_batch(strategy="grasp")
    page = ask(staged(suggestions.page, session), "too risky")
    assert "The riskiest is no. " in told(page)
    page = press(page, "leave-risky")
    assert rows(page)["take"].sum() == 3


def test_the_slowest_is_named_by_the_durations_of_its_levels() -> None:
    session = with_batch(done=0)
    page = ask(staged(suggestions.page, session), "too slow")
    assert "The duration of runs is not known yet" in told(page)
    session = opened(4)
    session.include({"x": 3, "y": 1, "mode": "odd"})
    session.include({"x": 2, "y": 1, "mode": "odd"})
    session.run_queued(SerialExecutor(Bowl()))
    session.suggest(4)
    page = ask(staged(suggestions.page, session), "too slow")
    assert "The slowest is no. " in told(page)
    page = press(page, "leave-slow")
    assert rows(page)["take"].sum() == 3


def test_what_is_known_to_be_bad_is_closed_or_excluded_and_others_come() -> None:
    session = with_batch()
    experiment = session.experiment
    first = experiment.space.values(experiment.batches[0].suggestions[1].configuration)
    page = ask(staged(suggestions.page, session), "known bad")
    page = sound(page.selectbox(key=f"bad-{NAME}-row").set_value(1).run())
    page = press(page, "known-bad")
    (excluded,) = session.experiment.space.exclusions
    assert excluded.excludes(first)
    assert len(session.experiment.batches) == 2
    what = page.selectbox(key=f"bad-{NAME}-what-1")
    batch = session.experiment.batches[1]
    mode = session.experiment.space.values(batch.suggestions[1].configuration)["mode"]
    page = press(sound(what.set_value(("mode", mode)).run()), "known-bad")
    assert session.experiment.space.closed == {("mode", ("plain", "odd").index(str(mode)))}
    assert len(session.experiment.batches) == 3
    assert set(rows(page)["mode"]) == {"odd" if mode == "plain" else "plain"}


def test_the_explanation_tells_levels_and_reason() -> None:
    session = with_batch(strategy="grasp")
    page = press(staged(suggestions.page, session), "explain")
    suggestion = session.experiment.batches[0].suggestions[0]
    assert suggestion.reason in told(page)
    assert "The best so far is run 3 with 3." in told(page)
    (table,) = (d for d in page.dataframe if "best run" in d.value.columns)
    assert list(table.value["parameter"]) == ["x", "y", "mode"]
    assert list(table.value["best run"]) == ["2", "2", "plain"]


# -- nothing typed is lost -----------------------------------------------------------------------


def two_pages(view_model: ExperimentView, experiment: Experiment) -> Intent | None:
    import streamlit as st

    from assistant.ui.pages import suggestions

    if st.session_state.get("elsewhere"):
        st.write("another page")
        return None
    return suggestions.page(view_model, experiment)


def edited(session: Session) -> tuple[AppTest, dict[str, Any]]:
    page = staged(two_pages, session)
    page = add_own(page, free(session), "mine")
    page = edit(page, {0: {"take": False}, 2: {"x": other(session, 2)}, 4: {"take": False}})
    return page, {"take": [False, True, True, True, False], "x": other(session, 2)}


def test_ticks_edits_and_own_runs_survive_a_page_switch() -> None:
    session = with_batch()
    page, wanted = edited(session)
    page.session_state["elsewhere"] = True
    page = sound(page.run())
    assert not page.data_editor
    page.session_state["elsewhere"] = False
    page = sound(page.run())
    assert list(rows(page)["take"]) == wanted["take"]
    assert rows(page).loc[2, "x"] == wanted["x"]
    assert rows(page).loc[4, "why"] == "mine"
    page = sound(page.run())
    assert list(rows(page)["take"]) == wanted["take"]
    page = press(page, "submit-1")
    assert len(session.experiment.runs) == 7
    assert session.experiment.runs_in(RunState.QUEUED)[1].source == "edited"


def test_a_restarted_server_draws_the_same_table_under_the_same_key() -> None:
    session = with_batch()
    page, _ = edited(session)
    page = press(page, "Take none-1")
    key, table = page.data_editor[0].key, rows(page)
    address = dict(page.query_params)
    fresh = staged(suggestions.page, session, address=address)
    assert fresh.data_editor[0].key == key, "what the browser still holds belongs to it"
    assert rows(fresh).equals(table)


def test_an_address_of_another_batch_or_a_broken_one_is_not_read() -> None:
    session = with_batch()
    text = suggestions_batch.BatchDraft(left=frozenset({0})).text("bowl-2")
    for wrong in (text, "x", "%%%", text[:20], "A" * 5000):
        assert suggestions_batch.BatchDraft.read(
            wrong, "bowl-1", 4, session.experiment.space
        ).is_empty


def test_the_same_through_a_service(tmp_path: Path) -> None:
    for begin in remote(tmp_path):
        session = begin(Bowl(baseline=TODAY), sla=Sla(20), strategy="copper", seed=2)
        page = staged(suggestions.page, session)
        (how,) = page.segmented_control
        page = press(sound(how.set_value("latin_hypercube").run()), "suggest")
        assert session.experiment.steering.strategy == "copper"
        page = edit(page, {0: {"take": False}})
        name = session.id
        for key, value in free(session).items():
            page.selectbox(key=f"own-{name}-{key}").set_value(value)
        page = press(page, f"own-{name}-add")
        page = press(page, "submit-1")
        assert "5 runs submitted." in page.success[0].value
        assert [run.source for run in session.experiment.runs] == ["initial"] * 4 + ["analyst"]
