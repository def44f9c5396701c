"""*Space* by itself: the map in each state, a click, what can be done there, and the runs below."""

from collections.abc import Mapping
from typing import Any

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from agents import Follower
from assistant import Constraint, Experiment, RunState, Session, Sla, open_session
from assistant.analysis.response_map import Fold
from assistant.applications.function import Function
from assistant.core.errors import RunError
from assistant.core.objective import Objective, SingleMeasure
from assistant.executors.serial import SerialExecutor
from assistant.presentation.charts.response_map import BRUSH, CELL
from assistant.store.event_store import MemoryStore
from assistant.ui.pages import space
from assistant.ui.pages import space as space_runs
from assistant.ui.pages.space_map import Mode, centre_of, draw_map, too_few
from strategies import Level, Parameter, ParameterSpace
from tests.assistant.examples import TODAY, Bowl
from tests.ui.stage import staged

pytestmark = pytest.mark.slow

BIG = ParameterSpace(tuple(Parameter(f"k{i}", tuple(range(10))) for i in range(12)))


def wait(procs: int, order: str, window: int) -> Mapping[str, float]:
    if procs == 1 and order == "sjf":
        raise RunError("it needs two processors")
    return {"wait_s": 1000.0 / procs + window + 5 * len(order), "cost": float(procs)}


def queues(runs: int, noisy: bool = True) -> Session:
    application = Function(
        wait,
        ParameterSpace(
            (
                Parameter("procs", (1, 2, 4, 8)),
                Parameter("order", ("fcfs", "sjf", "wfp3")),
                Parameter("window", (0, 60), unit="s"),
            )
        ),
        Objective(
            SingleMeasure("wait_s"), "minimise", (Constraint("cost", at_most=4.0),), unit="s"
        ),
        baseline={"procs": 2, "order": "fcfs", "window": 60},
        noisy=noisy,
    )  # fmt: skip
    session = open_session(application, store=MemoryStore(), sla=Sla(60), strategy="random", seed=3)
    if runs:
        session.submit_baseline()
        if runs > 1:
            session.include({"procs": 1, "order": "sjf", "window": 0})
        if runs > 2:
            session.submit(session.initial_evaluation(runs - 2))
        session.run_queued(SerialExecutor(application))
    return session


def bowl(runs: int, limit: int = 24) -> Session:
    application = Bowl(baseline=TODAY)
    session = open_session(application, store=MemoryStore(), sla=Sla(limit))
    if runs:
        Follower(initial=2, max_runs=runs).steer(session, SerialExecutor(application))
    return session


def huge(runs: int) -> Session:
    def total(**levels: int) -> Mapping[str, float]:
        return {"t": float(sum((i + 1) * (v - 3) ** 2 for i, v in enumerate(levels.values())))}

    application = Function(total, BIG, Objective(SingleMeasure("t"), "minimise"), noisy=False)
    session = open_session(application, store=MemoryStore(), sla=Sla(99), strategy="random")
    session.submit(session.initial_evaluation(runs))
    session.run_queued(SerialExecutor(application))
    return session


def charts(page: AppTest) -> list[dict[str, Any]]:
    import json

    return [json.loads(one.proto.spec) for one in page.get("vega_lite_chart")]


def key_of(session: Session, values: Mapping[str, Level]) -> str:
    ids = session.experiment.space.from_values(values).level_ids
    return " ".join(f"{i}:{own}" for i, own in enumerate(ids))


def clicked(page: AppTest, session: Session, key: str) -> AppTest:
    """Click a cell: what the chart tells Streamlit then."""
    page.session_state[f"space-clicked-{session.id}"] = ""
    page.session_state[f"space-chosen-{session.id}"] = key
    page.run()
    assert not page.exception, [e.value for e in page.exception]
    return page


def texts(page: AppTest) -> str:
    kinds = ("markdown", "caption", "info", "warning", "error", "success")
    return "\n".join(one.value for kind in kinds for one in getattr(page, kind))


def button(page: AppTest, label: str) -> Any:
    return next(one for one in page.button if one.label == label)


MODES: tuple[Mode, ...] = ("measured", "predicted", "uncertainty", "regions")


# -- states ------------------------------------------------------------------------------------


def test_nothing_measured_is_said_with_what_to_do_and_cells_can_be_added() -> None:
    session = queues(0)
    page = staged(space.page, session)
    assert "Nothing has been measured yet" in page.info[0].value
    assert "*Suggestions*" in page.info[0].value
    assert "No run is shown" in page.info[1].value
    assert page.segmented_control[0].value == "measured"
    assert len(charts(page)) == 1
    page = clicked(page, session, key_of(session, {"procs": 4, "order": "sjf", "window": 0}))
    assert "fewer than 4 runs have finished" in texts(page)
    page.text_input[0].set_value("a first try").run()
    button(page, "Add to the queue").click().run()
    assert "Run 1 is waiting in the queue." in page.success[0].value
    run = session.experiment.run(1)
    assert session.experiment.space.values(run.configuration)["procs"] == 4
    assert (run.source, run.reason) == ("analyst", "a first try")


def test_too_few_results_predict_nothing_and_it_is_said() -> None:
    page = staged(space.page, queues(1))
    page.segmented_control[0].set_value("predicted").run()
    assert "needs 4 finished runs, and only 1 has finished" in texts(page)
    assert not page.exception


@pytest.mark.parametrize("mode", MODES)
def test_each_colour_has_a_chart_with_words_and_a_table(mode: Mode) -> None:
    session = queues(12)
    page = staged(space.page, session)
    assert page.segmented_control[0].value == "predicted"
    page.segmented_control[0].set_value(mode).run()
    assert not page.exception
    drawn = page.get("vega_lite_chart")[0].proto
    assert "24 configurations" in drawn.alt
    assert "across" in drawn.alt
    lists = {one["name"]: one["value"] for one in charts(page)[0]["params"]}
    assert len(lists["A"]) == 24
    assert "24 cells of 24 configurations" in texts(page)


def test_failed_violating_waiting_suggested_best_and_today_are_marked() -> None:
    session = queues(16)
    session.submit(session.suggest(2))
    session.suggest(1)
    experiment = session.experiment
    marks = marked(experiment, "predicted")
    assert {"failed", "violates a constraint", "waiting", "suggested", "best", "baseline"} <= marks
    session.close_level("order", "wfp3")
    session.exclude("procs == 1 and window == 60")
    fold = Fold(("procs",), ("order", "window"))
    states = draw_map(session.experiment, fold, "measured", ()).admitted
    assert (states == 1).sum() == 8
    assert (states == 2).sum() == 2


def marked(experiment: Experiment, mode: Mode) -> set[str]:
    spec = draw_map(experiment, Fold(("procs", "window"), ("order",)), mode, experiment.runs).spec
    return {
        kind
        for layer in spec["layer"]
        for kind in layer.get("encoding", {}).get("shape", {}).get("scale", {}).get("domain", ())
    }


def test_regions_mark_members_and_what_was_evaluated() -> None:
    session = queues(20)
    assert {"good member", "evaluated"} <= marked(session.experiment, "regions")
    page = staged(space.page, session)
    page.segmented_control[0].set_value("regions").run()
    assert "A number marks the best of each region" in texts(page)
    page = staged(space.page, queues(2))
    page.segmented_control[0].set_value("regions").run()
    assert "No region yet" in texts(page)


def test_a_finished_experiment_is_looked_at_and_nothing_is_added() -> None:
    session = bowl(8)
    if session.experiment.finished is None:
        session.finish("enough")
    page = staged(space.page, session)
    page = clicked(page, session, "0:3 1:2 2:1")
    assert "The experiment is finished" in texts(page)
    assert not [one for one in page.button if "queue" in one.label]


# -- the cell ----------------------------------------------------------------------------------


def test_a_cell_that_was_not_run_says_what_to_expect_and_can_be_added_once() -> None:
    session = queues(10)
    experiment = session.experiment
    free = next(c for c in experiment.space.configurations() if c not in experiment.knowledge.taken)
    values = experiment.space.values(free)
    page = clicked(staged(space.page, session), session, key_of(session, values))
    assert "Predicted wait_s: " in texts(page)
    assert "95 % interval of one run" in texts(page)
    assert "region" in texts(page)
    button(page, "Add to the queue").click().run()
    added = session.experiment.runs[-1]
    assert added.configuration == free
    assert added.state is RunState.QUEUED
    assert f"Run {added.id} (yours) is waiting." in texts(page)
    assert page.text_input[0].value == ""
    assert "Run again" in [one.label for one in page.button]


def test_what_somebody_else_submitted_meanwhile_is_refused_in_one_sentence() -> None:
    session = queues(10)
    experiment = session.experiment
    free = next(c for c in experiment.space.configurations() if c not in experiment.knowledge.taken)
    values = experiment.space.values(free)
    page = clicked(staged(space.page, session), session, key_of(session, values))
    pressed = button(page, "Add to the queue")
    other = session.include(values)
    pressed.click().run()
    assert len(session.experiment.runs) == other.id
    assert f"is run {other.id} already" in page.error[0].value


def test_a_run_can_be_repeated_where_results_vary_and_not_where_they_do_not() -> None:
    session = queues(10)
    best = session.experiment.best
    assert best is not None
    values = session.experiment.space.values(best.configuration)
    page = clicked(staged(space.page, session), session, key_of(session, values))
    assert f"Run {best.id} " in texts(page)
    assert "It is the best so far." in texts(page)
    button(page, "Run again").click().run()
    again = session.experiment.runs[-1]
    assert (again.source, again.configuration) == ("replicate", best.configuration)
    assert f"Run {again.id} repeats run {best.id}" in page.success[0].value
    certain = queues(10, noisy=False)
    best = certain.experiment.best
    assert best is not None
    values = certain.experiment.space.values(best.configuration)
    page = clicked(staged(space.page, certain), certain, key_of(certain, values))
    assert "another run would give the same result" in texts(page)
    assert "Run again" not in [one.label for one in page.button]


def test_closed_excluded_and_used_up_are_said_instead_of_a_button() -> None:
    session = queues(6)
    session.close_level("order", "wfp3")
    session.exclude("procs == 1 and window == 60")
    page = staged(space.page, session)
    closed = key_of(session, {"procs": 4, "order": "wfp3", "window": 0})
    assert "is closed" in texts(clicked(page, session, closed))
    excluded = key_of(session, {"procs": 1, "order": "fcfs", "window": 60})
    assert "is excluded by" in texts(clicked(page, session, excluded))
    session.change_budget(Sla(6))
    free = key_of(session, {"procs": 8, "order": "sjf", "window": 60})
    assert "The budget is used up" in texts(clicked(page, session, free))


def test_a_key_of_another_map_is_refused() -> None:
    session = queues(6)
    page = clicked(staged(space.page, session), session, "9:9 nonsense")
    assert "is no cell of this map" in page.warning[0].value


def test_a_click_is_kept_until_another_one() -> None:
    def script() -> None:
        import streamlit as st

        from assistant.ui.pages import space

        class Picked:
            selection = st.session_state.get("told", {})

        keys = space._MapKeys("e")
        space._keep(keys, Picked())
        st.write(st.session_state.get(keys.of("chosen"), "nothing"))

    page = AppTest.from_function(script, default_timeout=300)

    def told(selection: Mapping[str, Any]) -> str:
        page.session_state["told"] = selection
        page.run()
        return str(page.markdown[0].value)

    assert told({}) == "nothing"
    assert told({CELL: [{CELL: "0:1 1:2"}]}) == "0:1 1:2"
    assert told({CELL: [{CELL: "0:1 1:2"}]}) == "0:1 1:2"
    assert told({CELL: []}) == ""


# -- folding -----------------------------------------------------------------------------------


def test_a_person_chooses_what_lies_where_and_is_told_what_cannot_be() -> None:
    session = queues(10)
    page = staged(space.page, session)
    across, down = page.multiselect[0], page.multiselect[1]
    assert {*across.value, *down.value} == {"procs", "order", "window"}
    across.set_value(["window"])
    down.set_value(["procs"]).run()
    lists = {one["name"]: one["value"] for one in charts(page)[0]["params"]}
    assert (lists["LX"], len(lists["LY"])) == (["window 0 s", "window 60 s"], 4)
    assert "A slice at order" in texts(page)
    assert "outside the slice" in texts(page)
    rest = next(one for one in page.segmented_control if one.label.startswith("On no axis"))
    rest.set_value("all").run()
    assert "Each cell combines all levels of order." in texts(page)
    assert "outside the slice" not in texts(page)
    page = clicked(page, session, "0:1 2:0")
    assert "are for the configuration with order as in the best run" in texts(page)
    page.multiselect[1].set_value(["window"]).run()
    assert "'window' is on the map twice" in page.error[0].value


def test_levels_can_be_chosen_for_what_is_on_no_axis() -> None:
    session = queues(10)
    page = staged(space.page, session)
    page.multiselect[0].set_value(["window"])
    page.multiselect[1].set_value(["procs"]).run()
    rest = next(one for one in page.segmented_control if one.label.startswith("On no axis"))
    rest.set_value("chosen").run()
    page.selectbox[0].set_value("wfp3").run()
    assert "A slice at order wfp3" in texts(page)
    assert not page.exception


def test_a_space_of_a_million_millions_is_a_slice_through_the_best() -> None:
    session = huge(15)
    page = staged(space.page, session)
    told = texts(page)
    assert "10,000 cells of 1,000,000,000,000 configurations" in told
    assert "A slice at" in told
    assert "are outside the slice" in told
    rest = next(one for one in page.segmented_control if one.label.startswith("On no axis"))
    rest.set_value("all").run()
    told = texts(page)
    assert "Predicted for a typical configuration of each cell by the model of 15 runs" in told
    assert not page.exception


def test_where_parameters_are_held_is_the_best_then_today_then_the_first() -> None:
    session = queues(0)
    centre = centre_of(session.experiment)
    assert centre is not None
    assert centre.configuration == session.experiment.opened.baseline
    best = queues(9).experiment
    centre = centre_of(best)
    assert centre is not None
    assert best.best is not None
    assert centre.configuration == best.best.configuration
    assert too_few(best) == ""


def test_the_map_is_made_once_for_a_state(monkeypatch: pytest.MonkeyPatch) -> None:
    session, made = queues(8), []

    def counted(*args: Any) -> Any:
        made.append(1)
        return draw_map(*args)

    monkeypatch.setattr(space, "draw_map", counted)
    page = staged(space.page, session)
    page.run()
    assert len(made) == 1
    session.suggest(1)
    page.run()
    assert len(made) == 2


# -- filters and runs --------------------------------------------------------------------------


def shown(page: AppTest) -> pd.DataFrame:
    return next(one.value for one in page.dataframe if "state" in one.value)


def test_one_filter_is_for_map_lines_and_table() -> None:
    session = queues(16)
    page = staged(space.page, session)
    every = shown(page)
    assert set(every["state"]) == {"completed", "failed"}
    states = next(one for one in page.get("button_group") if one.label == "Runs shown")
    states.set_value([RunState.FAILED]).run()
    assert set(shown(page)["state"]) == {"failed"}
    states = next(one for one in page.get("button_group") if one.label == "Runs shown")
    states.set_value([RunState.COMPLETED]).run()
    result = next(one for one in page.segmented_control if one.label == "Constraints")
    result.set_value("violated").run()
    assert set(shown(page)["constraints"]) == {"violated"}
    lines = charts(page)[1]
    assert len(shown(page)) < len(every)
    assert lines["params"][0]["name"] == "N"


def test_the_brush_filters_the_table() -> None:
    session = queues(16)
    axes, lines = space_runs.over_axes(session.experiment, session.experiment.runs, ["procs"])
    assert [axis.title for axis in axes] == ["procs", "wait_s"]
    assert space_runs.run_table(session.experiment, []).empty, "the brush may hold no run"
    at = {line.run_id: line.at for line in lines}
    for run in session.experiment.runs:
        assert at[run.id][0] == pytest.approx(run.configuration.level_ids[0] / 3, abs=1e-4)
        assert (at[run.id][1] is None) == (run.outcome is None)
    values = [run.outcome.value for run in session.experiment.runs if run.outcome is not None]
    assert {min(values), max(values)} == {line.value for line in lines if line.at[1] in (0.0, 1.0)}
    assert space_runs.brush_of({BRUSH: {"axis": [1], "at": [0.5, 0.1]}}, 2) == space_runs.Brush(
        (1,), 0.1, 0.5
    )
    for nothing in (None, {}, {BRUSH: {}}, {BRUSH: {"axis": [2], "at": [0, 1]}}):
        assert space_runs.brush_of(nothing, 2) is None


def test_runs_that_are_all_alike_have_no_axes() -> None:
    page = staged(space.page, queues(1))
    assert "All runs shown have the same levels" in texts(page)
    assert len(shown(page)) == 1


@pytest.mark.parametrize("mode", MODES)
def test_the_table_of_the_map_has_every_cell_the_best_first(mode: Mode) -> None:
    session = queues(14)
    experiment = session.experiment
    drawn = draw_map(experiment, Fold(("procs",), ("order", "window")), mode, experiment.runs)
    table = space.map_table(experiment, drawn)
    assert len(table) == 24
    assert list(table.columns[:3]) == ["procs", "order", "window [s]"]
    if mode == "measured":
        values = table["measured wait_s"].dropna().tolist()
        assert values == sorted(values)
        assert table["measured wait_s"].notna().tolist()[: len(values)] == [True] * len(values)
    elif mode == "predicted":
        values = table["predicted wait_s"].tolist()
        assert values == sorted(values)
    elif mode == "uncertainty":
        widths = (table["to"] - table["from"]).tolist()
        assert widths == sorted(widths)
