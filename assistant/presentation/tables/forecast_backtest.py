"""Past forecasts against results: forecasts recomputed from the event log, scores of predictions.

No forecast is stored, because each is a pure function of the event log until its time. The tables
are for the report, the browser and the command line.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from assistant.analysis.experiment_state import (
    ExperimentState,
    displayed_forecast,
    experiment_state,
)
from assistant.analysis.forecast import evidence_of, forecast
from assistant.analysis.prediction_record import (
    Group,
    GroupScore,
    IntervalCoverage,
    MeanError,
    PredictionRecord,
    PredictionScoreboard,
    prediction_scoreboard,
)
from assistant.core.events import BatchSuggested, Event, RunCompleted, RunFailed, WarningAnswered
from assistant.core.experiment import Experiment, once_per_state
from assistant.core.forecast import FanPoint, Forecast, Interval, percent
from assistant.core.run import RunState
from assistant.presentation.charts.forecast import PredictionMark
from assistant.presentation.text.forecast import (
    ForecastSubject,
    GoalVerdict,
    forecast_sentences,
    headline,
    paper_words,
    term_words,
    verdict_of,
)
from assistant.presentation.text.number_format import number
from strategies.data.learning_sample import LEARNT_RUNS
from strategies.gp.run_interval import LEVEL

MOST_POINTS = 30
FEW_POINTS = 6  # ... of very many runs, since each takes seconds then


@dataclass(frozen=True, slots=True)
class ChancePoint:
    """The forecast at one time of an experiment: at a batch, after a warning's answer, or now.

    Args:
        runs: completed and failed runs at that time.
        left: further runs that could end.
    """

    runs: int
    left: float | None
    goal: float
    chance: float
    band: tuple[float, float]
    verdict: GoalVerdict
    is_now: bool = False


@dataclass(frozen=True, slots=True)
class ForecastSection:
    """The content of the section on the forecast in a report.

    Args:
        terms: each term of the SLA as text.
        chance: chance to reach it; None if unknown or decided.
        fan: best over further runs; empty if unknown, or if no run is left.
        at_s: time of the forecast, in seconds since 1970-01-01 UTC.
        course: forecasts at each batch and each answer that changed the steering, oldest first; the
            current forecast is last while the goal is open.
        went: sentences on the quality of past forecasts.
        reached: whether the goal was reached; None while it is open.
        reached_at: completed and failed runs when it was reached; None if it was not.
    """

    verdict: GoalVerdict
    headline: str
    sentences: tuple[str, ...]
    terms: tuple[str, ...]
    paper: str
    goal: float | None
    chance: float | None
    band: tuple[float, float] | None
    remaining: Interval | None
    fan: tuple[FanPoint, ...]
    at_s: float
    deadline_s: float | None
    course: tuple[ChancePoint, ...]
    went: tuple[str, ...]
    reached: bool | None
    reached_at: int | None


def forecast_section(
    experiment: Experiment,
    events: Sequence[Event],
    now_s: float,
    state: ExperimentState | None = None,
) -> ForecastSection | None:
    """Return the forecast section of a report, or None if there is no goal and no forecast.

    Without a running ``state`` it names no time at which the runs left end.
    """
    state = state or experiment_state(experiment, now_s)
    current = displayed_forecast(forecast(experiment, now_s), state, now_s)
    has_fan = len(current.fan) > 1 and not current.is_over
    if current.goal is None and not has_fan:
        return None
    subject, verdict = ForecastSubject.of(experiment), verdict_of(current)
    course = chance_history(events)
    now = _point(experiment, current, is_now=True)
    if course and now is not None:
        is_new = replace(now, is_now=False) != course[-1]
        course = (*(course if is_new else course[:-1]), now)
    decided = verdict in ("reached", "missed")
    goal = current.goal
    return ForecastSection(
        verdict=verdict,
        headline=headline(subject, current),
        sentences=forecast_sentences(subject, current),
        terms=tuple(term_words(subject, term, now_s) for term in current.terms),
        paper=paper_words(current.paper),
        goal=None if goal is None else goal.goal,
        chance=None if goal is None or decided else goal.chance,
        band=None if goal is None or decided else goal.band,
        remaining=current.remaining,
        fan=current.fan if has_fan else (),
        at_s=now_s,
        deadline_s=experiment.sla.deadline_s,
        course=course,
        went=review_sentences(subject, course, current),
        reached={"reached": True, "missed": False}.get(verdict),
        reached_at=_over_until(experiment, current),
    )


def _over_until(experiment: Experiment, forecast: Forecast) -> int | None:
    if forecast.goal is None or forecast.goal.reached_by is None:
        return None
    reached = experiment.run(forecast.goal.reached_by)
    until = (reached.ended_s or 0.0, reached.id)
    over = experiment.runs_in(RunState.COMPLETED, RunState.FAILED)
    return sum((run.ended_s or 0.0, run.id) <= until for run in over)


def chance_history(events: Sequence[Event], most: int = MOST_POINTS) -> tuple[ChancePoint, ...]:
    """Recompute the past forecast at each batch until the goal was reached.

    An answer to a warning that changed the steering is a point as well, with the chance after it.

    Of more than `LEARNT_RUNS` ended runs it is a few batches only, evenly spread over the time.

    Returns:
        The points, oldest first; batches without a goal or with too few results have none.
    """
    positions = set(_positions(events, most))
    points: list[ChancePoint] = []
    for position, experiment in _states(events):
        if position not in positions:
            continue
        point = _point(experiment, forecast(experiment, events[position].at_s))
        if point is not None and (not points or point != points[-1]):
            points.append(point)
    return tuple(points)


def _point(
    experiment: Experiment, forecast: Forecast, *, is_now: bool = False
) -> ChancePoint | None:
    goal = forecast.goal
    if goal is None or goal.chance is None or goal.band is None or forecast.is_over:
        return None
    if is_now and goal.reached_by is not None:
        return None
    return ChancePoint(
        runs=experiment.n_in(RunState.COMPLETED, RunState.FAILED),
        left=None if forecast.remaining is None else forecast.remaining.median,
        goal=goal.goal,
        chance=goal.chance,
        band=goal.band,
        verdict=verdict_of(forecast),
        is_now=is_now,
    )


def _states(events: Sequence[Event]) -> Iterator[tuple[int, Experiment]]:
    """Yield the state after each batch and each answer that changed the steering, with its index.

    The experiment is the same object each time.
    """
    if not events:
        return
    experiment = Experiment.replay(events[:1])
    for position, event in enumerate(events[1:], 1):
        steering = experiment.steering
        experiment.apply(event)
        answered = isinstance(event, WarningAnswered) and experiment.steering != steering
        if answered or isinstance(event, BatchSuggested):
            yield position, experiment


def _positions(events: Sequence[Event], most: int) -> Sequence[int]:
    """Return the positions of the events after which a past forecast is computed."""
    n_ended = sum(isinstance(event, RunCompleted | RunFailed) for event in events)
    if n_ended <= LEARNT_RUNS:
        return _evenly(_telling(events), most)
    batches = [i for i, event in enumerate(events) if isinstance(event, BatchSuggested)]
    return _evenly(batches, min(most, FEW_POINTS))


def _telling(events: Sequence[Event]) -> list[int]:
    positions = []
    for position, experiment in _states(events):
        goal = experiment.sla.goal
        evidence = evidence_of(experiment)
        if goal is None or evidence.silence:
            continue
        if evidence.losses[0] > -experiment.opened.objective.quality_of(goal):
            positions.append(position)
    return positions


def _evenly(positions: Sequence[int], most: int) -> list[int]:
    """Return at most ``most`` of the positions, with the first and the last.

    >>> _evenly([3, 5, 8, 9, 11], 3), _evenly([3, 5], 3)
    ([3, 8, 11], [3, 5])
    """
    n = len(positions)
    if n <= most:
        return list(positions)
    return [positions[round(i * (n - 1) / (most - 1))] for i in range(most)]


def review_sentences(
    subject: ForecastSubject, course: Sequence[ChancePoint], forecast: Forecast
) -> tuple[str, ...]:
    """Return sentences on past forecasts and on the correctness of their verdicts.

    A single outcome cannot refute a probability, but it can refute a verdict.
    """
    if not course or forecast.goal is None:
        return ()
    sentences_so_far = [_told(course)]
    goals_agreed = {point.goal for point in course} | {forecast.goal.goal}
    if len(goals_agreed) > 1:
        goals = ", ".join(subject.value(goal) for goal in sorted(goals_agreed))
        sentences_so_far.append(
            f"The goal changed during the sweep ({goals}); each chance is for the goal then."
        )
        return tuple(sentences_so_far)
    verdict = verdict_of(forecast)
    if verdict not in ("reached", "missed"):
        return tuple(sentences_so_far)
    came = verdict == "reached"
    missing = [p for p in course if p.verdict in ("likely_miss", "very_likely_miss")]
    sentences_so_far += _judged(missing, "likely to miss", not came)
    sentences_so_far += _judged([p for p in course if p.verdict == "on_track"], "on track", came)
    if len(sentences_so_far) == 1:
        sentences_so_far.append(
            "The forecast gave no verdict: the chance was near 50 %, or the budget nearly used."
        )
    return tuple(sentences_so_far)


def _told(course: Sequence[ChancePoint]) -> str:
    first, last = course[0], course[-1]
    if len(course) == 1:
        return f"There was one forecast: {percent(first.chance)} after {first.runs} runs."
    low = min(course, key=lambda point: point.chance)
    high = max(course, key=lambda point: point.chance)
    when = f"now, after {last.runs}" if last.is_now else f"after {last.runs}, in the last forecast"
    return (
        f"The chance was {percent(first.chance)} after {first.runs} runs and "
        f"{percent(last.chance)} {when}; {percent(low.chance)} "
        f"at the lowest (after {low.runs}), {percent(high.chance)} at the highest (after "
        f"{high.runs})."
    )


def _judged(points: Sequence[ChancePoint], verdict: str, was_right: bool) -> list[str]:
    if not points:
        return []
    n, first, last = len(points), points[0].runs, points[-1].runs
    times = f"once, after {first} runs" if n == 1 else f"{n} times, after {first} to {last} runs"
    result = "right" if was_right else "wrong"
    return [f"The verdict '{verdict}' was given {times}; it was {result}."]


FEW = 10  # Fewer runs are not judged: if all 10 are inside, Wilson's interval begins at 72 %

NAMES: dict[Group, str] = {
    "suggested": "suggested, unchanged",
    "edited": "suggested, then edited",
    "left out": "suggested, left out",
    "own": "the analyst's own",
    "initial": "first runs",
    "baseline": "current configuration",
    "repeated": "repeated",
    "from before": "imported results",
}


@dataclass(frozen=True, slots=True)
class PredictionRow:
    """The prediction scores of one group of runs, as a table row of texts."""

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
class PredictionSection:
    """The content of the section on prediction quality in a report."""

    record: PredictionScoreboard
    title: str
    sentences: tuple[str, ...]
    rows: tuple[PredictionRow, ...]


@once_per_state
def prediction_section(experiment: Experiment) -> PredictionSection | None:
    """Return the prediction section of a report, or None if the experiment has no run."""
    if not experiment.runs:
        return None
    record = prediction_scoreboard(experiment)
    title = f"{record.value_name} [{record.unit}]" if record.unit else record.value_name
    rows = tuple(_row(score) for score in record.scores)
    return PredictionSection(record, title, prediction_sentences(record), rows)


def prediction_sentences(trust: PredictionScoreboard) -> tuple[str, ...]:
    """Return sentences on the coverage of intervals, the bias of predictions, and improvements."""
    parts = [_held(trust.coverage), _leaned(trust), _improved(trust)]
    if trust.unanswered:
        single = trust.unanswered == 1
        parts.append(
            f"{trust.unanswered} more suggestion{' was' if single else 's were'} replaced before "
            f"a run of {'its' if single else 'their'} batch was submitted; they do not count."
        )
    return tuple(part for part in parts if part)


def _held(coverage: IntervalCoverage | None) -> str:
    if coverage is None:
        return "No suggestion with a predicted interval has a result yet: coverage is unknown."
    count_text = f"{coverage.inside} of {coverage.n} results lie in their predicted interval"
    if coverage.n < FEW:
        return f"{count_text}; at least {FEW} results are needed to judge."
    count_text += (
        f" ({coverage.share:.0%}, 95 % interval {coverage.low:.0%} to {coverage.high:.0%}; "
        f"{LEVEL:.0%} are expected)"
    )
    if coverage.high < LEVEL:
        return f"{count_text}: the intervals are too narrow; expect larger errors."
    if coverage.low > LEVEL:
        return f"{count_text}: the intervals are wider than necessary."
    return f"{count_text}: the intervals agree with the results."


def _leaned(trust: PredictionScoreboard) -> str:
    error = trust.error
    if error is None or error.n < FEW or error.low is None or error.high is None:
        return ""
    unit = f" {trust.unit}" if trust.unit else ""
    text = (
        f"On average {trust.value_name} was {number(abs(error.value))}{unit} "
        f"{'above' if error.value > 0 else 'below'} its prediction (95 % interval "
        f"{number(error.low)} to {number(error.high)})"
    )
    if error.low <= 0 <= error.high:
        return f"{text}: this may be chance."
    good = (error.value < 0) == (trust.goal == "minimise")
    return f"{text}: the predictions are too {'cautious' if good else 'optimistic'}."


def _improved(trust: PredictionScoreboard) -> str:
    parts = [
        f"{score.improved} of {score.completed} {word}"
        for group, word in (
            ("suggested", "suggested"), ("edited", "edited"), ("own", "added by the analyst"),
        )
        for score in trust.scores
        if score.group == group and score.completed
    ]  # fmt: skip
    if not parts:
        return ""
    return f"Runs that improved the best: {', '.join(parts)}. This is harder late in a sweep."


def _row(score: GroupScore) -> PredictionRow:
    late = " (run later)" if score.group == "left out" and score.completed else ""
    violated = f", {score.violated} violating" if score.violated else ""
    return PredictionRow(
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


def _coverage(coverage: IntervalCoverage | None) -> str:
    if coverage is None:
        return "unknown"
    return f"{coverage.inside} of {coverage.n} ({coverage.low:.0%} to {coverage.high:.0%})"


def _error(error: MeanError | None) -> str:
    if error is None:
        return "unknown"
    interval = "" if error.low is None else f" ({number(error.low)} to {number(error.high)})"
    return f"{_signed(error.value)}{interval}"


def _signed(value: float | None) -> str:
    return f"+{number(value)}" if value is not None and value > 0 else number(value)


def prediction_marks(promises: tuple[PredictionRecord, ...]) -> tuple[PredictionMark, ...]:
    """Convert predictions to chart marks, except those of suggestions not submitted."""
    return tuple(
        PredictionMark(
            f"run {promise.run_id}, batch {promise.batch}",
            promise.expected, promise.low, promise.high, promise.came, promise.inside,
        )
        for promise in promises
        if promise.group != "left out"
    )  # fmt: skip
