"""Comparison with the current configuration in words, the same in terminal, browser, report, API.

Like is compared with like: a percentage stands only between two values above 0 that were both
allowed. Where only one of two configurations violates a constraint, that is the comparison.
"""

from dataclasses import dataclass

from assistant.core.experiment import Experiment
from assistant.core.objective import Measure, Objective
from assistant.core.run import Outcome
from assistant.presentation.text.number_format import between, number, spoken, unit_of


@dataclass(frozen=True, slots=True)
class Comparison:
    """The comparison of a result with that of the current configuration.

    Args:
        text: clause that names both, such as "run 3 lowers loss by 37.5 %, from the current 0.48
            to 0.3".
        short: the same for a tile or a table cell.
        is_better: None if the two are equal.
        share: change of the value as a share of the current one, positive if better; None where
            a percentage has no meaning.
    """

    text: str
    short: str
    is_better: bool | None
    share: float | None = None


def compare(objective: Objective, new: Outcome, current: Outcome, name: str) -> Comparison:
    """Compare a result, called ``name``, with that of the current configuration."""
    if new.feasible and current.feasible:
        return _compare_values(objective, new, current, name)
    if new.feasible:
        broken = violated_words(objective, current)
        return Comparison(
            f"the current configuration violates {broken}; {name} meets every constraint",
            "current violates a constraint",
            is_better=True,
        )
    if current.feasible:
        broken = violated_words(objective, new)
        return Comparison(
            f"{name} violates {broken}; the current configuration meets every constraint",
            "violates a constraint, current does not",
            is_better=False,
        )
    closer = "closer" if new.violation < current.violation else "less close"
    return Comparison(
        f"{name} violates {violated_words(objective, new)}; the current configuration violates "
        f"{violated_words(objective, current)}",
        "violates a constraint"
        + ("" if new.violation == current.violation else f", {closer} than current"),
        is_better=None if new.violation == current.violation else closer == "closer",
    )


def compare_best(experiment: Experiment, name: str = "the best found") -> Comparison | None:
    """Compare the best configuration with the current one; None if one of them has no result."""
    best, baseline = experiment.best, experiment.baseline
    new = None if best is None else experiment.summary(best)
    current = None if baseline is None else experiment.summary(baseline)
    if new is None or current is None:
        return None
    return compare(experiment.opened.objective, new.outcome, current.outcome, name)


def change_words(new: float, old: float, unit: str = "") -> str:
    """Return the change of a value in words; a percentage only between values above 0.

    >>> change_words(0.30, 0.48), change_words(2.0, 2.0), change_words(-1.0, 4.0)
    ('37.5 % lower', 'the same', '5 lower')
    """
    if new == old:
        return "the same"
    direction = "lower" if new < old else "higher"
    if old > 0 and new >= 0:
        percentage = round(100 * abs(new - old) / old, 1)
        return f"{number(percentage) if percentage else 'less than 0.1'} % {direction}"
    return f"{spoken(abs(new - old), unit)} {direction}"


def violated_words(objective: Objective, outcome: Outcome) -> str:
    """Return the violated constraints and their measures, such as "'wait at most 9' (with 12)"."""
    violated = [c for c in objective.constraints if c.violation(outcome.measures) > 0]
    words = [f"'{c}'{_measured(outcome.measures.get(c.measure), c.measure)}" for c in violated]
    return " and ".join(words) or "a constraint"


def _measured(value: Measure, name: str) -> str:
    return f" (with {spoken(value, unit_of(name))})" if isinstance(value, int | float) else ""


def _compare_values(objective: Objective, new: Outcome, current: Outcome, name: str) -> Comparison:
    if new.quality == current.quality:
        value = spoken(new.value, objective.unit)
        text = f"{name} gives the same as the current configuration ({value})"
        return Comparison(text, "same as current", None, 0.0)
    is_better = new.quality > current.quality
    change = change_words(new.value, current.value, objective.unit)
    amount, direction = change.rsplit(maxsplit=1)
    verb = "lowers" if direction == "lower" else "raises"
    values = f"from the current {between(current.value, new.value, objective.unit)}"
    worse = "" if is_better else ", which is worse"
    share = None
    if current.value > 0 and new.value >= 0:
        share = abs(new.value - current.value) / current.value * (1 if is_better else -1)
    return Comparison(
        f"{name} {verb} {objective.wrapper} by {amount}, {values}{worse}",
        f"{change} than current{worse.replace(', which is worse', ' (worse)')}",
        is_better,
        share,
    )
