"""Figure 6 and section 4.2 of the paper: runs to the optimum over confidence, and its claims.

The paper's axis of confidence goes from 10 to 100 %; so do the trends here, although 0 % is played
too. Trends and differences of learning are of means over the confidences, so that no single cell
decides. What is called relative is a difference of logarithms, so that spaces of 54 and of 8,800
configurations can be compared.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agents.insight import Kind
from agents.playbooks.resampled import Estimate, Sample, mean_of, slope
from agents.playbooks.verdicts import (
    Outcome,
    Verdict,
    above_zero,
    listed,
    near_zero,
    percent,
    told,
)

FIGURE = "6"
LEAST = 10
"""The least confidence of the paper's axis, in per cent."""

MARGIN = 0.10
"""A share of the runs by which nobody cares: what is within it is called no effect."""


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """A row of figure 6: one application.

    Args:
        table: its name.
        samples: runs to the optimum by insight, confidence in per cent, and whether she learns;
            an episode that was given up counts with the runs after which it was.
        leading: in how many parameters the optimum has the level that is best on average, and how
            many parameters there are; None if nobody looked.
    """

    table: str
    samples: Mapping[tuple[Kind, int, bool], Sample]
    leading: tuple[int, int] | None = None

    @property
    def confidences(self) -> tuple[int, ...]:
        """Those of the paper's axis, ascending."""
        return tuple(sorted({at for _, at, _ in self.samples if at >= LEAST}))

    @property
    def shared(self) -> tuple[int, ...]:
        """Those at which some of the runs are the analyst's own."""
        return tuple(at for at in self.confidences if at < 100)

    def mean(self, insight: Kind, confidence: int, learning: bool = False) -> Estimate:
        """Return the mean of a cell."""
        return self.samples[insight, confidence, learning].mean

    def over(self, insight: Kind, learning: bool = False) -> Estimate:
        """Return the mean over the confidences at which insight matters."""
        return mean_of([self.mean(insight, at, learning) for at in self.shared])

    def trend(self, insight: Kind) -> Estimate:
        """Return by how many runs 10 points of confidence change the mean, without learning."""
        at = self.confidences
        return slope([one / 10 for one in at], [self.mean(insight, one) for one in at])

    def ends(self, insight: Kind) -> tuple[Estimate, Estimate]:
        """Return the means at the least and at the full confidence, without learning."""
        return self.mean(insight, self.confidences[0]), self.mean(insight, 100)

    def given_up(self, insight: Kind, confidence: int, learning: bool = False) -> float:
        """Return the share of the episodes that did not find the optimum."""
        return 1.0 - self.samples[insight, confidence, learning].found


def judge_confidence(rows: Sequence[Runs]) -> list[Verdict]:
    """Return a verdict for every claim about figure 6 that these rows can be asked about."""
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


def bad_falls(row: Runs) -> Verdict:
    """With bad insight the runs fall as confidence rises."""
    trend, (first, last) = row.trend("bad"), row.ends("bad")
    outcome = above_zero(-trend, first - last)
    return Verdict(
        "bad insight: fewer runs", FIGURE, row.table,
        "Whoever has bad insight needs fewer runs to the optimum the more she trusts the "
        "suggestions.",
        outcome,
        f"{told(trend)} runs per 10 points of confidence; {told(first)} runs at "
        f"{row.confidences[0]} %, {told(last)} at 100 %{_against(row, 'bad', falling=True)}"
        f"{_censored(row, 'bad')}.",
        "" if outcome != "does not hold" else _beside_chance(row),
    )  # fmt: skip


def falls_most_on_scheduling(row: Runs, rows: Sequence[Runs]) -> Verdict:
    """The gain of confidence with bad insight is greatest on scheduling."""
    gains = {one.table: _gain(one) for one in rows}
    own = gains.pop(row.table)
    outcome = above_zero(*(own - other for other in gains.values()))
    falls = [f"{_factor(gain)} on {name}" for name, gain in {row.table: own, **gains}.items()]
    return Verdict(
        "bad insight: most on scheduling", FIGURE, listed([row.table, *gains]),
        "With bad insight and no learning, trusting the suggestions saves the largest part of the "
        "runs on scheduling.",
        outcome,
        f"runs at {row.confidences[0]} % over those at 100 %: {listed(falls)}.",
        "" if outcome != "does not hold" else
        f"the trust is worth as much or more on {max(gains, key=lambda n: gains[n].value)}; on "
        f"scheduling {row.given_up('bad', row.confidences[0]):.0%} of the episodes at "
        f"{row.confidences[0]} % and {row.given_up('bad', 100):.0%} of those at 100 % were given "
        "up at half the space, which hides a part of the gain.",
    )  # fmt: skip


def learning_helps(insight: Kind, row: Runs) -> Verdict:
    """Learning lowers the runs, with bad or without insight."""
    with_it, without = row.over(insight, learning=True), row.over(insight)
    change = with_it.log() - without.log()
    outcome = above_zero(-change)
    who = "bad insight" if insight == "bad" else "no insight"
    return Verdict(
        f"{who}: learning helps", FIGURE, row.table,
        f"Whoever has {who} needs fewer runs if she learns from results.",
        outcome,
        f"over confidences of {_range(row)}: {told(with_it)} runs with learning, {told(without)} "
        f"without: {_relative(change)}.",
        "" if outcome != "does not hold" else _why_learning(row, insight),
    )  # fmt: skip


def learning_helps_most_at_least(row: Runs) -> Verdict:
    """With bad insight learning is worth most where confidence is least."""
    first, *others = [row.mean("bad", at) - row.mean("bad", at, learning=True) for at in row.shared]
    rest = mean_of(others)
    outcome = above_zero(first, first - rest)
    best = max(row.shared, key=lambda at: _learnt(row, "bad", at).value)
    return Verdict(
        f"bad insight: learning helps most at {LEAST} %", FIGURE, row.table,
        "With bad insight, learning saves most runs where few are taken from the suggestions "
        f"({LEAST} %).",
        outcome,
        f"runs saved by learning: {told(first)} at {row.shared[0]} %, {told(rest)} on average at "
        f"{row.shared[1]} to {row.shared[-1]} %; the difference is {told(first - rest)}.",
        "" if outcome != "does not hold" else
        f"it saves most at {best} %: {told(_learnt(row, 'bad', best))} runs.",
    )  # fmt: skip


def good_rises(row: Runs) -> Verdict:
    """With good insight the runs rise as confidence rises."""
    trend, (first, last) = row.trend("good"), row.ends("good")
    outcome = above_zero(trend, last - first)
    return Verdict(
        "good insight: more runs", FIGURE, row.table,
        "Whoever has good insight needs more runs the more she leaves to the suggestions.",
        outcome,
        f"{told(trend)} runs per 10 points of confidence; {told(first)} runs at "
        f"{row.confidences[0]} %, {told(last)} at 100 %{_against(row, 'good', falling=False)}"
        f"{_censored(row, 'good')}.",
        "" if outcome != "does not hold" else _beside_chance(row),
    )  # fmt: skip


def last_step(row: Runs) -> Verdict:
    """The rise with good insight: abrupt at its end on flood, regular on the others."""
    at = row.confidences
    before = row.mean("good", at[-2]) - row.mean("good", at[0])
    step = row.mean("good", 100) - row.mean("good", at[-2])
    is_flood = row.table == "flood"
    outcome = above_zero(step, step - before) if is_flood else above_zero(before, before - step)
    text = (
        "On flood the runs with good insight leap at full confidence, by more than they rose "
        "before: a few runs of her own lead the model out of the flat area."
        if is_flood
        else "The runs with good insight rise regularly, without a leap at full confidence by more "
        "than they rose before."
    )
    why = ""
    if outcome == "does not hold":
        why = (
            f"the rise up to {at[-2]} % is {told(before)} runs"
            f"{' already' if is_flood else ' only'}, the last step {told(step)}."
        )
    return Verdict(
        "good insight: leap at 100 %" if is_flood else "good insight: regular rise",
        FIGURE, row.table, text, outcome,
        f"{told(step)} runs more from {at[-2]} to 100 %, {told(before)} from {at[0]} to "
        f"{at[-2]} %; the difference is {told(step - before)}; the greatest step before is "
        f"{told(_greatest_step(row))}.",
        why,
    )  # fmt: skip


def learning_idle_for_good(row: Runs) -> Verdict:
    """With good insight learning changes nothing that matters."""
    change = row.over("good", learning=True).log() - row.over("good").log()
    outcome = near_zero(change, math.log1p(MARGIN))
    return Verdict(
        "good insight: learning idle", FIGURE, row.table,
        "With good insight it makes no difference that matters whether she learns "
        f"({MARGIN:.0%} of the runs at most).",
        outcome,
        f"over confidences of {_range(row)}: {_relative(change)} with learning "
        f"({told(row.over('good', learning=True))} runs beside {told(row.over('good'))}).",
        "" if outcome != "does not hold" else
        f"she makes {told(row.over('good'))} runs before she finds it without learning, which is "
        f"enough to learn from{_effects(row)}.",
    )  # fmt: skip


def none_between(row: Runs) -> Verdict:
    """No insight lies between good and bad."""
    bad, good, none = (row.over(insight) for insight in ("bad", "good", "none"))
    outcome = above_zero(none - good, bad - none)
    return Verdict(
        "no insight: in between", FIGURE, row.table,
        "Whoever has no insight needs more runs than with good and fewer than with bad insight.",
        outcome,
        f"over confidences of {_range(row)}: good {told(good)}, none {told(none)}, bad "
        f"{told(bad)} runs; none beyond good {told(none - good)}, bad beyond none "
        f"{told(bad - none)}.",
        "" if outcome != "does not hold" else
        "a bad subset is soon used up in a space of this size, and what she does then is what "
        "no insight does."
        if (none - good).low > 0 else "good insight is no help here.",
    )  # fmt: skip


def none_falls_less(row: Runs) -> Verdict:
    """With no insight confidence helps too, though less than with bad insight."""
    trend, bad = row.trend("none"), row.trend("bad")
    outcome = above_zero(-trend, trend - bad)
    return Verdict(
        "no insight: fewer runs, less so", FIGURE, row.table,
        "Trust in the suggestions saves runs without insight too, though fewer than with bad "
        "insight.",
        outcome,
        f"runs per 10 points of confidence: {told(trend)} without insight, {told(bad)} with bad "
        f"insight; the difference is {told(trend - bad)}{_censored(row, 'none')}.",
        "" if outcome != "does not hold" else _beside_chance(row),
    )  # fmt: skip


def _greatest_step(row: Runs) -> Estimate:
    means = [row.mean("good", at) for at in row.shared]
    return max((b - a for a, b in itertools.pairwise(means)), key=lambda one: one.value)


def _gain(row: Runs) -> Estimate:
    first, last = row.ends("bad")
    return first.log() - last.log()


def _learnt(row: Runs, insight: Kind, confidence: int) -> Estimate:
    return row.mean(insight, confidence) - row.mean(insight, confidence, learning=True)


def _factor(gain: Estimate) -> str:
    ends = math.exp(gain.low), math.exp(gain.high)
    return f"{math.exp(gain.value):.2f} ({ends[0]:.2f} to {ends[1]:.2f})"


def _relative(change: Estimate) -> str:
    return percent(change.expm1())


def _range(row: Runs) -> str:
    return f"{row.shared[0]} to {row.shared[-1]} %"


def _against(row: Runs, insight: Kind, *, falling: bool) -> str:
    """Return the steps that surely go the other way, at a level that allows for all of them."""
    pairs = list(itertools.pairwise(row.confidences))
    level = 1.0 - 0.05 / len(pairs)
    found = []
    for before, after in pairs:
        step = row.mean(insight, after) - row.mean(insight, before)
        low, high = (step if falling else -step).within(level)
        if low > 0 and high > 0:
            found.append(f"{before} to {after} %")
    word = "rise" if falling else "fall"
    return f"; yet the runs {word} from {listed(found)}" if found else ""


def _censored(row: Runs, insight: Kind) -> str:
    first = row.given_up(insight, row.confidences[0])
    last = row.given_up(insight, 100)
    if not first and not last:
        return ""
    return (
        f"; given up at half the space, and counted with that: {first:.0%} at "
        f"{row.confidences[0]} %, {last:.0%} at 100 %"
    )


def _beside_chance(row: Runs) -> str:
    """Return how the suggestions alone do beside draws at random, which is what may explain it."""
    key: tuple[Kind, int, bool] = ("none", 0, False)
    if key not in row.samples:
        return "no cell without confidence was played, so chance is not known."
    alone, chance = row.mean("none", 100), row.samples[key].mean
    verdict: dict[Outcome, str] = {
        "holds": "sooner than",
        "does not hold": "later than",
        "undecided": "about as soon as",
    }
    word = verdict[above_zero(chance - alone)]
    return (
        f"the suggestions alone find the optimum {word} draws at random without any insight "
        f"({told(alone)} beside {told(chance)} runs){_effects(row)}."
    )


def _effects(row: Runs) -> str:
    """Return whether the levels that are best on average lead to the optimum."""
    if row.leading is None:
        return ""
    n, of = row.leading
    return f"; the optimum has the level that is best on average in {n} of {of} parameters"


def _why_learning(row: Runs, insight: Kind) -> str:
    gains = {at: _learnt(row, insight, at) for at in row.shared}
    worst = min(gains, key=lambda at: gains[at].value)
    return (
        f"it does least at {worst} %, where it changes the runs by {told(-gains[worst])}"
        f"{_effects(row)}."
    )
