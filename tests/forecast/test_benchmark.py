"""What the benchmark of the forecast asks: nothing of which only one answer could be known."""

import numpy as np
import pytest

from assistant.forecast.calibration import shipped
from benchmarks.forecasting import deadline
from benchmarks.forecasting.goal import Held
from benchmarks.forecasting.rows import Episode
from benchmarks.spaces import Problem
from strategies import Parameter, ParameterSpace

X = np.arange(400)
SPACE = ParameterSpace(
    (Parameter.range("x", 0, 19, 1), Parameter.range("y", 0, 19, 1))  # 400 combinations
)
PROBLEM = Problem("made up", "generated", SPACE, (X * 37 % 400 + 100.0).astype(np.float64))
NOTHING = np.zeros(0)
HELD = Held(NOTHING, NOTHING, NOTHING, NOTHING, {"made up": (shipped().missed, {"random": 0.0})})


def episode(n: int) -> Episode:
    """An episode of n runs, each better than the one before, cut before the optimum was found."""
    by_value = np.argsort(-PROBLEM.objective)
    return Episode(PROBLEM, "random", 1, tuple(int(i) for i in by_value[:-1:6])[:n])


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
