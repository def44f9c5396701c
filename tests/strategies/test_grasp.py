"""The ANOVA model and its search, against dense linear algebra, quadrature and exhaustive sums."""

import itertools
import math
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import approx_fprime
from scipy.stats import multivariate_normal, norm

from strategies import (
    AnovaModel,
    Configuration,
    Exclusion,
    Failure,
    Grasp,
    Knowledge,
    Observation,
    OptionError,
    Parameter,
    ParameterSpace,
)
from strategies.gp import gaussian_process as learning
from strategies.gp.anova_model import Targets, free_ids, mean_ranks
from strategies.gp.gaussian_process import (
    JITTER,
    Axis,
    Hyperparameters,
    Posterior,
    Prior,
    Validity,
    gram,
    learn,
    log_expected_improvement,
)
from strategies.samplers.grasp import best_by, local_search

SPACE = ParameterSpace(
    (
        Parameter("order", ("fcfs", "sjf", "wfp3")),
        Parameter("procs", (16, 64, 32, 128, 256)),
        Parameter("depth", (0, 1, 2, 4)),
        Parameter("fixed", (7,)),
        Parameter("share", (False, True)),
    )
)
AXES = tuple(Axis.of(parameter) for parameter in SPACE.parameters if parameter.n_levels > 1)
H = Hyperparameters((1.2, 0.6, 0.9, 2.0), 0.7, 0.4, 0.01)


def response(configuration: Configuration) -> float:
    order, procs, depth, _, share = configuration.level_ids
    rank = SPACE.parameters[1].ranks[procs]
    return -((rank - 2.3) ** 2) + (2.0, 0.5, 1.0)[order] * depth - 1.5 * share * (order == 1)


def observed(n: int, seed: int = 4) -> tuple[Observation, ...]:
    rng = np.random.default_rng(seed)
    places = rng.choice(SPACE.size, n, replace=False)
    configurations = [SPACE.configuration(int(place)) for place in places]
    return tuple(Observation(c, response(c)) for c in configurations)


def all_ids() -> np.ndarray:
    """Every combination of the four axes that vary."""
    return np.array(list(itertools.product(range(3), range(5), range(4), range(2))))


def test_an_ordinal_axis_lies_between_rank_and_value_a_nominal_one_is_equal_or_not() -> None:
    procs = AXES[1]
    assert procs.ordinal
    # 16, 64, 32, 128, 256: rank and logarithm agree here
    assert procs.position == pytest.approx([0, 0.5, 0.25, 0.75, 1])
    skewed = Axis.of(Parameter("a", (1, 2, 100)))
    assert skewed.position == pytest.approx([0, (0.5 + math.log(2) / math.log(100)) / 2, 1])
    linear = Axis.of(Parameter("a", (0, 1, 10)))
    assert linear.position == pytest.approx([0, (0.5 + 0.1) / 2, 1])
    for nominal in (AXES[0], AXES[3]):
        assert not nominal.ordinal
        assert nominal.distances(np.array([0, 1]), np.array([1, 1])).tolist() == [1, 0]


def test_the_kernel_is_the_one_written_down() -> None:
    ids = np.array([[0, 1, 3, 0], [2, 4, 1, 0]])
    a1 = math.sqrt(5) * 0.5 / 0.6
    a2 = math.sqrt(5) * abs(AXES[2].position[3] - AXES[2].position[1]) / 0.9
    z = [
        math.exp(-1 / 1.2),
        (1 + a1 + a1**2 / 3) * math.exp(-a1),
        (1 + a2 + a2**2 / 3) * math.exp(-a2),
        1.0,
    ]
    expected = 0.7 / 4 * sum(z) + 0.4 * math.prod(z)
    assert gram(AXES, H, ids)[0, 1] == pytest.approx(expected, rel=1e-12)
    assert gram(AXES, H, ids)[0, 0] == pytest.approx(1.1, rel=1e-12)


def test_predictions_are_those_of_dense_conditioning() -> None:
    everything = all_ids()
    rng = np.random.default_rng(3)
    runs = everything[rng.choice(len(everything), 25, replace=False)]
    z = rng.normal(size=25)
    joint = gram(AXES, H, np.concatenate([runs, everything]))
    noisy = joint[:25, :25] + (H.noise + JITTER) * np.eye(25)
    gain = np.linalg.solve(noisy, joint[:25, 25:]).T
    mean, sd = Posterior(AXES, H, runs, z).predict(everything)
    assert mean == pytest.approx(gain @ z, abs=1e-9)
    covariance = joint[25:, 25:] - gain @ joint[:25, 25:]
    assert sd**2 == pytest.approx(np.diag(covariance), abs=1e-9)


def test_an_average_over_parameters_is_the_average_of_the_whole_posterior() -> None:
    everything = all_ids()
    rng = np.random.default_rng(5)
    runs = everything[rng.choice(len(everything), 20, replace=False)]
    posterior = Posterior(AXES, H, runs, rng.normal(size=20))
    mean, _ = posterior.predict(everything)
    joint = gram(AXES, H, np.concatenate([runs, everything]))
    noisy = joint[:20, :20] + (H.noise + JITTER) * np.eye(20)
    covariance = joint[20:, 20:] - joint[20:, :20] @ np.linalg.solve(noisy, joint[:20, 20:])
    levels = [np.arange(axis.position.size) for axis in AXES]
    for fixed in ((1,), (0, 2), ()):
        for own in itertools.product(*(range(AXES[i].position.size) for i in fixed)):
            rows = np.all(everything[:, list(fixed)] == np.array(own, dtype=int), axis=1)
            weights = rows / rows.sum()
            ids = {i: np.array([level]) for i, level in zip(fixed, own, strict=True)}
            value, sd = posterior.averaged(ids, levels)
            assert value[0] == pytest.approx(weights @ mean, abs=1e-9)
            assert sd[0] ** 2 == pytest.approx(weights @ covariance @ weights, abs=1e-9)


def test_what_is_imagined_has_the_posterior_s_mean_and_covariance() -> None:
    everything = all_ids()
    runs, new = everything[::9], everything[4::31]
    posterior = Posterior(AXES, H, runs, np.sin(np.arange(len(runs))))
    draws = posterior.sample(new, 40_000, np.random.default_rng(8))
    mean, sd = posterior.predict(new)
    noisy_sd = np.sqrt(sd**2 + H.noise)
    assert np.abs(draws.mean(axis=1) - mean).max() < 5 * noisy_sd.max() / 200
    assert draws.std(axis=1) == pytest.approx(noisy_sd, rel=0.03)


@given(st.integers(2, 9), st.booleans(), st.integers(1, 60))
def test_coded_distances_are_those_of_the_pairs(n: int, ordinal: bool, m: int) -> None:
    kind: Literal["ordinal", "nominal"] = "ordinal" if ordinal else "nominal"
    axis = Axis.of(Parameter("p", tuple(i**2 for i in range(n)), kind))
    a, b = np.random.default_rng(m).integers(0, n, size=(2, m))
    distances, places = axis.coded_distances(a, b)
    assert distances[places].tolist() == axis.distances(a, b).tolist()
    assert distances.size <= max(m, 2)


def test_the_density_is_the_normal_one_and_its_gradient_the_difference_quotient() -> None:
    rng = np.random.default_rng(2)
    ids = all_ids()[rng.choice(120, 18, replace=False)]
    z = rng.normal(size=18)
    prior = Prior()
    mean = prior.means(AXES)
    density = learning._Density(AXES, ids, z, mean, prior.spread)
    theta = mean + rng.normal(size=mean.size) * 0.4

    def log_posterior(t: np.ndarray) -> float:
        v = np.exp(t)
        h = Hyperparameters(tuple(v[:4]), v[4], v[5], v[6])
        covariance = gram(AXES, h, ids) + (h.noise + JITTER) * np.eye(18)
        likelihood = multivariate_normal(np.zeros(18), covariance).logpdf(z)
        return float(likelihood + norm.logpdf(t, mean, prior.spread).sum())

    other = theta + 0.3
    difference = density.negative_log(theta)[0] - density.negative_log(other)[0]
    assert difference == pytest.approx(log_posterior(other) - log_posterior(theta), rel=1e-9)
    quotient = approx_fprime(theta, lambda t: density.negative_log(t)[0], 1e-6)
    assert density.negative_log(theta)[1] == pytest.approx(quotient, rel=1e-3, abs=1e-3)


def test_learning_finds_a_greater_density_than_the_prior_means_and_forgets_nothing() -> None:
    observations = observed(30)
    ids = np.array([o.configuration.level_ids for o in observations])[:, [0, 1, 2, 4]]
    z = Targets.of(np.array([o.quality for o in observations])).z
    prior = Prior()
    found = learn(AXES, ids, z, prior, 25)
    density = learning._Density(AXES, ids, z, prior.means(AXES), prior.spread)
    theta = np.log([*found.lengths, found.main, found.product, found.noise])
    assert density.negative_log(theta)[0] < density.negative_log(prior.means(AXES))[0] - 1
    assert learn(AXES, ids.copy(), z.copy(), prior, 25) is found


def test_targets_are_standardised_monotone_and_invertible() -> None:
    responses = np.array([-5.0, -1.0, -1e9, -1.5, -1.0, -2.0])
    targets = Targets.of(responses)
    assert targets.z.mean() == pytest.approx(0, abs=1e-12)
    assert targets.z.std() == pytest.approx(1)
    assert (np.argsort(targets.z, kind="stable") == np.argsort(responses, kind="stable")).all()
    assert targets.z[1] == targets.z[4]
    for z, y in zip(targets.z, responses, strict=True):
        assert targets.response(float(z)) == pytest.approx(y)
    assert targets.response(float(targets.z.max()) + 0.1) > -1.0
    equal = Targets.of(np.full(4, 0.1))
    assert (equal.z == 0).all()
    assert equal.response(3.0) == 0.1


@pytest.mark.parametrize("u", [-900.0, -30.0, -6.0, -4.9, -1.0, 0.0, 2.5])
def test_expected_improvement_is_the_integral(u: float) -> None:
    sd, best = 0.3, 1.7
    grid = np.linspace(0, 60, 200_001)  # of the excess over the best, in units that fit the tail
    step = sd / max(-u, 1.0)
    excess = grid * step
    density = norm.logpdf((best + excess - (best + u * sd)) / sd) - math.log(sd)
    shift = density.max()
    integral = np.trapezoid(excess * np.exp(density - shift), excess)
    found = log_expected_improvement(np.array([best + u * sd]), np.array([sd]), best)[0]
    assert found == pytest.approx(math.log(integral) + shift, rel=1e-4)


def test_the_chance_of_success_follows_where_runs_failed() -> None:
    rng = np.random.default_rng(6)
    everything = all_ids()
    tried = everything[rng.choice(120, 60, replace=False)]
    fails = tried[:, 1] >= 3  # level ids of procs: 128 and 256
    validity = Validity(AXES, tried[~fails], tried[fails])
    chance = validity.chance(everything)
    bad = everything[:, 1] >= 3
    assert chance[bad].max() < 0.3
    assert chance[~bad].min() > 0.7


def test_effects_and_suggestions_come_from_one_posterior() -> None:
    knowledge = Knowledge(SPACE, observed(60))
    model = AnovaModel.of(knowledge)
    assert model is not None
    procs = model.main_effect("procs")
    assert max(procs, key=lambda m: m.value).level_ids == (1,)  # 64, the third
    assert sum(m.count for m in procs) == 60
    assert all(m.interval[0] <= m.value <= m.interval[1] for m in procs)
    assert model.shares["procs"] > model.shares["share"] > 0 == model.shares["fixed"]
    assert sum(model.shares.values()) == pytest.approx(1)
    pairs = {m.level_ids: m.value for m in model.interaction("order", "share")}
    # share costs 1.5 with sjf alone
    assert pairs[1, 0] - pairs[1, 1] > 2 * abs(pairs[0, 0] - pairs[0, 1])


def test_many_predictions_at_once_are_those_of_one_at_a_time() -> None:
    model = AnovaModel(SPACE, observed(20))
    everything = [SPACE.configuration(i) for i in range(SPACE.size)]
    bands = model.predict_all(np.array([c.level_ids for c in everything], dtype=np.int64))
    singly = [model.predict(configuration) for configuration in everything]
    assert bands.values == pytest.approx([one.value for one in singly], rel=1e-6)
    assert bands.lows == pytest.approx([one.interval[0] for one in singly], rel=1e-6)
    assert bands.highs == pytest.approx([one.interval[1] for one in singly], rel=1e-6)
    assert (bands.lows <= bands.values).all()
    assert (bands.values <= bands.highs).all()


def test_averages_over_the_other_parameters_are_the_marginals() -> None:
    model = AnovaModel(SPACE, observed(20))
    first, second = SPACE.names[:2]
    marginals = model.interaction(first, second)
    ids = np.array([one.level_ids for one in marginals], dtype=np.int64)
    bands = model.average_all((0, 1), ids)
    assert bands.values == pytest.approx([one.value for one in marginals])
    assert bands.lows == pytest.approx([one.interval[0] for one in marginals])
    assert bands.highs == pytest.approx([one.interval[1] for one in marginals])


def test_predictions_of_what_was_not_run_are_right_about_as_often_as_they_claim() -> None:
    observations = observed(60)
    model = AnovaModel(SPACE, observations)
    seen = {o.configuration for o in observations}
    others = [c for c in SPACE.configurations() if c not in seen]
    predictions = [model.predict(c) for c in others]
    inside = [
        p.interval[0] <= response(c) <= p.interval[1]
        for c, p in zip(others, predictions, strict=True)
    ]
    assert np.mean(inside) > 0.85
    values = np.array([p.value for p in predictions])
    assert np.corrcoef(values, [response(c) for c in others])[0, 1] > 0.95
    best = max(o.quality for o in observations)
    for c, p in zip(others, predictions, strict=True):
        assert p.chance is not None
        assert (p.chance > 0.5) == (p.value > best), c


def test_the_optimum_is_found_with_few_runs() -> None:
    """Below a fifth of the space for every seed; at random it takes half on average."""
    best = max(SPACE.configurations(), key=response)
    needed = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        observations: list[Observation] = []
        while not observations or observations[-1].configuration != best:
            suggestion = Grasp().suggest(1, Knowledge(SPACE, tuple(observations)), rng)[0]
            c = suggestion.configuration
            observations.append(Observation(c, response(c)))
        needed.append(len(observations))
    assert max(needed) <= 24, needed


def test_the_first_runs_are_balanced_whatever_was_run_before() -> None:
    own = observed(4)
    rng = np.random.default_rng(1)
    batch = Grasp().suggest(10, Knowledge(SPACE, own), rng)
    assert [s.kind for s in batch[:6]] == ["initial"] * 6
    assert {s.kind for s in batch[6:]} <= {"construction", "neighbour", "random"}
    ten = [o.configuration for o in own] + [s.configuration for s in batch[:6]]
    counts = np.bincount([c.level_ids[4] for c in ten], minlength=2)
    assert counts.tolist() == [5, 5]


def test_the_design_takes_the_ends_of_ordered_levels_first_and_then_goes_inside() -> None:
    ends = {tuple(ids) for ids in itertools.product(range(3), (0, 4), (0, 3), (0,), range(2))}
    batch = Grasp().suggest(30, Knowledge(SPACE), np.random.default_rng(3))
    chosen = [s.configuration.level_ids for s in batch]
    assert set(chosen[:24]) == ends
    assert "the ends of ordinal parameters" in batch[23].reason
    assert "every level of every parameter" in batch[24].reason
    inner = Grasp(design="balanced").suggest(10, Knowledge(SPACE), np.random.default_rng(3))
    assert {s.configuration.level_ids[1] for s in inner} == set(range(5))


def test_a_batch_is_spread_since_its_own_results_are_imagined() -> None:
    knowledge = Knowledge(SPACE, observed(20))
    batch = Grasp().suggest(6, knowledge, np.random.default_rng(2))
    alone = [Grasp().suggest(1, knowledge, np.random.default_rng(s))[0] for s in range(6)]
    assert len({s.configuration for s in alone}) == 1  # it does not depend on the generator
    assert batch[0].configuration == alone[0].configuration
    pending = Knowledge(SPACE, observed(20), pending=frozenset({batch[0].configuration}))
    second = Grasp().suggest(1, pending, np.random.default_rng(2))[0].configuration
    assert second != batch[0].configuration


def test_failures_are_avoided_and_caution_zero_ignores_them() -> None:
    """Half the space fails; cautious runs fail less often than incautious ones."""

    def failures(caution: float) -> int:
        rng = np.random.default_rng(3)
        observations: list[Observation] = []
        failed: list[Failure] = []
        for _ in range(40):
            known = Knowledge(SPACE, tuple(observations), tuple(failed))
            c = Grasp(caution=caution).suggest(1, known, rng)[0].configuration
            if SPACE.parameters[1].ranks[c.level_ids[1]] in (2, 3):  # where it would be best
                failed.append(Failure(c, "no"))
            else:
                observations.append(Observation(c, response(c)))
        return len(failed)

    assert failures(1.5) < failures(0.0)


def test_what_hardly_succeeds_is_tried_at_every_fifth_run_alone() -> None:
    """Level s always failed, and the best that is left of the other levels promises little."""
    letters, numbers = Parameter("a", ("p", "q", "r", "s")), Parameter("b", (0, 1, 2, 3, 4, 5))
    space = ParameterSpace((letters, numbers, Parameter("c", ("x", "y", "z"))))
    places = np.random.default_rng(4).permutation(space.size)
    runs = [space.configuration(int(place)).level_ids for place in places]
    runs = [ids for ids in runs if ids[0] < 3 or ids[1] < 4]
    chosen = []
    for n in range(50, 56):
        done = [Configuration(ids, space.lineage) for ids in runs[:n]]
        succeeded = [c for c in done if c.level_ids[0] < 3]
        knowledge = Knowledge(
            space,
            tuple(Observation(c, 2.0 * c.level_ids[1] + (c.level_ids[2] == 1)) for c in succeeded),
            tuple(Failure(c, "no") for c in done if c.level_ids[0] == 3),
        )
        suggestion = Grasp().suggest(1, knowledge, np.random.default_rng(0))[0]
        chosen.append(suggestion.configuration.level_ids[0] == 3)
    assert chosen == [True, False, False, False, False, True]


def test_a_reason_names_the_construction_the_chance_and_the_best_run() -> None:
    knowledge = Knowledge(SPACE, observed(30), (Failure(SPACE.configuration(3), "no"),))
    suggestion = Grasp().suggest(1, knowledge, np.random.default_rng(2))[0]
    assert "; the best expected gain: a chance " in suggestion.reason
    assert "the best run" in suggestion.reason.split(";")[-1]
    assert suggestion.chance is not None
    assert 0 <= suggestion.chance <= 1
    assert suggestion.expected is not None
    assert suggestion.interval is not None


@pytest.mark.soak
def test_large_spaces_are_searched_by_constructions_near_the_optimum() -> None:
    """10^12 points with a unimodal response: 40 runs come within a fifth of the median loss."""
    space = ParameterSpace(tuple(Parameter(f"p{i}", tuple(range(10))) for i in range(12)))

    def loss(c: Configuration) -> float:
        steps = [(level - (3, 6, 8)[i % 3]) ** 2 for i, level in enumerate(c.level_ids)]
        return float(sum(steps))

    rng = np.random.default_rng(1)
    typical = float(np.median([loss(c) for _ in range(400) if (c := space.sample(rng))]))
    observations: list[Observation] = []
    for _ in range(40):
        c = Grasp().suggest(1, Knowledge(space, tuple(observations)), rng)[0].configuration
        observations.append(Observation(c, -loss(c)))
    assert min(-o.quality for o in observations) < 0.2 * typical


def sample_of_switches(n_columns: int, n_rows: int) -> ParameterSpace:
    """Rows of switches, all of them different and far fewer than the combinations."""
    drawn = np.random.default_rng(5).integers(2, size=(n_rows, n_columns))
    rows = tuple(sorted({tuple(row) for row in drawn.tolist()}))
    return ParameterSpace(tuple(Parameter(f"s{i}", (0, 1)) for i in range(n_columns)), rows=rows)


@pytest.mark.parametrize("seed", range(3))
def test_every_given_row_is_compared(seed: int) -> None:
    space = sample_of_switches(20, 3_000)
    rng = np.random.default_rng(seed)
    places = rng.permutation(len(space.rows))
    *tried, best = (Configuration(space.rows[i], space.lineage) for i in places[:12])
    observations = tuple(Observation(c, float(sum(c.level_ids))) for c in tried)
    knowledge = Knowledge(space, observations)
    model = AnovaModel.of(knowledge)
    assert model is not None

    def worth(ids: np.ndarray) -> np.ndarray:
        return -np.asarray((ids != best.level_ids).any(axis=1), dtype=np.float64)

    found = local_search(model, knowledge, knowledge.taken, worth, rng)
    assert found is not None
    assert found.configuration == best


def test_a_reason_says_that_rows_were_compared() -> None:
    space = sample_of_switches(20, 900)
    tried = [Configuration(row, space.lineage) for row in space.rows[:400:20]]
    observations = tuple(Observation(c, float(sum(c.level_ids))) for c in tried)
    suggestion = Grasp().suggest(1, Knowledge(space, observations), np.random.default_rng(1))[0]
    assert suggestion.kind == "improvement"
    assert suggestion.reason.startswith(f"One of the {len(space.rows)} given rows; ")


def test_given_rows_that_are_too_many_to_list_are_compared_too() -> None:
    space = sample_of_switches(110, 20_000)
    assert space.allowed_ids is None
    found = best_by(
        Knowledge(space), set(), lambda ids: ids[:, :40].sum(axis=1) * 1.0, np.random.default_rng(0)
    )
    assert found is not None
    assert sum(found.level_ids[:40]) > 28  # 20 in the mean, with a standard deviation of 3.2


def test_a_row_is_free_until_it_was_run_itself() -> None:
    rest = (0,) * 69
    space = ParameterSpace(
        tuple(Parameter(f"s{i}", (0, 1)) for i in range(70)), rows=((0, *rest), (1, *rest))
    )
    first, other = (Configuration(row, space.lineage) for row in space.rows)
    free = free_ids(Knowledge(space), {first})
    assert free is not None
    assert [tuple(row) for row in free.tolist()] == [other.level_ids]


def test_effects_of_very_many_levels_are_those_of_few_at_a_time() -> None:
    space = ParameterSpace((Parameter("a", tuple(range(3_000))), Parameter("b", ("x", "y"))))
    rng = np.random.default_rng(2)
    configurations = [space.configuration(int(i)) for i in rng.choice(space.size, 9, False)]
    seen = [Observation(c, -float(c.level_ids[0] % 97)) for c in configurations]
    model = AnovaModel(space, seen)
    whole, _ = model.posterior.averaged({0: np.arange(3_000)}, model.averaging_levels())
    assert model.main_values(0) == pytest.approx(whole, abs=1e-12)


def test_exclusions_leave_the_exact_search_what_is_allowed() -> None:
    space = SPACE.excluding(Exclusion("procs > 32 and order == 'sjf'")).closing("depth", 4)
    assert space.allowed_ids is not None
    listed = {tuple(row) for row in space.allowed_ids.tolist()}
    assert listed == {c.level_ids for c in space.configurations()}
    wide = ParameterSpace(tuple(Parameter(f"p{i}", tuple(range(10))) for i in range(5)))
    assert wide.allowed_ids is None


def test_repeated_noisy_runs_are_not_taken_at_their_best() -> None:
    observations = [*observed(12)]
    best = max(observations, key=lambda o: o.quality)
    lucky = [Observation(best.configuration, best.quality + d) for d in (3.0, -3.0, -2.0)]
    model = AnovaModel(SPACE, [*observations, *lucky])
    assert model.best < model.targets.z.max()


@pytest.mark.parametrize(
    "options", [{"start": 0}, {"start": 2.5}, {"caution": -1}, {"caution": 11}]
)
def test_options_that_cannot_be_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(OptionError, match=f"grasp has {next(iter(options))}="):
        Grasp(**options)  # type: ignore[arg-type]


def test_expected_improvement_grows_with_the_mean_everywhere() -> None:
    u = np.sort(np.concatenate([-np.logspace(4, -3, 4_000), np.linspace(-2, 3, 500)]))
    found = log_expected_improvement(u, np.ones_like(u), 0.0)
    assert (np.diff(found) > 0).all()
    assert found[-1] == pytest.approx(math.log(3 * norm.cdf(3) + norm.pdf(3)))


def test_leaving_a_run_out_is_fitting_without_it() -> None:
    everything = all_ids()
    runs, z = everything[::13], np.cos(np.arange(10.0))
    left_out = Posterior(AXES, H, runs, z).left_out
    for i in range(10):
        rest = np.arange(10) != i
        mean, sd = Posterior(AXES, H, runs[rest], z[rest]).predict(runs[i : i + 1])
        spread = np.sqrt(sd[0] ** 2 + H.noise + JITTER)
        assert left_out[i] == pytest.approx((z[i] - mean[0]) / spread, rel=1e-6)


@pytest.mark.parametrize("share", [0.05, 0.5, 0.9])
def test_the_noise_of_replicates_is_learnt(share: float) -> None:
    """40 configurations twice: learnt within a factor of 2 of the truth, median of 6 seeds."""
    learnt = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        places = rng.choice(SPACE.size, 40, replace=False)
        configurations = [SPACE.configuration(int(p)) for p in places] * 2
        clean = np.array([response(c) for c in configurations])
        noise = rng.normal(size=80) * clean.std() * math.sqrt(share / (1 - share))
        noisy = zip(configurations, clean + noise, strict=True)
        model = AnovaModel(SPACE, [Observation(c, float(y)) for c, y in noisy])
        learnt.append(model.hyperparameters.noise)
    assert share / 2 < float(np.median(learnt)) < share * 2, learnt


def test_a_chance_counts_failures_and_needs_runs_that_differ() -> None:
    equal = AnovaModel(SPACE, [Observation(o.configuration, 1.0) for o in observed(5)])
    free = SPACE.configuration(0)
    assert equal.predict(free).chance is None
    *failed, other = [c for c in SPACE.configurations() if c.level_ids[0] == 2]
    with_failures = AnovaModel(SPACE, observed(12), failed).predict(other)
    assert with_failures.succeeds < 0.9
    assert with_failures.chance is not None
    assert with_failures.chance <= with_failures.succeeds


@given(st.lists(st.sampled_from([0.0, -0.0, 1.0, 2.5, -3.0]) | st.floats(-1e9, 1e9), min_size=1))
def test_ranks_are_those_of_scipy(values: list[float]) -> None:
    from scipy.stats import rankdata

    assert mean_ranks(np.array(values)).tolist() == rankdata(values).tolist()
