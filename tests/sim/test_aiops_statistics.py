"""Laws of a platform: known laws are recovered, and SciPy says the same where it knows them."""

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from sim.aiops.distributions import Mixture, PositiveDistribution, PreprocessingCurve, mixture_of
from sim.aiops.logs import (
    best_law,
    describe_fit,
    fit_arrivals,
    fit_curve,
    fit_law,
    fit_mixture,
    fit_statistics,
    read_logs,
)
from sim.aiops.platform_statistics import (
    CELLS,
    HOUR_S,
    MEDIAN_S,
    MIX,
    PROFILES,
    PipelineArrivals,
    arrival_blocks,
    published_arrivals,
    published_statistics,
    statistics_of,
)
from sim.aiops.validation import compare, ks_distance, wasserstein_distance
from sim.generators.generator import RandomStreams, load_model, save_model
from sim.model.errors import SetupError, TraceError, UnknownNameError

LAWS = (
    PositiveDistribution("lognorm", (0.9,), 20.0),
    PositiveDistribution("exponweib", (1.7, 0.75), 30.0),
    PositiveDistribution("pareto", (2.6,), 8.0),
)
WEEK_S = CELLS * HOUR_S


def law_of_scipy(law: PositiveDistribution) -> object:
    return getattr(stats, law.family)(*law.shapes, scale=law.scale)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.family)
def test_a_law_is_the_one_of_scipy(law: PositiveDistribution) -> None:
    other, p = law_of_scipy(law), np.linspace(0.001, 0.999, 50)
    x = law.quantile(p)
    np.testing.assert_allclose(x, other.ppf(p), rtol=1e-9)
    np.testing.assert_allclose(law.cdf(x), p, rtol=1e-9)
    np.testing.assert_allclose(law.pdf(x), other.pdf(x), rtol=1e-9)
    assert law.mean == pytest.approx(other.mean(), rel=1e-6)
    assert stats.kstest(law.sample(np.random.default_rng(1), 5_000), other.cdf).pvalue > 1e-3


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.family)
def test_a_known_law_is_recovered_and_chosen(law: PositiveDistribution) -> None:
    drawn = law.sample(np.random.default_rng(2), 4_000)
    found = best_law(drawn)
    assert found.family == law.family
    p = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
    np.testing.assert_allclose(found.quantile(p), law.quantile(p), rtol=0.08)


def test_a_law_under_which_nothing_would_arrive_again_is_left_aside() -> None:
    rng = np.random.default_rng(15)
    short = np.concatenate(
        [PositiveDistribution("pareto", (0.7,), 1.0).sample(rng, 200).clip(max=60), [60.0] * 20]
    )
    assert fit_law("pareto", short).mean > 1.5 * short.mean()
    assert best_law(short).mean < 1.5 * short.mean()


def test_no_exponentiated_weibull_is_likelier_than_the_fitted_one() -> None:
    drawn = LAWS[1].sample(np.random.default_rng(3), 400)
    found = fit_law("exponweib", drawn)
    best = np.log(found.pdf(drawn)).sum()
    a, c, _, scale = stats.exponweib.fit(drawn, 1.7, 0.75, floc=0, scale=30)
    assert best >= np.log(PositiveDistribution("exponweib", (a, c), scale).pdf(drawn)).sum() - 1e-3
    for factor in (0.97, 1.03):
        assert best > np.log(found.scaled(factor).pdf(drawn)).sum()


def test_laws_that_cannot_be() -> None:
    with pytest.raises(UnknownNameError, match="pareto"):
        PositiveDistribution("paretto", (1.0,), 1.0)
    with pytest.raises(SetupError, match="scale of law 'lognorm' is 0"):
        PositiveDistribution("lognorm", (1.0,), 0.0)
    with pytest.raises(SetupError, match="it takes a, c"):
        PositiveDistribution("exponweib", (1.0,), 1.0)
    with pytest.raises(SetupError, match="not all equal"):
        fit_law("lognorm", np.ones(5))


def test_a_mixture_stays_within_bounds_and_has_its_median() -> None:
    told = mixture_of(((0.6, 10.0, 0.5), (0.4, 300.0, 1.0)), 5.0, 1_000.0).with_median(50.0)
    drawn = told.sample(np.random.default_rng(4), 20_000)
    assert drawn.shape == (20_000, 1)
    assert drawn.min() >= 5.0
    assert drawn.max() <= 1_000.0
    free = Mixture(told.weights, told.means, told.covariances, [1e-9], [1e9])
    assert np.median(free.sample(np.random.default_rng(4), 50_000)) == pytest.approx(50, rel=0.05)
    with pytest.raises(SetupError, match="widen"):
        mixture_of(((1.0, 10.0, 0.1),), 1e6, 1e7).sample(np.random.default_rng(0), 10)
    with pytest.raises(SetupError, match="positive definite"):
        Mixture([1.0], [[0.0]], [[[-1.0]]], [1.0], [2.0])


def test_a_mixture_of_three_numbers_is_recovered() -> None:
    truth = published_statistics().assets
    drawn = truth.sample(np.random.default_rng(5), 2_000)
    found = fit_mixture(drawn, components=3).sample(np.random.default_rng(6), 4_000)
    for column in range(3):
        assert ks_distance(drawn[:, column], found[:, column]) < 0.04
    np.testing.assert_allclose(
        np.corrcoef(np.log(drawn.T)), np.corrcoef(np.log(found.T)), atol=0.06
    )
    assert np.all(found >= drawn.min(axis=0))
    assert np.all(found <= drawn.max(axis=0))


def test_a_curve_is_recovered() -> None:
    truth = PreprocessingCurve(0.018, 1.33, 2.0, PositiveDistribution("lognorm", (0.8,), 1.0))
    rng = np.random.default_rng(7)
    cells = np.exp(rng.normal(12, 2.5, 6_000))
    found = fit_curve(cells, truth.sample(rng, cells))
    assert found.b == pytest.approx(truth.b, rel=0.02)
    assert found.noise.shapes[0] == pytest.approx(0.8, rel=0.1)
    at = np.exp(np.array([8.0, 12.0, 16.0]))
    middle = [one.expected(at) + one.noise.scale for one in (truth, found)]
    np.testing.assert_allclose(middle[1], middle[0], rtol=0.08)


def everything(arrivals: PipelineArrivals, seed: int, **told: object) -> np.ndarray:
    return np.concatenate(list(arrival_blocks(arrivals, RandomStreams(seed), **told)))


def test_arrivals_by_hour_are_within_the_bands_over_four_weeks() -> None:
    arrivals = published_arrivals(120.0)
    expected = arrivals.hourly()
    assert int(np.argmax(expected)) % 24 == 16
    assert expected.sum() == pytest.approx(WEEK_S / 120.0, rel=1e-6)
    times = everything(arrivals, 8, profile="calendar", until_s=4 * WEEK_S)
    counts = np.bincount((times // HOUR_S).astype(int) % CELLS, minlength=CELLS) / 4
    law = arrivals.cells[0]
    z = np.linspace(0.0005, 0.9995, 1000)
    burst = float(np.var(law.quantile(z)) / np.mean(law.quantile(z)) ** 2)
    off = (counts - expected) / np.sqrt(expected * burst / 4)
    assert np.mean(np.abs(off) < 1.96) > 0.85
    assert abs(off.mean()) < 4 / np.sqrt(CELLS)


def test_a_gap_that_spans_hours_loses_arrivals_in_the_paper_and_not_here() -> None:
    slow, quick = (
        PositiveDistribution("lognorm", (0.5,), 8_000.0),
        PositiveDistribution("lognorm", (0.5,), 60.0),
    )
    arrivals = PipelineArrivals(
        quick, tuple(quick if hour % 4 == 3 else slow for hour in range(CELLS))
    )
    expected = arrivals.hourly().sum()
    shares = {
        profile: len(everything(arrivals, 9, profile=profile, until_s=WEEK_S)) / expected
        for profile in ("realistic", "calendar")
    }
    assert shares["realistic"] < 0.85
    assert shares["calendar"] == pytest.approx(1.0, abs=0.05)


def test_factor_replay_and_start() -> None:
    arrivals = fit_arrivals(np.array([5.0, 6.0, 9.0, 30.0]))
    np.testing.assert_allclose(everything(arrivals, 1, profile="replay"), [0, 1, 4, 25])
    np.testing.assert_allclose(
        everything(arrivals, 1, profile="replay", factor=2.0, until_s=9), [0, 2, 8]
    )
    base, far = published_arrivals(), {"profile": "random", "until_s": 1e5}
    once, twice = everything(base, 2, **far), everything(base, 2, **far, factor=2.0)
    np.testing.assert_allclose(twice, 2 * once[: len(twice)])
    night, peak = (
        len(everything(base, 3, until_s=HOUR_S, start_s=hour * HOUR_S)) for hour in (3, 16)
    )
    assert peak > 4 * night


def test_profiles_that_cannot_be() -> None:
    single = PipelineArrivals(LAWS[0])
    for profile, said in (("realistic", "by hour"), ("replay", "recorded"), ("none", "Known")):
        with pytest.raises((SetupError, UnknownNameError), match=said):
            next(arrival_blocks(single, RandomStreams(0), profile=profile))
    with pytest.raises(SetupError, match="factor is 0"):
        next(arrival_blocks(single, RandomStreams(0), profile="random", factor=0.0))
    assert set(PROFILES) == {"random", "realistic", "calendar", "replay"}


def test_fitted_arrivals_know_their_hours_and_thin_ones_borrow() -> None:
    truth = published_arrivals(100.0)
    times = everything(truth, 10, profile="calendar", until_s=3 * WEEK_S)
    found = fit_arrivals(times)
    assert np.corrcoef(found.hourly(), truth.hourly())[0, 1] > 0.95
    assert found.hourly().sum() == pytest.approx(truth.hourly().sum(), rel=0.05)
    monday = times[(times % WEEK_S) < 24 * HOUR_S]
    borrowed = fit_arrivals(monday[monday < WEEK_S])
    assert borrowed.cells[16] == borrowed.cells[24 + 16]  # Tuesday has none of its own
    assert borrowed.cells[16] != borrowed.cells[4]
    thin = fit_arrivals(np.arange(20) * 7.0 + np.sin(np.arange(20)))
    assert set(thin.cells) == {thin.everywhere}


def test_what_is_published_is_what_the_paper_prints(tmp_path: Path) -> None:
    told = published_statistics()
    assert told.mix == MIX == {
        "SparkML": 0.63, "TensorFlow": 0.32, "PyTorch": 0.03, "Caffe": 0.01, "other": 0.01
    }  # fmt: skip
    assert (MEDIAN_S["SparkML"], MEDIAN_S["TensorFlow"]) == (10.0, 180.0)
    for framework in ("SparkML", "TensorFlow"):
        drawn = told.train[framework].sample(np.random.default_rng(11), 40_000)
        assert np.median(drawn) == pytest.approx(MEDIAN_S[framework], rel=0.03)
    save_model(told.model(), tmp_path / "platform.json")
    back = statistics_of(load_model(tmp_path / "platform.json"))
    assert back.model() == told.model()
    assert back.source == told.source


def written(path: Path, n: int, seed: int) -> Path:
    """Write a log of known laws: those published, other shares of the frameworks."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    rng, told = np.random.default_rng(seed), published_statistics()
    frameworks = np.where(rng.random(n) < 0.25, "SparkML", "TensorFlow")
    seconds = np.where(
        frameworks == "SparkML",
        told.train["SparkML"].sample(rng, n)[:, 0],
        told.train["TensorFlow"].sample(rng, n)[:, 0],
    )
    sizes = told.assets.sample(rng, n)
    columns = {
        "task": np.repeat(["train", "preprocess"], n),
        "seconds": np.concatenate(
            [seconds, told.preprocess.sample(rng, sizes[:, 0] * sizes[:, 1])]
        ),
        "submit_s": np.tile(np.cumsum(LAWS[1].sample(rng, n)), 2),
        "framework": np.concatenate([frameworks, np.full(n, "")]),
        "estimator": np.concatenate([np.full(n, "network"), np.full(n, "")]),
        "performance": np.concatenate([rng.beta(8, 2, n), np.full(n, np.nan)]),
        **{name: np.tile(sizes[:, k], 2) for k, name in enumerate(("rows", "columns", "bytes"))},
    }
    table = pa.table({name: list(column) for name, column in columns.items()})
    (parquet.write_table if path.suffix == ".parquet" else csv.write_csv)(table, path)
    return path


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_statistics_are_fitted_from_a_users_log(ending: str, tmp_path: Path) -> None:
    logs = read_logs(written(tmp_path / f"log.{ending}", 1_500, 12))
    found = fit_statistics(logs, components=4)
    assert found.mix["SparkML"] == pytest.approx(0.25, abs=0.04)
    rng = np.random.default_rng(13)
    for framework in ("SparkML", "TensorFlow"):
        told = published_statistics().train[framework].sample(rng, 4_000)[:, 0]
        drawn = found.train[framework].sample(rng, 4_000)[:, 0]
        assert compare(framework, told, drawn).log_wasserstein < 0.3
        assert ks_distance(told, drawn) < 0.08
    assert found.arrivals.everywhere.mean == pytest.approx(LAWS[1].mean, rel=0.1)
    assert float(found.performance["network"][50]) == pytest.approx(0.82, abs=0.03)
    assert found.estimators["SparkML"] == {"network": 1.0}
    assert found.preprocess.b == pytest.approx(published_statistics().preprocess.b, rel=0.05)
    assert statistics_of(found.model()).model() == found.model()


def test_logs_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    for text, said in (
        ("task,other\ntrain,1\n", "'seconds' is needed"),
        ("task,seconds\n", "no task"),
        ("task,seconds\ntrain,soon\n", "numbers are expected"),
        ("", "not a log of tasks"),
    ):
        path.write_text(text)
        with pytest.raises(TraceError, match=said):
            read_logs(path)
    path.write_text("task,seconds\ntrain,1\n")
    with pytest.raises(SetupError, match="1 training jobs"):
        fit_statistics(read_logs(path))


def test_dates_are_told_from_the_monday_before_and_what_was_learnt_is_said(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    rows = [f"train,{10 + i % 7},2026-11-25T08:{i:02d}:30,TensorFlow" for i in range(30)]
    path.write_text("task,seconds,submitted,framework\n" + "\n".join([*rows, "etl,4,,"]) + "\n")
    logs = read_logs(path)
    wednesday_at_8_s = 2 * 86_400.0 + 8 * 3600.0
    assert logs.numbers["submit_s"][:2].tolist() == [wednesday_at_8_s + 30, wednesday_at_8_s + 90]
    assert np.isnan(logs.numbers["submit_s"][-1])
    told = " ".join(describe_fit(logs, fit_statistics(logs, components=2)))
    assert "31 executed tasks: 30 of train." in told
    assert "100.0% TensorFlow" in told
    assert "Published values, because the log has too few data: the sizes of data sets, " in told
    assert "arrivals" not in told
    assert "1 rows have an unknown task ('etl')" in told
    path.write_text("task,seconds,submitted\ntrain,1,yesterday\n")
    with pytest.raises(TraceError, match="dates with times"):
        read_logs(path)
    with pytest.raises(TraceError, match="no such file"):
        read_logs(tmp_path / "none.csv")


def test_comparisons_are_those_of_scipy() -> None:
    rng = np.random.default_rng(14)
    first, second = rng.lognormal(0, 1, 700), rng.lognormal(0.3, 1.2, 400)
    found = compare("x", first, second)
    assert found.ks == pytest.approx(stats.ks_2samp(first, second).statistic)
    assert found.wasserstein == pytest.approx(stats.wasserstein_distance(first, second))
    assert found.ks > found.ks_critical
    assert wasserstein_distance(first, first + 3.0) == pytest.approx(3.0)
    same = compare("y", first, rng.permutation(first))
    assert same.ks == 0
    assert same.observed == same.simulated
    with pytest.raises(SetupError, match="'z' needs numbers"):
        compare("z", first, np.array([]))
