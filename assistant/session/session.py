"""Session: one experiment with its store and clock, as in figure 3 of the Copper paper.

It decides nothing itself (strategies and `assistant.core.commands` do) and has no state of its own
(the experiment has): each call makes events, stores them, then applies them. UI, agents and
clients make the same calls. The paper's names: ``initial_evaluation`` is initialEvaluation(),
``submit`` is submitJobs(), ``suggest`` is jobSuggestion(), ``include`` is includeUserJobs();
updateModel() is implicit, since the design model is a function of the observations.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Literal, Protocol

import numpy as np

from assistant.analysis.alternatives import events_of_alternative
from assistant.analysis.forecast import forecast
from assistant.analysis.recommendation import (
    KEPT_RUNS,
    Recommendation,
    batch_size,
    confirming,
    current_strategy,
    initial_strategy,
    is_overdue,
    passed_limit,
    recommend,
)
from assistant.analysis.warning import build_warning, next_batch
from assistant.analysis.what_if import SteeringChange, WhatIf, what_if
from assistant.core import commands
from assistant.core.commands import Keep, RunRequest, random_stream
from assistant.core.errors import ExperimentError
from assistant.core.events import (
    Answer,
    BatchSuggested,
    Event,
    ExperimentFinished,
    ExperimentReopened,
    RunSubmitted,
)
from assistant.core.experiment import Experiment
from assistant.core.forecast import Forecast
from assistant.core.ports import Clock, ExecutionResult, Executor, Result, Store
from assistant.core.run import Run
from assistant.core.sla import AutoSteering, Sla, WarningPolicy
from assistant.session.event_log import EventLog, Listener
from assistant.session.execution import (
    record_result,
    requeue_interrupted,
    run_queued,
    start_next,
)
from strategies import Level, Strategy, Suggestion, is_exhausted


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
        """Whether every allowed configuration has been proposed or run."""
        return is_exhausted(self.experiment.knowledge)

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


class Session(ExperimentQueries):
    """Local session that steers one experiment; calls are atomic and thread-safe."""

    def __init__(self, experiment: Experiment, store: Store, clock: Clock) -> None:
        self._event_log = EventLog(experiment, store, clock)

    @property
    def experiment(self) -> Experiment:
        """Current state of the experiment, computed from its event log."""
        return self._event_log.experiment

    # -- the loop ------------------------------------------------------------------------------

    def initial_evaluation(self, n: int) -> BatchSuggested:
        """Propose up to ``n`` initial configurations as a batch.

        The present strategy chooses them if it can (`StrategyEntry.starts`); else they are random,
        as in the paper.
        """
        return self._suggest(initial_strategy(self.experiment), n, initial=True)

    def suggest(self, n: int) -> BatchSuggested:
        """Propose a batch of up to ``n`` configurations, chosen by the strategy.

        The batch is shorter than ``n``, and ``exhausted``, only if the space has no more. A warning
        may come with it, see `Experiment.open_warning`. Raises ExperimentError if the experiment is
        finished, or ``n`` is below 1.
        """
        return self._suggest(current_strategy(self.experiment), n)

    def _suggest(self, strategy: Strategy, n: int, *, initial: bool = False) -> BatchSuggested:
        with self._event_log.deciding():
            experiment = self.experiment
            commands.refuse_if_finished(experiment)
            if n < 1:
                raise ExperimentError(f"a batch has at least 1 suggestion, not {n}")
            number = len(experiment.batches) + 1
            seed = experiment.opened.seed
            rng = np.random.default_rng(random_stream(seed, "suggest", number))
            knowledge = experiment.knowledge
            if initial:
                knowledge = commands.knowledge_before_results(knowledge)
            suggestions = strategy.suggest(n, knowledge, rng)
            if initial:
                suggestions = tuple(_as_initial(suggestion) for suggestion in suggestions)
            now_s = self._event_log.now_s()
            batch = BatchSuggested(now_s, number, suggestions, exhausted=len(suggestions) < n)
            events: list[Event] = [batch]
            if not initial:
                warning_rng = np.random.default_rng(random_stream(seed, "advise", number))
                events += build_warning(experiment, n, now_s, warning_rng)
            self._event_log.record(*events)
            return batch

    def submit(
        self,
        batch: BatchSuggested,
        keep: Iterable[int] | None = None,
        edits: Mapping[int, Mapping[str, Level]] | None = None,
    ) -> tuple[Run, ...]:
        """Submit the suggestions of a batch at positions ``keep`` (from 0; None for all).

        ``edits`` has changed levels of a suggestion, by its position.

        Raises:
            ExperimentError: a position that the batch does not have, a configuration that was
                submitted before, or more runs than the budget leaves. Nothing is submitted then.
            StrategyError: an edit outside the space.
        """
        with self._event_log.deciding():
            return self._submit(
                commands.requests_from_batch(self.experiment, batch, keep, edits or {})
            )

    def include(self, values: Mapping[str, Level], reason: str = "") -> Run:
        """Submit one run of a configuration that the analyst has chosen.

        Raises:
            StrategyError: a value outside the space, or an excluded combination.
            ExperimentError: it was submitted before, or the budget is used up.
        """
        with self._event_log.deciding():
            configuration = self.experiment.space.from_values(values)
            self.experiment.space.check(configuration)
            reason = reason or "the analyst's own"
            return self._submit([RunRequest(configuration, "analyst", reason)])[0]

    def replicate(
        self, of: int | Mapping[str, Level], n: int = 1, reason: str = ""
    ) -> tuple[Run, ...]:
        """Submit ``n`` replicates of a run, given by its number or parameter values.

        Each has its own seed; the best is chosen by their mean.

        Raises:
            StrategyError: a value outside the space, or a level that is closed by now.
            ExperimentError: no such run, results do not vary, or the budget is used up.
        """
        with self._event_log.deciding():
            return self._submit(commands.replicate_requests(self.experiment, of, n, reason))

    def submit_baseline(self) -> Run | None:
        """Submit the baseline configuration; return its run, or None without a baseline."""
        with self._event_log.deciding():
            baseline = self.experiment.opened.baseline
            if baseline is None:
                return None
            baseline_run = self.experiment.baseline
            return (
                baseline_run
                or self._submit([RunRequest(baseline, "baseline", "the current configuration")])[0]
            )

    def _submit(self, requests: Sequence[RunRequest]) -> tuple[Run, ...]:
        events = commands.submit_runs(self.experiment, requests, self._event_log.now_s())
        self._event_log.record(*events)
        return tuple(self.experiment.run(event.run_id) for event in events)

    def confirm(self, n: int = KEPT_RUNS) -> BatchSuggested:
        """Propose a batch of up to ``n`` replicates to confirm the recommended configuration.

        Raises:
            ExperimentError: the experiment is finished, there is nothing to confirm, results do not
                vary, or the configurations to repeat are closed by now.
            OptionError: ``n`` is no whole number of at least 1.
        """
        with self._event_log.deciding():
            commands.refuse_if_finished(self.experiment)
            suggestions = confirming(self.experiment, n)
            number = len(self.experiment.batches) + 1
            batch = BatchSuggested(self._event_log.now_s(), number, suggestions, exhausted=False)
            self._event_log.record(batch)
            return batch

    # -- warnings ------------------------------------------------------------------------------

    def answer_warning(
        self, answer: Answer, exploitation: float | None = None, alternative: int | None = None
    ) -> BatchSuggested | None:
        """Answer the open warning with ``accepted``, ``changed`` or ``ignored``.

        Accepting makes the change and returns the batch that follows from it; all of it is recorded
        together. ``exploitation`` goes with ``changed`` only. ``alternative`` is a position in
        `MissWarning.alternatives`, by default the first.

        Raises:
            ExperimentError: no warning is open, or the arguments contradict each other.
            AssistantError, StrategyError: the alternative is not possible any more.
        """
        with self._event_log.deciding():
            experiment, now_s = self.experiment, self._event_log.now_s()
            answered, accepted = commands.answer_warning(
                experiment, answer, exploitation, alternative, now_s
            )
            more = () if accepted is None else events_of_alternative(experiment, accepted, now_s)
            batch = next_batch(experiment, answered, accepted, more)
            self._event_log.record(answered, *more, *([] if batch is None else [batch]))
            return batch

    # -- corrections ---------------------------------------------------------------------------

    def change_strategy(
        self,
        strategy: str | None = None,
        options: Mapping[str, Level] | None = None,
        exploitation: float | Keep | None = "keep",
    ) -> None:
        """Change the strategy, its options or the exploitation level.

        A strategy or options that are None stay as they are.
        """
        self._event_log.decide(commands.change_steering, strategy, options, exploitation)

    def weigh_region(self, region_id: int, weight: float) -> None:
        """Set the weight (default 1) that gives a region more or fewer exploiting suggestions."""
        self._event_log.decide(commands.weigh_region, region_id, weight)

    def change_budget(self, sla: Sla) -> None:
        """Replace the SLA (budget, deadline, cost limit and goal)."""
        self._event_log.decide(commands.change_sla, sla)

    def change_warning_policy(self, policy: WarningPolicy) -> None:
        """Replace the warning policy, including the rules for regions."""
        self._event_log.decide(commands.change_warning_policy, policy)

    # -- the queue -----------------------------------------------------------------------------

    def reprioritise(self, run_id: int, priority: float) -> None:
        """Set the priority of a waiting run (default 0), or raise ExperimentError."""
        self._event_log.decide(commands.prioritise_run, run_id, priority)

    def run_first(self, run_id: int) -> None:
        """Give a waiting run the highest priority, so that it starts next."""
        self._event_log.decide(commands.prioritise_first, run_id)

    def hold(self, run_id: int) -> None:
        """Put a waiting run on hold until it is released."""
        self._event_log.decide(commands.hold_run, run_id)

    def release(self, run_id: int) -> None:
        """Release a held run, so that it may start again."""
        self._event_log.decide(commands.release_run, run_id)

    def cancel(self, run_id: int, reason: str = "") -> None:
        """Cancel a waiting or running run; one that never started uses none of the budget.

        Cancelling it again changes nothing. Raises ExperimentError if it is over.
        """
        self._event_log.decide(commands.cancel_run, run_id, reason)

    def stop(self, run_id: int, reason: str = "", *, keep: bool = True) -> None:
        """End a running run now, using its last intermediate result as its result.

        Stopping it again changes nothing. With ``keep=False`` it is the same as `cancel`. Raises
        ExperimentError if it is not running, or has not reported all that the objective needs.
        """
        if keep:
            self._event_log.decide(commands.stop_run, run_id, reason)
        else:
            self.cancel(run_id, reason)

    def rate(self, run_id: int, good: bool | None) -> None:
        """Rate a result good or bad, or withdraw the rating (None)."""
        self._event_log.decide(commands.rate_run, run_id, good)

    def close_level(self, parameter: str, value: Level) -> None:
        """Close a parameter level, so that no new suggestion uses it."""
        self._event_log.decide(commands.close_level, parameter, value)

    def reopen_level(self, parameter: str, value: Level) -> None:
        """Reopen a closed parameter level for new suggestions."""
        self._event_log.decide(commands.reopen_level, parameter, value)

    def add_level(self, parameter: str, value: Level) -> None:
        """Add a level to a parameter."""
        self._event_log.decide(commands.add_level, parameter, value)

    def prefer_level(self, parameter: str, value: Level) -> None:
        """Mark a level as preferred, to be used in more suggestions."""
        self._event_log.decide(commands.prefer_level, parameter, value)

    def unprefer_level(self, parameter: str, value: Level) -> None:
        """Remove the preferred mark from a level."""
        self._event_log.decide(commands.unprefer_level, parameter, value)

    def exclude(self, condition: str) -> None:
        """Exclude all parameter combinations that meet a condition."""
        self._event_log.decide(commands.exclude_combinations, condition)

    def plan(self, levels: Mapping[str, Sequence[Level]]) -> None:
        """Set which levels of each parameter the analyst plans to try (Copper paper, 2.2)."""
        self._event_log.decide(commands.submit_plan, levels)

    def import_results(self, results: Iterable[Result], *, replicates: bool = False) -> int:
        """Import earlier results, all or none, and return the number of new ones.

        ``replicates`` says whether other measures of a configuration that has a run are a
        replicate; a result with a new measure ``seed`` always is one.

        Raises:
            StrategyError: a value outside the space.
            ObjectiveError: a measure that the objective needs is missing.
        """
        with self._event_log.deciding():
            now_s = self._event_log.now_s()
            events = commands.import_results(self.experiment, results, replicates, now_s)
            self._event_log.record(*events)
            return sum(isinstance(event, RunSubmitted) for event in events)

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

    def recover(self) -> int:
        """Requeue the runs of a process that has died, and return their number.

        Call it only when nothing executes runs of this experiment any more.
        """
        return requeue_interrupted(self._event_log)

    def finish(self, reason: str) -> None:
        """Finish the experiment, or raise ExperimentError if it is finished already."""
        with self._event_log.deciding():
            commands.refuse_if_finished(self.experiment)
            self._event_log.record(ExperimentFinished(self._event_log.now_s(), reason))

    def reopen(self) -> None:
        """Reopen a finished experiment, or raise ExperimentError if it is not finished."""
        with self._event_log.deciding():
            if self.experiment.finished is None:
                raise ExperimentError(
                    f"experiment '{self.id}' is not finished, so it cannot be reopened"
                )
            self._event_log.record(ExperimentReopened(self._event_log.now_s()))

    def rename(self, name: str) -> None:
        """Give the experiment another name; its identifier stays."""
        self._event_log.decide(commands.rename_experiment, name)

    def tag(self, add: Sequence[str] = (), remove: Sequence[str] = ()) -> None:
        """Add and remove tags, or raise ExperimentError for one that is not there."""
        self._event_log.decide(commands.tag_experiment, add, remove)

    def delete(self) -> None:
        """Leave the experiment out of lists; raise ExperimentError while runs are running."""
        self._event_log.decide(commands.delete_experiment)

    def undelete(self) -> None:
        """Undo the deletion, or raise ExperimentError if there is none."""
        self._event_log.decide(commands.undelete_experiment)

    def set_auto_steering(self, auto_steering: AutoSteering | None, reason: str = "") -> None:
        """Start auto-steering with the given settings, or end it if ``auto_steering`` is None.

        The executing process or service takes the steps (`auto_steer_step`).
        Raises ExperimentError if it is finished, or has no limit that would end it.
        """
        self._event_log.decide(commands.change_auto_steering, auto_steering, reason)

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
            commands.refuse_other_version(self.experiment, version)
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


def _as_initial(suggestion: Suggestion) -> Suggestion:
    return replace(suggestion, kind="initial")
