"""The content of a report as values, collected from the experiment, without page layout."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

from assistant.analysis.experiment_state import ExperimentState, experiment_state
from assistant.analysis.recommendation import Recommendation, recommend
from assistant.core.events import Event, Fact
from assistant.core.experiment import Experiment, once_per_result, once_per_state
from assistant.core.objective import Measure
from assistant.core.run import ConfigurationSummary, Run, RunState
from assistant.presentation.charts.training import TrainingCurve
from assistant.presentation.charts.vega_lite import RunPoint, TradePoint
from assistant.presentation.tables.effects import (
    EffectsSection,
    effects_section,
)
from assistant.presentation.tables.experiment_summary import (
    BaselineFinding,
    FrontRow,
    baseline_finding,
    front_rows,
    trade_points,
)
from assistant.presentation.tables.forecast_backtest import (
    ForecastSection,
    PredictionSection,
    forecast_section,
    prediction_section,
)
from assistant.presentation.tables.queue import stopped_words
from assistant.presentation.tables.sla import (
    RegionRow,
    TermUsage,
    WarningRow,
    region_rows,
    sla_terms,
    warning_rows,
)
from assistant.presentation.text.comparison import change_words
from assistant.presentation.text.number_format import level, quantity, setting, unit_of


@dataclass(frozen=True, slots=True)
class BaselineChange:
    """The value of one parameter in the baseline and in the best configuration."""

    parameter: str
    unit: str
    description: str
    baseline: str | None
    best: str
    differs: bool


@dataclass(frozen=True, slots=True)
class MeasureRow:
    """The values of one measure in the baseline and in the best configuration."""

    name: str
    baseline: str | None
    best: str
    change: str


@dataclass(frozen=True, slots=True)
class GroupTable:
    """Mean waits of the groups of jobs that gain or lose most, such as those of each user.

    Attributes:
        group: what a group is: ``user`` or ``partition``.
        note: what the table shows, and what it leaves out.
    """

    group: str
    rows: tuple[MeasureRow, ...]
    note: str


@dataclass(frozen=True, slots=True)
class GroupWaits:
    """Waits by group of jobs, which only a simulation tells; ``missing`` says why there are none.

    Both are empty where they make no sense.
    """

    tables: tuple[GroupTable, ...] = ()
    missing: str = ""


NO_GROUPS = GroupWaits()


@dataclass(frozen=True, slots=True)
class RunRow:
    """One row of the table of all runs in a report."""

    id: int
    state: str
    source: str
    values: Mapping[str, str]
    value: float | None
    second_value: float | None
    feasible: bool | None
    violation: float | None
    duration_s: float | None
    reason: str
    failure: str | None
    stopped: str
    is_best: bool
    is_baseline: bool


@dataclass(frozen=True, slots=True)
class ReportSummary:
    """What the page *Report* shows: the answer, what it rests on, and how the SLA was used.

    ``second_name`` is None and ``front`` empty without a second measure.
    """

    experiment_id: str
    answer: BaselineFinding
    recommendation: Recommendation | None
    objective: str
    constraints: tuple[str, ...]
    value_name: str
    unit: str
    second_name: str | None
    second_unit: str
    strategy: str
    seed: int
    facts: tuple[Fact, ...]
    changes: tuple[BaselineChange, ...]
    measures: tuple[MeasureRow, ...]
    front: tuple[FrontRow, ...]
    sla: tuple[TermUsage, ...]


@dataclass(frozen=True, slots=True)
class ReportData(ReportSummary):
    """The content of a report on an experiment, independent of the output format."""

    name: str
    application: str
    opened_s: float
    version: str
    max_runs: int | None
    n_completed: int
    n_failed: int
    n_waiting: int
    space_size: int
    allowed_size: int | None
    finished: str | None
    classes: tuple[MeasureRow, ...]
    groups: GroupWaits
    trained: tuple[TrainingCurve, ...]
    cautions: tuple[str, ...]
    state: ExperimentState
    points: tuple[RunPoint, ...]
    trade: tuple[TradePoint, ...]
    baseline_value: float | None
    effects: EffectsSection | None
    runs: tuple[RunRow, ...]
    parameters: tuple[str, ...]
    regions: tuple[RegionRow, ...]
    warnings: tuple[WarningRow, ...]
    confidence: float | None
    deadline_s: float | None
    forecast: ForecastSection | None
    trust: PredictionSection | None


@once_per_state
def summarise(experiment: Experiment) -> ReportSummary:
    """Collect what the page *Report* shows of an experiment."""
    opened, objective = experiment.opened, experiment.opened.objective
    best = _summary(experiment, experiment.best)
    baseline = _summary(experiment, experiment.baseline)
    second = objective.second
    return ReportSummary(
        experiment_id=opened.experiment_id,
        answer=baseline_finding(experiment),
        recommendation=recommend(experiment),
        objective=str(objective),
        constraints=tuple(str(c) for c in objective.constraints),
        value_name=str(objective.wrapper),
        unit=objective.unit,
        second_name=None if second is None else str(second.wrapper),
        second_unit="" if second is None else second.unit,
        strategy=str(experiment.steering),
        seed=opened.seed,
        facts=opened.facts,
        changes=changes(experiment),
        measures=_measures(best, baseline, objective.measures),
        front=front_rows(experiment),
        sla=sla_terms(experiment),
    )


def collect(
    experiment: Experiment,
    events: Sequence[Event] = (),
    now_s: float | None = None,
    state: ExperimentState | None = None,
    groups: GroupWaits = NO_GROUPS,
    trained: tuple[TrainingCurve, ...] = (),
) -> ReportData:
    """Collect the content of a report on an experiment, with None for unknown values.

    Args:
        experiment: the experiment so far.
        events: its event log; without it the history of the forecast is left out.
        now_s: time of the forecast, in seconds since 1970-01-01 UTC; end of the last run if None.
        state: state of the experiment; None derives it as if nobody executed its runs.
        groups: waits by group of jobs, which only a simulation of the log can tell.
        trained: trainings of the schedulers among the levels.
    """
    opened, summary = experiment.opened, summarise(experiment)
    baseline = _summary(experiment, experiment.baseline)
    last_s = max([opened.at_s, *(run.ended_s for run in experiment.runs if run.ended_s)])
    at_s = last_s if now_s is None else now_s
    state = state or experiment_state(experiment, at_s)
    return ReportData(
        **{entry.name: getattr(summary, entry.name) for entry in fields(summary)},
        name=opened.name,
        application=opened.application,
        opened_s=opened.at_s,
        version=opened.version,
        max_runs=experiment.sla.max_runs,
        n_completed=experiment.n_in(RunState.COMPLETED),
        n_failed=experiment.n_in(RunState.FAILED),
        n_waiting=experiment.n_in(RunState.QUEUED, RunState.RUNNING),
        space_size=experiment.space.n_combinations,
        allowed_size=experiment.space.count_allowed(),
        finished=experiment.finished.reason if experiment.finished else None,
        classes=class_rows(experiment),
        groups=groups,
        trained=trained,
        cautions=_cautions(summary),
        state=state,
        points=run_points(experiment),
        trade=trade_points(experiment),
        baseline_value=baseline.outcome.value if baseline else None,
        effects=effects_section(experiment),
        runs=tuple(_row(experiment, run) for run in experiment.runs),
        parameters=tuple(p.name for p in experiment.space.parameters),
        regions=region_rows(experiment, last_s),
        warnings=warning_rows(experiment),
        confidence=experiment.confidence,
        deadline_s=experiment.sla.deadline_s,
        forecast=forecast_section(experiment, events, at_s, state),
        trust=prediction_section(experiment),
    )


def _summary(experiment: Experiment, run: Run | None) -> ConfigurationSummary | None:
    return None if run is None else experiment.summary(run)


def changes(experiment: Experiment) -> tuple[BaselineChange, ...]:
    """Compare the best configuration with the baseline, one row per parameter in order."""
    best, baseline = (
        _summary(experiment, experiment.best),
        _summary(experiment, experiment.baseline),
    )
    if best is None:
        return ()
    space = experiment.space
    new = space.all_values(best.configuration)
    old = space.all_values(baseline.configuration) if baseline else None
    return tuple(
        BaselineChange(
            parameter=p.name,
            unit=p.unit,
            description=p.description,
            baseline=setting(old[p.name], p.unit) if old else None,
            best=setting(new[p.name], p.unit),
            differs=old is not None and old[p.name] != new[p.name],
        )
        for p in space.parameters
    )


def _measures(
    best: ConfigurationSummary | None, baseline: ConfigurationSummary | None, first: tuple[str, ...]
) -> tuple[MeasureRow, ...]:
    if best is None:
        return ()
    old = baseline.outcome.measures if baseline else None
    return tuple(
        MeasureRow(
            name=name,
            baseline=_measure_text(name, old.get(name)) if old is not None else None,
            best=_measure_text(name, value),
            change=_change_text(old.get(name) if old is not None else None, value),
        )
        for name, value in sorted(best.outcome.measures.items(), key=lambda m: m[0] not in first)
    )


_CLASSES = {
    "narrow_jobs": "jobs of at most 1/64 of the processors",
    "medium_jobs": "jobs of more than 1/64, at most 1/8 of the processors",
    "wide_jobs": "jobs of more than 1/8 of the processors",
    "short_jobs": "jobs that requested at most 1 h",
    "middle_jobs": "jobs that requested more than 1 h, at most 6 h",
    "long_jobs": "jobs that requested more than 6 h",
}
_CAUTIONS = ("Recorded waits", "Checked on", "Left out", "Reading the log")


def class_rows(experiment: Experiment) -> tuple[MeasureRow, ...]:
    """Return the mean wait of each class of jobs, in the baseline and in the best configuration.

    Empty without such measures, or if the baseline is the best; a class without jobs is left out.
    """
    best = _summary(experiment, experiment.best)
    baseline = _summary(experiment, experiment.baseline)
    if best is None or baseline is None or best.configuration == baseline.configuration:
        return ()
    new, old = best.outcome.measures, baseline.outcome.measures
    pairs = ((words, f"{name}_mean_wait_s") for name, words in _CLASSES.items())
    return tuple(
        MeasureRow(
            words,
            _measure_text(name, old[name]),
            _measure_text(name, new[name]),
            _change_text(old[name], new[name]),
        )
        for words, name in pairs
        if old.get(name) is not None and new.get(name) is not None
    )


def _cautions(summary: ReportSummary) -> tuple[str, ...]:
    """Return what limits the answer: facts on the log and on its check."""
    return tuple(
        f"{fact.label}: {fact.text}{'' if fact.text.endswith('.') else '.'}"
        for label in _CAUTIONS
        for fact in summary.facts
        if fact.label == label
    )


def _measure_text(name: str, value: Measure) -> str:
    if isinstance(value, tuple):
        return f"series of {len(value)}"
    return quantity(value, unit_of(name))


def _change_text(old: Measure, new: Measure) -> str:
    if not isinstance(old, float | int) or not isinstance(new, float | int):
        return ""
    return change_words(new, old)


@once_per_result
def run_points(experiment: Experiment) -> tuple[RunPoint, ...]:
    """Return the completed runs in order of their end, each with the best value so far."""
    ended = sorted(
        experiment.runs_in(RunState.COMPLETED), key=lambda run: (run.ended_s or 0.0, run.id)
    )
    points = []
    for order, (run, best) in enumerate(zip(ended, experiment.best_so_far(), strict=True), 1):
        if run.outcome is None:
            continue
        points.append(
            RunPoint(
                order=order,
                run_id=run.id,
                value=run.outcome.value,
                best=best.outcome.value if best.outcome.feasible else None,
                feasible=run.outcome.feasible,
                source=run.source,
                at_s=run.ended_s,
            )
        )
    return tuple(points)


def _row(experiment: Experiment, run: Run) -> RunRow:
    values = experiment.space.all_values(run.configuration)
    best, outcome = experiment.best, run.outcome
    return RunRow(
        id=run.id,
        state=run.state.value,
        source=run.source,
        values={name: level(value) for name, value in values.items()},
        value=outcome.value if outcome else None,
        second_value=outcome.second_value if outcome else None,
        feasible=outcome.feasible if outcome else None,
        violation=outcome.violation if outcome else None,
        duration_s=run.duration_s,
        reason=run.reason,
        failure=run.failure,
        stopped=stopped_words(run),
        is_best=best is not None and run.id == best.id,
        is_baseline=run.configuration == experiment.opened.baseline,
    )
