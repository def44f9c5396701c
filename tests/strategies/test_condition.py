"""Parameters with conditions: one form of each configuration, and what strategies make of them."""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
import pytest

from strategies import (
    STRATEGIES,
    Configuration,
    Exclusion,
    Failure,
    Knowledge,
    Level,
    Observation,
    Parameter,
    ParameterSpace,
    SpaceError,
    make_strategy,
)
from strategies.doe.coverage import EstimationTarget, measure_coverage, missing_runs
from strategies.doe.factorial_model import FactorialModel, all_pairs
from strategies.gp.anova_model import AnovaModel
from strategies.gp.untried_predictions import UntriedPredictions
from strategies.steering.refinement import refinement

KERNEL = Parameter("kernel", ("linear", "rbf", "poly"))
COST = Parameter("C", (0.1, 1, 10))
GAMMA = Parameter("gamma", (0.01, 0.1, 1.0), when="kernel in ['rbf', 'poly']")
DEGREE = Parameter("poly.degree", (2, 3, 4), when="kernel == 'poly'")
COEF0 = Parameter("coef0", (0.0, 1.0), when="`poly.degree` > 2")
EXCLUSION = Exclusion("`poly.degree` == 4 and gamma > 0.5")
PARAMETERS = (KERNEL, COST, GAMMA, DEGREE, COEF0)
SPACE = ParameterSpace(PARAMETERS, (EXCLUSION,))

Row = tuple[Level | None, ...]


def rows(closed: Mapping[str, Level]) -> Iterator[Row]:
    """Yield the rows of values of the space, written out as a person would."""
    for kernel, cost, gamma, degree, coef0 in itertools.product(*(p.levels for p in PARAMETERS)):
        row = {
            "kernel": kernel,
            "C": cost,
            "gamma": gamma if kernel != "linear" else None,
            "poly.degree": degree if kernel == "poly" else None,
            "coef0": coef0 if kernel == "poly" and degree in (3, 4) else None,
        }
        if row["poly.degree"] == 4 and row["gamma"] == 1.0:
            continue
        if all(row[name] != value for name, value in closed.items()):
            yield tuple(row.values())


def row_of(space: ParameterSpace, configuration: Configuration) -> Row:
    return tuple(space.all_values(configuration).values())


@pytest.mark.parametrize("order", [(0, 1, 2, 3, 4), (4, 3, 2, 1, 0), (3, 0, 4, 2, 1)])
@pytest.mark.parametrize(
    "closed", [{}, {"gamma": 0.01}, {"kernel": "linear"}, {"coef0": 0.0, "C": 0.1}]
)
def test_every_configuration_is_counted_once_as_a_naive_list_has_it(
    closed: Mapping[str, Level], order: tuple[int, ...]
) -> None:
    space = ParameterSpace(tuple(PARAMETERS[i] for i in order), (EXCLUSION,))
    for name, value in closed.items():
        space = space.closing(name, value)
    expected = {tuple(row[i] for i in order) for row in rows(closed)}
    listed = list(space.configurations())
    assert {row_of(space, c) for c in listed} == expected
    assert len(listed) == len(expected) == space.count_allowed()
    assert space.allowed_ids is not None
    assert {tuple(ids) for ids in space.allowed_ids.tolist()} == {c.level_ids for c in listed}
    rng = np.random.default_rng(1)
    drawn: set[Configuration] = set()
    while (configuration := space.sample(rng, drawn)) is not None:
        drawn.add(configuration)
    assert drawn == set(listed)
    near = set(space.neighbours(listed[0], rng))
    assert near == set(listed[1:])


def test_values_that_do_not_matter_make_no_difference() -> None:
    plain = SPACE.from_values({"kernel": "linear", "C": 1})
    assert plain == SPACE.from_values(
        {"kernel": "linear", "C": 1, "gamma": 1.0, "poly.degree": None, "coef0": 1.0}
    )
    assert SPACE.values(plain) == {"kernel": "linear", "C": 1}
    assert SPACE.all_values(plain)["gamma"] is None
    assert SPACE.closing("gamma", 0.01).is_allowed(plain)
    raw = Configuration((0, 1, 2, 0, 0), SPACE.lineage)
    assert not SPACE.is_allowed(raw)
    assert SPACE.canonical(raw.level_ids) == plain
    with pytest.raises(SpaceError, match=r"no value is given for gamma; .* every active parameter"):
        SPACE.from_values({"kernel": "rbf", "C": 1})
    with pytest.raises(SpaceError, match="has no level 7"):
        SPACE.from_values({"kernel": "linear", "C": 1, "gamma": 7})


def test_arrays_agree_with_single_configurations() -> None:
    ids = np.array(list(itertools.product(*(range(p.n_levels) for p in PARAMETERS))))
    one_by_one = [SPACE.canonical(tuple(row)).level_ids for row in ids.tolist()]
    assert SPACE.canonical_ids(ids).tolist() == [list(row) for row in one_by_one]
    marked = SPACE.marked_ids(ids)
    assert (marked[:, 2] == 3).sum() == (ids[:, 0] == 0).sum()
    assert ((marked == [3, 3, 3, 3, 2]) == SPACE.inactive_in(ids)).all()


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("a == 1", r"depend on each other, 'a' -> 'a'"),
        ("b == 1", r"depend on each other, ('a' -> 'b' -> 'a'|'b' -> 'a' -> 'b'); remove one"),
        ("c == 1", "'when' of parameter 'a': condition 'c == 1' names 'c', which is not a"),
        ("b", "'when' of parameter 'a': in condition 'b', 'b' is a number"),
        ("b ==", "'when' of parameter 'a': condition 'b ==' cannot be read"),
    ],
)
def test_conditions_that_mean_nothing_are_refused(condition: str, message: str) -> None:
    with pytest.raises(SpaceError, match=message):
        ParameterSpace(
            (Parameter("a", (1, 2), when=condition), Parameter("b", (1, 2), when="a == 1"))
        )


def test_an_exclusion_of_an_inactive_parameter_excludes_nothing() -> None:
    space = ParameterSpace(
        (KERNEL, GAMMA), (Exclusion("gamma < 0.05"), Exclusion("not (gamma < 0.5)"))
    )
    values = [space.values(c) for c in space.configurations()]
    assert values == [
        {"kernel": "linear"},
        {"kernel": "rbf", "gamma": 0.1},
        {"kernel": "poly", "gamma": 0.1},
    ]
    either = ParameterSpace((KERNEL, GAMMA), (Exclusion("gamma > 0.5 or kernel == 'linear'"),))
    assert {v["kernel"] for v in map(either.values, either.configurations())} == {"rbf", "poly"}


def test_a_space_of_many_branches_is_counted_and_drawn_from_without_a_list() -> None:
    own = tuple(
        Parameter(f"{branch}.{i}", tuple(range(10)), when=f"model == '{branch}'")
        for branch in ("rf", "svm", "gbm")
        for i in range(4)
    )
    space = ParameterSpace((Parameter("model", ("rf", "svm", "gbm")), *own))
    assert space.size == 3 * 10**12
    assert space.count_allowed() == 3 * 10**4
    wider = ParameterSpace((*space.parameters, *(Parameter(f"x{i}", (1, 2, 3)) for i in range(9))))
    assert wider.count_allowed() == 3 * 10**4 * 3**9
    rng = np.random.default_rng(0)
    drawn = [wider.sample(rng) for _ in range(60)]
    assert all(c is not None and wider.is_allowed(c) for c in drawn)
    assert {wider.values(c)["model"] for c in drawn if c} == {"rf", "svm", "gbm"}
    suggestions = make_strategy("grasp", start=2).suggest(
        2, Knowledge(wider, tuple(Observation(c, float(i)) for i, c in enumerate(drawn[:5]) if c)),
        rng,
    )  # fmt: skip
    assert all(wider.is_allowed(s.configuration) for s in suggestions)


def quality(values: Mapping[str, Level]) -> float:
    base = {"linear": 1.0, "rbf": 3.0, "poly": 2.0}[str(values["kernel"])]
    return base + float(values.get("gamma", 0)) + 0.1 * float(values.get("poly.degree", 0))


@pytest.mark.parametrize("closed", [False, True])
@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_proposes_each_configuration_once(name: str, closed: bool) -> None:
    space = SPACE.closing("gamma", 0.01) if closed else SPACE
    rng, observations, failures = np.random.default_rng(3), list[Observation](), list[Failure]()
    for _ in range(7):
        knowledge = Knowledge(space, tuple(observations), tuple(failures))
        for suggestion in make_strategy(name).suggest(3, knowledge, rng):
            configuration = suggestion.configuration
            assert space.is_allowed(configuration)
            assert configuration not in {o.configuration for o in observations}
            if configuration.level_ids[1] == 0 and rng.random() < 0.3:
                failures.append(Failure(configuration, "failed"))
            else:
                observations.append(
                    Observation(configuration, quality(space.values(configuration)))
                )
    assert len(observations) + len(failures) >= 15


def all_observations() -> tuple[Observation, ...]:
    return tuple(Observation(c, quality(SPACE.values(c))) for c in SPACE.configurations())


@pytest.mark.parametrize("method", ["means", "least_squares"])
def test_effects_of_a_parameter_come_from_runs_where_it_is_active(method: str) -> None:
    model = Knowledge(SPACE, all_observations()).model_by(method)  # type: ignore[arg-type]
    active = [o for o in all_observations() if "gamma" in SPACE.values(o.configuration)]
    counts = [level.count for level in model.levels("gamma")]
    assert sum(counts) == len(active) < len(all_observations())
    effects = [level.effect for level in model.levels("gamma")]
    if method == "least_squares":
        assert None not in effects
        first, second, third = (effect or 0.0 for effect in effects)
        assert second - first == pytest.approx(0.09)
        assert third - second == pytest.approx(0.9)
    linear = SPACE.from_values({"kernel": "linear", "C": 1})
    expected = model.expected(linear)
    assert expected is not None
    if method == "least_squares":
        assert expected.value == pytest.approx(1.0, abs=1e-6)


def test_models_tell_inactive_from_the_first_level() -> None:
    observations = all_observations()
    model = AnovaModel(SPACE, observations, [SPACE.from_values({"kernel": "linear", "C": 1})])
    active = [o for o in observations if "gamma" in SPACE.values(o.configuration)]
    assert sum(m.count for m in model.main_effect("gamma")) == len(active)
    assert model.validity is not None
    least = model.predict(SPACE.from_values({"kernel": "linear", "C": 0.1}))
    assert least.value == pytest.approx(1.0, abs=0.2)
    predictions = UntriedPredictions.of(Knowledge(SPACE, observations[:20]))
    assert predictions is not None
    assert np.isfinite(predictions.mean).all()


def test_coverage_counts_runs_where_a_parameter_is_active() -> None:
    coverage = measure_coverage(SPACE, all_observations())
    pairs = {entry.parameters: entry for entry in coverage.pairs}
    assert coverage.share == 1.0
    assert pairs["kernel", "gamma"].n_allowed == 6
    assert pairs["gamma", "poly.degree"].n_allowed == 8
    assert all(entry.n_seen == entry.n_allowed for entry in pairs.values())
    runs = missing_runs(Knowledge(SPACE, all_observations()[:3]), EstimationTarget(("gamma",)))
    assert runs.configurations
    assert all(SPACE.is_allowed(c) and "gamma" in SPACE.values(c) for c in runs.configurations)


def test_a_least_squares_fit_is_exact_where_the_response_is_a_sum() -> None:
    model = FactorialModel.fit(SPACE, all_observations())
    assert model.error.mean_square == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("pair", [*all_pairs(SPACE), None])
def test_a_fit_is_that_of_the_whole_design(pair: tuple[str, str] | None) -> None:
    noise = np.random.default_rng(1).normal(size=len(all_observations()))
    history = [
        replace(o, quality=o.quality + e) for o, e in zip(all_observations(), noise, strict=True)
    ]
    model = FactorialModel.fit(SPACE, history, [pair] if pair else [])
    design = model.coding.design(model.ids)
    coefficients, _, rank, singular = np.linalg.lstsq(design, model.relative)
    assert model.solution is not None
    assert model.solution.rank == rank < len(history)
    assert model.solution.singular == pytest.approx(singular[:rank])
    assert model.solution.residuals == pytest.approx(model.relative - design @ coefficients)
    estimates = model.solution.estimates(design)
    assert estimates == pytest.approx(design @ coefficients)


def test_an_inactive_range_is_not_refined() -> None:
    rate = Parameter.wide_range("rate", 0.001, 1.0, log=True, when="kernel != 'linear'")
    space = ParameterSpace((KERNEL, rate))
    every = list(space.configurations())
    assert refinement(space, space.from_values({"kernel": "linear"}), every, None) == ()
    best = space.from_values({"kernel": "rbf", "rate": 0.001})
    assert refinement(space, best, every, None)
