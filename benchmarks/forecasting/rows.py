"""What a forecaster is asked: at run n of a budget B, is this goal reached with what is left?

One more question has no goal: does the end leave more than 5 % of the way from the best possible
value to the median on the table? It is asked whether or not that is reached already.

The list is fixed: n in 15, 25, 40, 60; B in 30, 60, 100; three goals that know the truth (the best
2 % of the rows, the best 0.5 %, within 1 % of the best) and four that a person would name after the
first ten runs (5, 10, 20, 50 % better than the best of them). Goals that are reached already are
not asked for. What is told of the runs so far comes from the functions that the product uses.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from assistant.analysis.forecast_features import CLOSE, ForecastEvidence, features
from benchmarks.spaces import Problem
from strategies import Configuration, Failure, Knowledge, Observation, UntriedPredictions

Floats = NDArray[np.float64]

USED = (15, 25, 40, 60)
BUDGETS = (30, 60, 100)
FIRST = 10

DRAWN = 0.65
"""Weight of all drawn spaces in a fit; chosen by leaving out families of the others."""
TRUE_GOALS = ("best 2 %", "best 0.5 %", "optimum + 1 %")
END = "within 5 %"
USER_GOALS = {"5 % better": 0.05, "10 % better": 0.1, "20 % better": 0.2, "50 % better": 0.5}


@dataclass(frozen=True, slots=True)
class Episode:
    """One method on one space with one seed.

    Args:
        problem: the space.
        driver: the method, as written at the command line.
        seed: of the episode.
        proposals: indices of the runs in order.
    """

    problem: Problem
    driver: str
    seed: int
    proposals: tuple[int, ...]

    @property
    def values(self) -> Floats:
        """The objective of every run, float64 [n], NaN where it failed."""
        return self.problem.objective[list(self.proposals)]

    def knows(self, budget: int) -> bool:
        """Whether it is known what a budget gives: it ran so long, or it had found the optimum."""
        return self.is_over or len(self.proposals) >= budget

    @property
    def is_over(self) -> bool:
        """Whether nothing better can come: the optimum was found, or everything was run."""
        found = np.nanmin(self.values, initial=np.inf) <= self.problem.valid[0]
        return bool(found) or len(self.proposals) >= self.problem.size

    def goals(self) -> dict[str, float]:
        """Return the goals by name, the objective to be reached."""
        valid = self.problem.valid
        found = {
            "best 2 %": float(valid[max(0, math.ceil(0.02 * len(valid)) - 1)]),
            "best 0.5 %": float(valid[max(0, math.ceil(0.005 * len(valid)) - 1)]),
            "optimum + 1 %": self.problem.goal(0.01),
        }
        first = self.values[:FIRST]
        if not np.isnan(first).all():
            best = float(np.nanmin(first))
            found |= {name: best - share * abs(best) for name, share in USER_GOALS.items()}
        return found

    def reached(self, goal: float) -> float:
        """Return the run that first reached a goal, from 1 on; infinite if none did."""
        hits = np.flatnonzero(self.values <= goal)
        return float(hits[0]) + 1 if hits.size else math.inf

    def knowledge(self, over: Sequence[int]) -> Knowledge:
        """Return what a strategy knows when these runs (from 0) are over."""
        space, values = self.problem.space, self.values[list(over)]
        runs = [self.problem.configuration(self.proposals[i]) for i in over]
        told = list(zip(runs, (float(value) for value in values), strict=True))
        return Knowledge(
            space,
            tuple(Observation(run, -value) for run, value in told if not math.isnan(value)),
            tuple(Failure(run, "not in the table") for run, value in told if math.isnan(value)),
        )

    def evidence(self, over: Sequence[int]) -> ForecastEvidence:
        """Return what the product would look at when these runs (from 0, in order) are over."""
        distinct: dict[Configuration, float] = {}
        knowledge = self.knowledge(over)
        for observation in knowledge.observations:
            distinct.setdefault(observation.configuration, -observation.quality)
        losses = [None if math.isnan(value) else float(value) for value in self.values[list(over)]]
        return ForecastEvidence(
            size=self.problem.size,
            losses=tuple(sorted(distinct.values())),
            in_order=tuple(losses),
            reach=UntriedPredictions.of(knowledge),
        )


@dataclass(frozen=True, slots=True)
class Rows:
    """Questions with their answers, one a row; every array is [n].

    Args:
        space, kind, family, driver, seed: of the episode.
        used, budget, goal: the question.
        left: budget - used.
        x: ln left, then the features of a forecast, float64 [n, terms]; see `calibration.TERMS`.
        missed: 1.0 if the goal is not reached within the budget.
        further: runs until it is reached; infinite if the episode does not.
        known: further runs of which it is known whether they reached it.
        line: what the best-so-far line says: 1.0 for a miss.
        paper: soft share of the paper's rule by reading, float64 [n, readings]; above 0 is a miss,
            NaN is no forecast.
    """

    space: NDArray[np.str_]
    kind: NDArray[np.str_]
    family: NDArray[np.str_]
    driver: NDArray[np.str_]
    seed: NDArray[np.int64]
    used: NDArray[np.int64]
    budget: NDArray[np.int64]
    goal: NDArray[np.str_]
    left: Floats
    x: Floats
    missed: Floats
    further: Floats
    known: Floats
    line: Floats
    paper: Floats

    def __len__(self) -> int:
        return len(self.missed)

    def at(self, mask: NDArray[np.bool_]) -> Rows:
        """Return the rows of a mask."""
        return Rows(*(getattr(self, field.name)[mask] for field in fields(self)))

    @property
    def weights(self) -> Floats:
        """Each space counts the same, float64 [n]."""
        return weights_of(self.space)


@dataclass(frozen=True, slots=True)
class Bests:
    """How far the best got: as `Rows`, with the best itself as the goal.

    Args:
        steps: ln(0.03 + steps from the best after ``used`` runs to that of the budget).
    """

    space: NDArray[np.str_]
    kind: NDArray[np.str_]
    family: NDArray[np.str_]
    driver: NDArray[np.str_]
    x: Floats
    steps: Floats

    def at(self, mask: NDArray[np.bool_]) -> Bests:
        """Return the rows of a mask."""
        return Bests(*(getattr(self, field.name)[mask] for field in fields(self)))


def weights_of(space: NDArray[np.str_]) -> Floats:
    """Return weights under which each space counts the same, with mean 1."""
    _, which, counts = np.unique(space, return_inverse=True, return_counts=True)
    weights = 1.0 / counts[which]
    return np.asarray(weights * len(weights) / weights.sum())


def fit_weights(space: NDArray[np.str_], kind: NDArray[np.str_]) -> Floats:
    """Return weights of a fit, with mean 1: of drawn spaces, which are many, a fixed share."""
    weights, is_drawn = weights_of(space), kind == "drawn"
    if is_drawn.all() or not is_drawn.any():
        return weights
    shares = np.where(
        is_drawn, DRAWN / weights[is_drawn].sum(), (1 - DRAWN) / weights[~is_drawn].sum()
    )
    return np.asarray(weights * shares * len(weights))


def family_of(name: str) -> str:
    """Return what a space is a relative of, by the first word of its name."""
    first = name.split(" ", maxsplit=1)[0]
    return first if first.startswith("drawn-") else first.split("_", maxsplit=1)[0]


def ask(episode: Episode, readings: Mapping[str, object]) -> tuple[list[tuple], list[tuple]]:  # type: ignore[type-arg]
    """Return the rows of one episode, for `Rows` and for `Bests`."""
    from benchmarks.forecasting.baselines import extrapolated, paper_shares

    rows: list[tuple] = []  # type: ignore[type-arg]
    bests: list[tuple] = []  # type: ignore[type-arg]
    problem, n_runs = episode.problem, len(episode.proposals)
    goals = episode.goals() | {END: problem.goal(0.05)}
    at = {name: episode.reached(goal) for name, goal in goals.items()}
    who = (problem.name, problem.kind, family_of(problem.name), episode.driver)
    for used in USED:
        budgets = [b for b in BUDGETS if b > used and episode.knows(b)]
        if n_runs < used or not budgets:
            continue
        evidence = episode.evidence(range(used))
        if evidence.silence:
            continue
        values = episode.values[:used]
        shares: list[int | None] = [None] * len(readings)
        if problem.kind != "drawn":  # they are many, and the rule is not fitted to anything
            shares = paper_shares(episode.knowledge(range(used)), readings)
        at_best = tuple(features(evidence, evidence.losses[0]).values())
        for budget in budgets:
            best = min(float(np.nanmin(episode.values[:budget])), evidence.losses[0])
            steps = math.log(CLOSE + evidence.steps_from_best(best))
            bests.append((*who, (math.log(budget - used), *at_best), steps))
        for name, goal in goals.items():
            if name != END and at[name] <= used:
                continue
            told = at_best if name == END else tuple(features(evidence, goal).values())
            for budget in budgets:
                left = float(budget - used)
                known = math.inf if n_runs < max(BUDGETS) else float(n_runs - used)
                rows.append(
                    (
                        *who, episode.seed, used, budget, name, left, (math.log(left), *told),
                        float(at[name] > budget), at[name] - used, known,
                        float(extrapolated(values, budget) > goal),
                        tuple(_soft(pending, left) for pending in shares),
                    )
                )  # fmt: skip
    return rows, bests


def _soft(pending: int | None, left: float) -> float:
    """Return 1 - R / pending, the paper's shortfall as a share; 0 without one, NaN if unknown."""
    if pending is None:
        return math.nan
    return 0.0 if pending == 0 else max(0.0, 1.0 - left / pending)


def gather(found: Iterable[tuple[list[tuple], list[tuple]]]) -> tuple[Rows, Bests]:  # type: ignore[type-arg]
    """Return all rows as arrays."""
    rows: list[tuple] = []  # type: ignore[type-arg]
    bests: list[tuple] = []  # type: ignore[type-arg]
    for own, best in found:
        rows += own
        bests += best
    return (
        Rows(*(np.array(column) for column in _columns(rows, len(fields(Rows))))),
        Bests(*(np.array(column) for column in _columns(bests, len(fields(Bests))))),
    )


def _columns(rows: Sequence[tuple], n: int) -> list[tuple]:  # type: ignore[type-arg]
    return list(zip(*rows, strict=True)) if rows else [()] * n
