"""Session: one experiment with its store and clock, as in figure 3 of the Copper paper.

It decides nothing itself (the commands do) and has no state of its own (the experiment has): each
call makes events, stores them, then applies them. UI, agents and clients make the same calls.
The paper's names: ``initial_evaluation`` is initialEvaluation(), ``submit`` is submitJobs(),
``suggest`` is jobSuggestion(), ``include`` is includeUserJobs(); updateModel() is implicit, since
the design model is a function of the observations.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Literal, Protocol, TypeVar

from assistant.analysis.forecast import forecast
from assistant.analysis.recommendation import (
    KEPT_RUNS,
    Recommendation,
    batch_size,
    is_overdue,
    passed_limit,
    recommend,
    refine_levels,
)
from assistant.analysis.what_if import SteeringChange, WhatIf, what_if
from assistant.core.commands import (
    CancelRun,
    ChangeAutoSteering,
    ChangeEarlyStopping,
    ChangeLevel,
    ChangeSla,
    ChangeSteering,
    ChangeWarningPolicy,
    Command,
    DeleteExperiment,
    ExcludeConfigurations,
    FinishExperiment,
    HoldRun,
    ImportResults,
    IncludeRun,
    Keep,
    PrioritiseRun,
    RateRun,
    RecoverRuns,
    ReleaseRun,
    RenameExperiment,
    ReopenExperiment,
    ReplicateRun,
    StopRun,
    SubmitBaseline,
    SubmitBatch,
    SubmitPlan,
    TagExperiment,
    UndeleteExperiment,
    WeighRegion,
    refuse_other_version,
)
from assistant.core.early_stopping import EarlyStopping
from assistant.core.errors import ServiceError
from assistant.core.events import Answer, BatchSuggested, Event, RunSubmitted
from assistant.core.experiment import Experiment
from assistant.core.forecast import Forecast
from assistant.core.ports import Clock, ExecutionResult, Executor, Result, Store
from assistant.core.run import Run, RunOutput
from assistant.core.sla import AutoSteering, Sla, WarningPolicy
from assistant.core.submission import PastResult
from assistant.session.commands import AnswerWarning, SuggestBatch
from assistant.session.event_log import EventLog, Listener
from assistant.session.execution import record_result, run_queued, start_next
from strategies import Level, is_exhausted

T = TypeVar("T")


class ExperimentQueries(Protocol):
    """Read-only queries on an experiment, shared by local and remote sessions."""

    @property
    def experiment(self) -> Experiment:
        """Current state of the experiment, computed from its event log."""

    def now_s(self) -> float:
        """Return the current time, in seconds since 1970-01-01 UTC."""

    @property
    def id(self) -> str:
        """Identifier of the experiment in the store."""
        return self.experiment.opened.experiment_id

    @property
    def remaining_runs(self) -> int | None:
        """Number of runs that may still be submitted; None without a limit."""
        return self.experiment.remaining_runs

    @property
    def batch_size(self) -> int:
        """Default batch size, from the strategy and the number of workers."""
        return batch_size(self.experiment)

    @property
    def is_exhausted(self) -> bool:
        """Whether every allowed configuration has been proposed or run, and no level comes."""
        return is_exhausted(self.experiment.knowledge) and not refine_levels(self.experiment, 0.0)

    def is_overdue(self) -> bool:
        """Return whether the deadline has passed; False without a deadline."""
        return is_overdue(self.experiment, self.now_s())

    def passed_limit(self) -> str | None:
        """Return a message if the deadline has passed or the cost limit is used up, else None."""
        return passed_limit(self.experiment, self.now_s())

    def is_over_limit(self) -> bool:
        """Return whether the deadline has passed or the cost limit is used up."""
        return self.passed_limit() is not None

    def recommendation(self) -> Recommendation | None:
        """Return the recommended configuration; None without a feasible result."""
        return recommend(self.experiment)

    def forecast(self) -> Forecast:
        """Return the present forecast of the goal, remaining runs and time."""
        return forecast(self.experiment, self.now_s())

    def what_if(
        self,
        *,
        exploitation: float | Keep | None = "keep",
        max_runs: int | None = None,
        deadline_s: float | None = None,
        max_cost: float | None = None,
        goal: float | Literal["none"] | None = None,
        strategy: str | None = None,
        options: Mapping[str, Level] | None = None,
        close: Iterable[tuple[str, Level]] = (),
        weights: Iterable[tuple[int, float]] = (),
    ) -> WhatIf:
        """Forecast the effect of a hypothetical change, without making the change.

        Args:
            exploitation: share inside regions; None does not split.
            max_runs: budget of runs.
            deadline_s: seconds since 1970-01-01 UTC.
            max_cost: cost limit, by the tariff.
            goal: value of the first measure; "none" for no goal.
            strategy: name of a registered strategy.
            options: options of the strategy.
            close: levels to close, as (parameter, level).
            weights: weights of regions, as (number, weight).

        Raises AssistantError, StrategyError: the change itself would be refused.
        """
        return what_if(
            self.experiment,
            self.now_s(),
            SteeringChange(
                exploitation, max_runs, deadline_s, max_cost, goal, strategy,
                dict(options or {}), tuple(close), tuple(weights),
            ),
        )  # fmt: skip


class ExperimentCommands(ExperimentQueries, Protocol):
    """Decisions on an experiment: each method makes one command and decides it.

    A local and a remote session differ only in `decide`. All methods raise what `Command.decide`
    of their command raises; nothing is stored then.
    """

    def decide(self, command: Command) -> tuple[Event, ...]:
        """Decide a command on the current state, and return the events that are stored."""

    # -- the loop ------------------------------------------------------------------------------

    def initial_evaluation(self, n: int) -> BatchSuggested:
        """Propose up to ``n`` initial configurations as a batch.

        The present strategy chooses them if it can (`StrategyEntry.starts`); else they are random,
        as in the paper.
        """
        return _batch_of(self.decide(SuggestBatch(n, "initial")))

    def suggest(self, n: int) -> BatchSuggested:
        """Propose a batch of up to ``n`` configurations, chosen by the strategy.

        The batch is shorter than ``n``, and ``exhausted``, only if the space has no more. A warning
        may come with it, see `Experiment.open_warning`.
        """
        return _batch_of(self.decide(SuggestBatch(n)))

    def confirm(self, n: int = KEPT_RUNS) -> BatchSuggested:
        """Propose a batch of up to ``n`` replicates to confirm the recommended configuration."""
        return _batch_of(self.decide(SuggestBatch(n, "confirmation")))

    def submit(
        self,
        batch: BatchSuggested,
        keep: Iterable[int] | None = None,
        edits: Mapping[int, Mapping[str, Level]] | None = None,
    ) -> tuple[Run, ...]:
        """Submit the suggestions of a batch at positions ``keep`` (from 0; None for all).

        ``edits`` has changed levels of a suggestion, by its position.
        """
        positions = None if keep is None else list(keep)
        return self._runs_of(self.decide(SubmitBatch(batch.number, positions, edits or {})))

    def include(self, values: Mapping[str, Level], reason: str = "") -> Run:
        """Submit one run of a configuration that the analyst has chosen."""
        return _only(self._runs_of(self.decide(IncludeRun(values, reason))))

    def replicate(
        self, of: int | Mapping[str, Level], n: int = 1, reason: str = ""
    ) -> tuple[Run, ...]:
        """Submit ``n`` replicates of a run, given by its number or parameter values.

        Each has its own seed; the best is chosen by their mean.
        """
        return self._runs_of(self.decide(ReplicateRun(of, n, reason)))

    def submit_baseline(self) -> Run | None:
        """Submit the baseline configuration; return its run, or None without a baseline."""
        self.decide(SubmitBaseline())
        return self.experiment.baseline

    def import_results(self, results: Iterable[Result], *, replicates: bool = False) -> int:
        """Import earlier results, all or none, and return the number of new ones.

        ``replicates`` says whether other measures of a configuration that has a run are a
        replicate; a result with a new measure ``seed`` always is one.
        """
        events = self.decide(ImportResults([PastResult(*result) for result in results], replicates))
        return sum(isinstance(event, RunSubmitted) for event in events)

    def _runs_of(self, events: Sequence[Event]) -> tuple[Run, ...]:
        run_ids = [event.run_id for event in events if isinstance(event, RunSubmitted)]
        return tuple(self.experiment.run(run_id) for run_id in run_ids)

    # -- steering ------------------------------------------------------------------------------

    def answer_warning(
        self, answer: Answer, exploitation: float | None = None, alternative: int | None = None
    ) -> BatchSuggested | None:
        """Answer the open warning with ``accepted``, ``changed`` or ``ignored``.

        Accepting makes the change and returns the batch that follows from it; all of it is recorded
        together. ``exploitation`` goes with ``changed`` only. ``alternative`` is a position in
        `MissWarning.alternatives`, by default the first.
        """
        events = self.decide(AnswerWarning(answer, exploitation, alternative))
        return next((event for event in events if isinstance(event, BatchSuggested)), None)

    def change_strategy(
        self,
        strategy: str | None = None,
        options: Mapping[str, Level] | None = None,
        exploitation: float | Keep | None = "keep",
        refine: bool | None = None,
    ) -> None:
        """Change the strategy, its options or the exploitation level; None stays as it is.

        ``refine`` says whether levels are added to wide parameters near the best result.
        """
        self.decide(ChangeSteering(strategy, options, exploitation, refine))

    def weigh_region(self, region_id: int, weight: float) -> None:
        """Set the weight (default 1) that gives a region more or fewer exploiting suggestions."""
        self.decide(WeighRegion(region_id, weight))

    def change_budget(self, sla: Sla) -> None:
        """Replace the SLA (budget, deadline, cost limit and goal)."""
        self.decide(ChangeSla(sla))

    def change_warning_policy(self, policy: WarningPolicy) -> None:
        """Replace the warning policy, including the rules for regions."""
        self.decide(ChangeWarningPolicy(policy))

    def change_early_stopping(self, early_stopping: EarlyStopping | None) -> None:
        """Change the rule that stops hopeless runs from now on; None stops none."""
        self.decide(ChangeEarlyStopping(early_stopping))

    def set_auto_steering(self, auto_steering: AutoSteering | None, reason: str = "") -> None:
        """Start auto-steering with the given settings, or end it if ``auto_steering`` is None.

        The executing process or service takes the steps (`auto_steer_step`).
        """
        self.decide(ChangeAutoSteering(auto_steering, reason))

    # -- the space -----------------------------------------------------------------------------

    def close_level(self, parameter: str, value: Level) -> None:
        """Close a parameter level, so that no new suggestion uses it."""
        self.decide(ChangeLevel("close", parameter, value))

    def reopen_level(self, parameter: str, value: Level) -> None:
        """Reopen a closed parameter level for new suggestions."""
        self.decide(ChangeLevel("reopen", parameter, value))

    def add_level(self, parameter: str, value: Level) -> None:
        """Add a level to a parameter."""
        self.decide(ChangeLevel("add", parameter, value))

    def prefer_level(self, parameter: str, value: Level) -> None:
        """Mark a level as preferred, to be used in more suggestions."""
        self.decide(ChangeLevel("prefer", parameter, value))

    def unprefer_level(self, parameter: str, value: Level) -> None:
        """Remove the preferred mark from a level."""
        self.decide(ChangeLevel("unprefer", parameter, value))

    def exclude(self, condition: str) -> None:
        """Exclude all parameter combinations that meet a condition."""
        self.decide(ExcludeConfigurations(condition))

    def plan(self, levels: Mapping[str, Sequence[Level]]) -> None:
        """Set which levels of each parameter the analyst plans to try (Copper paper, 2.2)."""
        self.decide(SubmitPlan(levels))

    # -- the queue -----------------------------------------------------------------------------

    def reprioritise(self, run_id: int, priority: float) -> None:
        """Set the priority of a waiting run (default 0, higher starts first)."""
        self.decide(PrioritiseRun(run_id, priority))

    def run_first(self, run_id: int) -> None:
        """Give a waiting run the highest priority, so that it starts next."""
        self.decide(PrioritiseRun(run_id, "first"))

    def hold(self, run_id: int) -> None:
        """Put a waiting run on hold until it is released."""
        self.decide(HoldRun(run_id))

    def release(self, run_id: int) -> None:
        """Release a held run, so that it may start again."""
        self.decide(ReleaseRun(run_id))

    def cancel(self, run_id: int, reason: str = "") -> None:
        """Cancel a waiting or running run; one that never started uses none of the budget.

        Cancelling it again changes nothing. Raises ExperimentError if it is over.
        """
        self.decide(CancelRun(run_id, reason))

    def stop(self, run_id: int, reason: str = "", *, keep: bool = True) -> None:
        """End a running run now, using its last intermediate result as its result.

        Stopping it again changes nothing. With ``keep=False`` it is the same as `cancel`. Raises
        ExperimentError if it is not running, or has not reported all that the objective needs.
        """
        self.decide(StopRun(run_id, keep, reason))

    def rate(self, run_id: int, good: bool | None) -> None:
        """Rate a result good or bad, or withdraw the rating (None)."""
        self.decide(RateRun(run_id, good))

    def recover(self) -> int:
        """Requeue the runs of a process that has died, and return their number.

        Call it only when nothing executes runs of this experiment any more.
        """
        return len(self.decide(RecoverRuns()))

    # -- the experiment itself -----------------------------------------------------------------

    def finish(self, reason: str) -> None:
        """Finish the experiment, or raise ExperimentError if it is finished already."""
        self.decide(FinishExperiment(reason))

    def reopen(self) -> None:
        """Reopen a finished experiment, or raise ExperimentError if it is not finished."""
        self.decide(ReopenExperiment())

    def rename(self, name: str) -> None:
        """Give the experiment another name; its identifier stays."""
        self.decide(RenameExperiment(name))

    def tag(self, add: Sequence[str] = (), remove: Sequence[str] = ()) -> None:
        """Add and remove tags, or raise ExperimentError for one that is not there."""
        self.decide(TagExperiment(tuple(add), tuple(remove)))

    def delete(self) -> None:
        """Leave the experiment out of lists; raise ExperimentError while runs are running."""
        self.decide(DeleteExperiment())

    def undelete(self) -> None:
        """Undo the deletion, or raise ExperimentError if there is none."""
        self.decide(UndeleteExperiment())


class Session(ExperimentCommands):
    """Local session that steers one experiment; calls are atomic and thread-safe."""

    def __init__(self, experiment: Experiment, store: Store, clock: Clock) -> None:
        self._event_log = EventLog(experiment, store, clock)

    @property
    def experiment(self) -> Experiment:
        """Current state of the experiment, computed from its event log."""
        return self._event_log.experiment

    def decide(self, command: Command) -> tuple[Event, ...]:
        """Decide a command on the current state, and return the events that are stored.

        Raises what `Command.decide` raises, and StoreError; nothing is stored then.
        """
        with self._event_log.deciding():
            events = command.decide(self.experiment, self._event_log.now_s())
            self._event_log.record(*events)
            return events

    # -- execution -----------------------------------------------------------------------------

    def run_queued(
        self,
        executor: Executor,
        on_change: Callable[[Run], None] | None = None,
        stop: Callable[[], bool] | None = None,
    ) -> None:
        """Execute all waiting runs with an executor, and record their results."""
        run_queued(self._event_log, executor, on_change, stop)

    def start_next(self) -> Run | None:
        """Start the next waiting run for a caller that executes it, or return None."""
        return start_next(self._event_log)

    def record_result(self, completion: ExecutionResult) -> Run:
        """Record the result of a run that `start_next` started, and return the run.

        Raises ExperimentError: there is no such run, it is not running, or a worker executes it.
        """
        return record_result(self._event_log, completion)

    def output(self, run_id: int) -> RunOutput | None:
        """Return what the program of a run printed; None if nothing is stored.

        Raises ExperimentError if there is no such run.
        """
        return self._event_log.output(self.experiment.run(run_id).id)

    def look(self) -> Experiment:
        """Return a copy of the experiment's current state."""
        with self._event_log.deciding():
            return self.experiment.supposing(())

    def now_s(self) -> float:
        """Return the time of the session's clock, in seconds since 1970-01-01 UTC."""
        return self._event_log.now_s()

    def listen(self, listener: Listener) -> None:
        """Register a listener, called with each new event and the experiment after it.

        It is called while the session is locked: it must return at once, and raise nothing.
        """
        self._event_log.listen(listener)

    def deciding(self) -> AbstractContextManager[None]:
        """Hold the lock during a block, after applying events that other processes stored."""
        return self._event_log.deciding()

    @contextmanager
    def only_on(self, version: int) -> Iterator[None]:
        """Hold the lock for a block; raise VersionConflictError unless at version ``version``."""
        with self._event_log.deciding():
            refuse_other_version(self.experiment, version)
            yield

    def take(self, events: Sequence[Event]) -> None:
        """Record events from a decision in another session, or raise ExperimentError."""
        with self._event_log.deciding():
            self.experiment.supposing(events)
            self._event_log.record(*events)

    def catch_up(self) -> None:
        """Apply the events that workers or other processes have stored meanwhile."""
        self._event_log.catch_up()

    def events(self) -> tuple[Event, ...]:
        """Return all events in the event log."""
        return self._event_log.events()


def _batch_of(events: Sequence[Event]) -> BatchSuggested:
    return _only([event for event in events if isinstance(event, BatchSuggested)])


def _only(values: Sequence[T]) -> T:
    """Return the one value that a decision must give; a service that gives another is broken."""
    if len(values) != 1:
        raise ServiceError(f"the answer to a decision has {len(values)} results instead of 1")
    return values[0]
