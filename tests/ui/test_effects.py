"""The page *Effects* over real sessions: every state, and every click as the intent it makes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from assistant import (
    Constraint,
    Experiment,
    Measure,
    Objective,
    RunState,
    Session,
    SingleMeasure,
    Sla,
)
from assistant.analysis.effects import (
    AnalysedResponse,
    effects_report,
    missing_report,
    term_shares,
)
from assistant.core.errors import ExperimentError, RunError
from assistant.executors.serial import SerialExecutor
from assistant.presentation.report.data import collect
from assistant.presentation.tables.effects import ranking_of
from assistant.session.opening import open_session
from assistant.store.event_store import MemoryStore
from assistant.ui.intents import Intent
from assistant.ui.pages import effects, effects_details, overview_diagnostics
from assistant.ui.pages import effects as effects_pairs
from assistant.ui.state import ExperimentView
from strategies import Level, Parameter, ParameterSpace
from strategies.doe.coverage import EstimationTarget
from tests.assistant.examples import Bowl, TickingClock
from tests.ui.stage import Seat, staged

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Product:
    """wait_s = 10 + 4 a + 2 b + a b, cost = 3 - a; c does nothing, and z fails."""

    name = "product"
    space = ParameterSpace(
        (
            Parameter("a", (-1, 1), unit="procs"),
            Parameter("b", (-1, 1)),
            Parameter("c", ("x", "y", "z")),
        )
    )
    facts = ()
    baseline = None
    objective = Objective(
        SingleMeasure("wait_s"), "minimise", (Constraint("cost", at_most=3.5),), "s"
    )

    def evaluate(self, values: Mapping[str, Level], seed: int) -> Mapping[str, Measure]:
        a, b = int(values["a"]), int(values["b"])
        if values["c"] == "z":
            raise RunError("z does not work")
        noise = 0.01 * ((seed % 7) - 3)
        return {"wait_s": 10.0 + 4 * a + 2 * b + a * b + noise, "cost": 3.0 - a}


def opened(max_runs: int | None = None) -> Session:
    return open_session(Product(), store=MemoryStore(), clock=TickingClock(), sla=Sla(max_runs))


def measured(*levels_of_c: str, max_runs: int | None = None) -> Session:
    session = opened(max_runs)
    for c in levels_of_c:
        for a in (-1, 1):
            for b in (-1, 1):
                session.include({"a": a, "b": b, "c": c})
    session.run_queued(SerialExecutor(Product()))
    return session


def text_of(page: AppTest) -> str:
    parts = (page.markdown, page.caption, page.info, page.warning, page.success, page.error)
    return "\n".join(str(one.value) for kind in parts for one in kind)


def choose(page: AppTest, session: Session, name: str, text: str) -> AppTest:
    page.selectbox(key=f"effects-parameter-{session.id}").set_value(name).run()
    return page.selectbox(key=f"effects-level-{session.id}-{name}").set_value(text).run()


# -- states ------------------------------------------------------------------------------------


def test_without_results_it_says_what_to_do() -> None:
    session = opened()
    assert "*Suggestions*" in staged(effects.page, session).info[0].value
    session.include({"a": 1, "b": 1, "c": "z"})
    session.run_queued(SerialExecutor(Product()))  # it fails
    assert "No run has completed yet" in staged(effects.page, session).info[0].value


def test_one_result_tells_no_effect_and_which_runs_would() -> None:
    session = opened()
    session.include({"a": 1, "b": 1, "c": "x"})
    session.run_queued(SerialExecutor(Product()))
    page = staged(effects.page, session)
    told = text_of(page)
    assert "No effect on wait_s is known yet: one completed run does not suffice." in told
    assert told.count("No effect on wait_s is known yet") == 1
    assert "Not known yet: a, b, c." in told
    assert "4 runs are missing to estimate all main effects; fewer are not enough." in told
    assert page.button(key=f"effects-add-{session.experiment.version}").label == "Add these 4 runs"
    page.button(key="effects-add-missing").click().run()
    assert len(session.experiment.waiting) == 4
    assert "4 runs were added" in page.success[0].value
    assert not [button for button in page.button if button.key == "effects-add-missing"]


def test_many_results_say_what_matters_first() -> None:
    session = measured("x", "y", "z")
    page = staged(effects.page, session)
    told = text_of(page)
    assert "**a matters most: its levels differ by 8 s in wait_s.**" in told
    assert "The model explains" in told
    assert list(page.dataframe[0].value["parameter"]) == ["a", "b", "c"], "as in the headline"
    assert [one.value for one in page.subheader] == [
        "Effects", "Each level", "Interactions of pairs",
    ]  # fmt: skip
    assert page.selectbox(key=f"effects-pair-{session.id}").value == "a x b"


def test_a_finished_experiment_is_read_only() -> None:
    session = measured("x")
    session.finish("enough")
    page = choose(staged(effects.page, session), session, "a", "1")
    told = text_of(page)
    assert "finished, so its levels stay" in told
    assert "finished, so nothing can be added" in told
    assert [button.key for button in page.button] == []


def test_response_and_filter_are_those_that_were_picked() -> None:
    session = measured("x", "y")
    page = staged(effects.page, session)
    page.selectbox(key=f"effects-on-{session.id}").set_value("cost").run()
    told = text_of(page)
    assert "a matters most: its levels differ by 2 in cost." in told
    page.selectbox(key=f"effects-on-{session.id}").set_value("wait_s").run()
    page.toggle(key=f"effects-feasible-{session.id}").set_value(True).run()  # cost 2: a = 1 only
    assert "b matters most" in text_of(page)
    assert list(page.dataframe[0].value["runs"]) == [4, 4, 0]  # of a one level is left
    page.multiselect(key=f"effects-only-{session.id}").set_value(["c = x", "a = -1"]).run()
    assert "No completed run matches" in text_of(page)


def test_the_numbers_are_those_of_the_report() -> None:
    session = measured("x", "y")
    experiment = session.experiment
    report = effects_report(experiment)
    section = collect(experiment).effects
    assert section is not None
    assert section.ranking == ranking_of(report)
    table = effects.levels_table(report)
    row = table[(table["parameter"] == "a") & (table["level"] == "1 proc")].iloc[0]
    assert row["runs"] == 4
    assert float(row["change [s]"]) == pytest.approx(4, abs=0.05)
    assert row[""] == "worse"
    shares = effects_pairs.strengths_table(term_shares(experiment))
    assert list(shares["term"])[:2] == ["a", "b"]


# -- clicks ------------------------------------------------------------------------------------


class _State(dict[str, Any]):
    """What stands in for the state of the page while a click is taken over."""


def test_a_click_names_parameter_and_level_also_of_a_closed_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    session = measured("x", "y")
    session.close_level("c", "y")
    point = {"parameter": "c", "level": "y (closed)"}
    state = _State(chart={"selection": {"chosen_level": [point]}})
    monkeypatch.setattr(effects_details.st, "session_state", state)
    effects_details.clicked(session.experiment, "chart")
    own = session.id
    assert state[f"effects-parameter-{own}"] == "c"
    assert state[f"effects-level-{own}-c"] == "y"
    state = _State(chart={"selection": {"chosen_level": []}})
    monkeypatch.setattr(effects_details.st, "session_state", state)
    effects_details.clicked(session.experiment, "chart")
    assert list(state) == ["chart"]


def test_a_click_on_a_pair_chooses_it_and_one_on_the_diagonal_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for ends, chosen in ((("b", "a"), "a x b"), (("a", "a"), None)):
        point = {"first": ends[0], "second": ends[1]}
        state = _State(chart={"selection": {"chosen_pair": [point]}})
        monkeypatch.setattr(effects_pairs.st, "session_state", state)
        effects_pairs._select_pair("e", "chart", ["a x c", "a x b"])
        assert state.get("effects-pair-e") == chosen


def test_a_level_is_closed_reopened_preferred_and_not_preferred_any_more() -> None:
    session = measured("x", "y")
    page = choose(staged(effects.page, session), session, "c", "y")
    page.button(key="effects-prefer").click().run()
    assert session.experiment.space.preferred == {("c", 1)}
    assert "c = y is preferred." in page.success[0].value
    page.button(key="effects-unprefer").click().run()
    assert not session.experiment.space.preferred
    page.button(key="effects-close").click().run()
    assert session.experiment.space.closed == {("c", 1)}
    assert "is closed" in text_of(page)
    page.button(key="effects-reopen").click().run()
    assert not session.experiment.space.closed


def test_closing_says_how_many_wait_and_what_happens_to_them() -> None:
    session = measured("x")
    for b in (-1, 1):
        session.include({"a": 1, "b": b, "c": "y"})
    session.suggest(20)
    page = choose(staged(effects.page, session), session, "c", "y")
    told = text_of(page)
    assert "2 waiting runs have it (runs 5, 6): they stay in the queue unless you cancel" in told
    assert "2 open suggestions have it and could not be submitted any more" in told
    page.button(key="effects-close").click().run()
    assert len(session.experiment.runs_in(RunState.QUEUED)) == 2, "they were not to be cancelled"


def test_waiting_runs_are_cancelled_with_the_level_if_that_is_wanted() -> None:
    session = measured("x")
    run = session.include({"a": 1, "b": 1, "c": "y"})
    other = session.include({"a": 1, "b": 1, "c": "z"})
    page = choose(staged(effects.page, session), session, "c", "y")
    assert "1 waiting run has it (run 5): it stays" in text_of(page)
    page.checkbox[0].check().run()
    page.button(key="effects-close").click().run()
    assert session.experiment.run(run.id).state is RunState.CANCELLED
    assert session.experiment.run(other.id).state is RunState.QUEUED
    assert "1 run cancelled" in page.success[0].value


def test_what_started_meanwhile_is_left_and_what_came_meanwhile_is_not_cancelled() -> None:
    session = measured("x")
    seat = Seat(session)
    session.include({"a": 1, "b": 1, "c": "y"})
    chosen = effects_details.current_level(session.experiment, "c", "y")
    session.run_queued(SerialExecutor(Product()))
    late = session.include({"a": -1, "b": 1, "c": "y"})
    told = effects_details.close(seat, chosen, chosen.waiting)
    assert "Run 5 had started meanwhile and was not cancelled" in told
    assert session.experiment.run(late.id).state is RunState.QUEUED


def test_the_last_open_level_is_refused_in_one_sentence() -> None:
    session = measured("x")
    session.close_level("a", -1)
    page = choose(staged(effects.page, session), session, "a", "1")
    page.button(key="effects-close").click().run()
    assert len(page.error) == 1
    assert session.experiment.space.closed == {("a", 0)}


def test_what_is_said_of_a_level_is_held_until_it_is_renewed() -> None:
    session = measured("x")
    page = choose(staged(effects.page, session), session, "c", "y")
    assert "No waiting run has it" in text_of(page)
    session.include({"a": 1, "b": 1, "c": "y"})
    page.run()
    assert "No waiting run has it" in text_of(page)
    assert "1 change since this was shown" in text_of(page)
    page.button(key="effects-renew").click().run()
    assert "1 waiting run has it" in text_of(page)


# -- missing runs ------------------------------------------------------------------------------


def test_missing_runs_are_added_as_they_were_shown() -> None:
    session = measured("x")
    page = staged(effects.page, session)
    page.selectbox(key=f"effects-target-{session.id}").set_value("the effect of c").run()
    shown = next(one.value for one in page.dataframe if list(one.value.columns) == ["a", "b", "c"])
    assert list(shown["c"]) == ["y", "z"]
    page.button(key=f"effects-add-{session.experiment.version}").click().run()
    added = session.experiment.runs[4:]
    assert [session.experiment.space.values(run.configuration)["c"] for run in added] == ["y", "z"]
    assert {run.source for run in added} == {"analyst"}
    assert "2 runs were added" in page.success[0].value
    assert "2 waiting runs count as completed. Nothing is missing" in text_of(page)


def test_a_pair_names_its_missing_cells() -> None:
    session = opened()
    for a, b, c in ((1, 1, "x"), (1, -1, "x"), (-1, 1, "x"), (1, 1, "y"), (-1, 1, "y")):
        session.include({"a": a, "b": b, "c": c})
    session.run_queued(SerialExecutor(Product()))
    page = staged(effects.page, session)
    page.selectbox(key=f"effects-pair-{session.id}").set_value("a x b").run()
    assert "1 of 4 combinations of a x b without a run" in text_of(page)
    what = "the interaction of a and b"
    page.selectbox(key=f"effects-target-{session.id}").set_value(what).run()
    shown = next(one.value for one in page.dataframe if list(one.value.columns) == ["a", "b", "c"])
    row = shown.iloc[0]
    assert (row["a"], row["b"]) == ("-1 procs", "-1")
    assert not page.radio, "the one run completes the block as well"
    page.selectbox(key=f"effects-target-{session.id}").set_value("the interaction of a and c").run()
    fewest, block = page.radio[0].options
    assert (fewest, block) == ("Fewest runs (2)", "Full factorial block around the runs (2)")


def test_no_more_than_the_budget_leaves_is_offered() -> None:
    session = measured("x", max_runs=5)
    page = staged(effects.page, session)
    page.selectbox(key=f"effects-target-{session.id}").set_value("the effect of c").run()
    key = f"effects-add-{session.experiment.version}"
    assert page.button(key=key).label == "Add the first 1 of 2 runs"
    page.button(key=key).click().run()
    assert len(session.experiment.runs) == 5
    assert "budget is used up" in text_of(page)


def test_nothing_is_added_if_one_of_them_cannot_be_any_more() -> None:
    session = measured("x", max_runs=6)
    runs = missing_report(session.experiment, EstimationTarget(("c",))).runs
    session.include(runs[1])
    seat = Seat(session)
    with pytest.raises(ExperimentError, match="run 5 has one of these configurations"):
        _bare_add(seat, runs)
    assert len(session.experiment.runs) == 5
    session.cancel(5)
    session.include({"a": 1, "b": 1, "c": "y"}, "another")
    taken = tuple(values for values in runs if values != {"a": 1, "b": 1, "c": "y"})
    with pytest.raises(ExperimentError, match="the budget leaves"):
        _bare_add(seat, (*taken, {"a": -1, "b": -1, "c": "y"}, {"a": 1, "b": -1, "c": "z"}))
    assert len(session.experiment.runs) == 6


def _bare_add(seat: Seat, runs: tuple[dict[str, Level], ...]) -> str:
    return effects_details.add(seat, "the effect of c", runs)


# -- the scoreboard ----------------------------------------------------------------------------


def _board(view_model: ExperimentView, experiment: Experiment) -> Intent | None:
    overview_diagnostics.prediction_record_section(experiment)
    return None


def test_the_scoreboard_has_its_states() -> None:
    session = open_session(Bowl(), store=MemoryStore(), clock=TickingClock())
    assert "No run yet" in staged(_board, session).info[0].value
    session.submit(session.initial_evaluation(9))
    session.run_queued(SerialExecutor(Bowl()))
    assert "coverage is unknown" in text_of(staged(_board, session))
    session.submit(session.suggest(4), keep=[0, 1, 2], edits={})
    session.run_queued(SerialExecutor(Bowl()))
    page = staged(_board, session)
    table = page.dataframe[0].value
    assert list(table["runs"]) == ["suggested, unchanged", "suggested, left out",
                                   "first runs"]  # fmt: skip
    assert list(table["number"]) == ["2", "1", "10"]  # the design has ten


def test_a_response_without_a_goal_calls_nothing_better() -> None:
    session = measured("x", "y")
    report = effects_report(session.experiment, response=AnalysedResponse("cost", measure="cost"))
    assert report.goal is None
    assert {one.verdict for main in report.main for one in main.levels} == {None}
    (low, high) = report.main[0].levels
    assert low.change == pytest.approx(1)
    assert high.change == pytest.approx(-1)
