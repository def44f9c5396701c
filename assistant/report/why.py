"""The why of a suggestion as people read it: the strategy's sentence and what is expected."""

from assistant.expectation import expectation
from assistant.experiment import Experiment
from assistant.report.words import number, quantity
from strategies import Configuration, Suggestion


def expected_text(experiment: Experiment, configuration: Configuration) -> str:
    """Return "9,870 s (9,700 to 10,150)", the value expected and its 95% interval, or "unknown"."""
    found = expectation(experiment, configuration)
    if found is None:
        return "unknown"
    value = quantity(found.value, experiment.opened.objective.unit).partition(" (")[0]
    return f"{value} ({number(found.low)} to {number(found.high)})"


def why(experiment: Experiment, suggestion: Suggestion) -> str:
    """Return the reason of a suggestion with what is expected of it, in one sentence."""
    text = expected_text(experiment, suggestion.configuration)
    if text == "unknown":
        return suggestion.reason
    measure = experiment.opened.objective.wrapper
    return f"{suggestion.reason.removesuffix('.')}; expected {measure}: {text}."
