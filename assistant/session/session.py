"""The session: figure 3 of the Copper paper, wired to a store, an executor and a clock.

It decides nothing (strategies choose, `decisions` and `advise` judge) and holds no state of its own
(the experiment does): each call makes events, stores them, then applies them. What a person does in
the UI, an agent in a script and a client elsewhere is the same call here.

The paper's names: ``initial_evaluation`` is initialEvaluation(), ``submit`` is submitJobs(),
``suggest`` is jobSuggestion(), ``include`` is includeUserJobs(); updateModel() happens by itself,
since the design model is a function of what has been observed.

What can be read of an experiment that is being steered, wherever it is steered from.
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
from assistant.core.ports import Clock, Executor, Result, Store
from assistant.core.run import Run
from assistant.core.sla import AutoSteering, Sla, WarningPolicy
from assistant.session.event_log import EventLog, Listener
from assistant.session.execution import requeue_interrupted, run_queued
from strategies import Level, Strategy, Suggestion, is_exhausted


class ExperimentQueries(Protocol):
    """An experiment as far as it has come, and the time."""

    @property
    def experiment(self) -> Experiment:
        """The state, which is the fold over the journal."""

    def now_s(self) -> float:
        """Return the time, in seconds since 1970-01-01 UTC."""

    @property
    def id(self) -> str:
        """The experiment's identifier in the store."""
        return self.experiment.opened.experiment_id

    @property
    def remaining_runs(self) -> int | None:
        """Runs that may still be submitted; None without a limit."""
        return self.experiment.remaining_runs

    @property
    def batch_size(self) -> int:
        """Suggestions at a time that suit the strategy and the runs that execute at once."""
        return batch_size(self.experiment)

    @property
    def is_exhausted(self) -> bool:
        """Whether every allowed configuration has been proposed or run."""
        return is_exhausted(self.experiment.knowledge)

    def is_overdue(self) -> bool:
        """Whether the deadline has passed; false without one."""
        return is_overdue(self.experiment, self.now_s())

    def passed_limit(self) -> str | None:
        """Say which limit of the agreement is used up by now: deadline or cost; None if neither.

        Limits of the number of runs are kept where runs are submitted.
        """
        return passed_limit(self.experiment, self.now_s())

    def is_over_limit(self) -> bool:
        """Whether nothing more should be started: the deadline has passed or the cost is used up.

        It is what `run_queued` may be given as ``stop``.
        """
        return self.passed_limit() is not None

    def recommendation(self) -> Recommendation | None:
        """Say what to take and how sure that is; None while nothing meets every constraint."""
        return recommend(self.experiment)

    def forecast(self) -> Forecast:
        """Say what comes of the experiment, now: the goal, the runs and the time that are left."""
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
        """Say what a change would come to, and change nothing. What is None stays as it is.

        Args:
            exploitation: share inside regions; None does not split.
            max_runs: runs in all.
            deadline_s: seconds since 1970-01-01 UTC.
            max_cost: in all, by the tariff.
            goal: value of the first measure; "none" for no goal.
            strategy: a registered name, with its ``options``.
            options: of the strategy.
            close: parameters with a level that is proposed no more.
            weights: regions by their number, with how much each counts.

        Raises:
            AssistantError, StrategyError: what the change itself would be refused for.
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
    """One experiment being steered; made by `assistant.session.opening`.

    Calls may come from several threads; each decision is taken whole.
    """

    def __init__(self, experiment: Experiment, store: Store, clock: Clock) -> None:
        self._journal = EventLog(experiment, store, clock)

    @property
    def experiment(self) -> Experiment:
        """The state, which is the fold over the journal."""
        return self._journal.experiment

    # -- the loop ------------------------------------------------------------------------------

    def initial_evaluation(self, n: int) -> BatchSuggested:
        """Propose the first runs; `include` is for choosing them oneself.

        The strategy in force chooses them if that is its way (`StrategyEntry.starts`); else they
        are random, as in the paper.
        """
        return self._suggest(initial_strategy(self.experiment), n, initial=True)

    def suggest(self, n: int) -> BatchSuggested:
        """Propose up to ``n`` configurations by the experiment's strategy.

        The batch is shorter than ``n``, and says ``exhausted``, only if the space has no more. If
        the agreement is about to be missed, the warning comes with it: `Experiment.open_advice`.

        Raises:
            ExperimentError: the experiment is finished, or ``n`` is below 1.
        """
        return self._suggest(current_strategy(self.experiment), n)

    def _suggest(self, strategy: Strategy, n: int, *, initial: bool = False) -> BatchSuggested:
        with self._journal.deciding():
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
            now_s = self._journal.now_s()
            batch = BatchSuggested(now_s, number, suggestions, exhausted=len(suggestions) < n)
            events: list[Event] = [batch]
            if not initial:
                of_advice = np.random.default_rng(random_stream(seed, "advise", number))
                events += build_warning(experiment, n, now_s, of_advice)
            self._journal.record(*events)
            return batch

    def submit(
        self,
        batch: BatchSuggested,
        keep: Iterable[int] | None = None,
        edits: Mapping[int, Mapping[str, Level]] | None = None,
    ) -> tuple[Run, ...]:
        """Submit a batch, or only the suggestions at the positions ``keep`` (from 0).

        Args:
            batch: as it was suggested.
            keep: positions to submit; all if None.
            edits: other levels for some parameters of a suggestion, by its position.

        Raises:
            ExperimentError: a position that the batch does not have, a configuration that was
                submitted before, or more runs than the budget leaves. Nothing is submitted then.
            StrategyError: an edit outside the space.
        """
        with self._journal.deciding():
            return self._submit(
                commands.requests_from_batch(self.experiment, batch, keep, edits or {})
            )

    def include(self, values: Mapping[str, Level], reason: str = "") -> Run:
        """Submit a configuration of the analyst's own.

        Raises:
            StrategyError: a value outside the space, or an excluded combination.
            ExperimentError: it was submitted before, or the budget is used up.
        """
        with self._journal.deciding():
            configuration = self.experiment.space.from_values(values)
            self.experiment.space.check(configuration)
            reason = reason or "the analyst's own"
            return self._submit([RunRequest(configuration, "analyst", reason)])[0]

    def replicate(
        self, of: int | Mapping[str, Level], n: int = 1, reason: str = ""
    ) -> tuple[Run, ...]:
        """Submit ``n`` more runs of a run's configuration, or of values that have a run.

        Each has a seed of its own; what is best goes by their mean.

        Raises:
            StrategyError: a value outside the space, or a level that is closed by now.
            ExperimentError: no such run, results do not vary, or the budget is used up.
        """
        with self._journal.deciding():
            return self._submit(commands.replicate_requests(self.experiment, of, n, reason))

    def submit_baseline(self) -> Run | None:
        """Submit today's configuration, so that there is something to compare with.

        Returns None if the application has no today, and the existing run if there is one.
        """
        with self._journal.deciding():
            today = self.experiment.opened.baseline
            if today is None:
                return None
            baseline_run = self.experiment.baseline
            return (
                baseline_run
                or self._submit([RunRequest(today, "baseline", "today's configuration")])[0]
            )

    def _submit(self, requests: Sequence[RunRequest]) -> tuple[Run, ...]:
        events = commands.submit_runs(self.experiment, requests, self._journal.now_s())
        self._journal.record(*events)
        return tuple(self.experiment.run(event.run_id) for event in events)

    def confirm(self, n: int = KEPT_RUNS) -> BatchSuggested:
        """Propose up to ``n`` replicates that would confirm what is recommended; then `submit`.

        Raises:
            ExperimentError: the experiment is finished, there is nothing to confirm, results do
                not vary, or what would have to be repeated is closed by now.
            OptionError: ``n`` is no whole number of at least 1.
        """
        with self._journal.deciding():
            commands.refuse_if_finished(self.experiment)
            suggestions = confirming(self.experiment, n)
            number = len(self.experiment.batches) + 1
            batch = BatchSuggested(self._journal.now_s(), number, suggestions, exhausted=False)
            self._journal.record(batch)
            return batch

    # -- advice --------------------------------------------------------------------------------

    def answer_advice(
        self, answer: Answer, exploitation: float | None = None, alternative: int | None = None
    ) -> BatchSuggested | None:
        """Answer the open advice: ``accepted``, ``changed`` (to another level) or ``ignored``.

        Accepting makes the change and returns the batch that follows from it; all that is recorded
        together, or none of it.

        Args:
            answer: the answer.
            exploitation: share inside regions, with ``changed`` only.
            alternative: position in `Advice.alternatives` of what is accepted; the first if None.

        Raises:
            ExperimentError: no advice is open, or what is given does not go together.
            AssistantError, StrategyError: the alternative is not possible any more.
        """
        with self._journal.deciding():
            experiment, now_s = self.experiment, self._journal.now_s()
            answered, accepted = commands.answer_warning(
                experiment, answer, exploitation, alternative, now_s
            )
            more = () if accepted is None else events_of_alternative(experiment, accepted, now_s)
            batch = next_batch(experiment, answered, accepted, more)
            self._journal.record(answered, *more, *([] if batch is None else [batch]))
            return batch

    # -- corrections ---------------------------------------------------------------------------

    def change_strategy(
        self,
        strategy: str | None = None,
        options: Mapping[str, Level] | None = None,
        exploitation: float | Keep | None = "keep",
    ) -> None:
        """Choose in another way from now on.

        Args:
            strategy: a registered name; as it is if None.
            options: of the strategy; as they are if None.
            exploitation: share of suggestions inside regions; None does not split any more.
        """
        self._journal.decide(commands.change_steering, strategy, options, exploitation)

    def weigh_region(self, region_id: int, weight: float) -> None:
        """Let a region count more or less in the division of exploitation; 1 is as it is found.

        The weight stands with the region's best configuration, whatever number it has later.
        """
        self._journal.decide(commands.weigh_region, region_id, weight)

    def change_budget(self, sla: Sla) -> None:
        """Agree on other terms from now on: all of them, as ``sla`` says."""
        self._journal.decide(commands.change_sla, sla)

    def change_watch(self, watch: WarningPolicy) -> None:
        """Count regions or pending runs, or warn, in another way from now on."""
        self._journal.decide(commands.change_warning_policy, watch)

    # -- the queue -----------------------------------------------------------------------------

    def reprioritise(self, run_id: int, priority: float) -> None:
        """Let a waiting run start before those of a lower priority; from the next start on.

        Raises:
            ExperimentError: no such run, it does not wait, or the priority is no finite number.
        """
        self._journal.decide(commands.prioritise_run, run_id, priority)

    def run_first(self, run_id: int) -> None:
        """Let a waiting run start before all others that wait now."""
        self._journal.decide(commands.prioritise_first, run_id)

    def hold(self, run_id: int) -> None:
        """Let a waiting run wait until it is released."""
        self._journal.decide(commands.hold_run, run_id)

    def release(self, run_id: int) -> None:
        """Let a run that is held start again in its turn."""
        self._journal.decide(commands.release_run, run_id)

    def cancel(self, run_id: int, reason: str = "") -> None:
        """Give a run up, whether it waits or goes on; one that has not begun costs nothing.

        Cancelling it again changes nothing. Raises ExperimentError if it is over.
        """
        self._journal.decide(commands.cancel_run, run_id, reason)

    def stop(self, run_id: int, reason: str = "", *, keep: bool = True) -> None:
        """End a run that goes on, now; what it has reported last counts as its result.

        Stopping it again changes nothing.

        Args:
            run_id: of the run.
            reason: kept with the run.
            keep: False throws away what it has reported: the same as `cancel`.

        Raises:
            ExperimentError: it does not go on, or has not reported all that the objective needs.
        """
        if keep:
            self._journal.decide(commands.stop_run, run_id, reason)
        else:
            self.cancel(run_id, reason)

    def rate(self, run_id: int, good: bool | None) -> None:
        """Call a result good or bad, or take the verdict back (None)."""
        self._journal.decide(commands.rate_run, run_id, good)

    def close_level(self, parameter: str, value: Level) -> None:
        """Propose this level no more; what was run with it stays."""
        self._journal.decide(commands.close_level, parameter, value)

    def reopen_level(self, parameter: str, value: Level) -> None:
        """Propose a closed level again."""
        self._journal.decide(commands.reopen_level, parameter, value)

    def add_level(self, parameter: str, value: Level) -> None:
        """Add a level to a parameter."""
        self._journal.decide(commands.add_level, parameter, value)

    def prefer_level(self, parameter: str, value: Level) -> None:
        """Keep a share of the suggestions to this level, and to others that are preferred."""
        self._journal.decide(commands.prefer_level, parameter, value)

    def unprefer_level(self, parameter: str, value: Level) -> None:
        """Prefer a level no more."""
        self._journal.decide(commands.unprefer_level, parameter, value)

    def exclude(self, condition: str) -> None:
        """Never propose what meets this condition."""
        self._journal.decide(commands.exclude_combinations, condition)

    def plan(self, levels: Mapping[str, Sequence[Level]]) -> None:
        """Declare a range of values as the pending strategy (section 2.2)."""
        self._journal.decide(commands.submit_plan, levels)

    def import_results(self, results: Iterable[Result], *, replicates: bool = False) -> int:
        """Take in results from before: values and measures. They cost nothing of the budget.

        All or none are stored.

        Args:
            results: values and measures.
            replicates: whether other measures of a configuration that has a run are a replicate.
                A result whose measure ``seed`` differs from those of all others is one anyway.

        Returns:
            How many were taken; the rest have a run already, and are left out.

        Raises:
            StrategyError: a value outside the space.
            ObjectiveError: a measure that the objective needs is missing.
        """
        with self._journal.deciding():
            now_s = self._journal.now_s()
            events = commands.import_results(self.experiment, results, replicates, now_s)
            self._journal.record(*events)
            return sum(isinstance(event, RunSubmitted) for event in events)

    # -- execution -----------------------------------------------------------------------------

    def run_queued(
        self,
        executor: Executor,
        on_change: Callable[[Run], None] | None = None,
        stop: Callable[[], bool] | None = None,
    ) -> None:
        """Execute everything that waits, in its order, recording each result as it comes.

        Interrupting it loses no result: what is under way goes back to the queue.

        Args:
            executor: where the runs execute.
            on_change: told of each run that started or ended.
            stop: asked before each start; once true, nothing more is started.
        """
        run_queued(self._journal, executor, on_change, stop)

    def recover(self) -> int:
        """Return runs to the queue that a process which is gone had started; say how many.

        Call it only when nothing executes runs of this experiment any more.
        """
        return requeue_interrupted(self._journal)

    def finish(self, reason: str) -> None:
        """Close the experiment: the analyst is satisfied, or nothing is left to spend or try."""
        with self._journal.deciding():
            commands.refuse_if_finished(self.experiment)
            self._journal.record(ExperimentFinished(self._journal.now_s(), reason))

    def reopen(self) -> None:
        """Go on with a finished experiment. Raises ExperimentError if it is not finished."""
        with self._journal.deciding():
            if self.experiment.finished is None:
                raise ExperimentError(
                    f"experiment '{self.id}' is not finished; it can go on as it is"
                )
            self._journal.record(ExperimentReopened(self._journal.now_s()))

    def hand_over(self, automatic: AutoSteering | None, reason: str = "") -> None:
        """Let it steer itself from now on; None gives it back to the person.

        Whoever executes it takes the steps (`automatic.step`): a service for those it executes.

        Raises:
            ExperimentError: it is finished, or no limit would ever end it.
        """
        self._journal.decide(commands.change_auto_steering, automatic, reason)

    def look(self) -> Experiment:
        """Return the state as it is now, in a copy that nobody changes."""
        with self._journal.deciding():
            return self.experiment.supposing(())

    def now_s(self) -> float:
        """Return the time of the session's clock, in seconds since 1970-01-01 UTC."""
        return self._journal.now_s()

    def listen(self, listener: Listener) -> None:
        """Tell ``listener`` of every event from now on, with the experiment that took it in.

        It is called while the session is locked: it shall return at once, and raise nothing.
        """
        self._journal.listen(listener)

    def deciding(self) -> AbstractContextManager[None]:
        """Look at the latest state and decide, with nobody else deciding in between."""
        return self._journal.deciding()

    @contextmanager
    def only_on(self, version: int) -> Iterator[None]:
        """Decide within the block only if the experiment is at the version that was looked at.

        Raises GoneOnError if somebody has decided something since.
        """
        with self._journal.deciding():
            commands.refuse_other_version(self.experiment, version)
            yield

    def take(self, events: Sequence[Event]) -> None:
        """Record what another session of this experiment has decided.

        Raises ExperimentError if it does not follow; nothing is stored then.
        """
        with self._journal.deciding():
            self.experiment.supposing(events)
            self._journal.record(*events)

    def catch_up(self) -> None:
        """Take in what others have recorded since: workers, or another process."""
        self._journal.catch_up()

    def events(self) -> tuple[Event, ...]:
        """Return the journal so far."""
        return self._journal.events()


def _as_initial(suggestion: Suggestion) -> Suggestion:
    return replace(suggestion, kind="initial")
