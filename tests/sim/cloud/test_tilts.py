"""What-ifs: known answers of each tilt, on models made by hand and on a fitted one."""

from functools import cache

import numpy as np
import pytest

from sim.generators.cloud.arrivals import BatchArrivals
from sim.generators.cloud.batches import JobExamples
from sim.generators.cloud.flavours import FlavourTable, fit_flavours, tokens_of
from sim.generators.cloud.lifetimes import fit_lifetimes, lifetime_probabilities
from sim.generators.cloud.three_stage import (
    FOR_ALL,
    FOR_BATCHES,
    KNOBS,
    ModelTilts,
    draw_batches,
    fit_batches,
    tilts_of,
)
from sim.generators.generator import Json, Model, RandomStreams, generate, generator_named
from sim.model.cloud_trace import Bins, CloudTrace, Flavour
from sim.model.errors import WorkloadError

PER_DAY, N_DAYS = 288, 14
FLAVOURS = (Flavour("small", 1000, 2**30), Flavour("wide", 4000, 2**31), Flavour("own", 2000, -1))
EXAMPLES = JobExamples(
    np.arange(4), np.array([1, 4, 2]), np.full(3, 2_592_000.0), np.array([2**30, 2**29, -1])
)
NAMES = ("three_stage", "simple_batch", "naive")


@cache
def a_model(name: str) -> Model:
    """Return a model of two weeks: two batches a period, flavours at random, lives of an hour."""
    rng = np.random.default_rng(8)
    sizes = rng.integers(1, 6, size=2 * PER_DAY * N_DAYS)
    n = int(sizes.sum())
    bins = Bins(tuple(300.0 * np.arange(1, 60)), 40_000.0)
    trace = CloudTrace(
        period=np.repeat(np.repeat(np.arange(PER_DAY * N_DAYS), 2), sizes),
        batch=np.repeat(np.arange(len(sizes)), sizes),
        flavour=rng.choice(3, size=n, p=[0.5, 0.2, 0.3]),
        lifetime=bins.of(rng.exponential(3600.0, n)),
        censored=np.zeros(n, dtype=np.int64),
        flavours=FLAVOURS,
        first_period=0,
        n_periods=PER_DAY * N_DAYS,
        bins=bins,
    )
    knobs = {knob.name: knob.usual for knob in KNOBS} | {"half_life_days": 0.0, "days_differ": 0.0}
    return fit_batches(name, trace, EXAMPLES, knobs, of="a test")


def drawn(name: str, told: dict[str, Json] | None = None, scale: float = 1.0) -> CloudTrace:
    model = a_model(name).with_parameters(told or {})
    trace = draw_batches(model, 0, PER_DAY * N_DAYS, RandomStreams(4), scale)
    assert trace is not None
    return trace


def shares(trace: CloudTrace) -> np.ndarray:
    return np.bincount(trace.flavour, minlength=3) / trace.n_jobs


@pytest.mark.parametrize("name", NAMES)
def test_what_is_as_usual_changes_nothing(name: str) -> None:
    model = a_model(name)
    bare = {k: v for k, v in model.parameters.items() if k not in {*FOR_ALL, *FOR_BATCHES}}
    older = Model(name, bare, model.arrays)
    generator_named(name).check(older)
    made = [generate(one, duration_s=86_400.0, seed=1) for one in (model, older)]
    assert made[0] == made[1]


@pytest.mark.parametrize("name", NAMES)
def test_ten_times_the_arrivals(name: str) -> None:
    few, many = drawn(name), drawn(name, scale=10.0)
    assert many.n_jobs / few.n_jobs == pytest.approx(10.0, rel=0.03)
    assert shares(many) == pytest.approx(shares(few), abs=0.02)
    assert many.batch_sizes.mean() == pytest.approx(few.batch_sizes.mean(), rel=0.03)


@pytest.mark.parametrize("name", NAMES)
def test_more_of_a_resource_by_known_shares(name: str) -> None:
    usual = shares(drawn(name))
    for tilt, resource, tilts in (
        ("cores_tilt", [1.0, 4.0, 2.0], (1.0, -2.0)),
        ("memory_tilt", [1.0, 2.0, 1.0], (3.0,)),
    ):
        for power in tilts:
            wanted = usual * np.array(resource) ** power
            trace = drawn(name, {tilt: power})
            assert shares(trace) == pytest.approx(wanted / wanted.sum(), abs=0.015)
            assert trace.batch_sizes.mean() == pytest.approx(
                drawn(name).batch_sizes.mean(), rel=0.03
            ), "batches are as large as before"


def test_odds_by_name_and_of_the_end_are_odds() -> None:
    model = a_model("three_stage").with_parameters(
        {"end_odds": 0.25, "flavour_odds": {"wide": 3.0}}
    )
    tokens = tokens_of(drawn("three_stage"))
    table = fit_flavours(tokens)
    other = tilts_of(model, FLAVOURS).next_flavour(table)
    assert isinstance(other, FlavourTable)
    before, after = table.probability, other.probability
    assert after.sum(axis=1) == pytest.approx(1.0)
    assert after[:, 1] / after[:, 0] == pytest.approx(3.0 * before[:, 1] / before[:, 0])
    assert after[:, 3] / after[:, 0] == pytest.approx(0.25 * before[:, 3] / before[:, 0])


@pytest.mark.parametrize("name", ["simple_batch", "naive"])
def test_odds_by_name_of_flavours_that_are_drawn_alone(name: str) -> None:
    wanted = shares(drawn(name)) * np.array([1.0, 5.0, 1.0])
    found = shares(drawn(name, {"flavour_odds": {"wide": 5.0}}))
    assert found == pytest.approx(wanted / wanted.sum(), abs=0.02)


@pytest.mark.parametrize("rate", [0.5, 3.0])
def test_survival_is_taken_to_the_power_of_the_rate(rate: float) -> None:
    table = fit_lifetimes(drawn("three_stage"), 1)
    other = table.ending(rate)
    outlived, outlived_then = (
        1 - np.cumsum(lifetime_probabilities(t.hazard), axis=1)[:, :20] for t in (table, other)
    )
    assert outlived_then == pytest.approx(outlived**rate, abs=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_exponential_lives_become_twice_as_long(name: str) -> None:
    usual, longer = (
        trace.bins.seconds(trace.lifetime, np.random.default_rng(1)).mean()
        for trace in (drawn(name), drawn(name, {"ending_rate": 0.5}))
    )
    assert usual == pytest.approx(3600.0, rel=0.05)
    assert longer == pytest.approx(7200.0, rel=0.07)


@pytest.mark.parametrize("name", NAMES)
def test_weekends_alone_bring_more(name: str) -> None:
    usual, busier = (drawn(name, told, scale=8.0) for told in ({}, {"weekend_load": 3.0}))
    by_day = [np.bincount(trace.period // PER_DAY % 7, minlength=7) for trace in (usual, busier)]
    ratio = by_day[1] / by_day[0]
    assert ratio[[2, 3]] == pytest.approx(3.0, rel=0.06)
    assert ratio[[0, 1, 4, 5, 6]] == pytest.approx(1.0, rel=0.06)


def test_the_weekend_is_saturday_and_sunday() -> None:
    """Day 2 of the clock is 3 January 1970, a Saturday."""
    law = BatchArrivals(0.0, np.zeros(24), np.zeros(7), np.zeros(1), 0.0, 0, 1.0)
    tilts = ModelTilts(1.0, np.ones(1), np.ones(1), 1.0, 2.0)
    saturday_to_monday = np.arange(2, 5) * PER_DAY
    found = np.exp(tilts.arrivals(law).log_mean(saturday_to_monday, 300.0))
    assert found == pytest.approx([2.0, 2.0, 1.0])
    assert (law.of_day == 0).all()


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"cores_tilt": 11}, "cores_tilt"),
        ({"cores_tilt": "much"}, "cores_tilt"),
        ({"ending_rate": 0}, "ending_rate"),
        ({"weekend_load": -1}, "weekend_load"),
        ({"flavour_odds": {"huge": 2.0}}, "its flavours are small, wide, own"),
        ({"flavour_odds": 3}, "table of numbers"),
    ],
)
@pytest.mark.parametrize("name", NAMES)
def test_what_cannot_be_is_refused(name: str, told: dict[str, Json], said: str) -> None:
    with pytest.raises(WorkloadError, match=said):
        generate(a_model(name).with_parameters(told), duration_s=3600.0, seed=1)


def test_memory_that_nobody_tells_cannot_be_tilted() -> None:
    model = Model("naive", {"memory_tilt": 1.0})
    with pytest.raises(WorkloadError, match="flavour memory is unknown"):
        tilts_of(model, (Flavour("a", 1000), Flavour("b", 2000)))


def test_only_batches_that_end_by_tables_have_odds_of_the_end() -> None:
    assert "end_odds" in a_model("three_stage").parameters
    with pytest.raises(WorkloadError, match="end_odds"):
        a_model("naive").with_parameters({"end_odds": 2.0})
