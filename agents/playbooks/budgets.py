"""Figures 7 to 9 and section 4.3 of the paper: the best of a budget over exploitation levels.

An analyst who takes every suggestion (confidence 100 %) has so many runs; after 70 % of them she
accepts the clustering advice with an exploitation level. A result is as good as its ratio to the
optimum. The paper shows four budgets per application without saying all of them; ours are here.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agents.playbooks.resampled import Estimate, Sample, mean_of, slope
from agents.playbooks.verdicts import Outcome, Verdict, above_zero, listed, told

LEVELS = (0.0, 0.33, 0.66, 1.0)
"""Exploitation levels; beside them is a bar without any advice."""

FIGURES: dict[str, tuple[str, tuple[int, ...]]] = {
    "7": ("flood", (50, 100, 150, 200)),
    "8": ("scheduling", (30, 60, 90, 120)),
    "9": ("maze", (10, 15, 20, 25)),
}
"""Application and budgets of each figure."""

MARGIN = 0.02
"""A difference of the ratio by which nobody cares."""


@dataclass(frozen=True, slots=True, eq=False)
class Qualities:
    """One of the figures 7 to 9.

    Args:
        table: name of the application.
        samples: ratio to the optimum by budget and exploitation level, None for no advice.
    """

    table: str
    samples: Mapping[tuple[int, float | None], Sample]

    @property
    def budgets(self) -> tuple[int, ...]:
        """Runs, ascending."""
        return tuple(sorted({runs for runs, _ in self.samples}))

    @property
    def levels(self) -> tuple[float, ...]:
        """Exploitation levels, ascending."""
        return tuple(sorted({level for _, level in self.samples if level is not None}))

    def mean(self, runs: int, level: float | None) -> Estimate:
        """Return the mean of a cell."""
        return self.samples[runs, level].mean

    def effect(self, runs: int) -> Estimate:
        """Return how much better full exploitation is than none, along the line through all."""
        return slope(self.levels, [self.mean(runs, level) for level in self.levels])

    def found(self, runs: int) -> float:
        """Return the share of the episodes of a budget that found the optimum."""
        own = [self.samples[runs, level] for level in self.levels]
        return sum(one.found * one.n for one in own) / sum(one.n for one in own)


def judge_budgets(figure: str, row: Qualities) -> list[Verdict]:
    """Return a verdict for every claim about one of the figures 7 to 9."""
    verdicts = [spread_at_small_budgets(figure, row)]
    if row.table == "flood":
        verdicts.append(mixed_is_best(figure, row))
    if row.table == "scheduling":
        verdicts += [level_matters(figure, row), fades(figure, row)]
        verdicts.append(direction(figure, row, more=False))
    if row.table == "maze":
        verdicts += [direction(figure, row, more=True), fades(figure, row)]
    return verdicts


def spread_at_small_budgets(figure: str, row: Qualities) -> Verdict:
    """Results vary more where there are few runs."""
    few, many = row.budgets[0], row.budgets[-1]
    at_few, at_many = (
        mean_of([row.samples[runs, level].spread for level in row.levels]) for runs in (few, many)
    )
    outcome = above_zero(at_few - at_many)
    return Verdict(
        "spread at small budgets", figure, row.table,
        "The fewer runs there are, the more the quality of the result varies.",
        outcome,
        f"standard deviation of the ratio: {told(at_few, 3)} at {few} runs, {told(at_many, 3)} at "
        f"{many}; the difference is {told(at_few - at_many, 3)}.",
        "" if outcome != "does not hold" else
        f"at {few} runs nearly all results are alike far from the optimum (mean ratio "
        f"{_level_mean(row, few).value:.2f}, {row.found(few):.0%} found it), at {many} some are "
        f"near it and some are not (mean ratio {_level_mean(row, many).value:.2f}, "
        f"{row.found(many):.0%} found it).",
    )  # fmt: skip


def mixed_is_best(figure: str, row: Qualities) -> Verdict:
    """At the smallest budget a mixture beats both extremes."""
    few = row.budgets[0]
    means = {level: row.mean(few, level) for level in row.levels}
    least, most = row.levels[0], row.levels[-1]
    mixed = row.levels[1]
    outcome = above_zero(means[mixed] - means[least], means[mixed] - means[most])
    best = max(means, key=lambda level: means[level].value)
    return Verdict(
        "a mixture is best", figure, row.table,
        f"With {few} runs a mixture of exploring and exploiting ({mixed:.0%}) beats both extremes.",
        outcome,
        f"ratio at {few} runs: {_bars(row, few)}; {mixed:.0%} is beyond {least:.0%} by "
        f"{told(means[mixed] - means[least], 3)}, beyond {most:.0%} by "
        f"{told(means[mixed] - means[most], 3)}.",
        "" if outcome != "does not hold" else
        f"the best level is {best:.0%}, and levels differ by "
        f"{_range_of(row, few):.3f} at most with {_after(few)} runs after the advice.",
    )  # fmt: skip


def level_matters(figure: str, row: Qualities) -> Verdict:
    """At the smallest budget it matters which level is chosen."""
    few = row.budgets[0]
    pairs = list(itertools.combinations(row.levels, 2))
    level = 1.0 - 0.05 / len(pairs)
    differences = [(a, b, row.mean(few, b) - row.mean(few, a)) for a, b in pairs]
    ends = [one.within(level) for _, _, one in differences]
    outcome: Outcome = "undecided"
    if any(low > 0 or high < 0 for low, high in ends):
        outcome = "holds"
    elif all(low >= -MARGIN and high <= MARGIN for low, high in ends):
        outcome = "does not hold"
    a, b, widest = max(differences, key=lambda one: abs(one[2].value))
    low, high = widest.within(level)
    return Verdict(
        "the level matters", figure, row.table,
        f"With {few} runs the exploitation level has a significant influence on the result.",
        outcome,
        f"ratio at {few} runs: {_bars(row, few)}; the greatest of {len(pairs)} differences is "
        f"{b:.0%} beyond {a:.0%} by {widest.value:.3f} ({low:.3f} to {high:.3f}, an interval that "
        "allows for all of them).",
        "" if outcome != "does not hold" else
        f"the advice leaves {_after(few)} of {few} runs to be steered.",
    )  # fmt: skip


def fades(figure: str, row: Qualities) -> Verdict:
    """The influence of the level fades as the budget grows."""
    few, many = row.budgets[0], row.budgets[-1]
    at_few, at_many = row.effect(few), row.effect(many)
    sign = 1.0 if at_few.value >= 0 else -1.0
    matters = above_zero(at_few * sign)
    outcome: Outcome = above_zero((at_few - at_many) * sign)
    why = ""
    if matters != "holds":
        outcome = "undecided"
        why = f"no influence of the level is sure at {few} runs, so there is none to fade."
    elif outcome == "does not hold":
        why = (
            f"at {many} runs the optimum is found by {row.found(many):.0%} of the episodes, at "
            f"{few} by {row.found(few):.0%}; there is as much to be won by steering."
        )
    return Verdict(
        "the level fades", figure, row.table,
        "The more runs there are, the less the exploitation level matters.",
        outcome,
        f"from exploring to exploiting the ratio changes by {told(at_few, 3)} at {few} runs, by "
        f"{told(at_many, 3)} at {many}.",
        why,
    )  # fmt: skip


def direction(figure: str, row: Qualities, *, more: bool) -> Verdict:
    """At the smallest budget more exploitation is better, or less."""
    few = row.budgets[0]
    along, across = row.effect(few), row.mean(few, row.levels[-1]) - row.mean(few, row.levels[0])
    sign = 1.0 if more else -1.0
    outcome = above_zero(along * sign, across * sign)
    beside = [row.effect(runs) for runs in row.budgets[1:]]
    others = [
        f"{told(one, 3)} at {runs}" for runs, one in zip(row.budgets[1:], beside, strict=True)
    ]
    text = (
        "The more is exploited, the better the result."
        if more
        else "It is better to explore (low levels): good results are spread over the space."
    )
    return Verdict(
        "exploit" if more else "explore", figure, row.table, text, outcome,
        f"from exploring to exploiting the ratio changes by {told(along, 3)} at {few} runs "
        f"({_bars(row, few)}), by {listed(others) if others else 'nothing else that was played'}.",
        "" if outcome != "does not hold" else
        f"the best level at {few} runs is {_best(row, few)}.",
    )  # fmt: skip


def _bars(row: Qualities, runs: int) -> str:
    shown = [f"{row.mean(runs, level).value:.3f} at {level:.0%}" for level in row.levels]
    if (runs, None) in row.samples:
        shown.append(f"{row.mean(runs, None).value:.3f} without advice")
    return listed(shown)


def _best(row: Qualities, runs: int) -> str:
    best = max(row.levels, key=lambda level: row.mean(runs, level).value)
    return f"{best:.0%} ({told(row.mean(runs, best), 3)})"


def _level_mean(row: Qualities, runs: int) -> Estimate:
    return mean_of([row.mean(runs, level) for level in row.levels])


def _range_of(row: Qualities, runs: int) -> float:
    means: Sequence[float] = [row.mean(runs, level).value for level in row.levels]
    return max(means) - min(means)


def _after(runs: int) -> int:
    """Return how many runs the advice of the paper, at 70 %, leaves."""
    return runs - -(-7 * runs // 10)
