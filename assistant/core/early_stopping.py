"""Early stopping: runs whose intermediate results are hopeless end before they are whole.

Two rules of the field. The *median rule* stops a run if its best result so far is worse than the
median of those that the other runs had at the same step (Golovin et al. 2017, Google Vizier,
section 3.2.2, with the best result in the place of the running average). *Successive halving*
looks only at steps ``first_step x factor^k``, and lets the best ``1 / factor`` of the runs that
have come so far go on, whether or not the others have (Li et al. 2020, A system for massively
parallel hyperparameter tuning, algorithm 2).
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from assistant.core.errors import ObjectiveError, SettingsError
from assistant.core.objective import Measure, Objective

StopRule: TypeAlias = Literal["median", "halving"]

Rank: TypeAlias = tuple[float, float]
"""Minus the constraint violation and the quality of a result; the greater is better."""

STOP_RULES: Mapping[StopRule, str] = {
    "median": "the median rule",
    "halving": "successive halving",
}


@dataclass(frozen=True, slots=True)
class EarlyStopping:
    """Settings of early stopping.

    Args:
        step: measure that counts the steps of a run, such as an epoch; it only grows.
        rule: rule by which a run is hopeless.
        first_step: step before which no run is stopped.
        factor: ratio of the steps at which successive halving looks, and share that goes on.
        others: number of other runs that must have come as far.
    """

    step: str
    rule: StopRule = "median"
    first_step: float = 1.0
    factor: float = 3.0
    others: int = 5

    def __post_init__(self) -> None:
        """Raise SettingsError for a setting that has no meaning."""
        if not self.step:
            raise SettingsError("early stopping needs the measure that counts steps; name it")
        if self.rule not in get_args(StopRule):
            raise SettingsError(f"a rule of early stopping is median or halving, not '{self.rule}'")
        if not 0 < self.first_step < math.inf:
            raise SettingsError(
                f"the first step of early stopping must be above 0, not {self.first_step:g}"
            )
        if not 1 < self.factor < math.inf:
            raise SettingsError(
                f"the factor of early stopping must be above 1, not {self.factor:g}"
            )
        if self.others < 1:
            raise SettingsError(
                f"early stopping compares with at least 1 other run, not {self.others}"
            )

    def __str__(self) -> str:
        return STOP_RULES[self.rule]

    @property
    def share(self) -> float:
        """Share of the runs, the best ones, that goes on."""
        return 0.5 if self.rule == "median" else 1 / self.factor

    def looks_at(self, before: float, step: float) -> float | None:
        """Return the step to compare at after a run came from one step to another, or None."""
        if step < self.first_step:
            return None
        if self.rule == "median":
            return step
        exponent = math.floor(math.log(step / self.first_step, self.factor) + 1e-9)
        rung = self.first_step * self.factor**exponent
        return rung if before < rung else None


class LearningCurves:
    """Best results of runs by their steps, and the decision whether one is hopeless.

    A run has the best of its results up to a step, so that results at steps between do not matter.
    """

    def __init__(self, settings: EarlyStopping, objective: Objective) -> None:
        self._settings, self._objective = settings, objective
        self._curves: dict[int, tuple[tuple[float, Rank], ...]] = {}
        self._before: dict[int, float] = {}

    def copied(self, settings: EarlyStopping | None = None) -> LearningCurves:
        """Return curves that change apart from these, for other settings with the same step."""
        other = LearningCurves(settings or self._settings, self._objective)
        other._curves, other._before = self._curves.copy(), self._before.copy()
        return other

    def drop(self, run_id: int) -> None:
        """Forget a run that starts anew, or has no result."""
        self._curves.pop(run_id, None)
        self._before.pop(run_id, None)

    def add(self, run_id: int, measures: Mapping[str, Measure]) -> None:
        """Add an intermediate or last result; one without step or value is left out."""
        step = measures.get(self._settings.step)
        if not isinstance(step, int | float) or not math.isfinite(step):
            return
        try:
            found = self._objective.assess(measures)
        except ObjectiveError:
            return
        rank = (-found.violation, found.quality)
        curve = self._curves.get(run_id, ())
        before, best = curve[-1] if curve else (-math.inf, rank)
        if step >= before:
            self._before[run_id] = before
            self._curves[run_id] = (*curve, (float(step), max(rank, best)))

    def step_of(self, run_id: int) -> float | None:
        """Return the last step of a run, None if it reported none."""
        curve = self._curves.get(run_id)
        return curve[-1][0] if curve else None

    def hopeless(self, run_id: int) -> str | None:
        """Return why a run shall be stopped after its latest result, None if it shall go on."""
        curve = self._curves.get(run_id)
        if not curve:
            return None
        settings, (step, own) = self._settings, curve[-1]
        at = settings.looks_at(self._before[run_id], step)
        if at is None:
            return None
        others = list(self._at(at, run_id))
        if len(others) < settings.others:
            return None
        n, better = len(others), sum(rank > own for rank in others)
        # it stays if it is among the best ``share`` of all that came so far, itself included
        if better < max(1.0, settings.share * (n + 1)):
            return None
        return f"at {settings.step} {at:g}, {better} of {n} other runs were better"

    def _at(self, step: float, but: int) -> Iterator[Rank]:
        """Yield the best result up to a step of each other run that has come so far."""
        for run_id, curve in self._curves.items():
            if run_id != but and curve[-1][0] >= step:
                place = bisect_right(curve, step, key=lambda point: point[0])
                if place:
                    yield curve[place - 1][1]
