"""What is said to be expected of a suggestion, and when a warning is repeated."""

from itertools import pairwise

import pytest

from agents import Follower
from assistant import Session, Sla, open_session
from assistant.applications import Function
from assistant.executors import SerialExecutor
from assistant.expectation import expectation
from assistant.objective import Objective, Value
from assistant.report.why import expected_text, why
from assistant.store import MemoryStore
from strategies import AnovaModel, Parameter, ParameterSpace
from tests.assistant.examples import TODAY, Bowl, TickingClock


def steered(runs: int, strategy: str = "anova") -> Session:
    bowl = Bowl(baseline=TODAY)
    session = open_session(
        bowl, store=MemoryStore(), sla=Sla(runs), clock=TickingClock(), strategy=strategy
    )
    Follower(initial=4).steer(session, SerialExecutor(bowl))
    return session


@pytest.mark.parametrize("strategy", ["anova", "grasp", "random"])
def test_the_same_model_speaks_whatever_the_strategy(strategy: str) -> None:
    session = steered(8, strategy)
    experiment = session.experiment
    model = AnovaModel(experiment.space, experiment.measured)
    free = next(c for c in experiment.space.configurations() if c not in experiment.knowledge.taken)
    found = expectation(experiment, free)
    assert found is not None
    predicted = model.predict(free)
    assert found.value == experiment.opened.objective.value_of(predicted.value)
    assert found.low <= found.value <= found.high
    text = expected_text(experiment, free)
    assert text.count(" to ") == 1
    session.reopen() if experiment.finished else None
    session.change_budget(Sla(20))
    suggestion = session.suggest(1).suggestions[0]
    assert why(experiment, suggestion).startswith(suggestion.reason.removesuffix("."))
    assert "; expected " in why(experiment, suggestion)


def test_nothing_is_expected_before_two_results() -> None:
    session = open_session(Bowl(baseline=TODAY), store=MemoryStore(), sla=Sla(9))
    configuration = session.experiment.space.configuration(0)
    assert expectation(session.experiment, configuration) is None
    assert expected_text(session.experiment, configuration) == "unknown"
    suggestion = session.suggest(1).suggestions[0]
    assert why(session.experiment, suggestion) == suggestion.reason


def test_anova_runs_one_at_a_time_and_grasp_with_its_neighbours() -> None:
    assert {len(batch.suggestions) for batch in steered(9).experiment.batches[1:]} == {1}
    grasp = steered(15, "grasp").experiment.batches[1:]
    assert len(grasp[0].suggestions) == 5


def test_a_warning_is_repeated_after_five_runs_only() -> None:
    space = ParameterSpace((Parameter("x", tuple(range(30))), Parameter("y", tuple(range(30)))))
    objective = Objective(Value("loss"), "minimise")
    application = Function(
        lambda x, y: {"loss": float((x - 7) ** 2 + (y - 9) ** 2)}, space, objective, noisy=False
    )
    session = open_session(application, store=MemoryStore(), sla=Sla(40))
    Follower().steer(session, SerialExecutor(application))
    executed = [advice.forecast.executed for advice in session.experiment.advice]
    assert len(executed) >= 2
    assert all(b - a >= 5 for a, b in pairwise(executed))
