"""Beyond the paper: our default strategy beside its GRASP, and what the forecast's advice is worth.

Two questions on each application, in sessions as people have them. Which strategy finds more within
a budget, whoever works with it? And of agreements with a goal and a budget, how many are kept if
warnings of the forecast are followed, and how many if they are ignored? Both answers of the second
are played with the same random streams, so that they differ from the first warning on; the
difference is taken episode by episode.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from agents.charts_study import Panel
from agents.insight import Kind
from agents.playbooks.resampled import Estimate, Sample, mean_of
from agents.playbooks.verdicts import Outcome, Verdict, above_zero, listed, told
from agents.results import Figure

FIGURE = "compare"
FAITHFUL, DEFAULT = "grasp", "anova"
"""The paper's strategy and the product's default (`strategies.DEFAULT_STRATEGY`)."""

BUDGETS = {"flood": 100, "scheduling": 60, "maze": 15}
"""Runs of an episode: the second budget of each of the figures 7 to 9."""

CONFIDENCES = (0, 50, 100)
GOAL = 0.01
"""The goal of the agreement is the value that this share of the configurations reaches."""

MOST_OF_STRATEGIES, MOST_OF_GOALS = 20, 100
"""Episodes per cell at most: sessions take their time."""


@dataclass(frozen=True, slots=True, eq=False)
class Strategies:
    """How much the strategies find on an application.

    Args:
        table: its name.
        samples: ratio to the optimum by strategy, insight and confidence in per cent.
    """

    table: str
    samples: Mapping[tuple[str, Kind, int], Sample]

    def over(self, strategy: str, confidence: int) -> Estimate:
        """Return the mean over the insights."""
        own = [
            sample.mean
            for (name, _, at), sample in self.samples.items()
            if (name, at) == (strategy, confidence)
        ]
        return mean_of(own)

    def found(self, strategy: str, confidence: int) -> float:
        """Return the share of the episodes that found the optimum."""
        own = [
            sample.found
            for (name, _, at), sample in self.samples.items()
            if (name, at) == (strategy, confidence)
        ]
        return sum(own) / len(own)


@dataclass(frozen=True, slots=True, eq=False)
class Goals:
    """How many agreements are kept on an application.

    Args:
        table: its name.
        strategy: of the suggestions.
        ignored: 1 for an agreement that was kept by an analyst who ignores warnings, else 0.
        accepted: likewise by one who accepts them.
        gained: the differences, episode by episode.
        warned: share of the episodes in which accepting made a difference to what was run.
    """

    table: str
    strategy: str
    ignored: Sample
    accepted: Sample
    gained: Sample
    warned: float


def judge_compare(rows: Sequence[Strategies], goals: Sequence[Goals]) -> list[Verdict]:
    """Return verdicts on claims of ours, not of the paper."""
    verdicts = [default_finds_more(row, at) for row in rows for at in (100, 50)]
    return [*verdicts, *(advice_keeps_more(one) for one in goals)]


def default_finds_more(row: Strategies, confidence: int) -> Verdict:
    """Our default finds more within the budget than the paper's GRASP."""
    ours, theirs = (row.over(name, confidence) for name in (DEFAULT, FAITHFUL))
    outcome = above_zero(ours - theirs)
    found = [
        f"{name} finds the optimum in {row.found(name, confidence):.0%} of the episodes"
        for name in (DEFAULT, FAITHFUL)
    ]
    who = "alone" if confidence == 100 else f"with an analyst who trusts it to {confidence} %"
    return Verdict(
        f"default beyond grasp, {confidence} %", FIGURE, row.table,
        f"Ours: within {BUDGETS[row.table]} runs the default strategy ({DEFAULT}) {who} finds more "
        "than the paper's GRASP.",
        outcome,
        f"ratio to the optimum, over all insights: {told(ours, 3)} beside {told(theirs, 3)}; the "
        f"difference is {told(ours - theirs, 3)}.",
        "" if outcome != "does not hold" else f"{listed(found)}.",
    )  # fmt: skip


def advice_keeps_more(one: Goals) -> Verdict:
    """Who accepts the advice of the forecast keeps more agreements."""
    outcome = above_zero(one.gained.mean)
    return Verdict(
        f"advice keeps agreements, {one.strategy}", FIGURE, one.table,
        f"Ours: who accepts the advice of the forecast, with {one.strategy}, keeps more agreements "
        f"({BUDGETS[one.table]} runs to reach the best {GOAL:.0%}) than who ignores it.",
        outcome,
        f"kept: {told(one.accepted.mean * 100.0, 0)} % accepting, "
        f"{told(one.ignored.mean * 100.0, 0)} % ignoring; the difference, episode by episode, is "
        f"{told(one.gained.mean * 100.0, 1)} points; in {one.warned:.0%} of {one.gained.n} "
        "episodes accepting changed what was run.",
        _why_not(one, outcome),
    )  # fmt: skip


def _why_not(one: Goals, outcome: Outcome) -> str:
    if not one.warned:
        return "no warning came that proposed a change which an analyst may make by herself."
    if outcome != "does not hold":
        return ""
    return "the changes that the advice proposes do worse here than going on as before."


def strategy_panels(row: Strategies) -> Iterator[tuple[str, Panel]]:
    """Yield a panel per insight, with a name for its file."""
    names = {"bad": "bad insight", "good": "good insight", "none": "no insight"}
    for insight in dict.fromkeys(own for _, own, _ in row.samples):
        bars = [
            (str(at), name, figure(sample.mean))
            for (name, own, at), sample in row.samples.items()
            if own == insight
        ]
        title = f"{row.table}, {names[insight]}, {BUDGETS[row.table]} runs"
        what = ("confidence [%]", "strategy", "ratio to the optimum")
        yield f"{row.table}_{insight}", Panel(title, *what, tuple(bars), row.table)


def goal_panels(goals: Sequence[Goals]) -> Iterator[tuple[str, Panel]]:
    """Yield the agreements that are kept, a panel per application, with a name for its file."""
    for table in dict.fromkeys(one.table for one in goals):
        bars = [
            (one.strategy, word, figure(sample.mean))
            for one in goals
            for word, sample in (("ignoring", one.ignored), ("accepting", one.accepted))
            if one.table == table
        ]
        title = f"{table}, agreements kept: the best {GOAL:.0%} within {BUDGETS[table]} runs"
        what = ("strategy", "warnings of the forecast", "share kept")
        yield f"{table}_agreements", Panel(title, *what, tuple(bars), table)


def figure(estimate: Estimate) -> Figure:
    """Return an estimate as a bar with its interval."""
    return Figure(estimate.value, estimate.low, estimate.high)
