"""Calibration: fitted logistic model of the chance that an experiment reaches its goal.

With R runs left, n used and N combinations (`ForecastEvidence` has the rest)::

    logit P(missed) = a - b ln R + c ln n + d ln N + e tail + f stale - g reach + offset(strategy)

so the run that reaches it is log-logistic, P(T <= R) = 1 / (1 + (tau / R)^b). ``reach`` is the
number of standard deviations by which the most promising untried configuration lies beyond the
goal, under the model of main effects and interactions. The quantiles of the best value::

    ln(0.03 + steps) = a - ... with the same terms, and ``reach`` with the best as the goal

All coefficients were fitted to simulated episodes by ``python -m benchmarks.forecast --fit``.
Signs are constrained: more runs never hurt, a harder goal never helps.
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
"""Smallest numbers of runs and results for a forecast: fewer do not show the size of a step."""

N_STEPS = 3  # Results next to the best whose mean distance from it is the size of a step

LEAST_STEP = 0.02  # Smallest step as a share of the spread, where the top results are equal


@dataclass(frozen=True, slots=True)
class ForecastEvidence:
    """Features of the results so far from which the forecast is computed.

    Args:
        size: combinations of the open levels.
        losses: losses of distinct configurations with a feasible result, ascending; less is better.
        stale: share of the runs since the last improvement, 0 to 1, its own run counted.
        reach: model predictions for the untried configurations; None without a model.
    """

    used: int
    size: int
    losses: tuple[float, ...]
    stale: float
    reach: UntriedPredictions | None

    @property
    def spread(self) -> float:
        """Median loss minus best loss; a tenth of the range of the losses if that is 0."""
        best = self.losses[0]
        return (median(self.losses) - best) or 0.1 * (self.losses[-1] - best)

    @property
    def floor(self) -> float:
        """Lower bound of losses: 0 if no loss is negative, otherwise minus infinity."""
        return 0.0 if self.losses[0] >= 0 else -math.inf

    @property
    def tail(self) -> float:
        """Relative size of the worst losses: ln(0.01 + (worst - median) / spread).

        Where bad results are far worse than the median, the good ones are many and alike.
        Raises `ValueError` if all results are equal.
        """
        if self.spread <= 0:
            raise ValueError("equal results have no tail")
        return math.log(0.01 + (self.losses[-1] - median(self.losses)) / self.spread)

    @property
    def step(self) -> float:
        """Mean difference between the best loss and the next three; 0 if all losses are equal.

        At least 2 % of the `spread`. Raises `ValueError` with fewer than two results.
        """
        if len(self.losses) < 2:
            raise ValueError("a step needs two results")
        away = fmean(self.losses[1 : 1 + N_STEPS]) - self.losses[0]
        return max(away, LEAST_STEP * self.spread)

    def steps_to(self, goal: float) -> float:
        """Return the distance from the best loss to the goal, in units of `step`.

        Infinite where all results are equal, because the size of a step is unknown.
        """
        away = self.losses[0] - goal
        if away <= 0:
            return away
        return away / self.step if self.step > 0 else math.inf

    @property
    def silence(self) -> str:
        """Reason why there is too little evidence for a forecast; empty if there is enough."""
        if self.used < LEAST_RUNS:
            return f"{_runs(self.used)} ended, and a forecast needs {LEAST_RUNS}"
        if len(self.losses) < LEAST_RESULTS:
            n = len(self.losses)
            subject = "1 configuration has" if n == 1 else f"{n} configurations have"
            return (
                f"{subject} a result that meets every constraint, and a forecast needs "
                f"{LEAST_RESULTS}"
            )
        if self.step <= 0:
            return "all results are equal, so the size of a change is unknown"
        if self.reach is None:
            return "no configuration is left to try"
        return ""


def _runs(n: int) -> str:
    return "1 run has" if n == 1 else f"{n} runs have"


def stale_share(losses: Sequence[float | None]) -> float:
    """Return the share of runs since the last improvement, counting the improving run.

    A loss is None for a run without a feasible result; the runs are in order of completion.

    >>> stale_share([5.0, None, 4.0, 4.5]), stale_share([])
    (0.5, 1.0)
    """
    last, best = 0, math.inf
    for i, loss in enumerate(losses):
        if loss is not None and loss < best:
            last, best = i, loss
    return (len(losses) - last) / len(losses) if losses else 1.0


NEAR = 0.03  # Added to steps, so that the logarithm of no improvement exists

TESTED_LEFT = 85
TESTED_GOAL = 10  # Largest tested number of ended runs when the goal was set

TESTED_USED = (12, 90)
TESTED_SIZE = (100, 57_000)
TESTED_TAIL = (-2.0, 10.0)
TESTED_REACH = (-12.0, 1.0)
"""Ranges of the fit; inputs are clipped to them, and the forecast adds a caution."""

SPREAD = 1.0  # Logits by which single spaces differ from the mean: about three in four lie within

TERMS = ("left", "used", "size", "tail", "stale", "reach")

SHARES = (0.1, 0.5, 0.9)  # Quantiles of the best: shares of the futures that do at least as well


@dataclass(frozen=True, slots=True)
class ModelCoefficients:
    """Intercept and named coefficients of one logistic or one quantile regression."""

    intercept: float
    of: Mapping[str, float]

    def at(self, inputs: Mapping[str, float]) -> float:
        """Return the linear predictor for the inputs, without the term of the remaining runs."""
        return self.intercept + sum(self.of[name] * x for name, x in inputs.items())


@dataclass(frozen=True, slots=True)
class ForecastCalibration:
    """Fitted coefficients of the forecast models for the chance of the goal and the best loss.

    Args:
        missed: coefficients of logit P(missed).
        best: coefficients of ln(0.03 + steps of the best), by the share of the futures that get at
            least so far.
        offsets: offsets of ``missed`` by strategy; greater is worse.
        exploitation: additions to the offset by strategy and exploitation level: it helps GRASP
            and harms a strategy that weighs both parts itself.
        warn: probability of a miss from which a warning may be given, by strategy.
    """

    version: str
    fitted: str
    missed: ModelCoefficients
    best: Mapping[float, ModelCoefficients]
    offsets: Mapping[str, float]
    exploitation: Mapping[str, Mapping[float, float]]
    warn: Mapping[str, float]

    def offset(self, strategy: str, exploitation: float | None = None) -> float:
        """Return the amount that a strategy adds to the logit of the chance to miss the goal."""
        tested_offset = self.offsets.get(strategy)
        base_offset = fmean(self.offsets.values()) if tested_offset is None else tested_offset
        if exploitation is None or not self.exploitation:
            return base_offset
        strategy_table = self.exploitation.get(strategy)
        tables = list(self.exploitation.values()) if strategy_table is None else [strategy_table]
        return base_offset + fmean(_between(table, exploitation) for table in tables)

    def hardness(self, evidence: ForecastEvidence, goal: float, offset: float) -> float:
        """Return the logit of P(goal missed) with one run left; ``goal`` is a loss to reach."""
        return self.missed.at(model_inputs(evidence, goal)) + offset

    def chance(self, hardness: float | Floats, left: Floats) -> Floats:
        """Return the probability that ``left`` further runs reach a goal of this ``hardness``.

        More than `MOST_LEFT` runs count as `MOST_LEFT`, the tested range. ``hardness`` and ``left``
        have any shapes that broadcast.
        """
        with np.errstate(divide="ignore"):
            logit = hardness + self.missed.of["left"] * np.log(np.minimum(left, MOST_LEFT))
        reached = 1.0 / (1.0 + np.exp(np.minimum(logit, 700.0)))
        return np.where(np.asarray(left) > 0, reached, 0.0)

    def runs_by(self, hardness: float, probability: Floats) -> Floats:
        """Return the number of runs that reach the goal with each given probability, in (0, 1)."""
        probabilities = np.asarray(probability, dtype=np.float64)
        logit = hardness + np.log(probabilities) - np.log1p(-probabilities)
        exponent = np.minimum(logit / -self.missed.of["left"], 700.0)
        return np.asarray(np.exp(exponent), dtype=np.float64)

    def best_after(
        self, evidence: ForecastEvidence, offset: float, left: float
    ) -> tuple[float, ...]:
        """Return the 10 %, 50 % and 90 % quantiles of the best loss after ``left`` more runs.

        More than `MOST_LEFT` runs count as `MOST_LEFT`. The evidence must be enough.
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
        """Return one sentence for each input that is outside the range of the calibration."""
        sentences = []
        if strategy not in self.offsets:
            sentences.append(f"the forecast is not calibrated for the strategy {strategy}")
        if not TESTED_SIZE[0] <= evidence.size <= TESTED_SIZE[1]:
            sentences.append(
                f"the forecast was tested on spaces of {TESTED_SIZE[0]} to {TESTED_SIZE[1]:,} "
                f"combinations; this one has {evidence.size:,}"
            )
        if evidence.used > TESTED_USED[1]:
            sentences.append(f"the forecast was tested after at most {TESTED_USED[1]} runs")
        if left is not None and left > TESTED_LEFT:
            sentences.append(f"the forecast was tested with at most {TESTED_LEFT} runs left")
        return tuple(sentences)


def model_inputs(evidence: ForecastEvidence, goal: float) -> dict[str, float]:
    """Return the model inputs by name, clipped to the tested ranges; ``goal`` is a loss."""
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
    """Load the forecast coefficients that are shipped with this version."""
    return read_calibration(Path(__file__).with_name("calibration.json"))


def read_calibration(path: Path) -> ForecastCalibration:
    """Read forecast coefficients from JSON, or raise CodecError if the file is damaged."""
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
    """Write forecast coefficients as JSON, one number per line for readable diffs."""
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
