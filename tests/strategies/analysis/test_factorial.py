"""Effects, interactions and their tests: published tables, hand work, and a reference solver."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from strategies import Configuration, Observation, Parameter, ParameterSpace, least_squares_effects
from strategies.doe.factorial_model import (
    FactorialModel,
    LevelContrast,
    all_pairs,
    lack_of_fit,
    press_statistic,
)
from strategies.doe.linear_model import half_normal, lenth_margins
from strategies.space.errors import AnalysisError, SpaceError, UnknownParameterError
from tests.draw.spaces import grid, histories, observe_all, spaces

FILTRATION = {
    "(1)": 45, "a": 71, "b": 48, "ab": 65, "c": 68, "ac": 60, "bc": 80, "abc": 65,
    "d": 43, "ad": 100, "bd": 45, "abd": 104, "cd": 75, "acd": 86, "bcd": 70, "abcd": 96,
}  # fmt: skip
"""Montgomery, table 6.10: a 2^4 without replicates."""

BATTERY = (
    ((130, 155, 74, 180), (34, 40, 80, 75), (20, 70, 82, 58)),
    ((150, 188, 159, 126), (136, 122, 106, 115), (25, 70, 58, 45)),
    ((138, 110, 168, 160), (174, 120, 150, 139), (96, 104, 82, 60)),
)
"""Montgomery, table 5.1: battery life, 3 materials by 3 temperatures, 4 replicates."""


def filtration() -> tuple[ParameterSpace, tuple[Observation, ...]]:
    space = ParameterSpace(tuple(Parameter(name, (-1, 1)) for name in "ABCD"))
    history = []
    for label, value in FILTRATION.items():
        ids = tuple(int(letter in label) for letter in "abcd")
        history.append(Observation(Configuration(ids, space.lineage), float(value)))
    return space, tuple(history)


def battery() -> tuple[ParameterSpace, tuple[Observation, ...]]:
    space = ParameterSpace(
        (Parameter("material", ("1", "2", "3")), Parameter("temperature", (15, 70, 125)))
    )
    history = tuple(
        Observation(Configuration((i, j), space.lineage), float(value))
        for i, row in enumerate(BATTERY)
        for j, cell in enumerate(row)
        for value in cell
    )
    return space, history


def test_the_effects_of_the_filtration_experiment() -> None:
    space, history = filtration()
    model = FactorialModel.fit(space, history, all_pairs(space))
    effects = {c.name: c.effect for c in model.contrasts}
    assert effects == pytest.approx(
        {
            "A": 21.625, "B": 3.125, "C": 9.875, "D": 14.625,
            "A x B": 0.125, "A x C": -18.125, "A x D": 16.625,
            "B x C": 2.375, "B x D": -0.375, "C x D": -1.125,
        }
    )  # fmt: skip
    squares = {t.parameters: t.sum_squares for t in model.tests}
    assert squares[("A",)] == pytest.approx(1870.56, abs=0.01)
    assert squares[("A", "D")] == pytest.approx(1105.56, abs=0.01)
    assert model.error.source == "residual"
    assert model.error.df == 5
    # the residual is what the three- and four-factor interactions hold: 4 (sum of effect^2)
    high = (1.875, 4.125, -1.625, -2.625, 1.375)
    assert model.error.mean_square == pytest.approx(4 * sum(e * e for e in high) / 5)
    low, up = model.levels("A")
    assert (low.effect, up.effect) == pytest.approx((-21.625 / 2, 21.625 / 2))
    assert up.count == 8


def test_the_analysis_of_variance_of_the_battery_experiment() -> None:
    space, history = battery()
    model = FactorialModel.fit(space, history, [("material", "temperature")])
    material, temperature, both = model.tests
    assert [t.df for t in model.tests] == [2, 2, 4]
    assert material.sum_squares == pytest.approx(10683.72, abs=0.01)
    assert temperature.sum_squares == pytest.approx(39118.72, abs=0.01)
    assert both.sum_squares == pytest.approx(9613.78, abs=0.01)
    assert [t.f for t in model.tests] == pytest.approx([7.91, 28.97, 3.56], abs=0.005)
    assert material.p == pytest.approx(0.0020, abs=5e-5)
    assert both.p == pytest.approx(0.0186, abs=5e-5)
    assert model.error.source == "pure error"
    assert (model.error.df, model.error.mean_square) == (27, pytest.approx(675.21, abs=0.01))
    assert lack_of_fit(model).reason is not None  # 9 effects, 9 cells: nothing is left to test
    cell = model.combinations("material", "temperature")[0]
    assert cell.count == 4
    assert cell.effect == pytest.approx(134.75 - 105.53, abs=0.01)
    residual = {c.level_ids: c.effect for c in model.interactions("material", "temperature")}
    # cell mean - row mean - column mean + grand mean, from the published means
    assert residual[(0, 0)] == pytest.approx(134.75 - 83.17 - 144.83 + 105.53, abs=0.02)


def test_lack_of_fit_of_the_additive_battery_model_is_its_interaction() -> None:
    space, history = battery()
    fit = lack_of_fit(FactorialModel.fit(space, history))
    assert (fit.df, fit.pure_df) == (4, 27)
    assert fit.sum_squares == pytest.approx(9613.78, abs=0.01)
    assert fit.pure_squares == pytest.approx(18230.75, abs=0.01)
    assert fit.f == pytest.approx(3.56, abs=0.005)
    assert fit.p == pytest.approx(0.0186, abs=5e-5)


def test_polynomial_contrasts_of_the_battery_temperature() -> None:
    """Montgomery, example 5.5: of temperature, linear 39,042.67 and quadratic 76.05."""
    space, history = battery()
    model = FactorialModel.fit(space, history, [("material", "temperature")])
    squares = {c.name: c.sum_squares for c in model.contrasts}
    assert squares["temperature linear"] == pytest.approx(39042.67, abs=0.01)
    assert squares["temperature quadratic"] == pytest.approx(76.06, abs=0.02)
    helmert = [s for name, s in squares.items() if name.startswith("material '")]
    assert len(helmert) == 2 + 4
    assert sum(helmert[:2]) == pytest.approx(10683.72, abs=0.01)
    names = [c.name for c in model.contrasts]
    assert names[:2] == ["material '2' against '1'", "material '3' against before"]
    assert names[4] == "material '2' against '1' x temperature linear"


def test_lenth_on_all_fifteen_published_effects() -> None:
    effects = [21.625, 3.125, 9.875, 14.625, 0.125, -18.125, 16.625, 2.375, -0.375, -1.125]
    effects += [1.875, 4.125, -1.625, -2.625, 1.375]
    margins = lenth_margins(effects)
    # median |c| 2.625, s0 3.9375; ten are below 9.84, their median is (1.625 + 1.875) / 2
    assert margins.pse == pytest.approx(1.5 * 1.75)
    assert margins.margin == pytest.approx(2.625 * stats.t.ppf(0.975, 5))
    assert margins.margin == pytest.approx(6.748, abs=0.001)
    assert margins.simultaneous == pytest.approx(13.699, abs=0.001)


def test_lenth_says_what_it_lacks() -> None:
    assert "need 3 or more estimable contrasts; there is 1" in str(lenth_margins([4.0]))
    assert "no noise" in str(lenth_margins([0.0, 0.0, 0.0, 5.0]))
    assert lenth_margins([0.0, 0.0, 0.0]).pse is None


def test_half_normal_points() -> None:
    space, history = filtration()
    points = half_normal(FactorialModel.fit(space, history, all_pairs(space)).contrasts)
    assert [p.name for p in points[-3:]] == ["A x D", "A x C", "A"]
    assert [p.size for p in points] == sorted(p.size for p in points)
    assert points[0].quantile == pytest.approx(stats.norm.ppf(0.525))
    assert points[-1].quantile == pytest.approx(stats.norm.ppf(0.975))


def test_the_error_pools_lack_of_fit_with_replicates_that_differ() -> None:
    space = grid(2, 2)
    cells = [(0, 0), (0, 0), (0, 1), (1, 0), (1, 1)]
    noisy = FactorialModel.fit(space, observe_all(space, cells, [1, 3, 5, 7, 10]))
    assert (noisy.error.source, noisy.error.df) == ("pooled", 2)
    assert (noisy.error.pure_df, noisy.error.lack_df) == (1, 1)
    assert noisy.solution is not None
    assert noisy.error.mean_square == pytest.approx(noisy.solution.residual_squares / 2)
    assert noisy.error.reason == (
        "The error pools lack of fit (1 degree of freedom) with replicates (1): 2 degrees of "
        "freedom in all."
    )
    exact = FactorialModel.fit(space, observe_all(space, cells, [2, 2, 5, 7, 11]))
    assert (exact.error.source, exact.error.df) == ("residual", 2)
    assert "replicates agree exactly" in exact.error.reason
    assert "no noise" not in noisy.error.reason
    told = lack_of_fit(exact)
    assert (told.f, told.p) == (None, None)
    assert "the whole residual is lack of fit" in str(told.reason)


def confirmed(interaction: float = 0.0) -> FactorialModel:
    """Five parameters of two levels in 16 runs, the last repeated twice, noise sd 1.

    The first parameter moves the response by 6; ``interaction`` is that of the first two.
    """
    space = grid(2, 2, 2, 2, 2)
    half = [ids for ids in itertools.product(range(2), repeat=5) if sum(ids) % 2 == 0]
    cells = [*half, half[-1], half[-1]]
    noise = np.random.default_rng(3).standard_normal(len(cells))
    values = [6 * c[0] + interaction * c[0] * c[1] + e for c, e in zip(cells, noise, strict=True)]
    return FactorialModel.fit(space, observe_all(space, cells, values))


def test_two_confirmation_runs_do_not_hide_an_effect_of_six_noise_sd() -> None:
    model = confirmed()
    assert (model.error.df, model.error.pure_df, model.error.lack_df) == (12, 2, 10)
    test = model.test("p0")
    assert test.p is not None
    assert test.p < 1e-4
    _, pure_squares = model.pure_error
    assert model.error.mean_square == pytest.approx(1, abs=0.7)
    assert pure_squares > 0


def test_significant_lack_of_fit_is_said_and_stays_in_the_error() -> None:
    model = confirmed(interaction=40.0)
    fit = lack_of_fit(model)
    assert fit.p is not None
    assert fit.p < 0.05
    assert "Lack of fit is significant, so parameters interact." in model.error.reason
    assert model.error.mean_square is not None
    assert model.error.mean_square > fit.pure_squares / fit.pure_df
    with_pair = FactorialModel.fit(
        model.space,
        observe_all(model.space, model.ids.tolist(), (model.relative + 100).tolist()),
        [("p0", "p1")],
    )
    assert "significant" not in with_pair.error.reason


def test_the_range_of_two_levels_has_the_t_interval_of_their_difference() -> None:
    model = confirmed()
    first = model.ranges[0]
    low, high = model.levels("p0")
    assert (first.parameter, first.level_ids, first.count) == ("p0", (0, 1), 18)
    assert None not in (high.effect, low.effect, high.standard_error)
    assert first.value == pytest.approx((high.effect or 0.0) - (low.effect or 0.0))
    half = stats.t.ppf(0.975, 12) * 2 * (high.standard_error or 0.0)
    assert first.value is not None
    assert first.interval == pytest.approx((first.value - half, first.value + half), rel=1e-4)


def test_the_range_of_many_levels_has_tukeys_interval() -> None:
    """Battery life by temperature: three levels with 12 runs each, 31 degrees of freedom."""
    model = FactorialModel.fit(*battery())
    first, second = model.ranges
    assert (first.parameter, second.parameter) == ("temperature", "material")
    assert first.value == pytest.approx(144.83 - 64.17, abs=0.01)
    error = math.sqrt((9613.78 + 18230.75) / 31 / 12)
    half = stats.studentized_range.ppf(0.95, 3, 31) * error
    assert first.interval == pytest.approx((first.value - half, first.value + half), rel=1e-3)


@pytest.mark.parametrize(
    "effects", [(0.0,) * 5, (0.0, 0.0, 0.0, 0.0, 3.0), (0.0, 1.0, 1.5, 2.0, 2.1), (0.0, 4.0)]
)
def test_intervals_hold_the_true_range(effects: tuple[float, ...]) -> None:
    rng = np.random.default_rng(5)
    space = grid(len(effects), 3)
    held = 0
    for _ in range(100):
        ids = rng.integers([len(effects), 3], size=(24, 2)).tolist()
        values = [effects[i] + rng.standard_normal() for i, _ in ids]
        model = FactorialModel.fit(space, observe_all(space, ids, values))
        found = next(entry for entry in model.ranges if entry.parameter == "p0")
        compared = [effects[i] for i in found.level_ids]
        assert found.interval is not None
        held += found.interval[0] <= max(compared) - min(compared) <= found.interval[1]
    assert held >= 89  # 95 % of 100 are 95, with a standard deviation of 2


def test_a_range_needs_two_levels_that_can_be_compared() -> None:
    space = grid(2, 3)
    model = FactorialModel.fit(space, observe_all(space, [(0, 0), (0, 1), (0, 1)], [1, 3, 3]))
    known, unknown = model.ranges
    assert (known.parameter, known.value, known.interval) == ("p1", 2, (2, 2))
    assert known.level_ids == (0, 1)
    assert (unknown.parameter, unknown.value, unknown.interval) == ("p0", None, None)
    alone = FactorialModel.fit(space, observe_all(space, [(0, 0), (0, 1)], [1, 3]))
    assert (alone.ranges[0].value, alone.ranges[0].interval) == (2, None)


def test_a_confounded_term_is_named_and_never_0() -> None:
    """a and b always change together; c is balanced over both."""
    space = grid(2, 2, 2)
    history = observe_all(space, [(0, 0, 0), (0, 0, 1), (1, 1, 0), (1, 1, 1)], [0, 1, 5, 7])
    model = FactorialModel.fit(space, history)
    a, b, c = model.tests
    assert (a.df, a.sum_squares, a.f, a.p) == (0, None, None, None)
    assert a.reason == "0 of 1 df: confounded with p1"
    assert b.reason == "0 of 1 df: confounded with p0"
    assert (c.df, c.reason) == (1, None)
    assert c.sum_squares == pytest.approx(2.25)
    assert [change.effect for change in model.levels("p0")] == [None, None]
    assert [change.count for change in model.levels("p0")] == [2, 2]
    assert [c.name for c in model.contrasts] == ["p2"]
    assert model.unknown_contrasts == 2


def test_holes_of_closed_levels_are_told_apart_from_those_that_a_run_can_fill() -> None:
    space = grid(2, 3).closing("p1", 2)
    history = observe_all(space, [(0, 0), (0, 1), (1, 0), (0, 2)], [1, 4, 9, 11])
    *_, pair = FactorialModel.fit(space, history, [("p0", "p1")]).tests
    assert "2 of 6 combinations of p0 x p1 (1 with closed p1=2) without a run" in str(pair.reason)
    assert pair.needs_closed == ()
    more = [*history, *observe_all(space, [(1, 1)], [2])]
    *_, pair = FactorialModel.fit(space, more, [("p0", "p1")]).tests
    assert (pair.df, pair.full_df, pair.needs_closed) == (1, 2, ("p1=2",))


def test_a_hole_takes_the_main_effects_of_its_pair_but_not_the_additive_ones() -> None:
    space = grid(2, 2)
    history = observe_all(space, [(0, 0), (0, 1), (1, 0), (1, 0)], [1, 4, 9, 11])
    model = FactorialModel.fit(space, history, [("p0", "p1")])
    a, _, pair = model.tests
    assert a.df == pair.df == 0
    assert "1 of 4 combinations of p0 x p1 without a run" in str(a.reason)
    assert {c.effect for c in model.interactions("p1", "p0")} == {None}
    # the combinations that have runs can still be compared with each other: 1, 4, 10, mean 5
    assert [c.effect for c in model.combinations("p0", "p1")] == pytest.approx([-4, -1, 5])
    additive = FactorialModel.fit(space, history)
    assert [c.effect for c in additive.levels("p0")] == pytest.approx([-4.5, 4.5])


def test_nothing_one_run_and_equal_responses_are_sentences() -> None:
    space = grid(2, 3)
    empty = FactorialModel.fit(space, (), [("p0", "p1")])
    assert {t.reason for t in empty.tests} == {"no run yet"}
    assert empty.error.reason == "There is no run yet."
    assert empty.levels("p1") == (
        LevelContrast((0,), 0),
        LevelContrast((1,), 0),
        LevelContrast((2,), 0),
    )
    assert empty.contrasts == empty.combinations("p0", "p1") == ()
    assert lack_of_fit(empty).reason == press_statistic(empty).reason == "There is no run yet."
    one = FactorialModel.fit(space, observe_all(space, [(0, 1)], [7.0]), [("p0", "p1")])
    assert one.test("p0").reason == "p0: a single level has runs"
    assert one.test("p1", "p0").reason == "p0 and p1: a single level has runs"
    assert one.error.mean_square is None
    assert [c.count for c in one.levels("p1")] == [0, 1, 0]
    assert "every run alone determines an effect" in str(press_statistic(one).reason)
    cells = list(itertools.product(range(2), range(3)))
    equal = FactorialModel.fit(space, observe_all(space, cells, [0.1] * 6))
    assert {c.effect for c in equal.levels("p1")} == {0.0}
    assert {t.reason for t in equal.tests} == {"no F: all responses are equal"}
    assert "all responses are equal" in str(press_statistic(equal).reason)
    assert lenth_margins([c.effect for c in equal.contrasts]).pse is None


def test_a_saturated_model_has_effects_without_intervals() -> None:
    space = grid(2, 2)
    history = observe_all(space, itertools.product((0, 1), (0, 1)), [1, 2, 4, 9])
    model = FactorialModel.fit(space, history, [("p0", "p1")])
    assert "as many effects" in model.error.reason
    assert model.test("p0").reason == "no F: the error is unknown"
    assert model.levels("p0")[1] == LevelContrast((1,), 2, pytest.approx(2.5))
    additive = FactorialModel.fit(space, observe_all(space, [(0, 0), (0, 1), (1, 0), (1, 1)],
                                                     [1, 2, 4, 5]))  # fmt: skip
    assert additive.test("p0").reason == "no F: the model fits the runs exactly"
    assert additive.solution is not None
    assert additive.solution.residual_squares == 0.0


def test_what_cannot_be_asked_is_refused_in_a_sentence() -> None:
    space = grid(2, 2)
    with pytest.raises(AnalysisError, match="names p0 twice"):
        FactorialModel.fit(space, (), [("p0", "p0")])
    with pytest.raises(UnknownParameterError, match="no parameter 'p7'"):
        FactorialModel.fit(space, (), [("p0", "p7")])
    with pytest.raises(AnalysisError, match="interaction of p0 and p1 is not in the model"):
        FactorialModel.fit(space, ()).combinations("p0", "p1")
    with pytest.raises(SpaceError, match="elsewhere"):
        FactorialModel.fit(space, (Observation(Configuration((0, 0), "elsewhere"), 1.0),))
    many = grid(40, 40)
    history = observe_all(many, [(i, i) for i in range(40)])
    with pytest.raises(AnalysisError, match="1,600 columns"):
        FactorialModel.fit(many, history, [("p0", "p1")])


def deviation_design(
    history: tuple[Observation, ...], terms: list[tuple[int, ...]]
) -> tuple[np.ndarray, dict[tuple[int, ...], list[int]]]:
    """Sum-to-zero coding the textbook way: indicators less that of the last level with runs."""
    ids = np.array([o.configuration.level_ids for o in history])
    coded = []
    for i in range(ids.shape[1]):
        levels = sorted(set(ids[:, i].tolist()))
        last = (ids[:, i] == levels[-1]).astype(float)
        coded.append([(ids[:, i] == level).astype(float) - last for level in levels[:-1]])
    columns, own = [np.ones(len(ids))], {}
    for term in terms:
        products = [
            np.prod(parts, axis=0) for parts in itertools.product(*(coded[i] for i in term))
        ]
        own[term] = list(range(len(columns), len(columns) + len(products)))
        columns += products
    return np.array(columns).T, own


def rank_and_rss(design: np.ndarray, response: np.ndarray) -> tuple[int, float]:
    fitted = design @ np.linalg.pinv(design, rcond=1e-9) @ response
    return int(np.linalg.matrix_rank(design, tol=1e-8)), float(np.sum((response - fitted) ** 2))


@given(st.data())
def test_tests_and_intervals_by_brute_force(data: st.DataObject) -> None:
    """Drop the columns of each term, in another coding, and compare ranks and residuals."""
    space = data.draw(spaces(max_parameters=3, max_levels=3, exclusions=False))
    seen = data.draw(st.lists(st.integers(0, space.size - 1), min_size=1, max_size=25))
    values = data.draw(
        st.lists(st.integers(-20, 20), min_size=len(seen), max_size=len(seen)).filter(any)
    )
    history = tuple(
        Observation(space.configuration(i), float(v)) for i, v in zip(seen, values, strict=True)
    )
    pairs = data.draw(st.sampled_from([(), all_pairs(space)[:1], all_pairs(space)]))
    model = FactorialModel.fit(space, history, pairs)
    terms: list[tuple[int, ...]] = [(i,) for i in range(len(space.parameters))]
    terms += [tuple(space.names.index(n) for n in pair) for pair in pairs]
    design, own = deviation_design(history, terms)
    response = np.array([o.quality for o in history])
    full_rank, rss = rank_and_rss(design, response)
    assert model.residual_df == len(history) - full_rank
    scale = float(np.sum(response**2))
    for term, test in zip(terms, model.tests, strict=True):
        rest = np.delete(design, own[term], axis=1)
        rank, reduced = rank_and_rss(rest, response)
        assert (test.df, test.full_df) == (full_rank - rank, len(own[term]))
        assert (test.reason is None) == (test.df == test.full_df > 0 and test.f is not None)
        if test.df:
            assert test.sum_squares == pytest.approx(reduced - rss, abs=1e-9 * scale)
        else:
            assert test.sum_squares is test.f is test.p is None
        if test.f is not None and test.sum_squares is not None:
            assert model.error.mean_square is not None
            f = test.sum_squares / test.df / model.error.mean_square
            assert test.f == pytest.approx(f)
            assert test.p == pytest.approx(stats.f.sf(f, test.df, model.error.df), abs=1e-12)
    single = {c.parameters: c for c in model.contrasts}
    for test in model.tests:
        if test.df == test.full_df == 1:
            contrast = single[test.parameters]
            assert contrast.sum_squares == pytest.approx(test.sum_squares, abs=1e-9 * scale)
            size = 2 * np.sqrt(contrast.sum_squares / len(history))
            assert abs(contrast.effect) == pytest.approx(size, abs=1e-9)
    assert len(model.contrasts) + model.unknown_contrasts == design.shape[1] - 1
    # a level against the next one: the value and the variance of every least squares solution
    inverse = np.linalg.pinv(design.T @ design, rcond=1e-9)
    solution = inverse @ design.T @ response
    for i, parameter in enumerate(space.parameters):
        known = [c for c in model.levels(parameter.name) if c.effect is not None and c.count]
        levels = sorted({o.configuration.level_ids[i] for o in history})
        functions = {}
        for place, level in enumerate(levels):
            functions[level] = np.zeros(design.shape[1])
            for k, column in enumerate(own[(i,)]):
                functions[level][column] = float(k == place) - float(place == len(levels) - 1)
        mean = np.mean([functions[c.level_ids[0]] for c in known], axis=0) if known else 0
        for change in known if parameter.n_levels > 1 else ():
            function = functions[change.level_ids[0]] - mean
            assert change.effect == pytest.approx(function @ solution, abs=1e-7)
            if model.error.mean_square is not None:
                variance = function @ inverse @ function * model.error.mean_square
                assert change.standard_error == pytest.approx(np.sqrt(variance), abs=1e-6)
                half = stats.t.ppf(0.975, model.error.df) * np.sqrt(variance)
                assert change.interval == pytest.approx(
                    (change.effect - half, change.effect + half), abs=1e-4
                )


def test_one_run_with_two_new_levels_leaves_the_others_known() -> None:
    space = grid(3, 3)
    cells = [*itertools.product((0, 1), (0, 1)), (2, 2)]
    model = FactorialModel.fit(space, observe_all(space, cells, [0, 10, 2, 13, 500]))
    assert [c.effect for c in model.levels("p0")] == [
        pytest.approx(-1.25),
        pytest.approx(1.25),
        None,
    ]
    assert model.test("p0").reason == "1 of 2 df: confounded with p1"
    assert model.test("p0").sum_squares == pytest.approx(6.25)


@given(st.data())
def test_main_effects_are_those_of_least_squares(data: st.DataObject) -> None:
    space = data.draw(spaces(exclusions=False))
    history = data.draw(histories(space, infeasible=False))
    model = FactorialModel.fit(space, history)
    scale = max((abs(o.quality) for o in history), default=1.0) + 1.0
    for parameter, effects in zip(
        space.parameters, least_squares_effects(space, history), strict=True
    ):
        mine = {change.level_ids[0]: change.effect for change in model.levels(parameter.name)}
        for level_id, effect in enumerate(effects):
            assert mine[level_id] == pytest.approx(effect, abs=1e-8 * scale)


@given(st.data())
def test_prediction_by_leaving_runs_out_one_by_one(data: st.DataObject) -> None:
    space = data.draw(spaces(max_parameters=3, max_levels=3, exclusions=False))
    history = data.draw(histories(space, max_size=15, infeasible=False))
    if len(history) < 2:
        return
    told = press_statistic(FactorialModel.fit(space, history))
    terms: list[tuple[int, ...]] = [(i,) for i in range(len(space.parameters))]
    design, _ = deviation_design(history, terms)
    response = np.array([o.quality for o in history])
    errors, kept = [], []
    rank = np.linalg.matrix_rank(design, tol=1e-8)
    for i in range(len(history)):
        rest = np.delete(design, i, axis=0)
        if np.linalg.matrix_rank(rest, tol=1e-8) == rank:
            fitted = np.linalg.pinv(rest, rcond=1e-9) @ np.delete(response, i)
            errors.append(response[i] - design[i] @ fitted)
            kept.append(response[i])
    assert (told.n_predicted, told.n_alone) == (len(kept), len(history) - len(kept))
    if told.press is not None:
        scale = max(1.0, float(np.abs(response).max()))
        assert told.press == pytest.approx(np.sum(np.square(errors)), abs=1e-7 * scale**2)
        if told.r_squared is not None:
            total = np.sum((np.array(kept) - np.mean(kept)) ** 2)
            assert told.r_squared == pytest.approx(1 - told.press / total)


def test_an_unbalanced_fit_is_the_same_whatever_the_order_of_runs() -> None:
    rng = np.random.default_rng(5)
    space = grid(4, 3, 2, kind="nominal")
    cells = [tuple(int(rng.integers(n)) for n in (4, 3, 2)) for _ in range(40)]
    values = rng.normal(size=40).tolist()
    first = FactorialModel.fit(space, observe_all(space, cells, values), all_pairs(space))
    again = FactorialModel.fit(
        space, observe_all(space, cells[::-1], values[::-1]), all_pairs(space)
    )
    for one, other in zip(first.tests, again.tests, strict=True):
        assert one.sum_squares == pytest.approx(other.sum_squares)
        assert one.p == pytest.approx(other.p)
