"""Every quality of the generator of clouds keeps the same promises; what each adds, known answers.

Being listed in `QUALITIES` means being tested here.
"""

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier

from sim.generators.cloud import flavour_models
from sim.generators.cloud.batches import batches_of
from sim.generators.cloud.flavour_models import (
    MEMORIES,
    RUN_CLASSES,
    facts_of,
    fit_mix,
    fit_weights,
)
from sim.generators.cloud.flavours import fit_flavours, tokens_of
from sim.generators.cloud.lifetimes import LifetimeTrees, export_trees, fit_lifetimes, fit_trees
from sim.generators.cloud.model_parts import (
    QUALITIES,
    fit_hazards,
    fit_next_flavour,
    model_parts_of,
    next_flavour_of,
)
from sim.generators.cloud.scores import score_flavours, score_lifetimes
from sim.generators.cloud.three_stage import draw_batches
from sim.generators.generator import Model, RandomStreams, fit, generate, load_model, save_model
from sim.model.cloud_trace import CloudTrace
from sim.model.errors import ScenarioError, WorkloadError
from sim.model.workload import Workload
from tests.sim.cloud.test_stages import trace_of

DAY_S = 86_400.0


@cache
def a_log() -> Workload:
    """Return ten days of batches, alike inside: of 1, 2, 4 or 8 processors, short ones or long."""
    rng = np.random.default_rng(11)
    n = 900
    sizes = rng.integers(1, 5, n)
    kind = rng.integers(0, 4, n)
    lives_s = np.array([30.0, 400.0, 4000.0])[(kind + (rng.random(n) < 0.2)) % 3]
    lived_s = np.repeat(lives_s, sizes) * rng.uniform(0.8, 1.2, sizes.sum())
    return Workload.from_arrays(
        submit_s=np.repeat(np.sort(rng.uniform(0, 10 * DAY_S, n)), sizes),
        runtime_s=lived_s,
        requested_s=np.full(sizes.sum(), 7200.0),
        procs=np.repeat(2**kind, sizes),
        user=np.repeat(rng.integers(0, 30, n), sizes),
        name="batches",
        start_unix_s=0.0,
        time_zone="UTC",
    )


LEARNT = [quality for quality in QUALITIES if quality != "lstm"]
"""Those that need no PyTorch; what networks learn is tested in `test_lstm`."""


@cache
def model_of(quality: str) -> Model:
    if quality not in LEARNT:
        from tests.sim.cloud.test_lstm import model_of as untrained

        return untrained()
    return fit("three_stage", a_log(), {"penalty": 0.1}, quality=quality)


@pytest.mark.parametrize("quality", QUALITIES)
def test_the_same_seed_draws_the_same_jobs(quality: str) -> None:
    first, again, other = (
        generate(model_of(quality), duration_s=DAY_S / 4, seed=seed) for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other
    assert model_of(quality).parameters["quality"] == quality


@pytest.mark.parametrize("quality", QUALITIES)
def test_a_model_comes_back_as_it_was_kept(quality: str, tmp_path: Path) -> None:
    save_model(model_of(quality), tmp_path / "model.json")
    kept = load_model(tmp_path / "model.json")
    assert kept == model_of(quality)
    drawn = generate(kept, duration_s=DAY_S / 4, seed=3)
    assert drawn == generate(model_of(quality), duration_s=DAY_S / 4, seed=3)
    with np.load(tmp_path / "model.npz", allow_pickle=False) as arrays:
        assert all(arrays[name].dtype != object for name in arrays.files)


@pytest.mark.parametrize("quality", LEARNT)
def test_scores_beat_those_of_one_that_knows_nothing(quality: str) -> None:
    trace, _ = batches_of(a_log())
    ground = model_parts_of(model_of(quality))
    flavours = next_flavour_of(model_of(quality), len(ground.flavours), ground.arrivals.n_days)
    tokens = tokens_of(trace)
    told = flavours.probabilities(tokens)
    assert told.shape == (len(tokens.token), flavours.end + 1)
    assert told.sum(axis=1) == pytest.approx(1.0)
    assert told.min() > 0
    score = score_flavours(flavours, tokens)
    assert 0 < score.nll < 0.75 * np.log(flavours.end + 1)
    hazard, row = ground.lifetimes.hazards(trace)
    assert hazard.shape[1] == trace.bins.n
    assert ((hazard > 0) & (hazard < 1)).all()
    assert (row.shape, row.max() < len(hazard)) == ((trace.n_jobs,), True)
    alone = score_lifetimes(fit_lifetimes(trace, 0), trace)
    assert 0 < score_lifetimes(ground.lifetimes, trace).bce < 0.6 * alone.bce


@pytest.mark.parametrize("quality", LEARNT)
def test_what_is_drawn_is_spread_like_what_was_learnt(quality: str) -> None:
    trace, _ = batches_of(a_log())
    drawn = draw_batches(model_of(quality), 10 * 288, 20 * 288, RandomStreams(5))
    assert drawn is not None
    for column, n in (("flavour", len(trace.flavours)), ("lifetime", trace.bins.n)):
        shares = [
            np.bincount(getattr(one, column), minlength=n) / one.n_jobs for one in (trace, drawn)
        ]
        assert np.abs(shares[0] - shares[1]).sum() / 2 < 0.1, column
    assert drawn.batch_sizes.mean() == pytest.approx(trace.batch_sizes.mean(), rel=0.05)
    inside = ~drawn.first_in_batch[1:]
    assert (drawn.flavour[1:] == drawn.flavour[:-1])[inside].mean() > 0.97
    near = np.abs(drawn.lifetime[1:] - drawn.lifetime[:-1])[inside] <= 2
    assert near.mean() > 0.9, "jobs of a batch live alike"


@pytest.mark.parametrize("quality", QUALITIES)
def test_odds_tilt_what_is_drawn(quality: str) -> None:
    model = model_of(quality)
    sizes: list[float] = []
    for odds in (1.0, 0.2):
        ground = model_parts_of(model)
        flavours = next_flavour_of(model, len(ground.flavours), ground.arrivals.n_days)
        tilt = np.append(np.ones(len(ground.flavours)), odds)
        zero = np.zeros(500, dtype=np.int64)
        same = np.ones(len(ground.flavours))
        flavour, _ = flavours.tilted(tilt, same).draw(500, np.random.default_rng(1), None, zero)
        sizes.append(len(flavour) / 500)
    assert sizes[1] > 1.3 * sizes[0]
    longer = generate(model.with_parameters({"end_odds": 0.2}), duration_s=DAY_S / 4, seed=1)
    assert longer.n_jobs > generate(model, duration_s=DAY_S / 4, seed=1).n_jobs


@pytest.mark.parametrize("quality", QUALITIES)
def test_weights_among_flavours_leave_the_end_its_share(quality: str) -> None:
    model, (trace, _) = model_of(quality), batches_of(a_log())
    ground, tokens = model_parts_of(model), tokens_of(trace)
    flavours = next_flavour_of(model, len(ground.flavours), ground.arrivals.n_days)
    weight = np.linspace(0.25, 1.0, len(ground.flavours))
    before = flavours.probabilities(tokens)
    after = flavours.tilted(np.ones(flavours.end + 1), weight).probabilities(tokens)
    assert after[:, -1] == pytest.approx(before[:, -1])
    assert after[:, 0] / after[:, 1] == pytest.approx(
        before[:, 0] / before[:, 1] * weight[0] / weight[1]
    )


@pytest.mark.parametrize("quality", QUALITIES)
def test_survival_is_to_the_power_of_the_rate(quality: str) -> None:
    ground, (trace, _) = model_parts_of(model_of(quality)), batches_of(a_log())
    before, after = (
        one.hazards(trace)[0] for one in (ground.lifetimes, ground.lifetimes.ending(0.5))
    )
    kept = (before < 1 - 1e-5) & (before > 1e-5)
    assert (1 - after)[kept] == pytest.approx(np.sqrt(1 - before[kept]), abs=1e-6)


@pytest.mark.parametrize("quality", [5.0, 0.5, "neural", "Tables"])
def test_a_quality_that_is_none_is_refused_in_words(quality: float | str) -> None:
    with pytest.raises(ScenarioError, match="allowed are tables, mix, trees, dimensions"):
        fit("three_stage", a_log(), quality=quality)


def test_a_model_of_before_there_were_qualities_has_tables() -> None:
    kept = model_of("tables")
    old = Model(
        kept.generator,
        {name: value for name, value in kept.parameters.items() if name != "quality"},
        kept.arrays,
    )
    assert generate(old, duration_s=DAY_S, seed=1) == generate(kept, duration_s=DAY_S, seed=1)


@pytest.mark.parametrize(
    ("quality", "name", "change", "said"),
    [
        ("mix", "mix_weight", lambda told: told[:-1], "numbers of shape"),
        ("mix", "mix_3_probability", lambda told: told * 0.5, "needs shares that sum to 1"),
        ("mix", "mix_0_parent", lambda told: told[::-1], "not a tree"),
        ("trees", "trees_left", np.zeros_like, "have a cycle"),
        ("trees", "trees_feature", lambda told: told + 13, "not from 0 to 12"),
        ("trees", "trees_threshold", lambda told: told * np.nan, "a number per node"),
        ("trees", "trees_value", lambda told: told[1:], "numbers of shape"),
        ("dimensions", "dimensions_value", np.zeros_like, "has the same values for two"),
        ("dimensions", "dimensions_value", lambda told: told + 9, "not from 0 to 3"),
        ("dimensions", "dimensions_0_probability", lambda told: told * 0.5, "needs shares that"),
        ("dimensions", "dimensions_1_parent", lambda told: told[::-1], "not a tree"),
    ],
)
def test_arrays_that_cannot_be_are_refused_in_words(quality, name, change, said) -> None:  # type: ignore[no-untyped-def]
    kept = model_of(quality)
    broken = Model(
        kept.generator, kept.parameters, {**kept.arrays, name: change(kept.arrays[name].copy())}
    )
    with pytest.raises(WorkloadError, match=said):
        generate(broken, duration_s=DAY_S, seed=1)


def test_facts_by_hand() -> None:
    # Tokens 0 0 1 1 0 E 2 E, where E is 3.
    facts = facts_of(tokens_of(trace_of([[0, 0, 1, 1, 0], [2]])))
    assert facts["before"].tolist() == [3, 0, 0, 1, 1, 0, 3, 2]
    assert facts["run"].tolist() == [0, 1, 2, 1, 2, 1, 0, 1]
    assert facts["earlier"].tolist() == [3, 3, 3, 0, 0, 1, 3, 3]
    assert facts["run_before"].tolist() == [0, 0, 0, 2, 2, 2, 0, 0]
    assert facts["place"].tolist() == [0, 1, 2, 3, 4, 5, 0, 1]
    assert facts["second"].tolist() == [3, 3, 0, 0, 1, 1, 3, 3]
    assert facts["third"].tolist() == [3, 3, 3, 0, 0, 1, 3, 3]
    assert facts["fifth"].tolist() == [3, 3, 3, 3, 3, 0, 3, 3]


def test_the_draw_remembers_what_the_fit_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the mix is asked while it draws is what it is told of the sequence that came of it."""
    trace = trace_of([[0, 0, 1], [1, 2, 2, 2, 0], [2], [0, 1, 0, 1, 1, 1]] * 300)
    model = fit_mix(trace, fit_flavours(tokens_of(trace)), 7.0)
    asked: list[dict[str, np.ndarray]] = []
    plain = flavour_models.FlavourMix._logs

    def noting(self: flavour_models.FlavourMix, facts: dict[str, np.ndarray]) -> np.ndarray:
        asked.append(dict(facts))
        return plain(self, facts)

    monkeypatch.setattr(flavour_models.FlavourMix, "_logs", noting)
    flavour, batch = model.draw(50, np.random.default_rng(4), None, np.zeros(50, dtype=np.int64))
    sizes = np.bincount(batch)
    told = facts_of(tokens_of(trace_of([part.tolist() for part in np.split(
        flavour, np.cumsum(sizes)[:-1]
    )])))  # fmt: skip
    begins = np.concatenate([[0], np.cumsum(sizes + 1)[:-1]])
    for step, facts in enumerate(asked):
        at = begins[sizes >= step] + step
        for name in facts:
            assert (facts[name] == told[name][at]).all(), (step, name)


def test_weights_of_a_known_mix_are_found() -> None:
    rng = np.random.default_rng(8)
    told = np.log(rng.dirichlet(np.ones(5), (3, 15_000))).astype(np.float32)
    true = np.array([0.9, 0.0, -0.4])
    chance = flavour_models._shares(np.tensordot(true, told, axes=1))
    token = (chance.cumsum(axis=1) < rng.random((15_000, 1))).sum(axis=1)
    prior = np.full((2, 3), 1 / 3)
    found = fit_weights(told, token, np.zeros(15_000, dtype=np.int64), prior)
    assert found[0] == pytest.approx(true, abs=0.05)
    assert found[1].tolist() == prior[1].tolist(), "a class that was not seen keeps its prior"


def test_a_mix_foresees_no_worse_than_its_table() -> None:
    rng = np.random.default_rng(9)
    # Which flavour a batch repeats to its end depends on the one before it alone.
    batches = [[int(a), int(b), *[int(b)] * int(k)] for a, b, k in rng.integers(0, 3, (3000, 3))]
    trace, tokens = trace_of(batches[:2000]), tokens_of(trace_of(batches[2000:]))
    table = fit_flavours(tokens_of(trace))
    assert score_flavours(fit_mix(trace, table, 0.0), tokens).nll < (
        score_flavours(table, tokens).nll + 0.01
    )
    held = trace_of(batches[1500:2000])
    taught = fit_mix(trace_of(batches[:1500]), table, 0.0, validation=held)
    assert taught.weight.shape == (len(RUN_CLASSES) + 1, len(MEMORIES))
    assert score_flavours(taught, tokens).nll < score_flavours(table, tokens).nll + 0.01


@pytest.mark.parametrize("seed", [1, 2])
def test_trees_say_what_the_library_says(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.integers(-3, 30, (3000, 4)).astype(float)
    happened = (rng.random(3000) < 1 / (1 + np.exp(rows[:, 0] / 5 - rows[:, 1] / 9))).astype(int)
    library = HistGradientBoostingClassifier(
        max_iter=20, max_leaf_nodes=15, early_stopping=False, random_state=0
    ).fit(rows, happened, sample_weight=rng.integers(1, 5, 3000))
    ours = export_trees(library)
    asked = rng.uniform(-5, 32, (9000, 4))
    asked[:30] = rows[:30]
    assert ours.sums(asked.T) == pytest.approx(library.decision_function(asked), abs=1e-12)
    assert ours.depths.max() == max(stage[0].get_max_depth() for stage in library._predictors)


def test_trees_find_hazards_that_are_known() -> None:
    """Flavour 0 ends in bin 2 or 5, half and half; flavour 1 always as the job before, or in 9."""
    rng = np.random.default_rng(3)
    lives = []
    for _ in range(1500):
        lives += [*rng.choice([2, 5], 2).tolist(), 9, 9]
    trace = trace_of([[0, 0], [1, 1]] * 1500, lives)
    trees = fit_trees(trace)
    hazard, row = trees.hazards(trace)
    of_each = hazard[row]
    first, later = of_each[trace.flavour == 0], of_each[trace.flavour == 1]
    assert first[:, 2] == pytest.approx(0.5, abs=0.1)
    assert first[:, [0, 1, 3, 4]].max() < 0.02
    assert later[:, 9].min() > 0.97
    assert later[:, :9].max() < 0.02
    drawn = trees.draw(trace.flavour, trace.batch, 3, np.random.default_rng(1))
    assert np.isin(drawn[trace.flavour == 1], 9).mean() > 0.95
    assert (drawn[trace.flavour == 0] == 2).mean() == pytest.approx(0.5, abs=0.05)


def test_the_trees_draw_remembers_what_their_fit_does(monkeypatch: pytest.MonkeyPatch) -> None:
    from sim.generators.cloud import lifetimes as module

    trace, _ = batches_of(a_log())
    trees = fit_hazards("trees", trace)
    asked: list[int] = []
    plain = LifetimeTrees._of

    def noting(self: LifetimeTrees, keys: np.ndarray) -> np.ndarray:
        asked.extend(keys.tolist())
        return plain(self, keys)

    monkeypatch.setattr(LifetimeTrees, "_of", noting)
    trace = trace.part(0, 288)
    drawn = trees.draw(trace.flavour, trace.batch, len(trace.flavours), np.random.default_rng(2))
    lived = CloudTrace(
        period=trace.period, batch=trace.batch, flavour=trace.flavour, lifetime=drawn,
        censored=np.zeros_like(drawn), flavours=trace.flavours, first_period=trace.first_period,
        n_periods=trace.n_periods, period_s=trace.period_s, bins=trace.bins,
    )  # fmt: skip
    assert set(asked) == set(module.tree_keys(lived).tolist())
    assert len(asked) == len(set(asked)), "each context is asked once"


def test_trees_that_would_learn_nothing_are_refused_in_words() -> None:
    with pytest.raises(WorkloadError, match="use quality 'tables'"):
        fit_trees(trace_of([[0], [1]], [0, 0]))
    with pytest.raises(WorkloadError, match="lifetimes of this trace are unknown"):
        fit_hazards("trees", trace_of([[0], [1]]))


def test_a_log_of_one_period_has_a_mix_too() -> None:
    trace = trace_of([[0, 1]] * 5)
    model = fit_next_flavour("mix", trace, 7.0, days_differ=True)
    assert score_flavours(model, tokens_of(trace)).nll < np.log(4)
