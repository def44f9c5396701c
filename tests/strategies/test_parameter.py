"""Parameters: eager validation, exact ranges, order and look-up."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import Level, Parameter, SpaceError, UnknownLevelError
from tests.draw.spaces import parameters


@pytest.mark.parametrize(
    "name", ["", "1a", "a b", "a--b", "-a", "a.", "in", "True", "ﬁne", None, 3]
)
def test_names_that_an_exclusion_could_not_use_are_refused(name: str) -> None:
    with pytest.raises(SpaceError, match="a parameter is named"):
        Parameter(name, (1, 2))


def test_a_name_as_on_a_command_line_is_answered_with_one_that_works() -> None:
    for name, other in (("--learning-rate", "learning-rate"), ("optimizer lr", "optimizer_lr")):
        with pytest.raises(SpaceError, match=f"; write '{other}'"):
            Parameter(name, (1, 2))


@pytest.mark.parametrize(
    ("levels", "sentence"),
    [
        ((), "has no levels"),
        ((1, float("nan")), "must be finite"),
        ((float("inf"),), "must be finite"),
        ((1, 1.0), "1.0 twice"),
        ((0.0, -0.0), "twice"),
        ((1, True), "mixes 1 and True"),
        ((0, "a"), "mixes 0 and 'a'"),
        (("a", "a"), "'a' twice"),
        (("a", ""), "is not empty"),
        (("a", " b"), "no space"),
        (("a\n",), "no space"),
        ((None,), "a level is a number, a text or a truth value"),
        (((1, 2),), "a level is a number"),
        ("abc", "give a list"),
        (3, "give a list"),
    ],
)
def test_levels_that_cannot_be_are_refused(levels: tuple[Level, ...], sentence: str) -> None:
    with pytest.raises(SpaceError, match=sentence):
        Parameter("p", levels)


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(SpaceError, match="allowed are ordinal and nominal"):
        Parameter("p", (1,), "continuous")  # type: ignore[arg-type]


def test_kinds_are_inferred_and_ranks_follow_values() -> None:
    assert Parameter("p", (4, 1, 2)).kind == "ordinal"
    assert Parameter("p", (4, 1, 2)).ranks == (2, 0, 1)
    assert Parameter("p", ("b", "a")).kind == "nominal"
    assert Parameter("p", (True, False)).kind == "nominal"
    assert Parameter("p", ("small", "large"), "ordinal").ranks == (0, 1)
    assert Parameter("p", (4, 1)).with_level(2).ranks == (2, 0, 1)


def test_numpy_scalars_become_plain_values() -> None:
    parameter = Parameter("p", tuple(np.arange(3)))
    assert [type(level) for level in parameter.levels] == [int, int, int]
    assert parameter.level_id(np.float64(2.0)) == 2


def test_ranges_are_exact() -> None:
    assert Parameter.range("p", 0, 1, 0.1).levels == (
        0.0,
        0.1,
        0.2,
        0.3,
        0.4,
        0.5,
        0.6,
        0.7,
        0.8,
        0.9,
        1.0,
    )
    assert Parameter.range("p", 1, 10, 3).levels == (1, 4, 7, 10)
    assert all(type(v) is int for v in Parameter.range("p", 1, 10, 3).levels)
    assert all(type(v) is float for v in Parameter.range("p", 0, 1, 0.5).levels)
    assert Parameter.range("p", "0.1", "0.3", "0.1", unit="s").unit == "s"
    assert Parameter.range("p", -1, -1, 1).levels == (-1,)


@pytest.mark.parametrize(
    ("low", "high", "step", "sentence"),
    [
        (0, 10, 3, "use 9 or 12"),
        (0, 10, 0, "above 0"),
        (0, 10, -1, "above 0"),
        (10, 0, 1, "below low"),
        (0, float("nan"), 1, "finite"),
        (0, "ten", 1, "finite"),
        (0, 10**9, 1, "1,000,000,001 levels; at most 10,000"),
    ],
)
def test_ranges_that_cannot_be_are_refused(low: int, high: int, step: int, sentence: str) -> None:
    with pytest.raises(SpaceError, match=sentence):
        Parameter.range("p", low, high, step)


@given(st.integers(-50, 50), st.integers(1, 40), st.integers(0, 30))
def test_a_range_is_what_decimal_text_says(low: int, step: int, n_steps: int) -> None:
    parameter = Parameter.range("p", low / 100, (low + n_steps * step) / 100, step / 100)
    expected = [float(f"{(low + i * step) / 100:.2f}") for i in range(n_steps + 1)]
    assert [float(v) for v in parameter.levels] == expected


def test_logarithmic_ranges() -> None:
    assert Parameter.logarithmic("p", 1, 1000, 4).levels == (1, 10.0, 100.0, 1000)
    assert Parameter.logarithmic("p", 1, 64, 7, integer=True).levels == (1, 2, 4, 8, 16, 32, 64)
    assert Parameter.logarithmic("p", 0.1, 10, 3).levels == (0.1, 1.0, 10)
    with pytest.raises(SpaceError, match="only 4 distinct"):
        Parameter.logarithmic("p", 1, 4, 6, integer=True)
    for low, high, count in ((0, 1, 3), (2, 1, 3), (1, 2, 1), (1, float("inf"), 3)):
        with pytest.raises(SpaceError, match="0 < low < high"):
            Parameter.logarithmic("p", low, high, count)


@given(parameters())
def test_every_level_is_found_under_its_id_and_nothing_else_is(parameter: Parameter) -> None:
    for level_id, value in enumerate(parameter.levels):
        assert parameter.level_id(value) == level_id
        assert parameter.parse(str(value)) == value
    assert sorted(parameter.ranks) == list(range(parameter.n_levels))
    for stranger in (12345, "stranger", 0.12345, float("nan"), 10**400):
        with pytest.raises(UnknownLevelError, match=f"parameter '{parameter.name}' has no level"):
            parameter.level_id(stranger)
    strangers = {True, False} - set(parameter.levels) if parameter.family == "truth" else {True}
    for stranger in strangers:
        with pytest.raises(UnknownLevelError):
            parameter.level_id(stranger)


@given(parameters(name="p"), parameters(name="p"))
def test_equality_sees_the_difference_between_true_and_one(a: Parameter, b: Parameter) -> None:
    same = repr(a.family) == repr(b.family) and (a.levels, a.kind) == (b.levels, b.kind)
    assert (a == b) == same
    if same:
        assert hash(a) == hash(b)
