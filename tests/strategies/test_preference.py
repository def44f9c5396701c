"""A share of the suggestions keeps to preferred levels; the rest, and exhaustion, to the base."""

from dataclasses import replace

import numpy as np
import pytest

from strategies import (
    Configuration,
    Copper,
    Exclusion,
    ExploitationStrategy,
    Knowledge,
    OptionError,
    Parameter,
    ParameterSpace,
    PreferenceStrategy,
    RandomSearch,
    RegionRule,
    Suggestion,
)
from tests.draw.spaces import grid, observe_all

SPACE = grid(10, 10).preferring("p0", 3)


def ask(n: int, share: float, seed: int = 1, space: ParameterSpace = SPACE) -> list[Suggestion]:
    rng = np.random.default_rng(seed)
    return list(PreferenceStrategy(RandomSearch(), share).suggest(n, Knowledge(space), rng))


def is_preferred(configuration: Configuration) -> bool:
    return configuration.level_ids[0] == 3


@pytest.mark.parametrize(
    ("n", "share", "told"), [(4, 0.5, 2), (5, 1.0, 5), (5, 0.0, 0), (20, 0.35, 7)]
)
def test_whole_shares_are_kept_exactly_and_said(n: int, share: float, told: int) -> None:
    suggestions = ask(n, share)
    assert len({s.configuration for s in suggestions}) == n
    said = [s for s in suggestions if s.reason.endswith("; p0=3 is preferred.")]
    assert said == suggestions[:told]
    assert all(is_preferred(s.configuration) for s in said)


def test_half_a_suggestion_is_one_half_of_the_time() -> None:
    """200 batches of 1 at a share of 0.25: 50 expected, the standard deviation is 6.1."""
    told = sum("preferred" in ask(1, 0.25, seed)[0].reason for seed in range(200))
    assert 30 < told < 70
    sizes = {sum("preferred" in s.reason for s in ask(5, 0.5, seed)) for seed in range(20)}
    assert sizes == {2, 3}


def test_the_rest_may_be_of_preferred_levels_too() -> None:
    rest = [s for seed in range(40) for s in ask(4, 0.5, seed)[2:]]
    assert any(is_preferred(s.configuration) for s in rest)
    assert not all(is_preferred(s.configuration) for s in rest)


def test_what_the_preferred_part_has_no_more_comes_from_the_whole_space() -> None:
    space = grid(2, 2).preferring("p0", 1).excluding(Exclusion("p0 == 1 and p1 == 0"))
    suggestions = ask(4, 1.0, space=space)
    assert [s.configuration.level_ids for s in suggestions[:1]] == [(1, 1)]
    assert {s.configuration.level_ids for s in suggestions} == {(1, 1), (0, 0), (0, 1)}
    assert [("preferred" in s.reason) for s in suggestions] == [True, False, False]


def test_several_preferred_levels_are_named_as_the_configuration_has_them() -> None:
    space = ParameterSpace((Parameter("a", (1, 2, 4)), Parameter("order", ("fcfs", "sjf"))))
    space = space.preferring("a", 2).preferring("a", 4).preferring("order", "sjf")
    for suggestion in ask(2, 1.0, space=space):
        a = space.values(suggestion.configuration)["a"]
        assert suggestion.reason.endswith(f"; a={a} and order='sjf' are preferred.")


def test_without_a_preference_it_is_the_base() -> None:
    for space in (grid(4, 4), grid(2).preferring("p0", 0).preferring("p0", 1)):
        knowledge = Knowledge(space, observe_all(space, [space.configuration(0).level_ids]))
        base = Copper().suggest(1, knowledge, np.random.default_rng(5))
        assert PreferenceStrategy(Copper()).suggest(1, knowledge, np.random.default_rng(5)) == base


def test_neighbours_are_numbered_in_the_whole_batch_and_keep_what_is_said_of_them() -> None:
    history = observe_all(SPACE, [(3, 3), (7, 7), (1, 2)], [3.0, 9.0, 1.0])
    strategy = PreferenceStrategy(
        ExploitationStrategy(Copper(neighbours=2), 0.5, RegionRule(min_samples=2)), 0.5
    )
    numbered = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        suggestions = strategy.suggest(12, Knowledge(SPACE, history), rng)
        for i, s in enumerate(suggestions):
            assert s.reason.endswith("; p0=3 is preferred.") == (i < 6)
            if "from suggestion " in s.reason:
                number = int(s.reason.split("from suggestion ")[1].split(";")[0].rstrip("."))
                assert suggestions[number - 1].configuration == s.near
                numbered += 1
    assert numbered > 20


@pytest.mark.parametrize("share", [-0.1, 1.1, True, None, "half", float("nan")])
def test_a_share_that_cannot_be_is_refused(share: float) -> None:
    with pytest.raises(OptionError, match="from 0 to 1"):
        PreferenceStrategy(Copper(), share)


def test_closing_holds_inside_the_preferred_part() -> None:
    space = replace(SPACE, closed=frozenset({("p1", i) for i in range(5)}))
    assert all(s.configuration.level_ids[1] >= 5 for s in ask(5, 1.0, space=space))
