"""A run: one execution of the application with a configuration and a seed.

Its state follows from which facts are known and is never stored beside them.

How configurations stand: the runs of each, their mean outcome, and what is best of them.

Whether the agreed goal is reached, and by which run. Pure.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from assistant.core.objective import Measure, Objective
from strategies import (
    Configuration,
    Failure,
    Knowledge,
    Observation,
    ParameterSpace,
    pareto_front,
    rank_key,
)
from strategies.steering.confirmation import mean

Source = Literal["baseline", "initial", "suggested", "edited", "analyst", "imported", "replicate"]
"""Who wanted the run: today's configuration, the first jobs, the strategy, the person who changed
a suggestion, the person alone, a result from before, which costs nothing of the budget, or whoever
wanted a configuration that has a run already to run again."""


class RunState(StrEnum):
    """Where a run stands."""

    QUEUED = "queued"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


LONGEST_S = 3.2e13
"""A million years: no clock has measured more."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a completed run gave: raw measures, and what the objective made of them.

    ``second_value`` and ``second`` are by the second measure, None without one.
    """

    measures: Mapping[str, Measure]
    value: float
    quality: float
    feasible: bool
    violation: float
    second_value: float | None = None
    second: float | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """One run, as far as it has come. ``good`` is the analyst's verdict, None if she gave none.

    ``attempts`` says how often it was started: once, and again after each interruption; ``lost``
    how many of its workers were not heard of any more.
    ``priority`` and ``held`` say when it may start, ``cancelled`` why it shall not (any more).
    ``worker`` and ``token`` are of the attempt that goes on or was the last; both are empty where
    the session's own process executes. ``reported`` is what it has measured so far, and
    ``reported_s`` when it said so.
    ``stopped`` is None unless the analyst ended it early and kept what it had reported: then her
    reason, which may be empty.
    ``duration_s`` is None as well where what was told is no duration; see `measured_s`.
    """

    id: int
    configuration: Configuration
    source: Source
    seed: int
    reason: str
    batch: int | None
    submitted_s: float
    started_s: float | None = None
    ended_s: float | None = None
    duration_s: float | None = None
    outcome: Outcome | None = None
    failure: str | None = None
    good: bool | None = None
    attempts: int = 0
    lost: int = 0
    priority: float = 0.0
    held: bool = False
    cancelled: str | None = None
    worker: str = ""
    token: str = ""
    reported: Mapping[str, Measure] | None = None
    reported_s: float | None = None
    stopped: str | None = None

    @property
    def state(self) -> RunState:
        """Queued, running, completed, failed or cancelled, derived from the facts."""
        if self.cancelled is not None:
            return RunState.CANCELLED
        if self.outcome is not None:
            return RunState.COMPLETED
        if self.failure is not None:
            return RunState.FAILED
        return RunState.QUEUED if self.started_s is None else RunState.RUNNING

    @property
    def is_charged(self) -> bool:
        """Whether it counts against the budget: not a result from before, nor one never started."""
        never_ran = self.state is RunState.CANCELLED and self.attempts == 0
        return self.source != "imported" and not never_ran


def measured_s(seconds: float | None) -> float | None:
    """Return a duration, None where what is told cannot be one: below 0, no number, without end.

    >>> measured_s(2.5), measured_s(-1.0), measured_s(float("inf"))
    (2.5, None, None)
    """
    return seconds if seconds is not None and 0.0 <= seconds <= LONGEST_S else None


@dataclass(frozen=True, slots=True)
class ConfigurationSummary:
    """One configuration: its completed runs, oldest first, and the mean of their outcomes."""

    runs: tuple[Run, ...]
    outcome: Outcome

    @property
    def run(self) -> Run:
        """The first of the runs, which stands for the configuration."""
        return self.runs[0]

    @property
    def configuration(self) -> Configuration:
        """What was run."""
        return self.runs[0].configuration

    @property
    def n(self) -> int:
        """Completed runs of the configuration."""
        return len(self.runs)

    @property
    def rank(self) -> tuple[object, ...]:
        """Sortable, greater is better: feasible first, then quality or less violation."""
        return rank_key(self._observation)

    @property
    def _observation(self) -> Observation:
        outcome = self.outcome
        return Observation(
            self.configuration,
            outcome.quality,
            outcome.feasible,
            outcome.violation,
            second=outcome.second,
        )


def configuration_summaries(runs: Iterable[Run]) -> Mapping[Configuration, ConfigurationSummary]:
    """Return how every configuration with a completed run stands, in the order of the runs."""
    grouped: dict[Configuration, list[Run]] = {}
    for run in runs:
        if run.outcome is not None:
            grouped.setdefault(run.configuration, []).append(run)
    return {
        configuration: summarise_configuration(repeats)
        for configuration, repeats in grouped.items()
    }


def best_of(stand: Iterable[ConfigurationSummary]) -> ConfigurationSummary | None:
    """Return the best, the earlier one on a tie; None without any."""
    return max(stand, key=lambda summary: summary.rank, default=None)


def pareto_front_of(stand: Iterable[ConfigurationSummary]) -> tuple[ConfigurationSummary, ...]:
    """Return those that no other dominates in the two measures, by the first; see `pareto_front`.

    Empty without a second measure.
    """
    candidates = {
        summary.configuration: summary for summary in stand if summary.outcome.second is not None
    }
    front = pareto_front(summary._observation for summary in candidates.values())
    return tuple(candidates[observation.configuration] for observation in front)


def best_so_far(runs: Iterable[Run]) -> tuple[ConfigurationSummary, ...]:
    """Return, for each completed run in order of completion, what was best until then.

    It gets worse only where a replicate shows that the best was not as good as it looked.
    """
    ended = in_order_of_completion(runs)
    summaries: dict[Configuration, ConfigurationSummary] = {}
    best: list[ConfigurationSummary] = []
    for run in ended:
        earlier = summaries[run.configuration].runs if run.configuration in summaries else ()
        now = summaries[run.configuration] = summarise_configuration([*earlier, run])
        if best and best[-1].configuration == run.configuration:
            leader = (
                best_of(summaries.values()) or now
            )  # its mean has moved, perhaps below another's
        else:
            leader = now if not best or now.rank > best[-1].rank else best[-1]
        best.append(leader)
    return tuple(best)


def observation_of(run: Run) -> Observation | None:
    """Return a completed run as strategies see it; None if it has not completed."""
    if run.outcome is None:
        return None
    return Observation(
        configuration=run.configuration,
        quality=run.outcome.quality,
        feasible=run.outcome.feasible,
        violation=run.outcome.violation,
        measures={k: v for k, v in run.outcome.measures.items() if v is not None},
        duration_s=run.duration_s,
        seed=run.seed,
        good=run.good,
        second=run.outcome.second,
    )


def in_order_of_completion(runs: Iterable[Run]) -> list[Run]:
    """Return the completed runs, the one that ended first in front."""
    ended = (run for run in runs if run.outcome is not None)
    return sorted(ended, key=lambda run: (run.ended_s or 0.0, run.id))


def knowledge_of(
    space: ParameterSpace, runs: Iterable[Run], proposed: Iterable[Configuration]
) -> Knowledge:
    """Return what a strategy may know: completed, failed, running, waiting and proposed."""
    all_runs = tuple(runs)
    submitted = {run.configuration for run in all_runs}
    open_or_not_wanted = (RunState.QUEUED, RunState.CANCELLED)
    queued = {run.configuration for run in all_runs if run.state in open_or_not_wanted}
    return Knowledge(
        space=space,
        observations=tuple(
            observation for run in all_runs if (observation := observation_of(run)) is not None
        ),
        failures=tuple(
            Failure(run.configuration, run.failure) for run in all_runs if run.failure is not None
        ),
        pending=frozenset(queued | (set(proposed) - submitted)),
        running=tuple(run.configuration for run in all_runs if run.state is RunState.RUNNING),
    )


def summarise_configuration(runs: Sequence[Run]) -> ConfigurationSummary:
    """Return how the configuration of these completed runs, at least one, stands."""
    outcomes = [run.outcome for run in runs if run.outcome is not None]
    return ConfigurationSummary(tuple(runs), outcomes[0] if len(outcomes) == 1 else _mean(outcomes))


def _mean(outcomes: Sequence[Outcome]) -> Outcome:
    """Return the mean of the outcomes of one configuration; feasible if all of them are."""
    violation = mean([outcome.violation for outcome in outcomes])
    seconds = [outcome.second for outcome in outcomes if outcome.second is not None]
    second_values = [
        outcome.second_value for outcome in outcomes if outcome.second_value is not None
    ]
    return Outcome(
        measures={
            name: _mean_measure([outcome.measures.get(name) for outcome in outcomes])
            for name in outcomes[0].measures
        },
        value=mean([outcome.value for outcome in outcomes]),
        quality=mean([outcome.quality for outcome in outcomes]),
        feasible=violation == 0.0,
        violation=violation,
        second_value=mean(second_values) if len(second_values) == len(outcomes) else None,
        second=mean(seconds) if len(seconds) == len(outcomes) else None,
    )


def _mean_measure(values: Sequence[Measure]) -> Measure:
    """Return the mean of a number, place by place of a series; unknown if any of them is."""
    numbers = [value for value in values if isinstance(value, int | float)]
    if len(numbers) == len(values):
        return mean(numbers)
    series = [value for value in values if isinstance(value, tuple)]
    if len(series) == len(values) and len({len(points) for points in series}) == 1:
        return tuple(mean(place) for place in zip(*series, strict=True))
    return None


def reaches(outcome: Outcome, objective: Objective, goal: float) -> bool:
    """Return whether an outcome meets every constraint and is as good as the goal, or better."""
    value = outcome.value
    is_good = value <= goal if objective.goal == "minimise" else value >= goal
    return outcome.feasible and is_good


def first_to_reach(runs: Iterable[Run], objective: Objective, goal: float) -> Run | None:
    """Return the run by which the goal was reached first, in order of completion.

    It is the earliest run with which the mean of its configuration was as good as the goal, of the
    configurations whose mean still is; None if there is none.
    """
    ended = in_order_of_completion(runs)
    grouped: dict[Configuration, list[Run]] = {}
    first: dict[Configuration, Run] = {}
    for run in ended:
        repeats = grouped.setdefault(run.configuration, [])
        repeats.append(run)
        if reaches(summarise_configuration(repeats).outcome, objective, goal):
            first.setdefault(run.configuration, run)
    reaching_runs = [
        run
        for configuration, run in first.items()
        if reaches(summarise_configuration(grouped[configuration]).outcome, objective, goal)
    ]
    return reaching_runs[0] if reaching_runs else None
