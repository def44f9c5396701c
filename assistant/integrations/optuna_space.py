"""Levels of Optuna's distributions, and a study's trials as what strategies know.

An experiment has a finite space, a distribution may be continuous. The rule:

* categories are levels; numbers are ordered, all else is not;
* of whole numbers and of floats with a step every value is a level, up to `MOST_VALUES`, else as
  many evenly spaced ones;
* a float without a step, and any number with ``log=True``, has ``n_levels`` levels from low to
  high, evenly spaced (in logarithms, with ``log=True``).

A value between two levels, such as one that somebody enqueued, counts as the nearest level.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from strategies import (
    Configuration,
    Failure,
    Knowledge,
    Level,
    Observation,
    Parameter,
    ParameterSpace,
    SpaceError,
)
from strategies.data.learning_sample import LearningSample
from strategies.data.observation import LIMIT, rank_key
from strategies.space.parameter import is_name

try:
    from optuna.distributions import (
        BaseDistribution,
        CategoricalDistribution,
        FloatDistribution,
        IntDistribution,
    )
    from optuna.trial import FrozenTrial, TrialState
except ModuleNotFoundError as error:
    raise ImportError(
        "this needs the package optuna; install it with pip install 'copperline[optuna]'"
    ) from error

MOST_VALUES = 100
PROPOSED = "copperline:proposed"
"""System attribute of a trial: internal values of the proposal, for other workers to see."""


def levels_of(distribution: BaseDistribution, n_levels: int) -> tuple[Any, ...]:
    """Return the levels of a distribution as Optuna's values, ascending where they are numbers.

    Raises ValueError for a distribution of another kind than Optuna's three.
    """
    if isinstance(distribution, CategoricalDistribution):
        return tuple(distribution.choices)
    if not isinstance(distribution, FloatDistribution | IntDistribution):
        raise ValueError(f"{distribution} has no levels; use a category, an int or a float")
    low, high, step = distribution.low, distribution.high, distribution.step
    is_whole = isinstance(distribution, IntDistribution)
    if distribution.log or step is None:
        numbers = _spread(low, high, n_levels, distribution.log)
        return tuple(sorted({round(x) if is_whole else x for x in numbers}))
    n = round((high - low) / step) + 1
    positions = range(n)
    if n > MOST_VALUES:
        positions = sorted({round(x) for x in _spread(0, n - 1, MOST_VALUES, False)})  # type: ignore[assignment]
    if is_whole:
        return tuple(int(low + i * step) for i in positions)
    return tuple(min(float(f"{low + i * step:.12g}"), high) for i in positions)


def _spread(low: float, high: float, count: int, is_log: bool) -> list[float]:
    if low == high:
        return [low]
    shares = [i / (count - 1) for i in range(1, count - 1)]
    if is_log:
        inner = [math.exp(math.log(low) + share * math.log(high / low)) for share in shares]
    else:
        inner = [low + share * (high - low) for share in shares]
    return [low, *(min(max(float(f"{x:.6g}"), low), high) for x in inner), high]


@dataclass(frozen=True)
class StudySpace:
    """Parameter space of distributions by name.

    Args:
        distributions: by the name of the parameter in Optuna.
        n_levels: levels of a parameter that is continuous or logarithmic.
    Raises `SpaceError` for more levels than a space may have.

    Not slotted: the space is cached.
    """

    distributions: Mapping[str, BaseDistribution]
    n_levels: int

    @cached_property
    def levels(self) -> dict[str, tuple[Any, ...]]:
        """Levels of each parameter, as Optuna's values."""
        return {name: levels_of(one, self.n_levels) for name, one in self.distributions.items()}

    @cached_property
    def names(self) -> dict[str, str]:
        """Name in the space by the name in Optuna, which differs where a space has none such."""
        names: dict[str, str] = {}
        for name in self.distributions:
            plain = name if is_name(name) else re.sub(r"\W", "_", name, flags=re.ASCII)
            if not is_name(plain):
                plain = f"p_{plain}"
            while plain in names.values():
                plain += "_"
            names[name] = plain
        return names

    @cached_property
    def space(self) -> ParameterSpace:
        """The parameter space; levels have the positions that they have in `levels`."""
        return ParameterSpace(
            tuple(_parameter(self.names[name], levels) for name, levels in self.levels.items())
        )

    def values(self, configuration: Configuration) -> dict[str, Any]:
        """Return a configuration as Optuna's values by name."""
        ids = zip(self.levels.items(), configuration.level_ids, strict=True)
        return {name: levels[i] for (name, levels), i in ids}

    def configuration(self, params: Mapping[str, Any]) -> Configuration:
        """Return the configuration of the nearest levels; ``params`` has every name."""
        ids = (
            _nearest(distribution, self.levels[name], params[name])
            for name, distribution in self.distributions.items()
        )
        return Configuration(tuple(ids), self.space.lineage)

    def internal(self, params: Mapping[str, Any]) -> dict[str, float]:
        """Return Optuna's values as the numbers that its storages hold."""
        return {n: one.to_internal_repr(params[n]) for n, one in self.distributions.items()}

    def of_trial(self, trial: FrozenTrial) -> Configuration | None:
        """Return the configuration of a trial, or None while it lacks one of the parameters.

        Of a running trial, what was proposed stands for what it has not asked for yet.
        """
        params = dict(trial.params)
        if trial.state is TrialState.RUNNING:
            proposed = trial.system_attrs.get(PROPOSED, {})
            external = {
                name: one.to_external_repr(proposed[name])
                for name, one in self.distributions.items()
                if name in proposed
            }
            params = {**external, **params}
        elif trial.state is TrialState.WAITING:
            params = dict(trial.system_attrs.get("fixed_params", {}))
        try:
            return self.configuration(params)
        except (KeyError, TypeError, ValueError):  # not there, or a value of other bounds
            return None

    def knowledge(self, trials: Iterable[FrozenTrial], *, maximise: bool) -> Knowledge:
        """Return what strategies know of the trials.

        A completed trial is an observation, a failed one (or one without a finite value) a
        failure. A pruned trial was given up because it was bad: it counts like the worst completed
        one, and as a failure while none is completed. A running or waiting trial is under way.
        """
        observations: list[Observation] = []
        pruned: list[tuple[Configuration, float]] = []
        failures: list[Failure] = []
        open_: dict[TrialState, list[Configuration]] = {
            TrialState.RUNNING: [],
            TrialState.WAITING: [],
        }
        for trial in trials:
            configuration = self.of_trial(trial)
            if configuration is None:
                continue
            if trial.state in open_:
                open_[trial.state].append(configuration)
            elif trial.state is TrialState.PRUNED:
                pruned.append((configuration, violation_of(trial)))
            elif trial.state is TrialState.COMPLETE and abs(trial.values[0]) <= LIMIT:
                quality = trial.values[0] if maximise else -trial.values[0]
                violation = violation_of(trial)
                observations.append(Observation(configuration, quality, violation == 0, violation))
            else:
                failures.append(Failure(configuration, failure_of(trial)))
        worst = min(observations, key=rank_key, default=None)
        for configuration, violation in pruned:
            if worst is None:
                failures.append(Failure(configuration, "pruned"))
            else:
                total = max(violation, worst.violation)
                observations.append(Observation(configuration, worst.quality, total == 0, total))
        sample = LearningSample.of(observations, failures)
        return Knowledge(
            self.space,
            sample.observations,
            sample.failures,
            frozenset(open_[TrialState.WAITING]),
            tuple(open_[TrialState.RUNNING]),
            sample.left_out,
            sample.n_left_out,
        )


def violation_of(trial: FrozenTrial) -> float:
    """Return the sum of the violated constraints of a trial; Optuna allows at most 0 of each."""
    return float(min(sum(max(0.0, bound) for bound in trial.constraints.values()), LIMIT))


def failure_of(trial: FrozenTrial) -> str:
    """Return why a trial has no result, in words."""
    if trial.state is TrialState.COMPLETE:
        return f"the value {trial.values[0]} is not finite"
    return str(trial.system_attrs.get("fail_reason") or "failed in Optuna")


def _parameter(name: str, levels: Sequence[Any]) -> Parameter:
    try:
        return Parameter(name, tuple(levels))
    except SpaceError:  # None, mixed kinds, texts with spaces at their ends ...
        texts: tuple[Level, ...] = tuple(f"{i}: {level!r}" for i, level in enumerate(levels))
        return Parameter(name, texts)


def _nearest(distribution: BaseDistribution, levels: Sequence[Any], value: Any) -> int:
    internal = distribution.to_internal_repr(value)
    if isinstance(distribution, CategoricalDistribution):
        return int(internal)
    if isinstance(distribution, FloatDistribution | IntDistribution) and distribution.log:
        return min(range(len(levels)), key=lambda i: abs(math.log(levels[i] / internal)))
    return min(range(len(levels)), key=lambda i: abs(levels[i] - internal))
