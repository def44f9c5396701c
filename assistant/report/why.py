"""The why of a suggestion as people read it: the strategy's sentence and what is expected."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from assistant.chances import percent
from assistant.expectation import FEW, Expectation, expectation
from assistant.experiment import Experiment
from assistant.report.words import level, number, quantity, setting
from strategies import Configuration, Suggestion, SuggestionKind

KINDS: Mapping[SuggestionKind, str] = {
    "initial": "first run",
    "construction": "construction",
    "neighbour": "neighbour",
    "random": "explore",
    "region": "inside region",
    "analyst": "yours",
    "poll": "poll",
    "particle": "particle",
    "design": "design",
    "improvement": "improve",
    "confirmation": "confirmation",
}
"""How a suggestion came about, in a word."""

KINDS_TOLD = (
    "explore: where little is known; improve: likely to beat the best; neighbour: one step from a "
    "good run; construction: put together of good levels; inside region: where good results lie "
    "close together; confirmation: a repeat that makes a result surer; yours: added by you"
)


def expected_text(experiment: Experiment, configuration: Configuration) -> str:
    """Return "9,870 s (9,700 to 10,150)", the value expected and its 95% interval, or "unknown"."""
    found = expectation(experiment, configuration)
    if found is None:
        return "unknown"
    return f"{_value(experiment, found.value)} ({_ends(found)})"


def why(experiment: Experiment, suggestion: Suggestion) -> str:
    """Return the reason of a suggestion with what is expected of it, in one sentence."""
    text = expected_text(experiment, suggestion.configuration)
    if text == "unknown":
        return suggestion.reason
    measure = experiment.opened.objective.wrapper
    return f"{suggestion.reason.removesuffix('.')}; expected {measure}: {text}."


def kind_text(suggestion: Suggestion) -> str:
    """Return how a suggestion came about, in a word or two: "inside region 2"."""
    if suggestion.region is not None:
        return f"inside region {suggestion.region}"
    return KINDS[suggestion.kind]


def list_text(experiment: Experiment, numbered: Sequence[tuple[int, Configuration]]) -> str:
    """Return what a list of runs is predicted to give, in a sentence.

    Args:
        experiment: whose model speaks.
        numbered: the configurations with the number that people see beside each.
    """
    n = len(numbered)
    runs = "1 run" if n == 1 else f"{n:,} runs"
    if not n:
        return "Your list: nothing is taken."
    found = [(at, expectation(experiment, one)) for at, one in numbered]
    told = [(at, one) for at, one in found if one is not None]
    if not told:
        return f"Your list: {runs}; what they give cannot be predicted yet."
    minimise = experiment.opened.objective.goal == "minimise"
    told.sort(key=lambda pair: pair[1].value if minimise else -pair[1].value)
    at, best = told[0]
    first = f"no. {at} the best with {_value(experiment, best.value)} ({_ends(best)})"
    if n == 1:
        return f"Your list: 1 run, predicted {_value(experiment, best.value)} ({_ends(best)})."
    values = sorted(one.value for _, one in told)
    low, high = number(values[0]), _value(experiment, values[-1])
    return f"Your list: {runs}, predicted {low} to {high}; {first}."


@dataclass(frozen=True, slots=True)
class LevelRow:
    """One level of a suggestion: what the best run has there, and what is known of it.

    ``typical`` is what a typical configuration with it is expected to give, with its 95% interval;
    "unknown" without a result.
    """

    parameter: str
    level: str
    best: str
    typical: str
    runs: int


@dataclass(frozen=True, slots=True)
class Explanation:
    """All that is known of why something was suggested: sentences, and its levels one by one."""

    sentences: tuple[str, ...]
    levels: tuple[LevelRow, ...]


def explanation(experiment: Experiment, suggestion: Suggestion) -> Explanation:
    """Return why a configuration was suggested, and what is expected of it by now."""
    one, unit = suggestion.configuration, experiment.opened.objective.unit
    told = [suggestion.reason, f"It was chosen by {suggestion.strategy} ({kind_text(suggestion)})."]
    found = expectation(experiment, one)
    n = len(experiment.measured)
    if found is None:
        told.append(f"What it gives cannot be predicted: {n} of at least {FEW} results are known.")
    else:
        told.append(
            f"Expected: {expected_text(experiment, one)}, with a 95 % interval, by the model of "
            f"{n:,} results."
        )
    if suggestion.chance is not None:
        told.append(
            f"Its chance to beat the best run was {percent(suggestion.chance)} when it was "
            "suggested."
        )
    best = experiment.best
    standing = None if best is None else experiment.standing(best)
    if best is not None and standing is not None:
        told.append(
            f"The best so far is run {best.id} with {quantity(standing.outcome.value, unit)}."
        )
    if suggestion.near is not None:
        told.append(_nearness(experiment, one, suggestion.near))
    return Explanation(tuple(told), _levels(experiment, one))


def _nearness(experiment: Experiment, one: Configuration, near: Configuration) -> str:
    space = experiment.space
    here, there = space.values(one), space.values(near)
    differing = [
        f"{p.name} ({setting(here[p.name], p.unit)} instead of {setting(there[p.name], p.unit)})"
        for p in space.parameters
        if here[p.name] != there[p.name]
    ]
    run = next((run for run in experiment.runs if run.configuration == near), None)
    which = "a configuration that was not run" if run is None else f"run {run.id}"
    value = None if run is None or run.outcome is None else run.outcome.value
    gave = (
        "" if value is None else f", which gave {quantity(value, experiment.opened.objective.unit)}"
    )
    if not differing:
        return f"It repeats {which}{gave}."
    return f"It differs from {which}{gave}: {', '.join(differing)}."


def _levels(experiment: Experiment, one: Configuration) -> tuple[LevelRow, ...]:
    space, model = experiment.space, experiment.measured_anova
    values = space.values(one)
    best = None if experiment.best is None else space.values(experiment.best.configuration)
    rows = []
    for parameter in space.parameters:
        value = values[parameter.name]
        level_id = parameter.level_id(value)
        typical, n = "unknown", 0
        if model is not None and len(model.ids) >= FEW:
            marginal = model.main_effect(parameter.name)[level_id]
            value_of = experiment.opened.objective.value_of
            ends = sorted(map(value_of, marginal.interval))
            n = marginal.count
            if n:
                told = Expectation(value_of(marginal.value), ends[0], ends[1])
                typical = f"{_value(experiment, told.value)} ({_ends(told)})"
        of_best = "" if best is None else level(best[parameter.name])
        rows.append(LevelRow(parameter.name, setting(value, parameter.unit), of_best, typical, n))
    return tuple(rows)


def _value(experiment: Experiment, value: float) -> str:
    return quantity(value, experiment.opened.objective.unit).partition(" (")[0]


def _ends(found: Expectation) -> str:
    return f"{number(found.low)} to {number(found.high)}"
