"""GRASP against hand-worked answers and the paper's words."""

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import (
    Configuration,
    DesignModel,
    Exclusion,
    Knowledge,
    Observation,
    OptionError,
    Parameter,
    ParameterSpace,
    make_strategy,
)
from strategies.samplers.copper import (
    Copper,
    construction,
    list_values,
    local_search,
    reduced_candidate_list,
    sampling,
)
from tests.draw.spaces import histories, spaces

SPACE = ParameterSpace((Parameter("a", (0, 1, 2, 3, 4)), Parameter("b", ("x", "y"))))


def observe(space: ParameterSpace, **quality_of: float) -> tuple[Observation, ...]:
    """Build observations from names such as a2_b1 (level ids)."""
    return tuple(
        Observation(Configuration(_ids(name), space.lineage), quality)
        for name, quality in quality_of.items()
    )


def _ids(name: str) -> tuple[int, ...]:
    return tuple(int(part[1:]) for part in name.split("_"))


# mean qualities of a: 0, 4, 5, 10, and level 4 without a run
MODEL = DesignModel.fit(SPACE, observe(SPACE, a0_b0=0, a1_b0=4, a2_b0=5, a3_b0=9, a3_b1=11))


@pytest.mark.parametrize(
    ("beta", "ids"),
    [
        (0.0, (0, 1, 2, 3, 4)),
        (0.4, (1, 2, 3, 4)),  # threshold exactly 4: "higher or equal"
        (0.41, (2, 3, 4)),
        (0.5, (2, 3, 4)),  # threshold exactly 5
        (0.51, (3, 4)),
        (1.0, (3, 4)),
    ],
)
def test_the_candidate_list_by_hand(beta: float, ids: tuple[int, ...]) -> None:
    assert reduced_candidate_list(MODEL, SPACE, "a", beta) == ids


def test_an_unknown_level_is_a_candidate_and_a_closed_one_is_not() -> None:
    space = SPACE.closing("a", 4).closing("a", 3)
    model = DesignModel.fit(space, observe(space, a0_b0=0, a1_b0=4, a2_b0=5, a3_b0=100))
    assert list_values(space, "a") == (0, 1, 2)
    # q_max is 5, not the closed level's 100
    assert reduced_candidate_list(model, space, "a", 0.8) == (1, 2)
    assert reduced_candidate_list(model, space, "b", 1.0) == (0, 1)


def test_nothing_known_or_all_equal_leaves_every_level() -> None:
    empty = DesignModel.fit(SPACE, ())
    equal = DesignModel.fit(SPACE, observe(SPACE, a0_b0=0.1, a1_b0=0.1, a2_b1=0.1, a3_b0=0.1))
    for model in (empty, equal):
        assert reduced_candidate_list(model, SPACE, "a", 1.0) == (0, 1, 2, 3, 4)


@given(st.data())
def test_the_candidate_list_holds_every_best_level_and_shrinks_with_beta(
    data: st.DataObject,
) -> None:
    space = data.draw(spaces(exclusions=False))
    model = DesignModel.fit(space, data.draw(histories(space)))
    betas = sorted(data.draw(st.tuples(st.floats(0, 1), st.floats(0, 1))))
    for parameter in space.names:
        low, high = (set(reduced_candidate_list(model, space, parameter, b)) for b in betas)
        greedy = reduced_candidate_list(model, space, parameter, 1.0)
        best = model.q_max(parameter)
        assert high <= low <= set(list_values(space, parameter))
        assert set(greedy) <= high
        assert {model.quality(parameter, e) for e in greedy} <= {best, None}
        assert greedy


@pytest.mark.statistical
def test_construction_draws_uniformly_from_the_candidate_lists() -> None:
    rng = np.random.default_rng(20)
    n = 6000
    drawn = Counter(construction(MODEL, SPACE, 0.41, rng).level_ids for _ in range(n))
    # a from {2, 3, 4}; b: means 4.5 and 11, so only level 1
    assert set(drawn) == {(2, 1), (3, 1), (4, 1)}
    chi_squared = sum((count - n / 3) ** 2 / (n / 3) for count in drawn.values())
    assert chi_squared < 13.8  # 0.999 quantile with 2 degrees of freedom


def test_construction_at_full_greed_takes_the_best_levels() -> None:
    space = ParameterSpace((Parameter("a", (0, 1, 2)), Parameter("b", ("x", "y"))))
    history = observe(space, a0_b0=1, a1_b0=5, a2_b0=3, a1_b1=9)
    model = DesignModel.fit(space, history)
    for seed in range(20):
        assert construction(model, space, 1.0, np.random.default_rng(seed)).level_ids == (1, 1)


def test_sampling_returns_the_solution_first_and_then_its_nearest_neighbours() -> None:
    space = ParameterSpace((Parameter("a", tuple(range(11))), Parameter("b", ("x", "y"))))
    model = DesignModel.fit(space, ())
    for seed in range(20):
        rng = np.random.default_rng(seed)
        solution, *neighbours = sampling(model, space, 0.7, 2, rng=rng)
        a, b = solution.level_ids
        steps = [abs(neighbour.level_ids[0] - a) for neighbour in neighbours]
        assert all(neighbour.level_ids[1] == b for neighbour in neighbours)
        assert steps == ([1, 1] if 0 < a < 10 else [1, 2])


def test_an_excluded_or_taken_solution_gives_way_to_its_nearest_free_neighbours() -> None:
    space = ParameterSpace((Parameter("a", tuple(range(11))),), (Exclusion("a == 6"),))
    history = tuple(Observation(space.configuration(i), -abs(i - 5.0)) for i in (0, 4, 5, 10))
    model = DesignModel.fit(space.closing("a", 7), history)
    rng = np.random.default_rng(1)
    found = local_search(
        space.closing("a", 7), 3, history[2].configuration, rng, Knowledge(space, history).taken
    )
    assert [c.level_ids[0] for c in found] == [3, 2, 8] or [c.level_ids[0] for c in found] == [
        3,
        8,
        2,
    ]
    assert model.q_max("a") == 0


def test_suggestions_say_why() -> None:
    space = ParameterSpace(
        (Parameter("procs", (1, 2, 4, 8)), Parameter("order", ("fcfs", "sjf", "wfp3")))
    )
    history = observe(space, a0_b0=1, a1_b0=2, a2_b1=5, a2_b0=4, a3_b0=3)
    knowledge = Knowledge(space, history)
    suggestions = make_strategy("copper", beta=1.0, neighbours=2).suggest(
        6, knowledge, np.random.default_rng(3)
    )
    by_values = {tuple(space.values(s.configuration).values()): s for s in suggestions}
    untried = by_values[4, "wfp3"]
    assert untried.kind == "construction"
    assert untried.reason == (
        "procs=4 (of 4 levels tried) has the best mean quality seen; order='wfp3' is untried."
    )
    assert untried.expected == pytest.approx(3 + 1.5)
    assert untried.interval is None
    neighbours = [s for s in suggestions if s.kind == "neighbour"]
    assert any(s.reason.startswith("One step in procs from suggestion ") for s in neighbours)
    assert all(s.near is not None for s in neighbours)
    for suggestion in neighbours:
        if "from suggestion " in suggestion.reason:
            number = int(suggestion.reason.rstrip(".").rsplit(" ", 1)[1])
            assert suggestions[number - 1].configuration == suggestion.near


def test_the_first_suggestions_are_random_and_say_so() -> None:
    suggestions = Copper().suggest(10, Knowledge(SPACE), np.random.default_rng(2))
    assert {s.kind for s in suggestions} == {"initial"}
    assert {s.expected for s in suggestions} == {None}


@pytest.mark.parametrize("options", [{"beta": 1.01}, {"beta": -0.1}, {"beta": float("nan")}])
def test_options_are_refused_in_a_sentence(options: dict[str, float]) -> None:
    with pytest.raises(OptionError, match=r"beta=.* must be from 0 to 1"):
        Copper(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize("neighbours", [-1, 1.5, True])
def test_a_wrong_number_of_neighbours_is_refused(neighbours: int) -> None:
    with pytest.raises(OptionError, match="neighbours"):
        Copper(neighbours=neighbours)


def test_without_neighbours_every_suggestion_is_a_construction_while_they_are_free() -> None:
    history = observe(SPACE, a0_b0=1, a1_b1=2)
    copper = Copper(beta=0.0, neighbours=0)
    suggestions = copper.suggest(8, Knowledge(SPACE, history), np.random.default_rng(1))
    assert len({s.configuration for s in suggestions}) == 8
    assert suggestions[0].kind == "construction"


@pytest.mark.statistical
def test_grasp_beats_random_search_where_main_effects_are_the_truth() -> None:
    """Five parameters of six levels, qualities add up: the mean best after 60 runs, 20 seeds."""
    space = ParameterSpace(tuple(Parameter(f"p{i}", tuple(range(6))) for i in range(5)))

    def best_after(name: str, seed: int) -> float:
        rng = np.random.default_rng(seed)
        history: list[Observation] = []
        while len(history) < 60:
            strategy = make_strategy(name)
            for s in strategy.suggest(5, Knowledge(space, tuple(history)), rng):
                quality = -sum(abs(level_id - 2) for level_id in s.configuration.level_ids)
                history.append(Observation(s.configuration, quality))
        return max(o.quality for o in history)

    copper, random = (
        np.mean([best_after(name, seed) for seed in range(20)]) for name in ("copper", "random")
    )
    assert copper > random + 0.5


@pytest.mark.soak
@pytest.mark.slow
def test_the_papers_space_of_8800_is_never_proposed_twice() -> None:
    space = ParameterSpace(
        tuple(Parameter.range(name, 1, n, 1) for name, n in (("a", 22), ("b", 20), ("c", 20)))
    )
    assert space.size == 8800
    rng, copper = np.random.default_rng(1), Copper()
    seen: set[tuple[int, ...]] = set()
    observed: list[Observation] = []
    for _ in itertools.count():
        suggestions = copper.suggest(80, Knowledge(space, tuple(observed)), rng)
        for suggestion in suggestions:
            ids = suggestion.configuration.level_ids
            assert ids not in seen
            seen.add(ids)
            quality = -((ids[0] - 7) ** 2) - abs(ids[1] - 3) + 0.1 * ids[2]
            observed.append(Observation(suggestion.configuration, quality))
        if len(suggestions) < 80:
            break
    assert len(seen) == 8800
