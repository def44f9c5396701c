"""What the intervals of one run hold, and what they never reach."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from assistant import Sla, open_session
from assistant.analysis.response_map import expected_measure
from assistant.executors.serial import SerialExecutor
from assistant.store.event_store import MemoryStore
from benchmarks.coverage import fit, program
from strategies import (
    AnovaModel,
    Configuration,
    Grasp,
    Knowledge,
    Observation,
    Parameter,
    ParameterSpace,
)
from strategies.gp import run_interval
from strategies.gp.anova_model import Targets
from strategies.gp.run_interval import (
    FEATURES,
    LEAST_RUNS,
    LEVEL,
    PROBABILITIES,
    IntervalCoefficients,
    chance_above,
    interval_words,
    shipped,
)
from tests.assistant.examples import Bowl, TickingClock

TRAINING = ParameterSpace(
    (
        Parameter("lr", (0.001, 0.003, 0.01, 0.03, 0.1)),
        Parameter("dropout", (0.0, 0.1, 0.2, 0.3)),
        Parameter("layers", (1, 2, 3, 4)),
        Parameter("optimiser", ("sgd", "adam", "lion")),
        Parameter("batch", (16, 32, 64)),
    )
)
EFFECTS = (
    (0.45, 0.2, 0.0, 0.1, 0.3), (0.3, 0.1, 0.0, 0.15), (0.18, 0.06, 0.0, 0.09),
    (0.15, 0.0, 0.05), (0.0, 0.012, 0.024),
)  # fmt: skip
CHOSEN_3 = [
    33, 689, 2, 711, 113, 609, 686, 30, 35, 687, 707, 716, 706, 705, 709, 670, 661, 526, 382, 385,
    381, 372, 390, 345, 237, 378, 417, 375, 528, 393, 350, 363, 422, 303, 384, 96, 480, 455, 512,
    374,
]  # fmt: skip
"""What the strategy chose with seed 3 before its intervals were calibrated."""


def loss(configuration: Configuration) -> float:
    return 0.3 + sum(e[i] for e, i in zip(EFFECTS, configuration.level_ids, strict=True))


def steered(seed: int, n: int = 40) -> tuple[list[bool], list[int], list[Observation]]:
    """Return whether each chosen run from the 11th on lay in its interval, and all runs."""
    rng, noise = np.random.default_rng(seed), np.random.default_rng([seed, 1])
    observations: list[Observation] = []
    inside = []
    for i in range(n):
        suggestion = Grasp().suggest(1, Knowledge(TRAINING, tuple(observations)), rng)[0]
        quality = -(loss(suggestion.configuration) + 0.03 * noise.standard_normal())
        if i >= 10:
            assert suggestion.interval is not None
            inside.append(suggestion.interval[0] <= quality <= suggestion.interval[1])
        observations.append(Observation(suggestion.configuration, quality))
    return inside, [TRAINING.index(o.configuration) for o in observations], observations


def test_intervals_hold_the_chosen_runs_of_a_noisy_program_and_choices_are_as_before() -> None:
    """They held 76 % before."""
    played = [steered(seed) for seed in (0, 1, 3)]
    assert np.mean([inside for inside, _, _ in played]) > 0.85
    assert played[2][1] == CHOSEN_3


def test_intervals_hold_untried_configurations_of_noisy_programs() -> None:
    inside, narrower = [], []
    for seed in range(12):
        problem, rng = program(seed), np.random.default_rng(seed)
        order = rng.permutation(problem.space.size)[:60]
        noisy = problem.objective[order] + 0.03 * rng.standard_normal(order.size)
        runs = [
            Observation(problem.space.configuration(int(i)), -float(value))
            for i, value in zip(order, noisy, strict=True)
        ]
        first = runs[: len(runs) // 2]
        model = AnovaModel(problem.space, first)
        quantiles = model.run_quantiles(model.ids_of([o.configuration for o in runs]))
        ends = model.targets.responses_at(quantiles)[len(first) :]
        quality = np.array([o.quality for o in runs[len(first) :]])
        inside += ((ends[:, 0] <= quality) & (quality <= ends[:, 4])).tolist()
        narrower += ((ends[:, 1] <= quality) & (quality <= ends[:, 3])).tolist()
    assert abs(np.mean(inside) - 0.95) < 0.05
    assert 0.75 < np.mean(narrower) < np.mean(inside)


def test_another_run_of_a_tried_configuration_has_the_noise_of_runs_in_its_interval() -> None:
    _, _, observations = steered(1, 30)
    noise = np.random.default_rng(5)
    model = AnovaModel(TRAINING, observations)
    exact = AnovaModel(TRAINING, observations, exact=True)
    inside = []
    for observation in observations:
        interval = model.predict(observation.configuration).interval
        certain = exact.predict(observation.configuration).interval
        assert interval is not None
        assert certain is not None
        assert certain[1] - certain[0] < interval[1] - interval[0]
        again = -(loss(observation.configuration) + 0.03 * noise.standard_normal(20))
        inside += ((interval[0] <= again) & (again <= interval[1])).tolist()
    assert np.mean(inside) > 0.9


positive = st.lists(st.floats(1e-3, 1e3), min_size=2, max_size=30)


@given(positive, st.sampled_from([1.0, -1.0]), st.lists(st.floats(-20, 20), min_size=2))
def test_values_of_one_sign_keep_it_and_order_is_kept(
    values: list[float], sign: float, z: list[float]
) -> None:
    targets = Targets.of(sign * np.array(values))
    found = targets.responses_at(np.sort(np.array(z)))
    assert (sign * found >= 0).all()
    assert (np.diff(found) >= -1e-9 * np.abs(found).max()).all()
    assert targets.responses_at(targets.knots) == pytest.approx(targets.responses)


def test_a_positive_value_is_not_expected_at_zero_where_runs_stay_above_it() -> None:
    """The best of a program whose floor is 0.3 was stated to reach exactly 0."""
    observations = [
        Observation(TRAINING.configuration(int(i)), -loss(TRAINING.configuration(int(i))))
        for i in np.random.default_rng(2).choice(TRAINING.size, 12, replace=False)
    ]
    model = AnovaModel(TRAINING, observations)
    bands = model.predict_all(np.array([c.level_ids for c in TRAINING.configurations()]))
    assert (-bands.highs).min() > 0.05


def test_a_share_is_not_expected_above_one() -> None:
    space = ParameterSpace((Parameter("x", tuple(range(9))), Parameter("y", tuple(range(9)))))
    accuracy = [1 - 0.4 * 0.7 ** sum(space.configuration(i).level_ids) for i in range(space.size)]
    runs = [Observation(space.configuration(i), accuracy[i]) for i in range(0, space.size, 7)]
    bands = AnovaModel(space, runs).predict_all(
        np.array([c.level_ids for c in space.configurations()])
    )
    assert bands.highs.max() <= 1.0
    assert (bands.lows <= bands.values).all()
    assert (bands.values <= bands.highs).all()


def test_no_interval_is_stated_before_four_results() -> None:
    runs = [Observation(TRAINING.configuration(i * 50), float(i)) for i in range(LEAST_RUNS)]
    free = TRAINING.configuration(1)
    assert AnovaModel(TRAINING, runs[:-1]).predict(free).interval is None
    assert AnovaModel(TRAINING, runs).predict(free).interval is not None


@given(st.lists(st.floats(-9, 9), min_size=len(FEATURES), max_size=len(FEATURES)))
def test_quantiles_are_in_order_and_chances_agree_with_them(described: list[float]) -> None:
    quantiles = shipped().quantiles(np.array([described]))[0]
    assert (np.diff(quantiles) > 0).all()
    for probability, quantile in zip(PROBABILITIES, quantiles, strict=True):
        assert chance_above(quantiles, float(quantile)) == pytest.approx(1 - probability)
    assert chance_above(quantiles, 1e3) < 0.025 < 0.975 < chance_above(quantiles, -1e3)


def test_the_fit_finds_the_quantiles_of_a_normal_distribution() -> None:
    rng = np.random.default_rng(0)
    wide = rng.random(20_000) < 0.5
    described = np.stack([np.ones(wide.size), wide.astype(np.float64)], axis=1)
    residual = rng.standard_normal(wide.size) * np.where(wide, 3.0, 1.0)
    fitted = IntervalCoefficients("", fit(described, residual, np.ones(wide.size)), {})
    for of, sd in ((0.0, 1.0), (1.0, 3.0)):
        found = fitted.quantiles(np.array([[1.0, of]]))[0]
        assert found == pytest.approx(sd * norm.ppf(PROBABILITIES), abs=0.12 * sd)


def test_an_interval_is_called_by_its_measured_level(monkeypatch: pytest.MonkeyPatch) -> None:
    weights = shipped().weights
    held = {"grasp, chosen": LEVEL - 0.04, "copper, chosen": 0.81, "copper, random": 0.95}
    monkeypatch.setattr(run_interval, "shipped", lambda: IntervalCoefficients("", weights, held))
    assert interval_words("grasp", "chosen") == "95 % interval"
    assert interval_words("copper", "chosen") == "interval that holds about 8 in 10 runs"
    assert interval_words("not measured", "chosen") == interval_words("copper", "chosen")
    assert interval_words("copper", "random") == "95 % interval"


@pytest.mark.parametrize("strategy", ["grasp", "copper", "random"])
def test_a_stored_suggestion_states_the_interval_that_pages_show(strategy: str) -> None:
    bowl = Bowl()
    session = open_session(
        bowl, store=MemoryStore(), sla=Sla(12), clock=TickingClock(), strategy=strategy
    )
    session.submit(session.suggest(3))
    session.run_queued(SerialExecutor(bowl))
    young = session.suggest(1)
    assert [s.interval for s in young.suggestions] == [None]
    session.submit(young)
    session.run_queued(SerialExecutor(bowl))
    suggestion = session.suggest(1).suggestions[0]
    shown = expected_measure(session.experiment, suggestion.configuration)
    assert shown is not None
    assert suggestion.interval == (-shown.high, -shown.low)
    assert suggestion.expected == -shown.value
