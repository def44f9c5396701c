"""What parameters and pairs explain, effects in standard errors, other measures and filters."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pytest
import vl_convert
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import t as student

from assistant import (
    Constraint,
    Experiment,
    Measure,
    Objective,
    SecondObjective,
    Session,
    SingleMeasure,
    open_session,
)
from assistant.analysis.effects import (
    MOST_PAIRED,
    AnalysedResponse,
    RunFilter,
    effects_report,
    response_observations,
    standardised_effects,
    term_shares,
)
from assistant.executors.serial import SerialExecutor
from assistant.presentation.charts.effects import (
    CHOSEN_LEVEL,
    CHOSEN_PAIR,
    LevelChange,
    choosable,
    main_effects,
    pareto_standardised,
    strength_matrix,
)
from assistant.presentation.tables.effects import effects_ranking, fit_text, responses_of
from assistant.store.event_store import MemoryStore
from strategies import Level, Parameter, ParameterSpace
from tests.assistant.examples import TickingClock


@dataclass(frozen=True)
class Known:
    """wait_s = 4 a + 2 b + a b + noise of its own table; power = 100 a; a text is no number."""

    noise: tuple[float, ...] = (0.0,) * 8
    name = "known"
    space = ParameterSpace(tuple(Parameter(name, (-1, 1)) for name in "abc"))
    facts = ()
    baseline = None
    objective = Objective(
        SingleMeasure("wait_s"), "minimise",
        (Constraint("power", at_least=0.0), Constraint("heat", at_most=9.0)), "s",
        SecondObjective(SingleMeasure("cost"), "minimise"),
    )  # fmt: skip

    def evaluate(self, values: Mapping[str, Level], seed: int) -> Mapping[str, Measure]:
        a, b, c = (int(values[name]) for name in "abc")
        cell = (a + 1) // 2 * 4 + (b + 1) // 2 * 2 + (c + 1) // 2
        return {
            "wait_s": 4.0 * a + 2.0 * b + a * b + self.noise[cell],
            "cost": 5.0 + c,
            "power": 100.0 * a,
            "heat": 1.0,
            "series": (1.0, 2.0),
            "sometimes": None if a < 0 else 1.0 * b,
        }


def run_all(noise: tuple[float, ...] = (0.0,) * 8) -> Session:
    application = Known(noise)
    session = open_session(application, store=MemoryStore(), clock=TickingClock())
    for a in (-1, 1):
        for b in (-1, 1):
            for c in (-1, 1):
                session.include({"a": a, "b": b, "c": c})
    session.run_queued(SerialExecutor(application))
    return session


@pytest.fixture(scope="module")
def exact() -> Experiment:
    return run_all().experiment


def share_of(experiment: Experiment, *names: str) -> float:
    found = term_shares(experiment)
    one = next(one for one in (*found.main, *found.pairs) if one.parameters == names)
    assert one.share is not None
    return one.share


def test_shares_of_an_exact_factorial_are_those_of_its_sums_of_squares(exact: Experiment) -> None:
    # 8 runs: sums of squares 8 * 16, 8 * 4 and 8 * 1 of 168
    assert share_of(exact, "a", "b") == pytest.approx(8 / 168)
    # the additive model leaves a x b over: 8 on 4 degrees of freedom, 2 of which chance explains
    assert share_of(exact, "a") == pytest.approx((128 - 2) / 168)
    assert share_of(exact, "b") == pytest.approx((32 - 2) / 168)
    assert share_of(exact, "c") == 0
    assert term_shares(exact).pairs[0].parameters == ("a", "b")
    assert not any(one.is_part for one in term_shares(exact).pairs)


def test_standardised_effects_are_t_of_the_analysis_by_hand() -> None:
    noise = (0.5, -0.3, 0.2, -0.6, 0.1, 0.4, -0.5, 0.2)
    experiment = run_all(noise).experiment
    report = effects_report(experiment)
    found = standardised_effects(report)
    assert found is not None
    observed = [run.outcome.value for run in experiment.runs if run.outcome]
    y, x = np.array(observed), []
    for run in experiment.runs:
        values = experiment.space.values(run.configuration)
        x.append([1.0, *(float(values[name]) for name in "abc")])
    design = np.array(x)
    b, residual, *_ = np.linalg.lstsq(design, y, rcond=None)
    error = math.sqrt(float(residual[0]) / 4 / 8)  # of a coefficient
    by_hand = dict(zip("abc", b[1:] / error, strict=True))
    assert {one.name: t for one, t in found.effects} == pytest.approx(by_hand)
    assert (found.df, found.limit) == (4, pytest.approx(student.ppf(0.975, 4)))
    assert found.bonferroni == pytest.approx(student.ppf(1 - 0.025 / 3, 4))
    assert report.r_squared == pytest.approx(
        1 - float(residual[0]) / float(((y - y.mean()) ** 2).sum())
    )
    assert f"{report.r_squared:.2f}" in fit_text(report)


def test_without_an_error_there_is_no_standard_error_and_no_r_squared() -> None:
    application = Known()
    session = open_session(application, store=MemoryStore(), clock=TickingClock())
    assert standardised_effects(effects_report(session.experiment)) is None
    for a, b, c in ((-1, -1, -1), (1, -1, -1), (-1, 1, -1), (-1, -1, 1)):
        session.include({"a": a, "b": b, "c": c})
    session.run_queued(SerialExecutor(application))
    report = effects_report(session.experiment)
    assert (report.residual_df, report.r_squared, fit_text(report)) == (0, None, "")
    assert standardised_effects(report) is None
    found = term_shares(session.experiment)
    assert all(one.share is not None for one in found.main)
    assert {one.share for one in found.pairs} == {None}, "a corner is missing of every pair"
    ranking = effects_ranking(session.experiment)
    assert ranking.sentence == (
        "a probably matters most: its levels differ by 6 s in wait_s; b follows with 2 s. Then "
        "c 0 s. The error is unknown: 4 runs and as many effects; add runs or ask for fewer "
        "interactions."
    )


def test_any_number_that_was_measured_is_a_response_with_the_direction_that_is_known(
    exact: Experiment,
) -> None:
    found = {one.name: one for one in responses_of(exact)}
    assert list(found) == ["wait_s", "cost", "heat", "power", "sometimes"]
    goals = {name: one.goal for name, one in found.items()}
    assert goals == {"wait_s": "minimise", "cost": "minimise", "heat": "minimise",
                     "power": "maximise", "sometimes": None}  # fmt: skip
    assert found["cost"].is_second
    assert found["wait_s"].unit == "s"
    report = effects_report(exact, response=found["power"])
    assert [one.change for one in report.main[0].levels] == pytest.approx([-100, 100])
    assert report.goal == "maximise"
    assert effects_report(exact, response=found["sometimes"]).n_runs == 4
    cost = effects_report(exact, response=found["cost"])
    assert [(one.parameter, one.value) for one in cost.ranking] == [("c", 2), ("a", 0), ("b", 0)]


def test_a_filter_takes_the_runs_that_it_names(exact: Experiment) -> None:
    assert len(response_observations(exact)) == 8
    assert (
        len(response_observations(exact, only=RunFilter(feasible=True))) == 4
    )  # power is below 0 at a = -1
    assert (
        len(response_observations(exact, only=RunFilter(levels=(("a", (1,)), ("b", (-1, 1)))))) == 4
    )
    assert len(response_observations(exact, only=RunFilter(True, (("a", (-1,)),)))) == 0
    report = effects_report(exact, only=RunFilter(levels=(("a", (1,)),)))
    b = next(one for one in report.main if one.parameter == "b")
    assert [one.change for one in b.levels] == pytest.approx([-3, 3])  # 2 b + a b at a = 1


def test_a_measure_that_cannot_be_squared_is_unknown() -> None:
    outcome = run_all().experiment.runs[0].outcome
    assert outcome is not None
    assert AnalysedResponse("series", measure="series").of(outcome) is None
    assert AnalysedResponse("nothing", measure="nothing").of(outcome) is None
    assert AnalysedResponse("sometimes", measure="sometimes").of(outcome) is None


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(-5, 5), min_size=8, max_size=8))
def test_shares_lie_in_0_to_1_and_name_every_parameter_and_pair(noise: list[float]) -> None:
    experiment = run_all(tuple(noise)).experiment
    found = term_shares(experiment)
    assert {one.parameters for one in found.main} == {("a",), ("b",), ("c",)}
    ranking = effects_report(experiment).ranking
    assert [one.parameters[0] for one in found.main] == [entry.parameter for entry in ranking]
    assert {one.parameters for one in found.pairs} == {("a", "b"), ("a", "c"), ("b", "c")}
    for one in (*found.main, *found.pairs):
        assert one.share is None or 0 <= one.share <= 1
    known = [one.share or 0.0 for one in found.pairs]
    assert known == sorted(known, reverse=True)


def test_of_many_parameters_the_strongest_are_paired() -> None:
    names = [f"p{i}" for i in range(MOST_PAIRED + 2)]

    @dataclass(frozen=True)
    class Many(Known):
        space = ParameterSpace(tuple(Parameter(name, (0, 1)) for name in names))
        objective = Objective(SingleMeasure("wait_s"))

        def evaluate(self, values: Mapping[str, Level], seed: int) -> Mapping[str, Measure]:
            return {"wait_s": float(sum(i * int(v) for i, v in enumerate(values.values())))}

    session = open_session(Many(), store=MemoryStore(), clock=TickingClock())
    rng = np.random.default_rng(1)
    for row in np.unique(rng.integers(0, 2, (40, len(names))), axis=0).tolist():
        session.include(dict(zip(names, row, strict=True)))
    session.run_queued(SerialExecutor(Many()))
    found = term_shares(session.experiment)
    assert len(found.pairs) == MOST_PAIRED * (MOST_PAIRED - 1) // 2
    assert set(found.left_out) == {"p0", "p1"}
    assert effects_ranking(session.experiment).sentence.startswith(
        "p13 matters most: its levels differ by 13 in wait_s; p12 follows with 12. Then p11 11, "
    )


# -- charts ------------------------------------------------------------------------------------


def test_charts_say_numbers_and_carry_what_is_clicked(exact: Experiment) -> None:
    found = term_shares(exact)
    matrix = strength_matrix(found.main, found.pairs)
    svg = vl_convert.vegalite_to_svg(matrix)
    for text in (">75%<", ">18%<", ">5%<"):
        assert text in svg
    rows = matrix["data"]["values"]
    assert [(r["first"], r["second"]) for r in rows[:3]] == [("a", "a"), ("b", "b"), ("c", "c")]
    assert matrix["layer"][0]["params"][0]["name"] == CHOSEN_PAIR
    told = standardised_effects(effects_report(run_all((0.5, 0, 0, 0, 0, 0.2, 0, 0)).experiment))
    assert told is not None
    svg = vl_convert.vegalite_to_svg(pareto_standardised(told))
    for text in ("one by one (t)", "all at once (Bonferroni)", "raises it"):
        assert text in svg
    spec = main_effects([LevelChange("1", 2.0, 1.0, 3.0, 4)], "a", "", "")
    chart = choosable(spec, "a")
    assert chart["data"]["values"][0]["parameter"] == "a"
    assert chart["layer"][-1]["params"][0]["name"] == CHOSEN_LEVEL
    assert "params" not in spec["layer"][-1], "the report's chart stays as it is"
    vl_convert.vegalite_to_svg(chart)


def test_a_matrix_with_nothing_known_says_so() -> None:
    session = open_session(Known(), store=MemoryStore(), clock=TickingClock())
    found = term_shares(session.experiment)
    assert found.pairs == ()
    svg = vl_convert.vegalite_to_svg(strength_matrix(found.main, found.pairs))
    assert svg.count(">?<") == 3
