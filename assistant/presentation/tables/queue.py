"""The queue of runs as text: running and waiting runs, their order, intermediate results, reasons.

A list for actions is a snapshot: it does not change until it is renewed, and it counts the
changes since then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from assistant.analysis.remaining_runs import QueueEnds, queue_ends
from assistant.analysis.response_map import (
    FEW,
    ExpectedMeasure,
    expected_measure,
    interval_name,
)
from assistant.core.early_stopping import STOP_RULES
from assistant.core.experiment import Experiment
from assistant.core.forecast import Interval, percent
from assistant.core.objective import Objective
from assistant.core.run import Run, RunState
from assistant.presentation.text.forecast import clock
from assistant.presentation.text.number_format import (
    INACTIVE,
    between,
    duration,
    level,
    quantity,
    setting,
    spoken,
    unit_of,
)
from strategies import Configuration, Suggestion, SuggestionKind

MOST_RUN_NAMES = 8

SOON_S = 60.0  # An end within so many seconds is shown as a duration, a later one as a time of day


@dataclass(frozen=True, slots=True)
class QueueSnapshot:
    """The running and waiting runs of an experiment at one moment.

    Args:
        at_s: time of the snapshot, seconds since 1970-01-01 UTC.
        n_events: length of the event log at that time.
        version: version of the experiment at that time; see `Experiment`.
        waiting: waiting runs, the next one first; held runs come last, oldest first.
    """

    at_s: float
    n_events: int
    version: int
    running: tuple[Run, ...]
    waiting: tuple[Run, ...]
    ends: QueueEnds

    @classmethod
    def of(cls, experiment: Experiment, now_s: float, *, is_running: bool) -> QueueSnapshot:
        """Return a snapshot of the current queue; without ends unless runs go on."""
        held_runs = tuple(run for run in experiment.runs_in(RunState.QUEUED) if run.held)
        return cls(
            at_s=now_s,
            n_events=experiment.n_events,
            version=experiment.version,
            running=experiment.runs_in(RunState.RUNNING),
            waiting=(*experiment.waiting, *held_runs),
            ends=queue_ends(experiment, now_s) if is_running else QueueEnds({}, None),
        )

    @property
    def is_empty(self) -> bool:
        """Whether no run is running or waiting."""
        return not self.running and not self.waiting

    def changes(self, experiment: Experiment) -> int:
        """Return the number of runs that were added, removed or changed since the snapshot."""
        then = {run.id: _summary(run) for run in (*self.running, *self.waiting)}
        live = experiment.runs_in(RunState.RUNNING, RunState.QUEUED)
        now = {run.id: _summary(run) for run in live}
        return sum(then.get(run_id) != now.get(run_id) for run_id in {*then, *now})

    def place(self, run: Run) -> str:
        """Return a text that explains the position of a waiting run in the queue."""
        parts = []
        if run.held:
            parts.append("held until it is released")
        else:
            turn = "next, " if run.id == self.waiting[0].id else ""
            how = f"by priority {run.priority:g}" if run.priority else "in order of submission"
            parts.append(f"{turn}{how}")
        if run.lost:
            parts.append(f"lost {run.lost} worker{'' if run.lost == 1 else 's'}, waits again")
        elif run.attempts:
            parts.append("was interrupted, waits again")
        return "; ".join(parts)

    def end_of(self, run: Run) -> str:
        """Return the expected end of a running run as text, with its 80 % interval."""
        interval = self.ends.going.get(run.id)
        return "unknown" if interval is None else end_text(interval, self.at_s)


def end_text(interval: Interval, now_s: float) -> str:
    """Format an expected end as text: the median, then the 80 % interval.

    >>> end_text(Interval(20.3, 31.4, 45.0), 0.0)
    'in 31 s (20 s to 45 s)'
    >>> end_text(Interval(600.0, 1200.0, None), 0.0)
    'about 00:20 UTC (in 10 min 00 s or later)'
    """
    if interval.median is None or interval.low is None:
        return "unknown"
    soon = interval.median < SOON_S
    middle = (
        f"in {_about(interval.median)}"
        if soon
        else f"about {clock(now_s + interval.median, now_s)}"
    )
    if interval.high is None:
        return f"{middle} (in {_about(interval.low)} or later)"
    if interval.high < 0.1:
        return middle
    low, high = _about(interval.low), _about(interval.high)
    return f"{middle} ({low} to {high})" if soon else f"{middle} (in {low} to {high})"


def _about(seconds: float) -> str:
    """Return a duration with at most two digits if it is short."""
    return duration(float(f"{seconds:.2g}") if seconds < SOON_S else seconds)


def run_names(run_ids: tuple[int, ...]) -> str:
    """List the ids of runs as text, such as "runs 4, 7 and 12".

    >>> run_names((4,)), run_names((4, 7, 12)), run_names(tuple(range(1, 12)))
    ('run 4', 'runs 4, 7 and 12', 'runs 1, 2, 3, 4, 5, 6, 7, 8 and 3 more')
    """
    if len(run_ids) == 1:
        return f"run {run_ids[0]}"
    if len(run_ids) > MOST_RUN_NAMES + 1:
        first = ", ".join(map(str, run_ids[:MOST_RUN_NAMES]))
        return f"runs {first} and {len(run_ids) - MOST_RUN_NAMES:,} more"
    return f"runs {', '.join(map(str, run_ids[:-1]))} and {run_ids[-1]}"


def _summary(run: Run) -> tuple[RunState, float, bool, int]:
    return run.state, run.priority, run.held, run.attempts


def stopped_words(run: Run) -> str:
    """Return a text on why a run was stopped early, or an empty text if it was not stopped.

    >>> from strategies import Configuration
    >>> run = Run(1, Configuration((0,), ""), "analyst", 7, "", None, 0.0, stopped="flat by now")
    >>> stopped_words(run)
    'stopped early by the analyst: flat by now'
    """
    if run.stopped is None:
        return ""
    rule = "the analyst" if run.stopped_by is None else STOP_RULES[run.stopped_by]
    return f"stopped early by {rule}" + (f": {run.stopped}" if run.stopped else "")


def reported_words(run: Run, objective: Objective) -> str:
    """Return a run's intermediate values of the objective's measures as text, or empty text.

    If it has no such measure, return the number of its measures.
    """
    if run.reported is None:
        return ""
    parts = []
    for name in objective.measures:
        value = run.reported.get(name)
        if isinstance(value, float | int):
            unit = objective.unit if name == str(objective.wrapper) else ""
            parts.append(f"{name} {spoken(value, unit or unit_of(name))}")
    if parts:
        return ", ".join(parts)
    n = len(run.reported)
    return f"{n} measure{'' if n == 1 else 's'}, none is in the objective"


def age_words(run: Run, now_s: float) -> str:
    """Return the age of a run's last intermediate result as text, or an empty text if none."""
    if run.reported_s is None:
        return ""
    return f"{duration(max(0.0, round(now_s - run.reported_s)))} ago"


KINDS: Mapping[SuggestionKind, str] = {
    "initial": "first run",
    "construction": "good levels combined",
    "neighbour": "one step from a good run",
    "random": "where little is known",
    "region": "inside a region",
    "analyst": "yours",
    "poll": "one step from the best",
    "particle": "towards the best",
    "design": "planned design",
    "improvement": "likely to be better",
    "confirmation": "good run once more",
}


def expected_text(experiment: Experiment, configuration: Configuration) -> str:
    """Return the expected value with its interval, such as "50 min (48 min to 53 min)"."""
    prediction = expected_measure(experiment, configuration)
    if prediction is None:
        return "unknown"
    return f"{_value(experiment, prediction.value)} ({_ends(experiment, prediction)})"


def reason_text(experiment: Experiment, suggestion: Suggestion) -> str:
    """Return a sentence with the reason and the expected value of a suggestion."""
    text = expected_text(experiment, suggestion.configuration)
    if text == "unknown":
        return suggestion.reason
    measure = experiment.opened.objective.wrapper
    return f"{suggestion.reason.removesuffix('.')}; expected {measure}: {text}."


def kind_text(suggestion: Suggestion) -> str:
    """Return the origin of a suggestion in a few words, such as "inside region 2"."""
    if suggestion.region is not None:
        return f"inside region {suggestion.region}"
    return KINDS[suggestion.kind]


def list_text(experiment: Experiment, numbered: Sequence[tuple[int, Configuration]]) -> str:
    """Return a sentence on the predicted values of the configurations in the user's list."""
    n = len(numbered)
    runs = "1 run" if n == 1 else f"{n:,} runs"
    if not n:
        return "Your list is empty."
    predictions = [(at, expected_measure(experiment, prediction)) for at, prediction in numbered]
    known_predictions = [
        (at, prediction) for at, prediction in predictions if prediction is not None
    ]
    if not known_predictions:
        return f"Your list: {runs}, without a prediction yet."
    minimise = experiment.opened.objective.goal == "minimise"
    known_predictions.sort(key=lambda pair: pair[1].value if minimise else -pair[1].value)
    at, best = known_predictions[0]
    first = f"best: no. {at} with {_value(experiment, best.value)} ({_ends(experiment, best)})"
    if n == 1:
        value = _value(experiment, best.value)
        return f"Your list: 1 run, predicted {value} ({_ends(experiment, best)})."
    values = sorted(prediction.value for _, prediction in known_predictions)
    spread = between(values[0], values[-1], experiment.opened.objective.unit)
    return f"Your list: {runs}, predicted {spread}; {first}."


@dataclass(frozen=True, slots=True)
class LevelRow:
    """One level of a suggestion, compared with the level of the best run.

    ``typical`` is the expected value of a typical configuration with this level, with its 95%
    interval; "unknown" without a result.
    """

    parameter: str
    level: str
    best: str
    typical: str
    runs: int


@dataclass(frozen=True, slots=True)
class SuggestionExplanation:
    """The explanation of a suggestion in sentences, with one table row per level."""

    sentences: tuple[str, ...]
    levels: tuple[LevelRow, ...]


def explanation(experiment: Experiment, suggestion: Suggestion) -> SuggestionExplanation:
    """Explain why a configuration was suggested, with its current expected value."""
    configuration, unit = suggestion.configuration, experiment.opened.objective.unit
    sentences = [
        suggestion.reason,
        f"It was chosen by {suggestion.strategy} ({kind_text(suggestion)}).",
    ]
    prediction = expected_measure(experiment, configuration)
    n = len(experiment.observations)
    if prediction is None:
        sentences.append(f"There is no prediction yet: {n} of at least {FEW} results are known.")
    else:
        sentences.append(
            f"Prediction with {interval_name(experiment, 'chosen')}: "
            f"{expected_text(experiment, configuration)}, from {n:,} results."
        )
    if suggestion.chance is not None:
        sentences.append(
            f"Its chance to beat the best run was {percent(suggestion.chance)} when it was "
            "suggested."
        )
    best = experiment.best
    summary = None if best is None else experiment.summary(best)
    if best is not None and summary is not None:
        sentences.append(
            f"The best so far is run {best.id} with {quantity(summary.outcome.value, unit)}."
        )
    if suggestion.near is not None:
        sentences.append(_nearness(experiment, configuration, suggestion.near))
    return SuggestionExplanation(tuple(sentences), _levels(experiment, configuration))


def _nearness(experiment: Experiment, configuration: Configuration, near: Configuration) -> str:
    space = experiment.space
    here, there = space.all_values(configuration), space.all_values(near)
    differing = [
        f"{p.name} ({setting(here[p.name], p.unit)} instead of {setting(there[p.name], p.unit)})"
        for p in space.parameters
        if here[p.name] != there[p.name]
    ]
    run = next((run for run in experiment.runs if run.configuration == near), None)
    which = "a configuration without a run" if run is None else f"run {run.id}"
    value = None if run is None or run.outcome is None else run.outcome.value
    gave = (
        "" if value is None else f", which gave {quantity(value, experiment.opened.objective.unit)}"
    )
    if not differing:
        return f"It repeats {which}{gave}."
    return f"It differs from {which}{gave}: {', '.join(differing)}."


def _levels(experiment: Experiment, configuration: Configuration) -> tuple[LevelRow, ...]:
    space, model = experiment.space, experiment.measured_anova
    values = space.all_values(configuration)
    best = None if experiment.best is None else space.all_values(experiment.best.configuration)
    rows = []
    for parameter in space.parameters:
        value = values[parameter.name]
        typical, n = INACTIVE if value is None else "unknown", 0
        if value is not None and model is not None and len(model.ids) >= FEW:
            marginal = model.main_effect(parameter.name)[parameter.level_id(value)]
            value_of = experiment.opened.objective.value_of
            ends = sorted(map(value_of, marginal.interval))
            n = marginal.count
            if n:
                expected = ExpectedMeasure(value_of(marginal.value), ends[0], ends[1])
                typical = f"{_value(experiment, expected.value)} ({_ends(experiment, expected)})"
        of_best = "" if best is None else level(best[parameter.name])
        rows.append(LevelRow(parameter.name, setting(value, parameter.unit), of_best, typical, n))
    return tuple(rows)


def _value(experiment: Experiment, value: float) -> str:
    return spoken(value, experiment.opened.objective.unit)


def _ends(experiment: Experiment, prediction: ExpectedMeasure) -> str:
    return between(prediction.low, prediction.high, experiment.opened.objective.unit)
