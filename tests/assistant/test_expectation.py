"""What is said to be expected of a suggestion, and when a warning is repeated."""

from itertools import pairwise

import numpy as np
import pytest

from agents import Follower
from assistant import Session, Sla, WarningPolicy, open_session
from assistant.analysis.response_map import (
    FEW_DURATIONS,
    expected_durations,
    expected_measure,
    expected_measures,
)
from assistant.applications.function import Function
from assistant.core.events import RunCompleted, RunStarted
from assistant.core.objective import Goal, Objective, SingleMeasure
from assistant.core.run import Outcome
from assistant.executors.serial import SerialExecutor
from assistant.presentation.tables.queue import (
    KINDS,
    expected_text,
    explanation,
    kind_text,
    list_text,
    reason_text,
)
from assistant.store.event_store import MemoryStore
from strategies import AnovaModel, Parameter, ParameterSpace, Suggestion
from tests.assistant.examples import TODAY, Bowl, TickingClock


def steered(runs: int, strategy: str = "grasp") -> Session:
    bowl = Bowl(baseline=TODAY)
    session = open_session(
        bowl, store=MemoryStore(), sla=Sla(runs), clock=TickingClock(), strategy=strategy
    )
    Follower(initial=4).steer(session, SerialExecutor(bowl))
    return session


@pytest.mark.parametrize("strategy", ["grasp", "copper", "random"])
def test_the_same_model_speaks_whatever_the_strategy(strategy: str) -> None:
    session = steered(8, strategy)
    experiment = session.experiment
    model = AnovaModel(experiment.space, experiment.observations)
    free = next(c for c in experiment.space.configurations() if c not in experiment.knowledge.taken)
    found = expected_measure(experiment, free)
    assert found is not None
    predicted = model.predict(free)
    assert found.value == experiment.opened.objective.value_of(predicted.value)
    assert found.low <= found.value <= found.high
    text = expected_text(experiment, free)
    assert text.count(" to ") == 1
    session.reopen() if experiment.finished else None
    session.change_budget(Sla(20))
    suggestion = session.suggest(1).suggestions[0]
    assert reason_text(experiment, suggestion).startswith(suggestion.reason.removesuffix("."))
    assert "; expected " in reason_text(experiment, suggestion)


@pytest.mark.parametrize("goal", ["minimise", "maximise"])
def test_what_is_expected_of_many_is_what_is_expected_of_each(goal: Goal) -> None:
    space = ParameterSpace((Parameter("x", tuple(range(6))), Parameter("y", ("a", "b", "c"))))
    application = Function(
        lambda x, y: {"v": 3.0 * x + len(y) * x % 5}, space, Objective(SingleMeasure("v"), goal)
    )
    session = open_session(application, store=MemoryStore(), sla=Sla(9), strategy="random")
    Follower(initial=9).steer(session, SerialExecutor(application))
    experiment = session.experiment
    ids = np.array([space.configuration(i).level_ids for i in range(space.size)], dtype=np.int64)
    found = expected_measures(experiment, ids)
    assert found is not None
    for i in range(space.size):
        one = expected_measure(experiment, space.configuration(i))
        assert one is not None
        assert found.values[i] == pytest.approx(one.value, rel=1e-6)
        assert (found.lows[i], found.highs[i]) == pytest.approx((one.low, one.high), rel=1e-6)
    together = expected_measures(experiment, ids, over=(1,))
    assert together is not None
    for x in range(6):
        assert np.ptp(together.values[ids[:, 0] == x]) < 1e-9
    assert (together.lows <= together.values).all()
    assert (together.values <= together.highs).all()


def test_nothing_is_expected_before_two_results() -> None:
    session = open_session(Bowl(baseline=TODAY), store=MemoryStore(), sla=Sla(9))
    configuration = session.experiment.space.configuration(0)
    assert expected_measure(session.experiment, configuration) is None
    assert expected_measures(session.experiment, np.zeros((1, 3), dtype=np.int64)) is None
    assert expected_text(session.experiment, configuration) == "unknown"
    suggestion = session.suggest(1).suggestions[0]
    assert reason_text(session.experiment, suggestion) == suggestion.reason


def test_grasp_runs_one_at_a_time_and_copper_with_its_neighbours() -> None:
    assert {len(batch.suggestions) for batch in steered(9).experiment.batches[1:]} == {1}
    copper = steered(15, "copper").experiment.batches[1:]
    assert len(copper[0].suggestions) == 5


def test_a_warning_by_the_papers_rule_is_repeated_only_when_more_runs_are_missing() -> None:
    space = ParameterSpace((Parameter("x", tuple(range(30))), Parameter("y", tuple(range(30)))))
    objective = Objective(SingleMeasure("loss"), "minimise")
    application = Function(
        lambda x, y: {"loss": float((x - 7) ** 2 + (y - 9) ** 2)}, space, objective, noisy=False
    )
    session = open_session(
        application, store=MemoryStore(), sla=Sla(40), warning_policy=WarningPolicy(rule="paper")
    )
    Follower().steer(session, SerialExecutor(application))
    warned = [warning.forecast for warning in session.experiment.warnings]
    assert warned
    for before, after in pairwise(warned):
        assert after.executed >= before.executed + 5
        assert (after.shortfall or 0) > (before.shortfall or 0)


def timed(n: int, limit_s: float | None = None, *, same: bool = False) -> Session:
    """Return runs of 10 s for each step of x, or of 10 s all."""
    session = open_session(
        Bowl(), store=MemoryStore(), sla=Sla(run_limit_s=limit_s), clock=TickingClock()
    )
    for i in range(n):
        x, y = i % 4, i // 4 % 3
        run = session.include({"x": x, "y": y, "mode": "plain"})
        outcome = Outcome({"height": 1.0}, 1.0, -1.0, True, 0.0)
        taken_s = 10.0 if same else 10.0 * (x + 1)
        session.take([RunStarted(0.0, run.id), RunCompleted(taken_s, run.id, outcome, taken_s)])
    return session


def test_durations_follow_the_levels_and_end_at_the_limit() -> None:
    session = timed(12)
    space = session.experiment.space
    slow, quick = (space.from_values({"x": x, "y": 1, "mode": "plain"}) for x in (3, 0))
    found = expected_durations(session.experiment, [slow, quick])
    assert found is not None
    assert found[0].value == pytest.approx(40.0, rel=0.25)
    assert found[1].value == pytest.approx(10.0, rel=0.25)
    for one in found:
        assert one.low < one.value < one.high
    limited = expected_durations(timed(12, limit_s=40.0).experiment, [slow])
    assert limited is not None
    assert limited[0].high == 40.0


def test_few_or_equal_durations_say_nothing() -> None:
    session = timed(FEW_DURATIONS - 1)
    one = session.experiment.runs[0].configuration
    assert expected_durations(session.experiment, [one]) is None
    assert expected_durations(timed(8, same=True).experiment, [one]) is None


def test_a_list_is_told_by_its_range_and_its_best() -> None:
    experiment = steered(8).experiment
    assert list_text(experiment, []) == "Your list is empty."
    ones = [c for c in experiment.space.configurations() if c not in experiment.knowledge.taken]
    values = [expected_measure(experiment, one) for one in ones[:3]]
    best = min(range(3), key=lambda i: values[i].value)  # type: ignore[union-attr]
    text = list_text(experiment, [(i + 4, ones[i]) for i in range(3)])
    assert text.startswith("Your list: 3 runs, predicted ")
    assert f"best: no. {best + 4} with {expected_text(experiment, ones[best])}" in text
    alone = list_text(experiment, [(1, ones[0])])
    assert alone == f"Your list: 1 run, predicted {expected_text(experiment, ones[0])}."
    young = open_session(Bowl(), store=MemoryStore()).experiment
    assert "2 runs, without a prediction yet" in list_text(young, [(1, ones[0]), (2, ones[1])])


def test_an_explanation_names_the_neighbour_the_best_and_every_level() -> None:
    experiment = steered(8).experiment
    best = experiment.best
    assert best is not None
    there = experiment.space.values(best.configuration)
    values = {**there, "x": 0}
    one = experiment.space.from_values(values)
    told = explanation(
        experiment,
        Suggestion(one, "copper", "Because.", "neighbour", near=best.configuration, chance=0.25),
    )
    text = " ".join(told.sentences)
    assert told.sentences[0] == "Because."
    assert "It was chosen by copper (one step from a good run)." in text
    assert f"Prediction with 95 % interval: {expected_text(experiment, one)}" in text
    assert "Its chance to beat the best run was 25 %" in text
    assert best.outcome is not None
    gave = f"run {best.id}, which gave {best.outcome.value:g}"
    assert f"It differs from {gave}: x (0 instead of {there['x']})." in text
    assert [row.parameter for row in told.levels] == ["x", "y", "mode"]
    assert told.levels[0].level == "0"
    assert told.levels[0].best == str(there["x"])
    n = sum(experiment.space.values(r.configuration)["x"] == 0 for r in experiment.runs)
    assert told.levels[0].runs == n


def test_every_kind_has_a_word() -> None:
    from typing import get_args

    from strategies import SuggestionKind

    assert set(KINDS) == set(get_args(SuggestionKind))
    one = steered(4).experiment.runs[0].configuration
    assert kind_text(Suggestion(one, "copper", "", "neighbour", region=2)) == "inside region 2"
