"""What a study shows, in sentences: each a difference with an interval of its own.

Two means differ if the 95 % interval of their difference leaves 0 out, not if the intervals of two
bars do not overlap (`agents.playbooks.resampled`). Compared are the ends of each axis of the grid,
averaged over the others; confidence and learning for each insight by itself, for what they do
depends on it (section 4.2 of the paper).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from agents.charts_study import level
from agents.playbooks.resampled import Estimate, Sample, mean_of
from agents.playing import Played
from agents.results import Episodes
from agents.study import Cell, Study

RESAMPLES = 1_000
_INSIGHTS = {
    "good": "with good insight", "bad": "with bad insight", "none": "without insight", None: "",
}  # fmt: skip
Means = dict[Cell, Estimate]


@dataclass(frozen=True, slots=True)
class Finding:
    """A sentence about a study.

    Args:
        text: for people.
        sure: whether the 95 % interval of what it says leaves 0 out.
        weight: how many half intervals the difference is.
    """

    text: str
    sure: bool
    weight: float


def findings(study: Study, episodes: Episodes) -> tuple[Finding, ...]:
    """Return what the episodes of a study show, the surest first.

    Args:
        study: that was played.
        episodes: of each cell.
    """
    is_ratio = bool(study.stop.runs)
    means = {
        cell: Sample.of(
            [_value(one, None if is_ratio else allowed) for one in played],
            cell.streams(study.seed, 0).generator("bootstrap"),
            resamples=RESAMPLES,
        ).mean
        for cell, allowed, played in episodes
    }
    found = []
    for table in study.tables:
        where = f"on {table.name}" if len(study.tables) > 1 else ""
        of_table = {cell: mean for cell, mean in means.items() if cell.table == table.name}
        found += [_sentence(where, one, is_ratio=is_ratio) for one in _contrasts(study, of_table)]
    return tuple(sorted(found, key=lambda one: (not one.sure, -one.weight)))


def _value(played: Played, allowed: int | None) -> float:
    """Return the number of an episode that a bar shows the mean of; without runs, its ratio."""
    if allowed is None:
        return played.ratio or 0.0
    return float(allowed if played.runs_to_optimum is None else played.runs_to_optimum)


@dataclass(frozen=True, slots=True)
class _Contrast:
    """Cells with one value of an axis beside those with another."""

    context: str
    subject: str
    before: Estimate
    after: Estimate


def _contrasts(study: Study, means: Means) -> Iterator[_Contrast]:
    for insight in dict.fromkeys(cell.insight for cell in means):
        own = {cell: mean for cell, mean in means.items() if cell.insight == insight}
        context = _INSIGHTS[insight]
        yield from _ends(own, context, lambda c: c.confidence, "confidence {1} % instead of {0} %")
        yield from _ends(own, context, lambda c: c.learning, "learning")
    yield from _ends(means, "", lambda c: c.runs, "a budget of {1} runs instead of {0}")
    if len(study.stop.exploitation) > 1:
        yield from _beside(means, lambda c: level(c.exploitation), "exploitation {1} beside {0}")
    yield from _beside(means, lambda c: str(c.strategy), "{1} instead of {0}")
    yield from _beside(means, lambda c: c.kind, "the analyst {1} instead of {0}")


def _ends(
    means: Means, context: str, of: Callable[[Cell], int | None], subject: str
) -> Iterator[_Contrast]:
    """Compare the greatest value of an axis with the least one; cells without one are left out."""
    values = sorted({value for cell in means if (value := of(cell)) is not None})
    if len(values) > 1:
        first, last = values[0], values[-1]
        yield _Contrast(
            context, subject.format(first, last), _mean(means, of, first), _mean(means, of, last)
        )


def _beside(means: Means, of: Callable[[Cell], str], subject: str) -> Iterator[_Contrast]:
    """Compare every other value of an axis with the first one."""
    first, *others = dict.fromkeys(map(of, means))
    for other in others:
        yield _Contrast(
            "", subject.format(first, other), _mean(means, of, first), _mean(means, of, other)
        )


def _mean(means: Means, of: Callable[[Cell], object], value: object) -> Estimate:
    return mean_of([mean for cell, mean in means.items() if of(cell) == value])


def _sentence(where: str, found: _Contrast, *, is_ratio: bool) -> Finding:
    """Say a difference in words."""
    change = found.after - found.before
    low, high = change.low, change.high
    sure = low > 0 or high < 0
    weight = abs(change.value) / max((high - low) / 2, 1e-12)
    told = ", ".join([*filter(None, (where, found.context)), found.subject])
    told = f"{told[:1].upper()}{told[1:]}"
    before, after = _short(found.before.value), _short(found.after.value)
    if not sure:
        unit = "in the ratio to the optimum" if is_ratio else "runs"
        return Finding(
            f"{told}: these episodes show no difference ({_short(low)} to {_short(high)} {unit}).",
            sure, weight,
        )  # fmt: skip
    ends = sorted((abs(low), abs(high)))
    by = f"{_short(abs(change.value))} ({_short(ends[0])} to {_short(ends[1])})"
    if is_ratio:
        verb = "raises" if change.value > 0 else "lowers"
        text = f"{told} {verb} the ratio to the optimum by {by}: {after} beside {before}."
    else:
        verb = "costs" if change.value > 0 else "saves"
        text = f"{told} {verb} {by} runs to the optimum: {after} beside {before}."
    return Finding(text, sure, weight)


def _short(value: float) -> str:
    """Return a number with at most three significant digits below 1,000.

    >>> _short(15.463), _short(-0.05), _short(1234.5)
    ('15.5', '-0.05', '1,234')
    """
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.3g}"
