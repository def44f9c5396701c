"""Experiment: state of a parameter sweep, which changes only by applying events.

It has no input or output, no clock and no randomness: the same event log gives the same state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import replace
from functools import cached_property, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar, get_args

from assistant.core.early_stopping import EarlyStopping, LearningCurves
from assistant.core.errors import ExperimentError
from assistant.core.events import (
    AutoSteeringChanged,
    BatchSuggested,
    BudgetChanged,
    EarlyStoppingChanged,
    Event,
    ExperimentDeleted,
    ExperimentFinished,
    ExperimentOpened,
    ExperimentRenamed,
    ExperimentReopened,
    ExperimentTagged,
    ExperimentUndeleted,
    ForecastChecked,
    MissWarning,
    PlanSubmitted,
    ResultRefused,
    RunCancelled,
    RunCompleted,
    RunEvent,
    RunFailed,
    RunHeld,
    RunPrioritised,
    RunRated,
    RunReleased,
    RunReported,
    RunReturned,
    RunStarted,
    RunStopped,
    RunSubmitted,
    SpaceChanged,
    SteeringChanged,
    ToolCalled,
    WarningAnswered,
    WarningIssued,
    WarningPolicyChanged,
    WorkerEvent,
)
from assistant.core.forecast import WarningCheck
from assistant.core.run import (
    ConfigurationSummary,
    Run,
    RunState,
    best_so_far,
    first_to_reach,
    measured_s,
    pareto_front_of,
)
from assistant.core.run_index import RunIndex
from assistant.core.sla import AutoSteering, Spending, Steering, Tariff, cost_of, spending_of
from strategies import (
    AnovaModel,
    Choice,
    Configuration,
    Failure,
    Knowledge,
    Level,
    Noise,
    Observation,
    Region,
    UntriedPredictions,
    choose,
    estimate_noise,
    find_regions,
)
from strategies.data.learning_sample import LearningSample

QUEUED, RUNNING = RunState.QUEUED, RunState.RUNNING


def reduce_run(runs: Mapping[int, Run], event: RunEvent) -> Run:  # noqa: PLR0911, PLR0912 - a case each
    """Return the run that an event refers to, in its state after the event.

    Raises ExperimentError: there is no such run, or the event does not fit its state.
    """
    if isinstance(event, RunSubmitted):
        return _submitted(runs, event)
    run = find_run(runs, event.run_id)
    match event:
        case RunStarted(at_s=at_s, worker=worker, token=token):
            return replace(
                _in(run, QUEUED), started_s=at_s, attempts=run.attempts + 1, worker=worker,
                token=token, reported=None, reported_s=None,
            )  # fmt: skip
        case RunReturned(lost=lost):
            return replace(_in(run, RUNNING), started_s=None, lost=run.lost + lost)
        case RunPrioritised(priority=priority):
            return replace(_in(run, QUEUED), priority=priority)
        case RunHeld():
            return replace(_in(run, QUEUED), held=True)
        case RunReleased():
            return replace(_in(run, QUEUED), held=False)
        case RunCancelled(at_s=at_s, reason=reason):
            return replace(_in(run, QUEUED, RUNNING), ended_s=at_s, cancelled=reason)
        case RunReported(at_s=at_s, measures=measures):
            return replace(_in(run, RUNNING), reported=measures, reported_s=at_s)
        case ResultRefused():
            return run
        case RunCompleted(at_s=at_s, outcome=outcome, duration_s=told_s):
            known_s = measured_s(told_s)
            return replace(_in(run, RUNNING), ended_s=at_s, outcome=outcome, duration_s=known_s)
        case RunStopped(at_s=at_s, outcome=outcome, duration_s=told_s, reason=reason, rule=rule):
            known_s = measured_s(told_s)
            return replace(
                _in(run, RUNNING), ended_s=at_s, outcome=outcome, duration_s=known_s,
                stopped=reason, stopped_by=rule,
            )  # fmt: skip
        case RunFailed(at_s=at_s, failure=failure, duration_s=told_s):
            known_s = measured_s(told_s)
            return replace(_in(run, RUNNING), ended_s=at_s, failure=failure, duration_s=known_s)
        case RunRated(good=good):
            return replace(_in(run, RunState.COMPLETED), good=good)


def _follow(curves: LearningCurves, event: Event) -> None:
    """Bring the learning curves up to date with an event of a run."""
    match event:
        case RunStarted() | RunFailed() | RunCancelled() | RunReturned():
            curves.drop(event.run_id)
        case RunReported():
            curves.add(event.run_id, event.measures)
        case RunCompleted() | RunStopped():
            curves.add(event.run_id, event.outcome.measures)


def waiting_runs(runs: Iterable[Run]) -> list[Run]:
    """Return the waiting runs that are not held, highest priority first, then by number."""
    ready = (run for run in runs if run.state is QUEUED and not run.held)
    return sorted(ready, key=lambda run: (-run.priority, run.id))


def find_run(runs: Mapping[int, Run], run_id: int) -> Run:
    """Return the run with number ``run_id``, or raise ExperimentError if there is none."""
    if run_id in runs:
        return runs[run_id]
    raise ExperimentError(
        f"there is no run {run_id}; runs are numbered 1 to {len(runs)}"
        if runs
        else f"there is no run {run_id}; none has been submitted"
    )


def _submitted(runs: Mapping[int, Run], event: RunSubmitted) -> Run:
    if event.run_id != len(runs) + 1:
        raise ExperimentError(f"run {event.run_id} cannot follow run {len(runs)}")
    return Run(
        id=event.run_id,
        configuration=event.configuration,
        source=event.source,
        seed=event.seed,
        reason=event.reason,
        batch=event.batch,
        submitted_s=event.at_s,
        position=event.position,
    )


def _in(run: Run, *states: RunState) -> Run:
    if run.state not in states:
        expected = " or ".join(states)
        raise ExperimentError(f"run {run.id} is {run.state}, not {expected}")
    return run


RUN_EVENTS = get_args(RunEvent)
WORKER_EVENTS = get_args(WorkerEvent)
SETTING_EVENTS = (SteeringChanged, BudgetChanged, WarningPolicyChanged, SpaceChanged)
RESULT_EVENTS = (
    RunCompleted, RunStopped, RunFailed, RunCancelled, RunRated, SpaceChanged, BudgetChanged,
)  # fmt: skip
"""Events that change results, or what they mean; all others leave what is derived from results."""


class Experiment:
    """State of one experiment, computed by applying the events of its event log in order.

    ``n_events`` counts all events. ``version`` counts the decided ones: events of workers leave it.
    """

    def __init__(self, opened: ExperimentOpened) -> None:
        self.opened = opened
        self.n_events = 1
        self.version = 1
        self._runs: dict[int, Run] = {}
        self._index = RunIndex()
        self.early_stopping: EarlyStopping | None = None
        self.curves: LearningCurves | None = None
        self._costs: dict[int, float | None] = {}  # of ended runs by `_costs_by`
        self._costs_by: Tariff | None = None
        self._batches: list[BatchSuggested] = []
        self._finished: ExperimentFinished | None = None
        self._warnings: list[MissWarning] = []
        self._answers: dict[int, WarningAnswered] = {}
        self._superseded: set[int] = set()
        self._lapsed: set[int] = set()
        self._checks: list[WarningCheck] = []
        self.space = opened.space
        self.sla = opened.sla
        self.goal_set_after = 0  # runs that were over when the present goal was set
        self.over_before_reopening = frozenset[int]()  # numbers of runs
        self.settings_changed_s = opened.at_s  # steering, SLA, warning policy or space
        self.steering = opened.steering
        self.warning_policy = opened.warning_policy
        self.plan: Mapping[str, tuple[Level, ...]] = {}
        self.tags: tuple[str, ...] = ()
        self.is_deleted = False
        self.auto_steering_change: AutoSteeringChanged | None = None
        self._stop_early(opened.early_stopping)

    @classmethod
    def replay(cls, events: Iterable[Event]) -> Experiment:
        """Return the state after a whole event log, or raise ExperimentError if invalid."""
        event_log = iter(events)
        first = next(event_log, None)
        if not isinstance(first, ExperimentOpened):
            raise ExperimentError("an event log must begin with the opening of the experiment")
        experiment = cls(first)
        for event in event_log:
            experiment.apply(event)
        return experiment

    def apply(self, event: Event) -> None:  # noqa: PLR0912, PLR0915 - a case for each event
        """Apply one event, or raise ExperimentError and leave the state unchanged."""
        match event:
            case _ if isinstance(event, RUN_EVENTS):
                before, after = self._runs.get(event.run_id), reduce_run(self._runs, event)
                self._index.update(before, after)
                self._runs[event.run_id] = after
                if self.curves is not None:
                    _follow(self.curves, event)
            case BatchSuggested():
                self._apply_batch(event)
            case ForecastChecked(check=check):
                self._checks.append(check)
            case WarningIssued(warning=warning):
                self._apply_warning(warning)
            case WarningAnswered():
                self._apply_answer(event)
            case SteeringChanged(steering=steering):
                self._steer(steering)
            case BudgetChanged(sla=sla):
                self._expire_warning()
                self._checks.clear()
                if sla.goal != self.sla.goal:
                    self.goal_set_after = self.n_in(RunState.COMPLETED, RunState.FAILED)
                self.sla = sla
            case WarningPolicyChanged(warning_policy=policy):
                self._expire_warning()
                self.warning_policy = policy
            case EarlyStoppingChanged(early_stopping=settings):
                self._stop_early(settings)
            case SpaceChanged(space=space):
                self._apply_space(event)
                self.space = space
            case PlanSubmitted(levels=levels):
                self.plan = levels
            case AutoSteeringChanged():
                self.auto_steering_change = event
            case ExperimentFinished():
                self._finished = event
            case ExperimentReopened():
                self._finished = None
                over = self.runs_in(RunState.COMPLETED, RunState.FAILED)
                self.over_before_reopening = frozenset(run.id for run in over)
            case ExperimentRenamed(name=name):
                self.opened = replace(self.opened, name=name)
            case ExperimentTagged(tags=tags):
                self.tags = tags
            case ExperimentDeleted() | ExperimentUndeleted():
                self.is_deleted = isinstance(event, ExperimentDeleted)
            case ToolCalled():
                pass  # says who made the change that follows, and why
            case ExperimentOpened():
                raise ExperimentError("an experiment is opened once")
        if isinstance(event, SETTING_EVENTS):
            self.settings_changed_s = event.at_s
        self.n_events += 1
        self.version += not isinstance(event, WORKER_EVENTS)
        is_result = isinstance(event, RESULT_EVENTS)
        for derived in _DERIVED if is_result else _DERIVED_FROM_ALL:
            self.__dict__.pop(derived, None)

    def _apply_batch(self, event: BatchSuggested) -> None:
        if event.number != len(self._batches) + 1:
            raise ExperimentError(f"batch {event.number} cannot follow batch {len(self._batches)}")
        self._expire_warning()
        self._batches.append(event)

    def _apply_warning(self, warning: MissWarning) -> None:
        if warning.number != len(self._warnings) + 1:
            raise ExperimentError(
                f"warning {warning.number} cannot follow warning {len(self._warnings)}"
            )
        self._warnings.append(warning)

    def _apply_answer(self, event: WarningAnswered) -> None:
        if not 1 <= event.number <= len(self._warnings):
            raise ExperimentError(f"there is no warning {event.number}")
        if event.number in self._answers:
            raise ExperimentError(
                f"warning {event.number} was {self._answers[event.number].answer} already"
            )
        self._answers[event.number] = event
        if event.answer == "accepted" and self.open_batch is not None:
            self._superseded.add(self.open_batch.number)  # its suggestions may be proposed again
        self._steer(replace(self.steering, exploitation=event.exploitation))

    def _steer(self, steering: Steering) -> None:
        if steering != self.steering:  # earlier checks do not apply to another steering
            self._checks.clear()
        self.steering = steering

    def _stop_early(self, settings: EarlyStopping | None) -> None:
        """Set the rule; with another measure of steps only the last result of a run is known."""
        present, curves, self.curves = self.early_stopping, self.curves, None
        self.early_stopping = settings
        if settings is None:
            return
        if curves is not None and present is not None and present.step == settings.step:
            self.curves = curves.copied(settings)
            return
        self.curves = LearningCurves(settings, self.opened.objective)
        for run in self._runs.values():
            measures = run.reported if run.outcome is None else run.outcome.measures
            if measures is not None:
                self.curves.add(run.id, measures)

    def _apply_space(self, event: SpaceChanged) -> None:
        if event.space.lineage != self.opened.space.lineage:
            raise ExperimentError("the lineage of the space of an experiment cannot change")

    @cached_property
    def runs(self) -> tuple[Run, ...]:
        """All runs in the order of their submission."""
        return tuple(self._runs.values())

    @property
    def batches(self) -> tuple[BatchSuggested, ...]:
        """All batches of suggestions, the latest last."""
        return tuple(self._batches)

    @property
    def finished(self) -> ExperimentFinished | None:
        """The event that finished the experiment; None while the experiment is open."""
        return self._finished

    @property
    def auto_steering(self) -> AutoSteering | None:
        """Settings of auto-steering; None if it is off or the experiment is finished."""
        if self.auto_steering_change is None or self._finished is not None:
            return None
        return self.auto_steering_change.auto_steering

    def run(self, run_id: int) -> Run:
        """Return the run with number ``run_id``, or raise ExperimentError if there is none."""
        return find_run(self._runs, run_id)

    @cached_property
    def waiting(self) -> tuple[Run, ...]:
        """Waiting runs that are not held, highest priority first, then by number."""
        return tuple(waiting_runs(self._open_runs))

    @property
    def _open_runs(self) -> list[Run]:
        return [self._runs[run_id] for run_id in sorted(self._index.open_ids)]

    def runs_in(self, *states: RunState) -> tuple[Run, ...]:
        """Return the runs in any of the given states, oldest first."""
        is_open = set(states) <= {QUEUED, RUNNING}
        runs = self._open_runs if is_open else self._runs.values()
        return tuple(run for run in runs if run.state in states)

    def n_in(self, *states: RunState) -> int:
        """Return the number of runs in any of the given states."""
        return sum(self._index.n_in[state] for state in states)

    def runs_of(self, configuration: Configuration) -> tuple[Run, ...]:
        """Return all runs of a configuration, oldest first."""
        return tuple(self._runs[i] for i in self._index.by_configuration.get(configuration, ()))

    @property
    def n_charged(self) -> int:
        """Number of runs that count against the budget, by `Run.is_charged`."""
        return self._index.n_charged

    @property
    def tried(self) -> tuple[int, int]:
        """Numbers of configurations with a run: how many are allowed now, and how many not."""
        n_allowed = self.space.count_allowed_of(self._index.by_configuration)
        return n_allowed, self.n_configurations - n_allowed

    @property
    def n_configurations(self) -> int:
        """Number of configurations with a run."""
        return len(self._index.by_configuration)

    @property
    def n_ended(self) -> int:
        """Number of ended runs that count against the budget."""
        return self._index.n_ended

    @property
    def runs_left(self) -> int | None:
        """Number of runs left of the budget, as people read it; None without a limit.

        It counts the runs that have not ended: running, waiting, and not submitted yet.
        """
        return self.sla.remaining_runs(self.n_ended)

    @property
    def remaining_runs(self) -> int | None:
        """Number of runs that may still be submitted; None without a limit."""
        return self.sla.remaining_runs(self.n_charged)

    @property
    def known_measures(self) -> frozenset[str] | None:
        """Names of the measures in the results so far; None before the first result."""
        return frozenset(self._index.measures) if self._index.observations else None

    @cached_property
    def spending(self) -> Spending | None:
        """Cost of the ended runs; None without a tariff."""
        tariff = self.sla.tariff
        if tariff is None:
            return None
        if tariff != self._costs_by:
            self._costs, self._costs_by = {}, tariff
        for run in self._runs.values():
            if run.id not in self._costs and run.ended_s is not None and run.source != "imported":
                self._costs[run.id] = cost_of(run, self.space.values, tariff)
        return spending_of(self._costs.values())

    @property
    def cost(self) -> float | None:
        """Cost of the ended runs so far, in units of the tariff.

        None without a tariff, or while the cost of every ended run is unknown. Runs of unknown cost
        count as the mean of the others; see `spending` for their number.
        """
        return None if self.spending is None else self.spending.total

    @cached_property
    def goal_run(self) -> Run | None:
        """The run that reached the goal first; None if none did or no goal is set."""
        if self.sla.goal is None:
            return None
        return first_to_reach(self.runs, self.opened.objective, self.sla.goal)

    @property
    def warnings(self) -> tuple[MissWarning, ...]:
        """All warnings, the latest last."""
        return tuple(self._warnings)

    @property
    def open_warning(self) -> MissWarning | None:
        """The latest warning while it is unanswered and still valid, otherwise None.

        A later batch, another SLA or another warning policy makes it lapse.
        """
        if not self._warnings:
            return None
        number = self._warnings[-1].number
        return None if number in self._answers or number in self._lapsed else self._warnings[-1]

    @property
    def checks(self) -> tuple[WarningCheck, ...]:
        """Forecast checks, one per batch, since the steering or SLA last changed."""
        return tuple(self._checks)

    def supposing(self, events: Iterable[Event]) -> Experiment:
        """Return a copy of the experiment after further events, or raise ExperimentError.

        Meanwhile another thread may compute what is derived from the experiment.
        """
        other = copy(self)
        for name, value in vars(self).copy().items():
            if name.startswith("_") and isinstance(value, dict | list | set):
                setattr(other, name, copy(value))
        other._index = self._index.copied()
        other.curves = None if self.curves is None else self.curves.copied()
        for event in events:
            other.apply(event)
        return other

    def _expire_warning(self) -> None:
        """Let the open warning lapse, because what it describes has changed."""
        if self.open_warning is not None:
            self._lapsed.add(self.open_warning.number)

    def answer_to(self, warning: MissWarning) -> WarningAnswered | None:
        """Return the answer to a warning; None if the warning is unanswered."""
        return self._answers.get(warning.number)

    @property
    def open_batch(self) -> BatchSuggested | None:
        """The latest batch while none of its suggestions is submitted, otherwise None."""
        if not self._batches or not self._batches[-1].suggestions:
            return None
        return None if self._batches[-1].number in self._index.batches else self._batches[-1]

    @property
    def confidence(self) -> float | None:
        """Share of suggestions submitted unchanged, 0 to 1; None before the first submission."""
        acted = self._index.batches
        offered = sum(len(b.suggestions) for b in self._batches if b.number in acted)
        return self._index.n_taken / offered if offered else None

    @cached_property
    def observations(self) -> tuple[Observation, ...]:
        """All completed runs as observations, in the order of their submission."""
        return tuple(observation for _, observation in sorted(self._index.observations.items()))

    @cached_property
    def failures(self) -> tuple[Failure, ...]:
        """Failed runs; each counts until a later run of its configuration completes."""
        failed = [self._runs[run_id] for run_id in sorted(self._index.failed_ids)]
        return tuple(
            Failure(run.configuration, run.failure)
            for run in failed
            if run.failure is not None and self._completed_last(run.configuration) < run.id
        )

    def _completed_last(self, configuration: Configuration) -> int:
        """Return the number of the last completed run of a configuration, 0 without one."""
        summary = self._index.summaries.get(configuration)
        return 0 if summary is None else summary.runs[-1].id

    @cached_property
    def learning_sample(self) -> LearningSample:
        """Ended runs that models are fitted to: all of them, or a sample of very many."""
        baseline = self.opened.baseline
        always = () if baseline is None else (baseline,)
        return LearningSample.of(self.observations, self.failures, always)

    @cached_property
    def knowledge(self) -> Knowledge:
        """Input of strategies: ended runs to learn from, pending and proposed configurations."""
        sample, by_configuration = self.learning_sample, self._index.by_configuration
        proposed = {
            suggestion.configuration
            for batch in self._batches
            if batch.number not in self._superseded
            for suggestion in batch.suggestions
            if suggestion.configuration not in by_configuration
        }
        n_not_wanted = self.n_in(RunState.CANCELLED)
        not_wanted = self.runs_in(RunState.CANCELLED) if n_not_wanted else ()
        queued = {run.configuration for run in (*self.runs_in(QUEUED), *not_wanted)}
        return Knowledge(
            space=self.space,
            observations=sample.observations,
            failures=sample.failures,
            pending=frozenset(queued | proposed),
            running=tuple(run.configuration for run in self.runs_in(RUNNING)),
            others=sample.left_out,
            n_others=sample.n_left_out,
            earlier=self.opened.earlier,
        )

    @cached_property
    def submitted_knowledge(self) -> Knowledge:
        """Input of strategies like `knowledge`, but only queued configurations are pending."""
        queued = {run.configuration for run in self.runs_in(QUEUED)}
        return replace(self.knowledge, pending=frozenset(queued))

    @cached_property
    def regions(self) -> tuple[Region, ...]:
        """Regions of good configurations by the rule of the warning policy, the best first."""
        return find_regions(self.submitted_knowledge, self.warning_policy.regions)

    @cached_property
    def derived(self) -> dict[object, Any]:
        """What functions marked `once_per_state` have returned for this state."""
        return {}

    @cached_property
    def derived_from_results(self) -> dict[object, Any]:
        """What functions marked `once_per_result` have returned for these results."""
        return {}

    @cached_property
    def measured_anova(self) -> AnovaModel | None:
        """ANOVA model of the measured qualities; None before the first result."""
        if not self.observations:
            return None
        observations = self.learning_sample.observations
        measured = [Observation(each.configuration, each.quality) for each in observations]
        return AnovaModel(self.space, measured, exact=self.is_noisy is False)

    @cached_property
    def reach(self) -> UntriedPredictions | None:
        """Predictions of the ANOVA model for untried configurations; None without a model."""
        return UntriedPredictions.of(self.knowledge)

    @cached_property
    def summaries(self) -> Mapping[Configuration, ConfigurationSummary]:
        """Summary of every configuration with a completed run, by configuration."""
        by_first_run = sorted(self._index.summaries.items(), key=lambda entry: entry[1].run.id)
        return dict(by_first_run)

    def summary(self, run: Run) -> ConfigurationSummary | None:
        """Return the summary of a run's configuration; None without a completed run."""
        return self._index.summaries.get(run.configuration)

    @property
    def best(self) -> Run | None:
        """First run of the best configuration (the earlier one on a tie); None without a result.

        Ranked by feasibility, then by the mean quality of its runs. With two measures only the
        first counts; `front` has the trade-offs.
        """
        leader = self._index.leader
        return None if leader is None else leader.run

    @property
    def front(self) -> tuple[Run, ...]:
        """First runs of the configurations on the Pareto front, ordered by the first measure.

        Empty without a second measure.
        """
        return tuple(summary.run for summary in pareto_front_of(self.summaries.values()))

    @property
    def baseline(self) -> Run | None:
        """First run with the baseline configuration; None if there is no such run.

        If that run failed, it is the first one that completed, as after a repair of the program.
        """
        configuration = self.opened.baseline
        same = iter(() if configuration is None else self.runs_of(configuration))
        first = next(same, None)
        if first is None or first.failure is None:
            return first
        return next((run for run in same if run.outcome is not None), first)

    @property
    def is_noisy(self) -> bool | None:
        """Whether results vary between replicates, as declared or measured; None if unknown."""
        if self.opened.deterministic is not None:
            return not self.opened.deterministic
        return None if self.noise is None else self.noise.variance > 0

    @cached_property
    def noise(self) -> Noise | None:
        """Run-to-run variance among replicates; None without any."""
        replicated = sorted(self._index.replicated, key=lambda c: self._index.summaries[c].run.id)
        return estimate_noise(
            self._index.observations[run.id]
            for configuration in replicated
            for run in self._index.summaries[configuration].runs
        )

    @cached_property
    def choice(self) -> Choice | None:
        """Configuration to recommend, of all completed runs; None without a feasible result."""
        failed = {failure.configuration for failure in self.failures}
        return choose(self.observations, self.opened.deterministic, failed)

    def free_in(self, batch: BatchSuggested) -> list[int]:
        """Return positions (from 0) of the suggestions in a batch that can still be submitted."""
        configurations = self._index.by_configuration
        return [
            position
            for position, suggestion in enumerate(batch.suggestions)
            if suggestion.kind == "confirmation" or suggestion.configuration not in configurations
        ]

    def best_so_far(self) -> tuple[ConfigurationSummary, ...]:
        """Return the best configuration summary after each completed run, in order."""
        return self._leaders

    @cached_property
    def _leaders(self) -> tuple[ConfigurationSummary, ...]:
        return best_so_far(self._runs.values())


_DERIVED = tuple(
    name for name, value in vars(Experiment).items() if isinstance(value, cached_property)
)
_DERIVED_FROM_ALL = (
    "runs", "waiting", "knowledge", "submitted_knowledge", "regions", "derived",
)  # fmt: skip
"""Names of what is derived from more than the results."""

P = ParamSpec("P")
T = TypeVar("T")
_Function = Callable[Concatenate[Experiment, P], T]
_MOST_DERIVED = 64  # Results that are shared of one state


def once_per_state(compute: _Function[P, T]) -> _Function[P, T]:
    """Decorate a function of an experiment, to compute it once for each state and arguments.

    All who hold the experiment share the result. The next event forgets it.
    """
    return _once("derived", compute)


def once_per_result(compute: _Function[P, T]) -> _Function[P, T]:
    """Decorate as `once_per_state` does, where only `RESULT_EVENTS` change what is computed."""
    return _once("derived_from_results", compute)


def _once(name: str, compute: _Function[P, T]) -> _Function[P, T]:
    @wraps(compute)
    def shared(experiment: Experiment, /, *args: P.args, **kwargs: P.kwargs) -> T:
        derived: dict[object, T] = getattr(experiment, name)
        key = compute, args, tuple(kwargs.items())
        if key in derived:
            return derived[key]
        result = derived[key] = compute(experiment, *args, **kwargs)
        for oldest in list(derived)[:-_MOST_DERIVED]:
            derived.pop(oldest, None)
        return result

    return shared
