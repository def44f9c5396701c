"""How configurations stand: the runs of each, their mean outcome, and what is best of them.

A configuration that ran once stands by that run. One that was repeated stands by the mean of its
runs: the best single run of a noisy program is mostly a lucky one.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from assistant.objective import Measure
from assistant.run import Outcome, Run, RunState
from strategies import (
    Configuration,
    Failure,
    Knowledge,
    Observation,
    ParameterSpace,
    pareto_front,
    rank_key,
)
from strategies.noise import mean


@dataclass(frozen=True, slots=True)
class Standing:
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
        one = self.outcome
        return Observation(
            self.configuration, one.quality, one.feasible, one.violation, second=one.second
        )


def standings(runs: Iterable[Run]) -> Mapping[Configuration, Standing]:
    """Return how every configuration with a completed run stands, in the order of the runs."""
    grouped: dict[Configuration, list[Run]] = {}
    for run in runs:
        if run.outcome is not None:
            grouped.setdefault(run.configuration, []).append(run)
    return {configuration: standing_of(own) for configuration, own in grouped.items()}


def best_of(stand: Iterable[Standing]) -> Standing | None:
    """Return the best, the earlier one on a tie; None without any."""
    return max(stand, key=lambda one: one.rank, default=None)


def front_of(stand: Iterable[Standing]) -> tuple[Standing, ...]:
    """Return those that no other dominates in the two measures, by the first; see `pareto_front`.

    Empty without a second measure.
    """
    known = {one.configuration: one for one in stand if one.outcome.second is not None}
    front = pareto_front(one._observation for one in known.values())
    return tuple(known[observation.configuration] for observation in front)


def best_so_far(runs: Iterable[Run]) -> tuple[Standing, ...]:
    """Return, for each completed run in order of completion, what was best until then.

    It gets worse only where a replicate shows that the best was not as good as it looked.
    """
    ended = in_order_of_completion(runs)
    known: dict[Configuration, Standing] = {}
    best: list[Standing] = []
    for run in ended:
        earlier = known[run.configuration].runs if run.configuration in known else ()
        now = known[run.configuration] = standing_of([*earlier, run])
        if best and best[-1].configuration == run.configuration:
            leader = best_of(known.values()) or now  # its mean has moved, perhaps below another's
        else:
            leader = now if not best or now.rank > best[-1].rank else best[-1]
        best.append(leader)
    return tuple(best)


def observe(run: Run) -> Observation | None:
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
    known = tuple(runs)
    submitted = {run.configuration for run in known}
    open_or_not_wanted = (RunState.QUEUED, RunState.CANCELLED)
    queued = {run.configuration for run in known if run.state in open_or_not_wanted}
    return Knowledge(
        space=space,
        observations=tuple(seen for run in known if (seen := observe(run)) is not None),
        failures=tuple(
            Failure(run.configuration, run.failure) for run in known if run.failure is not None
        ),
        pending=frozenset(queued | (set(proposed) - submitted)),
        running=tuple(run.configuration for run in known if run.state is RunState.RUNNING),
    )


def standing_of(runs: Sequence[Run]) -> Standing:
    """Return how the configuration of these completed runs, at least one, stands."""
    outcomes = [run.outcome for run in runs if run.outcome is not None]
    return Standing(tuple(runs), outcomes[0] if len(outcomes) == 1 else _mean(outcomes))


def _mean(outcomes: Sequence[Outcome]) -> Outcome:
    """Return the mean of the outcomes of one configuration; feasible if all of them are."""
    violation = mean([one.violation for one in outcomes])
    seconds = [one.second for one in outcomes if one.second is not None]
    second_values = [one.second_value for one in outcomes if one.second_value is not None]
    return Outcome(
        measures={
            name: _mean_measure([one.measures.get(name) for one in outcomes])
            for name in outcomes[0].measures
        },
        value=mean([one.value for one in outcomes]),
        quality=mean([one.quality for one in outcomes]),
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
    if len(series) == len(values) and len({len(one) for one in series}) == 1:
        return tuple(mean(place) for place in zip(*series, strict=True))
    return None
