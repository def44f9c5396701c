"""The scoreboard of trust in words and rows, for the report, the browser and the command line."""

from dataclasses import dataclass

from assistant.charts_steering import PromiseMark
from assistant.experiment import Experiment
from assistant.report.words import number
from assistant.trust import CONFIDENCE, Coverage, Group, MeanError, Promise, Score, Trust, trust

FEW = 10
"""Runs below which nothing is judged: if all 10 went well, Wilson's interval begins at 72 %."""

NAMES: dict[Group, str] = {
    "suggested": "suggested, taken as it was",
    "edited": "suggested, then edited",
    "left out": "suggested, left out",
    "own": "the analyst's own",
    "initial": "first runs",
    "today": "today's configuration",
    "repeated": "repeated",
    "from before": "results from before",
}


@dataclass(frozen=True, slots=True)
class TrustRow:
    """One group as a row of texts; see `assistant.trust.Score`."""

    name: str
    n: str
    completed: str
    failed: str
    mean: str
    best: str
    improved: str
    gain: str
    coverage: str
    error: str


@dataclass(frozen=True, slots=True)
class TrustSection:
    """The scoreboard as it is told.

    Args:
        told: the scoreboard itself.
        title: of the value, with its unit.
        sentences: what to make of it.
        rows: a row for each group.
    """

    told: Trust
    title: str
    sentences: tuple[str, ...]
    rows: tuple[TrustRow, ...]


def trust_section(experiment: Experiment) -> TrustSection | None:
    """Return the scoreboard as it is told; None while there is no run."""
    if not experiment.runs:
        return None
    told = trust(experiment)
    title = f"{told.value_name} [{told.unit}]" if told.unit else told.value_name
    rows = tuple(_row(score) for score in told.scores)
    return TrustSection(told, title, sentences(told), rows)


def sentences(told: Trust) -> tuple[str, ...]:
    """Say what to make of it: whether intervals held, whether values leaned, who improved."""
    parts = [_held(told.coverage), _leaned(told), _improved(told)]
    if told.unanswered:
        one = told.unanswered == 1
        parts.append(
            f"{told.unanswered} more suggestion{' was' if one else 's were'} replaced before "
            f"anything of {'its' if one else 'their'} batch was submitted, and count as nothing."
        )
    return tuple(part for part in parts if part)


def _held(coverage: Coverage | None) -> str:
    if coverage is None:
        return (
            "No suggestion with a stated interval has come to a result yet, so nothing can be said "
            "of how far to trust them."
        )
    said = f"{coverage.inside} of {coverage.n} results lie in the interval that was stated"
    if coverage.n < FEW:
        return f"{said}; that is too little to judge, {FEW} are needed."
    said += (
        f" ({coverage.share:.0%}, 95 % interval {coverage.low:.0%} to {coverage.high:.0%}; "
        f"{CONFIDENCE:.0%} are promised)"
    )
    if coverage.high < CONFIDENCE:
        return f"{said}: the intervals are too narrow, so trust them less than they say."
    if coverage.low > CONFIDENCE:
        return f"{said}: the intervals are wider than they need be."
    return f"{said}: nothing speaks against them."


def _leaned(told: Trust) -> str:
    error = told.error
    if error is None or error.n < FEW or error.low is None or error.high is None:
        return ""
    unit = f" {told.unit}" if told.unit else ""
    text = (
        f"On average {told.value_name} came {number(abs(error.value))}{unit} "
        f"{'above' if error.value > 0 else 'below'} what was expected (95 % interval "
        f"{number(error.low)} to {number(error.high)})"
    )
    if error.low <= 0 <= error.high:
        return f"{text}: that may be chance."
    good = (error.value < 0) == (told.goal == "minimise")
    return f"{text}: expectations are too {'cautious' if good else 'hopeful'}."


def _improved(told: Trust) -> str:
    """Say how often suggestions and the analyst's runs improved the best; nothing without any."""
    parts = [
        f"{score.improved} of {score.completed} that were {word}"
        for group, word in (
            ("suggested", "suggested"), ("edited", "edited"), ("own", "the analyst's own"),
        )
        for score in told.scores
        if score.group == group and score.completed
    ]  # fmt: skip
    if not parts:
        return ""
    return (
        f"The best so far was improved by {', '.join(parts)}; the later a run, the harder that is."
    )


def _row(score: Score) -> TrustRow:
    late = " (run later)" if score.group == "left out" and score.completed else ""
    violated = f", {score.violated} violating" if score.violated else ""
    return TrustRow(
        name=NAMES[score.group],
        n=str(score.n),
        completed=f"{score.completed}{late}{violated}",
        failed=str(score.failed),
        mean=number(score.mean),
        best=number(score.best),
        improved="unknown" if score.improved is None else str(score.improved),
        gain=_signed(score.gain),
        coverage=_coverage(score.coverage),
        error=_error(score.error),
    )


def _coverage(told: Coverage | None) -> str:
    if told is None:
        return "unknown"
    return f"{told.inside} of {told.n} ({told.low:.0%} to {told.high:.0%})"


def _error(told: MeanError | None) -> str:
    if told is None:
        return "unknown"
    interval = "" if told.low is None else f" ({number(told.low)} to {number(told.high)})"
    return f"{_signed(told.value)}{interval}"


def _signed(value: float | None) -> str:
    return f"+{number(value)}" if value is not None and value > 0 else number(value)


def marks(promises: tuple[Promise, ...]) -> tuple[PromiseMark, ...]:
    """Return promises as they are drawn: a row for each that a run of its own batch kept or not."""
    return tuple(
        PromiseMark(
            f"run {one.run_id}, batch {one.batch}", one.expected, one.low, one.high, one.came,
            one.inside,
        )
        for one in promises
        if one.group != "left out"
    )  # fmt: skip
