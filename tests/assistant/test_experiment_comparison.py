"""Several experiments beside each other: values only where the objective is the same."""

from dataclasses import replace

import pytest

from assistant import Experiment, Objective, SingleMeasure, Sla, open_session
from assistant.core.errors import SettingsError
from assistant.executors.serial import SerialExecutor
from assistant.presentation.charts.comparison import best_overlay, effects_beside
from assistant.presentation.charts.palette import SERIES
from assistant.presentation.report.html import drawing, render_comparison_report
from assistant.presentation.tables.experiment_comparison import compare_experiments
from assistant.store.event_store import MemoryStore
from tests.assistant.examples import TODAY, Bowl, Hills


def measured(application: Bowl | Hills, name: str, n: int, max_runs: int = 30) -> Experiment:
    session = open_session(
        application, store=MemoryStore(), sla=Sla(max_runs), name=name, experiment_id=name
    )
    if application.baseline is not None:
        session.submit_baseline()
    if n:
        session.submit(session.initial_evaluation(n))
    session.run_queued(SerialExecutor(application))
    return session.experiment


def test_settings_that_differ_and_best_configurations_stand_beside_each_other() -> None:
    short = measured(Bowl(TODAY), "short", 2)
    long = measured(Bowl(), "long", 20, max_runs=40)
    data = compare_experiments([short, long])
    assert data.names == ("short", "long")
    different = {row.name: row.texts for row in data.settings if row.differs}
    assert different["Runs"] == ("30", "40")
    assert different["current x"] == ("0", "none")
    assert not {"Objective", "Application", "Seed", "levels of x"} & set(different)
    assert [row.name for row in data.best] == ["x", "y", "mode"]
    (group,) = data.groups
    assert group.value_name == "height"
    assert [course.name for course in group.courses] == ["short", "long"]
    assert group.sentence.startswith("long has the best height: 1, ")
    assert " % lower than " in group.sentence


def test_other_objectives_are_not_compared_by_value_and_keep_their_colours() -> None:
    bowl, hills, again = (
        measured(Bowl(), "bowl", 12),
        measured(
            replace_objective(Hills(), Objective(SingleMeasure("height"), "minimise", (), "m")),
            "hills",
            12,
        ),
        measured(Bowl(), "again", 12),
    )
    data = compare_experiments([bowl, hills, again])
    assert [[course.name for course in group.courses] for group in data.groups] == [
        ["bowl", "again"], ["hills"],
    ]  # fmt: skip
    assert "no other result has its objective" in data.groups[1].sentence
    assert all("none" not in row.texts for row in data.settings), "only what both can have"
    spec = best_overlay(data.groups[0].courses, data.names, "height")
    scale = spec["layer"][0]["encoding"]["color"]["scale"]
    assert scale == {"domain": ["bowl", "again"], "range": [SERIES[0], SERIES[2]]}
    beside = effects_beside(data.groups[1].ranges, data.names, "height [m]")
    assert beside["layer"][1]["encoding"]["color"]["scale"]["range"] == [SERIES[1]]
    for chart in (spec, beside):
        assert drawing(chart, ".svg", "a chart").startswith(b"<svg")


def replace_objective(hills: Hills, objective: Objective) -> Hills:
    changed = replace(hills)
    object.__setattr__(changed, "objective", objective)
    return changed


def test_one_report_over_several_is_one_page() -> None:
    data = compare_experiments([measured(Bowl(), "<b>one<b>", 9), measured(Bowl(), "two", 9)])
    page = render_comparison_report(data)
    assert page.count("<svg") == 2
    assert "<b>one<b>" not in page
    assert "&lt;b&gt;one&lt;b&gt;" in page
    assert "<script" not in page


def test_nothing_measured_and_equal_results_have_words() -> None:
    empty = [measured(Bowl(), name, 0) for name in ("a", "b")]
    for experiment in empty:
        assert not experiment.observations
    data = compare_experiments(empty)
    assert data.groups[0].sentence == "None of them has a result for height yet."
    assert data.best[0].texts == ("no result", "no result")
    assert render_comparison_report(data).count("<svg") == 0
    same = compare_experiments([measured(Bowl(), name, 24) for name in ("a", "b")])
    assert same.groups[0].sentence == "a and b have the same best height: 1."


def test_two_to_six_different_experiments_are_compared() -> None:
    one = measured(Bowl(), "one", 1)
    with pytest.raises(SettingsError, match="2 to 6 experiments can be compared, not 1"):
        compare_experiments([one])
    with pytest.raises(SettingsError, match="cannot be compared with itself"):
        compare_experiments([one, one])
    with pytest.raises(SettingsError, match="2 to 6 experiments can be compared, not 7"):
        compare_experiments([measured(Bowl(), str(i), 0) for i in range(7)])
