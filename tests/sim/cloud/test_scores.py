"""Scores by hand, and on Azure beside the figures that the paper prints."""

from pathlib import Path

import numpy as np
import pytest

from sim.formats.vm_trace import read_bergsma, read_flavours
from sim.generators.cloud.capacity import band_of, cores_in_use
from sim.generators.cloud.flavour_models import fit_mix
from sim.generators.cloud.flavours import fit_flavours, recency, tokens_of
from sim.generators.cloud.lifetimes import fit_lifetimes
from sim.generators.cloud.model_parts import fit_hazards
from sim.generators.cloud.scores import (
    baseline_flavours,
    repeat_lifetime_error,
    reuse_distances,
    score_coin_flip,
    score_flavours,
    score_lifetimes,
    total_variation,
)
from sim.model.cloud_trace import CloudTrace
from tests.sim.cloud.test_stages import trace_of


def test_reuse_distances_by_hand() -> None:
    # a a b a c b: a again at 0, b new, a after b (1), c new, b after a and c (2).
    shares = reuse_distances(np.array([0, 0, 1, 0, 2, 1]), 4)
    assert shares.tolist() == pytest.approx([1 / 3, 1 / 3, 1 / 3, 0])
    assert total_variation(shares, np.array([1.0, 0, 0, 0])) == pytest.approx(2 / 3)


def test_lifetimes_are_scored_bin_by_bin() -> None:
    trace = trace_of([[0], [0]], [1, 1], censored=(1,))
    table = fit_lifetimes(trace, 0)
    h = table.hazard[0]
    loss = -(np.log(1 - h[0]) + np.log(h[1])) - np.log(1 - h[0])
    score = score_lifetimes(table, trace)
    assert score.bce == pytest.approx(loss / 3)
    assert score.nll == pytest.approx(loss / 2)
    coin = score_coin_flip(trace)
    assert coin.bce == pytest.approx(np.log(2))
    assert coin.nll == pytest.approx(1.5 * np.log(2))


def test_the_masked_error_looks_no_further_than_the_truth() -> None:
    taught = trace_of([[0]] * 10, [5] * 6 + [2] * 4)
    table = fit_lifetimes(taught, 0)
    score = score_lifetimes(table, trace_of([[0], [0]], [5, 2]))
    assert score.error == 0.5, "5 is the likeliest"
    assert score.masked_error == 0.0, "2 is the likeliest up to 2"


def test_repeating_the_lifetime_before() -> None:
    taught = trace_of([[0]] * 5, [3] * 5)
    asked = trace_of([[0, 0], [0, 0]], [3, 3, 9, 1])
    assert repeat_lifetime_error(fit_lifetimes(taught, 0), asked) == 0.5


def test_cores_in_use_by_hand() -> None:
    trace = CloudTrace(
        period=np.array([10, 11, 12]),
        batch=np.arange(3),
        flavour=np.zeros(3, dtype=np.int64),
        lifetime=np.array([2, 1, 1]),
        censored=np.array([0, 0, 1]),
        flavours=trace_of([[0]]).flavours,
        first_period=10,
        n_periods=6,
    )
    used = cores_in_use(trace, np.random.default_rng(0))
    assert used.tolist() == [1, 2, 1, 1, 1, 1]


def test_bands_and_what_suffices() -> None:
    futures = [np.array([float(i), 10.0]) for i in range(101)]
    band = band_of(futures)
    assert (band.low[0], band.median[0], band.high[0]) == pytest.approx((5, 50, 95))
    truth = np.array([96.0, 10.0])
    assert band.covers(truth) == 0.5
    assert band.mean_width == pytest.approx(45.0)
    assert band.interval_score(truth) == pytest.approx((90 + 20 * 1.0 + 0) / 2)


@pytest.mark.soak
@pytest.mark.slow
def test_azure_beside_the_paper(shared_data: Path) -> None:
    """Table 2 to the digit, Table 3 by its baselines; our tables within their targets."""
    folder = shared_data / "azure_v1"
    flavours = read_flavours(folder / "flav_map.txt")
    train = read_bergsma(folder / "v1.train.txt.gz", flavours)
    dev = read_bergsma(folder / "v1.dev.txt.gz", flavours, folder / "v1.dev.c2100000.txt.gz")
    test = read_bergsma(folder / "v1.test.txt.gz", flavours, folder / "v1.test.c2591400.txt.gz")
    assert (train.n_jobs, dev.n_jobs, test.n_jobs) == (1_200_998, 259_159, 410_276)
    taught, tokens = tokens_of(train), tokens_of(test)
    told = baseline_flavours(taught, tokens)
    assert told["Uniform"].nll == pytest.approx(2.83, abs=0.005)
    assert told["Multinomial"].nll == pytest.approx(1.5750, abs=0.00005)
    assert told["Multinomial"].error == pytest.approx(0.5467, abs=0.00005)
    assert told["RepeatFlav"].error == pytest.approx(0.2970, abs=0.00005)
    ours = score_flavours(fit_flavours(taught), tokens)
    assert ours.nll <= 0.675
    assert ours.error <= 0.262
    pooled = fit_lifetimes(dev, 0)
    assert repeat_lifetime_error(pooled, test) == pytest.approx(0.4369, abs=0.00005)
    assert score_coin_flip(test).bce == pytest.approx(0.693, abs=0.0005)
    both = score_lifetimes(pooled, test)
    assert (both.error, both.masked_error) == pytest.approx((0.8785, 0.7377), abs=0.00005)
    assert score_lifetimes(fit_lifetimes(dev), test).bce <= 0.162
    assert score_lifetimes(fit_hazards("trees", dev), test).bce <= 0.140
    recent = fit_flavours(taught, recency(taught, train, 7.0))
    mixed = fit_mix(train, recent, 7.0, validation=dev)
    score = score_flavours(mixed, tokens)
    assert (score.nll <= 0.665, score.error <= 0.2585) == (True, True)
