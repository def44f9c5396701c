"""Every claim of the paper, judged on made-up episodes: borne out, refuted, or neither."""

import itertools
from collections.abc import Callable, Mapping

import numpy as np
import pytest

from agents.analysts.insight import Kind
from agents.reproduction import claims
from agents.reproduction.claims import LEVELS, BudgetQualities, ClaimVerdict, RunsToOptimum
from agents.studies.results import Estimate, Sample, mean_of, slope

CONFIDENCES = (0, 10, 50, 90, 100)
Means = Callable[[Kind, int, bool], float]


def sample(mean: float, spread: float = 1.0, seed: int = 0, found: float = 1.0) -> Sample:
    """Forty episodes with exactly this mean."""
    values = mean + spread * np.linspace(-1.0, 1.0, 40)
    return Sample.of(values.tolist(), np.random.default_rng(seed), found, resamples=300)


def few(mean: float, seed: int) -> Sample:
    """Four episodes with exactly this mean that hardly tell it."""
    values = [mean * share for share in (0.05, 0.05, 0.05, 3.85)]
    return Sample.of(values, np.random.default_rng(seed), resamples=300)


def runs(means: Means, table: str = "flood", *, are_few: bool = False) -> RunsToOptimum:
    """A row of figure 6 with these means."""
    insights: tuple[Kind, ...] = ("bad", "good", "none")
    keys = itertools.product(insights, CONFIDENCES, (False, True))
    make = few if are_few else lambda mean, seed: sample(mean, seed=seed)
    samples = {key: make(means(*key), seed) for seed, key in enumerate(keys)}
    return RunsToOptimum(table, samples, (1, 2))


def qualities(
    means: Mapping[tuple[int, float | None], float], table: str, spread: float = 0.01
) -> BudgetQualities:
    samples = {key: sample(mean, spread, seed) for seed, (key, mean) in enumerate(means.items())}
    return BudgetQualities(table, samples)


def bars(few: tuple[float, ...], many: tuple[float, ...]) -> dict[tuple[int, float | None], float]:
    """Ratios at 50 and at 200 runs, a mean per level."""
    both = ((50, few), (200, many))
    return {
        (budget, level): mean
        for budget, own in both
        for level, mean in zip(LEVELS, own, strict=True)
    }


def rising(insight: Kind, at: int, learning: bool) -> float:
    return 100.0 + at


def falling(insight: Kind, at: int, learning: bool) -> float:
    return 300.0 - at


def steeper_if_bad(insight: Kind, at: int, learning: bool) -> float:
    start = {"bad": 400.0, "none": 250.0, "good": 50.0}[insight]
    return start - {"bad": 2.0, "none": 1.0, "good": -1.0}[insight] * at - 30.0 * learning


def flatter_if_bad(insight: Kind, at: int, learning: bool) -> float:
    return 400.0 - {"bad": 1.0, "none": 2.0, "good": 0.0}[insight] * at + 30.0 * learning


def learning_early(insight: Kind, at: int, learning: bool) -> float:
    return 500.0 - learning * (100.0 - at)


def learning_late(insight: Kind, at: int, learning: bool) -> float:
    return 500.0 - learning * at


def leaping(insight: Kind, at: int, learning: bool) -> float:
    return 100.0 + 0.1 * at + 200.0 * (at == 100)


def ordered(insight: Kind, at: int, learning: bool) -> float:
    return {"good": 50.0, "none": 100.0, "bad": 200.0}[insight]


def reversed_order(insight: Kind, at: int, learning: bool) -> float:
    return {"good": 200.0, "none": 100.0, "bad": 50.0}[insight]


def learns(insight: Kind) -> Callable[[RunsToOptimum], ClaimVerdict]:
    return lambda row: claims.learning_helps(insight, row)


CONFIDENCE_CLAIMS: list[tuple[Callable[[RunsToOptimum], ClaimVerdict], Means, Means, str]] = [
    (claims.bad_falls, falling, rising, "maze"),
    (learns("bad"), steeper_if_bad, flatter_if_bad, "maze"),
    (learns("none"), steeper_if_bad, flatter_if_bad, "maze"),
    (claims.learning_helps_most_at_least, learning_early, learning_late, "maze"),
    (claims.good_rises, rising, falling, "maze"),
    (claims.last_step, leaping, rising, "flood"),
    (claims.last_step, rising, leaping, "maze"),
    (claims.learning_idle_for_good, rising, learning_early, "maze"),
    (claims.none_between, ordered, reversed_order, "maze"),
    (claims.none_falls_less, steeper_if_bad, flatter_if_bad, "maze"),
]


@pytest.mark.parametrize(("claim", "so", "otherwise", "table"), CONFIDENCE_CLAIMS)
def test_a_claim_on_confidence_both_ways_and_neither(
    claim: Callable[[RunsToOptimum], ClaimVerdict], so: Means, otherwise: Means, table: str
) -> None:
    holds, refuted = claim(runs(so, table)), claim(runs(otherwise, table))
    assert (holds.outcome, refuted.outcome) == ("holds", "does not hold")
    assert holds.why == ""
    assert refuted.why != "", "where a claim fails the reader is told what else is so"
    assert claim(runs(so, table, are_few=True)).outcome == "undecided"
    assert holds.figure == "6"
    assert holds.table == table
    assert holds.evidence.endswith(".")


def test_trust_saves_most_on_scheduling_or_does_not() -> None:
    steep = runs(lambda _i, at, _l: 1_000.0 - 9.0 * at, "scheduling")
    flat = runs(lambda _i, at, _l: 300.0 - at, "scheduling")
    others = [runs(lambda _i, at, _l: 400.0 - 2.0 * at, name) for name in ("flood", "maze")]
    assert claims.falls_most_on_scheduling(steep, [others[0], steep]).outcome == "holds"
    refuted = claims.falls_most_on_scheduling(flat, [*others, flat])
    assert refuted.outcome == "does not hold"
    assert refuted.table == "scheduling, flood and maze"


def test_in_between_is_both_sides() -> None:
    for bad, outcome in ((100.0, "undecided"), (80.0, "does not hold"), (120.0, "holds")):
        means = {"good": 50.0, "none": 100.0, "bad": bad}
        row = runs(lambda insight, _at, _learning, means=means: means[insight])  # type: ignore[misc]
        assert claims.none_between(row).outcome == outcome


def test_a_trend_tells_where_it_is_broken() -> None:
    row = runs(lambda _i, at, _l: 300.0 - at + 80.0 * (at == 50))
    told = claims.bad_falls(row)
    assert told.outcome == "holds"
    assert "yet the runs rise from 10 to 50 %" in told.evidence
    assert "yet" not in claims.bad_falls(runs(falling)).evidence


def test_what_was_given_up_is_told() -> None:
    row = runs(falling)
    samples = {**row.samples, ("bad", 10, False): sample(290.0, found=0.25)}
    assert "75% at 10 %, 0% at 100 %" in claims.bad_falls(RunsToOptimum("flood", samples)).evidence


MIXED, PURE = (0.5, 0.9, 0.8, 0.5), (0.9, 0.7, 0.7, 0.5)
FALLING, RISING = (0.9, 0.8, 0.7, 0.6), (0.6, 0.7, 0.8, 0.9)
EVEN = (0.8, 0.8, 0.8, 0.8)


def explores(figure: str, row: BudgetQualities) -> ClaimVerdict:
    return claims.direction(figure, row, more=False)


def exploits(figure: str, row: BudgetQualities) -> ClaimVerdict:
    return claims.direction(figure, row, more=True)


BUDGET_CLAIMS = [
    (claims.mixed_is_best, "flood", (MIXED, EVEN), (PURE, EVEN)),
    (claims.level_matters, "scheduling", (FALLING, EVEN), (EVEN, EVEN)),
    (claims.fades, "scheduling", (FALLING, EVEN), ((0.82, 0.81, 0.8, 0.79), FALLING)),
    (explores, "scheduling", (FALLING, EVEN), (RISING, EVEN)),
    (exploits, "maze", (RISING, EVEN), (FALLING, EVEN)),
]


@pytest.mark.parametrize(("claim", "table", "so", "otherwise"), BUDGET_CLAIMS)
def test_a_claim_on_budgets_both_ways_and_neither(
    claim: Callable[[str, BudgetQualities], ClaimVerdict],
    table: str,
    so: tuple[tuple[float, ...], tuple[float, ...]],
    otherwise: tuple[tuple[float, ...], tuple[float, ...]],
) -> None:
    assert claim("8", qualities(bars(*so), table)).outcome == "holds"
    refuted = claim("8", qualities(bars(*otherwise), table))
    assert refuted.outcome == "does not hold"
    assert refuted.why != ""
    assert claim("8", qualities(bars(*so), table, spread=3.0)).outcome == "undecided"


@pytest.mark.parametrize(("at_few", "at_many", "outcome"), [
    (0.3, 0.1, "holds"), (0.1, 0.3, "does not hold"), (0.2, 0.2, "undecided"),
])  # fmt: skip
def test_results_vary_more_with_few_runs_or_less(
    at_few: float, at_many: float, outcome: str
) -> None:
    samples = {
        (budget, level): sample(0.7, spread, seed)
        for seed, (level, (budget, spread)) in enumerate(
            itertools.product(LEVELS, ((50, at_few), (200, at_many)))
        )
    }
    assert claims.spread_at_small_budgets("7", BudgetQualities("flood", samples)).outcome == outcome


def test_no_influence_at_first_cannot_fade() -> None:
    told = claims.fades("9", qualities(bars(EVEN, FALLING), "maze"))
    assert told.outcome == "undecided"
    assert "that could fade" in told.why


def test_a_figure_is_asked_what_the_paper_says_of_it() -> None:
    for figure, (table, _) in claims.BUDGET_FIGURES.items():
        names = [
            one.claim for one in claims.judge_budgets(figure, qualities(bars(EVEN, EVEN), table))
        ]
        expected = {"flood": 2, "scheduling": 4, "maze": 3}
        assert len(names) == len(set(names)) == expected[table]


def test_three_rows_give_all_the_claims_of_figure_6() -> None:
    rows = [runs(falling, table) for table in ("flood", "scheduling", "maze")]
    verdicts = claims.judge_confidence(rows)
    assert len(verdicts) == 9 * 3 + 1
    assert len({(one.claim, one.table) for one in verdicts}) == len(verdicts)
    assert len(claims.judge_confidence(rows[2:])) == 9, "nothing to compare scheduling with"


def test_a_difference_is_surer_than_its_ends_are_apart() -> None:
    """The reason for intervals of differences: overlapping intervals say too little."""
    rng = np.random.default_rng(3)
    values = rng.normal(size=100)
    a, b = (Sample.of((values + shift).tolist(), rng).mean for shift in (0.0, 0.33))
    assert a.high > b.low, "the intervals overlap"
    assert (b - a).low > 0, "and the difference is sure"


def test_what_is_reckoned_of_one_cell_alone_is_not_reckoned_as_of_two() -> None:
    one = sample(5.0).mean
    assert (one - one).high == 0.0
    assert mean_of([one, one]).low == pytest.approx(one.low)
    assert slope([0, 1, 2], [one, one + 2, one + 4]).value == pytest.approx(2.0)
    with pytest.raises(ValueError, match="two different places"):
        slope([1, 1], [one, one])
    assert Estimate(0.5, np.array([0.5])).log().expm1().value == pytest.approx(-0.5)
