"""Spaces: indices, values, coordinates, neighbours, sampling, counting and edits."""

import itertools
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import (
    Configuration,
    Exclusion,
    ExclusionError,
    NotAllowedError,
    Parameter,
    ParameterSpace,
    SpaceError,
    UnknownLevelError,
    UnknownParameterError,
)
from strategies.space.enumeration import below, permuted, squared_distance, squared_scale
from tests.draw.spaces import all_of, configurations, grid, spaces

SPACE = ParameterSpace(
    (
        Parameter("procs", (1, 2, 4)),
        Parameter("order", ("fcfs", "sjf")),
        Parameter("kill", (True, False)),
    )
)
HUGE = ParameterSpace(tuple(Parameter(f"p{i}", tuple(range(10))) for i in range(12)))


@given(st.data())
def test_index_and_configuration_are_inverse_and_lexicographic(data: st.DataObject) -> None:
    space = data.draw(spaces())
    ids = [space.configuration(i).level_ids for i in range(space.size)]
    assert ids == list(itertools.product(*(range(p.n_levels) for p in space.parameters)))
    assert [space.index(space.configuration(i)) for i in range(space.size)] == list(
        range(space.size)
    )


@given(st.integers(0, 10**12 - 1))
def test_index_round_trip_on_10_to_the_12(index: int) -> None:
    assert HUGE.size == 10**12
    assert HUGE.index(HUGE.configuration(index)) == index


@pytest.mark.parametrize("index", [-1, 12])
def test_an_index_outside_the_product_is_refused(index: int) -> None:
    with pytest.raises(SpaceError, match="allowed are 0 to 11"):
        SPACE.configuration(index)


@given(st.data())
def test_values_round_trip(data: st.DataObject) -> None:
    space = data.draw(spaces())
    configuration = data.draw(configurations(space))
    values = space.values(configuration)
    assert space.from_values(values) == configuration
    parsed = {n: space.parse_value(n, str(v)) for n, v in values.items()}
    assert space.from_values(parsed) == configuration
    assert [type(v) for v in parsed.values()] == [type(v) for v in values.values()]


def test_values_are_matched_by_number_but_truth_values_are_no_numbers() -> None:
    assert SPACE.from_values({"procs": 4.0, "order": "sjf", "kill": False}).level_ids == (2, 1, 1)
    with pytest.raises(UnknownLevelError, match="'procs' has no level True"):
        SPACE.from_values({"procs": True, "order": "sjf", "kill": False})
    with pytest.raises(UnknownLevelError, match="'kill' has no level 0"):
        SPACE.from_values({"procs": 4, "order": "sjf", "kill": 0})
    assert SPACE.parse_value("procs", " 4 ") == 4
    assert SPACE.parse_value("kill", "True") is True


@pytest.mark.parametrize(
    ("values", "error", "sentence"),
    [
        ({"prcs": 1}, UnknownParameterError, r"no parameter 'prcs'; did you mean 'procs'\? Known"),
        ({"procs": 1, "order": "sjf"}, SpaceError, "no value is given for kill"),
        ({"procs": 3, "order": "sjf", "kill": True}, UnknownLevelError, r"no level 3 \(nearest: "),
        ({"procs": 1, "order": "sfj", "kill": True}, UnknownLevelError, "did you mean 'sjf'"),
        ({"procs": "1", "order": "sjf", "kill": True}, UnknownLevelError, "no level '1'"),
    ],
)
def test_wrong_values_are_refused_in_a_sentence(
    values: dict[str, int | str | bool], error: type[SpaceError], sentence: str
) -> None:
    with pytest.raises(error, match=sentence):
        SPACE.from_values(values)


@pytest.mark.parametrize("text", ["", "five", "nan", "inf", "1_0", "0x4", "4 4"])
def test_text_that_is_no_level_is_refused(text: str) -> None:
    with pytest.raises(UnknownLevelError, match="'procs' has no level"):
        SPACE.parse_value("procs", text)


@pytest.mark.parametrize("ids", [(0, 0), (3, 0, 0), (0, 0, -1)])
def test_a_configuration_of_another_shape_is_refused(ids: tuple[int, ...]) -> None:
    with pytest.raises(SpaceError):
        SPACE.values(Configuration(ids, SPACE.lineage))


def test_a_configuration_of_another_lineage_is_refused() -> None:
    with pytest.raises(SpaceError, match="of space 'elsewhere'"):
        SPACE.is_allowed(Configuration((0, 0, 0), "elsewhere"))


# -- coordinates and neighbours ------------------------------------------------------------


def test_coordinates_by_hand() -> None:
    space = ParameterSpace(
        (
            Parameter("n", (4, 1, 2)),  # ranks 2, 0, 1
            Parameter("t", ("x", "y")),
            Parameter("one", (5,)),
            Parameter("size", ("small", "large", "huge"), "ordinal"),
        )
    )
    half = 1 / np.sqrt(2)
    got = space.coordinates(
        [Configuration((0, 0, 0, 0), space.lineage), Configuration((2, 1, 0, 1), space.lineage)]
    )
    expected = [[1.0, half, 0.0, 0.5, 0.0], [0.5, 0.0, half, 0.5, 0.5]]
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, expected, rtol=1e-15)
    assert space.coordinates([]).shape == (0, 5)


@given(st.data())
def test_neighbours_are_all_allowed_others_by_brute_force_distance(data: st.DataObject) -> None:
    space = data.draw(spaces())
    centre = data.draw(configurations(space))
    rng = np.random.default_rng(data.draw(st.integers(0, 3)))
    found = list(space.neighbours(centre, rng))
    others = all_of(space, lambda c: space.is_allowed(c) and c != centre)
    assert len(found) == len(set(found))
    assert set(found) == set(others)
    points = space.coordinates([centre, *found])
    assert np.all((points >= 0) & (points <= 1))
    distances = np.linalg.norm(points[1:] - points[0], axis=1)
    assert np.all(np.diff(distances) >= -1e-12)
    scale = squared_scale(space.parameters)
    for configuration, distance in zip(found, distances, strict=True):
        exact = squared_distance(space.parameters, centre.level_ids, configuration.level_ids)
        assert float(Fraction(exact, scale)) == pytest.approx(distance**2, abs=1e-12)


def test_ties_between_neighbours_are_broken_uniformly() -> None:
    space = ParameterSpace((Parameter("a", tuple("vwxyz")), Parameter("b", tuple("vwxyz"))))
    centre = space.configuration(0)
    firsts = [next(space.neighbours(centre, np.random.default_rng(s))) for s in range(4000)]
    counts = np.array([firsts.count(c) for c in set(firsts)])
    assert counts.size == 8
    assert np.sum((counts - 500) ** 2 / 500) < 24.3  # 0.999 quantile, 7 degrees of freedom


def test_neighbours_are_lazy_on_10_to_the_12_and_on_wide_nominal_parameters() -> None:
    centre = HUGE.configuration(123_456_789_012)
    first = list(itertools.islice(HUGE.neighbours(centre, np.random.default_rng(1)), 300))
    distances = np.linalg.norm(HUGE.coordinates(first) - HUGE.coordinates([centre]), axis=1)
    assert np.all(np.diff(distances) >= -1e-12)
    words = tuple(f"w{i}" for i in range(1000))
    wide = ParameterSpace(tuple(Parameter(f"p{i}", words) for i in range(20)))
    closed = frozenset((p.name, 0) for p in wide.parameters)
    narrowed = ParameterSpace(wide.parameters, (), closed, wide.lineage)
    corner = narrowed.configuration(0)  # every level closed: the first group has 999^20 members
    few = list(itertools.islice(narrowed.neighbours(corner, np.random.default_rng(1)), 50))
    assert len(set(few)) == 50
    assert all(narrowed.is_allowed(c) for c in few)


# -- counting and sampling -----------------------------------------------------------------


@given(st.data())
def test_counts_and_walks_agree_with_brute_force(data: st.DataObject) -> None:
    space = data.draw(spaces())
    allowed = all_of(space, space.is_allowed)
    assert space.count_allowed() == len(allowed)
    assert list(space.configurations()) == allowed
    closed = {(p.name, i) for p in space.parameters for i in range(p.n_levels)} & space.closed
    assert space.open_size == len(
        all_of(
            space,
            lambda c: (
                not closed & set(zip(space.names, c.level_ids, strict=True))
                and (not space.rows or c.level_ids in space.rows)
            ),
        )
    )
    everything = all_of(space, lambda c: True)
    assert space.allowed_of([c.level_ids for c in everything]) == [c.level_ids for c in allowed]
    for configuration in everything:
        if space.is_allowed(configuration):
            space.check(configuration)
        else:
            with pytest.raises(NotAllowedError):
                space.check(configuration)


@given(st.data())
def test_sampling_finds_whatever_is_free_and_nothing_else(data: st.DataObject) -> None:
    space = data.draw(spaces())
    allowed = all_of(space, space.is_allowed)
    taken = set(data.draw(st.lists(st.sampled_from(allowed)))) if allowed else set()
    rng = np.random.default_rng(0)
    configuration = space.sample(rng, taken)
    free = set(allowed) - taken
    assert (configuration in free) if free else configuration is None
    while (found := space.sample(rng, taken)) is not None:
        assert found in free
        taken.add(found)
    assert taken == set(allowed)


@pytest.mark.statistical
@pytest.mark.parametrize("text", ["a == 0 or b > 5", "a != 3"])
def test_sampling_is_uniform_over_the_allowed(text: str) -> None:
    parameters = (Parameter("a", tuple(range(5))), Parameter("b", tuple(range(10))))
    space = ParameterSpace(parameters, (Exclusion(text),))
    allowed = list(space.configurations())
    rng = np.random.default_rng(5)
    drawn = [space.sample(rng) for _ in range(200 * len(allowed))]
    counts = np.array([drawn.count(c) for c in allowed])
    assert counts.sum() == len(drawn)
    n = len(allowed) - 1
    assert np.sum((counts - 200) ** 2 / 200) < n + 4 * np.sqrt(2 * n)


def test_a_large_space_counts_by_the_parameters_its_exclusions_name() -> None:
    space = HUGE.excluding(Exclusion("p0 != 3")).excluding(Exclusion("p1 + p2 > 0"))
    assert space.count_allowed() == 10**9
    configuration = space.sample(np.random.default_rng(1))
    assert configuration is not None
    assert configuration.level_ids[:3] == (3, 0, 0)


def test_a_large_space_with_nothing_allowed_is_exhausted() -> None:
    space = HUGE.excluding(Exclusion("p0 >= 0"))
    assert space.count_allowed() == 0
    assert space.sample(np.random.default_rng(1)) is None


def test_a_count_that_is_not_known_is_none() -> None:
    text = " + ".join(f"p{i}" for i in range(12)) + " > 50"
    assert HUGE.excluding(Exclusion(text)).count_allowed() is None


def test_a_needle_in_a_large_space_is_said_to_be_out_of_reach(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("strategies.space.parameter_space.LAST_TRIES", 200)
    text = "(" + " + ".join(f"{7**i} * p{i}" for i in range(12)) + ") % 999983 != 1"
    with pytest.raises(SpaceError, match="close levels instead"):
        HUGE.excluding(Exclusion(text)).sample(np.random.default_rng(1))


DOZEN = ParameterSpace(tuple(Parameter(f"p{i}", tuple(range(12))) for i in range(12)))
SUM = " + ".join(DOZEN.names)


@pytest.mark.parametrize(
    "text", ["p0 >= 0", f"{SUM} >= 0", "p0 < 0 or p1 * p2 * p3 * p4 * p5 > -1"]
)
def test_an_exclusion_of_everything_costs_no_memory_and_is_refused(text: str) -> None:
    space = DOZEN.excluding(Exclusion(text))
    tracemalloc.start()
    try:
        assert space.count_allowed() == 0
        assert space.allowed_ids is not None
        assert space.allowed_ids.shape == (0, 12)
        assert next(space.configurations(), None) is None
        assert space.sample(np.random.default_rng(1)) is None
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()
    with pytest.raises(SpaceError, match=r"leave no configuration to run; allow at least one\.$"):
        space.check_not_empty()


def test_exclusions_of_other_parameters_are_counted_apart() -> None:
    space = DOZEN
    for name in DOZEN.names[:10]:  # 12^10 combinations together, 12 each
        space = space.excluding(Exclusion(f"{name} not in [3, 5]"))
    assert space.count_allowed() == 2**10 * 12**2
    rng = np.random.default_rng(1)
    drawn = space.sample(rng)
    assert drawn is not None
    assert space.is_allowed(drawn)
    few = space.excluding(Exclusion("p10 > 0 or p11 > 1"))
    assert few.allowed_ids is not None
    assert len(np.unique(few.allowed_ids, axis=0)) == few.count_allowed() == 2**11
    walked = list(few.configurations())
    assert walked == sorted(walked)
    assert {c.level_ids for c in walked} == set(map(tuple, few.allowed_ids.tolist()))
    allowed = few.allowed_combinations(("p11", "p0", "p1"))
    assert allowed is not None
    assert len(allowed) == 2 * 2 * 2
    assert (1, 3, 5) in allowed
    assert (2, 3, 5) not in allowed


def test_a_needle_that_bounds_find_is_counted_and_drawn() -> None:
    space = DOZEN.excluding(Exclusion(f"{SUM} > 0"))
    assert space.count_allowed() == 1
    only = space.sample(np.random.default_rng(1))
    assert only == space.configuration(0)
    assert space.sample(np.random.default_rng(1), {only}) is None


def test_a_space_without_an_exclusion_that_empties_it_passes() -> None:
    DOZEN.check_not_empty()
    DOZEN.excluding(Exclusion("p0 > 0")).check_not_empty()
    with pytest.raises(SpaceError, match="'p0 > 0' and the closed levels leave no"):
        DOZEN.excluding(Exclusion("p0 > 0")).closing("p0", 0).check_not_empty()
    with pytest.raises(ExclusionError, match="division by zero"):
        DOZEN.excluding(Exclusion("1 / p0 > 1")).check_not_empty()


def test_an_earlier_exclusion_guards_a_later_one_of_fewer_parameters() -> None:
    guard = DOZEN.excluding(Exclusion("p0 == 0 and p1 >= 0")).excluding(Exclusion("12 / p0 < 2"))
    assert guard.count_allowed() == 6 * 12**11


def test_1_000_parameters_with_exclusions_cost_little() -> None:
    two = tuple(Parameter(f"q{i}", (0, 1)) for i in range(14))
    one = tuple(Parameter(f"o{i}", (7,)) for i in range(984))
    space = ParameterSpace((*two, *one))
    for at in range(0, 984, 40):  # all parameters are named
        names = [f"o{i}" for i in range(at, min(984, at + 40))]
        space = space.excluding(Exclusion(" or ".join(f"{name}<0" for name in names)))
    space = space.excluding(Exclusion(" + ".join(p.name for p in two) + " == 14"))
    tracemalloc.start()
    try:
        assert space.count_allowed() == 2**14 - 1
        assert space.allowed_ids is None
        centre = space.configuration(0)
        near = itertools.islice(space.neighbours(centre, np.random.default_rng(1)), 200)
        assert len(set(near)) == 200
        assert tracemalloc.get_traced_memory()[1] < 60_000_000
    finally:
        tracemalloc.stop()


def test_a_space_has_bounds_on_levels_and_exclusions() -> None:
    wide = tuple(Parameter(f"p{i}", tuple(range(10_000))) for i in range(3))
    with pytest.raises(SpaceError, match="30,000 levels in all; at most 20,000"):
        ParameterSpace(wide)
    many = tuple(Exclusion(f"p0 == {i} and p1 == 0") for i in range(101))
    with pytest.raises(SpaceError, match="101 exclusions; at most 100"):
        ParameterSpace(DOZEN.parameters, many)


# -- edits ---------------------------------------------------------------------------------


def test_edits_keep_history_valid() -> None:
    old = SPACE.from_values({"procs": 2, "order": "sjf", "kill": True})
    edited = (
        SPACE.with_level("procs", 3)
        .closing("procs", 2)
        .with_level("order", "wfp3")
        .excluding(Exclusion("procs == 3 and kill"))
    )
    assert edited.lineage == SPACE.lineage
    assert edited.values(old) == SPACE.values(old)
    assert edited.from_values(SPACE.values(old)) == old
    assert not edited.is_allowed(old)
    assert edited.reopening("procs", 2).is_allowed(old)
    assert SPACE.is_allowed(old)
    assert edited.size == 4 * 3 * 2
    assert edited.open_size == 3 * 3 * 2
    new = edited.from_values({"procs": 3, "order": "fcfs", "kill": False})
    assert new.level_ids[0] == 3
    # by value, 3 lies between 2 and 4
    assert edited.coordinates([new])[0, 0] == pytest.approx(2 / 3)
    with pytest.raises(SpaceError, match="no level id 3"):
        SPACE.values(new)
    with pytest.raises(NotAllowedError, match="excluded by 'procs == 3 and kill'"):
        edited.check(edited.from_values({"procs": 3, "order": "fcfs", "kill": True}))
    with pytest.raises(NotAllowedError, match="level 2 of parameter 'procs' is closed"):
        edited.check(old)


def test_edits_that_cannot_be_are_refused() -> None:
    closed = SPACE.closing("order", "fcfs")
    for edit, sentence in (
        (lambda: closed.closing("order", "fcfs"), "closed already"),
        (lambda: closed.closing("order", "sjf"), "leave at least one open"),
        (lambda: closed.reopening("order", "sjf"), "is not closed"),
        (lambda: closed.with_level("order", "fcfs"), "'fcfs' twice"),
        (lambda: closed.with_level("procs", "many"), "mixes 1 and 'many'"),
        (lambda: closed.with_level("procs", 4.0), "4.0 twice"),
        (lambda: closed.with_level("ordr", "x"), "did you mean 'order'"),
        (lambda: closed.closing("procs", 3), "no level 3"),
        (lambda: closed.excluding(Exclusion("prcs == 1")), "did you mean 'procs'"),
        (lambda: closed.excluding(Exclusion("kill")).excluding(Exclusion(" kill ")), "already"),
    ):
        with pytest.raises(SpaceError, match=sentence):
            edit()


@pytest.mark.parametrize(
    ("rows", "when", "sentence"),
    [
        (((0, 1), (1,)), "", "not one level id for each of 2 parameters"),
        (((0, 1), (0, 2)), "", "a level id that no level has"),
        (((0, -1),), "", "a level id that no level has"),
        (((0, 1),), "a == 1", "cannot have a condition"),
        (((0, 0),) * 200_001, "", "at most 200,000"),
    ],
)
def test_rows_that_cannot_be_are_refused(
    rows: tuple[tuple[int, ...], ...], when: str, sentence: str
) -> None:
    parameters = (Parameter("a", (1, 2)), Parameter("b", (1, 2), when=when))
    with pytest.raises(SpaceError, match=sentence):
        ParameterSpace(parameters, rows=rows)


def test_what_is_in_no_row_is_refused_and_levels_are_not_added() -> None:
    space = ParameterSpace((Parameter("a", (1, 2)), Parameter("b", (1, 2))), rows=((0, 0), (1, 1)))
    with pytest.raises(NotAllowedError, match="a=1, b=2 is none of the 2 combinations that exist"):
        space.check(space.from_values({"a": 1, "b": 2}))
    with pytest.raises(SpaceError, match="cannot be added to 'a': only the 2 given combinations"):
        space.with_level("a", 3)
    assert space.n_combinations == 2


def test_spaces_that_cannot_be_are_refused() -> None:
    a = Parameter("a", (1, 2))
    for build, sentence in (
        (lambda: ParameterSpace(()), "no parameters"),
        (lambda: ParameterSpace((a, a)), "two parameters are named 'a'"),
        (lambda: ParameterSpace((a,), closed=frozenset({("b", 0)})), "no parameter 'b' to close"),
        (lambda: ParameterSpace((a,), closed=frozenset({("a", 2)})), "no level id 2 to close"),
        (lambda: ParameterSpace((a,), closed=frozenset({("a", 0), ("a", 1)})), "at least one open"),
    ):
        with pytest.raises(SpaceError, match=sentence):
            build()


def test_a_division_by_zero_names_the_configuration() -> None:
    space = ParameterSpace((Parameter("a", (0, 1)),), (Exclusion("1 / a > 2"),))
    with pytest.raises(ExclusionError, match=r"cannot be evaluated for a=0: division by zero"):
        space.is_allowed(space.configuration(0))


def test_the_lineage_is_the_digest_of_the_definition() -> None:
    twin = ParameterSpace(SPACE.parameters)
    assert twin.lineage == SPACE.lineage
    assert twin == SPACE
    zeros = ParameterSpace((Parameter("a", (0, 1), "nominal"),))
    truths = ParameterSpace((Parameter("a", (False, True), "nominal"),))
    assert zeros.parameters != truths.parameters
    assert zeros.lineage != truths.lineage


@given(st.integers(0, 60), st.integers(0, 100))
def test_permutations_hold_every_number_once(n: int, seed: int) -> None:
    assert sorted(permuted(np.random.default_rng(seed), n)) == list(range(n))


def test_draws_below_numbers_beyond_64_bits_are_in_range_and_reach_both_halves() -> None:
    rng, n = np.random.default_rng(1), 3 * 2**80 + 1
    drawn = [below(rng, n) for _ in range(200)]
    assert all(0 <= d < n for d in drawn)
    assert 60 < sum(d < n // 2 for d in drawn) < 140


# -- preferred levels ----------------------------------------------------------------------------


def test_preferring_forbids_nothing_and_keeps_the_lineage() -> None:
    space = grid(3, 2)
    preferred = space.preferring("p0", 1)
    assert preferred.lineage == space.lineage
    assert preferred.preferred == {("p0", 1)}
    assert preferred.count_allowed() == space.count_allowed()
    assert preferred.unpreferring("p0", 1) == space
    assert ParameterSpace(space.parameters, preferred=preferred.preferred).lineage == space.lineage


def test_the_preferred_part_closes_the_other_open_levels_of_those_parameters() -> None:
    space = grid(4, 3, 2).closing("p0", 0).preferring("p0", 1).preferring("p0", 3)
    assert space.preferred_part.open_ids == ((1, 3), (0, 1, 2), (0, 1))
    assert space.preferred_part.lineage == space.lineage
    resting = space.closing("p0", 1).closing("p0", 3)  # a preference rests while closed
    assert resting.preferred_part is resting
    assert resting.reopening("p0", 3).preferred_part.open_ids[0] == (3,)
    assert space.with_level("p1", 9).preferred_part.open_ids[1] == (0, 1, 2, 3)
    assert grid(2).preferring("p0", 0).closing("p0", 1).preferred_part.open_ids == ((0,),)


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda s: s.preferring("p0", 1).preferring("p0", 1), "preferred already"),
        (lambda s: s.closing("p0", 1).preferring("p0", 1), "is closed; reopen it"),
        (lambda s: s.preferring("p0", 7), "no level 7"),
        (lambda s: s.preferring("q", 1), "no parameter 'q'"),
        (lambda s: s.unpreferring("p0", 1), "is not preferred"),
        (lambda s: replace(s, preferred=frozenset({("q", 0)})), "no parameter 'q' to prefer"),
        (lambda s: replace(s, preferred=frozenset({("p0", 3)})), "no level id 3 to prefer"),
    ],
)
def test_a_preference_that_cannot_be_is_refused(
    edit: Callable[[ParameterSpace], object], words: str
) -> None:
    with pytest.raises(SpaceError, match=words):
        edit(grid(3, 2))
