"""How likely a goal is reached: a logistic in the logarithm of the runs that are left.

With R runs left, n used and N combinations (`Evidence` has the rest)::

    logit P(missed) = a - b ln R + c ln n + d ln N + e tail + f stale - g reach + offset(strategy)

so the run that reaches it is log-logistic, P(T <= R) = 1 / (1 + (tau / R)^b). ``reach`` is how many
standard deviations the most promising untried configuration lies beyond the goal under the model of
main effects and interactions; taken for a probability it is far too sure, as one number of six it
carries what is known of the goal.

How far the best gets has quantiles of its own, in steps between the top results::

    ln(0.03 + steps) = a - ... with the same terms, and ``reach`` of today's best as the goal

All coefficients were fitted to simulated episodes by ``python -m benchmarks.forecast --fit`` and
are shipped; no measured row is. Signs are constrained: more runs never hurt, a harder goal never
helps.

What a forecast looks at: how many runs are over, how large the space is, what they gave.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import fmean, median

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from assistant.core.errors import CodecError
from assistant.core.forecast import MOST_LEFT
from strategies import UntriedPredictions

Floats = NDArray[np.float64]


LEAST_RUNS = 12
LEAST_RESULTS = 8
"""Below either nothing is said: the top results do not show a size of step yet."""

N_STEPS = 3
"""Results next to the best whose mean distance from it is the size of a step."""

LEAST_STEP = 0.02
"""A step is at least this share of the spread, where the top results are equal."""


@dataclass(frozen=True, slots=True)
class ForecastEvidence:
    """What is known of an experiment at one moment.

    Args:
        used: runs that are over, failed ones too.
        size: combinations of the levels that are open.
        losses: of distinct configurations with a feasible result, ascending; less is better.
        stale: share of the runs that came after the last improvement, 0 to 1, its own run counted.
        reach: what the model expects of the untried configurations; None if it cannot say.
    """

    used: int
    size: int
    losses: tuple[float, ...]
    stale: float
    reach: UntriedPredictions | None

    @property
    def spread(self) -> float:
        """Median - best, or a tenth of the range where that is 0. Raises without a result."""
        best = self.losses[0]
        return (median(self.losses) - best) or 0.1 * (self.losses[-1] - best)

    @property
    def floor(self) -> float:
        """The least loss that is told: 0 where no result is below, as of times and errors."""
        return 0.0 if self.losses[0] >= 0 else -math.inf

    @property
    def tail(self) -> float:
        """How long the tail of bad results is: ln(0.01 + (worst - median) / spread).

        Where bad results are far worse than the usual one the good ones are many and alike.
        Raises `ValueError` if all results are equal.
        """
        if self.spread <= 0:
            raise ValueError("equal results have no tail")
        return math.log(0.01 + (self.losses[-1] - median(self.losses)) / self.spread)

    @property
    def step(self) -> float:
        """The mean distance of the three results next to the best one; 0 if all are equal.

        At least 2 % of the spread, which is median - best, or a tenth of the range if that is 0.
        Raises `ValueError` with fewer than two results.
        """
        if len(self.losses) < 2:
            raise ValueError("a step needs two results")
        away = fmean(self.losses[1 : 1 + N_STEPS]) - self.losses[0]
        return max(away, LEAST_STEP * self.spread)

    def steps_to(self, goal: float) -> float:
        """Return how many steps the goal (a loss) lies beyond the best; 0 or less if reached.

        Infinite where all results are equal: nothing shows how far a step goes.
        """
        away = self.losses[0] - goal
        if away <= 0:
            return away
        return away / self.step if self.step > 0 else math.inf

    @property
    def silence(self) -> str:
        """Say why it is too little for a forecast; empty if it is enough."""
        if self.used < LEAST_RUNS:
            return f"{_runs(self.used)} over, and a forecast needs {LEAST_RUNS}"
        if len(self.losses) < LEAST_RESULTS:
            n = len(self.losses)
            subject = "1 configuration has" if n == 1 else f"{n} configurations have"
            return f"{subject} a result that meets every constraint, and a forecast needs {LEAST_RESULTS}"
        if self.step <= 0:
            return "all results are equal, so that nothing shows how far a change goes"
        if self.reach is None:
            return "nothing is left to try"
        return ""


def _runs(n: int) -> str:
    return "1 run is" if n == 1 else f"{n} runs are"


def stale_share(losses: Sequence[float | None]) -> float:
    """Return the share of the runs since the last improvement, that run counted.

    Args:
        losses: of the runs in order of completion, None of one without a feasible result.

    >>> stale_share([5.0, None, 4.0, 4.5]), stale_share([])
    (0.5, 1.0)
    """
    last, best = 0, math.inf
    for i, loss in enumerate(losses):
        if loss is not None and loss < best:
            last, best = i, loss
    return (len(losses) - last) / len(losses) if losses else 1.0


NEAR = 0.03
"""Added to steps, so that no improvement has a logarithm."""

TESTED_LEFT = 85
TESTED_GOAL = 10
"""Runs that were over, at most, when a goal was named."""

TESTED_USED = (12, 90)
TESTED_SIZE = (100, 57_000)
TESTED_TAIL = (-2.0, 10.0)
TESTED_REACH = (-12.0, 1.0)
"""Ranges that the fit has seen; inputs are taken into them, and the forecast says so."""

SPREAD = 1.0
"""Logits by which single spaces differ from their kind: about three in four lie within."""

TERMS = ("left", "used", "size", "tail", "stale", "reach")
"""The numbers of a forecast, in the order of coefficients."""

SHARES = (0.1, 0.5, 0.9)
"""Of the futures that do at least as well: the quantiles of the best that are told."""


@dataclass(frozen=True, slots=True)
class ModelCoefficients:
    """Coefficients of one logistic or one quantile.

    Args:
        intercept: a.
        of: by name, see `TERMS`; greater always makes a greater answer.
    """

    intercept: float
    of: Mapping[str, float]

    def at(self, inputs: Mapping[str, float]) -> float:
        """Return the answer but for the runs that are left."""
        return self.intercept + sum(self.of[name] * x for name, x in inputs.items())


@dataclass(frozen=True, slots=True)
class ForecastCalibration:
    """The coefficients, as they are shipped.

    Args:
        version: of the fit.
        fitted: what it was fitted to, for people.
        missed: of logit P(missed).
        best: of ln(0.03 + steps that the best gets), by the share of the futures that get at least
            so far.
        offsets: of ``missed`` by strategy; greater is worse.
        exploitation: by strategy, what each exploitation level adds to its offset: it helps GRASP
            and harms a strategy that weighs both by itself.
        warn: probability of a miss from which an alarm may be given, by strategy.
    """

    version: str
    fitted: str
    missed: ModelCoefficients
    best: Mapping[float, ModelCoefficients]
    offsets: Mapping[str, float]
    exploitation: Mapping[str, Mapping[float, float]]
    warn: Mapping[str, float]

    def offset(self, strategy: str, exploitation: float | None = None) -> float:
        """Return what a strategy adds, with the exploitation level that it is held to.

        For one that is not known, the mean of those that are.
        """
        tested_offset = self.offsets.get(strategy)
        base_offset = fmean(self.offsets.values()) if tested_offset is None else tested_offset
        if exploitation is None or not self.exploitation:
            return base_offset
        strategy_table = self.exploitation.get(strategy)
        tables = list(self.exploitation.values()) if strategy_table is None else [strategy_table]
        return base_offset + fmean(_between(table, exploitation) for table in tables)

    def hardness(self, evidence: ForecastEvidence, goal: float, offset: float) -> float:
        """Return logit P(missed) with a single run left.

        Args:
            evidence: enough of it (`ForecastEvidence.silence` is empty).
            goal: a loss that is not reached yet.
            offset: of the strategy; see `offset`.
        """
        return self.missed.at(model_inputs(evidence, goal)) + offset

    def chance(self, hardness: float | Floats, left: Floats) -> Floats:
        """Return the probability of reaching the goal within ``left`` runs, 0 with none.

        Of more than `MOST_LEFT` runs it is that of so many: nothing shows what comes of more.

        Args:
            hardness: as `hardness` gives it, any shape that broadcasts with ``left``.
            left: float64, any shape, at least 0.
        """
        with np.errstate(divide="ignore"):
            logit = hardness + self.missed.of["left"] * np.log(np.minimum(left, MOST_LEFT))
        reached = 1.0 / (1.0 + np.exp(np.minimum(logit, 700.0)))
        return np.where(np.asarray(left) > 0, reached, 0.0)

    def runs_by(self, hardness: float, probability: Floats) -> Floats:
        """Return the runs within which the goal is reached with each probability in (0, 1)."""
        probabilities = np.asarray(probability, dtype=np.float64)
        logit = hardness + np.log(probabilities) - np.log1p(-probabilities)
        exponent = np.minimum(logit / -self.missed.of["left"], 700.0)
        return np.asarray(np.exp(exponent), dtype=np.float64)

    def best_after(
        self, evidence: ForecastEvidence, offset: float, left: float
    ) -> tuple[float, ...]:
        """Return quantiles of the best loss after ``left`` further runs, one for each of `SHARES`.

        Args:
            evidence: enough of it.
            offset: of the strategy.
            left: runs, at least 0; more than `MOST_LEFT` count as so many.
        """
        best = evidence.losses[0]
        if left <= 0:
            return (best,) * len(SHARES)
        numbers = model_inputs(evidence, best)
        mean = fmean(self.offsets.values())
        logs = [
            terms.at(numbers)
            + terms.of["left"] * math.log(min(left, MOST_LEFT))
            + terms.of["offset"] * (offset - mean)
            for terms in (self.best[share] for share in SHARES)
        ]
        steps = sorted((max(math.exp(min(x, 50.0)) - NEAR, 0.0) for x in logs), reverse=True)
        return tuple(max(best - n_steps * evidence.step, evidence.floor) for n_steps in steps)

    def cautions(
        self, evidence: ForecastEvidence, strategy: str, left: float | None
    ) -> tuple[str, ...]:
        """Say what lies outside of what was tested."""
        sentences = []
        if strategy not in self.offsets:
            sentences.append(f"the strategy {strategy} was not tested: uncalibrated")
        if not TESTED_SIZE[0] <= evidence.size <= TESTED_SIZE[1]:
            sentences.append(
                f"tested on spaces of {TESTED_SIZE[0]} to {TESTED_SIZE[1]:,} combinations, and "
                f"this one has {evidence.size:,}"
            )
        if evidence.used > TESTED_USED[1]:
            sentences.append(f"tested after at most {TESTED_USED[1]} runs")
        if left is not None and left > TESTED_LEFT:
            sentences.append(f"tested with at most {TESTED_LEFT} runs left")
        return tuple(sentences)


def model_inputs(evidence: ForecastEvidence, goal: float) -> dict[str, float]:
    """Return the numbers of a forecast but for the runs that are left, within the tested ranges.

    Args:
        evidence: enough of it.
        goal: a loss; today's best asks for any improvement.
    """
    if evidence.reach is None:
        raise ValueError("nothing is left to try")
    return {
        "used": math.log(_within(evidence.used, TESTED_USED)),
        "size": math.log(_within(evidence.size, TESTED_SIZE)),
        "tail": _within(evidence.tail, TESTED_TAIL),
        "stale": evidence.stale,
        "reach": _within(evidence.reach.beyond(-goal), TESTED_REACH),
    }


def _between(levels: Mapping[float, float], level: float) -> float:
    points = {0.0: 0.0, **levels}
    at = sorted(points)
    return float(np.interp(level, at, [points[x] for x in at]))


def _within(value: float, bounds: tuple[float, float]) -> float:
    return min(max(value, bounds[0]), bounds[1])


@cache
def load_calibration() -> ForecastCalibration:
    """Return the coefficients that come with this version."""
    return read_calibration(Path(__file__).with_name("calibration.json"))


def read_calibration(path: Path) -> ForecastCalibration:
    """Read coefficients; see `write_calibration`.

    Raises:
        CodecError: the file is missing, or damaged.
    """
    try:
        text = path.read_text(encoding="utf-8")
        tables = json.loads(text, parse_constant=_refused)
        calibration: ForecastCalibration = TypeAdapter(ForecastCalibration).validate_python(tables)
        for terms in (calibration.missed, *calibration.best.values()):
            if not set(TERMS) <= set(terms.of):
                raise ValueError("a coefficient is missing")
    except (OSError, ValueError, RecursionError) as error:
        raise CodecError(
            f"'{path}' is no calibration of the forecast; install Copperline again"
        ) from error
    return calibration


def _refused(number: str) -> float:
    raise ValueError(f"{number} is not finite")


def write_calibration(calibration: ForecastCalibration, path: Path) -> None:
    """Write coefficients as JSON, one number a line: a refit is a readable difference."""
    tables = {
        "version": calibration.version,
        "fitted": calibration.fitted,
        "missed": _plain(calibration.missed),
        "best": {
            f"{share:g}": _plain(coefficients)
            for share, coefficients in sorted(calibration.best.items())
        },
        "offsets": _rounded(calibration.offsets),
        "exploitation": {
            name: _rounded({f"{level:g}": x for level, x in table.items()})
            for name, table in sorted(calibration.exploitation.items())
        },
        "warn": _rounded(calibration.warn),
    }
    path.write_text(json.dumps(tables, indent=2) + "\n", encoding="utf-8")


def _plain(terms: ModelCoefficients) -> dict[str, object]:
    return {"intercept": round(terms.intercept, 4), "of": _rounded(terms.of)}


def _rounded(numbers: Mapping[str, float]) -> dict[str, float]:
    return {name: round(float(x), 4) for name, x in sorted(numbers.items())}
