"""The front of two qualities, its hypervolume, and suggestions along it."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import (
    Copper,
    Knowledge,
    Observation,
    ObservationError,
    RandomSearch,
    ScalarisedStrategy,
    Suggestion,
    hypervolume,
    pareto_front,
)
from strategies.steering.pareto import scalarised_observations
from tests.draw.spaces import grid, observe_all

SPACE = grid(30)


def observed(pairs: Sequence[tuple[float, float]], *violations: float) -> tuple[Observation, ...]:
    """Observations of level 0, 1, ... with two qualities; violations from the first on."""
    ones = observe_all(SPACE, [(i,) for i in range(len(pairs))], [a for a, _ in pairs])
    padded = [*violations, *([0.0] * len(pairs))]
    return tuple(
        replace(one, second=second, feasible=violation == 0, violation=violation)
        for one, (_, second), violation in zip(ones, pairs, padded, strict=False)
    )


def levels(front: Sequence[Observation]) -> list[int]:
    return [one.configuration.level_ids[0] for one in front]


def test_the_front_by_hand() -> None:
    pairs = [(1.0, 5.0), (2.0, 4.0), (2.0, 3.0), (0.0, 5.0), (4.0, 1.0), (3.0, 1.0), (4.0, 1.0)]
    assert levels(pareto_front(observed(pairs))) == [4, 6, 1, 0]  # equals stay, best first
    assert pareto_front(()) == ()


def test_a_feasible_one_keeps_every_infeasible_one_off_the_front() -> None:
    assert levels(pareto_front(observed([(9.0, 9.0), (1.0, 1.0)], 0.1))) == [1]


def test_of_infeasible_ones_only_the_least_violation_is_on_the_front() -> None:
    pairs = [(9.0, 9.0), (1.0, 2.0), (2.0, 1.0), (0.0, 0.0)]
    assert levels(pareto_front(observed(pairs, 0.3, 0.1, 0.1, 0.1))) == [2, 1]


def dominates(a: Observation, b: Observation) -> bool:
    """Constrained domination as Deb 2000 words it, pair by pair."""
    if a.feasible != b.feasible:
        return a.feasible
    if a.violation != b.violation:
        return a.violation < b.violation
    assert a.second is not None
    assert b.second is not None
    no_worse = a.quality >= b.quality and a.second >= b.second
    return no_worse and (a.quality > b.quality or a.second > b.second)


few = st.integers(0, 4).map(float)


@given(st.lists(st.tuples(few, few, st.sampled_from([0.0, 0.0, 0.5, 1.0])), max_size=20))
def test_the_front_is_what_no_other_dominates(drawn: list[tuple[float, float, float]]) -> None:
    ones = observed([(a, b) for a, b, _ in drawn], *(violation for _, _, violation in drawn))
    wanted = {o.configuration for o in ones if not any(dominates(other, o) for other in ones)}
    front = pareto_front(ones)
    assert {o.configuration for o in front} == wanted
    assert [o.quality for o in front] == sorted((o.quality for o in front), reverse=True)


def test_a_missing_second_quality_is_refused() -> None:
    alone = observe_all(SPACE, [(0,)], [1.0])
    with pytest.raises(ObservationError, match="has no second quality"):
        pareto_front(alone)
    with pytest.raises(ObservationError, match="has no second quality"):
        ScalarisedStrategy(Copper()).suggest(1, Knowledge(SPACE, alone), np.random.default_rng(1))


def test_the_hypervolume_by_hand() -> None:
    # steps of 1 x 3, then 1 x 2, then 2 x 1 above (0, 0)
    points = [(1.0, 3.0), (2.0, 2.0), (4.0, 1.0)]
    assert hypervolume(points, (0.0, 0.0)) == 3 + 2 + 2
    assert hypervolume([*points, (1.0, 1.0), (4.0, 1.0)], (0.0, 0.0)) == 7
    assert hypervolume([(1.0, -1.0), (-1.0, 9.0), (0.0, 5.0)], (0.0, 0.0)) == 0
    assert hypervolume([], (0.0, 0.0)) == 0
    assert hypervolume([(-2.0, -3.0)], (-4.0, -4.0)) == 2


@given(st.lists(st.tuples(st.integers(-3, 8), st.integers(-3, 8)), max_size=12))
def test_the_hypervolume_counts_unit_squares(points: list[tuple[int, int]]) -> None:
    """Reference: every unit square above (-1, 0) that some point dominates."""
    squares = sum(any(a > x and b > y for a, b in points) for x in range(-1, 9) for y in range(9))
    assert hypervolume([(float(a), float(b)) for a, b in points], (-1.0, 0.0)) == squares


def test_the_scalar_quality_by_hand() -> None:
    # costs over the feasible range: first (10 - q) / 10, second (4 - s) / 4
    ones = observed([(10.0, 0.0), (0.0, 4.0), (5.0, 3.0), (-90.0, 50.0)], 0, 0, 0, 1.0)
    got = [one.quality for one in scalarised_observations(ones, 0.5)]
    assert got[:3] == pytest.approx([-(0.5 + 0.05 * 0.5), -(0.5 + 0.05 * 0.5), -(0.25 + 0.01875)])
    assert max(got[:3]) == got[2]  # the knee is best where both weigh the same
    assert [one.quality for one in scalarised_observations(ones, 1.0)][:3] == pytest.approx(
        [0, -1.05, -0.525]
    )
    assert all(one.second is None for one in scalarised_observations(ones, 0.3))
    assert [one.feasible for one in scalarised_observations(ones, 0.3)] == [True, True, True, False]
    equal = scalarised_observations(observed([(2.0, 7.0), (2.0, 7.0)]), 0.4)
    assert [one.quality for one in equal] == [0.0, 0.0]


@given(st.lists(st.tuples(few, few), min_size=1, max_size=12), st.integers(0, 10))
def test_the_best_scalar_is_on_the_front(pairs: list[tuple[float, float]], tenths: int) -> None:
    """Weights strictly between 0 and 1 make the augmented function respect domination."""
    ones = observed(pairs)
    weight = min(max(tenths, 1), 9) / 10
    told = scalarised_observations(ones, weight)
    best = max(told, key=lambda one: one.quality).configuration
    assert best in {one.configuration for one in pareto_front(ones)}


class Recording:
    """Remembers the qualities that it was told, and draws at random."""

    name = "recording"

    def __init__(self) -> None:
        self.told: list[list[float]] = []

    def suggest(
        self, n: int, knowledge: Knowledge, rng: np.random.Generator
    ) -> tuple[Suggestion, ...]:
        assert n == 1
        self.told.append([one.quality for one in knowledge.observations])
        return RandomSearch().suggest(n, knowledge, rng)


def test_every_suggestion_has_a_weight_of_its_own_and_says_it() -> None:
    ones = observed([(10.0, 0.0), (0.0, 4.0), (5.0, 3.0)])
    base = Recording()
    strategy = ScalarisedStrategy(base, ("mean_wait_s", "procs"))
    suggestions = strategy.suggest(20, Knowledge(SPACE, ones), np.random.default_rng(3))
    assert len({s.configuration for s in suggestions}) == 20
    weights = [float(s.reason.split()[1]) for s in suggestions]
    assert len(set(weights)) > 5
    for weight, told, suggestion in zip(weights, base.told, suggestions, strict=True):
        assert told == [one.quality for one in scalarised_observations(ones, weight)]
        trade = f"By {weight:g} mean_wait_s to {1 - weight:g} procs: "
        assert suggestion.reason.startswith(trade)
        assert suggestion.chance is None
    expected = Knowledge(SPACE, ones).model.expected(suggestions[0].configuration)
    assert expected is not None
    assert suggestions[0].expected == expected.value  # of the first measure, as elsewhere


def test_the_eleven_weights_come_equally_often() -> None:
    """1,100 draws, 100 each, standard deviation 9.5."""
    ones = observed([(1.0, 0.0), (0.0, 1.0)])
    space = grid(40, 40)
    ones = tuple(replace(o, configuration=space.configuration(i)) for i, o in enumerate(ones))
    counts: dict[str, int] = {}
    for seed in range(11):
        rng = np.random.default_rng(seed)
        for s in ScalarisedStrategy(RandomSearch()).suggest(100, Knowledge(space, ones), rng):
            weight = s.reason.split()[1]
            counts[weight] = counts.get(weight, 0) + 1
    assert sorted(counts, key=float) == [f"{i / 10:g}" for i in range(11)]
    assert all(60 < n < 140 for n in counts.values())


def test_without_an_observation_it_is_the_base() -> None:
    rng, other = np.random.default_rng(1), np.random.default_rng(1)
    assert ScalarisedStrategy(Copper()).suggest(4, Knowledge(SPACE), rng) == Copper().suggest(
        4, Knowledge(SPACE), other
    )


def test_it_goes_where_the_weights_pull() -> None:
    """Qualities p0 and 2 - p0: greedy GRASP takes an end at weights 0 and 1, the middle at 0.5."""
    space = grid(3, 8)
    ones = tuple(
        replace(one, second=2.0 - one.quality)
        for one in observe_all(space, [(0, 0), (1, 0), (2, 0)], [0.0, 1.0, 2.0])
    )
    seen: dict[float, set[int]] = {}
    for s in ScalarisedStrategy(Copper(beta=1.0)).suggest(
        18, Knowledge(space, ones), np.random.default_rng(1)
    ):
        if s.kind == "construction":
            weight = float(s.reason.split()[1])
            seen.setdefault(weight, set()).add(s.configuration.level_ids[0])
    assert {weight: seen[weight] for weight in (0.0, 0.5, 1.0)} == {0.0: {0}, 0.5: {1}, 1.0: {2}}
