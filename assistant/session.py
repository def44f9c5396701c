"""The session: figure 3 of the Copper paper, wired to a store, an executor and a clock.

It decides nothing about configurations (strategies do) and holds no state of its own (the
experiment does): each call makes events, stores them, then applies them. What a person does in
the UI, an agent in a script and a client elsewhere is the same call here.

The paper's names: ``initial_evaluation`` is initialEvaluation(), ``submit`` is submitJobs(),
``suggest`` is jobSuggestion(), ``include`` is includeUserJobs(); updateModel() happens by itself,
since the design model is a function of what has been observed.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal
from uuid import uuid4

import numpy as np

from assistant.errors import ExperimentError, ObjectiveError
from assistant.events import (
    BatchSuggested,
    Event,
    ExperimentFinished,
    ExperimentOpened,
    RunCompleted,
    RunFailed,
    RunReturned,
    RunStarted,
    RunSubmitted,
)
from assistant.experiment import Experiment
from assistant.objective import Objective
from assistant.ports import Application, Clock, Completion, Executor, Store, SystemClock, Work
from assistant.run import Outcome, Run, RunState, Source
from assistant.sla import Sla
from strategies import (
    Configuration,
    Level,
    ParameterSpace,
    Strategy,
    Suggestion,
    is_exhausted,
    make_strategy,
)

Purpose = Literal["suggest", "run"]
_PURPOSES: dict[Purpose, int] = {"suggest": 1, "run": 2}


def stream(seed: int, purpose: Purpose, number: int) -> np.random.SeedSequence:
    """Return the named random stream of one batch or one run, the same in every replay."""
    return np.random.SeedSequence(seed, spawn_key=(_PURPOSES[purpose], number))


class Session:
    """One experiment being steered. Made by `open_session` and `load_session`."""

    def __init__(self, experiment: Experiment, store: Store, clock: Clock) -> None:
        self.experiment = experiment
        self._store = store
        self._clock = clock

    @property
    def id(self) -> str:
        """The experiment's identifier in the store."""
        return self.experiment.opened.experiment_id

    @property
    def remaining_runs(self) -> int | None:
        """Runs that may still be submitted; None without a limit."""
        return self.experiment.remaining_runs

    @property
    def is_exhausted(self) -> bool:
        """Whether every allowed configuration has been proposed or run."""
        return is_exhausted(self.experiment.knowledge)

    def initial_evaluation(self, n: int) -> BatchSuggested:
        """Propose the first runs at random; `include` is for choosing them oneself."""
        return self._suggest(make_strategy("random"), n, initial=True)

    def suggest(self, n: int) -> BatchSuggested:
        """Propose up to ``n`` configurations by the experiment's strategy.

        The batch is shorter than ``n``, and says ``exhausted``, only if the space has no more.

        Raises:
            ExperimentError: the experiment is finished, or ``n`` is below 1.
        """
        opened = self.experiment.opened
        return self._suggest(make_strategy(opened.strategy, **opened.options), n)

    def _suggest(self, strategy: Strategy, n: int, *, initial: bool = False) -> BatchSuggested:
        self._refuse_if_finished()
        if n < 1:
            raise ExperimentError(f"a batch has at least 1 suggestion, not {n}")
        number = len(self.experiment.batches) + 1
        rng = np.random.default_rng(stream(self.experiment.opened.seed, "suggest", number))
        suggestions = strategy.suggest(n, self.experiment.knowledge, rng)
        if initial:
            suggestions = tuple(_as_initial(suggestion) for suggestion in suggestions)
        batch = BatchSuggested(
            self._clock.now_s(), number, suggestions, exhausted=len(suggestions) < n
        )
        self._record(batch)
        return batch

    def submit(self, batch: BatchSuggested, keep: Iterable[int] | None = None) -> tuple[Run, ...]:
        """Submit a batch, or only the suggestions at the positions ``keep`` (from 0).

        Raises:
            ExperimentError: a position that the batch does not have, a configuration that was
                submitted before, or more runs than the budget leaves. Nothing is submitted then.
        """
        positions = range(len(batch.suggestions)) if keep is None else sorted(set(keep))
        for position in positions:
            if not 0 <= position < len(batch.suggestions):
                raise ExperimentError(
                    f"batch {batch.number} has no suggestion at position {position}; "
                    f"it has {len(batch.suggestions)}, counted from 0"
                )
        chosen = [batch.suggestions[position] for position in positions]
        return self._submit(
            [
                (s.configuration, "initial" if s.kind == "initial" else "suggested", s.reason)
                for s in chosen
            ],
            batch.number,
        )

    def include(self, values: Mapping[str, Level], reason: str = "") -> Run:
        """Submit a configuration of the analyst's own.

        Raises:
            SpaceError: a value outside the space, or an excluded combination.
            ExperimentError: it was submitted before, or the budget is used up.
        """
        space = self.experiment.opened.space
        configuration = space.from_values(values)
        space.check(configuration)
        return self._submit([(configuration, "analyst", reason or "the analyst's own")], None)[0]

    def submit_baseline(self) -> Run | None:
        """Submit today's configuration, so that there is something to compare with.

        Returns None if the application has no today, and the existing run if there is one.
        """
        today = self.experiment.opened.baseline
        if today is None:
            return None
        known = self.experiment.baseline
        return known or self._submit([(today, "baseline", "today's configuration")], None)[0]

    def _submit(
        self, wanted: Sequence[tuple[Configuration, Source, str]], batch: int | None
    ) -> tuple[Run, ...]:
        self._refuse_if_finished()
        experiment = self.experiment
        remaining = experiment.remaining_runs
        if remaining is not None and len(wanted) > remaining:
            raise ExperimentError(
                f"the budget of {experiment.opened.sla.max_runs} runs leaves {remaining}, "
                f"and {len(wanted)} were submitted; submit fewer"
            )
        known = {run.configuration: run.id for run in experiment.runs}
        next_id = len(experiment.runs) + 1
        events = []
        for run_id, (configuration, source, reason) in enumerate(wanted, next_id):
            if configuration in known:
                values = _values_text(experiment.opened.space.values(configuration))
                raise ExperimentError(
                    f"{values} is run {known[configuration]} already; choose another configuration"
                )
            known[configuration] = run_id
            sequence = stream(experiment.opened.seed, "run", run_id)
            seed = int(sequence.generate_state(1, np.uint32)[0])
            events.append(
                RunSubmitted(
                    self._clock.now_s(), run_id, configuration, source, seed, reason, batch
                )
            )
        self._record(*events)
        return tuple(experiment.run(event.run_id) for event in events)

    def run_queued(
        self, executor: Executor, on_change: Callable[[Run], None] | None = None
    ) -> None:
        """Execute everything that waits, oldest first, recording each result as it comes.

        Interrupting it loses no result: what is under way goes back to the queue.

        Args:
            executor: where the runs execute.
            on_change: told of each run that started or ended.
        """
        tell = on_change or (lambda _run: None)
        under_way: set[int] = set()
        try:
            while True:
                for run in self.experiment.runs_in(RunState.QUEUED):
                    if len(under_way) >= executor.capacity:
                        break
                    self._record(RunStarted(self._clock.now_s(), run.id))
                    under_way.add(run.id)
                    executor.submit(self._work(run))
                    tell(self.experiment.run(run.id))
                if not under_way:
                    return
                for completion in executor.collect():
                    self._record(self._judge(completion))
                    under_way.discard(completion.run_id)
                    tell(self.experiment.run(completion.run_id))
        except BaseException:
            executor.cancel()
            self._record(*(RunReturned(self._clock.now_s(), run_id) for run_id in under_way))
            raise

    def _work(self, run: Run) -> Work:
        return Work(run.id, self.experiment.opened.space.values(run.configuration), run.seed)

    def _judge(self, completion: Completion) -> RunCompleted | RunFailed:
        now_s = self._clock.now_s()
        failure = completion.failure
        if completion.measures is not None and failure is None:
            try:
                assessment = self.experiment.opened.objective.assess(completion.measures)
            except ObjectiveError as error:
                failure = str(error)
            else:
                outcome = Outcome(
                    completion.measures,
                    assessment.value,
                    assessment.quality,
                    assessment.feasible,
                    assessment.violation,
                )
                return RunCompleted(now_s, completion.run_id, outcome, completion.duration_s)
        return RunFailed(
            now_s, completion.run_id, failure or "the run gave no measures", completion.duration_s
        )

    def finish(self, reason: str) -> None:
        """Close the experiment: the analyst is satisfied, or nothing is left to spend or try."""
        self._refuse_if_finished()
        self._record(ExperimentFinished(self._clock.now_s(), reason))

    def _refuse_if_finished(self) -> None:
        if self.experiment.finished is not None:
            raise ExperimentError(
                f"experiment '{self.id}' is finished ({self.experiment.finished.reason}); "
                "open a new one"
            )

    def _record(self, *events: Event) -> None:
        """Store, then apply: what is applied has been stored."""
        if not events:
            return
        self._store.append(self.id, self.experiment.n_events, events)
        for event in events:
            self.experiment.apply(event)


def open_session(
    application: Application,
    *,
    store: Store,
    name: str = "",
    space: ParameterSpace | None = None,
    objective: Objective | None = None,
    sla: Sla | None = None,
    strategy: str = "grasp",
    options: Mapping[str, Level] | None = None,
    seed: int = 0,
    clock: Clock | None = None,
    experiment_id: str | None = None,
    version: str = "",
) -> Session:
    """Open a new experiment on an application.

    Args:
        application: what is run, with its space and today's configuration.
        store: keeps the journal.
        name: for people; the application's name if empty.
        space: what may be proposed; the application's own if None.
        objective: what is wanted; the application's own if None.
        sla: the budget; no limit if None.
        strategy: a registered strategy's name, with its ``options``.
        options: of the strategy; its defaults if None.
        seed: of every random stream of the experiment.
        clock: the system's if None.
        experiment_id: chosen by the caller, or made from the name.
        version: of the program, for the record.

    Raises:
        StrategyError: an unknown strategy or option, or a baseline outside the space.
        StoreError: the identifier is taken, or the store cannot be written.
    """
    clock = clock or SystemClock()
    options = dict(options or {})
    make_strategy(strategy, **options)  # refuse a wrong one before anything is stored
    today = application.baseline
    space = space or application.space
    baseline = None if today is None else space.from_values(today)
    if baseline is not None:
        space.check(baseline)
    name = name or application.name
    opened = ExperimentOpened(
        at_s=clock.now_s(),
        experiment_id=experiment_id or f"{_slug(name)}-{uuid4().hex[:8]}",
        name=name,
        application=application.name,
        facts=application.facts,
        space=space,
        objective=objective or application.objective,
        sla=sla or Sla(),
        strategy=strategy,
        options=options,
        seed=seed,
        baseline=baseline,
        version=version,
    )
    store.append(opened.experiment_id, 0, [opened])
    return Session(Experiment(opened), store, clock)


def load_session(store: Store, experiment_id: str, *, clock: Clock | None = None) -> Session:
    """Return the session of a stored experiment: the fold over its journal.

    Raises:
        StoreError: no such experiment, or the store cannot be read.
    """
    experiment = Experiment.replay(store.load(experiment_id))
    return Session(experiment, store, clock or SystemClock())


def _as_initial(suggestion: Suggestion) -> Suggestion:
    return Suggestion(
        configuration=suggestion.configuration,
        strategy=suggestion.strategy,
        reason="one of the first runs, chosen at random",
        kind="initial",
    )


def _values_text(values: Mapping[str, Level]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "experiment"
