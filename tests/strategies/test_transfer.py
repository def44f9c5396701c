"""Learning from earlier sweeps: levels are matched, what is borrowed is the written kernel."""

import math

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.stats import multivariate_normal, norm

import strategies.gp.gaussian_process as learning
from strategies import (
    Configuration,
    EarlierSweep,
    Failure,
    Grasp,
    Knowledge,
    Observation,
    ObservationError,
    Parameter,
    ParameterSpace,
    borrowed_shares,
)
from strategies.gp.anova_model import AnovaModel
from strategies.gp.gaussian_process import (
    JITTER,
    Axis,
    Hyperparameters,
    Posterior,
    Prior,
    borrowed_kernel,
    gram,
)
from strategies.gp.transfer import informed_model, transfer_of

SPACE = ParameterSpace(
    (
        Parameter("procs", (16, 64, 32, 128, 256)),
        Parameter("order", ("fcfs", "sjf", "wfp3")),
        Parameter("depth", (0, 1, 2, 4)),
        Parameter("share", (False, True)),
    )
)
AXES = tuple(map(Axis.of, SPACE.parameters))


def response(configuration: Configuration) -> float:
    procs, order, depth, share = configuration.level_ids
    rank = SPACE.parameters[0].ranks[procs]
    return -((rank - 2.3) ** 2) + (2.0, 0.5, 1.0)[order] * depth - 1.5 * share * (order == 1)


def observed(n: int, seed: int, space: ParameterSpace = SPACE) -> tuple[Observation, ...]:
    places = np.random.default_rng(seed).choice(space.size, n, replace=False)
    configurations = [space.configuration(int(place)) for place in places]
    return tuple(Observation(c, response(c)) for c in configurations)


def earlier(n: int = 40, seed: int = 4) -> EarlierSweep:
    return EarlierSweep.of("before", SPACE, observed(n, seed))


def dealt_out(n: int = 40) -> EarlierSweep:
    """Results that have nothing to do with their configurations."""
    sweep = earlier(n)
    shuffled = np.random.default_rng(1).permutation(sweep.responses)
    return EarlierSweep("noise", sweep.parameters, sweep.level_ids, tuple(shuffled.tolist()))


def test_levels_are_matched_by_value_numbers_else_by_the_nearest() -> None:
    sweep = earlier()
    assert sweep.matched(Parameter("procs", (256, 40, 4096, 16))).tolist() == [4, 2, 4, 0]
    assert sweep.matched(Parameter("order", ("new", "sjf"))).tolist() == [-1, 1]
    assert sweep.matched(Parameter("depth", (3.1, -7))).tolist() == [3, 0]  # 0: by difference
    assert sweep.matched(Parameter("queue", (1, 2))) is None
    assert sweep.matched(Parameter("order", ("a", "b"))) is None  # no level in common
    assert sweep.matched(Parameter("procs", ("16", "64"))) is None  # texts are no numbers
    other = ParameterSpace((Parameter("depth", (1, 9)), Parameter("x", (1, 2))))
    assert sweep.shared(other) == ("depth",)


def test_what_is_no_sweep_is_refused() -> None:
    sweep = earlier(3)
    for rows, results in (((), ()), (sweep.level_ids, (1.0,)), (((9, 0, 0, 0),), (1.0,))):
        with pytest.raises(ObservationError, match="'before'"):
            EarlierSweep("before", SPACE.parameters, rows, results)


def test_on_the_same_space_the_coordinate_is_the_prediction_of_the_earlier_model() -> None:
    sweep = earlier()
    ids = np.array([c.level_ids for c in SPACE.configurations()])
    model = AnovaModel(SPACE, observed(40, 4))
    mean, _ = model.posterior.predict(ids)
    coordinate = transfer_of(SPACE, (sweep,)).responses.at(ids)[:, 0]
    assert coordinate == pytest.approx((mean - mean.mean()) / mean.std(), abs=1e-9)


def test_a_parameter_that_only_the_earlier_sweep_had_is_averaged_over() -> None:
    fewer = ParameterSpace((SPACE.parameters[0], SPACE.parameters[3]))
    ids = np.array([c.level_ids for c in fewer.configurations()])
    coordinate = transfer_of(fewer, (earlier(),)).responses.at(ids)[:, 0]
    model = AnovaModel(SPACE, observed(40, 4))
    full = np.array([c.level_ids for c in SPACE.configurations()])
    mean, _ = model.posterior.predict(full)
    of_both = full[:, 0] * 2 + full[:, 3]
    averaged = np.array([mean[of_both == a * 2 + b].mean() for a, b in ids])
    expected = (averaged - averaged.mean()) / averaged.std()
    assert coordinate == pytest.approx(expected, abs=1e-9)


def test_predictions_with_borrowed_coordinates_are_those_of_dense_conditioning() -> None:
    h = Hyperparameters((1.2, 0.6, 0.9, 2.0), 0.7, 0.4, 0.01, ((0.6, 0.3), (0.2, 0.5)))
    everything = np.array([c.level_ids for c in SPACE.configurations()])
    rng = np.random.default_rng(3)
    u = rng.normal(size=(len(everything), 2))
    runs = rng.choice(len(everything), 25, replace=False)
    z = rng.normal(size=25)

    def borrow(ids: np.ndarray) -> np.ndarray:
        return u[[SPACE.index(Configuration(tuple(row), SPACE.lineage)) for row in ids.tolist()]]

    joint = gram(AXES, h, everything)
    for i, (smooth, linear) in enumerate(h.borrowed):
        a = math.sqrt(5) * np.abs(u[:, None, i] - u[None, :, i])
        joint += smooth * (1 + a + a**2 / 3) * np.exp(-a) + linear * np.outer(u[:, i], u[:, i])
    noisy = joint[np.ix_(runs, runs)] + (h.noise + JITTER) * np.eye(25)
    gain = np.linalg.solve(noisy, joint[runs]).T
    posterior = Posterior(AXES, h, everything[runs], z, borrow)
    mean, sd = posterior.predict(everything)
    assert mean == pytest.approx(gain @ z, abs=1e-9)
    assert sd**2 == pytest.approx(np.diag(joint - gain @ joint[runs]), abs=1e-9)
    draws = posterior.sample(everything[:4], 40_000, np.random.default_rng(8))
    noisy_sd = np.sqrt(sd[:4] ** 2 + h.noise)
    assert draws.mean(axis=1) == pytest.approx(mean[:4], abs=5 * noisy_sd.max() / 200)
    assert draws.std(axis=1) == pytest.approx(noisy_sd, rel=0.03)


def test_the_density_with_borrowed_variances_and_its_gradient() -> None:
    rng = np.random.default_rng(2)
    ids = np.array([c.level_ids for c in SPACE.configurations()])[::7]
    n = len(ids)
    z, u = rng.normal(size=n), rng.normal(size=(n, 2))
    mean = Prior().means(AXES, 2)
    density = learning._Density(AXES, ids, z, mean, 1.0, u)
    theta = mean + rng.normal(size=mean.size) * 0.4

    def log_posterior(t: np.ndarray) -> float:
        v = np.exp(t)
        h = Hyperparameters(tuple(v[:4]), v[4], v[5], v[10], ((v[6], v[7]), (v[8], v[9])))
        covariance = gram(AXES, h, ids) + borrowed_kernel(h, u, u) + (h.noise + JITTER) * np.eye(n)
        likelihood = multivariate_normal(np.zeros(n), covariance).logpdf(z)
        return float(likelihood + norm.logpdf(t, mean, 1.0).sum())

    other = theta + 0.3
    difference = density.negative_log(theta)[0] - density.negative_log(other)[0]
    assert difference == pytest.approx(log_posterior(other) - log_posterior(theta), rel=1e-9)
    quotient = approx_fprime(theta, lambda t: density.negative_log(t)[0], 1e-6)
    assert density.negative_log(theta)[1] == pytest.approx(quotient, rel=1e-3, abs=1e-3)


def test_a_related_sweep_lends_more_than_one_of_dealt_out_results_and_predicts_better() -> None:
    few = observed(15, 9)
    knowledge = Knowledge(SPACE, few, earlier=(earlier(), dealt_out()))
    shares = borrowed_shares(knowledge)
    assert shares is not None
    assert shares[0] > 2 * shares[1]
    ids = np.array([c.level_ids for c in SPACE.configurations()])
    truth = np.array([response(c) for c in SPACE.configurations()])
    errors = []
    for sweeps in ((earlier(),), (), (dealt_out(),)):
        model = informed_model(Knowledge(SPACE, few, earlier=sweeps))
        assert model is not None
        mean, _ = model.posterior.predict(ids)
        errors.append(float(np.std(model.targets.responses_at(mean) - truth)))
    assert errors[0] < 0.6 * errors[1]
    assert errors[2] < 1.15 * errors[1]
    assert borrowed_shares(Knowledge(SPACE, earlier=(earlier(),))) is None


def test_the_first_runs_are_the_best_earlier_run_and_the_best_predicted_ones_apart() -> None:
    knowledge = Knowledge(SPACE, earlier=(earlier(),))
    first = Grasp().suggest(10, knowledge, np.random.default_rng(1))
    assert len(first) == 10
    rows = np.array([s.configuration.level_ids for s in first[:4]])
    for i in range(4):
        assert all((rows[i] != rows[j]).sum() >= 2 for j in range(i))
    ids = np.array([c.level_ids for c in SPACE.configurations()])
    promise = transfer_of(SPACE, (earlier(),)).promise(ids)
    best = max(observed(40, 4), key=lambda o: o.quality).configuration
    assert first[0].configuration == best
    assert first[0].reason == (
        "Run 1 of the initial design: the best run of the earlier sweep 'before'."
    )
    apart = (ids != np.array(best.level_ids)).sum(axis=1) >= 2
    assert np.where(apart, promise, -np.inf).argmax() == SPACE.index(first[1].configuration)
    assert first[1].reason == (
        "Run 2 of the initial design: the best prediction by the earlier sweep 'before'."
    )
    assert first[4].reason.startswith("Run 5 of the initial design: the ends of ordinal")


def test_the_best_earlier_run_counts_where_the_space_has_its_levels() -> None:
    sweep = earlier()
    best = max(observed(40, 4), key=lambda o: o.quality).configuration
    values = SPACE.values(best)
    assert sweep.best_in(SPACE) == best
    fewer = ParameterSpace(SPACE.parameters[:2])  # of another space, whose parameters it all had
    found = sweep.best_in(fewer)
    assert found is not None
    assert fewer.values(found) == {name: values[name] for name in fewer.names}
    more = ParameterSpace((*SPACE.parameters, Parameter("new", (1, 2))))
    assert sweep.best_in(more) is None
    others = tuple(level for level in SPACE.parameters[1].levels if level != values["order"])
    lacking = ParameterSpace((Parameter("order", others), *SPACE.parameters[2:]))
    assert sweep.best_in(lacking) is None
    closed = SPACE.closing("order", values["order"])
    first = Grasp().suggest(4, Knowledge(closed, earlier=(sweep,)), np.random.default_rng(1))
    assert all(closed.is_allowed(s.configuration) for s in first)


def test_what_failed_earlier_is_not_among_the_first_runs() -> None:
    failed = tuple(
        Failure(c, "no memory")
        for c in SPACE.configurations()
        if c.level_ids[0] == 4 and c.level_ids[2] > 1
    )
    sweep = EarlierSweep.of("before", SPACE, observed(40, 4), failed)
    first = Grasp().suggest(4, Knowledge(SPACE, earlier=(sweep,)), np.random.default_rng(1))
    assert not {s.configuration for s in first} & {f.configuration for f in failed}
