"""Verdicts on the claims of the Copper paper: they hold, do not hold, or are undecided.

Figure 6 and section 4.2 of the paper: runs to the optimum over confidence, and its claims.
Figures 7 to 9 and section 4.3: the best result of a budget over exploitation levels.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from agents.analysts.insight import Kind
from agents.studies.results import Estimate, Sample, mean_of, slope

Outcome = Literal["holds", "does not hold", "undecided"]
OUTCOMES: tuple[Outcome, ...] = ("holds", "does not hold", "undecided")


@dataclass(frozen=True, slots=True)
class ClaimVerdict:
    """Verdict on a claim of the Copper paper or this project: holds, does not hold, undecided."""

    claim: str  # short name
    figure: str  # figure of the paper that it is about
    table: str  # application, or several
    text: str  # the claim in our words
    outcome: Outcome  # the verdict
    evidence: str  # a sentence with the numbers and their 95 % intervals
    why: str = ""  # explanation if it does not hold; else empty


def above_zero(*estimates: Estimate) -> Outcome:
    """Judge the claim that all given estimates are above 0, by their 95% intervals.

    >>> import numpy as np
    >>> few = Estimate(1.0, np.array([0.5, 1.5]))
    >>> above_zero(few), above_zero(few, -few), above_zero(few - 1)
    ('holds', 'does not hold', 'undecided')
    """
    if all(estimate.low > 0 for estimate in estimates):
        return "holds"
    return "does not hold" if any(estimate.high < 0 for estimate in estimates) else "undecided"


def near_zero(estimate: Estimate, margin: float) -> Outcome:
    """Judge the claim that an estimate is 0 within a margin, by its 95% interval.

    >>> import numpy as np
    >>> small = Estimate(0.0, np.array([-0.01, 0.01]))
    >>> near_zero(small, 0.1), near_zero(small + 1, 0.1), near_zero(small, 0.001)
    ('holds', 'does not hold', 'undecided')
    """
    low, high = estimate.low, estimate.high
    if -margin <= low and high <= margin:
        return "holds"
    return "does not hold" if low > margin or high < -margin else "undecided"


def with_interval(estimate: Estimate, digits: int = 1) -> str:
    """Format an estimate with its 95% interval as text.

    >>> import numpy as np
    >>> with_interval(Estimate(1234.5, np.array([1000.0, 2000.0])), 0)
    '1,234 (1,025 to 1,975)'
    """
    low, high = estimate.low, estimate.high
    return f"{estimate.value:,.{digits}f} ({low:,.{digits}f} to {high:,.{digits}f})"


def percent(estimate: Estimate) -> str:
    """Format a relative change with its 95% interval as text in percent."""
    percentage = estimate * 100.0
    return f"{percentage.value:+.0f} % ({percentage.low:+.0f} to {percentage.high:+.0f} %)"


def join_with_and(texts: Sequence[str]) -> str:
    """Join texts with commas and "and".

    >>> join_with_and(["a"]), join_with_and(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"


CONFIDENCE_FIGURE = "6"
LEAST = 10  # Least confidence of the paper's axis, in per cent

CONFIDENCE_MARGIN = 0.10  # Share of the runs within which a change counts as no effect


@dataclass(frozen=True, slots=True, eq=False)
class RunsToOptimum:
    """Numbers of runs to the optimum on one application (a row of the Copper paper's figure 6)."""

    table: str  # name of the application
    # runs to the optimum by insight, confidence in per cent, and learning; an episode that was
    # given up counts with its runs until then
    samples: Mapping[tuple[Kind, int, bool], Sample]
    # number of parameters in which the optimum has the level that is best on average, and number
    # of parameters; None if unknown
    leading: tuple[int, int] | None = None

    @property
    def confidences(self) -> tuple[int, ...]:
        """Confidences on the axis of the Copper paper's figure 6, in percent, ascending."""
        return tuple(sorted({at for _, at, _ in self.samples if at >= LEAST}))

    @property
    def shared(self) -> tuple[int, ...]:
        """Confidences below 100%, at which some runs are the analyst's own, in percent."""
        return tuple(at for at in self.confidences if at < 100)

    def mean(self, insight: Kind, confidence: int, learning: bool = False) -> Estimate:
        """Return the mean number of runs to the optimum for an insight, confidence and learning."""
        return self.samples[insight, confidence, learning].mean

    def over(self, insight: Kind, learning: bool = False) -> Estimate:
        """Return the mean number of runs to the optimum over the confidences below 100%."""
        return mean_of([self.mean(insight, at, learning) for at in self.shared])

    def trend(self, insight: Kind) -> Estimate:
        """Return the change in mean runs per 10 percentage points of confidence (no learning)."""
        at = self.confidences
        return slope(
            [confidence / 10 for confidence in at],
            [self.mean(insight, confidence) for confidence in at],
        )

    def ends(self, insight: Kind) -> tuple[Estimate, Estimate]:
        """Return the mean runs to the optimum at the least and at full confidence; no learning."""
        return self.mean(insight, self.confidences[0]), self.mean(insight, 100)

    def given_up(self, insight: Kind, confidence: int, learning: bool = False) -> float:
        """Return the share of the episodes that ended without finding the optimum."""
        return 1.0 - self.samples[insight, confidence, learning].share_found


def judge_confidence(rows: Sequence[RunsToOptimum]) -> list[ClaimVerdict]:
    """Return verdicts on the claims about the Copper paper's figure 6 that results can decide."""
    verdicts = [bad_falls(row) for row in rows]
    by_table = {row.table: row for row in rows}
    if "scheduling" in by_table and len(rows) > 1:
        verdicts.append(falls_most_on_scheduling(by_table["scheduling"], rows))
    verdicts += [learning_helps("bad", row) for row in rows]
    verdicts += [learning_helps_most_at_least(row) for row in rows]
    verdicts += [good_rises(row) for row in rows]
    verdicts += [last_step(row) for row in rows]
    verdicts += [learning_idle_for_good(row) for row in rows]
    verdicts += [none_between(row) for row in rows]
    verdicts += [none_falls_less(row) for row in rows]
    verdicts += [learning_helps("none", row) for row in rows]
    return verdicts


def bad_falls(row: RunsToOptimum) -> ClaimVerdict:
    """Judge the claim that with bad insight runs to the optimum fall as confidence rises."""
    trend, (first, last) = row.trend("bad"), row.ends("bad")
    outcome = above_zero(-trend, first - last)
    return ClaimVerdict(
        "bad insight: fewer runs", CONFIDENCE_FIGURE, row.table,
        "With bad insight, more confidence in the suggestions saves runs to the optimum.",
        outcome,
        f"{with_interval(trend)} runs per 10 points of confidence; {with_interval(first)} runs at "
        f"{row.confidences[0]} %, {with_interval(last)} at 100 "
        f"%{_against(row, 'bad', falling=True)}{_censored(row, 'bad')}.",
        "" if outcome != "does not hold" else _beside_chance(row),
    )  # fmt: skip


def falls_most_on_scheduling(row: RunsToOptimum, rows: Sequence[RunsToOptimum]) -> ClaimVerdict:
    """Judge the claim that with bad insight confidence saves the largest share on scheduling."""
    gains = {other_row.table: _gain(other_row) for other_row in rows}
    row_gain = gains.pop(row.table)
    outcome = above_zero(*(row_gain - other for other in gains.values()))
    falls = [f"{_factor(gain)} on {name}" for name, gain in {row.table: row_gain, **gains}.items()]
    return ClaimVerdict(
        "bad insight: most on scheduling", CONFIDENCE_FIGURE, join_with_and([row.table, *gains]),
        "With bad insight and no learning, confidence in the suggestions saves the largest share "
        "of runs on scheduling.",
        outcome,
        f"runs at {row.confidences[0]} % divided by those at 100 %: {join_with_and(falls)}.",
        "" if outcome != "does not hold" else
        f"confidence saves as much or more on {max(gains, key=lambda n: gains[n].value)}; on "
        f"scheduling {row.given_up('bad', row.confidences[0]):.0%} of the episodes at "
        f"{row.confidences[0]} % and {row.given_up('bad', 100):.0%} of those at 100 % were given "
        "up at half the space, which hides part of the gain.",
    )  # fmt: skip


def learning_helps(insight: Kind, row: RunsToOptimum) -> ClaimVerdict:
    """Judge the claim that learning reduces runs to the optimum with a given kind of insight."""
    with_it, without = row.over(insight, learning=True), row.over(insight)
    change = with_it.log() - without.log()
    outcome = above_zero(-change)
    insight_text = "bad insight" if insight == "bad" else "no insight"
    return ClaimVerdict(
        f"{insight_text}: learning helps", CONFIDENCE_FIGURE, row.table,
        f"With {insight_text}, an analyst who learns from results needs fewer runs.",
        outcome,
        f"over confidences of {_range(row)}: {with_interval(with_it)} runs with learning, "
        f"{with_interval(without)} without: {_relative(change)}.",
        "" if outcome != "does not hold" else _why_learning(row, insight),
    )  # fmt: skip


def learning_helps_most_at_least(row: RunsToOptimum) -> ClaimVerdict:
    """Judge the claim that with bad insight learning saves most runs at the lowest confidence."""
    first, *later_gains = [
        row.mean("bad", at) - row.mean("bad", at, learning=True) for at in row.shared
    ]
    rest = mean_of(later_gains)
    outcome = above_zero(first, first - rest)
    best = max(row.shared, key=lambda at: _learning_gain(row, "bad", at).value)
    return ClaimVerdict(
        f"bad insight: learning helps most at {LEAST} %", CONFIDENCE_FIGURE, row.table,
        "With bad insight, learning saves most runs when few runs come from suggestions "
        f"({LEAST} %).",
        outcome,
        f"runs saved by learning: {with_interval(first)} at {row.shared[0]} %, "
        f"{with_interval(rest)} on average at {row.shared[1]} to {row.shared[-1]} %; the "
        f"difference is {with_interval(first - rest)}.",
        "" if outcome != "does not hold" else
        f"it saves most at {best} %: {with_interval(_learning_gain(row, 'bad', best))} runs.",
    )  # fmt: skip


def good_rises(row: RunsToOptimum) -> ClaimVerdict:
    """Judge the claim that with good insight runs to the optimum rise as confidence rises."""
    trend, (first, last) = row.trend("good"), row.ends("good")
    outcome = above_zero(trend, last - first)
    return ClaimVerdict(
        "good insight: more runs", CONFIDENCE_FIGURE, row.table,
        "With good insight, more confidence in the suggestions costs runs to the optimum.",
        outcome,
        f"{with_interval(trend)} runs per 10 points of confidence; {with_interval(first)} runs at "
        f"{row.confidences[0]} %, {with_interval(last)} at 100 "
        f"%{_against(row, 'good', falling=False)}{_censored(row, 'good')}.",
        "" if outcome != "does not hold" else _beside_chance(row),
    )  # fmt: skip


def last_step(row: RunsToOptimum) -> ClaimVerdict:
    """Judge the claim that with good insight runs jump at full confidence on flood only."""
    at = row.confidences
    before = row.mean("good", at[-2]) - row.mean("good", at[0])
    step = row.mean("good", 100) - row.mean("good", at[-2])
    is_flood = row.table == "flood"
    outcome = above_zero(step, step - before) if is_flood else above_zero(before, before - step)
    text = (
        "On flood with good insight, the step to full confidence adds more runs than all steps "
        "before: a few own runs lead the model out of the flat area."
        if is_flood
        else "With good insight the runs rise evenly: the step to full confidence adds fewer runs "
        "than all steps before."
    )
    why = ""
    if outcome == "does not hold":
        why = (
            f"the rise up to {at[-2]} % is {with_interval(before)} runs, the last step "
            f"{with_interval(step)}."
        )
    return ClaimVerdict(
        "good insight: leap at 100 %" if is_flood else "good insight: regular rise",
        CONFIDENCE_FIGURE, row.table, text, outcome,
        f"{with_interval(step)} more runs from {at[-2]} to 100 %, {with_interval(before)} from "
        f"{at[0]} to {at[-2]} %; the difference is {with_interval(step - before)}; the greatest "
        f"step before is {with_interval(_greatest_step(row))}.",
        why,
    )  # fmt: skip


def learning_idle_for_good(row: RunsToOptimum) -> ClaimVerdict:
    """Judge the claim that with good insight learning hardly changes the runs to the optimum."""
    change = row.over("good", learning=True).log() - row.over("good").log()
    outcome = near_zero(change, math.log1p(CONFIDENCE_MARGIN))
    return ClaimVerdict(
        "good insight: learning idle", CONFIDENCE_FIGURE, row.table,
        "With good insight, learning makes no relevant difference "
        f"(at most {CONFIDENCE_MARGIN:.0%} of the runs).",
        outcome,
        f"over confidences of {_range(row)}: {_relative(change)} with learning "
        f"({with_interval(row.over('good', learning=True))} runs against "
        f"{with_interval(row.over('good'))}).",
        "" if outcome != "does not hold" else
        f"an analyst without learning needs {with_interval(row.over('good'))} runs, "
        f"which is enough to learn from{_effects(row)}.",
    )  # fmt: skip


def none_between(row: RunsToOptimum) -> ClaimVerdict:
    """Judge the claim that no insight needs more runs than good insight and fewer than bad."""
    bad, good, none = (row.over(insight) for insight in ("bad", "good", "none"))
    outcome = above_zero(none - good, bad - none)
    return ClaimVerdict(
        "no insight: in between", CONFIDENCE_FIGURE, row.table,
        "Without insight, the runs are more than with good insight and fewer than with bad.",
        outcome,
        f"over confidences of {_range(row)}: good {with_interval(good)}, none "
        f"{with_interval(none)}, bad {with_interval(bad)} runs; none minus good "
        f"{with_interval(none - good)}, bad minus none {with_interval(bad - none)}.",
        "" if outcome != "does not hold" else
        "a bad subset is soon used up in a space of this size; the analyst then acts as without "
        "insight."
        if (none - good).low > 0 else "good insight does not help here.",
    )  # fmt: skip


def none_falls_less(row: RunsToOptimum) -> ClaimVerdict:
    """Judge the claim that confidence saves fewer runs without insight than with bad insight."""
    trend, bad = row.trend("none"), row.trend("bad")
    outcome = above_zero(-trend, trend - bad)
    return ClaimVerdict(
        "no insight: fewer runs, less so", CONFIDENCE_FIGURE, row.table,
        "Without insight, confidence in the suggestions saves runs too, but fewer than with bad "
        "insight.",
        outcome,
        f"runs per 10 points of confidence: {with_interval(trend)} without insight, "
        f"{with_interval(bad)} with bad insight; the difference is "
        f"{with_interval(trend - bad)}{_censored(row, 'none')}.",
        "" if outcome != "does not hold" else _beside_chance(row),
    )  # fmt: skip


def _greatest_step(row: RunsToOptimum) -> Estimate:
    means = [row.mean("good", at) for at in row.shared]
    return max((b - a for a, b in itertools.pairwise(means)), key=lambda step: step.value)


def _gain(row: RunsToOptimum) -> Estimate:
    first, last = row.ends("bad")
    return first.log() - last.log()


def _learning_gain(row: RunsToOptimum, insight: Kind, confidence: int) -> Estimate:
    return row.mean(insight, confidence) - row.mean(insight, confidence, learning=True)


def _factor(gain: Estimate) -> str:
    ends = math.exp(gain.low), math.exp(gain.high)
    return f"{math.exp(gain.value):.2f} ({ends[0]:.2f} to {ends[1]:.2f})"


def _relative(change: Estimate) -> str:
    return percent(change.expm1())


def _range(row: RunsToOptimum) -> str:
    return f"{row.shared[0]} to {row.shared[-1]} %"


def _against(row: RunsToOptimum, insight: Kind, *, falling: bool) -> str:
    """Return the steps that significantly go the other way, at a joint level of 95 %."""
    pairs = list(itertools.pairwise(row.confidences))
    level = 1.0 - 0.05 / len(pairs)
    steps = []
    for before, after in pairs:
        step = row.mean(insight, after) - row.mean(insight, before)
        low, high = (step if falling else -step).within(level)
        if low > 0 and high > 0:
            steps.append(f"{before} to {after} %")
    word = "rise" if falling else "fall"
    return f"; yet the runs {word} from {join_with_and(steps)}" if steps else ""


def _censored(row: RunsToOptimum, insight: Kind) -> str:
    first = row.given_up(insight, row.confidences[0])
    last = row.given_up(insight, 100)
    if not first and not last:
        return ""
    return (
        f"; given up at half the space, and counted with that number: {first:.0%} at "
        f"{row.confidences[0]} %, {last:.0%} at 100 %"
    )


def _beside_chance(row: RunsToOptimum) -> str:
    """Return how the suggestions alone compare with random draws, as an explanation."""
    key: tuple[Kind, int, bool] = ("none", 0, False)
    if key not in row.samples:
        return "no cell with confidence 0 % was played, so chance is unknown."
    alone, chance = row.mean("none", 100), row.samples[key].mean
    verdict: dict[Outcome, str] = {
        "holds": "sooner than",
        "does not hold": "later than",
        "undecided": "about as soon as",
    }
    word = verdict[above_zero(chance - alone)]
    return (
        f"the suggestions alone find the optimum {word} random draws without insight "
        f"({with_interval(alone)} against {with_interval(chance)} runs){_effects(row)}."
    )


def _effects(row: RunsToOptimum) -> str:
    """Return whether the levels that are best on average lead to the optimum."""
    if row.leading is None:
        return ""
    n, of = row.leading
    return f"; the optimum has the level that is best on average in {n} of {of} parameters"


def _why_learning(row: RunsToOptimum, insight: Kind) -> str:
    gains = {at: _learning_gain(row, insight, at) for at in row.shared}
    worst = min(gains, key=lambda at: gains[at].value)
    return (
        f"learning saves least at {worst} %: it changes the runs by {with_interval(-gains[worst])}"
        f"{_effects(row)}."
    )


LEVELS = (0.0, 0.33, 0.66, 1.0)  # Exploitation levels of the bars; one more bar is without a level

BUDGET_FIGURES: dict[str, tuple[str, tuple[int, ...]]] = {
    "7": ("flood", (50, 100, 150, 200)),
    "8": ("scheduling", (30, 60, 90, 120)),
    "9": ("maze", (10, 15, 20, 25)),
}
"""Application and budgets of each figure."""

BUDGET_MARGIN = 0.02  # Difference of the ratio that counts as none


@dataclass(frozen=True, slots=True, eq=False)
class BudgetQualities:
    """Best qualities found within budgets of runs (one of the Copper paper's figures 7 to 9)."""

    table: str  # name of the application
    # ratio to the optimum by budget and exploitation level, None for no level
    samples: Mapping[tuple[int, float | None], Sample]

    @property
    def budgets(self) -> tuple[int, ...]:
        """Budgets of runs in the figure, ascending."""
        return tuple(sorted({runs for runs, _ in self.samples}))

    @property
    def levels(self) -> tuple[float, ...]:
        """Exploitation levels in the figure, from 0 to 1, ascending."""
        return tuple(sorted({level for _, level in self.samples if level is not None}))

    def mean(self, runs: int, level: float | None) -> Estimate:
        """Return the mean ratio of results to the optimum for a budget and exploitation level."""
        return self.samples[runs, level].mean

    def effect(self, runs: int) -> Estimate:
        """Return the change of the mean ratio from no to full exploitation, by a fitted line."""
        return slope(self.levels, [self.mean(runs, level) for level in self.levels])

    def share_found(self, runs: int) -> float:
        """Return the share of the episodes with a given budget of runs that found the optimum."""
        budget_samples = [self.samples[runs, level] for level in self.levels]
        return sum(sample.share_found * sample.n for sample in budget_samples) / sum(
            sample.n for sample in budget_samples
        )


def judge_budgets(figure: str, row: BudgetQualities) -> list[ClaimVerdict]:
    """Return verdicts on all claims about one of the Copper paper's figures 7 to 9."""
    claims = (spread_at_small_budgets, *_BUDGET_CLAIMS.get(row.table, ()))
    return [judge(figure, row) for judge in claims]


def spread_at_small_budgets(figure: str, row: BudgetQualities) -> ClaimVerdict:
    """Judge the claim that the quality of results varies more at small budgets of runs."""
    few, many = row.budgets[0], row.budgets[-1]
    at_few, at_many = (
        mean_of([row.samples[runs, level].spread for level in row.levels]) for runs in (few, many)
    )
    outcome = above_zero(at_few - at_many)
    return ClaimVerdict(
        "spread at small budgets", figure, row.table,
        "The fewer runs there are, the more the quality of the result varies.",
        outcome,
        f"standard deviation of the ratio: {with_interval(at_few, 3)} at {few} runs, "
        f"{with_interval(at_many, 3)} at {many}; the difference is "
        f"{with_interval(at_few - at_many, 3)}.",
        "" if outcome != "does not hold" else
        f"at {few} runs nearly all results are far from the optimum (mean ratio "
        f"{_level_mean(row, few).value:.2f}, {row.share_found(few):.0%} found it), at {many} only "
        f"some are (mean ratio {_level_mean(row, many).value:.2f}, "
        f"{row.share_found(many):.0%} found it).",
    )  # fmt: skip


def mixed_is_best(figure: str, row: BudgetQualities) -> ClaimVerdict:
    """Judge the claim that at the smallest budget partial exploitation beats none and full."""
    few = row.budgets[0]
    means = {level: row.mean(few, level) for level in row.levels}
    least, most = row.levels[0], row.levels[-1]
    mixed = row.levels[1]
    outcome = above_zero(means[mixed] - means[least], means[mixed] - means[most])
    best = max(means, key=lambda level: means[level].value)
    return ClaimVerdict(
        "a mixture is best", figure, row.table,
        f"With {few} runs a mixture of exploring and exploiting ({mixed:.0%}) beats both extremes.",
        outcome,
        f"ratio at {few} runs: {_bars(row, few)}; {mixed:.0%} exceeds {least:.0%} by "
        f"{with_interval(means[mixed] - means[least], 3)}, and {most:.0%} by "
        f"{with_interval(means[mixed] - means[most], 3)}.",
        "" if outcome != "does not hold" else
        f"the best level is {best:.0%}, and levels differ by "
        f"{_range_of(row, few):.3f} at most; the level applies to {_after(few)} runs.",
    )  # fmt: skip


def level_matters(figure: str, row: BudgetQualities) -> ClaimVerdict:
    """Judge the claim that at the smallest budget the exploitation level affects the result."""
    few = row.budgets[0]
    pairs = list(itertools.combinations(row.levels, 2))
    level = 1.0 - 0.05 / len(pairs)
    differences = [(a, b, row.mean(few, b) - row.mean(few, a)) for a, b in pairs]
    ends = [difference.within(level) for _, _, difference in differences]
    outcome: Outcome = "undecided"
    if any(low > 0 or high < 0 for low, high in ends):
        outcome = "holds"
    elif all(low >= -BUDGET_MARGIN and high <= BUDGET_MARGIN for low, high in ends):
        outcome = "does not hold"
    a, b, widest = max(differences, key=lambda difference: abs(difference[2].value))
    low, high = widest.within(level)
    return ClaimVerdict(
        "the level matters", figure, row.table,
        f"With {few} runs the exploitation level has a significant influence on the result.",
        outcome,
        f"ratio at {few} runs: {_bars(row, few)}; the greatest of {len(pairs)} differences is "
        f"{b:.0%} beyond {a:.0%} by {widest.value:.3f} ({low:.3f} to {high:.3f}, a simultaneous "
        "interval).",
        "" if outcome != "does not hold" else
        f"the level applies to {_after(few)} of {few} runs only.",
    )  # fmt: skip


def fades(figure: str, row: BudgetQualities) -> ClaimVerdict:
    """Judge the claim that the influence of the exploitation level fades as the budget grows."""
    few, many = row.budgets[0], row.budgets[-1]
    at_few, at_many = row.effect(few), row.effect(many)
    sign = 1.0 if at_few.value >= 0 else -1.0
    matters = above_zero(at_few * sign)
    outcome: Outcome = above_zero((at_few - at_many) * sign)
    why = ""
    if matters != "holds":
        outcome = "undecided"
        why = f"the level has no significant influence at {few} runs that could fade."
    elif outcome == "does not hold":
        why = (
            f"at {many} runs the optimum is found by {row.share_found(many):.0%} of the episodes, "
            f"at {few} by {row.share_found(few):.0%}; steering can gain as much."
        )
    return ClaimVerdict(
        "the level fades", figure, row.table,
        "The more runs there are, the less the exploitation level matters.",
        outcome,
        f"from exploring to exploiting the ratio changes by {with_interval(at_few, 3)} at {few} "
        f"runs, by {with_interval(at_many, 3)} at {many}.",
        why,
    )  # fmt: skip


def direction(figure: str, row: BudgetQualities, *, more: bool) -> ClaimVerdict:
    """Judge the claim that at the smallest budget more (or less) exploitation is better."""
    few = row.budgets[0]
    along, across = row.effect(few), row.mean(few, row.levels[-1]) - row.mean(few, row.levels[0])
    sign = 1.0 if more else -1.0
    outcome = above_zero(along * sign, across * sign)
    beside = [row.effect(runs) for runs in row.budgets[1:]]
    changes = [
        f"{with_interval(change, 3)} at {runs}"
        for runs, change in zip(row.budgets[1:], beside, strict=True)
    ]
    text = (
        "More exploitation gives better results."
        if more
        else "It is better to explore (low levels): good results are spread over the space."
    )
    return ClaimVerdict(
        "exploit" if more else "explore", figure, row.table, text, outcome,
        f"from exploring to exploiting the ratio changes by {with_interval(along, 3)} at {few} "
        f"runs ({_bars(row, few)})"
        f"{f', by {join_with_and(changes)}' if changes else ''}.",
        "" if outcome != "does not hold" else
        f"the best level at {few} runs is {_best(row, few)}.",
    )  # fmt: skip


_BUDGET_CLAIMS: Mapping[str, tuple[Callable[[str, BudgetQualities], ClaimVerdict], ...]] = {
    "flood": (mixed_is_best,),
    "scheduling": (level_matters, fades, partial(direction, more=False)),
    "maze": (partial(direction, more=True), fades),
}
"""Claims of the paper about one of its applications, beside those about all."""


def _bars(row: BudgetQualities, runs: int) -> str:
    texts = [f"{row.mean(runs, level).value:.3f} at {level:.0%}" for level in row.levels]
    if (runs, None) in row.samples:
        texts.append(f"{row.mean(runs, None).value:.3f} without a level")
    return join_with_and(texts)


def _best(row: BudgetQualities, runs: int) -> str:
    best = max(row.levels, key=lambda level: row.mean(runs, level).value)
    return f"{best:.0%} ({with_interval(row.mean(runs, best), 3)})"


def _level_mean(row: BudgetQualities, runs: int) -> Estimate:
    return mean_of([row.mean(runs, level) for level in row.levels])


def _range_of(row: BudgetQualities, runs: int) -> float:
    means: Sequence[float] = [row.mean(runs, level).value for level in row.levels]
    return max(means) - min(means)


def _after(runs: int) -> int:
    """Return how many runs are left when the level is set at 70 %."""
    return runs - -(-7 * runs // 10)
