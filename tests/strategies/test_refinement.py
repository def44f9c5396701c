"""Wide ranges: which levels come first, which are added, and when."""

import numpy as np
import pytest

from strategies import (
    Configuration,
    Exclusion,
    Parameter,
    ParameterSpace,
    SpaceError,
    UnknownLevelError,
    refinement,
)
from strategies.space.wide_range import WideRange

RATE = Parameter.wide_range("rate", 1e-4, 0.1, log=True)  # 0.0001, 0.0003, 0.001, ..., 0.1
SPACE = ParameterSpace((RATE, Parameter("mode", ("a", "b"))))


@pytest.mark.parametrize(
    ("low", "high", "log", "levels"),
    [
        (1e-5, 1.0, True, (1e-5, 1e-4, 0.001, 0.01, 0.1, 1.0)),
        (1e-4, 0.1, True, (1e-4, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1)),
        (0.0, 1.0, False, (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)),
        (0.5, 0.99, False, (0.5, 0.6, 0.7, 0.8, 0.9, 0.99)),
        (16, 512, True, (16, 32, 64, 128, 256, 512)),  # powers of 2, as the ends
        (1, 100, False, (1, 20, 40, 60, 80, 100)),
        (1, 4, False, (1, 2, 3, 4)),
        (2, 300, True, (2, 7, 20, 90, 300)),
        (100.0, 101.0, False, (100.0, 100.2, 100.4, 100.6, 100.8, 101.0)),
    ],
)
def test_the_first_levels_are_round(
    low: float, high: float, log: bool, levels: tuple[float, ...]
) -> None:
    parameter = Parameter.wide_range("p", low, high, log)
    assert parameter.levels == levels
    assert [type(v) for v in parameter.levels] == [type(v) for v in levels]
    assert parameter.added == ()


def test_levels_stay_within_the_range_and_between_their_neighbours() -> None:
    rng = np.random.default_rng(0)
    for _ in range(300):
        low, high = sorted(10.0 ** rng.uniform(-6, 6, 2))
        is_whole, log = bool(rng.integers(2)), bool(rng.integers(2))
        if is_whole:
            low, high = int(low) + 1, int(high) + 2
        wide = WideRange(low, high, log)
        levels = list(wide.coarse_levels())
        assert levels == sorted(set(levels))
        assert (levels[0], levels[-1], len(levels) <= 7) == (low, high, True)
        for _ in range(6):  # towards one end of the range
            i = int(rng.integers(len(levels) - 1))
            middle = wide.between(levels[i + 1], levels[i])
            if middle is not None:
                assert levels[i] < middle < levels[i + 1]
                assert isinstance(middle, int) is is_whole
                levels.insert(i + 1, middle)


@pytest.mark.parametrize(
    ("low", "high", "log"),
    [(1, 1, False), (2.0, 1.0, False), (0, 1, True), (-1.0, 1.0, True), (-1e308, 1e308, False),
     (0, 10**400, False), (0.0, float("nan"), False), (True, 5, False)],
)  # fmt: skip
def test_ends_without_meaning_are_refused(low: float, high: float, log: bool) -> None:
    with pytest.raises(SpaceError, match=r"parameter 'p': a .*range .*; (it needs|give numbers)"):
        Parameter.wide_range("p", low, high, log)
    with pytest.raises(SpaceError, match="must be ordinal numbers"):
        Parameter("p", ("a", "b"), wide=WideRange(1, 2))


def run(rate: float, mode: str = "a", space: ParameterSpace = SPACE) -> Configuration:
    return space.from_values({"rate": rate, "mode": mode})


def added(
    best: float,
    tried: list[float],
    space: ParameterSpace = SPACE,
    runs_left: int | None = None,
) -> list[float]:
    """Return the levels added to the rate, with the best rate and those of all ended runs."""
    configurations = [run(rate, space=space) for rate in (best, *tried)]
    found = refinement(space, configurations[0], configurations, runs_left)
    assert all(level.parameter == "rate" for level in found)  # a mode is not wide
    return [float(level.value) for level in found]


def test_levels_are_added_once_both_neighbours_of_the_best_have_been_tried() -> None:
    assert added(0.003, [0.001]) == []
    assert added(0.003, [0.001, 0.03]) == []  # not the neighbour
    assert added(0.003, [0.001, 0.01]) == [0.002, 0.005]
    # with other levels of other parameters too
    tried = [run(0.003), run(0.001, "b"), run(0.01, "b")]
    assert [a.value for a in refinement(SPACE, tried[0], tried, None)] == [0.002, 0.005]
    reasons = [a.reason for a in refinement(SPACE, tried[0], tried, None)]
    assert reasons[0] == "between 0.001 and 0.003, beside the best result"


def test_the_ends_have_one_neighbour_and_are_never_left() -> None:
    assert added(0.1, [0.03]) == [0.05]
    assert added(1e-4, [0.0003]) == [0.0002]


def test_few_runs_left_and_small_gaps_add_nothing() -> None:
    assert added(0.003, [0.001, 0.01], runs_left=1) == []
    assert added(0.003, [0.001, 0.01], runs_left=2) == [0.002, 0.005]
    narrow = SPACE.with_level("rate", 0.00301).with_level("rate", 0.00299)
    assert added(0.003, [0.00301, 0.00299], narrow) == []
    whole = ParameterSpace((Parameter.wide_range("rate", 1, 4), Parameter("mode", ("a", "b"))))
    assert added(2, [1, 3], whole) == []
    assert refinement(ParameterSpace((Parameter("x", (1, 2)),)), run(0.1), [], None) == ()


def test_closed_and_excluded_levels_are_no_neighbours() -> None:
    closed = SPACE.closing("rate", 0.01)
    assert added(0.003, [0.001, 0.01], closed) == []
    assert added(0.003, [0.001, 0.03], closed) == [0.002, 0.009]
    unwanted = SPACE.with_level("rate", 0.002).closing("rate", 0.002)
    assert added(0.003, [0.001, 0.01], unwanted) == [0.005]  # a closed level does not come again
    excluded = SPACE.excluding(Exclusion("rate > 0.005"))
    assert added(0.003, [0.001], excluded) == [0.002]
    assert added(0.01, [0.003, 0.03], closed) == []  # the best itself is closed by now


def test_repeated_refinement_narrows_around_the_best() -> None:
    space, best = SPACE, 0.003
    tried = list(RATE.levels)
    for _ in range(12):
        for value in added(best, tried, space):
            space, tried = space.with_level("rate", value), [*tried, value]
    levels = space.parameter("rate").added
    assert levels == (0.002, 0.005, 0.0024, 0.004, 0.0027, 0.0035, 0.0028, 0.0032)
    with pytest.raises(UnknownLevelError):
        space.parameter("rate").level_id(0.1001)
