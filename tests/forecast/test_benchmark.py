"""What the benchmark of the forecast asks: nothing of which only one answer could be known."""

from dataclasses import replace

import numpy as np
import pytest

from assistant import Sla
from assistant.analysis.paper_forecast import count_pending, paper_forecast
from assistant.core.events import WarningPolicyChanged
from benchmarks.forecasting import deadline
from benchmarks.forecasting.baselines import READINGS, paper_shares
from benchmarks.forecasting.goal import Held, paper_chances
from benchmarks.forecasting.rows import Episode, _soft
from benchmarks.spaces import Problem
from strategies import Parameter, ParameterSpace
from strategies.steering.regions import PendingRuns
from tests.forecast.examples import MADE, ended_s, told

X = np.arange(400)
SPACE = ParameterSpace(
    (Parameter.range("x", 0, 19, 1), Parameter.range("y", 0, 19, 1))  # 400 combinations
)
PROBLEM = Problem("made up", "generated", SPACE, (X * 37 % 400 + 100.0).astype(np.float64))
BY_NEIGHBOURS = "boxes, eps by third neighbours"
NOTHING = np.zeros(0)
HELD = Held(NOTHING, NOTHING, NOTHING, NOTHING, {"made": (MADE.goal.terms, {"random": 0.0})})


def episode(n: int) -> Episode:
    """An episode of n runs, each better than the one before, cut before the optimum was found."""
    by_value = np.argsort(-PROBLEM.objective)
    return Episode(PROBLEM, "random", 1, tuple(int(i) for i in by_value[:-1:6])[:n])


CELLS = [SPACE.configuration(i) for i in range(4)]


def test_the_papers_rule_counts_each_configuration_once() -> None:
    one, two = PendingRuns(3, tuple(CELLS[:3])), PendingRuns(2, (CELLS[2], CELLS[3]))
    assert count_pending([one, two]) == 4
    assert count_pending([one, PendingRuns(None, ())]) is None
    assert count_pending([]) is None
    assert (
        count_pending([one, PendingRuns(5_000, ())]) == 5_003
    )  # not listed whole: no union is known


@pytest.mark.parametrize("n", [1, 12, 16, 20])
def test_the_baseline_counts_what_the_product_counts(n: int) -> None:
    results = [100.0 - 3 * i + 7 * (i % 3) for i in range(n)]
    experiment = told(results, Sla(60))
    names = {"near the good ones": "near", "in the regions' boxes": "box"}
    shares = paper_shares(experiment.submitted_knowledge, names)
    for pending, rule in zip(shares, names.values(), strict=True):
        watch = replace(experiment.warning_policy, pending=rule)  # type: ignore[arg-type]
        seen = experiment.supposing([WarningPolicyChanged(ended_s(experiment), watch)])
        assert pending == paper_forecast(seen, ended_s(experiment)).pending


def test_no_region_is_no_forecast_and_scored_as_an_even_chance() -> None:
    hard, soft = paper_chances(np.array([_soft(None, 9.0), _soft(0, 9.0), _soft(12, 9.0)]))
    assert hard.tolist() == [0.5, 0.0, 1.0]
    assert soft.tolist() == [0.5, 0.0, 0.25]


def test_eps_by_third_neighbours_adapts_to_the_space() -> None:
    knowledge = episode(40).knowledge(range(40))
    assert paper_shares(knowledge, READINGS)[list(READINGS).index(BY_NEIGHBOURS)] is not None


@pytest.mark.parametrize("n", [25, 40, 60])
def test_no_deadline_beyond_a_cut_episode_is_asked(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its hits would be known and its misses not: a share that is all hits."""
    one = episode(n)
    assert not one.is_over
    until: list[tuple[bool, float]] = []
    honest = deadline._knows

    def knows(*asked: object) -> bool:
        found = honest(*asked)  # type: ignore[arg-type]
        until.append((found, float(asked[2])))  # type: ignore[arg-type]
        return found

    monkeypatch.setattr(deadline, "_knows", knows)
    answers = deadline.ask(one, HELD)
    assert len(answers) == sum(found for found, _ in until)
    assert not all(found for found, _ in until)
    monkeypatch.setattr(deadline, "_knows", lambda *_: False)
    assert deadline.ask(one, HELD) == []
