"""Full and fractional factorials: order, phases and places as hand-worked."""

import itertools
import re

import numpy as np
import pytest
from hypothesis import given

from strategies import (
    Configuration,
    Exclusion,
    FractionalFactorial,
    FullFactorial,
    Knowledge,
    Observation,
    OptionError,
    Parameter,
    ParameterSpace,
    Suggestion,
    make_strategy,
)
from tests.draw.spaces import all_of, grid, observe_all, spaces

FIVE = ParameterSpace(tuple(Parameter(name, (10, 20, 30)) for name in ("a", "b", "c", "d", "e")))


def runs_of(suggestions: tuple[Suggestion, ...]) -> list[tuple[int, ...]]:
    return [suggestion.configuration.level_ids for suggestion in suggestions]


def test_standard_order_moves_the_last_parameter_fastest() -> None:
    suggestions = FullFactorial("standard").suggest(
        9, Knowledge(grid(2, 3)), np.random.default_rng(1)
    )
    assert runs_of(suggestions) == list(itertools.product(range(2), range(3)))
    assert suggestions[3].reason == "Place 4 of 6 in the standard order of the full factorial."


def test_standard_order_passes_over_what_was_run_and_keeps_places() -> None:
    space = grid(2, 3)
    knowledge = Knowledge(space, observe_all(space, [(0, 0), (0, 2)]))
    suggestions = FullFactorial("standard").suggest(2, knowledge, np.random.default_rng(1))
    assert runs_of(suggestions) == [(0, 1), (1, 0)]
    assert suggestions[0].reason.startswith("Place 2 of 6 ")


def test_random_order_counts_the_runs_made() -> None:
    space = grid(2, 3)
    knowledge = Knowledge(space, observe_all(space, [(0, 0), (0, 2)]))
    suggestions = FullFactorial().suggest(2, knowledge, np.random.default_rng(1))
    assert suggestions[0].reason.startswith("Run 3 of 6 ")


@given(spaces())
def test_the_walk_over_a_space_is_that_of_the_full_product(space: ParameterSpace) -> None:
    assert list(space.configurations()) == all_of(space, space.is_allowed)


@pytest.mark.parametrize(
    "exclusions",
    [
        # the whole beginning of the walk is excluded: 10^10 combinations
        ("p0 == 0",),
        ("p0 == p1",),
        # only the last parameter tells, and never for p0 < 5
        ("p0 < 5 and p11 >= 0",),
        # more combinations of named parameters than are listed
        ("p0 == p1", "p2 + p3 + p4 + p5 + p6 + p7 < 3 and p2 == 0"),
    ],
)
def test_the_walk_leaves_dead_beginnings_at_once(exclusions: tuple[str, ...]) -> None:
    space = ParameterSpace(grid(*[10] * 12).parameters, tuple(map(Exclusion, exclusions)))
    first = list(itertools.islice(space.configurations(), 50))
    assert len(set(first)) == 50
    assert first == sorted(first)
    assert all(map(space.is_allowed, first))


def test_the_fraction_comes_first_then_its_centre_fold_and_factorial() -> None:
    space = FIVE
    rng = np.random.default_rng(3)
    suggestions = FractionalFactorial().suggest(60, Knowledge(space), rng)
    fraction, centre, fold, rest, fill = (
        suggestions[:8], suggestions[8], suggestions[9:17], suggestions[17:33], suggestions[33:],
    )  # fmt: skip
    signs = np.array(runs_of(fraction)) - 1
    assert set(np.unique(signs)) == {-1, 1}
    assert (signs[:, 3] == signs[:, 0] * signs[:, 1]).all()  # D=AB
    assert (signs[:, 4] == signs[:, 0] * signs[:, 2]).all()  # E=AC
    assert centre.configuration.level_ids == (1, 1, 1, 1, 1)
    assert "Centre point" in centre.reason
    assert {tuple(-s for s in row) for row in signs.tolist()} == {
        tuple(i - 1 for i in row) for row in runs_of(fold)
    }
    assert all("all signs reversed" in s.reason for s in fold)
    corners = {*runs_of(fraction), *runs_of(fold), *runs_of(rest)}
    assert corners == set(itertools.product((0, 2), repeat=5))
    assert all(s.reason.startswith("Completes the 2^5 factorial") for s in rest)
    assert all(s.reason.startswith("Balances how often") for s in fill)
    assert {s.kind for s in suggestions} == {"design"}


def test_a_reason_says_the_place_in_the_design() -> None:
    suggestions = FractionalFactorial().suggest(8, Knowledge(FIVE), np.random.default_rng(4))
    places = set()
    for suggestion in suggestions:
        found = re.fullmatch(
            r"Run (\d) of 8 of the 2\^\(5-2\) fraction \(resolution III, D=AB, E=AC; factors in "
            r"the parameters' order\)\.",
            suggestion.reason,
        )
        assert found is not None, suggestion.reason
        place = int(found[1])
        # standard order: A changes fastest
        a, b, c = (suggestion.configuration.level_ids[i] for i in range(3))
        assert place == 1 + (a == 2) + 2 * (b == 2) + 4 * (c == 2)
        places.add(place)
    assert places == set(range(1, 9))


def test_an_even_fraction_is_folded_on_its_first_parameter() -> None:
    space = grid(2, 2, 2, 2)
    suggestions = FractionalFactorial(4).suggest(16, Knowledge(space), np.random.default_rng(1))
    assert "2^(4-1)" in suggestions[0].reason
    assert all("the sign of p0 reversed" in s.reason for s in suggestions[8:])
    assert set(runs_of(suggestions)) == set(itertools.product((0, 1), repeat=4))


def test_parameters_with_one_open_level_are_constant_and_nominal_ones_have_no_centre() -> None:
    space = ParameterSpace(
        (
            Parameter("a", (5, 1, 3)),
            Parameter("b", ("x", "y", "z")),
            Parameter("c", (7,)),
            Parameter("d", (1, 2)),
        ),
        closed=frozenset({("b", 0)}),
    )
    suggestions = FractionalFactorial().suggest(5, Knowledge(space), np.random.default_rng(2))
    values = [space.values(s.configuration) for s in suggestions]
    # three factors: the half fraction of four runs, lowest a is 1
    assert {(v["a"], v["b"], v["d"]) for v in values[:4]} == {
        (1, "y", 2), (5, "y", 1), (1, "z", 1), (5, "z", 2),
    }  # fmt: skip
    assert values[4] == {"a": 3, "b": "y", "c": 7, "d": 1}


def test_runs_made_before_are_runs_of_the_design_and_exclusions_are_owned_up_to() -> None:
    space = ParameterSpace(FIVE.parameters, (Exclusion("a == 10 and b == 10 and c == 10"),))
    made = [(2, 0, 0, 0, 0)]  # run 2 of the fraction
    knowledge = Knowledge(space, observe_all(space, made))
    suggestions = FractionalFactorial().suggest(7, knowledge, np.random.default_rng(5))
    assert {s.reason.split(" of ")[0] for s in suggestions[:6]} == {f"Run {i}" for i in range(3, 9)}
    assert suggestions[0].reason.endswith("order), 1 of which the exclusions forbid.")
    assert suggestions[6].reason.startswith("Centre point")


def test_many_parameters_are_screened_by_plackett_and_burman() -> None:
    space = grid(*[3] * 20)
    suggestions = make_strategy("fractional_factorial").suggest(
        24, Knowledge(space), np.random.default_rng(1)
    )
    matrix = np.array(runs_of(suggestions)) - 1
    assert (matrix.T @ matrix == 24 * np.eye(20)).all()
    assert "of 24 of the Plackett-Burman design (resolution III;" in suggestions[0].reason


@pytest.mark.parametrize("resolution", [2, 6, 3.0, True, None])
def test_a_resolution_that_cannot_be_is_refused(resolution: int) -> None:
    with pytest.raises(OptionError, match="allowed are 3, 4 and 5"):
        FractionalFactorial(resolution)


def test_an_order_that_cannot_be_is_refused() -> None:
    with pytest.raises(OptionError, match="allowed are random, standard"):
        FullFactorial("alphabetical")  # type: ignore[arg-type]


def test_the_design_does_not_depend_on_results() -> None:
    history = [Observation(Configuration((1, 1, 0, 0, 0), FIVE.lineage), q) for q in (1.0, 9.0)]
    first, second = (
        FractionalFactorial().suggest(20, Knowledge(FIVE, (o,)), np.random.default_rng(1))
        for o in history
    )
    assert runs_of(first) == runs_of(second)
