"""Sampler of Optuna that proposes what our strategies propose.

>>> from copperline import CopperlineSampler
>>> import optuna
>>> optuna.logging.set_verbosity(optuna.logging.ERROR)
>>> study = optuna.create_study(sampler=CopperlineSampler(seed=0))
>>> study.optimize(lambda trial: abs(trial.suggest_int("threads", 1, 8) - 5), n_trials=8)
>>> study.best_params
{'threads': 5}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from assistant.core.bounds import SEED
from assistant.core.errors import SettingsError
from assistant.integrations.optuna_space import PROPOSED, StudySpace, levels_of
from strategies import DEFAULT_STRATEGY, Knowledge, Level, Strategy, make_strategy

# isort: split
import optuna
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler
from optuna.samplers._base import _process_constraints_after_trial  # the way of third parties
from optuna.search_space import intersection_search_space
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState

FINISHED = (TrialState.COMPLETE, TrialState.PRUNED)
N_LEVELS = 21
REASON = "copperline:reason"
"""System attribute of a trial: why its values were proposed."""
TRIES = 5  # Proposals until no other worker has chosen the same at that moment
_LOGGER = optuna.logging.get_logger("optuna.copperline")  # shown as Optuna's own messages


class CopperlineSampler(BaseSampler):
    """Sampler for a finite space: parameters get levels (`optuna_space`), never run twice.

    The first trial has the strategy's first choice for each parameter alone. A parameter that not
    every trial has is drawn at random among its levels. A draw depends on the seed, the number of
    the trial and the trials so far, so several processes may share a study. A trial whose
    combination runs elsewhere gets another one.

    Args:
        seed: of all random choices, a whole number from 0 on; None draws one.
        strategy: name of a registered strategy.
        options: options of the strategy.
        levels: number of levels of a float without a step, and of a number with ``log=True``.
        constraints_func: as in Optuna: values of a finished trial, at most 0 where it is feasible.
        independent_sampler: samples what not every trial has, instead of the random draw.

    Raises:
        StrategyError: an unknown strategy or option.
        SettingsError: a seed or number of levels that is none.
    """

    def __init__(
        self,
        *,
        seed: int | None = None,
        strategy: str = DEFAULT_STRATEGY,
        options: Mapping[str, Level] | None = None,
        levels: int = N_LEVELS,
        constraints_func: Callable[[FrozenTrial], Sequence[float]] | None = None,
        independent_sampler: BaseSampler | None = None,
    ) -> None:
        if seed is not None:
            SEED.check("the seed", seed)
        if type(levels) is not int or levels < 2:
            raise SettingsError(f"levels={levels!r} is no whole number from 2 on")
        self.strategy, self.options = strategy, dict(options or {})
        self.levels = levels
        self._strategy: Strategy = make_strategy(strategy, **self.options)
        self._entropy = seed
        if seed is None:
            self._entropy = int(np.random.SeedSequence().generate_state(1)[0])
        self._constraints = constraints_func
        self._independent = independent_sampler
        self._explained: set[str] = set()

    def reseed_rng(self) -> None:
        """Reseed the independent sampler; ours draws by trial number and has no state."""
        if self._independent is not None:
            self._independent.reseed_rng()

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """Return the distributions that every finished trial has alike, pruned ones included.

        Before one is finished, they are those of the failed or running trial that has most.
        """
        trials = study.get_trials(deepcopy=False)
        found = intersection_search_space(trials, include_pruned=True)
        if not any(one.state in FINISHED for one in trials):
            others = (one.distributions for one in trials if one.number != trial.number)
            found = dict(sorted(max(others, key=len, default={}).items()))
        return {name: one for name, one in found.items() if not one.single()}

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Return the values of the strategy's next suggestion; random ones where all have been run.

        Raises ValueError for a study with several objectives.
        """
        self._raise_error_if_multi_objective(study)
        if not search_space:
            return {}
        space = StudySpace(search_space, self.levels)
        maximise = study.direction is StudyDirection.MAXIMIZE
        values: dict[str, Any] = {}
        for attempt in range(TRIES):
            others = [one for one in study.get_trials(deepcopy=False) if one.number != trial.number]
            knowledge = space.knowledge(others, maximise=maximise)
            if values and space.configuration(values) not in knowledge.taken:
                break
            rng = self._rng(trial.number, attempt)
            found = self._strategy.suggest(1 + 4 * attempt, knowledge, rng)
            if not found:
                self._say(
                    "every combination of levels has been run; trials from now on repeat some, "
                    "drawn at random",
                    "exhausted",
                )
                return self._drawn(trial.number, space)
            chosen = found[int(rng.integers(len(found)))]  # workers that met are to part
            values = space.values(chosen.configuration)
            self._note(study, trial, PROPOSED, space.internal(values))
            self._note(study, trial, REASON, chosen.reason)
        return values

    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """Return a value for a parameter that the search does not cover.

        Raises ValueError for a study with several objectives.
        """
        self._raise_error_if_multi_objective(study)
        trials = study.get_trials(deepcopy=False, states=FINISHED)
        if trials:
            how = "at random" if self._independent is None else "by the independent sampler"
            self._say(
                f"parameter '{param_name}' is drawn {how}, because not every finished trial has it "
                "with these bounds",
                param_name,
            )
        if self._independent is not None:
            return self._independent.sample_independent(
                study, trial, param_name, param_distribution
            )
        rng = self._rng(trial.number, *param_name.encode())
        if trials:
            levels = levels_of(param_distribution, self.levels)
            return levels[int(rng.integers(len(levels)))]
        space = StudySpace({param_name: param_distribution}, self.levels)
        first = self._strategy.suggest(1, Knowledge(space.space), rng)
        return space.values(first[0].configuration)[param_name]

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        """Tell the independent sampler, which may prepare itself."""
        if self._independent is not None:
            self._independent.before_trial(study, trial)

    def after_trial(
        self,
        study: Study,
        trial: FrozenTrial,
        state: TrialState,
        values: Sequence[float] | None,
    ) -> None:
        """Store the constraints of a finished trial."""
        if self._constraints is not None:
            _process_constraints_after_trial(self._constraints, study, trial, state)
        if self._independent is not None:
            self._independent.after_trial(study, trial, state, values)

    def _drawn(self, number: int, space: StudySpace) -> dict[str, Any]:
        rng = self._rng(number)
        return {n: levels[int(rng.integers(len(levels)))] for n, levels in space.levels.items()}

    def _rng(self, number: int, *more: int) -> np.random.Generator:
        return np.random.default_rng([self._entropy or 0, number, len(more), *more])

    def _note(self, study: Study, trial: FrozenTrial, key: str, value: Any) -> None:
        study._storage.set_trial_system_attr(trial._trial_id, key, value)

    def _say(self, sentence: str, once: str) -> None:
        if once not in self._explained:
            self._explained.add(once)
            _LOGGER.warning("CopperlineSampler: %s.", sentence)
