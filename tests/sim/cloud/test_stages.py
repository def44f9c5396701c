"""The three stages: known answers by hand, recovered laws, draws that follow their tables."""

import numpy as np
import pytest

from sim.generators.cloud import flavours
from sim.generators.cloud.arrivals import BatchArrivals, coverage, fit_arrivals, recent_mean
from sim.generators.cloud.contexts import observed_contexts
from sim.generators.cloud.flavours import draw_flavours, fit_flavours, run_class, tokens_of
from sim.generators.cloud.lifetimes import (
    LEAN,
    LEAN_ALONE,
    draw_lifetimes,
    fit_lifetimes,
    lifetime_probabilities,
)
from sim.model.cloud_trace import CloudTrace, Flavour

PER_DAY = 288


def trace_of(
    batches: list[list[int]], lifetimes: list[int] | None = None, censored: tuple[int, ...] = ()
) -> CloudTrace:
    """Return a trace of one period whose batches have these flavours (0, 1, 2)."""
    sizes = [len(batch) for batch in batches]
    n = sum(sizes)
    return CloudTrace(
        period=np.zeros(n, dtype=np.int64),
        batch=np.repeat(np.arange(len(batches)), sizes),
        flavour=np.array([one for batch in batches for one in batch]),
        lifetime=np.full(n, -1) if lifetimes is None else np.array(lifetimes),
        censored=np.isin(np.arange(n), censored).astype(np.int64),
        flavours=tuple(Flavour(name, 1000) for name in "abc"),
        first_period=0,
        n_periods=20_000,  # so long that nobody lives long
    )


def law(**changed: object) -> BatchArrivals:
    hours = np.log(np.where(np.arange(24) < 8, 20.0, 60.0))
    told = {
        "intercept": 0.0, "of_hour": hours, "of_day": np.zeros(7), "of_history": np.zeros(21),
        "dispersion": 0.0, "first_day": 0, "back": 1 / 7,
    }  # fmt: skip
    return BatchArrivals(**(told | changed))  # type: ignore[arg-type]


@pytest.mark.parametrize("dispersion", [0.0, 0.05])
def test_the_law_of_arrivals_is_recovered(dispersion: float) -> None:
    rng = np.random.default_rng(3)
    true = law(dispersion=dispersion, back=1.0)
    period = np.arange(21 * PER_DAY)
    counts = true.counts(np.exp(true.log_mean(period, 300.0)), rng)
    found = fit_arrivals(counts, 0, 300.0, penalty=1e-3)
    means = np.exp(found.log_mean(period, 300.0) + found.history()[period // PER_DAY])
    by_hour = means.reshape(21, 24, 12).mean(axis=(0, 2))
    assert by_hour == pytest.approx(np.exp(true.of_hour), rel=0.06)
    assert found.dispersion == pytest.approx(dispersion, abs=0.004)
    later = true.counts(np.exp(true.log_mean(period, 300.0)), rng)
    inside, width = coverage(found, later, 21 * PER_DAY, 300.0, rng)
    assert 0.87 < inside < 0.95
    assert width > 5


@pytest.mark.parametrize(("n_days", "first_day"), [(7, 0), (10, 3), (21, 5), (40, 6)])
def test_weeks_of_the_history_have_the_weekdays_of_the_days_they_are_for(
    n_days: int, first_day: int
) -> None:
    one = law(of_history=np.zeros(n_days), first_day=first_day)
    rng = np.random.default_rng(n_days)
    for begin in range(first_day + n_days, first_day + n_days + 7):
        days = begin + np.arange(24)
        taken = one.draw(days, 86_400.0, rng, by_week=True)[1]
        assert ((taken >= 0) & (taken < n_days)).all()
        assert ((first_day + taken - days) % 7 == 0).all()
        for week in (taken[:7], taken[7:14], taken[14:21]):
            assert week.max() - week.min() <= 13  # around one day, or a week from it at an end
    near = np.arange(n_days)
    for weekday in range(7):
        found = one.of_weekday(near, np.full(n_days, weekday))
        alike = near[(first_day + near) % 7 == weekday]
        nearest = np.abs(alike[None, :] - near[:, None]).min(axis=1)
        inside = (near >= 3) & (near < n_days - 3)
        assert (np.abs(found - near)[inside] == nearest[inside]).all()


def test_a_history_shorter_than_a_week_is_taken_as_it_is() -> None:
    one = law(of_history=np.zeros(3))
    taken = one.draw(3 + np.arange(30), 86_400.0, np.random.default_rng(1), by_week=True)[1]
    assert ((taken >= 0) & (taken < 3)).all()


def test_the_level_of_a_week_is_that_of_one_day() -> None:
    levels = np.log([10.0, 30.0, 15.0, 7.0, 22.0, 12.0, 40.0, 9.0, 18.0, 26.0])
    one = law(
        of_hour=np.zeros(24), of_history=np.diff(levels, prepend=0.0), of_day=np.full(7, 5.0),
        back=0.2,
    )  # fmt: skip
    rng, days = np.random.default_rng(5), 10 + np.arange(21)
    near = levels[None, :] + 5.0
    for _ in range(20):
        found = np.log(one.draw(days, 86_400.0, rng, by_week=True)[0])
        for week in (found[:7], found[7:14], found[14:]):
            off = np.abs(week[:, None] - near).max(axis=0)
            assert off.min() < 0.15, "one day of the history explains the week"
    alone = [np.log(one.draw(days, 86_400.0, rng)[0])[:7].std() for _ in range(20)]
    assert np.mean(alone) > 0.2


def test_a_step_in_the_history_is_found() -> None:
    rng = np.random.default_rng(4)
    counts = rng.poisson(np.where(np.arange(20 * PER_DAY) < 10 * PER_DAY, 10.0, 30.0))
    found = fit_arrivals(counts, 0, 300.0, penalty=1e-3)
    levels = found.history()
    assert levels[10:].mean() - levels[:10].mean() == pytest.approx(np.log(3.0), abs=0.05)


def test_days_of_the_history_are_geometric_and_go_around() -> None:
    days = law(back=0.5).drawn_days(40_000, np.random.default_rng(1))
    assert np.bincount(days, minlength=21)[[20, 19, 18]] / 40_000 == pytest.approx(
        [0.5, 0.25, 0.125], abs=0.01
    )
    assert law(back=1.0).drawn_days(5, np.random.default_rng(1)).tolist() == [20] * 5
    as_published = law(back=0.5).drawn_days(40_000, np.random.default_rng(1), as_published=True)
    assert ((as_published - 1) % 21 == days).all(), "a day late, and the first for the last"
    around = law(back=1e-3).drawn_days(20_000, np.random.default_rng(1))
    assert np.bincount(around, minlength=21).min() > 700, "before the first it begins again"


def test_contexts_fall_back_to_what_was_seen() -> None:
    contexts, of_level = observed_contexts([np.array([1, 1, 2]), np.array([10, 11, 20])])
    assert contexts.parent.tolist() == [0, 0, 0, 1, 1, 2]
    assert of_level[2].tolist() == [3, 4, 5]
    asked = [np.array([1, 1, 2, 9]), np.array([11, 99, 20, 9])]
    assert contexts.rows(asked).tolist() == [4, 1, 5, 0]
    rare, rows = observed_contexts([np.array([1, 1, 2]), np.array([10, 10, 20])], least=2)
    assert rows[2].tolist() == [3, 3, -1]
    assert rare.n_rows == 4


def test_tokens_know_what_came_before() -> None:
    tokens = tokens_of(trace_of([[0, 0, 1], [2]]))
    assert tokens.token.tolist() == [0, 0, 1, 3, 2, 3]
    assert tokens.job.tolist() == [0, 1, 2, 2, 3, 3], "an end belongs to the job before it"
    assert tokens.before.tolist() == [3, 0, 0, 1, 3, 2]
    assert tokens.run.tolist() == [0, 1, 2, 1, 0, 1]
    assert tokens.earlier.tolist() == [3, 3, 3, 0, 3, 3]


def test_runs_have_classes_that_never_fall() -> None:
    classes = run_class(np.arange(100_000))
    assert classes[:9].tolist() == list(range(9))
    assert (np.diff(classes) >= 0).all()
    assert classes.max() == 31


def test_witten_and_bell_by_hand() -> None:
    # Tokens: 0 0 E 1 E. Level 0 has seen 3 kinds in 5: (count + 3/4) / 8.
    table = fit_flavours(tokens_of(trace_of([[0, 0], [1]])))
    pooled = np.array([2 + 0.75, 1 + 0.75, 0.75, 2 + 0.75]) / 8
    assert table.probability[0] == pytest.approx(pooled)
    # After an E: 0 and 1 once each, two kinds.
    begins = (np.array([1, 1, 0, 0]) + 2 * pooled) / 4
    for _ in range(2):  # with the run, and with the flavour before it, nothing more is told
        begins = (np.array([1, 1, 0, 0]) + 2 * begins) / 4
    row = table.rows(np.array([3]), np.array([0]), np.array([3]))
    assert table.probability[row[0]] == pytest.approx(begins)
    assert table.probability.sum(axis=1) == pytest.approx(1.0)


def test_drawn_batches_follow_the_table_and_none_is_empty() -> None:
    taught = trace_of([[0, 0, 0], [0, 1], [2]] * 200)
    flavour, batch = draw_flavours(
        fit_flavours(tokens_of(taught)), 30_000, np.random.default_rng(2)
    )
    assert np.bincount(batch).min() >= 1
    assert (np.diff(batch) >= 0).all()
    sizes = np.bincount(np.bincount(batch))[1:4] / 30_000
    assert sizes == pytest.approx([1 / 3, 1 / 3, 1 / 3], abs=0.02)
    assert np.bincount(flavour) / len(flavour) == pytest.approx([4 / 6, 1 / 6, 1 / 6], abs=0.02)


def test_kaplan_and_meier_by_hand() -> None:
    # Five jobs: ended in bins 0, 1, 1 and 3, one seen last in bin 2.
    trace = trace_of([[0], [0], [0], [0], [0]], [0, 1, 1, 2, 3], censored=(3,))
    hazard = fit_lifetimes(trace, 0).hazard[0]
    at_risk, ended = np.array([5, 4, 1, 1, 0]), np.array([1, 2, 0, 1, 0])
    assert hazard[:5] == pytest.approx((ended + 0.5) / (at_risk + 1))


def test_a_context_leans_on_the_one_above() -> None:
    trace = trace_of([[0], [0], [1], [1]], [0, 0, 2, 2])
    alone = fit_lifetimes(trace, 1)
    pooled = alone.hazard[0, 0]
    assert alone.hazard[1, 0] == pytest.approx((2 + LEAN_ALONE * pooled) / (2 + LEAN_ALONE))
    table = fit_lifetimes(trace, 2)
    assert table.hazard[0, 0] == pooled
    assert table.hazard[1, 0] == pytest.approx((2 + LEAN * pooled) / (2 + LEAN))
    assert table.hazard[2, 0] == pytest.approx(LEAN * pooled / (2 + LEAN)), "of one kind of end"


def test_masses_add_up() -> None:
    hazard = np.random.default_rng(0).random((10, 47))
    assert lifetime_probabilities(hazard).sum(axis=1) == pytest.approx(1.0)
    assert (lifetime_probabilities(hazard) >= 0).all()


def test_drawn_lifetimes_remember() -> None:
    """Within a batch all live alike, in the trace and in what is drawn from it."""
    rng = np.random.default_rng(6)
    first = rng.choice([2, 20], 2000)
    trace = trace_of([[0, 0, 0]] * 2000, np.repeat(first, 3).tolist())
    table = fit_lifetimes(trace)
    flavour, batch = np.zeros(6000, dtype=np.int64), np.repeat(np.arange(2000), 3)
    drawn = draw_lifetimes(table, flavour, batch, 3, rng).reshape(-1, 3)
    assert (drawn[:, 0] == 2).mean() == pytest.approx(0.5, abs=0.05)
    assert (drawn[:, 1:] == drawn[:, :1]).mean() > 0.97
    alone = draw_lifetimes(fit_lifetimes(trace, 1), flavour, batch, 3, rng).reshape(-1, 3)
    assert (alone[:, 1] == alone[:, 0]).mean() == pytest.approx(0.5, abs=0.05)


def test_a_day_takes_its_flavours_from_a_day_of_the_history(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(flavours, "DAY_LEANS", 20.0)
    tokens = tokens_of(trace_of([[0]] * 3000 + [[1, 1]] * 3000))
    day = np.repeat([0, 1], [6000, 9000])
    table = fit_flavours(tokens, day=day)
    asked = np.repeat([0, 1], 2000)
    flavour, batch = draw_flavours(table, 4000, np.random.default_rng(1), asked)
    first = flavour[np.flatnonzero(np.diff(batch, prepend=-1))]
    assert (first[:2000] == 0).mean() > 0.98
    assert (first[2000:] == 1).mean() > 0.98
    mixed, batch = draw_flavours(table, 4000, np.random.default_rng(1))
    first = mixed[np.flatnonzero(np.diff(batch, prepend=-1))]
    assert (first == 0).mean() == pytest.approx(0.5, abs=0.05)


def test_days_before_those_that_are_kept_have_the_table_of_all() -> None:
    tokens = tokens_of(trace_of([[0]] * 100 + [[1]] * 100))
    day = np.repeat([0, 60], 200)
    table = fit_flavours(tokens, day=day)
    assert (table.n_days, len(table.by_day)) == (61, 42)
    flavour, _ = draw_flavours(table, 400, np.random.default_rng(1), np.zeros(400, dtype=np.int64))
    assert (flavour == 0).mean() == pytest.approx(0.5, abs=0.1)


def test_days_that_are_drawn_bring_as_much_as_those_they_take() -> None:
    """Also where weekdays and the level of the days went together."""
    rng = np.random.default_rng(5)
    day = np.arange(12 * 7)
    per_day = np.where(day % 7 == 3, 4000.0, 300.0) * np.where(day >= 80, 8.0, 1.0)
    counts = rng.poisson(np.repeat(per_day / PER_DAY, PER_DAY))
    for back in (1e-4, 1 / 7):
        found = fit_arrivals(counts, 0, 300.0, penalty=1e-3, back=back)
        wanted = recent_mean(counts, 0, 300.0, back)
        levels = np.exp(found.history(found.drawn_days(400_000, rng))).mean()
        of_week = np.exp(found.log_mean(84 * PER_DAY + np.arange(7 * PER_DAY), 300.0)).mean()
        assert of_week * levels == pytest.approx(wanted, rel=0.02)
    assert recent_mean(counts, 0, 300.0, 1e-4) == pytest.approx(counts.mean(), rel=0.02)
