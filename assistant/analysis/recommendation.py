"""Recommendation of a configuration and its certainty; also the conditions that end a sweep.

Where results vary, the best of many runs is often a lucky one; see
`strategies.steering.confirmation`. Auto-steering therefore keeps the last runs to repeat the
winner and its rivals. Also the strategy that chooses the next suggestions, and the limits that end
a sweep.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from assistant.analysis.response_map import FEW
from assistant.core.bounds import BATCH
from assistant.core.errors import ExperimentError
from assistant.core.events import SpaceChanged
from assistant.core.experiment import Experiment
from assistant.core.run import Run, RunState
from assistant.core.sla import number_text
from assistant.core.submission import refuse_if_deterministic
from strategies import (
    Choice,
    Configuration,
    ExploitationStrategy,
    Knowledge,
    PreferenceStrategy,
    ScalarisedStrategy,
    Strategy,
    Suggestion,
    confirmations,
    make_strategy,
    strategy_entry,
)

KEPT_RUNS = 2  # Fewest runs that auto-steering keeps to confirm the winner of a noisy program

KEPT_FROM = 10  # ... if the budget has at least so many runs

KEPT_SHARE = 4  # It keeps one run in so many

MOST_KEPT = 15  # ... and at most so many


@dataclass(frozen=True, slots=True)
class Recommendation:
    """Recommended configuration by the first measure, its uncertainty, and rivals within the noise.

    Args:
        runs: its completed runs, oldest first.
        interval: 95 % interval of that mean, low and high; None where the noise is unknown.
        confirmed: whether it may be taken without further runs.
        rivals: first runs of the configurations that the noise does not separate from it.
    """

    runs: tuple[Run, ...]
    value: float
    interval: tuple[float, float] | None
    confirmed: bool
    rivals: tuple[Run, ...]
    sentence: str

    @property
    def run(self) -> Run:
        """The first completed run of the recommended configuration."""
        return self.runs[0]


def recommend(experiment: Experiment) -> Recommendation | None:
    """Return the recommended configuration; None while no feasible result is known."""
    choice = experiment.choice
    if choice is None:
        return None
    objective, summaries = experiment.opened.objective, experiment.summaries
    winner = summaries[choice.winner.configuration]
    interval = None
    if choice.interval is not None:
        low, high = sorted(objective.value_of(quality) for quality in choice.interval)
        interval = (low, high)
    return Recommendation(
        runs=winner.runs,
        value=winner.outcome.value,
        interval=interval,
        confirmed=choice.confirmed,
        rivals=tuple(summaries[rival.configuration].run for rival in choice.rivals),
        sentence=_sentence(experiment, choice),
    )


def confirming(experiment: Experiment, n: int) -> tuple[Suggestion, ...]:
    """Suggest up to ``n`` replicates (repeated runs) to confirm the recommended configuration.

    Raises:
        ExperimentError: there is nothing to confirm, results do not vary, or all configurations to
            repeat are closed or excluded by now.
        OptionError: ``n`` is no whole number of at least 1.
    """
    choice = experiment.choice
    if choice is None:
        why = (
            "no run has a result" if experiment.best is None else "no result meets every constraint"
        )
        raise ExperimentError(f"{why} yet, so there is no winner to confirm")
    refuse_if_deterministic(experiment)
    suggestions = confirmations(choice, n, experiment.space)
    if not suggestions:
        run = experiment.summaries[choice.winner.configuration].run
        raise ExperimentError(
            f"run {run.id} cannot be repeated: one of its levels is closed, or its combination is "
            "excluded; reopen the level"
        )
    return suggestions


def search_room(experiment: Experiment, limit: int | None, left: int | None) -> int | None:
    """Return how many of ``left`` runs may try new configurations; None if ``left`` is None.

    The others are kept for confirmation, if results vary and the budget (``limit``) is large
    enough.
    """
    if limit is None or left is None or limit < KEPT_FROM or not experiment.is_noisy:
        return left
    kept = kept_runs(limit)
    if left <= kept and not _can_confirm(experiment):
        return left  # nothing to confirm, so try something new
    return max(0, left - kept)


def kept_runs(limit: int) -> int:
    """Return how many of ``limit`` runs are kept to confirm the winner of a noisy program.

    ``python -m benchmarks.search --noise`` measures what they are worth.
    """
    return max(KEPT_RUNS, min(limit // KEPT_SHARE, MOST_KEPT))


def confirming_round(left: int) -> int:
    """Return how many of ``left`` runs the next round of confirmations has: half of those kept."""
    return (min(left, MOST_KEPT) + 1) // 2


def is_confirmation_due(experiment: Experiment, limit: int | None, left: int | None) -> bool:
    """Return whether the next runs should be replicates of the best configurations.

    Where every allowed configuration has a run, the rest of the budget may go to separating the
    winner from its rivals, until that is done or a repetition fails.
    """
    if limit is None or not left or not experiment.is_noisy:
        return False
    choice = experiment.choice
    if choice is None or not confirmations(choice, 1, experiment.space):
        return False
    exhausted = is_exhausted(experiment)
    if limit >= KEPT_FROM:
        if confirmed_last(experiment) < KEPT_RUNS:
            return True
        if left <= kept_runs(limit) and not exhausted:
            return True
    failed = any(run.source == "replicate" for run in experiment.runs_in(RunState.FAILED))
    return exhausted and choice.basis in ("repeated", "unknown") and not failed


def is_exhausted(experiment: Experiment) -> bool:
    """Return whether every allowed configuration has a run, and no level comes."""
    n_allowed = experiment.space.count_allowed()
    if n_allowed is None or n_allowed > experiment.n_configurations:
        return False  # saves going through all of them
    n_tried, _ = experiment.tried
    return n_tried == n_allowed and not refine_levels(experiment, now_s=0.0)


def refine_levels(experiment: Experiment, now_s: float) -> tuple[SpaceChanged, ...]:
    """Return the events that add levels to wide parameters near the best result, if it is time."""
    space = experiment.space
    if not space.is_wide or not experiment.steering.refine or experiment.best is None:
        return ()
    from strategies import refinement  # only where a parameter has a range to refine

    tried = {run.configuration for run in experiment.runs_in(RunState.COMPLETED, RunState.FAILED)}
    best, events = experiment.best.configuration, list[SpaceChanged]()
    for level in refinement(space, best, tried, experiment.remaining_runs):
        space = space.with_level(level.parameter, level.value)
        text = f"{level.parameter}={level.value} added {level.reason}"
        events.append(SpaceChanged(now_s, space, text, "refinement"))
    return tuple(events)


def confirmed_last(experiment: Experiment) -> int:
    """Return how many of the latest runs in a row are suggested replicates."""
    n = 0
    for run in reversed(experiment.runs):
        if run.source != "replicate" or run.batch is None:
            break
        n += 1
    return n


def _can_confirm(experiment: Experiment) -> bool:
    choice = experiment.choice
    return choice is not None and bool(confirmations(choice, 1, experiment.space))


def _sentence(experiment: Experiment, choice: Choice) -> str:
    winner = experiment.summaries[choice.winner.configuration]
    name, by = f"run {winner.run.id}", ""
    if experiment.opened.objective.second is not None:
        by = f"by {experiment.opened.objective.wrapper}, "
    n_others = len(choice.rivals)
    rivals_text = "one other" if n_others == 1 else f"{n_others} others"
    rivals = f"; the noise does not separate it from {rivals_text}" if n_others else ""
    times = "it ran once" if winner.n == 1 else f"it ran {winner.n} times"
    sure, unsure = "is recommended, and confirmed", "is recommended, but not confirmed"
    text = {
        "deterministic": "is confirmed: the same configuration gives the same result every time",
        "replicates": f"{sure}: {times}{_mean(experiment, choice)}{rivals}",
        "gap": f"{sure}: {times}, and its lead is larger than the noise of the replicates",
        "repeated": f"is recommended, and repeated, but not separated from {rivals_text}: {times}"
        f"{_mean(experiment, choice)}",
        "failed": f"{unsure}: {times}, and failed {_n_failed(experiment, winner.configuration)}",
        "unknown": f"{unsure}: {times}, and {_why(experiment)}{rivals}",
    }[choice.basis]
    text = f"{by}{name} {text}."
    best = experiment.best
    luck = ""
    if best is not None and best.configuration != winner.configuration:
        luck = f" Run {best.id} has a better result, but fewer runs."
    return f"{text[0].upper()}{text[1:]}{luck}"


def _mean(experiment: Experiment, choice: Choice) -> str:
    if choice.interval is None:
        return ""
    objective = experiment.opened.objective
    low, high = sorted(objective.value_of(quality) for quality in choice.interval)
    value = objective.value_of(choice.winner.mean)
    unit = f" {objective.unit}" if objective.unit else ""
    return f", mean {value:.4g}{unit} (95% between {low:.4g} and {high:.4g})"


def _why(experiment: Experiment) -> str:
    if experiment.is_noisy is None:
        return "it is unknown whether results vary from run to run; run it again"
    return "results vary from run to run; run it again"


def _n_failed(experiment: Experiment, configuration: Configuration) -> str:
    n = sum(run.state is RunState.FAILED for run in experiment.runs_of(configuration))
    return "once" if n == 1 else f"{n} times"


def is_overdue(experiment: Experiment, now_s: float) -> bool:
    """Return whether the deadline has passed; False without a deadline."""
    deadline_s = experiment.sla.deadline_s
    return deadline_s is not None and now_s >= deadline_s


def passed_limit(experiment: Experiment, now_s: float) -> str | None:
    """Return a message if the deadline has passed or the cost limit is used up, otherwise None."""
    if is_overdue(experiment, now_s):
        return "the deadline has passed"
    if experiment.sla.is_spent(experiment.cost):
        return f"the cost limit of {experiment.sla.cost_text} is used up"
    return None


def goal_text(experiment: Experiment) -> str:
    """Return the goal with its unit, as text."""
    return f"{number_text(experiment.sla.goal)} {experiment.opened.objective.unit}".rstrip()


def reached_goal(experiment: Experiment) -> str | None:
    """Return a message with the number of the run that reached the goal; None if no run did."""
    run = experiment.goal_run
    return (
        None if run is None else f"the goal of {goal_text(experiment)} is reached by run {run.id}"
    )


def goal_to_confirm(experiment: Experiment) -> Run | None:
    """Return the run that reached the goal if replicates must confirm it, otherwise None.

    Where results vary, the first of many runs to reach a goal is often a lucky one: its
    configuration runs `KEPT_RUNS` times more.
    """
    run = experiment.goal_run
    if run is None or not experiment.is_noisy or not experiment.space.is_allowed(run.configuration):
        return None
    n = len(experiment.runs_of(run.configuration))
    return run if n <= KEPT_RUNS else None


def current_strategy(experiment: Experiment) -> PredictedStrategy:
    """Return the search strategy of an experiment at its current exploitation level."""
    return strategy_at_exploitation(experiment, experiment.steering.exploitation)


def strategy_at_exploitation(
    experiment: Experiment, exploitation: float | None
) -> PredictedStrategy:
    """Return the search strategy for a share of runs inside regions (None: regions are unused).

    The weighing of two measures is innermost: regions, which the forecast counts and people read,
    stay those of the first measure. Preferred levels are outermost: like closed ones they also hold
    for suggestions inside regions.
    """
    steering, objective = experiment.steering, experiment.opened.objective
    strategy = make_strategy(steering.strategy, **steering.options)
    if objective.second is not None:
        labels = (str(objective.wrapper), str(objective.second.wrapper))
        strategy = ScalarisedStrategy(strategy, labels)
    if exploitation is not None:
        rule, weights = experiment.warning_policy.regions, steering.weights
        strategy = ExploitationStrategy(strategy, exploitation, rule, weights, objective.value_of)
    if experiment.space.preferred_part is not experiment.space:
        strategy = PreferenceStrategy(strategy)
    return PredictedStrategy(strategy, experiment)


@dataclass(frozen=True, slots=True)
class PredictedStrategy:
    """Strategy whose suggestions state the prediction that pages and terminal show.

    That is the expected value and interval of one run by `Experiment.measured_anova`; unknown
    before `FEW` results. The configurations are those of the base.
    """

    base: Strategy
    experiment: Experiment

    @property
    def name(self) -> str:
        """Name of the base."""
        return self.base.name

    def suggest(
        self, n: int, knowledge: Knowledge, rng: np.random.Generator
    ) -> tuple[Suggestion, ...]:
        """Propose ``n`` configurations as the base does."""
        return tuple(self._stated(s) for s in self.base.suggest(n, knowledge, rng))

    def _stated(self, suggestion: Suggestion) -> Suggestion:
        model = self.experiment.measured_anova
        if model is None or len(model.ids) < FEW:
            return replace(suggestion, expected=None, interval=None)
        prediction = model.predict(suggestion.configuration)
        return replace(suggestion, expected=prediction.value, interval=prediction.interval)


def batch_size(experiment: Experiment) -> int:
    """Return the number of suggestions per batch: the strategy's own, or one per worker if more."""
    entry = strategy_entry(experiment.steering.strategy)
    return min(max(entry.batch, experiment.opened.workers), int(BATCH.high))


def initial_strategy(experiment: Experiment) -> Strategy:
    """Return the strategy for the initial runs: the chosen one if it can start, else random."""
    if strategy_entry(experiment.steering.strategy).starts:
        return strategy_at_exploitation(experiment, None)
    strategy: Strategy = make_strategy("random")
    preferring = experiment.space.preferred_part is not experiment.space
    strategy = PreferenceStrategy(strategy) if preferring else strategy
    return PredictedStrategy(strategy, experiment)
