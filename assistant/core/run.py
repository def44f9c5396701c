"""Run: one execution of the application with a configuration and a seed.

The state of a run follows from its facts and is never stored beside them. Also the summary of a
configuration's runs, the best of the summaries, and the run that reached the goal.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

import numpy as np

from assistant.core.early_stopping import StopRule
from assistant.core.objective import Measure, Objective
from strategies import (
    Configuration,
    Observation,
    pareto_front,
    rank_key,
)
from strategies.steering.confirmation import mean

Source = Literal["baseline", "initial", "suggested", "edited", "analyst", "imported", "replicate"]
"""Origin of a run: the baseline, the initial runs, the strategy, an edited suggestion, the analyst,
an imported result (free of charge), or a replicate of a configuration that has a run."""


class RunState(StrEnum):
    """State of a run, such as queued, running or completed."""

    QUEUED = "queued"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


EXCERPT_BYTES = 64 * 1024
"""Bytes that are kept of the head of an output stream, and again of its tail."""


@dataclass(frozen=True, slots=True)
class RunOutput:
    """What the program of a run printed: of a long stream the head and the tail."""

    stdout: str = ""
    stderr: str = ""


_PURPOSES = {"suggest": 1, "run": 2, "advise": 3, "forecast": 4}


def random_stream(seed: int, purpose: str, number: int) -> np.random.SeedSequence:
    """Return the seed sequence of one batch, run, warning or forecast, equal in every replay."""
    return np.random.SeedSequence(seed, spawn_key=(_PURPOSES[purpose], number))


LONGEST_S = 3.2e13  # Longest duration that is accepted, in seconds (a million years)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Assessed measures of a completed run: value, quality and constraint violation."""

    measures: Mapping[str, Measure]
    value: float
    quality: float
    feasible: bool
    violation: float
    second_value: float | None = None
    second: float | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """Record of one run: its configuration, origin, times and result so far.

    ``good`` is the analyst's rating, None without one. ``attempts`` counts its starts, ``lost`` the
    workers that stopped responding. ``worker`` and ``token`` belong to the latest attempt; both are
    empty where the session's own process executes. ``reported`` is the latest intermediate result,
    at ``reported_s``. ``cancelled`` and ``stopped`` are reasons, maybe empty; None if it was not.
    ``stopped_by`` is the rule of early stopping that ended it, None if the analyst did.
    ``duration_s`` is None where the reported number is no duration; see `measured_s`. ``position``
    is the place of its suggestion in the batch, from 0; None if unknown.
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
    stopped_by: StopRule | None = None
    position: int | None = None

    @property
    def state(self) -> RunState:
        """State of the run, derived from its recorded times and result."""
        if self.cancelled is not None:
            return RunState.CANCELLED
        if self.outcome is not None:
            return RunState.COMPLETED
        if self.failure is not None:
            return RunState.FAILED
        return RunState.QUEUED if self.started_s is None else RunState.RUNNING

    @property
    def is_charged(self) -> bool:
        """Whether the run counts against the budget: not if imported, or cancelled before start."""
        never_ran = self.state is RunState.CANCELLED and self.attempts == 0
        return self.source != "imported" and not never_ran


def measured_s(seconds: float | None) -> float | None:
    """Return a duration in seconds, or None if it is negative, NaN or too long.

    >>> measured_s(2.5), measured_s(-1.0), measured_s(float("inf"))
    (2.5, None, None)
    """
    return seconds if seconds is not None and 0.0 <= seconds <= LONGEST_S else None


@dataclass(frozen=True, slots=True)
class ConfigurationSummary:
    """Completed runs of one configuration, oldest first, and their mean outcome."""

    runs: tuple[Run, ...]
    outcome: Outcome

    @property
    def run(self) -> Run:
        """The first completed run of the configuration."""
        return self.runs[0]

    @property
    def configuration(self) -> Configuration:
        """The configuration that all the runs share."""
        return self.runs[0].configuration

    @property
    def n(self) -> int:
        """Number of completed runs of the configuration."""
        return len(self.runs)

    @property
    def rank(self) -> tuple[object, ...]:
        """Sort key of summaries (greater is better), with feasible ones first."""
        return rank_key(self.outcome)

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
    """Return the summary of each configuration with a completed run, in run order."""
    grouped: dict[Configuration, list[Run]] = {}
    for run in runs:
        if run.outcome is not None:
            grouped.setdefault(run.configuration, []).append(run)
    return {
        configuration: summarise_configuration(repeats)
        for configuration, repeats in grouped.items()
    }


def best_of(stand: Iterable[ConfigurationSummary]) -> ConfigurationSummary | None:
    """Return the best configuration summary, the earlier one on a tie; None if there is none."""
    return max(stand, key=lambda summary: summary.rank, default=None)


def pareto_front_of(stand: Iterable[ConfigurationSummary]) -> tuple[ConfigurationSummary, ...]:
    """Return the summaries on the Pareto front of two objectives; empty if there is only one."""
    candidates = {
        summary.configuration: summary for summary in stand if summary.outcome.second is not None
    }
    front = pareto_front(summary._observation for summary in candidates.values())
    return tuple(candidates[observation.configuration] for observation in front)


def best_so_far(runs: Iterable[Run]) -> tuple[ConfigurationSummary, ...]:
    """Return the best configuration summary after each completed run."""
    ended = in_order_of_completion(runs)
    summaries: dict[Configuration, ConfigurationSummary] = {}
    best: list[ConfigurationSummary] = []
    for run in ended:
        earlier = summaries[run.configuration].runs if run.configuration in summaries else ()
        now = summaries[run.configuration] = summarise_configuration([*earlier, run])
        if best and best[-1].configuration == run.configuration:
            leader = best_of(summaries.values()) or now  # its mean has moved, maybe below another's
        else:
            leader = now if not best or now.rank > best[-1].rank else best[-1]
        best.append(leader)
    return tuple(best)


def observation_of(run: Run) -> Observation | None:
    """Return a completed run as an observation for strategies; None if it has not completed."""
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
    """Return the completed runs sorted by end time."""
    ended = (run for run in runs if run.outcome is not None)
    return sorted(ended, key=lambda run: (run.ended_s or 0.0, run.id))


def summarise_configuration(runs: Sequence[Run]) -> ConfigurationSummary:
    """Return the summary of one configuration from its completed runs (at least one)."""
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
    """Return the mean of a number or, element by element, of a series; None if any is unknown."""
    numbers = [value for value in values if isinstance(value, int | float)]
    if len(numbers) == len(values):
        return mean(numbers)
    series = [value for value in values if isinstance(value, tuple)]
    if len(series) == len(values) and len({len(points) for points in series}) == 1:
        return tuple(mean(place) for place in zip(*series, strict=True))
    return None


def reaches(outcome: Outcome, objective: Objective, goal: float) -> bool:
    """Return whether an outcome is feasible and at least as good as the goal."""
    value = outcome.value
    is_good = value <= goal if objective.goal == "minimise" else value >= goal
    return outcome.feasible and is_good


def first_to_reach(runs: Iterable[Run], objective: Objective, goal: float) -> Run | None:
    """Return the run that reached the goal first, in order of completion; None if none did.

    It is the earliest run at which the mean of its configuration reached the goal, among the
    configurations whose mean still does.
    """
    grouped: dict[Configuration, list[Run]] = {}
    for run in runs:
        if run.outcome is not None:
            grouped.setdefault(run.configuration, []).append(run)
    reaching_runs = [
        first
        for repeats in grouped.values()
        if (first := _first_of(repeats, objective, goal)) is not None
    ]
    return next(iter(in_order_of_completion(reaching_runs)), None)


def _first_of(repeats: Sequence[Run], objective: Objective, goal: float) -> Run | None:
    """Return the run at which the mean of one configuration reached the goal, if it still does."""
    if len(repeats) == 1:
        outcome = repeats[0].outcome
        return repeats[0] if outcome is not None and reaches(outcome, objective, goal) else None
    ended = in_order_of_completion(repeats)
    if not reaches(summarise_configuration(ended).outcome, objective, goal):
        return None
    so_far = (ended[:n] for n in range(1, len(ended) + 1))
    return next(
        part[-1]
        for part in so_far
        if reaches(summarise_configuration(part).outcome, objective, goal)
    )
