"""Exclusions against Python's own eval, and what they refuse."""

import copy
import itertools
import pickle
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strategies import Exclusion, ExclusionError, Level, Parameter, ParameterSpace
from strategies.space.exclusion import domain_of, equality
from strategies.space.parameter import Family

FAMILIES = {"x": "number", "y": "number", "order": "text", "flag": "truth"}
WORDS = ("fcfs", "sjf", "it's")


def arithmetic() -> st.SearchStrategy[str]:
    constants = st.integers(0, 5).map(str) | st.sampled_from(["0.5", "2.25", "1e3"])
    leaves = st.sampled_from(["x", "y"]) | constants
    return st.recursive(
        leaves,
        lambda inner: (
            st.tuples(inner, st.sampled_from(["+", "-", "*", "/", "//", "%"]), inner).map(
                lambda t: f"({t[0]} {t[1]} {t[2]})"
            )
            | inner.map(lambda t: f"-{t}")
        ),
        max_leaves=4,
    )


def comparisons() -> st.SearchStrategy[str]:
    orders = st.sampled_from(["==", "!=", "<", "<=", ">", ">="])
    pair = st.tuples(arithmetic(), orders, arithmetic()).map(" ".join)
    chain = st.tuples(arithmetic(), orders, arithmetic(), orders, arithmetic()).map(" ".join)
    words = st.tuples(
        st.just("order"), st.sampled_from(["==", "!="]), st.sampled_from(WORDS).map(repr)
    ).map(" ".join)
    numbers = st.lists(st.integers(-2, 3), max_size=3)
    among = st.tuples(arithmetic(), st.sampled_from(["in", "not in"]), numbers.map(str)).map(
        " ".join
    )
    texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=2).map(lambda t: f"order in {t}")
    return pair | chain | words | among | texts | st.sampled_from(["flag", "True", "flag == False"])


def conditions() -> st.SearchStrategy[str]:
    return st.recursive(
        comparisons(),
        lambda inner: (
            st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(
                lambda t: f"({t[0]}) {t[1]} {t[2]}"
            )
            | inner.map(lambda t: f"not {t}" if " " not in t else f"not ({t})")
        ),
        max_leaves=4,
    )


def values() -> st.SearchStrategy[dict[str, Level]]:
    number = st.integers(-3, 3) | st.sampled_from([0.5, -1.5, 2.25])
    return st.fixed_dictionaries(
        {"x": number, "y": number, "order": st.sampled_from(WORDS), "flag": st.booleans()}
    )


@settings(max_examples=100)
@given(conditions(), values())
def test_an_exclusion_means_what_python_means(text: str, given_values: dict[str, Level]) -> None:
    exclusion = Exclusion.parse(text)
    exclusion.check(FAMILIES)  # type: ignore[arg-type]
    try:
        expected = bool(eval(text, {"__builtins__": {}}, dict(given_values)))
    except ZeroDivisionError:
        with pytest.raises(ExclusionError, match="cannot be evaluated for"):
            exclusion.excludes(given_values)
    else:
        assert exclusion.excludes(given_values) is expected


@pytest.mark.parametrize(
    ("text", "piece"),
    [
        ("__import__('os').system('x')", "contains '__import__"),
        ("x.real == 1", "contains 'x.real'"),
        ("order[0] == 'f'", r"contains 'order\[0\]'"),
        ("x ** 9 > 1", r"contains 'x \*\* 9'"),
        ("x & 1 == 1", "contains 'x & 1'"),
        ("x << 9 > 1", "contains 'x << 9'"),
        ("(lambda: True)", "contains"),
        ("[x for x in order] == 1", "contains"),
        ("x if y else flag", "contains 'x if y else flag'"),
        ("(x := 3) > 1", "contains"),
        ("f'{x}' == 'a'", "contains"),
        ("x is 3", "contains 'x is 3'"),
        ("x == None", "contains 'None'"),
        ("x == ...", "contains"),
        ("x == 1j", "contains '1j'"),
        ("x == 1e999", "contains '1e999'"),
        ("x == b'a'", "contains"),
        ("x in order", "contains 'order'"),
        ("x in [y]", "contains 'y'"),
        ("x in [[1]]", "contains"),
        ("x == [1]", r"contains '\[1\]'"),
        ("[1] == x", r"contains '\[1\]'"),
        ("x in [1] == flag", "contains"),
        ("{1: 2}", "contains"),
        ("x in {1, 2}", "contains"),
        ("~x > 1", "contains '~x'"),
        ("x; y", "cannot be read"),
        ("x = 3", "cannot be read"),
        ("x ==", "cannot be read"),
        ("import os", "cannot be read"),
        ("(" * 240 + "x", "cannot be read"),
        ("x + 1", "is not a condition"),
        ("-x", "is not a condition"),
        ("3", "is not a condition"),
        ("'a'", "is not a condition"),
        ("", "is empty"),
        ("   ", "is empty"),
        ("x == 'a\\n'", "backslash"),
        ("x == 1\n or y", "control character"),
        ("x == 1 \x00", "control character"),
        ("not " * 60 + "flag", "nested deeper than 30"),
        ("- " * 200 + "x > 1", "nested deeper than 30"),
        ("x == 1 or " * 60 + "flag", "characters; at most 500"),
    ],
)
def test_what_is_not_on_the_whitelist_is_refused_and_named(text: str, piece: str) -> None:
    with pytest.raises(ExclusionError, match=piece):
        Exclusion.parse(text)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("x == 'a'", "'a'' is a text where a number is needed"),
        ("order == 3", "'3' is a number where a text is needed"),
        ("order < 'b'", "'order' is a text where a number is needed"),
        ("flag == 1", "'1' is a number where a condition or truth value is needed"),
        ("x", "'x' is a number where a condition"),
        ("not order", "'order' is a text where a condition"),
        ("flag and x", "'x' is a number where a condition"),
        ("flag + 1 > 1", "where a number is needed"),
        ("-flag == 1", "where a number is needed"),
        ("order in ['a', 3]", "'3' is a number where a text is needed"),
        ("ordr == 'a'", r"names 'ordr', which is not a parameter; did you mean 'order'\?"),
    ],
)
def test_a_space_refuses_conditions_that_can_never_hold(text: str, sentence: str) -> None:
    parameters = (
        Parameter("x", (0, 1)),
        Parameter("order", ("a", "b")),
        Parameter("flag", (True, False)),
    )
    with pytest.raises(ExclusionError, match=sentence):
        ParameterSpace(parameters, (Exclusion(text),))


def test_texts_are_kept_out_of_arithmetic_without_a_space_too() -> None:
    with pytest.raises(ExclusionError, match="is a text where a number is needed"):
        Exclusion("order * 1000000000 == x").excludes({"order": "a", "x": 1})
    with pytest.raises(ExclusionError, match="needs a value for 'x'"):
        Exclusion("x == 1").excludes({"y": 1})
    with pytest.raises(ExclusionError, match="cannot be evaluated for order='a'"):
        Exclusion("order < 3").excludes({"order": "a"})


def test_exclusions_are_plain_values() -> None:
    exclusion = Exclusion.parse("  x == 1 and y in [2, -3]  ")
    assert exclusion.text == "x == 1 and y in [2, -3]"
    assert exclusion.names == {"x", "y"}
    assert exclusion == Exclusion("x == 1 and y in [2, -3]")
    assert pickle.loads(pickle.dumps(exclusion)) == exclusion
    assert copy.deepcopy(exclusion).excludes({"x": 1, "y": -3})
    assert not exclusion.excludes({"x": 1, "y": 3})


def test_the_papers_example() -> None:
    exclusion = Exclusion.parse("small_procs == 0 and max_requested_s < 86400")
    assert exclusion.excludes({"small_procs": 0, "max_requested_s": 3600})
    assert not exclusion.excludes({"small_procs": 0, "max_requested_s": 86400})
    assert not exclusion.excludes({"small_procs": 8, "max_requested_s": 3600})


@pytest.mark.parametrize(
    ("text", "x", "y", "expected"),
    [
        ("1 <= x <= 2", 5, 0, False),  # the middle is compared on both sides
        ("1 <= x <= 2", 2, 0, True),
        ("0 < x < y < 9", 3, 2, False),
        ("0 < x < y < 9", 3, 4, True),
        ("x == y == 3", 3, 3, True),
        ("x == y == 3", 4, 4, False),
        ("not x < 2 and y > 1 or x == 0", 0, 0, True),  # not, then and, then or
        ("7 // 2 == x and 7 % y == 1 and -x < 0", 3, 2, True),
    ],
)
def test_conditions_by_hand(text: str, x: int, y: int, expected: bool) -> None:
    assert Exclusion(text).excludes({"x": x, "y": y}) is expected


@given(comparisons(), st.data())
def test_bounds_never_claim_more_than_every_evaluation(text: str, data: st.DataObject) -> None:
    condition = Exclusion(text)
    number = st.integers(-2, 4) | st.sampled_from([0.5, -1.5, 1e3])
    values: dict[str, list[Level]] = {
        "x": data.draw(st.lists(number, min_size=1, max_size=3)),
        "y": data.draw(st.lists(number, min_size=1, max_size=3)),
        "order": data.draw(st.lists(st.sampled_from(WORDS), min_size=1)),
        "flag": data.draw(st.lists(st.booleans(), min_size=1)),
    }
    if not condition.surely_excludes({name: domain_of(levels) for name, levels in values.items()}):
        return
    for levels in itertools.product(*values.values()):
        with suppress(ExclusionError):  # a division by zero is refused elsewhere
            assert condition.excludes(dict(zip(values, levels, strict=True)))


@pytest.mark.parametrize(
    ("text", "is_certain"),
    [
        ("x + y >= 0", True),
        ("x + y > 0", False),
        ("x * y >= 0 and not (order == 'zz')", True),
        ("x < 0 or flag in [True, False] or x % 7 <= 7", True),
        ("0 <= x <= 3 and order != 'zz'", True),
        ("x in [0, 1, 2, 3]", False),
        ("1 / x > -1", False),
        ("-x // 2 <= 0", True),
        ("flag == flag", False),
    ],
)
def test_bounds_by_hand(text: str, is_certain: bool) -> None:
    domains = {
        "x": domain_of((0, 3)),
        "y": domain_of((0, 5)),
        "order": domain_of(("fcfs", "sjf")),
        "flag": domain_of((True, False)),
    }
    assert Exclusion(text).surely_excludes(domains) is is_certain


def test_names_with_dashes_and_dots_stand_in_backquotes() -> None:
    families: dict[str, Family] = {"optimizer.lr": "number", "learning-rate": "number", "é": "text"}
    text = "é == 'a`b`' and `optimizer.lr` > 0.1 or `learning-rate` == 2"
    exclusion = Exclusion(text)
    assert exclusion.names == {"optimizer.lr", "learning-rate", "é"}
    exclusion.check(families)
    values = {"é": "a`b`", "optimizer.lr": 0.2, "learning-rate": 1}
    assert exclusion.excludes(values)
    assert not exclusion.excludes(values | {"optimizer.lr": 0.1})
    assert exclusion.excludes({"é": "x", "optimizer.lr": 0.1, "learning-rate": 2})
    assert Exclusion(equality(values)).excludes(values)
    assert Exclusion("`a` == 1").excludes({"a": 1})
    for wrong, message in (
        ("optimizer.lr > 0.1", r"backquotes, '`optimizer.lr`'"),
        ("learning-rate > 0.1", r"contains 'learning-rate'; write a name .* '`learning-rate`'"),
        ("`a b` == 1", "has 'a b' in backquotes, which is not a parameter name"),
        ("`optimizer.lr` > 'x'", "'x'' is a text where a number"),
    ):
        with pytest.raises(ExclusionError, match=message):
            Exclusion(wrong).check(families)


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("x > 1", False), ("not (x > 1)", False), ("x > 1 or y == 2", True),
        ("x > 1 and y == 2", False), ("not (x > 1 and y == 3)", True), ("x in [1, 2]", False),
        ("x not in [1, 2]", False), ("-x + 1 < 2", False), ("1 < y < x", False),
        ("not (3 < y < x)", True), ("y / x > 0 or not x == 0 or y > 1", True),
    ],
)  # fmt: skip
def test_what_depends_on_an_inactive_parameter_is_unknown(text: str, holds: bool) -> None:
    assert Exclusion(text).excludes({"x": None, "y": 2}) is holds
